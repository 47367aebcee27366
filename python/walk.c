/* SPDX-License-Identifier: MIT */
/*
 * A thread state into the raw list of its Python frames and activations: on a stopped thread, to
 * have every byte copied, and later on that copy. It runs in the pause: once its room has
 * grown to the deepest stack it allocates nothing, and it never prints or opens files.
 * Nothing it reads is believed before it has been checked.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "python/walk.h"

/* ---- 3.13: shim frames in one chain ---- */

/* What is outside of it. Before greenlet switches, it links all but complete frames out of a chain,
 * from the innermost on, and keeps the links where frame objects have frames of their own
 * (TGreenlet.cpp, expose_frames): behind what their type counts, less a frame of one variable. */
static remote_addr outside_of(struct walk *walk, const struct frame_view *view, bool *exposed)
{
	const struct python_layout *layout = walk->layout;
	const remote_addr object = view->object, own = layout->iframe_size - sizeof(remote_addr);
	remote_addr type, size, kept;
	struct frame_view out;
	if (view->is_shim || !object || !*exposed)
		return view->previous;
	*exposed = memory_read_u64(walk->memory, object + layout->object_type, &type, NULL) &&
		   memory_read_u64(walk->memory, type + layout->type_basicsize, &size, NULL) &&
		   memory_read_u64(walk->memory, object + size - own, &kept, NULL) &&
		   (kept == view->previous ||
		    (kept % 8 == 0 && walk_view_frame(walk, kept, &out, NULL) &&
		     out.previous == view->previous));
	return *exposed ? kept : view->previous;
}

static bool walk_shims(struct walk *walk, struct error *error)
{
	struct walk_room *room = walk->room;
	const struct python_layout *layout = walk->layout;
	remote_addr address = field_u64(room->tstate, layout->tstate_current_frame), end = 0;
	struct loop_guard guard = {0};
	size_t first = 0;
	bool open = false, exposed = true;
	if (layout->tstate_base_frame != LAYOUT_ABSENT)
		end = field_u64(room->tstate, layout->tstate_base_frame);
	if (address && address != end && !walk_is_linked(walk, address)) {
		remote_addr before;
		if (!walk_frame_before(walk, address, &before, error))
			return false;
		address = before ? before : address;
	}
	while (address && address != end) {
		struct frame_view view;
		struct walked_view shim;
		if (loop_met(&guard, address, MAX_FRAMES))
			return walk_loop_found(error);
		if (frame_cache_shim(walk, address, &shim)) {
			walk_push_activation(walk, shim.address, first, room->frame_count - first);
			first = room->frame_count;
			open = false;
			address = shim.previous;
			continue;
		}
		if (!walk_view_frame(walk, address, &view, error))
			return false;
		if (view.is_shim) {
			walk_push_activation(walk, view.address, first, room->frame_count - first);
			first = room->frame_count;
		} else if (!walk_add_frame(walk, &view, error)) {
			return false;
		}
		walk_note_view(walk, &view, view.is_shim, false);
		open = !view.is_shim;
		address = outside_of(walk, &view, &exposed);
	}
	return !open || error_set(error, ERROR_TORN, "outermost Python frame has no entry");
}

static bool follow(struct walk *walk, struct error *error)
{
	switch (walk->layout->chain) {
	case CHAIN_FRAMES:
		return walk_frames(walk, error);
	case CHAIN_CFRAME:
	case CHAIN_CFRAME_SHIM:
		return walk_records(walk, error);
	case CHAIN_SHIM:
		return walk_shims(walk, error);
	}
	return error_set(error, ERROR_UNSUPPORTED, "unknown frame chain");
}

static bool follow_all(struct walk *walk, remote_addr tstate, struct error *error)
{
	const struct python_layout *layout = walk->layout;
	walk_room_reset(walk->room);
	if (!memory_read(walk->memory, tstate, walk->room->tstate, layout->tstate_size, error))
		return false;
	walk_list_chunks(walk);
	if (layout->tstate_root_cframe != LAYOUT_ABSENT)
		walk->root = tstate + layout->tstate_root_cframe;
	if (walk->room->frame_cache)
		frame_cache_begin(walk, tstate);
	struct error cause = {0};
	if (follow(walk, &cause))
		return true;
	/* What a stale pointer leads to may well be unmapped: that is not the thread's end. */
	bool lost = cause.kind == ERROR_GONE || cause.kind == ERROR_ABSENT;
	return error_set(error, lost ? ERROR_TORN : cause.kind, "%s", cause.message);
}

bool walk_stack(const struct python_runtime *runtime, const struct memory_reader *memory,
		remote_addr tstate, const struct python_native_frame *native_frames,
		size_t native_frame_count, struct walk_room *room, struct error *error)
{
	struct walk walk = {
		.runtime = runtime,
		.layout = &runtime->layout,
		.memory = memory,
		.native_frames = native_frames,
		.native_frame_count = native_frame_count,
		.innermost = native_frame_count ? native_frames : NULL,
		.room = room,
	};
	return follow_all(&walk, tstate, error);
}

bool walk_touch(const struct python_runtime *runtime, const struct memory_reader *memory,
		remote_addr tstate, const struct python_native *native, struct walk_room *room,
		struct error *error)
{
	struct walk walk = {
		.runtime = runtime,
		.layout = &runtime->layout,
		.memory = memory,
		.scan = true,
		.innermost = native->innermost,
		.end = native->end,
		.room = room,
	};
	return follow_all(&walk, tstate, error);
}
