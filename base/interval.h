/* SPDX-License-Identifier: MIT */
/* Sorted address ranges, which may lie within one another. */
#ifndef BASE_INTERVAL_H
#define BASE_INTERVAL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct interval {
	uint64_t start, end; /* [start, end) */
	uint64_t reach;	     /* the largest end of this one and all before it */
	uint64_t value;
};

struct interval_list {
	struct interval *items; /* by start; the longer first; the lower value last */
	size_t count, capacity;
};

void interval_list_release(struct interval_list *list);
void interval_add(struct interval_list *list, uint64_t start, uint64_t end, uint64_t value);
void interval_sort(struct interval_list *list);

/* First index whose start is >= address. */
size_t interval_lower(const struct interval_list *list, uint64_t address);

/* The innermost range that holds the address among those below index `before` (list->count: all);
 * -1: none. Gives up after 65,536 steps. */
ssize_t interval_find(const struct interval_list *list, uint64_t address, size_t before);

#endif
