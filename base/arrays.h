/* SPDX-License-Identifier: MIT */
/* Arrays, whatever they hold. */
#ifndef BASE_ARRAYS_H
#define BASE_ARRAYS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Turns the order of so many items of `size` bytes round. */
static inline void array_reverse(void *items, size_t count, size_t size)
{
	char *const bytes = items;
	for (size_t i = 0; i < count / 2; i++) {
		char *const a = bytes + i * size, *const b = bytes + (count - 1 - i) * size;
		for (size_t at = 0; at < size; at++) {
			const char other = a[at];
			a[at] = b[at];
			b[at] = other;
		}
	}
}

/* How many bytes are the same from the start on, or a few less. */
static inline size_t count_equal(const uint8_t *a, const uint8_t *b, size_t size)
{
	enum { BLOCK = 64, BLOCKS = 4096 };
	size_t same = 0;
	while (size - same >= BLOCKS && memcmp(a + same, b + same, BLOCKS) == 0)
		same += BLOCKS;
	while (size - same >= BLOCK && memcmp(a + same, b + same, BLOCK) == 0)
		same += BLOCK;
	return same;
}

#endif
