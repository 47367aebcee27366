/* SPDX-License-Identifier: MIT */
/* Allocation that ends the program when memory is out: nobody could go on without it. */
#include "base/alloc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/reserve.h"

static _Atomic uint64_t allocations;
static _Thread_local uint64_t allocations_here;

static struct {
	pthread_mutex_t lock;
	void *memory;
	size_t size;
	void (*is_out)(void *context);
	void *context;
} reserve = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int end_status = EXIT_FAILURE;

void alloc_set_end_status(int status)
{
	end_status = status;
}

static void give_back(void)
{
	if (reserve.memory)
		munmap(reserve.memory, reserve.size);
	reserve.memory = NULL;
}

void reserve_keep(size_t size, void (*is_out)(void *context), void *context)
{
	pthread_mutex_lock(&reserve.lock);
	give_back();
	void *memory =
		size ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
		     : MAP_FAILED;
	reserve.memory = memory == MAP_FAILED ? NULL : memory;
	reserve.size = size;
	reserve.is_out = is_out;
	reserve.context = context;
	pthread_mutex_unlock(&reserve.lock);
}

bool reserve_use(void)
{
	pthread_mutex_lock(&reserve.lock);
	const bool kept = reserve.memory != NULL;
	give_back();
	if (kept)
		reserve.is_out(reserve.context);
	pthread_mutex_unlock(&reserve.lock);
	return kept;
}

static void __attribute__((noreturn)) end(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		fprintf(stderr,
			"out of memory: the address space is limited to %llu kB (ulimit -v)\n",
			(unsigned long long)limit.rlim_cur / 1024);
	else
		fputs("out of memory\n", stderr);
	exit(end_status);
}

static void *checked(void *memory)
{
	if (!memory)
		end();
	atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
	allocations_here++;
	return memory;
}

void *alloc_zeroed(size_t count, size_t size)
{
	count = count ? count : 1;
	size = size ? size : 1;
	void *memory = calloc(count, size);
	if (!memory) {
		(void)reserve_use(); /* or another thread has, just now */
		memory = calloc(count, size);
	}
	return checked(memory);
}

void *alloc_resized(void *memory, size_t count, size_t size)
{
	count = count ? count : 1;
	size = size ? size : 1;
	void *resized = reallocarray(memory, count, size);
	if (!resized) {
		(void)reserve_use(); /* or another thread has, just now */
		resized = reallocarray(memory, count, size);
	}
	return checked(resized);
}

char *alloc_string(const char *text)
{
	const size_t size = strlen(text) + 1;
	return memcpy(alloc_zeroed(size, 1), text, size);
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
