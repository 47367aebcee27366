/* SPDX-License-Identifier: MIT */
/* Blocks of memory that are handed out from front to back. */
#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { BLOCK_SIZE = 64 * 1024 };

struct arena_block {
	struct arena_block *next;
	size_t used, size;
	_Alignas(16) char bytes[];
};

void arena_init(struct arena *arena)
{
	arena->first = arena->current = NULL;
}

void arena_release(struct arena *arena)
{
	struct arena_block *block = arena->first;
	while (block) {
		struct arena_block *next = block->next;
		free(block);
		block = next;
	}
	arena_init(arena);
}

/* The block to allocate from: the current one, a later empty one, or a new one behind it. */
static struct arena_block *block_with_room(struct arena *arena, size_t size)
{
	struct arena_block *block = arena->current;
	while (block && block->size - block->used < size) {
		if (!block->next)
			break;
		block = block->next;
	}
	if (block && block->size - block->used >= size)
		return arena->current = block;
	size_t room = size > BLOCK_SIZE ? size : BLOCK_SIZE;
	struct arena_block *fresh = alloc_zeroed(1, sizeof(*fresh) + room);
	fresh->size = room;
	if (block)
		block->next = fresh;
	else
		arena->first = fresh;
	return arena->current = fresh;
}

void *arena_alloc(struct arena *arena, size_t size)
{
	size = (size + 15) & ~(size_t)15;
	struct arena_block *block = block_with_room(arena, size);
	void *memory = block->bytes + block->used;
	block->used += size;
	return memset(memory, 0, size);
}

void *arena_copy(struct arena *arena, const void *bytes, size_t size)
{
	void *memory = arena_alloc(arena, size);
	if (size)
		memcpy(memory, bytes, size);
	return memory;
}
