/* SPDX-License-Identifier: MIT */
/* Distinct frames as they were sampled, numbered: naming them comes later, once each. */
#include "frames/frames.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/table.h"

void frame_table_release(struct frame_table *table)
{
	free(table->frames);
	id_table_release(&table->ids);
	memset(table, 0, sizeof(*table));
}

static uint32_t find_or_add(struct frame_table *table, uint64_t hash, const struct raw_frame *frame,
			    bool (*same)(const struct raw_frame *a, const struct raw_frame *b))
{
	struct id_search search = id_table_search(&table->ids, hash);
	uint32_t id;
	while (id_table_next(&table->ids, &search, &id))
		if (table->frames[id].kind == frame->kind && same(&table->frames[id], frame))
			return id;
	table->frames = alloc_room(table->frames, &table->capacity, table->count + 1,
				   sizeof(*table->frames));
	id = (uint32_t)table->count++;
	table->frames[id] = *frame;
	id_table_add(&table->ids, hash, id);
	return id;
}

/* Outside every module the address says nothing: there the caller tells them apart. */
static bool same_native(const struct raw_frame *a, const struct raw_frame *b)
{
	return a->module == b->module && a->offset == b->offset && a->made == b->made &&
	       a->exact == b->exact && a->guessed == b->guessed &&
	       a->interpreter == b->interpreter && a->hidden == b->hidden &&
	       a->undecided == b->undecided && a->by_pointer == b->by_pointer && a->idle == b->idle;
}

uint32_t frame_table_native(struct frame_table *table, const struct raw_frame *frame)
{
	const uint64_t hash = hash_pair(frame->module ? frame->module->id + 1 : 0, frame->offset);
	const uint32_t id = find_or_add(table, hash, frame, same_native);
	struct raw_frame *known = &table->frames[id];
	if (frame->function && (!known->function || (frame->certain && !known->certain))) {
		known->function = frame->function;
		known->certain = frame->certain;
	}
	return id;
}

static int32_t place_of(const struct raw_frame *frame)
{
	return frame->exact ? frame->instruction : frame->position.line;
}

static bool same_python(const struct raw_frame *a, const struct raw_frame *b)
{
	return a->code == b->code && a->exact == b->exact && a->idle == b->idle &&
	       place_of(a) == place_of(b);
}

uint32_t frame_table_python(struct frame_table *table, const struct raw_frame *frame)
{
	const uint64_t hash =
		hash_pair((uint64_t)(uintptr_t)frame->code, (uint32_t)place_of(frame));
	return find_or_add(table, hash, frame, same_python);
}

static bool same_mark(const struct raw_frame *a, const struct raw_frame *b)
{
	return a->mark == b->mark;
}

static uint32_t named(struct frame_table *table, enum raw_frame_kind kind, const char *name)
{
	struct raw_frame frame = {.kind = kind, .mark = name, .shown = name};
	return find_or_add(table, hash_pair(kind, (uint64_t)(uintptr_t)name), &frame, same_mark);
}

uint32_t frame_table_mark(struct frame_table *table, const char *mark)
{
	return named(table, RAW_MARK, mark);
}

uint32_t frame_table_kernel(struct frame_table *table, const char *function)
{
	return named(table, RAW_KERNEL, function);
}
