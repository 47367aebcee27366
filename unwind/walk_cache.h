/* SPDX-License-Identifier: MIT */
/* Frames that are as they were in the last walk: walk_cache.c. */
#ifndef UNWIND_WALK_CACHE_H
#define UNWIND_WALK_CACHE_H

#include "unwind/internal.h"

/* Before a walk that begins with this SP. */
void walk_cache_begin(struct unwinder *unwinder, remote_addr sp);

/* Adds what was outside of the frame added last, and is the same; false: nothing is known. */
bool walk_cache_rest(struct unwinder *unwinder, struct unwind_stack *stack);

/* After the walk. */
void walk_cache_learn(struct unwinder *unwinder, const struct unwind_stack *stack);

#endif
