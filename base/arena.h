/* SPDX-License-Identifier: MIT */
/* Memory of one lifetime: allocated piece by piece, released or reset at once. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/types.h"

struct arena_block;

struct arena {
	struct arena_block *first, *current;
};

void arena_init(struct arena *arena);
void arena_release(struct arena *arena);

/* Zeroed, aligned to 16 bytes, valid until reset or release. */
void *arena_alloc(struct arena *arena, size_t size);
void *arena_copy(struct arena *arena, const void *bytes, size_t size);

#endif
