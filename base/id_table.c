/* SPDX-License-Identifier: MIT */
/*
 * Open addressing with linear probing, at most three quarters full. It grows by a quarter: a table
 * that lives long grows seldom, and is to take no more memory than what is in it.
 */
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

/* The hash's part of the table, by its upper bits. */
static size_t first_place(const struct id_table *table, uint32_t hash)
{
	return (size_t)((uint64_t)hash * table->capacity >> 32);
}

static size_t next_place(const struct id_table *table, size_t at)
{
	return at + 1 < table->capacity ? at + 1 : 0;
}

struct id_search id_table_search(const struct id_table *table, uint64_t hash)
{
	const uint32_t folded = (uint32_t)(hash ^ hash >> 32);
	return (struct id_search){folded, first_place(table, folded)};
}

bool id_table_next(const struct id_table *table, struct id_search *search, uint32_t *id)
{
	while (table->capacity && table->places[search->at].id1) {
		const struct id_place *place = &table->places[search->at];
		search->at = next_place(table, search->at);
		if (place->hash != search->hash)
			continue;
		*id = place->id1 - 1;
		return true;
	}
	return false;
}

static void put(struct id_table *table, struct id_place place)
{
	size_t at = first_place(table, place.hash);
	while (table->places[at].id1)
		at = next_place(table, at);
	table->places[at] = place;
}

static void grow(struct id_table *table)
{
	const struct id_table old = *table;
	table->capacity = old.capacity ? old.capacity / 4 * 5 : FIRST_CAPACITY;
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
