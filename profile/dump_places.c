/* SPDX-License-Identifier: MIT */
/*
 * Where processes are, in a word each. Of their ways (outermost first)
 *
 *     <module> train all_reduce                seven times
 *     <module> train DataLoader.__next__       once
 *
 * the places are all_reduce and DataLoader.__next__. Lines count only where all ways are one.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "profile/dump_groups.h"

struct way {
	const struct frame **frames; /* outermost first */
	const char **keys;	     /* of each: its function and file, interned */
	size_t count;
	const struct frame *own; /* the innermost of the program's own; NULL: no stack */
};

struct ways {
	struct dump_groups *groups;
	struct way *list; /* of each dump that has threads */
	size_t count;
	struct strbuf text;
	bool full;
};

/* The first thread that it had, else the first with a stack, else the first. */
static const struct dump_thread *first_thread(const struct dump *dump)
{
	const struct dump_thread *found = NULL;
	for (size_t i = 0; i < dump->thread_count; i++) {
		const struct dump_thread *thread = &dump->threads[i];
		if (thread->tid == dump->pid && thread->frame_count)
			return thread;
		if (!found || (!found->frame_count && thread->frame_count))
			found = thread;
	}
	return found;
}

/* ---- ways ---- */

static bool is_library(const struct frame *frame)
{
	return frame->kind == FRAME_PYTHON_LIBRARY || frame->kind == FRAME_CYTHON;
}

static bool is_own(const struct frame *frame)
{
	return frame->kind == FRAME_PYTHON;
}

static bool is_any(const struct frame *frame)
{
	(void)frame;
	return true;
}

typedef bool frame_choice(const struct frame *frame);

static bool has(const struct dump_thread *thread, frame_choice *choice)
{
	for (size_t i = 0; i < thread->frame_count; i++)
		if (choice(&thread->frames[i]))
			return true;
	return false;
}

static const char *text_of(struct ways *ways, const struct frame *frame, bool line)
{
	strbuf_reset(&ways->text);
	frame_text(&ways->text, frame, line, ways->full);
	return intern_text(ways->groups->strings, ways->text.text);
}

static const char *name_of(struct ways *ways, const struct frame *frame)
{
	if (!frame || !frame->name || !*frame->name)
		return frame ? text_of(ways, frame, false) : NULL;
	strbuf_reset(&ways->text);
	frame_name_text(&ways->text, frame);
	return intern_text(ways->groups->strings, ways->text.text);
}

static void add_step(struct ways *ways, struct way *way, const struct frame *frame)
{
	way->keys[way->count] = text_of(ways, frame, false);
	way->frames[way->count++] = frame;
}

static void find_way(struct ways *ways, const struct dump_thread *thread, struct way *way)
{
	/* Of a thread that has none of the program's own code, the libraries'; else all there is.
	 */
	frame_choice *choice = has(thread, is_own)	 ? is_own
			       : has(thread, is_library) ? is_library
							 : is_any;
	const struct frame *called = NULL;
	way->frames = alloc_zeroed(thread->frame_count + 1, sizeof(*way->frames));
	way->keys = alloc_zeroed(thread->frame_count + 1, sizeof(*way->keys));
	for (size_t i = thread->frame_count; i-- > 0;) {
		const struct frame *frame = &thread->frames[i];
		if (choice(frame)) {
			way->own = frame;
			called = NULL;
			add_step(ways, way, frame);
		} else if (way->own && !called && is_library(frame)) {
			called = frame;
		}
	}
	if (called)
		add_step(ways, way, called);
}

static size_t common(const struct way *one, const struct way *other)
{
	size_t count = 0;
	while (count < one->count && count < other->count && one->keys[count] == other->keys[count])
		count++;
	return count;
}

static bool equal(const struct way *one, const struct way *other)
{
	return one->count == other->count && common(one, other) == one->count;
}

/* Any order that has those next to one another that go together the longest. */
static int compare_ways(const void *left, const void *right)
{
	const struct way *a = left, *b = right;
	const size_t at = common(a, b);
	if (at == a->count || at == b->count)
		return a->count < b->count ? -1 : a->count > b->count;
	return strcmp(a->keys[at], b->keys[at]);
}

/* ---- places ---- */

static void count_place(struct dump_groups *groups, const char *name)
{
	size_t at = 0;
	while (at < groups->place_count && groups->places[at].name != name)
		at++;
	if (at == groups->place_count)
		groups->places[groups->place_count++] = (struct dump_place){.name = name};
	groups->places[at].processes++;
}

/* The ways are sorted: what is nearest is right before or behind those that are equal. */
static void count_parted(struct ways *ways)
{
	for (size_t i = 0, next; i < ways->count; i = next) {
		const struct way *way = &ways->list[i];
		size_t along = i ? common(way, way - 1) : 0;
		for (next = i + 1; next < ways->count && equal(way, &ways->list[next]); next++)
			;
		const size_t behind = next < ways->count ? common(way, &ways->list[next]) : 0;
		along = along > behind ? along : behind;
		/* What has nothing in common with another is named by what it does. */
		const bool parts = along > 0 && along < way->count;
		const char *name = name_of(ways, parts ? way->frames[along] : way->own);
		for (size_t k = i; k < next; k++)
			count_place(ways->groups, name);
	}
}

static void count_lines(struct ways *ways)
{
	for (size_t i = 0; i < ways->count; i++)
		count_place(ways->groups,
			    ways->list[i].own ? text_of(ways, ways->list[i].own, true) : NULL);
}

/* All go the same way. */
static void count_one_way(struct ways *ways)
{
	count_lines(ways);
	if (ways->groups->place_count > 1)
		return;
	ways->groups->places->name = name_of(ways, ways->list->own);
}

static int most_first(const void *left, const void *right)
{
	const struct dump_place *a = left, *b = right;
	if (a->processes != b->processes)
		return a->processes > b->processes ? -1 : 1;
	if (!a->name || !b->name)
		return a->name ? -1 : b->name != NULL;
	return strcmp(a->name, b->name);
}

void dump_places_find(struct dump_groups *groups, bool full)
{
	const struct dump_list *list = groups->list;
	struct ways ways = {.groups = groups, .full = full};
	strbuf_init(&ways.text);
	ways.list = alloc_zeroed(list->count + 1, sizeof(*ways.list));
	groups->places = alloc_zeroed(list->count + 1, sizeof(*groups->places));
	for (size_t i = 0; i < list->count; i++)
		if (list->dumps[i].thread_count)
			find_way(&ways, first_thread(&list->dumps[i]), &ways.list[ways.count++]);
	qsort(ways.list, ways.count, sizeof(*ways.list), compare_ways);
	if (ways.count && equal(&ways.list[0], &ways.list[ways.count - 1]))
		count_one_way(&ways);
	else
		count_parted(&ways);
	qsort(groups->places, groups->place_count, sizeof(*groups->places), most_first);
	for (size_t i = 0; i < ways.count; i++) {
		free(ways.list[i].frames);
		free(ways.list[i].keys);
	}
	free(ways.list);
	strbuf_release(&ways.text);
}
