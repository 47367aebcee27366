/* SPDX-License-Identifier: MIT */
/*
 * Ranges of code that overlap, as a JIT writes new code where older code was: the one that was
 * added last counts. Kept by start address; each knows how far those before it reach, so that a
 * look back can end. A hostile list makes us give up early, never wait.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "modules/jit.h"

enum { STEPS_LIMIT = 4096 };

void code_list_release(struct code_list *list)
{
	free(list->ranges);
	*list = (struct code_list){0};
}

void code_list_clear(struct code_list *list)
{
	list->count = list->sorted = 0;
}

void code_list_add(struct code_list *list, const struct code_range *range)
{
	if (range->start >= range->end || range->end > UINT64_C(1) << 47)
		return;
	list->ranges =
		alloc_room(list->ranges, &list->capacity, list->count + 1, sizeof(*list->ranges));
	list->ranges[list->count++] = *range;
}

static int by_start(const void *left, const void *right)
{
	const struct code_range *a = left, *b = right;
	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

/* Merges the sorted tail into the sorted rest, from the end on. */
static void merge_tail(struct code_list *list)
{
	size_t old = list->sorted, new = list->count - old, to = list->count;
	struct code_range *tail = alloc_zeroed(new, sizeof(*tail));
	memcpy(tail, list->ranges + old, new * sizeof(*tail));
	while (new > 0) {
		bool from_tail = old == 0 || by_start(&list->ranges[old - 1], &tail[new - 1]) < 0;
		list->ranges[--to] = from_tail ? tail[--new] : list->ranges[--old];
	}
	free(tail);
}

void code_list_sort(struct code_list *list)
{
	if (list->sorted == list->count)
		return;
	qsort(list->ranges + list->sorted, list->count - list->sorted, sizeof(*list->ranges),
	      by_start);
	merge_tail(list);
	list->sorted = list->count;
	remote_addr reach = 0;
	for (size_t i = 0; i < list->count; i++) {
		reach = list->ranges[i].end > reach ? list->ranges[i].end : reach;
		list->ranges[i].reach = reach;
	}
}

/* The number of ranges that start at or below the address. */
static size_t count_until(const struct code_list *list, remote_addr address)
{
	return upper_bound(list->ranges, list->sorted, sizeof(*list->ranges),
			   offsetof(struct code_range, start), address);
}

/* Cuts off what ranges of a higher order have of it, on both sides of the address. */
static void clip(const struct code_list *list, remote_addr address, size_t until,
		 struct code_range *found)
{
	size_t steps = 0;
	for (size_t i = until; i < list->sorted && list->ranges[i].start < found->end; i++) {
		const struct code_range *other = &list->ranges[i];
		if (other->order > found->order || ++steps > STEPS_LIMIT)
			found->end = other->start;
	}
	for (size_t i = until; i-- > 0 && list->ranges[i].reach > found->start;) {
		const struct code_range *other = &list->ranges[i];
		if (++steps > STEPS_LIMIT) {
			found->start = address;
			return;
		}
		if (other->end <= address && other->end > found->start &&
		    other->order > found->order)
			found->start = other->end;
	}
}

bool code_list_find(const struct code_list *list, remote_addr address, struct code_range *found)
{
	size_t until = count_until(list, address), steps = 0;
	const struct code_range *best = NULL;
	for (size_t i = until; i-- > 0 && list->ranges[i].reach > address;) {
		const struct code_range *range = &list->ranges[i];
		if (++steps > STEPS_LIMIT)
			break;
		if (range->end > address && (!best || range->order > best->order))
			best = range;
	}
	if (!best)
		return false;
	*found = *best;
	clip(list, address, until, found);
	return true;
}
