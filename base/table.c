/* SPDX-License-Identifier: MIT */
/* Open addressing with linear probing, at most three quarters full. */
#include "base/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { FIRST_CAPACITY = 64 };

uint64_t hash_bytes(const void *bytes, size_t size)
{
	const unsigned char *p = bytes;
	uint64_t hash = size, word;
	for (; size >= sizeof(word); p += sizeof(word), size -= sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		hash = hash_pair(hash, word);
	}
	if (size == 0)
		return hash;
	word = 0;
	memcpy(&word, p, size);
	return hash_pair(hash, word);
}

uint64_t hash_pair(uint64_t first, uint64_t second)
{
	uint64_t hash = (first ^ (second << 32 | second >> 32)) * 0x9e3779b97f4a7c15u;
	hash ^= hash >> 29;
	hash = (hash + second) * 0xbf58476d1ce4e5b9u;
	return hash ^ hash >> 32;
}

void table_init(struct table *table)
{
	memset(table, 0, sizeof(*table));
}

void table_release(struct table *table)
{
	free(table->entries);
	table_init(table);
}

void table_clear(struct table *table)
{
	if (table->entries)
		memset(table->entries, 0, table->capacity * sizeof(*table->entries));
	table->count = 0;
}

/* The entry of the pair, or the free one where it would go. */
static struct table_entry *entry_of(const struct table *table, uint64_t first, uint64_t second)
{
	size_t mask = table->capacity - 1;
	size_t i = hash_pair(first, second) & mask;
	while (table->entries[i].used) {
		struct table_entry *entry = &table->entries[i];
		if (entry->first == first && entry->second == second)
			return entry;
		i = (i + 1) & mask;
	}
	return &table->entries[i];
}

bool table_find(const struct table *table, uint64_t first, uint64_t second, uint32_t *value)
{
	if (!table->capacity)
		return false;
	const struct table_entry *entry = entry_of(table, first, second);
	if (!entry->used)
		return false;
	*value = entry->value;
	return true;
}

static void grow(struct table *table)
{
	struct table old = *table;
	table->capacity = old.capacity ? old.capacity * 2 : FIRST_CAPACITY;
	table->entries = alloc_zeroed(table->capacity, sizeof(*table->entries));
	for (size_t i = 0; i < old.capacity; i++)
		if (old.entries[i].used)
			*entry_of(table, old.entries[i].first, old.entries[i].second) =
				old.entries[i];
	free(old.entries);
}

void table_put(struct table *table, uint64_t first, uint64_t second, uint32_t value)
{
	if ((table->count + 1) * 4 > table->capacity * 3)
		grow(table);
	struct table_entry *entry = entry_of(table, first, second);
	if (!entry->used)
		table->count++;
	*entry = (struct table_entry){first, second, value, 1};
}
