/* SPDX-License-Identifier: MIT */
/*
 * The array of frames that an unwinding fills: kept from call to call, so that after the first
 * deep stack nothing is allocated. Must never run in the pause (it may grow).
 */
#include "unwind/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void unwind_stack_init(struct unwind_stack *stack)
{
	*stack = (struct unwind_stack){.end = UNWIND_END_NO_INFO};
}

void unwind_stack_release(struct unwind_stack *stack)
{
	free(stack->frames);
	unwind_stack_init(stack);
}

struct unwind_frame *unwind_stack_add(struct unwind_stack *stack)
{
	stack->frames = alloc_room(stack->frames, &stack->capacity, stack->count + 1,
				   sizeof(*stack->frames));
	struct unwind_frame *frame = &stack->frames[stack->count++];
	memset(frame, 0, sizeof(*frame));
	return frame;
}

void unwind_frame_save(struct unwind_frame *frame, unw_cursor_t *cursor)
{
	static const int numbers[UNWIND_SAVED_COUNT] = {
		[UNWIND_RBX] = UNW_X86_64_RBX, [UNWIND_RBP] = UNW_X86_64_RBP,
		[UNWIND_R12] = UNW_X86_64_R12, [UNWIND_R13] = UNW_X86_64_R13,
		[UNWIND_R14] = UNW_X86_64_R14, [UNWIND_R15] = UNW_X86_64_R15,
	};
	for (int i = 0; i < UNWIND_SAVED_COUNT; i++) {
		unw_word_t value;
		if (unw_get_reg(cursor, numbers[i], &value) < 0)
			continue;
		frame->saved[i] = value;
		frame->saved_known |= 1 << i;
	}
}
