/* SPDX-License-Identifier: MIT */
/* Open addressing with linear probing, at most three quarters full. */
#include "base/id_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { FIRST_CAPACITY = 64 };

void id_table_release(struct id_table *table)
{
	free(table->places);
	memset(table, 0, sizeof(*table));
}

void id_table_clear(struct id_table *table)
{
	if (table->places)
		memset(table->places, 0, table->capacity * sizeof(*table->places));
	table->count = 0;
}

struct id_search id_table_search(const struct id_table *table, uint64_t hash)
{
	const uint32_t folded = (uint32_t)(hash ^ hash >> 32);
	return (struct id_search){folded, table->capacity ? folded & (table->capacity - 1) : 0};
}

bool id_table_next(const struct id_table *table, struct id_search *search, uint32_t *id)
{
	while (table->capacity && table->places[search->at].id1) {
		const struct id_place *place = &table->places[search->at];
		search->at = (search->at + 1) & (table->capacity - 1);
		if (place->hash != search->hash)
			continue;
		*id = place->id1 - 1;
		return true;
	}
	return false;
}

static void put(struct id_table *table, struct id_place place)
{
	size_t at = place.hash & (table->capacity - 1);
	while (table->places[at].id1)
		at = (at + 1) & (table->capacity - 1);
	table->places[at] = place;
}

static void grow(struct id_table *table)
{
	const struct id_table old = *table;
	table->capacity = old.capacity ? 2 * old.capacity : FIRST_CAPACITY;
	table->places = alloc_zeroed(table->capacity, sizeof(*table->places));
	for (size_t i = 0; i < old.capacity; i++)
		if (old.places[i].id1)
			put(table, old.places[i]);
	free(old.places);
}

void id_table_add(struct id_table *table, uint64_t hash, uint32_t id)
{
	if (table->count >= table->capacity / 4 * 3)
		grow(table);
	put(table, (struct id_place){id_table_search(table, hash).hash, id + 1});
	table->count++;
}
