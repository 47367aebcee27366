/* SPDX-License-Identifier: MIT */
/*
 * From a return address to the call before it and the function that was called: through PLT stubs,
 * GOT slots (by their relocations, as the copy of a stack has no GOT) and plain jumps. And to
 * where a function's return address is, by its first instructions. What guess.c weighs
 * its candidates with. All bytes are hostile: every read and list is bounded.
 * Encodings: Intel SDM volume 2, chapter 2 and appendix A.
 */
#include "unwind/internal.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"

enum {
	CALL_BYTES = 7, /* longest "call *operand" without prefixes that change nothing */
	STUB_JUMPS = 4,
	DYNAMIC_LIMIT = 128,
	MODULE_LIMIT = 512, /* searched for a function */
	RELOCATION_LIMIT = 1 << 18,
	NAME_SIZE = 256,
	HASH_CHAIN_LIMIT = 64,
	FUNCTION_LIMIT = 1 << 16,
	PROLOGUE_BYTES = 128,
};

static int32_t read_i32(const uint8_t *at)
{
	int32_t value;
	memcpy(&value, at, sizeof(value));
	return value;
}

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

struct dynamic {
	uint64_t jmprel, jmprel_size, rela, rela_size, rela_count, symbols, strings, strings_size,
		hash;
};

static void read_dynamic(const struct module *module, struct dynamic *dynamic)
{
	memset(dynamic, 0, sizeof(*dynamic));
	Elf64_Dyn entries[DYNAMIC_LIMIT];
	size_t count = module->dynamic_size / sizeof(*entries);
	if (count > DYNAMIC_LIMIT)
		count = DYNAMIC_LIMIT;
	if (!module_read(module, module->dynamic, entries, count * sizeof(*entries), NULL))
		return;
	for (size_t i = 0; i < count; i++) {
		const Elf64_Dyn entry = entries[i];
		switch (entry.d_tag) {
		case DT_NULL:
			return;
		case DT_JMPREL:
			dynamic->jmprel = entry.d_un.d_ptr;
			break;
		case DT_PLTRELSZ:
			dynamic->jmprel_size = entry.d_un.d_val;
			break;
		case DT_RELA:
			dynamic->rela = entry.d_un.d_ptr;
			break;
		case DT_RELASZ:
			dynamic->rela_size = entry.d_un.d_val;
			break;
		case DT_RELACOUNT:
			dynamic->rela_count = entry.d_un.d_val;
			break;
		case DT_SYMTAB:
			dynamic->symbols = entry.d_un.d_ptr;
			break;
		case DT_STRTAB:
			dynamic->strings = entry.d_un.d_ptr;
			break;
		case DT_STRSZ:
			dynamic->strings_size = entry.d_un.d_val;
			break;
		case DT_GNU_HASH:
			dynamic->hash = entry.d_un.d_ptr;
			break;
		}
	}
}

static bool find_relocation(const struct module *module, uint64_t table, uint64_t size,
			    uint64_t slot, Elf64_Rela *found)
{
	Elf64_Rela part[128];
	size_t left = size / sizeof(*part);
	if (left > RELOCATION_LIMIT)
		left = RELOCATION_LIMIT;
	while (left) {
		const size_t count = left < 128 ? left : 128;
		if (!module_read(module, table, part, count * sizeof(*part), NULL))
			return false;
		for (size_t i = 0; i < count; i++) {
			if (part[i].r_offset != slot)
				continue;
			*found = part[i];
			return true;
		}
		left -= count;
		table += count * sizeof(*part);
	}
	return false;
}

static bool find_slot(const struct module *module, const struct dynamic *dynamic, uint64_t slot,
		      Elf64_Rela *found)
{
	/* Linkers put the relative ones, which are no functions' names, first: DT_RELACOUNT. */
	const uint64_t skipped = dynamic->rela_count <= dynamic->rela_size / sizeof(*found)
					 ? dynamic->rela_count * sizeof(*found)
					 : dynamic->rela_size;
	return find_relocation(module, dynamic->jmprel, dynamic->jmprel_size, slot, found) ||
	       find_relocation(module, dynamic->rela + skipped, dynamic->rela_size - skipped, slot,
			       found);
}

static bool read_name(const struct module *module, const struct dynamic *dynamic, uint32_t at,
		      char *name)
{
	if (at >= dynamic->strings_size)
		return false;
	const uint64_t left = dynamic->strings_size - at;
	const size_t size = left < NAME_SIZE ? left : NAME_SIZE;
	return module_read(module, dynamic->strings + at, name, size, NULL) &&
	       memchr(name, '\0', size);
}

static bool read_symbol(const struct module *module, const struct dynamic *dynamic, uint32_t index,
			Elf64_Sym *symbol)
{
	return module_read(module, dynamic->symbols + sizeof(*symbol) * (uint64_t)index, symbol,
			   sizeof(*symbol), NULL);
}

/* DT_GNU_HASH: buckets, symbol offset, bloom size, shift; bloom; buckets; chains (glibc,
 * elf/dl-lookup.c: do_lookup_x). */
static bool find_export(const struct module *module, const char *name, Elf64_Sym *symbol)
{
	struct dynamic dynamic;
	uint32_t header[4], hash = 5381, index, link;
	char other[NAME_SIZE];
	read_dynamic(module, &dynamic);
	for (const char *at = name; *at; at++)
		hash = hash * 33 + (uint8_t)*at;
	if (!dynamic.hash || !module_read(module, dynamic.hash, header, sizeof(header), NULL) ||
	    header[0] == 0)
		return false;
	const uint64_t buckets = dynamic.hash + sizeof(header) + UINT64_C(8) * header[2];
	const uint64_t chains = buckets + UINT64_C(4) * header[0];
	if (!module_read(module, buckets + UINT64_C(4) * (hash % header[0]), &index, sizeof(index),
			 NULL) ||
	    index < header[1])
		return false;
	for (int i = 0; i < HASH_CHAIN_LIMIT; i++, index++) {
		if (!module_read(module, chains + UINT64_C(4) * (index - header[1]), &link,
				 sizeof(link), NULL))
			return false;
		if ((link | 1) == (hash | 1) && read_symbol(module, &dynamic, index, symbol) &&
		    symbol->st_shndx != SHN_UNDEF &&
		    read_name(module, &dynamic, symbol->st_name, other) && strcmp(name, other) == 0)
			return true;
		if (link & 1)
			break;
	}
	return false;
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

/* `other`: the module that a function which this one does not define is looked for in. */
static enum call_kind read_slot(struct unwinder *unwinder, const struct module *module,
				const struct module *other, remote_addr slot, remote_addr *target)
{
	struct dynamic dynamic;
	Elf64_Rela relocation;
	Elf64_Sym symbol;
	char name[NAME_SIZE];
	read_dynamic(module, &dynamic);
	if (!find_slot(module, &dynamic, slot - module->load_bias, &relocation))
		return CALL_UNKNOWN;
	const uint32_t type = ELF64_R_TYPE(relocation.r_info);
	if ((type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) ||
	    !read_symbol(module, &dynamic, ELF64_R_SYM(relocation.r_info), &symbol))
		return CALL_UNKNOWN;
	if (symbol.st_shndx == SHN_UNDEF) {
		if (!read_name(module, &dynamic, symbol.st_name, name))
			return CALL_UNKNOWN;
		if (!other || other == module || !find_export(other, name, &symbol))
			return judge_import(unwinder, name);
		module = other;
	}
	if (ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC)
		return CALL_UNKNOWN;
	*target = module->load_bias + symbol.st_value;
	return CALL_TO;
}

/* ---- the call, and the jumps that it runs into ---- */

/* Prefixes of a stub's jump: endbr64, and bnd as of MPX. */
static size_t skip_prefixes(const uint8_t *bytes, size_t size)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	size_t at = 0;
	if (size >= sizeof(endbr64) && memcmp(bytes, endbr64, sizeof(endbr64)) == 0)
		at = sizeof(endbr64);
	return at < size && bytes[at] == 0xf2 ? at + 1 : at;
}

static enum call_kind follow_jumps(struct unwinder *unwinder, const struct module *module,
				   const struct module *other, remote_addr *target)
{
	for (int i = 0; i < STUB_JUMPS; i++) {
		uint8_t bytes[16];
		const size_t size = code_read(module, *target, bytes, sizeof(bytes));
		const size_t at = skip_prefixes(bytes, size);
		if (at + 6 > size)
			break;
		if (bytes[at] == 0xff && bytes[at + 1] == 0x25)
			return read_slot(unwinder, module, other,
					 *target + at + 6 + read_i32(bytes + at + 2), target);
		const bool near = bytes[at] == 0xeb;
		const remote_addr next =
			*target + at +
			(near ? 2 + (int64_t)(int8_t)bytes[at + 1] : 5 + read_i32(bytes + at + 1));
		if ((bytes[at] != 0xe9 && !near) || !is_code_of(unwinder, module, next))
			break;
		*target = next;
	}
	return CALL_TO;
}

/* Length of "call *operand" (ff /2) with this ModRM byte, 0 when it is another instruction.
 * Intel SDM volume 2, table 2-2. */
static size_t call_length(const uint8_t *at)
{
	const unsigned mod = at[1] >> 6, rm = at[1] & 7;
	if (at[0] != 0xff || (at[1] >> 3 & 7) != 2)
		return 0;
	const size_t length = mod != 3 && rm == 4 ? 3 : 2; /* with a SIB byte */
	if (mod == 1)
		return length + 1;
	if (mod == 2 || (mod == 0 && (rm == 5 || (rm == 4 && (at[2] & 7) == 5))))
		return length + 4;
	return length;
}

static enum call_kind read_call(struct unwinder *unwinder, const struct module *module,
				const struct module *other, remote_addr address,
				remote_addr *target)
{
	uint8_t bytes[CALL_BYTES + 2] = {0};
	uint8_t *const end = bytes + CALL_BYTES;
	if (!module_read(module, address - module->load_bias - CALL_BYTES, bytes, CALL_BYTES, NULL))
		return CALL_NONE;
	*target = address + read_i32(end - 4);
	if (end[-5] == 0xe8 && is_code_of(unwinder, module, *target))
		return follow_jumps(unwinder, module, other, target);
	if (end[-6] == 0xff && end[-5] == 0x15) /* through the GOT: -fno-plt */
		return read_slot(unwinder, module, other, *target, target);
	for (size_t length = 2; length <= CALL_BYTES; length++)
		if (call_length(end - length) == length)
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
	uint8_t bytes[16];
	uint64_t start;
	if (!is_code_of(unwinder, module, address))
		return false;
	if (!unwind_function_start(unwinder, module, address - module->load_bias, &start, NULL) ||
	    start + module->load_bias == address)
		return true;
	const size_t size = code_read(module, address, bytes, sizeof(bytes));
	const size_t at = skip_prefixes(bytes, size); /* one FDE covers all stubs of a PLT */
	return at + 2 <= size && bytes[at] == 0xff && bytes[at + 1] == 0x25;
}

/* At every byte, as we do not know where instructions begin: may say yes too often. */
static bool has_jump_out(struct unwinder *unwinder, struct module *module, remote_addr start,
			 const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i + 1 < size; i++) {
		if (bytes[i] == 0xff && (bytes[i + 1] >> 3 & 7) == 4)
			return true;
		const size_t opcode = bytes[i] == 0x0f && bytes[i + 1] >> 4 == 8 ? 2 : 1;
		if ((opcode == 1 && bytes[i] != 0xe9) || i + opcode + 4 > size)
			continue;
		const remote_addr to = start + i + opcode + 4 + read_i32(bytes + i + opcode);
		if (to - start >= size && is_function(unwinder, module, to))
			return true;
	}
	return false;
}

bool call_target_jumps(struct unwinder *unwinder, remote_addr target)
{
	const struct mapping *const mapping = module_table_find(unwinder->modules, target);
	struct module *const module = mapping ? mapping->module : NULL;
	uint64_t start, size;
	uint32_t answer = true;
	if (cache_table_find(&unwinder->answers, target, ANSWER_JUMPS, &answer))
		return answer;
	if (module &&
	    unwind_function_start(unwinder, module, target - module->load_bias, &start, &size) &&
	    size <= FUNCTION_LIMIT) {
		uint8_t *const bytes = alloc_zeroed(size, 1);
		start += module->load_bias;
		answer = code_read(module, start, bytes, size) < size ||
			 has_jump_out(unwinder, module, start, bytes, size);
		free(bytes);
	}
	cache_table_put(&unwinder->answers, target, ANSWER_JUMPS, answer);
	return answer;
}

/* ---- the first and the last instructions of a function ---- */

/* Where the return address is, relative to SP, and to RBP once that is set. */
struct depth {
	uint64_t sp, rbp;
	bool has_rbp;
};

/* "mov %r12,8(%rsp)": its length after the opcode, as ModRM, SIB and displacement tell. */
static size_t operand_length(const uint8_t *at)
{
	const unsigned mod = at[0] >> 6, rm = at[0] & 7;
	return mod == 3 ? 1
			: 1 + (rm == 4) +
				  (mod == 1   ? 1
				   : mod == 2 ? 4
					      : 0) +
				  (mod == 0 && (rm == 5 || (rm == 4 && (at[1] & 7) == 5)) ? 4 : 0);
}

/* The length of one instruction that may stand in a prologue, with what it does to the depth;
 * 0: not one that we know. `at` has 16 bytes. */
static size_t take_instruction(const uint8_t *at, struct depth *depth)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	const bool rex = at[0] >> 4 == 4;
	const bool wide = rex && at[0] & 8;
	const uint8_t *const op = at + rex;
	const bool sp_operand = (op[1] >> 6 == 3 && (op[1] & 7) == 4 && !(rex && at[0] & 1));
	if (memcmp(at, endbr64, sizeof(endbr64)) == 0)
		return sizeof(endbr64);
	if (op[0] >> 3 == 0x50 >> 3) { /* push */
		depth->sp += 8;
		return rex + 1;
	}
	if (wide && (op[0] == 0x83 || op[0] == 0x81) && op[1] == 0xec && sp_operand) { /* sub */
		depth->sp += op[0] == 0x83 ? (int64_t)(int8_t)op[2] : (int64_t)read_i32(op + 2);
		return rex + (op[0] == 0x83 ? 3 : 6);
	}
	if (wide && op[0] == 0x8d && (op[1] == 0x64 || op[1] == 0xa4) && op[2] == 0x24) { /* lea */
		if (at[0] != 0x48)
			return 0;
		depth->sp -= op[1] == 0x64 ? (int64_t)(int8_t)op[3] : (int64_t)read_i32(op + 3);
		return rex + (op[1] == 0x64 ? 4 : 7);
	}
	if ((at[0] == 0x48 && op[0] == 0x89 && op[1] == 0xe5) ||
	    (at[0] == 0x48 && op[0] == 0x8b && op[1] == 0xec)) { /* mov %rsp,%rbp */
		depth->rbp = depth->sp;
		depth->has_rbp = true;
		return 3;
	}
	if (op[0] == 0x89 || op[0] == 0x31 ||
	    op[0] == 0x85) /* mov, xor, test: to registers, memory */
		return sp_operand ? 0 : rex + 1 + operand_length(op + 1);
	if (op[0] >> 3 == 0xb8 >> 3 && op[0] != 0xbc && !wide) /* mov $imm32 */
		return rex + 5;
	return 0;
}

bool prologue_gives_slot(const struct module *module, remote_addr entry,
			 const struct registers *registers, remote_addr slot)
{
	uint8_t bytes[PROLOGUE_BYTES + 16] = {0};
	struct depth depth = {0};
	const remote_addr pc = registers->value[REGISTER_RIP];
	const size_t size = code_read(module, entry, bytes, PROLOGUE_BYTES);
	for (size_t at = 0, length; at < size && entry + at < pc; at += length) {
		length = take_instruction(bytes + at, &depth);
		if (length == 0)
			break;
	}
	if (registers->value[REGISTER_RSP] + depth.sp == slot)
		return true;
	return depth.has_rbp && registers->known >> REGISTER_RBP & 1 &&
	       registers->value[REGISTER_RBP] + depth.rbp == slot;
}
