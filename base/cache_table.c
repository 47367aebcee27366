/* SPDX-License-Identifier: MIT */
/* Each pair has one bucket, of 64 bytes: newest first, and the oldest goes. */
#include "base/cache_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/table.h"

enum { BUCKET = 4, BUCKETS = 4096, ENTRIES = BUCKET * BUCKETS };

static struct cache_entry *bucket_of(const struct cache_table *table, uint64_t first,
				     uint32_t second)
{
	return table->entries + hash_pair(first, second) % BUCKETS * BUCKET;
}

/* Free entries have no second key: it is kept as one more. */
static bool is(const struct cache_entry *entry, uint64_t first, uint32_t second)
{
	return entry->first == first && entry->second == second + 1;
}

void cache_table_release(struct cache_table *table)
{
	free(table->entries);
	table->entries = NULL;
}

void cache_table_clear(struct cache_table *table)
{
	if (table->entries)
		memset(table->entries, 0, ENTRIES * sizeof(*table->entries));
}

bool cache_table_find(const struct cache_table *table, uint64_t first, uint32_t second,
		      uint32_t *value)
{
	if (!table->entries)
		return false;
	const struct cache_entry *bucket = bucket_of(table, first, second);
	for (size_t i = 0; i < BUCKET; i++)
		if (is(&bucket[i], first, second)) {
			*value = bucket[i].value;
			return true;
		}
	return false;
}

void cache_table_put(struct cache_table *table, uint64_t first, uint32_t second, uint32_t value)
{
	if (!table->entries)
		table->entries = alloc_zeroed(ENTRIES, sizeof(*table->entries));
	struct cache_entry *bucket = bucket_of(table, first, second);
	size_t place = 0;
	while (place < BUCKET - 1 && !is(&bucket[place], first, second))
		place++;
	memmove(bucket + 1, bucket, place * sizeof(*bucket));
	bucket[0] = (struct cache_entry){first, second + 1, value};
}
