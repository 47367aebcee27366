/* SPDX-License-Identifier: MIT */
/*
 * From an address in code without unwind information to where its function may begin: a symbol
 * says so, or the information of the function before it ends there; else it is where padding ends
 * behind a return (x86/starts.c). Functions made at run time begin at a page (xbyak gives each a
 * mapping of its own), mostly by pushing what they have to save. What is found is tried by
 * analysed.c: only an entry from which the code leads to the address, with a return address where
 * it must be, counts.
 */
#include "unwind/internal.h"

#include <elf.h>
#include <string.h>

enum {
	PAGE = 4096,
	PAGES_BACK = 256,	 /* the largest kernel made at run time */
	PUSHES = 4,		 /* pages that begin as functions do */
	SWEEP_BYTES = 256 << 10, /* looked through for padding, and up to as many more */
};

/* False: it is there already, or there is no room. */
static bool add(struct code_entries *entries, remote_addr address, remote_addr start,
		remote_addr end, bool proven)
{
	if (entries->count == CODE_ENTRIES || end <= start)
		return false;
	for (size_t i = 0; i < entries->count; i++)
		if (entries->items[i].address == address && entries->items[i].bounds.end == end)
			return false;
	entries->items[entries->count++] =
		(struct code_entry){.address = address, .bounds = {start, end}, .proven = proven};
	return true;
}

/* ---- code of a file ---- */

/* "jmp *slot(%rip)" and what is around it: stubs have neither symbols nor, with lld, information.
 */
static void add_stub(struct code_entries *entries, const struct module *module, uint64_t vaddr)
{
	enum { STUB = 16, JUMP = 6 };
	for (size_t i = 0; i < module->section_count; i++) {
		const struct module_section *const section = &module->sections[i];
		const uint64_t at = vaddr - section->vaddr;
		if (strncmp(section->name, ".plt", 4) != 0 || at >= section->size)
			continue;
		const remote_addr start = module->load_bias + section->vaddr;
		/* The first of .plt is where the others go on. */
		const bool first = strcmp(section->name, ".plt") == 0 && at < STUB;
		const uint64_t stub = first ? STUB : at / STUB * STUB;
		add(entries, start + stub, start, start + section->size, true);
		/* Behind its jump, where it leads until it is bound. */
		add(entries, start + stub + JUMP, start, start + section->size, true);
		add(entries, start + at / 8 * 8, start, start + section->size, true);
		for (size_t k = 0; k < entries->count; k++)
			entries->items[k].stub = true;
		return;
	}
}

/* Those of a kind that say no size, the nearest one first. */
static void add_sizeless(struct code_entries *entries, const struct elf_functions *functions,
			 const struct module *module, const struct elf_function *nearest,
			 const struct code_bounds *gap, enum elf_function_kind kind)
{
	enum { MOST = 6 };
	const size_t before = entries->count;
	for (const struct elf_function *function = nearest;
	     module->load_bias + function->start >= gap->start; function--) {
		const remote_addr start = module->load_bias + function->start;
		if (!function->size && function->kind == kind) {
			if (add(entries, start, start, gap->end, kind != ELF_FUNCTION_LABEL))
				entries->items[entries->count - 1].sizeless = true;
			if (kind == ELF_FUNCTION_SYMBOL || entries->count - before == MOST)
				return;
		}
		if (function->size || function == functions->items)
			return;
	}
}

static void add_symbol(struct code_entries *entries, struct module *module, uint64_t vaddr,
		       const struct code_bounds *gap)
{
	const struct elf_functions *functions = module_functions(module);
	const struct elf_function *function = module_function_before(module, vaddr);
	const remote_addr start = function ? module->load_bias + function->start : 0;
	if (function && function->size && vaddr - function->start < function->size) {
		add(entries, start, start, start + function->size, true);
		return;
	}
	if (function && !function->size)
		add_sizeless(entries, functions, module, function, gap, ELF_FUNCTION_SYMBOL);
	if (entries->count)
		return;
	functions = module_functions_taken(module);
	function = module_function_before(module, vaddr);
	if (function && !function->size) {
		add_sizeless(entries, functions, module, function, gap, ELF_FUNCTION_REFERENCED);
		add_sizeless(entries, functions, module, function, gap, ELF_FUNCTION_LABEL);
	}
}

/* From few places, so that what one site has shown serves the next one; a capture that was made
 * when each site had a place of its own has only the code from there on. */
static const struct x86_starts *sweep_back(const struct entry_source *code, remote_addr site,
					   const struct code_bounds *gap)
{
	const remote_addr own = (site - SWEEP_BYTES) & ~(remote_addr)15;
	const remote_addr shared = own & ~(remote_addr)(SWEEP_BYTES - 1);
	const bool from_gap = shared <= gap->start;
	const struct x86_starts *const found = x86_sweeps_find(
		code->sweeps, code->reader, from_gap ? gap->start : shared, site, from_gap);
	return found->complete ? found
			       : x86_sweeps_find(code->sweeps, code->reader, own, site, false);
}

static void add_swept(struct code_entries *entries, const struct entry_source *code,
		      remote_addr site, const struct code_bounds *gap)
{
	const bool whole = site - gap->start < SWEEP_BYTES;
	const struct x86_starts *const found =
		whole ? x86_sweeps_find(code->sweeps, code->reader, gap->start, site, true)
		      : sweep_back(code, site, gap);
	if (whole && found->first)
		add(entries, found->first, gap->start, gap->end, true);
	for (size_t i = 0; i < X86_STARTS && found->last[i]; i++)
		add(entries, found->last[i], found->last[i], gap->end, false);
}

/*
 * glibc's clone ends its unwind information before the system call, as the child has another stack
 * from there on: what is behind it is the rest of that function.
 */
static void add_before(struct code_entries *entries, struct module *module,
		       const struct code_bounds *gap)
{
	const struct cfi_section *section;
	struct cfi_fde fde;
	if (frame_index_find(module, gap->start - 1 - module->load_bias, &fde, &section))
		add(entries, fde.start, fde.start, gap->end, true);
}

static void find_in_module(const struct mapping *mapping, const struct entry_source *code,
			   remote_addr site, struct code_entries *entries)
{
	struct module *const module = mapping->module;
	const uint64_t vaddr = site - module->load_bias;
	const uint64_t next = frame_index_next(module, vaddr);
	struct code_bounds gap = {module->load_bias + frame_index_gap(module, vaddr), mapping->end};
	const struct cfi_section *section;
	struct cfi_fde fde;
	if (next < UINT64_MAX && module->load_bias + next < gap.end)
		gap.end = module->load_bias + next;
	if (gap.start < mapping->start)
		gap.start = mapping->start;
	entries->around = gap;
	/* Information that is wrong, or cannot be used. */
	if (frame_index_find(module, vaddr, &fde, &section)) {
		entries->around = (struct code_bounds){fde.start, fde.end};
		add(entries, fde.start, fde.start, fde.end, true);
		entries->items[0].only = true;
		return;
	}
	add_stub(entries, module, vaddr);
	if (entries->count)
		return;
	add_symbol(entries, module, vaddr, &gap);
	if (entries->count == 1 && entries->items[0].proven) {
		entries->items[0].only = true;
		return;
	}
	add_swept(entries, code, site, &gap);
	add_before(entries, module, &gap);
}

/* ---- code of no file ---- */

static bool begins_with_push(const struct memory_reader *code, remote_addr address)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	uint8_t bytes[sizeof(endbr64) + X86_LENGTH];
	struct x86_instruction instruction;
	if (!memory_read(code, address, bytes, sizeof(bytes), NULL))
		return false;
	const size_t at = memcmp(bytes, endbr64, sizeof(endbr64)) == 0 ? sizeof(endbr64) : 0;
	if (!x86_decode(bytes + at, sizeof(bytes) - at, address + at, &instruction))
		return false;
	return (instruction.effect == X86_PUSH && instruction.from < X86_REGISTERS &&
		X86_CALLEE_SAVED & X86_BIT(instruction.from)) ||
	       (instruction.effect == X86_ADD && instruction.to == X86_RSP);
}

static void find_in_pages(const struct mapping *mapping, const struct memory_reader *code,
			  remote_addr site, struct code_entries *entries)
{
	remote_addr page = site / PAGE * PAGE;
	entries->around = (struct code_bounds){mapping->start, mapping->end};
	for (int i = 0; i < PAGES_BACK && page >= mapping->start && entries->count < PUSHES;
	     i++, page -= PAGE)
		if (begins_with_push(code, page))
			add(entries, page, page, mapping->end, true);
	page = site / PAGE * PAGE;
	for (int i = 0; i < 2 && page >= mapping->start; i++, page -= PAGE)
		add(entries, page, page, mapping->end, false);
}

void entries_find(const struct mapping *mapping, const struct entry_source *code, remote_addr site,
		  struct code_entries *entries)
{
	entries->count = 0;
	if (mapping->module)
		find_in_module(mapping, code, site, entries);
	else
		find_in_pages(mapping, code->reader, site, entries);
}
