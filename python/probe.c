/* SPDX-License-Identifier: MIT */
/*
 * Looks at the Python stack of a thread that nobody stops. What one look shows need never have been
 * true: a frame may have been left while its caller was read. Two looks tell what stood still: a
 * frame that both have, in the same place and at the same instruction, was there all the time
 * between them, and so were the frames outside of it; the frame in which they part was, for a
 * moment between them, the innermost one. So what they share is a stack that the thread really
 * had. What no look can tell: a frame that was left and entered again just as it was before.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "python/probe.h"
#include "python/walk.h"

enum {
	TOP_BELOW = 1536,   /* bytes of the data stack, below its top ... */
	TOP_ABOVE = 512,    /* ... and above: where the next calls go */
	RECORD_AREA = 2048, /* bytes of the native stack, on either side of the newest record */
	TOP_FRAMES = 6,	    /* innermost frames */
	NOTED_FRAMES = 3,   /* of a look, that the next one may well see again */
	SURE = 8,	    /* looks in a row that another outermost frame takes to be believed */
};

struct python_probe {
	const struct python_layout *layout;
	remote_addr tstate;
	struct walk_room room;
};

struct python_probe *python_probe_new(void)
{
	return alloc_zeroed(1, sizeof(struct python_probe));
}

void python_probe_free(struct python_probe *look)
{
	if (!look)
		return;
	walk_room_release(&look->room);
	free(look);
}

/* ---- one look ---- */

static void note(struct python_recent *recent, remote_addr frame)
{
	size_t i = 0;
	if (!frame)
		return;
	while (i < recent->count && recent->frames[i] != frame)
		i++;
	if (i == recent->count && recent->count < PYTHON_RECENT)
		recent->count++;
	else if (i == recent->count)
		i--;
	memmove(&recent->frames[1], &recent->frames[0], i * sizeof(frame));
	recent->frames[0] = frame;
}

/* Frame objects lie anywhere, but a program that computes uses few of them over and over. */
static void note_frames(const struct python_probe *look, struct python_recent *recent)
{
	const struct walk_room *room = &look->room;
	if (look->layout->chain != CHAIN_FRAMES)
		return;
	for (size_t i = NOTED_FRAMES; i-- > 0;)
		if (i < room->frame_count)
			note(recent, room->frames[i].address);
	note(recent, field_u64(room->tstate, look->layout->tstate_frame));
}

/*
 * The frame object of a generator that has just been left leads nowhere, and looks like a thread's
 * outermost one. But that one changes seldom: when native code calls Python anew.
 */
static bool is_outermost(const struct python_probe *look, struct python_recent *recent)
{
	const struct walk_room *room = &look->room;
	if (look->layout->chain != CHAIN_FRAMES || room->frame_count == 0)
		return true;
	remote_addr found = room->frames[room->frame_count - 1].address;
	recent->others = found == recent->other ? recent->others + 1 : 1;
	recent->other = found;
	if (recent->others >= SURE)
		recent->outermost = found;
	if (found == recent->outermost)
		recent->others = 0;
	return found == recent->outermost;
}

/* A frame above the top of the data stack has been popped: what leads to it is out of date. */
static bool none_is_popped(const struct python_probe *look)
{
	const struct walk_room *room = &look->room;
	if (room->chunks.count == 0)
		return true;
	const struct raw_chunk *chunk = &room->chunks.items[0];
	remote_addr top = field_u64(room->tstate, look->layout->tstate_datastack_top);
	for (size_t i = 0; i < room->frame_count; i++)
		if (room->frames[i].address >= top &&
		    room->frames[i].address - chunk->address < chunk->length)
			return false;
	return true;
}

bool python_probe_take(struct python_probe *look, const struct python_view *view,
		       struct error *error)
{
	look->layout = &view->runtime->layout;
	look->tstate = view->tstate;
	bool well =
		walk_stack(view->runtime, view->memory, view->tstate, NULL, 0, &look->room, error);
	note_frames(look, view->recent);
	if (!well)
		return false;
	/* With the native stack at hand that would be a call under way; here it is as well an entry
	 * record whose frames have changed meanwhile. */
	if (look->room.rebuild.skipped)
		return error_set(error, ERROR_TORN, "the newest entry record leads nowhere");
	if (!none_is_popped(look))
		return error_set(error, ERROR_TORN, "a frame in the chain has been popped");
	if (!is_outermost(look, view->recent))
		return error_set(error, ERROR_TORN, "another outermost frame than before");
	return python_codes_read(view->runtime, view->memory, view->known, &look->room, error);
}

bool python_probe_keep(const struct python_probe *look, const struct python_view *view,
		       struct error *error)
{
	return python_stack_finish(view->runtime, view->memory, view->tstate, view->known,
				   &look->room, error);
}

size_t python_probe_frames(const struct python_probe *look)
{
	return look->room.frame_count;
}

uint64_t python_probe_stamp(const struct python_probe *look)
{
	const struct walk_room *room = &look->room;
	uint64_t stamp = hash_pair(room->frame_count, look->tstate);
	for (size_t i = 0; i < room->frame_count; i++) {
		const struct walked_frame *frame = &room->frames[i];
		stamp = hash_pair(hash_pair(stamp, frame->address),
				  hash_pair(room->codes.items[frame->code].address,
					    (uint64_t)frame->instruction));
	}
	return stamp ? stamp : 1;
}

/* ---- where it changes ---- */

struct ranges {
	struct target_range *list;
	size_t count, size;
};

static bool covered(const struct target_range *ranges, size_t count, remote_addr address,
		    size_t size)
{
	for (size_t i = 0; i < count; i++)
		if (address >= ranges[i].address && address - ranges[i].address <= ranges[i].size &&
		    size <= ranges[i].size - (address - ranges[i].address))
			return true;
	return false;
}

static void add_range(struct ranges *ranges, remote_addr start, remote_addr end)
{
	if (ranges->count < ranges->size && start < end &&
	    !covered(ranges->list, ranges->count, start, end - start))
		ranges->list[ranges->count++] = (struct target_range){start, end - start};
}

/* The fields of the thread state that say which frame is the innermost one. */
static void add_thread_state(struct ranges *ranges, const struct python_probe *look)
{
	const struct python_layout *layout = look->layout;
	const uint16_t fields[] = {layout->tstate_frame, layout->tstate_cframe,
				   layout->tstate_current_frame, layout->tstate_datastack_chunk,
				   layout->tstate_datastack_top};
	remote_addr low = layout->tstate_size, high = 0;
	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		if (fields[i] == LAYOUT_ABSENT)
			continue;
		low = fields[i] < low ? fields[i] : low;
		high = fields[i] + sizeof(uint64_t) > high ? fields[i] + sizeof(uint64_t) : high;
	}
	add_range(ranges, look->tstate + low, look->tstate + high);
}

static void add_data_stack(struct ranges *ranges, const struct python_probe *look)
{
	if (look->room.chunks.count == 0)
		return;
	const struct raw_chunk *chunk = &look->room.chunks.items[0];
	remote_addr top = field_u64(look->room.tstate, look->layout->tstate_datastack_top);
	uint64_t used = top - chunk->address, end = used + TOP_ABOVE;
	if (used > chunk->length)
		return;
	add_range(ranges, chunk->address + (used > TOP_BELOW ? (used - TOP_BELOW) & ~7u : 0),
		  chunk->address + (end < chunk->length ? end : chunk->length));
}

/* Records and shim frames are locals of the eval function, one as near to the next as its calls. */
static void add_native_stack(struct ranges *ranges, const struct python_probe *look)
{
	const struct walk_room *room = &look->room;
	remote_addr newest = 0;
	if (room->record_count)
		newest = room->records[0].address;
	for (size_t i = 0; i < room->activation_count && !newest; i++)
		newest = room->activations[i].record;
	if (newest > RECORD_AREA)
		add_range(ranges, newest - RECORD_AREA, newest + RECORD_AREA);
}

size_t python_probe_top(const struct python_probe *look, const struct python_recent *recent,
			struct target_range *list, size_t size)
{
	const struct python_layout *layout = look->layout;
	const struct walk_room *room = &look->room;
	struct ranges ranges = {list, 0, size};
	add_thread_state(&ranges, look);
	if (layout->chain == CHAIN_FRAMES) {
		for (size_t i = 0; i < recent->count; i++)
			add_range(&ranges, recent->frames[i],
				  recent->frames[i] + layout->frame_size);
		return ranges.count;
	}
	add_data_stack(&ranges, look);
	add_native_stack(&ranges, look);
	/* Those of generators are elsewhere. */
	for (size_t i = 0; i < room->frame_count && i < TOP_FRAMES; i++)
		add_range(&ranges, room->frames[i].address,
			  room->frames[i].address + layout->iframe_size);
	return ranges.count;
}

/* ---- where to begin ---- */

bool python_probe_start(const struct python_view *view,
			struct target_range ranges[PYTHON_START_RANGES])
{
	const struct python_layout *layout = &view->runtime->layout;
	remote_addr named = view->tstate + layout->tstate_frame;
	if (layout->chain != CHAIN_FRAMES ||
	    layout->frame_size + 2 * sizeof(named) > PYTHON_START_SIZE)
		return false;
	/* Without a frame yet, it is the thread state's word itself that is read thrice. */
	remote_addr frame = view->recent->count ? view->recent->frames[0] : named;
	ranges[0] = ranges[2] = (struct target_range){named, sizeof(named)};
	ranges[1] = (struct target_range){frame,
					  view->recent->count ? layout->frame_size : sizeof(named)};
	return true;
}

bool python_probe_started(const struct python_view *view,
			  const struct target_range ranges[PYTHON_START_RANGES],
			  const uint8_t *bytes)
{
	remote_addr before, after, frame = ranges[1].address;
	memcpy(&before, bytes, sizeof(before));
	memcpy(&after, bytes + sizeof(before) + ranges[1].size, sizeof(after));
	note(view->recent, after);
	return before == frame && after == frame;
}

/* ---- two looks ---- */

/* The i-th frame, counted from the outermost one. */
static const struct walked_frame *outer_frame(const struct walk_room *room, size_t i)
{
	return &room->frames[room->frame_count - 1 - i];
}

static bool same_frame(const struct walk_room *a, const struct walk_room *b, size_t i)
{
	const struct walked_frame *left = outer_frame(a, i), *right = outer_frame(b, i);
	return left->address == right->address &&
	       a->codes.items[left->code].address == b->codes.items[right->code].address &&
	       a->codes.items[left->code].identity == b->codes.items[right->code].identity;
}

/* How many frames, from the outermost one on, stood still. */
static size_t common_frames(const struct walk_room *a, const struct walk_room *b)
{
	size_t count = a->frame_count < b->frame_count ? a->frame_count : b->frame_count;
	for (size_t i = 0; i < count; i++)
		if (!same_frame(a, b, i) ||
		    outer_frame(a, i)->instruction != outer_frame(b, i)->instruction)
			return i;
	return count;
}

bool python_probe_rests_on(const struct python_probe *look, const struct python_probe *base,
			   const struct target_range *ranges, size_t count)
{
	const struct walk_room *room = &look->room;
	size_t outside = 0;
	if (room->frame_count == 0 || base->room.frame_count == 0)
		return room->frame_count == base->room.frame_count;
	/* The chain of a generator that has just been left ends there: not so the thread's. */
	if (!same_frame(room, &base->room, 0))
		return false;
	for (size_t i = 0; i < room->frame_count; i++)
		if (!covered(ranges, count, outer_frame(room, i)->address, 1))
			outside = i + 1;
	return outside == 0 || common_frames(room, &base->room) > outside;
}

static void add_patch(struct python_cut *cut, remote_addr address, uint64_t value)
{
	cut->patches[cut->patch_count++] = (struct python_patch){address, value};
}

/* Activations and entry records of a walk are in the same order. */
static size_t activation_of(const struct walk_room *room, size_t frame)
{
	size_t i = 0;
	while (i < room->activation_count &&
	       frame - room->activations[i].first >= room->activations[i].count)
		i++;
	return i;
}

void python_probe_cut(const struct python_probe *look, size_t innermost, struct python_cut *cut)
{
	const struct python_layout *layout = look->layout;
	const struct walk_room *room = &look->room;
	remote_addr frame = room->frames[innermost].address;
	size_t activation = activation_of(room, innermost);
	cut->kept = room->frame_count - innermost;
	cut->patch_count = 0;
	switch (layout->chain) {
	case CHAIN_FRAMES:
		add_patch(cut, look->tstate + layout->tstate_frame, frame);
		break;
	case CHAIN_CFRAME:
	case CHAIN_CFRAME_SHIM:
		if (activation >= room->record_count)
			break;
		add_patch(cut, look->tstate + layout->tstate_cframe,
			  room->records[activation].address);
		add_patch(cut, room->records[activation].address + layout->cframe_current_frame,
			  frame);
		break;
	case CHAIN_SHIM:
		add_patch(cut, look->tstate + layout->tstate_current_frame, frame);
		break;
	}
}

enum python_agreement python_probes_agree(const struct python_probe *earlier,
					  const struct python_probe *later, struct python_cut *cut)
{
	const struct walk_room *a = &earlier->room, *b = &later->room;
	size_t kept = common_frames(a, b);
	/* The frame in which they part ran by itself between them. */
	if (kept < a->frame_count && kept < b->frame_count && same_frame(a, b, kept))
		kept++;
	*cut = (struct python_cut){.kept = kept};
	if (kept == b->frame_count)
		return PYTHON_LOOKS_AGREE;
	if (kept == 0)
		return PYTHON_LOOKS_DIFFER;
	python_probe_cut(later, b->frame_count - kept, cut);
	return kept == a->frame_count ? PYTHON_LOOKS_AGREE : PYTHON_LOOKS_SHARE;
}
