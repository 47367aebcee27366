/* SPDX-License-Identifier: MIT */
/* What a program that runs out of memory writes its results with. */
#ifndef BASE_RESERVE_H
#define BASE_RESERVE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Keeps `size` bytes, untouched, until an allocation of base/alloc.h fails: then they are given
 * back, is_out is called once, from the thread that it failed in, and the allocation is tried
 * again. is_out allocates nothing and does not wait. size 0: no longer.
 */
void reserve_keep(size_t size, void (*is_out)(void *context), void *context);

/* For what is not allocated there, when it fails; false: there is none. */
bool reserve_use(void);

#endif
