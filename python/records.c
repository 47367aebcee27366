/* SPDX-License-Identifier: MIT */
/*
 * Entry records (_PyCFrame, CPython 3.10 to 3.12) into activations of the eval function, in the
 * pause as walk.c. Each is a local of that function; the newest is linked before it is filled in:
 * what it holds may be of an earlier call, and is believed only when it joins what is outside.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/arrays.h"
#include "python/walk.h"

/* ---- 3.11 and 3.12: records, each with its run of frames ---- */

enum run_step { RUN_GOES_ON, RUN_ENDS, RUN_BREAKS };

/* Adds one frame of an activation that must lead on to `outer`. */
static enum run_step add_to_run(struct walk *walk, const struct frame_view *view, remote_addr outer,
				bool innermost, struct error *error)
{
	const bool dead = !view->is_shim && walk_is_dead(walk, view);
	/* Only the innermost can be dead: 3.11 unlinks a frame after it has popped it. */
	if (dead ? view->is_entry || !innermost
		 : !view->is_shim && !walk_add_frame(walk, view, error))
		return RUN_BREAKS;
	/* 3.12: greenlet, where it switches, links the shim out (TGreenlet.cpp, expose_frames). */
	const bool no_shim = walk->layout->chain == CHAIN_CFRAME_SHIM;
	const bool ends = (view->is_shim || view->is_entry || no_shim) && view->previous == outer;
	walk_note_view(walk, view, ends, dead);
	if (ends)
		return RUN_ENDS;
	/* CPython 3.11 _gen_throw: a generator that delegates is put on the stack without an
	 * activation of its own, and still says that it is an entry. */
	return view->is_shim || (view->is_entry && view->owner != OWNED_BY_GENERATOR) ? RUN_BREAKS
										      : RUN_GOES_ON;
}

/*
 * Adds the frames from the record's current one up to the end of their activation, which must lead
 * on to `outer`, the current frame of the next record. False: they do not, and nothing is added.
 * *entry is the address that identifies the activation; *visited counts the steps of the whole
 * walk.
 */
static bool add_run(struct walk *walk, const struct entry_record *record, remote_addr outer,
		    remote_addr *entry, size_t *visited, struct error *error)
{
	const struct walk_mark begun = walk_mark(walk->room);
	remote_addr address = record->current_frame;
	struct frame_view view;
	struct walked_view end;
	struct loop_guard guard = {0};
	bool innermost = true;
	while (!loop_met(&guard, address, MAX_FRAMES) || walk_loop_found(error)) {
		if (++*visited > 2 * MAX_FRAMES)
			break;
		if (frame_cache_run(walk, address, outer, visited, &end)) {
			*entry = end.code == NO_INDEX ? end.address : record->address;
			return true;
		}
		if (!walk_view_frame(walk, address, &view, error))
			break;
		/* The newest's shim, a local within 4 KB of it, may not have its owner yet. */
		view.is_shim |= record == walk->room->records &&
				view.address - record->address + 4096 < 8192;
		*entry = view.is_shim ? view.address : record->address;
		const enum run_step step = add_to_run(walk, &view, outer, innermost, error);
		if (step == RUN_ENDS)
			return true;
		if (step == RUN_BREAKS)
			break;
		address = view.previous;
		innermost = false;
	}
	walk_go_back(walk->room, &begun);
	return error->kind != ERROR_CORRUPT &&
	       error_set(error, ERROR_TORN, "frames of entry record %#llx do not join",
			 (unsigned long long)record->address);
}

static bool parse_record(const struct walk *walk, remote_addr address, const uint8_t *bytes,
			 struct entry_record *record)
{
	const struct python_layout *layout = walk->layout;
	record->address = address;
	record->previous = field_u64(bytes, layout->cframe_previous);
	record->current_frame = field_optional(bytes, layout->cframe_current_frame);
	return record->previous != address && record->previous % 8 == 0;
}

static void push_record(struct walk_room *room, const struct entry_record *record)
{
	room->records = alloc_room(room->records, &room->record_capacity, room->record_count + 1,
				   sizeof(*room->records));
	room->records[room->record_count++] = *record;
}

bool walk_list_records(struct walk *walk)
{
	struct walk_room *room = walk->room;
	remote_addr address = field_u64(room->tstate, walk->layout->tstate_cframe);
	struct loop_guard guard = {0};
	room->record_count = 0;
	while (address != walk->root) {
		uint8_t bytes[MAX_RECORD];
		struct entry_record record;
		if (loop_met(&guard, address, MAX_FRAMES) || address == 0 || address % 8 != 0 ||
		    !memory_read(walk->memory, address, bytes, walk->layout->cframe_size, NULL))
			return false;
		bool plausible = parse_record(walk, address, bytes, &record);
		push_record(room, &record);
		if (!plausible)
			return false;
		address = record.previous;
	}
	return true;
}

/* Copies [low, high) of the native stack, or, when high is 0, as much of it as there is. */
static size_t copy_slice(struct walk *walk, remote_addr low, remote_addr high)
{
	struct record_rebuild *rebuild = &walk->room->rebuild;
	size_t size = 0, step = SCAN_STEP;
	size_t wanted = high == 0 || high - low > MAX_SLICE ? MAX_SLICE : high - low;
	if (walk->searched + wanted > MAX_SEARCHED)
		return 0;
	while (size < wanted && step) {
		size_t piece = step < wanted - size ? step : wanted - size;
		if (step == PAGE && (low + size) % PAGE + piece > PAGE)
			piece = PAGE - (low + size) % PAGE;
		rebuild->bytes = alloc_room(rebuild->bytes, &rebuild->capacity, size + piece, 1);
		if (memory_read(walk->memory, low + size, rebuild->bytes + size, piece, NULL))
			size += piece;
		else
			step = step == SCAN_STEP ? PAGE : 0;
	}
	walk->searched += size;
	return size;
}

/* Searches one native frame for a record whose `previous` is `outer` and whose frames join. */
static bool find_in_slice(struct walk *walk, remote_addr low, remote_addr high,
			  const struct entry_record *outer, size_t *visited,
			  struct entry_record *found)
{
	const struct python_layout *layout = walk->layout;
	size_t size = copy_slice(walk, low, high);
	for (size_t at = size & ~(size_t)7; at >= layout->cframe_size; at -= 8) {
		size_t start = at - layout->cframe_size;
		if (!parse_record(walk, low + start, walk->room->rebuild.bytes + start, found) ||
		    found->previous != outer->address)
			continue;
		if (layout->cframe_current_frame == LAYOUT_ABSENT)
			return true;
		const struct walk_mark before = walk_mark(walk->room);
		remote_addr entry;
		struct error ignored = {0};
		bool joins = add_run(walk, found, outer->current_frame, &entry, visited, &ignored);
		walk_go_back(walk->room, &before);
		if (joins)
			return true;
	}
	return false;
}

/* The record just inside of `outer` and outside of `newest`. */
static bool find_inner(struct walk *walk, remote_addr newest, const struct entry_record *outer,
		       size_t *visited, struct entry_record *found)
{
	remote_addr low = (newest + walk->layout->cframe_size + 7) & ~(remote_addr)7;
	remote_addr end = outer->address == walk->root ? 0 : outer->address;
	if (walk->scan) {
		if (end == 0)
			end = walk->end;
		return (end == 0 || end > low) &&
		       find_in_slice(walk, low, end, outer, visited, found);
	}
	for (size_t i = walk->native_frame_count; i-- > 0;) {
		const struct python_native_frame *native_frame = &walk->native_frames[i];
		remote_addr sp = (native_frame->sp + 7) & ~(remote_addr)7;
		if (native_frame->cfa <= low || native_frame->cfa <= sp || (end && sp >= end))
			continue;
		remote_addr from = sp > low ? sp : low;
		remote_addr to = end && end < native_frame->cfa ? end : native_frame->cfa;
		if (find_in_slice(walk, from, to, outer, visited, found))
			return true;
	}
	return false;
}

/*
 * The newest record's `previous` cannot be trusted: keeps that record and, from `outer` (the
 * root, when it is the last) inwards, finds the others again in the native frames. How many.
 */
static size_t rebuild_records(struct walk *walk, size_t kept, const struct entry_record *root,
			      size_t *visited)
{
	struct walk_room *room = walk->room;
	const struct entry_record newest = room->records[0];
	struct entry_record outer = kept < room->record_count ? room->records[kept] : *root;
	size_t tail = kept < room->record_count ? room->record_count - kept : 0;
	size_t found = 0;
	struct entry_record inner;
	/* Outermost first, behind the records that stay; turned round below. */
	while (found < MAX_FRAMES && find_inner(walk, newest.address, &outer, visited, &inner)) {
		push_record(room, &inner);
		outer = inner;
		found++;
	}
	if (!found)
		return 0;
	/* newest, kept - 1 bad ones, tail, found -> newest, found (reversed), tail */
	struct entry_record *rest = room->records + 1;
	memmove(rest, room->records + kept, (tail + found) * sizeof(*rest));
	array_reverse(rest, tail + found, sizeof(*rest));
	array_reverse(rest + found, tail, sizeof(*rest));
	room->record_count = 1 + found + tail;
	room->rebuild.rebuilt += (uint32_t)found;
	return found;
}

/* True when the record's frames lead to `outer`; *entry as in add_run. */
static bool joins(struct walk *walk, const struct entry_record *record, remote_addr outer,
		  remote_addr *entry)
{
	const struct walk_mark before = walk_mark(walk->room);
	size_t visited = 0;
	struct error ignored = {0};
	const bool well = add_run(walk, record, outer, entry, &visited, &ignored);
	walk_go_back(walk->room, &before);
	return well;
}

/*
 * The newest record's frame may not be linked yet (newest.c): then its run begins with the one
 * before. A record that is not filled in yet itself has to be told from that: the frame before
 * was entered where the thread is now, and there is no other record between.
 */
static bool relink_newest(struct walk *walk, const struct entry_record *root, struct error *error)
{
	struct walk_room *room = walk->room;
	struct entry_record newest = room->records[0], between;
	const struct entry_record outer = room->record_count > 1 ? room->records[1] : *root;
	const struct python_native_frame *native_frame =
		walk->native_frame_count ? &walk->native_frames[0] : NULL;
	size_t visited = 0;
	remote_addr entry;
	if (walk_is_linked(walk, newest.current_frame) &&
	    joins(walk, &newest, outer.current_frame, &entry))
		return true;
	if (!walk_frame_before(walk, newest.current_frame, &newest.current_frame, error))
		return false;
	if (!newest.current_frame || !joins(walk, &newest, outer.current_frame, &entry) ||
	    (native_frame && (entry < native_frame->sp || entry >= native_frame->cfa)) ||
	    find_inner(walk, newest.address, &outer, &visited, &between))
		return true;
	room->records[0] = newest;
	return true;
}

/*
 * True when the newest record may not be filled in yet: the thread is in the eval function itself,
 * which calls nothing before it has done so.
 */
static bool may_be_unfilled(const struct walk *walk)
{
	const remote_addr newest = walk->room->records[0].address;
	const struct python_native_frame *innermost = walk->native_frames;
	return !walk->native_frame_count || (newest >= innermost->sp && newest < innermost->cfa);
}

/* Adds the activations of all records. *skipped: the newest has not been filled in yet. */
static bool add_records(struct walk *walk, const struct entry_record *root,
			const struct walk_mark *begun, size_t *visited, bool *skipped,
			struct error *error)
{
	struct walk_room *room = walk->room;
	walk_go_back(room, begun);
	room->activation_count = 0;
	*skipped = false;
	for (size_t i = 0; i < room->record_count; i++) {
		const struct entry_record *record = &room->records[i];
		remote_addr outer = i + 1 < room->record_count ? room->records[i + 1].current_frame
							       : root->current_frame;
		size_t first = room->frame_count;
		remote_addr entry = record->address;
		struct error cause = {0};
		/* A record that a greenlet starts its stack with runs no frame of its own. */
		bool empty = record->current_frame == outer && (i > 0 || !may_be_unfilled(walk));
		if (empty || add_run(walk, record, outer, &entry, visited, &cause)) {
			walk_push_activation(walk, entry, first, room->frame_count - first);
			continue;
		}
		if (i > 0 || !may_be_unfilled(walk))
			return error_set(error, cause.kind, "%s", cause.message);
		walk_push_activation(walk, record->address, first, 0);
		*skipped = true;
	}
	return true;
}

bool walk_records(struct walk *walk, struct error *error)
{
	const struct python_layout *layout = walk->layout;
	struct walk_room *room = walk->room;
	struct entry_record root = {walk->root, 0, 0};
	const struct walk_mark begun = walk_mark(room);
	size_t visited = 0;
	bool skipped = false;
	root.current_frame = field_u64(room->tstate, (uint16_t)(layout->tstate_root_cframe +
								layout->cframe_current_frame));
	bool complete = walk_list_records(walk);
	/* None at all: the thread state is being made. */
	if (room->record_count == 0)
		return complete || field_u64(room->tstate, layout->tstate_cframe) == 0 ||
		       error_set(error, ERROR_TORN, "no entry record");
	if (complete && !relink_newest(walk, &root, error))
		return false;
	if (complete && add_records(walk, &root, &begun, &visited, &skipped, error)) {
		/* Being entered: `previous` may have been left from an earlier use of the record's
		 * memory and lead past records that lie between. */
		visited = 0;
		if (skipped && rebuild_records(walk, 1, &root, &visited) &&
		    !add_records(walk, &root, &begun, &visited, &skipped, error))
			return false;
		room->rebuild.skipped = skipped;
		return true;
	}
	visited = 0;
	if (!may_be_unfilled(walk) || !rebuild_records(walk, room->record_count, &root, &visited))
		return complete ? false
				: error_set(error, ERROR_TORN, "entry records lead nowhere");
	visited = 0;
	if (!add_records(walk, &root, &begun, &visited, &skipped, error))
		return false;
	room->rebuild.skipped = skipped;
	return true;
}
