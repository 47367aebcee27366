/* SPDX-License-Identifier: MIT */
#include "base/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void blocks_release(struct blocks *blocks)
{
	table_release(&blocks->ids);
	free(blocks->addresses);
	free(blocks->bytes);
	*blocks = (struct blocks){0};
}

static uint8_t *find(const struct blocks *blocks, uint64_t address)
{
	uint32_t index;
	return table_find(&blocks->ids, block_of(address), 0, &index)
		       ? blocks->bytes + (size_t)index * BLOCKS_STEP
		       : NULL;
}

bool blocks_has(const struct blocks *blocks, uint64_t address)
{
	return find(blocks, address) != NULL;
}

bool blocks_put(struct blocks *blocks, uint64_t address, const uint8_t bytes[BLOCKS_STEP])
{
	uint8_t *at = find(blocks, address);
	if (at && memcmp(at, bytes, BLOCKS_STEP) == 0)
		return false;
	if (!at) {
		blocks->addresses = alloc_room(blocks->addresses, &blocks->capacity,
					       blocks->count + 1, sizeof(*blocks->addresses));
		blocks->bytes = alloc_room(blocks->bytes, &blocks->byte_capacity, blocks->count + 1,
					   BLOCKS_STEP);
		blocks->addresses[blocks->count] = block_of(address);
		table_put(&blocks->ids, block_of(address), 0, (uint32_t)blocks->count);
		at = blocks->bytes + blocks->count++ * BLOCKS_STEP;
	}
	memcpy(at, bytes, BLOCKS_STEP);
	return true;
}

bool blocks_read(const struct blocks *blocks, uint64_t address, void *buffer, size_t size)
{
	uint8_t *out = buffer;
	bool whole = true;
	while (size > 0) {
		const size_t into = address % BLOCKS_STEP;
		const size_t step = size < BLOCKS_STEP - into ? size : BLOCKS_STEP - into;
		const uint8_t *const at = find(blocks, address);
		if (at)
			memcpy(out, at + into, step);
		else
			memset(out, 0, step);
		whole &= at != NULL;
		out += step;
		address += step;
		size -= step;
	}
	return whole;
}
