/* SPDX-License-Identifier: MIT */
/*
 * What a walk has found, for the next one: from the first frame on that stands where it stood, with
 * the same registers, and outside of which no byte of the stack has changed, all is as it was.
 * The same address with the same return address alone does not tell that. Registers that a call may
 * change are not compared: by the ABI nothing can be known of them outside of it.
 */
#include "unwind/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* Bytes of stack; a deeper one is walked anew each time. */
#define RECALL_LIMIT ((size_t)1 << 20)

struct unwind_recall {
	struct unwind_frame *frames; /* of the last walk, innermost first */
	size_t count, frame_capacity;
	uint8_t *bytes, *fresh; /* [start, end) then, and now */
	size_t byte_capacity, fresh_capacity;
	remote_addr start, end;	 /* end: of what the walk read */
	remote_addr fresh_start; /* 0: nothing was read yet */
	remote_addr equal_from;	 /* [equal_from, end) is the same then and now */
	uint64_t generation;	 /* of the module table */
	size_t next;		 /* the frame that may be met next */
};

struct unwind_recall *unwind_recall_new(void)
{
	return alloc_zeroed(1, sizeof(struct unwind_recall));
}

void unwind_recall_free(struct unwind_recall *recall)
{
	if (!recall)
		return;
	free(recall->frames);
	free(recall->bytes);
	free(recall->fresh);
	free(recall);
}

static bool read_fresh(struct unwind_recall *recall, const struct memory_reader *memory,
		       remote_addr start, remote_addr end)
{
	recall->fresh_start = 0;
	if (end <= start || end - start > RECALL_LIMIT)
		return false;
	recall->fresh = alloc_room(recall->fresh, &recall->fresh_capacity, end - start, 1);
	if (!memory_read(memory, start, recall->fresh, end - start, NULL))
		return false;
	recall->fresh_start = start;
	return true;
}

/* Where the equal end of both begins, to the block. */
static remote_addr find_equal_from(const struct unwind_recall *recall)
{
	enum { BLOCK = 64 };
	remote_addr low = recall->start > recall->fresh_start ? recall->start : recall->fresh_start;
	remote_addr at = recall->end;
	while (at - low >= BLOCK &&
	       memcmp(recall->bytes + (at - BLOCK - recall->start),
		      recall->fresh + (at - BLOCK - recall->fresh_start), BLOCK) == 0)
		at -= BLOCK;
	return at;
}

void recall_begin(struct unwinder *unwinder, remote_addr sp)
{
	struct unwind_recall *const recall = unwinder->recall;
	unwinder->highest_read = 0;
	if (!recall)
		return;
	recall->next = 0;
	recall->fresh_start = 0;
	if (recall->count > 0 && recall->generation == unwinder->generation && sp < recall->end &&
	    read_fresh(recall, unwinder->memory, sp, recall->end))
		recall->equal_from = find_equal_from(recall);
	else
		recall->count = 0;
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

bool recall_rest(struct unwinder *unwinder, struct unwind_stack *stack)
{
	struct unwind_recall *const recall = unwinder->recall;
	const struct unwind_frame *const frame = &stack->frames[stack->count - 1];
	if (!recall || frame->pc_kind != UNWIND_PC_RETURN || frame->sp < recall->equal_from)
		return false;
	while (recall->next < recall->count && recall->frames[recall->next].sp < frame->sp)
		recall->next++;
	if (recall->next == recall->count || !same_place(&recall->frames[recall->next], frame))
		return false;
	const size_t rest = recall->count - recall->next;
	stack->count--;
	stack->frames = alloc_room(stack->frames, &stack->capacity, stack->count + rest,
				   sizeof(*stack->frames));
	memcpy(&stack->frames[stack->count], &recall->frames[recall->next],
	       rest * sizeof(*stack->frames));
	stack->count += rest;
	unwinder->highest_read = recall->end - sizeof(uint64_t);
	return true;
}

/* Only stacks that nothing but their own bytes and the unwind information decided. */
static bool is_plain(const struct unwinder *unwinder, const struct unwind_stack *stack)
{
	if (stack->end != UNWIND_END_OUTERMOST || stack->guessed || unwinder->highest_read == 0)
		return false;
	for (size_t i = 0; i < stack->count; i++)
		if (stack->frames[i].signal_frame || stack->frames[i].trampoline)
			return false;
	return true;
}

void recall_learn(struct unwinder *unwinder, const struct unwind_stack *stack)
{
	struct unwind_recall *const recall = unwinder->recall;
	if (!recall)
		return;
	const remote_addr end = unwinder->highest_read + sizeof(uint64_t);
	const remote_addr start = stack->count ? stack->frames[0].sp : 0;
	recall->count = 0;
	if (!is_plain(unwinder, stack))
		return;
	if ((recall->fresh_start != start || recall->end != end) &&
	    !read_fresh(recall, unwinder->memory, start, end))
		return;
	uint8_t *const bytes = recall->bytes;
	const size_t capacity = recall->byte_capacity;
	recall->bytes = recall->fresh;
	recall->byte_capacity = recall->fresh_capacity;
	recall->fresh = bytes;
	recall->fresh_capacity = capacity;
	recall->start = start;
	recall->end = end;
	recall->generation = unwinder->generation;
	recall->frames = alloc_room(recall->frames, &recall->frame_capacity, stack->count,
				    sizeof(*recall->frames));
	memcpy(recall->frames, stack->frames, stack->count * sizeof(*stack->frames));
	recall->count = stack->count;
}
