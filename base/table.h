/* SPDX-License-Identifier: MIT */
/* A hash table from a pair of 64-bit keys to a 32-bit number (an index into the caller's array). */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include <stdbool.h>

#include "base/types.h"

struct table_entry {
	uint64_t first, second;
	uint32_t value;
	uint32_t used;
};

struct table {
	struct table_entry *entries;
	size_t capacity; /* a power of two, or 0 */
	size_t count;
};

void table_init(struct table *table);
void table_release(struct table *table);
void table_clear(struct table *table);

/* True and *value when the pair is there. May run in the pause. */
bool table_find(const struct table *table, uint64_t first, uint64_t second, uint32_t *value);

/* Adds the pair, or replaces its value. */
void table_put(struct table *table, uint64_t first, uint64_t second, uint32_t value);

/* By words of eight bytes: fit for megabytes, too. Not to be written to files: it may change. */
uint64_t hash_bytes(const void *bytes, size_t size);
uint64_t hash_pair(uint64_t first, uint64_t second);

#endif
