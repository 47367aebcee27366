/* SPDX-License-Identifier: MIT */
/*
 * Allocation that does not return on failure: the one place below src/ that may end the program.
 * Every size that comes from the target is bounded by the caller before it gets here.
 */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include "base/types.h"

void *alloc_zeroed(size_t count, size_t size) __attribute__((malloc));
void *alloc_resized(void *memory, size_t count, size_t size);
char *alloc_string(const char *text) __attribute__((malloc));

/*
 * Makes room for `needed` items: grows *items (of *capacity items of `size` bytes) by doubling.
 * Returns the array, to be assigned back. New room is not zeroed.
 */
void *alloc_room(void *items, size_t *capacity, size_t needed, size_t size);

/*
 * The same for an array whose items are at the end of its room and that grows at the front: the
 * last `kept` items stay the last ones.
 */
void *alloc_room_in_front(void *items, size_t *capacity, size_t kept, size_t needed, size_t size);

/*
 * For a program that runs long and should stay small, before its first large allocation: arrays of
 * ALLOC_LARGE bytes and more grow in place and are given back whole. glibc would keep ever larger
 * ones on its heaps after each that is freed, and their former places with them.
 */
enum { ALLOC_LARGE = 128 << 10 };
void alloc_stay_small(void);

/* With which status the program ends when memory is out; 1 unless it is said. */
void alloc_set_end_status(int status);

/* Number of allocations made so far through this file, by all threads; tests count with it. */
uint64_t alloc_count(void);

/* The same of the calling thread alone: what a pause allocates is counted with it. */
uint64_t alloc_count_here(void);

#endif
