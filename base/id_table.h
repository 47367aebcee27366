/* SPDX-License-Identifier: MIT */
/*
 * A hash table of numbers whose keys the caller has (items of an array of his, by index): 8 bytes a
 * place, where struct table takes 24.
 */
#ifndef BASE_ID_TABLE_H
#define BASE_ID_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/types.h"

struct id_place {
	uint32_t hash;
	uint32_t id1; /* one more than the number; 0: free */
};

struct id_table {
	struct id_place *places;
	size_t capacity;
	size_t count;
};

/* Where a search is. */
struct id_search {
	uint32_t hash;
	size_t at;
};

/* All zero is an empty table. */
void id_table_release(struct id_table *table);
void id_table_clear(struct id_table *table);

/*
 * Each number that was added with that hash, and perhaps others: the caller compares the keys.
 *
 *	struct id_search search = id_table_search(&table, hash);
 *	while (id_table_next(&table, &search, &id))
 *		if (equal(&items[id], wanted))
 *			return id;
 */
struct id_search id_table_search(const struct id_table *table, uint64_t hash);
bool id_table_next(const struct id_table *table, struct id_search *search, uint32_t *id);

/* id < UINT32_MAX, which is not yet there. */
void id_table_add(struct id_table *table, uint64_t hash, uint32_t id);

#endif
