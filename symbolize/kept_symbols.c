/* SPDX-License-Identifier: MIT */
/*
 * What symbol tables and stubs of a file call the addresses that were met in it, for where the file
 * is not: a debug file has no names of stubs, and who has none of those still knows exported
 * functions. One row for all neighbours of one name:
 *
 *     u64 first address, u64 last, u64 begin of the function, u8 1: a stub, u32 size, name
 *
 * in order of address. What is read is believed as far as it fits.
 */
#include "symbolize/kept_symbols.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { ROW_BYTES = 3 * 8 + 1 + 4, MOST_ROWS = 1 << 20 };

static void put_row(struct strbuf *bytes, const struct kept_symbol *row)
{
	const uint64_t numbers[] = {row->first, row->last, row->start};
	const uint8_t stub = row->stub;
	const uint32_t size = (uint32_t)row->size;

	strbuf_add(bytes, numbers, sizeof(numbers));
	strbuf_add(bytes, &stub, sizeof(stub));
	strbuf_add(bytes, &size, sizeof(size));
	strbuf_add(bytes, row->name, row->size);
}

static bool is_same(const struct kept_symbol *one, const struct kept_symbol *other)
{
	return one->name && one->start == other->start && one->stub == other->stub &&
	       one->size == other->size && memcmp(one->name, other->name, one->size) == 0;
}

void kept_symbols_put(struct kept_symbol *open, const struct kept_symbol *next,
		      struct strbuf *bytes)
{
	if (next && is_same(open, next)) {
		open->last = next->last;
		return;
	}
	if (open->name)
		put_row(bytes, open);
	*open = next ? *next : (struct kept_symbol){0};
}

/* False: it is not whole, or not in order. */
static bool read_row(const uint8_t *bytes, size_t size, uint64_t least, struct kept_symbol *row)
{
	uint64_t numbers[3];
	uint32_t name_size;

	if (size < ROW_BYTES)
		return false;
	memcpy(numbers, bytes, sizeof(numbers));
	memcpy(&name_size, bytes + ROW_BYTES - sizeof(name_size), sizeof(name_size));
	*row = (struct kept_symbol){.first = numbers[0],
				    .last = numbers[1],
				    .start = numbers[2],
				    .stub = bytes[sizeof(numbers)],
				    .name = (const char *)bytes + ROW_BYTES,
				    .size = name_size};
	return row->first >= least && row->last >= row->first && name_size &&
	       name_size <= size - ROW_BYTES;
}

void kept_symbols_read(struct kept_symbols *kept, const void *bytes, size_t size)
{
	const uint8_t *at = bytes;
	struct kept_symbol row;
	uint64_t least = 0;

	*kept = (struct kept_symbols){0};
	while (kept->count < MOST_ROWS && read_row(at, size, least, &row)) {
		kept->rows = alloc_room(kept->rows, &kept->capacity, kept->count + 1,
					sizeof(*kept->rows));
		kept->rows[kept->count++] = row;
		at += ROW_BYTES + row.size;
		size -= ROW_BYTES + row.size;
		least = row.last + 1;
		if (!least)
			return;
	}
}

const struct kept_symbol *kept_symbols_find(const struct kept_symbols *kept, uint64_t pc)
{
	size_t low = 0, high = kept->count;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (kept->rows[middle].first <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	return low && pc <= kept->rows[low - 1].last ? &kept->rows[low - 1] : NULL;
}

void kept_symbols_release(struct kept_symbols *kept)
{
	free(kept->rows);
	*kept = (struct kept_symbols){0};
}
