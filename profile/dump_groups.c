/* SPDX-License-Identifier: MIT */
/*
 * Dumps -> groups of equal stacks. A stack's key is the text of its frames, one a line, interned:
 * equal stacks have equal pointers. Relies on frames' strings being clean text without newlines.
 */
#include "profile/dump_groups.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "base/table.h"

void dump_list_add(struct dump_list *list, const struct dump *dump)
{
	list->dumps = alloc_room(list->dumps, &list->capacity, list->count + 1, sizeof(*dump));
	list->dumps[list->count++] = *dump;
}

void dump_list_release(struct dump_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		arena_release(&list->dumps[i].arena);
	free(list->dumps);
	*list = (struct dump_list){0};
}

/* ---- groups ---- */

struct grouping {
	struct dump_groups *groups;
	size_t capacity;
	bool lines, full;
	struct table of_key;  /* the pointer to a stack's text -> its group */
	uint32_t *of_thread;  /* of all threads of all dumps, in that order: its group */
	size_t *last_process; /* of each group: one more than the dump of its last member */
	size_t last_capacity;
	struct strbuf text;
};

static const char *key_of(struct grouping *grouping, const struct dump_thread *thread)
{
	struct strbuf *text = &grouping->text;
	strbuf_reset(text);
	for (size_t i = 0; i < thread->frame_count; i++) {
		frame_text(text, &thread->frames[i], grouping->lines, grouping->full);
		strbuf_add_char(text, '\n');
	}
	strbuf_add_text(text, thread->problem ? thread->problem : "");
	return intern_bytes(grouping->groups->strings, text->text, text->size);
}

static uint32_t group_of(struct grouping *grouping, const struct dump_thread *thread)
{
	struct dump_groups *groups = grouping->groups;
	const uint64_t key = (uint64_t)(uintptr_t)key_of(grouping, thread);
	uint32_t group;
	if (table_find(&grouping->of_key, key, 0, &group))
		return group;
	group = (uint32_t)groups->count++;
	table_put(&grouping->of_key, key, 0, group);
	groups->groups = alloc_room(groups->groups, &grouping->capacity, groups->count,
				    sizeof(*groups->groups));
	groups->groups[group] = (struct dump_group){0};
	grouping->last_process = alloc_room(grouping->last_process, &grouping->last_capacity,
					    groups->count, sizeof(*grouping->last_process));
	grouping->last_process[group] = 0;
	return group;
}

/* Which group each thread is of, and how large they are. */
static void find_groups(struct grouping *grouping, size_t threads)
{
	struct dump_groups *groups = grouping->groups;
	const struct dump_list *list = groups->list;
	uint32_t *of_thread = grouping->of_thread = alloc_zeroed(threads + 1, sizeof(uint32_t));
	for (size_t i = 0; i < list->count; i++) {
		const struct dump *dump = &list->dumps[i];
		groups->processes += dump->thread_count > 0;
		for (size_t k = 0; k < dump->thread_count; k++) {
			const uint32_t group = group_of(grouping, &dump->threads[k]);
			of_thread[k] = group;
			groups->groups[group].count++;
			groups->groups[group].processes += grouping->last_process[group] != i + 1;
			grouping->last_process[group] = i + 1;
		}
		of_thread += dump->thread_count;
	}
}

/* Room for each group's members behind those of the group before, then the members. */
static void fill_groups(struct grouping *grouping, size_t threads)
{
	struct dump_groups *groups = grouping->groups;
	const struct dump_list *list = groups->list;
	struct dump_member *members = alloc_zeroed(threads + 1, sizeof(*members));
	size_t *next = alloc_zeroed(groups->count + 1, sizeof(*next));
	groups->members = members;
	for (size_t i = 0, start = 0; i < groups->count; i++) {
		groups->groups[i].members = members + start;
		next[i] = start;
		start += groups->groups[i].count;
	}
	const uint32_t *of_thread = grouping->of_thread;
	for (size_t i = 0; i < list->count; i++)
		for (size_t k = 0; k < list->dumps[i].thread_count; k++)
			members[next[*of_thread++]++] = (struct dump_member){i, k};
	free(next);
}

static int compare(size_t a, size_t b)
{
	return a < b ? -1 : a > b;
}

/* The odd one first; of equally odd ones, the one that is met first. */
static int oddest_first(const void *left, const void *right)
{
	const struct dump_group *a = left, *b = right;
	int order = compare(a->processes, b->processes);
	if (!order)
		order = compare(a->count, b->count);
	if (!order)
		order = compare(a->members->dump, b->members->dump);
	return order ? order : compare(a->members->thread, b->members->thread);
}

void dump_groups_init(struct dump_groups *groups, const struct dump_list *list, bool lines,
		      bool full)
{
	*groups = (struct dump_groups){.list = list, .strings = interner_new()};
	struct grouping grouping = {.groups = groups, .lines = lines, .full = full};
	size_t threads = 0;
	for (size_t i = 0; i < list->count; i++)
		threads += list->dumps[i].thread_count;
	strbuf_init(&grouping.text);
	table_init(&grouping.of_key);
	find_groups(&grouping, threads);
	fill_groups(&grouping, threads);
	dump_places_find(groups, full);
	if (groups->count)
		qsort(groups->groups, groups->count, sizeof(*groups->groups), oddest_first);
	free(grouping.of_thread);
	free(grouping.last_process);
	table_release(&grouping.of_key);
	strbuf_release(&grouping.text);
}

void dump_groups_release(struct dump_groups *groups)
{
	free(groups->groups);
	free(groups->members);
	free(groups->places);
	interner_free(groups->strings);
	*groups = (struct dump_groups){0};
}
