/* SPDX-License-Identifier: MIT */
/* Distinct frames as they were sampled, numbered: naming them comes later, once each. */
#include "sample/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* Keys of different kinds of frames must not meet: the kind stands in the top bits. */
static uint64_t key_of(enum raw_frame_kind kind, uint64_t flags, uint64_t id)
{
	return (uint64_t)kind << 62 | flags << 56 | id;
}

void frame_table_release(struct frame_table *table)
{
	free(table->frames);
	table_release(&table->ids);
	memset(table, 0, sizeof(*table));
}

static uint32_t find_or_add(struct frame_table *table, uint64_t first, uint64_t second,
			    const struct raw_frame *frame)
{
	uint32_t id;
	if (table_find(&table->ids, first, second, &id))
		return id;
	table->frames = alloc_room(table->frames, &table->capacity, table->count + 1,
				   sizeof(*table->frames));
	id = (uint32_t)table->count++;
	table->frames[id] = *frame;
	table_put(&table->ids, first, second, id);
	return id;
}

uint32_t frame_table_native(struct frame_table *table, const struct raw_frame *frame)
{
	uint64_t flags = (uint64_t)frame->exact | (uint64_t)frame->guessed << 1 |
			 (uint64_t)frame->interpreter << 2 | (uint64_t)frame->hidden << 3 |
			 (uint64_t)frame->idle << 4;
	uint64_t module = frame->module ? frame->module->id + 1 : 0;
	/* Outside every module the address says nothing: all such frames are one. */
	return find_or_add(table, key_of(RAW_NATIVE, flags, module),
			   frame->module ? frame->offset : 0, frame);
}

uint32_t frame_table_python(struct frame_table *table, const struct raw_frame *frame)
{
	uint64_t flags = (uint64_t)frame->exact | (uint64_t)frame->idle << 1;
	uint32_t place = (uint32_t)(frame->exact ? frame->instruction : frame->position.line);
	return find_or_add(table, key_of(RAW_PYTHON, flags, place),
			   (uint64_t)(uintptr_t)frame->code, frame);
}

static uint32_t named(struct frame_table *table, enum raw_frame_kind kind, const char *name)
{
	struct raw_frame frame = {.kind = kind, .mark = name};
	return find_or_add(table, key_of(kind, 0, 0), (uint64_t)(uintptr_t)name, &frame);
}

uint32_t frame_table_mark(struct frame_table *table, const char *mark)
{
	return named(table, RAW_MARK, mark);
}

uint32_t frame_table_kernel(struct frame_table *table, const char *function)
{
	return named(table, RAW_KERNEL, function);
}
