/* SPDX-License-Identifier: MIT */
/*
 * What a walk has found (CPython 3.11+), for the next one of the same thread state: from the frame
 * on that was met then, too, and outside of which no byte of any frame has changed, the frames are
 * taken from there. Most stand in the chunks of the data stack, which are compared as a whole; the
 * others (shims, generators) one by one. The headers of their code objects are read anew, as in
 * every walk, since another one may stand at the same address by now. Not in the pause.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "python/walk.h"

enum {
	RECALL_BYTES = 1 << 20, /* of chunks; a larger stack is walked anew each time */
	RECALL_VIEWS = 1 << 14,
};

struct kept_chunk {
	remote_addr address;
	size_t size, equal; /* equal: of the bytes from its start on, then and now */
	uint8_t *bytes;
	size_t capacity;
};

struct walk_recall {
	bool valid;
	uint64_t walk; /* its number */
	remote_addr tstate, base;
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

struct walk_recall *walk_recall_new(void)
{
	return alloc_zeroed(1, sizeof(struct walk_recall));
}

void walk_recall_free(struct walk_recall *recall)
{
	if (!recall)
		return;
	for (size_t i = 0; i < recall->chunk_capacity; i++)
		free(recall->chunks[i].bytes);
	free(recall->chunks);
	free(recall->frames);
	free(recall->resolved);
	free(recall->views);
	free(recall->codes);
	free(recall->others);
	free(recall->code_map);
	free(recall);
}

/* ---- what still holds ---- */

static size_t count_equal(const uint8_t *a, const uint8_t *b, size_t size)
{
	enum { BLOCK = 64, BLOCKS = 4096 };
	size_t same = 0;
	while (size - same >= BLOCKS && memcmp(a + same, b + same, BLOCKS) == 0)
		same += BLOCKS;
	while (size - same >= BLOCK && memcmp(a + same, b + same, BLOCK) == 0)
		same += BLOCK;
	return same;
}

/* Lists of chunks grow and shrink at the newest end. */
static void compare_chunks(struct walk *walk, struct walk_recall *recall)
{
	const struct walk_room *room = walk->room;
	const size_t most =
		room->chunk_count < recall->chunk_count ? room->chunk_count : recall->chunk_count;
	for (size_t i = 0; i < most; i++) {
		struct kept_chunk *kept = &recall->chunks[i];
		struct raw_chunk *chunk = &room->chunks[room->chunk_count - 1 - i];
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
static bool same_code(struct walk *walk, struct walk_recall *recall, uint32_t code)
{
	uint32_t *now = &recall->code_map[code];
	uint32_t index;
	if (*now != NO_INDEX)
		return true;
	if (!walk_find_code(walk, recall->codes[code].address, &index, NULL) ||
	    !same_header(&walk->room->codes[index], &recall->codes[code]))
		return false;
	*now = index;
	recall->codes_moved |= index != code;
	return true;
}

/* In the newest chunk and above the top of the data stack: dead, if it is not a generator's. */
static bool may_be_dead(const struct walk *walk, const struct walked_view *view)
{
	const struct raw_chunk *newest = walk->room->chunks;
	return walk->room->chunk_count > 0 && view->address >= walk->stack_top &&
	       view->address >= newest->address && view->address - newest->address < newest->size;
}

/* Below what has changed of its chunk. */
static bool same_in_chunk(const struct walk *walk, const struct walk_recall *recall,
			  const struct walked_view *view)
{
	const struct kept_chunk *chunk = &recall->chunks[view->chunk];
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
static size_t find_first(struct walk *walk, struct walk_recall *recall)
{
	const uint8_t *other = recall->others;
	size_t first = recall->view_count;
	for (; first > 0; first--) {
		const struct walked_view *view = &recall->views[first - 1];
		if (!view->lasting || may_be_dead(walk, view))
			break;
		if (view->chunk != NO_INDEX) {
			if (!same_in_chunk(walk, recall, view))
				break;
		} else {
			if (!same_elsewhere(walk, view, other))
				break;
			other += MAX_RECORD;
		}
		if (view->code != NO_INDEX && !same_code(walk, recall, view->code))
			break;
	}
	return first;
}

/* The outermost frame's end, 3.14. */
static remote_addr base_of(const struct python_runtime *runtime, const struct walk_room *room)
{
	const uint16_t offset = runtime->layout.tstate_base_frame;
	return offset == LAYOUT_ABSENT ? 0 : field_u64(room->tstate, offset);
}

void walk_recall_begin(struct walk *walk, remote_addr tstate)
{
	struct walk_recall *recall = walk->room->recall;
	recall->taken = (struct walk_taken){.next = recall->view_count};
	for (size_t i = 0; i < recall->chunk_capacity; i++)
		recall->chunks[i].equal = 0;
	if (!recall->valid || recall->tstate != tstate || recall->runtime != walk->runtime ||
	    recall->base != base_of(walk->runtime, walk->room))
		return;
	compare_chunks(walk, recall);
	recall->code_map = alloc_room(recall->code_map, &recall->code_map_capacity,
				      recall->code_count + 1, sizeof(*recall->code_map));
	for (size_t i = 0; i < recall->code_count; i++)
		recall->code_map[i] = NO_INDEX;
	recall->codes_moved = false;
	recall->taken.next = find_first(walk, recall);
}

/* ---- taking it ---- */

struct walk_mark walk_mark(const struct walk_room *room)
{
	struct walk_mark mark = {.frames = room->frame_count, .views = room->view_count};
	if (room->recall)
		mark.taken = room->recall->taken;
	return mark;
}

void walk_go_back(struct walk_room *room, const struct walk_mark *mark)
{
	room->frame_count = mark->frames;
	room->view_count = mark->views;
	if (room->recall)
		room->recall->taken = mark->taken;
}

/* The view behind the last one of the run that the next one is in; 0: the address is not there. */
static size_t find_end(const struct walk_recall *recall, remote_addr address)
{
	if (!recall || recall->taken.next >= recall->view_count ||
	    recall->views[recall->taken.next].address != address)
		return 0;
	for (size_t i = recall->taken.next; i < recall->view_count; i++)
		if (recall->views[i].ends_run)
			return i + 1;
	return 0;
}

static size_t frames_before(const struct walk_recall *recall, size_t view)
{
	return view < recall->view_count ? recall->views[view].frame : recall->frame_count;
}

static void add_frames(struct walk_room *room, size_t first, size_t end)
{
	const struct walk_recall *recall = room->recall;
	if (end == first)
		return;
	room->frames = alloc_room(room->frames, &room->frame_capacity,
				  room->frame_count + (end - first) + 1, sizeof(*room->frames));
	struct walked_frame *frames = room->frames + room->frame_count;
	memcpy(frames, recall->frames + first, (end - first) * sizeof(*frames));
	for (size_t i = 0; recall->codes_moved && i < end - first; i++)
		frames[i].code = recall->code_map[frames[i].code];
	room->frame_count += end - first;
}

static void add_views(struct walk_room *room, size_t end)
{
	const struct walk_recall *recall = room->recall;
	const size_t next = recall->taken.next;
	const uint32_t moved = (uint32_t)room->frame_count - recall->views[next].frame;
	room->views = alloc_room(room->views, &room->view_capacity,
				 room->view_count + (end - next) + 1, sizeof(*room->views));
	struct walked_view *views = room->views + room->view_count;
	memcpy(views, recall->views + next, (end - next) * sizeof(*views));
	room->view_count += end - next;
	if (!moved && !recall->codes_moved)
		return;
	for (size_t i = 0; i < end - next; i++) {
		views[i].frame += moved;
		if (views[i].code != NO_INDEX)
			views[i].code = recall->code_map[views[i].code];
	}
}

/* Takes the views up to `end`, and their frames. */
static bool take(struct walk *walk, size_t end)
{
	struct walk_room *room = walk->room;
	struct walk_recall *recall = room->recall;
	struct walk_taken *taken = &recall->taken;
	const size_t first = frames_before(recall, taken->next);
	const size_t last = frames_before(recall, end);
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

bool walk_recall_run(struct walk *walk, remote_addr address, remote_addr outer, size_t *visited,
		     struct walked_view *end)
{
	const struct walk_recall *recall = walk->room->recall;
	const size_t until = find_end(recall, address);
	if (!until || recall->views[until - 1].previous != outer ||
	    *visited + (until - recall->taken.next) > MAX_FRAMES)
		return false;
	*visited += until - recall->taken.next;
	*end = recall->views[until - 1];
	return take(walk, until);
}

bool walk_recall_shim(struct walk *walk, remote_addr address, struct walked_view *end)
{
	const struct walk_recall *recall = walk->room->recall;
	const size_t until = find_end(recall, address);
	if (!until)
		return false;
	*end = recall->views[until - 1];
	return take(walk, until);
}

/* How many of the outermost views were taken, all of them in one piece. */
static size_t count_recalled_views(const struct walk_room *room)
{
	const struct walk_recall *recall = room->recall;
	const struct walk_taken *taken = &recall->taken;
	return taken->next == recall->view_count &&
			       room->view_count - taken->first_view == taken->views &&
			       room->frame_count - taken->first_frame == taken->frames
		       ? taken->views
		       : 0;
}

size_t walk_recall_frames(const struct walk_room *room, const struct python_frame **frames,
			  uint64_t *walk)
{
	const struct walk_recall *recall = room->recall;
	*walk = 0;
	if (!recall || count_recalled_views(room) == 0 || recall->taken.frames == 0)
		return 0;
	*walk = recall->walk;
	*frames = recall->resolved + (recall->resolved_capacity - recall->taken.frames);
	return recall->taken.frames;
}

/* ---- keeping it ---- */

static bool keep_chunk(struct walk *walk, struct walk_recall *recall, size_t i)
{
	const struct walk_room *room = walk->room;
	struct raw_chunk *chunk = &room->chunks[room->chunk_count - 1 - i];
	const uint8_t *bytes = walk_chunk_bytes(walk, chunk);
	struct kept_chunk *kept = &recall->chunks[i];
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
static bool keep_chunks(struct walk *walk, struct walk_recall *recall)
{
	const size_t count = walk->room->chunk_count, before = recall->chunk_capacity;
	size_t total = 0;
	for (size_t i = 0; i < count; i++)
		total += walk->room->chunks[i].size;
	if (total > RECALL_BYTES)
		return false;
	recall->chunks = alloc_room(recall->chunks, &recall->chunk_capacity, count + 1,
				    sizeof(*recall->chunks));
	if (recall->chunk_capacity > before)
		memset(recall->chunks + before, 0,
		       (recall->chunk_capacity - before) * sizeof(*recall->chunks));
	recall->chunk_count = count;
	for (size_t i = 0; i < count; i++)
		if (!keep_chunk(walk, recall, i))
			return false;
	return true;
}

/* Of the outermost `same` views they are there already. */
static bool keep_others(struct walk *walk, struct walk_recall *recall, size_t same)
{
	const struct walk_room *room = walk->room;
	size_t count = 0;
	for (size_t i = room->view_count; i-- > 0;) {
		const struct walked_view *view = &room->views[i];
		if (view->chunk != NO_INDEX)
			continue;
		recall->others = alloc_room(recall->others, &recall->other_capacity,
					    (count + 1) * MAX_RECORD, 1);
		if (room->view_count - i > same &&
		    !memory_read(walk->memory, view->address, recall->others + count * MAX_RECORD,
				 walk->layout->iframe_size, NULL))
			return false;
		count++;
	}
	return true;
}

/* What was taken from there is there already. */
static void keep_resolved(struct walk_recall *recall, const struct python_stack *stack)
{
	recall->resolved =
		alloc_room_in_front(recall->resolved, &recall->resolved_capacity, stack->recalled,
				    stack->count + 1, sizeof(*recall->resolved));
	memcpy(recall->resolved + (recall->resolved_capacity - stack->count), stack->frames,
	       (stack->count - stack->recalled) * sizeof(*recall->resolved));
}

/* The lists change hands. */
static void swap_lists(struct walk_recall *recall, struct walk_room *room)
{
	const struct walk_recall last = *recall;
	recall->frames = room->frames;
	recall->frame_count = room->frame_count;
	recall->frame_capacity = room->frame_capacity;
	recall->views = room->views;
	recall->view_count = room->view_count;
	recall->view_capacity = room->view_capacity;
	recall->codes = room->codes;
	recall->code_count = room->code_count;
	recall->code_capacity = room->code_capacity;
	room->frames = last.frames;
	room->frame_capacity = last.frame_capacity;
	room->views = last.views;
	room->view_capacity = last.view_capacity;
	room->codes = last.codes;
	room->code_capacity = last.code_capacity;
	room->frame_count = room->view_count = room->code_count = 0;
}

void walk_recall_keep(const struct python_runtime *runtime, const struct memory_reader *memory,
		      remote_addr tstate, struct walk_room *room, const struct python_stack *stack)
{
	struct walk walk = {
		.runtime = runtime, .layout = &runtime->layout, .memory = memory, .room = room};
	struct walk_recall *recall = room->recall;
	const size_t same = count_recalled_views(room);
	recall->valid = room->view_count > 0 && room->view_count <= RECALL_VIEWS &&
			keep_chunks(&walk, recall) && keep_others(&walk, recall, same);
	if (!recall->valid)
		return;
	keep_resolved(recall, stack);
	recall->walk = stack->walk;
	recall->tstate = tstate;
	recall->base = base_of(runtime, room);
	recall->runtime = runtime;
	swap_lists(recall, room);
}
