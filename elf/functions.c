/* SPDX-License-Identifier: MIT */
/* From symbol tables to where functions begin. */
#include "elf/elf.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sorted.h"

enum { SYMBOLS_LIMIT = 4 << 20, STEP = 1024 };
enum { LEA_BYTES = 7, CODE_STEP = 64 << 10, CODE_LIMIT = 256 << 20 };

/* Those without a type may be labels: they count where no function says how long it is. */
static bool may_be_function(const Elf64_Sym *symbol)
{
	const unsigned type = ELF64_ST_TYPE(symbol->st_info);
	return symbol->st_value && symbol->st_shndx != SHN_UNDEF && symbol->st_shndx != SHN_ABS &&
	       (type == STT_FUNC || type == STT_NOTYPE || type == STT_GNU_IFUNC);
}

void elf_functions_add_one(struct elf_functions *functions, const struct elf_function *function)
{
	functions->items = alloc_room(functions->items, &functions->capacity, functions->count + 1,
				      sizeof(*functions->items));
	functions->items[functions->count++] = *function;
}

void elf_functions_add(struct elf_functions *functions, const struct memory_reader *file,
		       uint64_t offset, uint64_t size)
{
	Elf64_Sym symbols[STEP];
	uint64_t left = size / sizeof(*symbols);
	if (left > SYMBOLS_LIMIT)
		left = SYMBOLS_LIMIT;
	while (left) {
		const size_t count = left < STEP ? left : STEP;
		if (!memory_read(file, offset, symbols, count * sizeof(*symbols), NULL))
			return;
		for (size_t i = 0; i < count; i++)
			if (may_be_function(&symbols[i]))
				elf_functions_add_one(
					functions,
					&(struct elf_function){
						symbols[i].st_value, symbols[i].st_size,
						ELF64_ST_TYPE(symbols[i].st_info) == STT_NOTYPE
							? ELF_FUNCTION_LABEL
							: ELF_FUNCTION_SYMBOL});
		offset += count * sizeof(*symbols);
		left -= count;
	}
}

void elf_functions_add_pointers(struct elf_functions *functions, const struct memory_reader *file,
				uint64_t offset, uint64_t size, uint64_t start, uint64_t end)
{
	Elf64_Rela relocations[STEP];
	uint64_t left = size / sizeof(*relocations);
	if (left > SYMBOLS_LIMIT)
		left = SYMBOLS_LIMIT;
	while (left) {
		const size_t count = left < STEP ? left : STEP;
		if (!memory_read(file, offset, relocations, count * sizeof(*relocations), NULL))
			return;
		for (size_t i = 0; i < count; i++) {
			const uint64_t to = (uint64_t)relocations[i].r_addend;
			if (ELF64_R_TYPE(relocations[i].r_info) == R_X86_64_RELATIVE &&
			    to >= start && to < end)
				elf_functions_add_one(
					functions,
					&(struct elf_function){to, 0, ELF_FUNCTION_REFERENCED});
		}
		offset += count * sizeof(*relocations);
		left -= count;
	}
}

/* "lea distance(%rip), %register": REX.W, 8d, a ModRM byte, the distance. */
static bool takes_address(const uint8_t *bytes, uint64_t at, uint64_t *address)
{
	int32_t distance;
	if ((bytes[0] & 0xfb) != 0x48 || bytes[1] != 0x8d || (bytes[2] & 0xc7) != 0x05)
		return false;
	memcpy(&distance, bytes + 3, sizeof(distance));
	*address = at + LEA_BYTES + (uint64_t)(int64_t)distance;
	return true;
}

void elf_functions_add_taken(struct elf_functions *functions, const struct memory_reader *code,
			     uint64_t start, uint64_t end)
{
	uint8_t bytes[CODE_STEP];
	if (end - start > CODE_LIMIT)
		end = start + CODE_LIMIT;
	for (uint64_t at = start; at + LEA_BYTES <= end; at += CODE_STEP - LEA_BYTES + 1) {
		const size_t size = end - at < CODE_STEP ? end - at : CODE_STEP;
		if (!memory_read(code, at, bytes, size, NULL))
			return;
		for (size_t i = 0; i + LEA_BYTES <= size; i++) {
			uint64_t to;
			if (takes_address(bytes + i, at + i, &to) && to >= start && to < end)
				elf_functions_add_one(
					functions,
					&(struct elf_function){to, 0, ELF_FUNCTION_REFERENCED});
		}
	}
}

/* Of several at one place the largest comes first, and those of functions. */
static int compare(const void *left, const void *right)
{
	const struct elf_function *const a = left, *const b = right;
	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (a->size != b->size)
		return a->size > b->size ? -1 : 1;
	return a->kind < b->kind ? -1 : a->kind > b->kind;
}

void elf_functions_sort(struct elf_functions *functions)
{
	size_t kept = 0;
	uint64_t end = 0;
	if (functions->count)
		qsort(functions->items, functions->count, sizeof(*functions->items), compare);
	for (size_t i = 0; i < functions->count; i++) {
		const struct elf_function item = functions->items[i];
		if ((kept && functions->items[kept - 1].start == item.start) ||
		    (!item.size && item.start < end))
			continue;
		functions->items[kept++] = item;
		if (item.size && item.start + item.size > end)
			end = item.start + item.size;
	}
	functions->count = kept;
}

void elf_functions_release(struct elf_functions *functions)
{
	free(functions->items);
	*functions = (struct elf_functions){0};
}

static size_t count_until(const struct elf_functions *functions, uint64_t address)
{
	return upper_bound(functions->items, functions->count, sizeof(*functions->items),
			   offsetof(struct elf_function, start), address);
}

const struct elf_function *elf_functions_before(const struct elf_functions *functions,
						uint64_t address)
{
	const size_t count = count_until(functions, address);
	return count ? &functions->items[count - 1] : NULL;
}

const struct elf_function *elf_functions_after(const struct elf_functions *functions,
					       uint64_t address)
{
	const size_t count = count_until(functions, address);
	return count < functions->count ? &functions->items[count] : NULL;
}
