/* SPDX-License-Identifier: MIT */
/* Some of the bytes of a file or of a target's memory: those that somebody has read, by blocks. */
#ifndef BASE_BLOCKS_H
#define BASE_BLOCKS_H

#include "base/table.h"

enum { BLOCKS_STEP = 64 };

/* All zero holds nothing. */
struct blocks {
	struct table ids;    /* address -> index */
	uint64_t *addresses; /* multiples of BLOCKS_STEP, each once */
	uint8_t *bytes;	     /* BLOCKS_STEP of each */
	size_t count, capacity, byte_capacity;
};

void blocks_release(struct blocks *blocks);

static inline uint64_t block_of(uint64_t address)
{
	return address & ~(uint64_t)(BLOCKS_STEP - 1);
}

bool blocks_has(const struct blocks *blocks, uint64_t address);

/* Adds the block at the address, or replaces its bytes; false: it has these already. */
bool blocks_put(struct blocks *blocks, uint64_t address, const uint8_t bytes[BLOCKS_STEP]);

/* False: not all of it is there; what is not is zeros in the buffer then. */
bool blocks_read(const struct blocks *blocks, uint64_t address, void *buffer, size_t size);

#endif
