/* SPDX-License-Identifier: MIT */
/*
 * From .debug_aranges to address ranges, each with the offset of its unit in .debug_info: a short
 * way to the one unit that is asked for. GCC writes it for every unit, other compilers may not,
 * so a miss means nothing, and a hit is only a hint: who uses it checks what the unit itself says.
 */
#include <string.h>

#include "symbolize/internal.h"

enum { MAX_RANGES = 1 << 20 };

/* Reads a little-endian number of 4 or 8 bytes and moves on; false: the end. */
static bool take_number(const uint8_t **at, const uint8_t *end, size_t size, uint64_t *value)
{
	if ((size_t)(end - *at) < size)
		return false;
	*value = 0;
	memcpy(value, *at, size);
	*at += size;
	return true;
}

static void add_set(struct interval_list *list, const uint8_t *at, const uint8_t *end,
		    uint64_t unit)
{
	uint64_t start, size;

	while (list->count < MAX_RANGES && take_number(&at, end, 8, &start) &&
	       take_number(&at, end, 8, &size) && (start || size))
		if (start + size > start)
			interval_add(list, start, start + size, unit);
}

void arange_table_add(struct interval_list *list, const struct elf_bytes *bytes)
{
	const uint8_t *at = bytes->data, *const end = at + bytes->size;
	uint64_t length;

	/* unit_length, version 2, offset of the unit, bytes of an address and of a segment */
	while (take_number(&at, end, 4, &length)) {
		const uint8_t *const set = at - 4;
		const bool wide = length == UINT32_MAX;
		uint64_t unit;
		if ((wide && !take_number(&at, end, 8, &length)) || length > (size_t)(end - at))
			return;
		const uint8_t *const next = at + length;
		const uint8_t *field = at + 2;
		if (length < 12 || at[0] != 2 || at[1] != 0 ||
		    !take_number(&field, next, wide ? 8 : 4, &unit) || next - field < 2)
			return;
		/* The pairs are at a multiple of twice the size of an address. */
		const size_t before = ((size_t)(field + 2 - set) + 15) & ~(size_t)15;
		if (field[0] == 8 && field[1] == 0 && before <= (size_t)(next - set))
			add_set(list, set + before, next, unit);
		at = next;
	}
}
