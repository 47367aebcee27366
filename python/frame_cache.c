/* SPDX-License-Identifier: MIT */
/*
 * What a walk has found (CPython 3.11+), for the next one of the same thread state: from the frame
 * on that was met then, too, and outside of which no byte of any frame has changed, the frames are
 * taken from there. Most are in the chunks of the data stack, which are compared as a whole; the
 * others (shims, generators) one by one. The headers of their code objects are read anew, as in
 * every walk, since another one may be at the same address by now. Not in the pause.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arrays.h"
#include "python/walk.h"

enum {
	CACHE_BYTES = 1 << 20, /* of chunks; a larger stack is walked anew each time */
	CACHE_VIEWS = 1 << 14,
};

struct kept_chunk {
	remote_addr address;
	size_t size, equal; /* equal: of the bytes from its start on, then and now */
	uint8_t *bytes;
	size_t capacity;
};

struct frame_cache {
	bool valid;
	uint64_t walk;		  /* its number */
	remote_addr tstate, base; /* base: the outermost frame ends there, 3.14 */
	const struct python_runtime *runtime;
	struct walked_frame *frames;
	size_t frame_count, frame_capacity;
	struct python_frame *resolved; /* the same, at the room's end */
	size_t resolved_capacity;
	struct walked_view *views;
	size_t view_count, view_capacity;
	struct python_code_header *codes;
	size_t code_count, code_capacity;
	struct kept_chunk *chunks; /* the oldest first */
	size_t chunk_count, chunk_capacity;
	uint8_t *others; /* MAX_RECORD bytes for each view that is in no chunk, outermost first */
	size_t other_capacity;
	/* the walk under way */
	uint32_t *code_map; /* indices then -> now; NO_INDEX: not known or not the same */
	size_t code_map_capacity;
	bool codes_moved; /* some of them have another index now */
	struct walk_taken taken;
};

struct frame_cache *frame_cache_new(void)
{
	return alloc_zeroed(1, sizeof(struct frame_cache));
}

void frame_cache_free(struct frame_cache *frame_cache)
{
	if (!frame_cache)
		return;
	for (size_t i = 0; i < frame_cache->chunk_capacity; i++)
		free(frame_cache->chunks[i].bytes);
	free(frame_cache->chunks);
	free(frame_cache->frames);
	free(frame_cache->resolved);
	free(frame_cache->views);
	free(frame_cache->codes);
	free(frame_cache->others);
	free(frame_cache->code_map);
	free(frame_cache);
}

/* ---- what still holds ---- */

/* Lists of chunks grow and shrink at the newest end. */
static void compare_chunks(struct walk *walk, struct frame_cache *frame_cache)
{
	const struct walked_chunks *chunks = &walk->room->chunks;
	const size_t known = frame_cache->chunk_count;
	const size_t most = chunks->count < known ? chunks->count : known;
	for (size_t i = 0; i < most; i++) {
		struct kept_chunk *kept = &frame_cache->chunks[i];
		struct raw_chunk *chunk = &chunks->items[chunks->count - 1 - i];
		if (chunk->address != kept->address)
			return;
		const uint8_t *bytes = walk_chunk_bytes(walk, chunk);
		if (!bytes)
			return;
		kept->equal = count_equal(kept->bytes, bytes,
					  chunk->size < kept->size ? chunk->size : kept->size);
	}
}

static bool same_header(const struct python_code_header *a, const struct python_code_header *b)
{
	return a->address == b->address && a->identity == b->identity &&
	       a->filename == b->filename && a->name == b->name && a->line_table == b->line_table &&
	       a->bytecode == b->bytecode && a->copies == b->copies &&
	       a->first_traceable == b->first_traceable && a->frame_size == b->frame_size &&
	       a->first_line == b->first_line;
}

/* Reads the header anew. */
static bool same_code(struct walk *walk, struct frame_cache *frame_cache, uint32_t code)
{
	uint32_t *now = &frame_cache->code_map[code];
	uint32_t index;
	if (*now != NO_INDEX)
		return true;
	if (!walk_find_code(walk, frame_cache->codes[code].address, &index, NULL) ||
	    !same_header(&walk->room->codes.items[index], &frame_cache->codes[code]))
		return false;
	*now = index;
	frame_cache->codes_moved |= index != code;
	return true;
}

/* In the newest chunk and above the top of the data stack: dead, if it is not a generator's. */
static bool may_be_dead(const struct walk *walk, const struct walked_view *view)
{
	const struct raw_chunk *newest = walk->room->chunks.items;
	return walk->room->chunks.count > 0 && view->address >= walk->stack_top &&
	       view->address >= newest->address && view->address - newest->address < newest->size;
}

/* Below what has changed of its chunk. */
static bool same_in_chunk(const struct walk *walk, const struct frame_cache *frame_cache,
			  const struct walked_view *view)
{
	const struct kept_chunk *chunk = &frame_cache->chunks[view->chunk];
	return view->address - chunk->address + walk->layout->iframe_size <= chunk->equal;
}

static bool same_elsewhere(const struct walk *walk, const struct walked_view *view,
			   const uint8_t *then)
{
	uint8_t now[MAX_RECORD];
	return memory_read(walk->memory, view->address, now, walk->layout->iframe_size, NULL) &&
	       memcmp(now, then, walk->layout->iframe_size) == 0;
}

/* The innermost view that is the same, as are all outside of it. */
static size_t find_first(struct walk *walk, struct frame_cache *frame_cache)
{
	const uint8_t *other = frame_cache->others;
	size_t first = frame_cache->view_count;
	for (; first > 0; first--) {
		const struct walked_view *view = &frame_cache->views[first - 1];
		if (!view->lasting || may_be_dead(walk, view))
			break;
		if (view->chunk != NO_INDEX) {
			if (!same_in_chunk(walk, frame_cache, view))
				break;
		} else {
			if (!same_elsewhere(walk, view, other))
				break;
			other += MAX_RECORD;
		}
		if (view->code != NO_INDEX && !same_code(walk, frame_cache, view->code))
			break;
	}
	return first;
}

void frame_cache_begin(struct walk *walk, remote_addr tstate)
{
	struct frame_cache *frame_cache = walk->room->frame_cache;
	frame_cache->taken = (struct walk_taken){.next = frame_cache->view_count};
	for (size_t i = 0; i < frame_cache->chunk_capacity; i++)
		frame_cache->chunks[i].equal = 0;
	if (!frame_cache->valid || frame_cache->tstate != tstate ||
	    frame_cache->runtime != walk->runtime ||
	    frame_cache->base !=
		    field_optional(walk->room->tstate, walk->layout->tstate_base_frame))
		return;
	compare_chunks(walk, frame_cache);
	frame_cache->code_map =
		alloc_room(frame_cache->code_map, &frame_cache->code_map_capacity,
			   frame_cache->code_count + 1, sizeof(*frame_cache->code_map));
	for (size_t i = 0; i < frame_cache->code_count; i++)
		frame_cache->code_map[i] = NO_INDEX;
	frame_cache->codes_moved = false;
	frame_cache->taken.next = find_first(walk, frame_cache);
}

/* ---- taking it ---- */

struct walk_mark walk_mark(const struct walk_room *room)
{
	struct walk_mark mark = {.frames = room->frame_count, .views = room->view_count};
	if (room->frame_cache)
		mark.taken = room->frame_cache->taken;
	return mark;
}

void walk_go_back(struct walk_room *room, const struct walk_mark *mark)
{
	room->frame_count = mark->frames;
	room->view_count = mark->views;
	if (room->frame_cache)
		room->frame_cache->taken = mark->taken;
}

/* The view behind the last one of the run that the next one is in; 0: the address is not there. */
static size_t find_end(const struct frame_cache *frame_cache, remote_addr address)
{
	if (!frame_cache || frame_cache->taken.next >= frame_cache->view_count ||
	    frame_cache->views[frame_cache->taken.next].address != address)
		return 0;
	for (size_t i = frame_cache->taken.next; i < frame_cache->view_count; i++)
		if (frame_cache->views[i].ends_run)
			return i + 1;
	return 0;
}

static size_t frames_before(const struct frame_cache *frame_cache, size_t view)
{
	return view < frame_cache->view_count ? frame_cache->views[view].frame
					      : frame_cache->frame_count;
}

static void add_frames(struct walk_room *room, size_t first, size_t end)
{
	const struct frame_cache *frame_cache = room->frame_cache;
	if (end == first)
		return;
	room->frames = alloc_room(room->frames, &room->frame_capacity,
				  room->frame_count + (end - first) + 1, sizeof(*room->frames));
	struct walked_frame *frames = room->frames + room->frame_count;
	memcpy(frames, frame_cache->frames + first, (end - first) * sizeof(*frames));
	for (size_t i = 0; frame_cache->codes_moved && i < end - first; i++)
		frames[i].code = frame_cache->code_map[frames[i].code];
	room->frame_count += end - first;
}

static void add_views(struct walk_room *room, size_t end)
{
	const struct frame_cache *frame_cache = room->frame_cache;
	const size_t next = frame_cache->taken.next;
	const uint32_t moved = (uint32_t)room->frame_count - frame_cache->views[next].frame;
	room->views = alloc_room(room->views, &room->view_capacity,
				 room->view_count + (end - next) + 1, sizeof(*room->views));
	struct walked_view *views = room->views + room->view_count;
	memcpy(views, frame_cache->views + next, (end - next) * sizeof(*views));
	room->view_count += end - next;
	if (!moved && !frame_cache->codes_moved)
		return;
	for (size_t i = 0; i < end - next; i++) {
		views[i].frame += moved;
		if (views[i].code != NO_INDEX)
			views[i].code = frame_cache->code_map[views[i].code];
	}
}

/* Takes the views up to `end`, and their frames. */
static bool take(struct walk *walk, size_t end)
{
	struct walk_room *room = walk->room;
	struct frame_cache *frame_cache = room->frame_cache;
	struct walk_taken *taken = &frame_cache->taken;
	const size_t first = frames_before(frame_cache, taken->next);
	const size_t last = frames_before(frame_cache, end);
	if (last - first > MAX_FRAMES - room->frame_count)
		return false;
	if (taken->views == 0) {
		taken->first_frame = room->frame_count;
		taken->first_view = room->view_count;
	}
	add_views(room, end);
	add_frames(room, first, last);
	taken->frames += last - first;
	taken->views += end - taken->next;
	taken->next = end;
	return true;
}

bool frame_cache_run(struct walk *walk, remote_addr address, remote_addr outer, size_t *visited,
		     struct walked_view *end)
{
	const struct frame_cache *frame_cache = walk->room->frame_cache;
	const size_t until = find_end(frame_cache, address);
	if (!until || frame_cache->views[until - 1].previous != outer ||
	    *visited + (until - frame_cache->taken.next) > MAX_FRAMES)
		return false;
	*visited += until - frame_cache->taken.next;
	*end = frame_cache->views[until - 1];
	return take(walk, until);
}

bool frame_cache_shim(struct walk *walk, remote_addr address, struct walked_view *end)
{
	const struct frame_cache *frame_cache = walk->room->frame_cache;
	const size_t until = find_end(frame_cache, address);
	if (!until)
		return false;
	*end = frame_cache->views[until - 1];
	return take(walk, until);
}

/* How many of the outermost views were taken, all of them in one piece. */
static size_t count_taken_views(const struct walk_room *room)
{
	const struct frame_cache *frame_cache = room->frame_cache;
	const struct walk_taken *taken = &frame_cache->taken;
	return taken->next == frame_cache->view_count &&
			       room->view_count - taken->first_view == taken->views &&
			       room->frame_count - taken->first_frame == taken->frames
		       ? taken->views
		       : 0;
}

size_t frame_cache_frames(const struct walk_room *room, const struct python_frame **frames,
			  uint64_t *walk)
{
	const struct frame_cache *frame_cache = room->frame_cache;
	*walk = 0;
	if (!frame_cache || count_taken_views(room) == 0 || frame_cache->taken.frames == 0)
		return 0;
	*walk = frame_cache->walk;
	*frames = frame_cache->resolved +
		  (frame_cache->resolved_capacity - frame_cache->taken.frames);
	return frame_cache->taken.frames;
}

/* ---- keeping it ---- */

static bool keep_chunk(struct walk *walk, struct frame_cache *frame_cache, size_t i)
{
	const struct walked_chunks *chunks = &walk->room->chunks;
	struct raw_chunk *chunk = &chunks->items[chunks->count - 1 - i];
	const uint8_t *bytes = walk_chunk_bytes(walk, chunk);
	struct kept_chunk *kept = &frame_cache->chunks[i];
	if (!bytes)
		return false;
	const size_t same = kept->address == chunk->address ? kept->equal : 0;
	kept->bytes = alloc_room(kept->bytes, &kept->capacity, chunk->size, 1);
	memcpy(kept->bytes + same, bytes + same, chunk->size - same);
	kept->address = chunk->address;
	kept->size = chunk->size;
	return true;
}

/* Those that have frames in them; that is all, as a rule. */
static bool keep_chunks(struct walk *walk, struct frame_cache *frame_cache)
{
	const size_t count = walk->room->chunks.count, before = frame_cache->chunk_capacity;
	size_t total = 0;
	for (size_t i = 0; i < count; i++)
		total += walk->room->chunks.items[i].size;
	if (total > CACHE_BYTES)
		return false;
	frame_cache->chunks = alloc_room(frame_cache->chunks, &frame_cache->chunk_capacity,
					 count + 1, sizeof(*frame_cache->chunks));
	if (frame_cache->chunk_capacity > before)
		memset(frame_cache->chunks + before, 0,
		       (frame_cache->chunk_capacity - before) * sizeof(*frame_cache->chunks));
	frame_cache->chunk_count = count;
	for (size_t i = 0; i < count; i++)
		if (!keep_chunk(walk, frame_cache, i))
			return false;
	return true;
}

/* Of the outermost `same` views they are there already. */
static bool keep_others(struct walk *walk, struct frame_cache *frame_cache, size_t same)
{
	const struct walk_room *room = walk->room;
	size_t count = 0;
	for (size_t i = room->view_count; i-- > 0;) {
		const struct walked_view *view = &room->views[i];
		if (view->chunk != NO_INDEX)
			continue;
		frame_cache->others = alloc_room(frame_cache->others, &frame_cache->other_capacity,
						 (count + 1) * MAX_RECORD, 1);
		if (room->view_count - i > same &&
		    !memory_read(walk->memory, view->address,
				 frame_cache->others + count * MAX_RECORD,
				 walk->layout->iframe_size, NULL))
			return false;
		count++;
	}
	return true;
}

/* What was taken from there is there already. */
static void keep_resolved(struct frame_cache *frame_cache, const struct python_stack *stack)
{
	frame_cache->resolved = alloc_room_in_front(
		frame_cache->resolved, &frame_cache->resolved_capacity, stack->reused,
		stack->count + 1, sizeof(*frame_cache->resolved));
	memcpy(frame_cache->resolved + (frame_cache->resolved_capacity - stack->count),
	       stack->frames, (stack->count - stack->reused) * sizeof(*frame_cache->resolved));
}

/* The lists change hands. */
static void swap_lists(struct frame_cache *frame_cache, struct walk_room *room)
{
	const struct frame_cache last = *frame_cache;
	frame_cache->frames = room->frames;
	frame_cache->frame_count = room->frame_count;
	frame_cache->frame_capacity = room->frame_capacity;
	frame_cache->views = room->views;
	frame_cache->view_count = room->view_count;
	frame_cache->view_capacity = room->view_capacity;
	frame_cache->codes = room->codes.items;
	frame_cache->code_count = room->codes.count;
	frame_cache->code_capacity = room->codes.capacity;
	room->frames = last.frames;
	room->frame_capacity = last.frame_capacity;
	room->views = last.views;
	room->view_capacity = last.view_capacity;
	room->codes.items = last.codes;
	room->codes.capacity = last.code_capacity;
	room->frame_count = room->view_count = room->codes.count = 0;
}

void frame_cache_keep(const struct python_runtime *runtime, const struct memory_reader *memory,
		      remote_addr tstate, struct walk_room *room, const struct python_stack *stack)
{
	struct walk walk = {
		.runtime = runtime, .layout = &runtime->layout, .memory = memory, .room = room};
	struct frame_cache *frame_cache = room->frame_cache;
	const size_t same = count_taken_views(room);
	frame_cache->valid = room->view_count > 0 && room->view_count <= CACHE_VIEWS &&
			     keep_chunks(&walk, frame_cache) &&
			     keep_others(&walk, frame_cache, same);
	if (!frame_cache->valid)
		return;
	keep_resolved(frame_cache, stack);
	frame_cache->walk = stack->walk;
	frame_cache->tstate = tstate;
	frame_cache->base = field_optional(room->tstate, runtime->layout.tstate_base_frame);
	frame_cache->runtime = runtime;
	swap_lists(frame_cache, room);
}
