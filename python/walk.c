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

void walk_room_release(struct walk_room *room)
{
	free(room->frames);
	free(room->activations);
	free(room->records);
	free(room->codes);
	free(room->chunks);
	free(room->bytes);
	free(room->slice);
	memset(room, 0, sizeof(*room));
}

static void reset_room(struct walk_room *room)
{
	room->frame_count = room->activation_count = room->record_count = 0;
	room->code_count = room->chunk_count = room->byte_count = 0;
	room->skipped_records = room->rebuilt_records = 0;
	memset(room->code_slots, 0, sizeof(room->code_slots));
}

bool walk_is_loop(struct loop_guard *guard, remote_addr address)
{
	if (guard->steps && address == guard->mark)
		return true;
	if (guard->steps++ == guard->next) {
		guard->mark = address;
		guard->next = guard->next ? guard->next * 2 : 1;
	}
	return guard->steps > MAX_FRAMES;
}

bool walk_loop_found(struct error *error)
{
	return error_set(error, ERROR_CORRUPT, "Python frames form a loop");
}

/* ---- code objects ---- */

/* The index of the code object in room->codes, read once a walk. */
bool walk_find_code(struct walk *walk, remote_addr address, uint32_t *index, struct error *error)
{
	enum { SLOTS = sizeof(walk->room->code_slots) / sizeof(*walk->room->code_slots) };
	struct walk_room *room = walk->room;
	size_t slot = hash_pair(address, 0) % SLOTS;
	bool full = room->code_count >= SLOTS * 3 / 4;
	for (size_t i = 0; i < SLOTS && room->code_slots[slot]; i++, slot = (slot + 1) % SLOTS) {
		*index = room->code_slots[slot] - 1;
		if (room->codes[*index].address == address)
			return true;
	}
	struct python_code_header header;
	if (!python_code_header_read(walk->runtime, walk->memory, address, &header, error))
		return false;
	room->codes = alloc_room(room->codes, &room->code_capacity, room->code_count + 1,
				 sizeof(*room->codes));
	*index = (uint32_t)room->code_count++;
	room->codes[*index] = header;
	if (!full)
		room->code_slots[slot] = *index + 1;
	return true;
}

bool walk_push_frame(struct walk *walk, remote_addr address, int32_t instruction, uint32_t code,
		     struct error *error)
{
	struct walk_room *room = walk->room;
	if (room->frame_count >= MAX_FRAMES)
		return error_set(error, ERROR_CORRUPT, "more than %d Python frames", MAX_FRAMES);
	room->frames = alloc_room(room->frames, &room->frame_capacity, room->frame_count + 1,
				  sizeof(*room->frames));
	room->frames[room->frame_count++] = (struct raw_frame){address, instruction, code};
	return true;
}

void walk_push_activation(struct walk *walk, remote_addr record, size_t first, size_t count)
{
	struct walk_room *room = walk->room;
	room->activations = alloc_room(room->activations, &room->activation_capacity,
				       room->activation_count + 1, sizeof(*room->activations));
	room->activations[room->activation_count++] =
		(struct python_activation){record, (uint32_t)first, (uint32_t)count};
}

/* ---- the data stack: most frames of a thread stand in its chunks ---- */

/* Of the chunk in use, the part in use: in whole KiB, so that the reads change seldom. */
static uint64_t used_size(const struct walk *walk, remote_addr address, uint64_t size)
{
	uint64_t used = (walk->stack_top - address + 1023) & ~UINT64_C(1023);
	return walk->stack_top >= address && used < size ? used : size;
}

/* Notes where the chunks are. A list that cannot be read to its end is no failure: frames outside
 * the chunks that we know are read one by one. */
static void list_chunks(struct walk *walk)
{
	const struct python_layout *layout = walk->layout;
	struct walk_room *room = walk->room;
	walk->stack_top = 0;
	if (layout->tstate_datastack_chunk == LAYOUT_ABSENT)
		return;
	walk->stack_top = field_u64(room->tstate, layout->tstate_datastack_top);
	remote_addr address = field_u64(room->tstate, layout->tstate_datastack_chunk);
	size_t total = 0;
	while (address && room->chunk_count < MAX_CHUNKS) {
		uint8_t header[MAX_RECORD];
		if (!memory_read(walk->memory, address, header, layout->chunk_data, NULL))
			return;
		uint64_t size = field_u64(header, layout->chunk_length);
		if (size < layout->chunk_data || size > MAX_CHUNK || total + size > MAX_CHUNK_BYTES)
			return;
		total += size;
		room->chunks = alloc_room(room->chunks, &room->chunk_capacity,
					  room->chunk_count + 1, sizeof(*room->chunks));
		room->chunks[room->chunk_count++] =
			(struct raw_chunk){address, used_size(walk, address, size), 0, false};
		address = field_u64(header, layout->chunk_previous);
	}
}

/* The chunk that holds the range whole, copied now if it has not been; NULL: none. */
static const struct raw_chunk *chunk_of(struct walk *walk, remote_addr address, size_t size)
{
	struct walk_room *room = walk->room;
	for (size_t i = 0; i < room->chunk_count; i++) {
		struct raw_chunk *chunk = &room->chunks[i];
		if (address < chunk->address || size > chunk->size ||
		    address - chunk->address > chunk->size - size)
			continue;
		if (chunk->loaded)
			return chunk;
		room->bytes = alloc_room(room->bytes, &room->byte_capacity,
					 room->byte_count + chunk->size, 1);
		chunk->offset = room->byte_count;
		chunk->loaded = memory_read(walk->memory, chunk->address,
					    room->bytes + chunk->offset, chunk->size, NULL);
		if (!chunk->loaded)
			return NULL;
		room->byte_count += chunk->size;
		return chunk;
	}
	return NULL;
}

bool walk_read_record(struct walk *walk, remote_addr address, void *record, size_t size,
		      struct error *error)
{
	if (address == 0 || address % 8 != 0)
		return error_set(error, ERROR_TORN, "no Python frame at %#llx",
				 (unsigned long long)address);
	const struct raw_chunk *chunk = chunk_of(walk, address, size);
	if (!chunk)
		return memory_read(walk->memory, address, record, size, error);
	memcpy(record, walk->room->bytes + chunk->offset + (address - chunk->address), size);
	return true;
}

/* True for a frame that has been popped: it lies above the top of the data stack. */
bool walk_is_dead(const struct walk *walk, const struct frame_view *frame)
{
	const struct walk_room *room = walk->room;
	if (frame->owner != OWNED_BY_THREAD || room->chunk_count == 0)
		return false;
	const struct raw_chunk *top = &room->chunks[0];
	return walk->stack_top >= top->address && walk->stack_top <= top->address + top->size &&
	       frame->address >= walk->stack_top && frame->address < top->address + top->size;
}

/* ---- frames ---- */

bool walk_view_frame(struct walk *walk, remote_addr address, struct frame_view *view,
		     struct error *error)
{
	const struct python_layout *layout = walk->layout;
	uint8_t frame[MAX_RECORD];
	if (!walk_read_record(walk, address, frame, layout->iframe_size, error))
		return false;
	view->address = address;
	view->previous = field_u64(frame, layout->iframe_previous);
	view->code = field_u64(frame, layout->iframe_code) & ~(remote_addr)layout->tag_mask;
	view->instruction = field_u64(frame, layout->iframe_instruction);
	view->owner = field_u8(frame, layout->iframe_owner);
	view->copy = layout->iframe_tlbc_index == LAYOUT_ABSENT
			     ? 0
			     : field_u32(frame, layout->iframe_tlbc_index);
	view->is_shim = view->owner >= layout->shim_owner;
	view->is_entry = layout->iframe_is_entry != LAYOUT_ABSENT &&
			 field_u8(frame, layout->iframe_is_entry) == 1;
	return true;
}

/*
 * Where the instructions start that the frame runs: in the code object, or in one of the copies
 * that free-threaded builds make for their threads. CPython 3.14 Include/internal/pycore_code.h,
 * _PyCodeArray: a count, then pointers, the first of them to the code object's own.
 */
static bool find_bytecode(struct walk *walk, const struct frame_view *view,
			  const struct python_code_header *code, remote_addr *bytecode,
			  struct error *error)
{
	uint64_t count;
	*bytecode = code->bytecode;
	if (view->copy == 0)
		return true;
	if (!memory_read_u64(walk->memory, code->copies, &count, error))
		return false;
	if (view->copy >= count)
		return error_set(error, ERROR_TORN, "copy %u of %llu of a frame's instructions",
				 view->copy, (unsigned long long)count);
	return memory_read_u64(walk->memory, code->copies + 8 + 8 * (remote_addr)view->copy,
			       bytecode, error);
}

/*
 * Adds the frame when Python itself would show it. CPython 3.11+ _PyFrame_IsIncomplete: a frame
 * that has not reached RESUME is hidden; 3.12+ pushes a helper frame for Class() that stays there.
 */
bool walk_add_frame(struct walk *walk, const struct frame_view *view, struct error *error)
{
	uint32_t index;
	if (!walk_find_code(walk, view->code, &index, error))
		return false;
	const struct python_code_header *code = &walk->room->codes[index];
	remote_addr bytecode;
	if (!find_bytecode(walk, view, code, &bytecode, error))
		return false;
	int64_t instruction = (int64_t)(view->instruction - bytecode);
	if (instruction < -2 || instruction > MAX_INSTRUCTION)
		return error_set(error, ERROR_TORN, "instruction %lld of code object %#llx",
				 (long long)instruction, (unsigned long long)view->code);
	if (view->owner != OWNED_BY_GENERATOR && instruction < (int64_t)code->first_traceable)
		return true;
	if (instruction < 0)
		instruction = -1;
	return walk_push_frame(walk, view->address, (int32_t)instruction, index, error);
}

/* ---- 3.13: shim frames in one chain ---- */

static bool walk_shims(struct walk *walk, struct error *error)
{
	struct walk_room *room = walk->room;
	remote_addr address = field_u64(room->tstate, walk->layout->tstate_current_frame);
	struct loop_guard guard = {0, 0, 0};
	size_t first = 0;
	bool open = false;
	while (address) {
		struct frame_view view;
		if (walk_is_loop(&guard, address))
			return walk_loop_found(error);
		if (!walk_view_frame(walk, address, &view, error))
			return false;
		if (view.is_shim) {
			walk_push_activation(walk, view.address, first, room->frame_count - first);
			first = room->frame_count;
		} else if (!walk_add_frame(walk, &view, error)) {
			return false;
		}
		open = !view.is_shim;
		address = view.previous;
	}
	return !open || error_set(error, ERROR_TORN, "outermost Python frame has no entry");
}

static bool follow(struct walk *walk, struct error *error)
{
	switch (walk->layout->chain) {
	case CHAIN_FRAMES:
		return walk_frames(walk, error);
	case CHAIN_HEAP_FRAMES:
		return walk_heap_frames(walk, error);
	case CHAIN_CFRAME:
	case CHAIN_CFRAME_SHIM:
		return walk_records(walk, error);
	case CHAIN_SHIM:
		return walk_shims(walk, error);
	}
	return error_set(error, ERROR_UNSUPPORTED, "unknown frame chain");
}

bool walk_stack(const struct python_runtime *runtime, const struct memory_reader *memory,
		remote_addr tstate, const struct python_slice *slices, size_t slice_count,
		bool scan, struct walk_room *room, struct error *error)
{
	const struct python_layout *layout = &runtime->layout;
	struct walk walk = {
		.runtime = runtime,
		.layout = layout,
		.memory = memory,
		.slices = slices,
		.slice_count = slice_count,
		.scan = scan,
		.room = room,
	};
	reset_room(room);
	if (!memory_read(memory, tstate, room->tstate, layout->tstate_size, error))
		return false;
	list_chunks(&walk);
	if (layout->tstate_root_cframe != LAYOUT_ABSENT)
		walk.root = tstate + layout->tstate_root_cframe;
	struct error cause = {0};
	if (follow(&walk, &cause))
		return true;
	/* What a stale pointer leads to may well be unmapped: that is not the thread's end. */
	bool lost = cause.kind == ERROR_GONE || cause.kind == ERROR_ABSENT;
	return error_set(error, lost ? ERROR_TORN : cause.kind, "%s", cause.message);
}
