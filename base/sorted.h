/* SPDX-License-Identifier: MIT */
/* Looking up in arrays that are in ascending order of a number in each item. */
#ifndef BASE_SORTED_H
#define BASE_SORTED_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * How many items have a number of at most `limit`: they are the first ones. `size`: of an item;
 * `offset`: of its uint64_t. E.g. the last range that starts at or below an address is the one
 * before.
 */
static inline size_t upper_bound(const void *items, size_t count, size_t size, size_t offset,
				 uint64_t limit)
{
	size_t low = 0, high = count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		uint64_t number;
		memcpy(&number, (const char *)items + middle * size + offset, sizeof(number));
		if (number <= limit)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

#endif
