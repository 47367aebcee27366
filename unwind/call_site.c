/* SPDX-License-Identifier: MIT */
/*
 * From a return address to the call before it and the function that was called: through PLT stubs,
 * GOT slots (by their relocations, as the copy of a stack has no GOT) and plain jumps. What guess.c
 * weighs its candidates with, and analysed.c its callers. All bytes are hostile: every read and
 * list is bounded. Encodings: Intel SDM volume 2, chapter 2 and appendix A.
 */
#include "unwind/internal.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "elf/dynamic.h"
#include "x86/x86.h"

enum {
	CALL_BYTES = 7, /* longest "call *operand" without prefixes that change nothing */
	STUB_JUMPS = 4,
	MODULE_LIMIT = 512, /* searched for a function */
	FUNCTION_LIMIT = 1 << 16,
};

size_t code_read(const struct module *module, remote_addr address, uint8_t *bytes, size_t size)
{
	while (size && !module_read(module, address - module->load_bias, bytes, size, NULL))
		size /= 2;
	return size;
}

/* Of code made at run time each function may be a module of its own. */
static bool is_code_of(struct unwinder *unwinder, const struct module *module, remote_addr address)
{
	const struct mapping *const mapping = module_table_find(unwinder->modules, address);
	if (!mapping || !mapping->module || !(mapping->protection & PROT_EXEC))
		return false;
	return mapping->module == module ||
	       (module->origin != MODULE_OF_FILE && mapping->module->origin != MODULE_OF_FILE);
}

/* ---- what the dynamic linker puts into a slot ---- */

static bool find_export(const struct module *module, const char *name, Elf64_Sym *symbol)
{
	struct elf_dynamic dynamic;
	const struct module_image image = module_image(module);
	elf_dynamic_read(&dynamic, &image.reader, module->headers.dynamic,
			 module->headers.dynamic_size);
	return elf_dynamic_find(&dynamic, &image.reader, name, symbol);
}

/* A function of neither module: all that matters is whether it may jump on. */
static enum call_kind judge_import(struct unwinder *unwinder, const char *name)
{
	const struct module_table *const modules = unwinder->modules;
	Elf64_Sym symbol;
	for (size_t i = 0; i < modules->module_count && i < MODULE_LIMIT; i++) {
		const struct module *const module = modules->modules[i];
		if (find_export(module, name, &symbol))
			return ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC ||
					       call_target_jumps(unwinder, module->load_bias +
										   symbol.st_value)
				       ? CALL_UNKNOWN
				       : CALL_AWAY;
	}
	return CALL_AWAY;
}

/* The dynamic linker finds functions in it; not in the kernel's, which has "clock_gettime", too. */
static bool is_linked_to(const struct module *other)
{
	return other && strcmp(other->path, "[vdso]") != 0;
}

/* `other`: the module that a function which this one does not define is looked for in. */
static enum call_kind read_slot(struct unwinder *unwinder, const struct module *module,
				const struct module *other, remote_addr slot, remote_addr *target)
{
	struct elf_dynamic dynamic;
	const struct module_image image = module_image(module);
	Elf64_Rela relocation;
	Elf64_Sym symbol;
	char name[ELF_NAME];
	elf_dynamic_read(&dynamic, &image.reader, module->headers.dynamic,
			 module->headers.dynamic_size);
	if (!elf_dynamic_slot(&dynamic, &image.reader, slot - module->load_bias, &relocation))
		return CALL_UNKNOWN;
	const uint32_t type = ELF64_R_TYPE(relocation.r_info);
	if ((type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) ||
	    !elf_dynamic_symbol(&dynamic, &image.reader, (uint32_t)ELF64_R_SYM(relocation.r_info),
				&symbol))
		return CALL_UNKNOWN;
	if (symbol.st_shndx == SHN_UNDEF) {
		if (!elf_dynamic_name(&dynamic, &image.reader, symbol.st_name, name))
			return CALL_UNKNOWN;
		if (!is_linked_to(other) || other == module || !find_export(other, name, &symbol))
			return judge_import(unwinder, name);
		module = other;
	}
	if (ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC)
		return CALL_UNKNOWN;
	*target = module->load_bias + symbol.st_value;
	return CALL_TO;
}

/* ---- the call, and the jumps that it runs into ---- */

/* The slot that a call or jump goes through; false: it goes by other means. */
static bool has_slot(const struct x86_instruction *instruction, remote_addr *slot)
{
	if (!instruction->has_memory || instruction->memory.base != X86_RIP)
		return false;
	*slot = (remote_addr)instruction->memory.displacement;
	return true;
}

static bool read_jump(const struct module *module, remote_addr address,
		      struct x86_instruction *jump)
{
	uint8_t bytes[2 * X86_LENGTH];
	const size_t size = code_read(module, address, bytes, sizeof(bytes));
	return x86_decode_jump(NULL, bytes, size, address, jump);
}

static enum call_kind follow_jumps(struct unwinder *unwinder, const struct module *module,
				   const struct module *other, remote_addr *target)
{
	for (int i = 0; i < STUB_JUMPS; i++) {
		struct x86_instruction jump;
		remote_addr slot;
		if (!read_jump(module, *target, &jump))
			break;
		if (has_slot(&jump, &slot))
			return read_slot(unwinder, module, other, slot, target);
		if (!jump.target || !is_code_of(unwinder, module, jump.target))
			break;
		*target = jump.target;
	}
	return CALL_TO;
}

/* The call of that length that ends at `end`, whose address that is. */
static bool is_call(const uint8_t *end, size_t length, remote_addr address,
		    struct x86_instruction *call)
{
	return x86_decode(end - length, length, address - length, call) && call->length == length &&
	       call->flow == X86_CALL;
}

static enum call_kind read_call(struct unwinder *unwinder, const struct module *module,
				const struct module *other, remote_addr address,
				remote_addr *target)
{
	enum { DIRECT = 5, BY_SLOT = 6 };
	uint8_t bytes[CALL_BYTES];
	const uint8_t *const end = bytes + CALL_BYTES;
	struct x86_instruction call;
	remote_addr slot;
	if (!module_read(module, address - module->load_bias - CALL_BYTES, bytes, CALL_BYTES, NULL))
		return CALL_NONE;
	if (is_call(end, DIRECT, address, &call) && is_code_of(unwinder, module, call.target)) {
		*target = call.target;
		return follow_jumps(unwinder, module, other, target);
	}
	if (is_call(end, BY_SLOT, address, &call) && has_slot(&call, &slot)) /* -fno-plt */
		return read_slot(unwinder, module, other, slot, target);
	for (size_t length = 2; length <= CALL_BYTES; length++)
		if (is_call(end, length, address, &call) && !call.target)
			return CALL_UNKNOWN;
	return CALL_NONE;
}

/*
 * Answers are kept beside the rows, as reading code is a system call: the kind, and the target as
 * its distance from the return address, or from the other module's start.
 */
enum call_kind call_site_find(struct unwinder *unwinder, const struct module *other,
			      remote_addr address, remote_addr *target)
{
	enum { IN_OTHER = 1 << 8 };
	const struct mapping *const mapping = module_table_find(unwinder->modules, address - 1);
	const uint32_t of = other ? (other->id + 1) << 8 : 0;
	uint32_t answer, distance;
	if (!mapping || !(mapping->protection & PROT_EXEC) || !mapping->module)
		return CALL_NONE;
	if (!cache_table_find(&unwinder->answers, address, of | ANSWER_CALL, &answer) ||
	    ((answer & 0xff) == CALL_TO &&
	     !cache_table_find(&unwinder->answers, address, of | ANSWER_TARGET, &distance))) {
		*target = 0;
		answer = read_call(unwinder, mapping->module, other, address, target);
		distance = *target - address;
		if (other && answer == CALL_TO && address + (int64_t)(int32_t)distance != *target) {
			answer |= IN_OTHER;
			distance = *target - other->start;
		}
		cache_table_put(&unwinder->answers, address, of | ANSWER_CALL, answer);
		if ((answer & 0xff) == CALL_TO)
			cache_table_put(&unwinder->answers, address, of | ANSWER_TARGET, distance);
		return answer & 0xff;
	}
	if ((answer & 0xff) != CALL_TO)
		return answer & 0xff;
	*target =
		answer & IN_OTHER ? other->start + distance : address + (int64_t)(int32_t)distance;
	return CALL_TO;
}

/* ---- a function that may jump to another ---- */

static bool is_function(struct unwinder *unwinder, struct module *module, remote_addr address)
{
	struct x86_instruction jump;
	remote_addr slot;
	uint64_t start;
	if (!is_code_of(unwinder, module, address))
		return false;
	if (!frame_index_function(module, address - module->load_bias, &start, NULL) ||
	    start + module->load_bias == address)
		return true;
	/* One FDE covers all stubs of a PLT. */
	return read_jump(module, address, &jump) && has_slot(&jump, &slot);
}

/* What is no code may be anything. `anywhere`: to a part of the function, too, that is elsewhere.
 */
static bool has_jump_out(struct unwinder *unwinder, struct module *module, remote_addr start,
			 const uint8_t *bytes, size_t size, bool anywhere)
{
	struct x86_instruction instruction;
	for (size_t at = 0; at < size; at += instruction.length) {
		if (!x86_decode(bytes + at, size - at, start + at, &instruction))
			return true;
		if (instruction.flow != X86_JUMP && instruction.flow != X86_BRANCH)
			continue;
		if (!instruction.target ||
		    (instruction.target - start >= size &&
		     (anywhere || is_function(unwinder, module, instruction.target))))
			return true;
	}
	return false;
}

static bool may_jump(struct unwinder *unwinder, remote_addr target, enum answer_key key)
{
	const struct mapping *const mapping = module_table_find(unwinder->modules, target);
	struct module *const module = mapping ? mapping->module : NULL;
	uint64_t start, size;
	uint32_t answer = true;
	if (cache_table_find(&unwinder->answers, target, key, &answer))
		return answer;
	if (module && frame_index_function(module, target - module->load_bias, &start, &size) &&
	    size <= FUNCTION_LIMIT) {
		uint8_t *const bytes = alloc_zeroed(size, 1);
		start += module->load_bias;
		answer = code_read(module, start, bytes, size) < size ||
			 has_jump_out(unwinder, module, start, bytes, size, key == ANSWER_LEAVES);
		free(bytes);
	}
	cache_table_put(&unwinder->answers, target, key, answer);
	return answer;
}

bool call_target_jumps(struct unwinder *unwinder, remote_addr target)
{
	return may_jump(unwinder, target, ANSWER_JUMPS);
}

bool call_contradicts(struct unwinder *unwinder, remote_addr address, remote_addr function)
{
	remote_addr target = 0;
	return call_site_find(unwinder, NULL, address, &target) == CALL_TO && target != function &&
	       !may_jump(unwinder, target, ANSWER_LEAVES);
}

size_t code_read_live(const struct unwinder *unwinder, remote_addr address, uint8_t *bytes)
{
	const struct mapping *const mapping = module_table_find(unwinder->modules, address);
	size_t size = CODE_LIVE_BYTES;
	if (mapping && mapping->module && mapping->module->origin == MODULE_OF_PYTHON) {
		while (size && !module_read(mapping->module, address, bytes, size, NULL))
			size--;
		return size;
	}
	if (!unwinder->request.code || !mapping || mapping->module ||
	    !(mapping->protection & PROT_EXEC))
		return 0;
	if (mapping->end - address < size)
		size = mapping->end - address;
	return memory_read(unwinder->request.code, address, bytes, size, NULL) ? size : 0;
}
