/* SPDX-License-Identifier: MIT */
/*
 * A table from a pair of keys to a number that never grows beyond 256 KiB: new pairs take the place
 * of old ones. For what can be found out again. A long recording meets ever more program counters,
 * most of them once.
 */
#ifndef BASE_CACHE_TABLE_H
#define BASE_CACHE_TABLE_H

#include <stdbool.h>

#include "base/types.h"

struct cache_entry {
	uint64_t first;
	uint32_t second, value;
};

/* All zero is an empty table. */
struct cache_table {
	struct cache_entry *entries;
};

void cache_table_release(struct cache_table *table);
void cache_table_clear(struct cache_table *table);

/* True and *value when the pair is there still. second < UINT32_MAX, here and there. */
bool cache_table_find(const struct cache_table *table, uint64_t first, uint32_t second,
		      uint32_t *value);

/* Adds the pair, or replaces its value. Allocates at the first one: not in the pause. */
void cache_table_put(struct cache_table *table, uint64_t first, uint32_t second, uint32_t value);

#endif
