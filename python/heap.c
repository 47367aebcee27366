/* SPDX-License-Identifier: MIT */
/*
 * Frame objects (CPython up to 3.10). Runs in the pause, as walk.c does.
 */
#include "python/walk.h"

static bool add_heap_frames(struct walk *walk, struct error *error)
{
	const struct python_layout *layout = walk->layout;
	remote_addr address = field_u64(walk->room->tstate, layout->tstate_frame);
	struct loop_guard guard = {0};
	while (address) {
		uint8_t frame[MAX_RECORD];
		uint32_t code;
		if (loop_met(&guard, address, MAX_FRAMES))
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

/*
 * CPython 3.10 _gen_throw makes a generator that delegates the current frame a moment before it is
 * linked, and unlinks it a moment too early: alone, with records of more activations outside of it.
 */
static bool is_unlinked(struct walk *walk)
{
	const struct python_layout *layout = walk->layout;
	remote_addr record = field_u64(walk->room->tstate, layout->tstate_cframe), generator, outer;
	return memory_read_u64(walk->memory,
			       walk->room->frames[0].address + layout->frame_generator, &generator,
			       NULL) &&
	       generator &&
	       memory_read_u64(walk->memory, record + layout->cframe_previous, &outer, NULL) &&
	       outer != walk->root;
}

static void push_in_order(struct walk *walk)
{
	for (size_t i = 0; i < walk->room->frame_count; i++)
		walk_push_activation(walk, 0, i, 1);
}

/*
 * CPython 3.10 links a record for each activation, which says where it is but not which frame it
 * runs. None is believed when the newest may not be filled in yet.
 */
static void list_records(struct walk *walk)
{
	struct walk_room *room = walk->room;
	room->record_count = 0;
	if (walk->layout->tstate_cframe == LAYOUT_ABSENT)
		return;
	bool complete = walk_list_records(walk);
	bool sound =
		complete && (room->record_count == 0 || room->records[0].previous == walk->root ||
			     room->records[0].previous > room->records[0].address);
	if (!sound)
		room->record_count = 0;
}

/*
 * Which native frame runs which of them is found later, in the copy (see activations.c). Until then
 * they are in their own order.
 */
bool walk_frames(struct walk *walk, struct error *error)
{
	if (!add_heap_frames(walk, error))
		return false;
	if (walk->room->frame_count == 1 && walk->layout->tstate_cframe != LAYOUT_ABSENT &&
	    is_unlinked(walk))
		return error_set(error, ERROR_TORN, "a generator's frame is not linked");
	if (!walk->native_frame_count) {
		push_in_order(walk);
		return true;
	}
	list_records(walk);
	python_find_activations(walk->runtime, walk->memory, walk->native_frames,
				walk->native_frame_count, walk->room);
	return true;
}
