/* SPDX-License-Identifier: MIT */
/*
 * What a walk has found, for the next one: from the first frame on that stands where it stood, with
 * the same registers, and outside of which no byte of the stack has changed, all is as it was.
 * The same address with the same return address alone does not prove that. Registers that a call
 * may change are not compared: by the ABI nothing can be known of them outside of it.
 */
#include "unwind/walk_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* Bytes of stack; a deeper one is walked anew each time. */
#define CACHE_LIMIT ((size_t)1 << 20)

struct walk_cache {
	struct unwind_frame *frames; /* of the last walk, innermost first, at the room's end */
	size_t count, frame_capacity;
	uint8_t *bytes; /* [start, end) then, at the room's end */
	size_t byte_capacity;
	remote_addr start, end; /* end: of what the walk read */
	uint8_t *read;		/* the same now, where it is in no one piece */
	size_t read_capacity;
	remote_addr equal_from; /* [equal_from, end) is the same then and now */
	uint64_t walk;		/* the last one's number */
	uint64_t generation;	/* of the module table */
	size_t next;		/* the frame that may be met next */
};

struct walk_cache *walk_cache_new(void)
{
	return alloc_zeroed(1, sizeof(struct walk_cache));
}

void walk_cache_free(struct walk_cache *cache)
{
	if (!cache)
		return;
	free(cache->frames);
	free(cache->bytes);
	free(cache->read);
	free(cache);
}

/* The stack's bytes now; NULL: they are not there, or too many. */
static const uint8_t *bytes_now(struct walk_cache *cache, const struct memory_reader *memory,
				remote_addr start, remote_addr end)
{
	if (end <= start || end - start > CACHE_LIMIT)
		return NULL;
	const uint8_t *bytes = memory_view(memory, start, end - start);
	if (bytes)
		return bytes;
	cache->read = alloc_room(cache->read, &cache->read_capacity, end - start, 1);
	return memory_read(memory, start, cache->read, end - start, NULL) ? cache->read : NULL;
}

/* Where the equal end of both begins, to the block. `now`: from `start` on. */
static remote_addr find_equal_from(const struct walk_cache *cache, const uint8_t *now,
				   remote_addr start)
{
	enum { BLOCK = 64, BLOCKS = 4096 };
	const uint8_t *const then_end = cache->bytes + cache->byte_capacity;
	const uint8_t *const now_end = now + (cache->end - start);
	const size_t most = cache->end - (cache->start > start ? cache->start : start);
	size_t same = 0;
	while (most - same >= BLOCKS &&
	       memcmp(then_end - same - BLOCKS, now_end - same - BLOCKS, BLOCKS) == 0)
		same += BLOCKS;
	while (most - same >= BLOCK &&
	       memcmp(then_end - same - BLOCK, now_end - same - BLOCK, BLOCK) == 0)
		same += BLOCK;
	return cache->end - same;
}

void walk_cache_begin(struct unwinder *unwinder, remote_addr sp)
{
	struct walk_cache *const cache = unwinder->request.cache;
	const uint8_t *now = NULL;
	unwinder->highest_read = 0;
	if (!cache)
		return;
	cache->next = 0;
	if (cache->count > 0 && cache->generation == unwinder->generation && sp < cache->end)
		now = bytes_now(cache, unwinder->request.memory, sp, cache->end);
	if (now)
		cache->equal_from = find_equal_from(cache, now, sp);
	else
		cache->count = 0;
}

static struct unwind_frame *first_frame(const struct walk_cache *cache)
{
	return cache->frames + (cache->frame_capacity - cache->count);
}

static bool same_place(const struct unwind_frame *a, const struct unwind_frame *b)
{
	if (a->sp != b->sp || a->pc != b->pc || a->pc_kind != b->pc_kind ||
	    a->saved_known != b->saved_known)
		return false;
	for (int i = 0; i < UNWIND_SAVED_COUNT; i++)
		if ((a->saved_known & 1 << i) && a->saved[i] != b->saved[i])
			return false;
	return true;
}

bool walk_cache_rest(struct unwinder *unwinder, struct unwind_stack *stack)
{
	struct walk_cache *const cache = unwinder->request.cache;
	const struct unwind_frame *const frame = &stack->frames[stack->count - 1];
	if (!cache || cache->count == 0 || frame->pc_kind != UNWIND_PC_RETURN ||
	    frame->sp < cache->equal_from)
		return false;
	const struct unwind_frame *const last = first_frame(cache);
	while (cache->next < cache->count && last[cache->next].sp < frame->sp)
		cache->next++;
	if (cache->next == cache->count || !same_place(&last[cache->next], frame))
		return false;
	const size_t rest = cache->count - cache->next;
	stack->count--;
	stack->frames = alloc_room(stack->frames, &stack->capacity, stack->count + rest,
				   sizeof(*stack->frames));
	memcpy(&stack->frames[stack->count], &last[cache->next], rest * sizeof(*stack->frames));
	stack->count += rest;
	stack->reused = rest;
	stack->reused_from = cache->walk;
	unwinder->highest_read = cache->end - sizeof(uint64_t);
	return true;
}

/* Only stacks that nothing but their own bytes and the unwind information decided. */
static bool is_plain(const struct unwinder *unwinder, const struct unwind_stack *stack)
{
	if (stack->end != UNWIND_END_OUTERMOST || stack->guessed || unwinder->highest_read == 0 ||
	    unwinder->unread)
		return false;
	for (size_t i = 0; i < stack->count; i++)
		if (stack->frames[i].signal_frame || stack->frames[i].trampoline)
			return false;
	return true;
}

/* What is the same as in the last walk is there already. */
static bool keep_bytes(struct walk_cache *cache, const struct memory_reader *memory,
		       remote_addr start, remote_addr end)
{
	const uint8_t *const now = bytes_now(cache, memory, start, end);
	if (!now)
		return false;
	const size_t same = cache->count > 0 && cache->end == end ? end - cache->equal_from : 0;
	const size_t size = end - start;
	cache->bytes = alloc_room_in_front(cache->bytes, &cache->byte_capacity, same, size, 1);
	memcpy(cache->bytes + (cache->byte_capacity - size), now, size - same);
	cache->start = start;
	cache->end = end;
	return true;
}

static void keep_frames(struct walk_cache *cache, const struct unwind_stack *stack)
{
	cache->frames = alloc_room_in_front(cache->frames, &cache->frame_capacity, stack->reused,
					    stack->count, sizeof(*cache->frames));
	cache->count = stack->count;
	memcpy(first_frame(cache), stack->frames,
	       (stack->count - stack->reused) * sizeof(*stack->frames));
}

void walk_cache_learn(struct unwinder *unwinder, const struct unwind_stack *stack)
{
	struct walk_cache *const cache = unwinder->request.cache;
	if (!cache)
		return;
	const remote_addr end = unwinder->highest_read + sizeof(uint64_t);
	const remote_addr start = stack->count ? stack->frames[0].sp : 0;
	if (!is_plain(unwinder, stack) ||
	    !keep_bytes(cache, unwinder->request.memory, start, end)) {
		cache->count = 0;
		return;
	}
	keep_frames(cache, stack);
	cache->walk = stack->walk;
	cache->generation = unwinder->generation;
}
