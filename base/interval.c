/* SPDX-License-Identifier: MIT */
/*
 * Address ranges, sorted once and then searched: the units and functions of DWARF, FDEs, symbols.
 * Ranges may overlap; the innermost (the one that starts last) wins.
 */
#include <stdlib.h>
#include <sys/types.h>

#include "base/alloc.h"
#include "base/sorted.h"
#include "base/interval.h"

enum { MAX_STEPS = 65536 };

void interval_list_release(struct interval_list *list)
{
	free(list->items);
	*list = (struct interval_list){0};
}

void interval_add(struct interval_list *list, uint64_t start, uint64_t end, uint64_t value)
{
	list->items =
		alloc_room(list->items, &list->capacity, list->count + 1, sizeof(*list->items));
	list->items[list->count++] = (struct interval){start, end, end, value};
}

static int compare(const void *left, const void *right)
{
	const struct interval *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (a->end != b->end)
		return a->end > b->end ? -1 : 1;
	return a->value > b->value ? -1 : a->value < b->value;
}

static bool is_sorted(const struct interval_list *list)
{
	for (size_t i = 1; i < list->count; i++)
		if (compare(&list->items[i - 1], &list->items[i]) > 0)
			return false;
	return true;
}

void interval_sort(struct interval_list *list)
{
	uint64_t reach = 0;

	if (!is_sorted(list))
		qsort(list->items, list->count, sizeof(*list->items), compare);
	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i].end > reach)
			reach = list->items[i].end;
		list->items[i].reach = reach;
	}
}

size_t interval_lower(const struct interval_list *list, uint64_t address)
{
	return address ? upper_bound(list->items, list->count, sizeof(*list->items),
				     offsetof(struct interval, start), address - 1)
		       : 0;
}

ssize_t interval_find(const struct interval_list *list, uint64_t address, size_t before)
{
	size_t i = address == UINT64_MAX ? list->count : interval_lower(list, address + 1);

	if (i > before)
		i = before;
	for (int steps = 0; i > 0 && steps < MAX_STEPS; steps++) {
		i--;
		if (list->items[i].reach <= address)
			return -1;
		if (list->items[i].end > address)
			return (ssize_t)i;
	}
	return -1;
}
