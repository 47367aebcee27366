/* SPDX-License-Identifier: MIT */
/* From symbol tables to where functions begin. */
#include "elf/elf.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/sorted.h"

enum { SYMBOLS_LIMIT = 4 << 20, STEP = 1024 };
enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS }; /* of a start, to sort by */
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

/* Sorts `from` into `to` by one digit of the starts; those that have it alike stay in order. */
static void sort_by_digit(const struct elf_function *from, struct elf_function *to, size_t count,
			  unsigned shift)
{
	size_t places[DIGITS] = {0}, place = 0;
	for (size_t i = 0; i < count; i++)
		places[from[i].start >> shift & (DIGITS - 1)]++;
	for (size_t digit = 0; digit < DIGITS; digit++) {
		const size_t here = places[digit];
		places[digit] = place;
		place += here;
	}
	for (size_t i = 0; i < count; i++)
		to[places[from[i].start >> shift & (DIGITS - 1)]++] = from[i];
}

/* By their digits, the last one first: there are up to a million, and qsort, which compares them,
 * takes several times as long. */
static void sort_by_start(struct elf_functions *functions)
{
	const size_t count = functions->count;
	_cleanup_free_ struct elf_function *spare = alloc_zeroed(count, sizeof(*spare));
	struct elf_function *from = functions->items, *to = spare;
	uint64_t differ = 0;
	for (size_t i = 1; i < count; i++)
		differ |= from[i].start ^ from[0].start;
	for (unsigned shift = 0; shift < 64 && differ >> shift; shift += DIGIT_BITS) {
		struct elf_function *const sorted = to;
		if (!(differ >> shift & (DIGITS - 1)))
			continue;
		sort_by_digit(from, sorted, count, shift);
		to = from;
		from = sorted;
	}
	if (from != functions->items)
		memcpy(functions->items, from, count * sizeof(*from));
}

/* Of several at one place the largest counts, and one of a function. */
static bool is_better(const struct elf_function *one, const struct elf_function *other)
{
	return one->size != other->size ? one->size > other->size : one->kind < other->kind;
}

void elf_functions_sort(struct elf_functions *functions)
{
	struct elf_function *const items = functions->items;
	size_t kept = 0, next;
	uint64_t end = 0;
	if (functions->count)
		sort_by_start(functions);
	for (size_t i = 0; i < functions->count; i = next) {
		struct elf_function item = items[i];
		for (next = i + 1; next < functions->count && items[next].start == item.start;
		     next++)
			if (is_better(&items[next], &item))
				item = items[next];
		if (!item.size && item.start < end)
			continue;
		items[kept++] = item;
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
