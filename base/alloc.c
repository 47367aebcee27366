/* SPDX-License-Identifier: MIT */
/* Allocation that ends the program when memory is out: nobody could go on without it. */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

static _Atomic uint64_t allocations;
static _Thread_local uint64_t allocations_here;

static void *checked(void *memory)
{
	if (!memory) {
		fputs("out of memory\n", stderr);
		exit(1);
	}
	atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
	allocations_here++;
	return memory;
}

void *alloc_zeroed(size_t count, size_t size)
{
	return checked(calloc(count ? count : 1, size ? size : 1));
}

void *alloc_resized(void *memory, size_t count, size_t size)
{
	return checked(reallocarray(memory, count ? count : 1, size ? size : 1));
}

char *alloc_string(const char *text)
{
	return checked(strdup(text));
}

void *alloc_room(void *items, size_t *capacity, size_t needed, size_t size)
{
	if (needed <= *capacity)
		return items;
	size_t room = *capacity ? *capacity : 16;
	while (room < needed)
		room *= 2;
	*capacity = room;
	return alloc_resized(items, room, size);
}

void *alloc_room_in_front(void *items, size_t *capacity, size_t kept, size_t needed, size_t size)
{
	const size_t before = *capacity;
	items = alloc_room(items, capacity, needed, size);
	if (kept > 0 && *capacity > before)
		memmove((char *)items + (*capacity - kept) * size,
			(char *)items + (before - kept) * size, kept * size);
	return items;
}

uint64_t alloc_count(void)
{
	return atomic_load_explicit(&allocations, memory_order_relaxed);
}

uint64_t alloc_count_here(void)
{
	return allocations_here;
}

void alloc_stay_small(void)
{
#ifdef __GLIBC__
	mallopt(M_MMAP_THRESHOLD, ALLOC_LARGE);
#endif
}
