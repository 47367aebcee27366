/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD: the $FAIL_MALLOCth malloc, calloc or realloc gives NULL ("12+": and all that
 * follow), counted from the first fork on, in the process that it makes. At the end of that, "N
 * allocations" is on stderr.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

static atomic_ulong allocations;
static atomic_bool begun;
static unsigned long first;
static bool following;

static bool fails(void)
{
	if (!atomic_load(&begun))
		return false;
	const unsigned long number = atomic_fetch_add(&allocations, 1) + 1;
	if (number != first && (!following || number < first))
		return false;
	errno = ENOMEM;
	return first != 0;
}

void *malloc(size_t size)
{
	return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	return fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
	return fails() ? NULL : __libc_realloc(memory, size);
}

static void begin(void)
{
	atomic_store(&begun, true);
}

static void __attribute__((constructor)) set_up(void)
{
	const char *text = getenv("FAIL_MALLOC");
	char *end = NULL;
	if (!text)
		return;
	first = strtoul(text, &end, 10);
	following = *end == '+';
	pthread_atfork(NULL, NULL, begin);
}

static void __attribute__((destructor)) tell(void)
{
	if (atomic_load(&begun))
		fprintf(stderr, "%lu allocations\n", atomic_load(&allocations));
}
