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
	struct unwind_frame *frames; /* of the last walk, innermost first, at the room's end */
	size_t count, frame_capacity;
	uint8_t *bytes; /* [start, end) then, at the room's end */
	size_t byte_capacity;
	remote_addr start, end; /* end: of what the walk read */
	uint8_t *read;		/* the same now, where it stands in no one piece */
	size_t read_capacity;
	remote_addr equal_from; /* [equal_from, end) is the same then and now */
	uint64_t walk;		/* the last one's number */
	uint64_t generation;	/* of the module table */
	size_t next;		/* the frame that may be met next */
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
	free(recall->read);
	free(recall);
}

/* The stack's bytes now; NULL: they are not there, or too many. */
static const uint8_t *bytes_now(struct unwind_recall *recall, const struct memory_reader *memory,
				remote_addr start, remote_addr end)
{
	if (end <= start || end - start > RECALL_LIMIT)
		return NULL;
	const uint8_t *bytes = memory_view(memory, start, end - start);
	if (bytes)
		return bytes;
	recall->read = alloc_room(recall->read, &recall->read_capacity, end - start, 1);
	return memory_read(memory, start, recall->read, end - start, NULL) ? recall->read : NULL;
}

/* Where the equal end of both begins, to the block. `now`: from `start` on. */
static remote_addr find_equal_from(const struct unwind_recall *recall, const uint8_t *now,
				   remote_addr start)
{
	enum { BLOCK = 64, BLOCKS = 4096 };
	const uint8_t *const then_end = recall->bytes + recall->byte_capacity;
	const uint8_t *const now_end = now + (recall->end - start);
	const size_t most = recall->end - (recall->start > start ? recall->start : start);
	size_t same = 0;
	while (most - same >= BLOCKS &&
	       memcmp(then_end - same - BLOCKS, now_end - same - BLOCKS, BLOCKS) == 0)
		same += BLOCKS;
	while (most - same >= BLOCK &&
	       memcmp(then_end - same - BLOCK, now_end - same - BLOCK, BLOCK) == 0)
		same += BLOCK;
	return recall->end - same;
}

void recall_begin(struct unwinder *unwinder, remote_addr sp)
{
	struct unwind_recall *const recall = unwinder->recall;
	const uint8_t *now = NULL;
	unwinder->highest_read = 0;
	if (!recall)
		return;
	recall->next = 0;
	if (recall->count > 0 && recall->generation == unwinder->generation && sp < recall->end)
		now = bytes_now(recall, unwinder->memory, sp, recall->end);
	if (now)
		recall->equal_from = find_equal_from(recall, now, sp);
	else
		recall->count = 0;
}

static struct unwind_frame *first_frame(const struct unwind_recall *recall)
{
	return recall->frames + (recall->frame_capacity - recall->count);
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
	if (!recall || recall->count == 0 || frame->pc_kind != UNWIND_PC_RETURN ||
	    frame->sp < recall->equal_from)
		return false;
	const struct unwind_frame *const last = first_frame(recall);
	while (recall->next < recall->count && last[recall->next].sp < frame->sp)
		recall->next++;
	if (recall->next == recall->count || !same_place(&last[recall->next], frame))
		return false;
	const size_t rest = recall->count - recall->next;
	stack->count--;
	stack->frames = alloc_room(stack->frames, &stack->capacity, stack->count + rest,
				   sizeof(*stack->frames));
	memcpy(&stack->frames[stack->count], &last[recall->next], rest * sizeof(*stack->frames));
	stack->count += rest;
	stack->recalled = rest;
	stack->recalled_from = recall->walk;
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

/* What is the same as in the last walk stands there already. */
static bool keep_bytes(struct unwind_recall *recall, const struct memory_reader *memory,
		       remote_addr start, remote_addr end)
{
	const uint8_t *const now = bytes_now(recall, memory, start, end);
	if (!now)
		return false;
	const size_t same = recall->count > 0 && recall->end == end ? end - recall->equal_from : 0;
	const size_t size = end - start;
	recall->bytes = alloc_room_in_front(recall->bytes, &recall->byte_capacity, same, size, 1);
	memcpy(recall->bytes + (recall->byte_capacity - size), now, size - same);
	recall->start = start;
	recall->end = end;
	return true;
}

static void keep_frames(struct unwind_recall *recall, const struct unwind_stack *stack)
{
	recall->frames =
		alloc_room_in_front(recall->frames, &recall->frame_capacity, stack->recalled,
				    stack->count, sizeof(*recall->frames));
	recall->count = stack->count;
	memcpy(first_frame(recall), stack->frames,
	       (stack->count - stack->recalled) * sizeof(*stack->frames));
}

void recall_learn(struct unwinder *unwinder, const struct unwind_stack *stack)
{
	struct unwind_recall *const recall = unwinder->recall;
	if (!recall)
		return;
	const remote_addr end = unwinder->highest_read + sizeof(uint64_t);
	const remote_addr start = stack->count ? stack->frames[0].sp : 0;
	if (!is_plain(unwinder, stack) || !keep_bytes(recall, unwinder->memory, start, end)) {
		recall->count = 0;
		return;
	}
	keep_frames(recall, stack);
	recall->walk = stack->walk;
	recall->generation = unwinder->generation;
}
