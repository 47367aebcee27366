/* SPDX-License-Identifier: MIT */
/*
 * Frame objects (CPython up to 3.10), one an activation of the eval function. Runs in the pause, as
 * walk.c does.
 */
#include "python/walk.h"

static bool add_heap_frames(struct walk *walk, struct error *error)
{
	const struct python_layout *layout = walk->layout;
	remote_addr address = field_u64(walk->room->tstate, layout->tstate_frame);
	struct loop_guard guard = {0, 0, 0};
	while (address) {
		uint8_t frame[MAX_RECORD];
		uint32_t code;
		if (walk_is_loop(&guard, address))
			return walk_loop_found(error);
		if (!walk_read_record(walk, address, frame, layout->frame_size, error) ||
		    !walk_find_code(walk, field_u64(frame, layout->frame_code), &code, error))
			return false;
		/* Frames that were freed are kept to be used again. */
		if (field_u64(frame, (uint16_t)(layout->object_type - sizeof(uint64_t))) == 0)
			return error_set(error, ERROR_TORN, "a frame in the chain is free");
		int32_t lasti = (int32_t)field_u32(frame, layout->frame_lasti);
		if (lasti < -1 || lasti > MAX_INSTRUCTION)
			return error_set(error, ERROR_TORN, "f_lasti is %d", lasti);
		int32_t instruction = lasti < 0 ? -1 : lasti * layout->lasti_unit;
		if (!walk_push_frame(walk, address, instruction, code, error))
			return false;
		address = field_u64(frame, layout->frame_back);
	}
	return true;
}

static void push_in_order(struct walk *walk)
{
	for (size_t i = 0; i < walk->room->frame_count; i++)
		walk_push_activation(walk, 0, i, 1);
}

/*
 * Frames and records say nothing of each other, but both nest: pairs them from the outermost end. A
 * record more than frames: the eval function is being entered. A frame more than records: it
 * is being left (CPython 3.10 unlinks the record first); that frame has nothing more to run,
 * and is dropped.
 */
bool walk_heap_frames(struct walk *walk, struct error *error)
{
	struct walk_room *room = walk->room;
	const struct entry_record root = {walk->root, 0, 0};
	size_t visited = 0;
	if (!add_heap_frames(walk, error))
		return false;
	size_t frames = room->frame_count;
	if (!walk->scan && !walk->slice_count) {
		push_in_order(walk);
		return true;
	}
	bool complete = walk_list_records(walk);
	bool newest_ok = room->record_count == 0 || room->records[0].previous == walk->root ||
			 room->records[0].previous > room->records[0].address;
	bool sound = complete && newest_ok;
	size_t rebuilt = 0;
	if (room->record_count && (!sound || room->record_count + 1 < frames))
		rebuilt =
			walk_rebuild_records(walk, sound ? 1 : room->record_count, &root, &visited);
	size_t records = room->record_count;
	if (!sound && (!rebuilt || records < frames || records > frames + 1))
		return error_set(error, ERROR_TORN, "%zu entry records for %zu frames", records,
				 frames);
	/* More apart than entering and leaving explain: some are another greenlet's. */
	if (walk->slice_count && (records > frames + 1 || frames > records + 1)) {
		python_match_records(walk->memory, walk->slices, walk->slice_count, room);
		return true;
	}
	size_t entering = records > frames ? records - frames : 0;
	size_t extra = frames > records ? frames - records : 0;
	for (size_t i = 0; i < entering; i++)
		walk_push_activation(walk, room->records[i].address, 0, 0);
	for (size_t i = extra == 1; i < extra; i++)
		walk_push_activation(walk, 0, i, 1);
	for (size_t i = extra; i < frames; i++)
		walk_push_activation(walk, room->records[i - extra + entering].address, i, 1);
	room->skipped_records = (uint32_t)entering;
	return true;
}

/*
 * Without entry records: which native frame runs which of them is found later, in the copy (see
 * activations.c). In the order of the frames until then.
 */
bool walk_frames(struct walk *walk, struct error *error)
{
	struct walk_room *room = walk->room;
	if (!add_heap_frames(walk, error))
		return false;
	if (walk->slice_count) {
		python_find_activations(walk->runtime, walk->memory, walk->slices,
					walk->slice_count, room);
		return true;
	}
	push_in_order(walk);
	return true;
}
