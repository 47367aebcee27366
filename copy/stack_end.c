/* SPDX-License-Identifier: MIT */
/* How far a thread's stack goes. Runs in the pause: neither allocates nor prints. */
#include "copy/internal.h"

/* Where the thread's own stack ends; 0: not known. glibc has a thread's descriptor there. */
remote_addr take_stack_top(const struct taker *taker, const struct copy_state *state,
			   const struct registers *registers)
{
	if (state->tid == target_pid(taker->target))
		return taker->main_stack_end;
	return registers->fs_base ? registers->fs_base : state->thread_id;
}

size_t take_stack_size(const struct taker *taker, const struct copy_state *state,
		       const struct registers *registers, bool *sure)
{
	remote_addr sp = registers->value[REGISTER_RSP];
	/* pthread_self(), which a blocked thread does not report, is known from Python. */
	remote_addr top = registers->fs_base ? registers->fs_base : state->thread_id;
	remote_addr ends[] = {atomic_load(&state->advice.stack_end),
			      state->tid == target_pid(taker->target) ? taker->main_stack_end : 0};
	*sure = true;
	if (top > sp && top - sp <= RAW_MAX_GUESS)
		return top - sp;
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
		if (ends[i] > sp && (ends[i] - sp) >> RAW_FAR_SHIFT == 0)
			return ends[i] - sp < RAW_MAX_STACK ? ends[i] - sp : RAW_MAX_STACK;
	*sure = false;
	return RAW_UNKNOWN_STACK;
}
