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
	free(room->code_slots);
	free(room->chunks);
	free(room->chunk_order);
	free(room->bytes);
	free(room->slice);
	free(room->kept);
	free(room->views);
	memset(room, 0, sizeof(*room));
}

static void reset_room(struct walk_room *room)
{
	room->frame_count = room->activation_count = room->record_count = 0;
	room->code_count = room->chunk_count = room->byte_count = room->view_count = 0;
	room->chunk_hit = room->chunk_order_count = 0;
	room->skipped_records = room->rebuilt_records = room->relinked_frames = 0;
	room->cut = room->mixed = false;
	if (++room->code_stamp == 0) {
		memset(room->code_slots, 0, room->code_slot_count * sizeof(*room->code_slots));
		room->code_stamp = 1;
	}
}

bool walk_loop_found(struct error *error)
{
	return error_set(error, ERROR_CORRUPT, "Python frames form a loop");
}

/* ---- code objects ---- */

/* The slot of a code object, or the free one where it would go. */
static struct code_slot *code_slot_of(const struct walk_room *room, remote_addr address)
{
	size_t mask = room->code_slot_count - 1;
	size_t slot = hash_pair(address, 0) & mask;
	while (room->code_slots[slot].stamp == room->code_stamp &&
	       room->codes[room->code_slots[slot].index].address != address)
		slot = (slot + 1) & mask;
	return &room->code_slots[slot];
}

/* At most half of the slots are in use. */
static void make_code_slots(struct walk_room *room)
{
	if (2 * (room->code_count + 1) <= room->code_slot_count)
		return;
	free(room->code_slots);
	room->code_slot_count = room->code_slot_count ? 2 * room->code_slot_count : 1024;
	room->code_slots = alloc_zeroed(room->code_slot_count, sizeof(*room->code_slots));
	for (uint32_t i = 0; i < room->code_count; i++)
		*code_slot_of(room, room->codes[i].address) =
			(struct code_slot){room->code_stamp, i};
}

/* The index of the code object in room->codes, read once a walk. */
bool walk_find_code(struct walk *walk, remote_addr address, uint32_t *index, struct error *error)
{
	struct walk_room *room = walk->room;
	/* Mostly a function calls itself, or there are few. */
	if (room->code_hit < room->code_count && room->codes[room->code_hit].address == address) {
		*index = room->code_hit;
		return true;
	}
	make_code_slots(room);
	struct code_slot *slot = code_slot_of(room, address);
	if (slot->stamp == room->code_stamp) {
		*index = room->code_hit = slot->index;
		return true;
	}
	struct python_code_header header;
	if (!python_code_header_read(walk->runtime, walk->memory, address, &header, error))
		return false;
	room->codes = alloc_room(room->codes, &room->code_capacity, room->code_count + 1,
				 sizeof(*room->codes));
	*index = (uint32_t)room->code_count++;
	room->codes[*index] = header;
	*slot = (struct code_slot){room->code_stamp, *index};
	room->code_hit = *index;
	return true;
}

bool walk_push_frame(struct walk *walk, remote_addr address, int32_t instruction, uint32_t code,
		     struct error *error)
{
	struct walk_room *room = walk->room;
	if (room->frame_count >= MAX_FRAMES)
		return error_set(error, ERROR_CORRUPT, "more than %d Python frames", MAX_FRAMES);
	if (room->frame_count == room->frame_capacity)
		room->frames = alloc_room(room->frames, &room->frame_capacity,
					  room->frame_count + 1, sizeof(*room->frames));
	room->frames[room->frame_count++] = (struct walked_frame){address, instruction, code};
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
		room->chunks[room->chunk_count++] = (struct raw_chunk){
			.address = address, .length = size, .size = used_size(walk, address, size)};
		address = field_u64(header, layout->chunk_previous);
	}
}

static remote_addr chunk_at(const struct walk_room *room, size_t place)
{
	return room->chunks[room->chunk_order[place]].address;
}

static void sift(struct walk_room *room, size_t top, size_t count)
{
	uint32_t *order = room->chunk_order;
	for (size_t child; (child = 2 * top + 1) < count; top = child) {
		if (child + 1 < count && chunk_at(room, child) < chunk_at(room, child + 1))
			child++;
		if (chunk_at(room, child) <= chunk_at(room, top))
			return;
		uint32_t other = order[top];
		order[top] = order[child];
		order[child] = other;
	}
}

/* A heapsort: qsort may allocate, and this runs in the pause. */
static void order_chunks(struct walk_room *room)
{
	size_t count = room->chunk_count;
	room->chunk_order = alloc_room(room->chunk_order, &room->chunk_order_capacity, count,
				       sizeof(*room->chunk_order));
	room->chunk_order_count = count;
	for (size_t i = 0; i < count; i++)
		room->chunk_order[i] = (uint32_t)i;
	for (size_t i = count / 2; i-- > 0;)
		sift(room, i, count);
	for (size_t end = count; end-- > 1;) {
		uint32_t largest = room->chunk_order[0];
		room->chunk_order[0] = room->chunk_order[end];
		room->chunk_order[end] = largest;
		sift(room, 0, end);
	}
}

static bool chunk_holds(const struct raw_chunk *chunk, remote_addr address, size_t size)
{
	return address >= chunk->address && size <= chunk->size &&
	       address - chunk->address <= chunk->size - size;
}

/*
 * The chunk that holds the range whole; NULL: none. Frames lead from one chunk to the one before;
 * those of generators lie anywhere, and there may be as many of them as chunks.
 */
static struct raw_chunk *find_chunk(struct walk_room *room, remote_addr address, size_t size)
{
	size_t near =
		room->chunk_hit + 2 < room->chunk_count ? room->chunk_hit + 2 : room->chunk_count;
	for (size_t i = room->chunk_hit; i < near; i++)
		if (chunk_holds(&room->chunks[i], address, size)) {
			room->chunk_hit = i;
			return &room->chunks[i];
		}
	if (room->chunk_order_count != room->chunk_count)
		order_chunks(room);
	size_t low = 0, high = room->chunk_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (chunk_at(room, middle) <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || !chunk_holds(&room->chunks[room->chunk_order[low - 1]], address, size))
		return NULL;
	room->chunk_hit = room->chunk_order[low - 1];
	return &room->chunks[room->chunk_hit];
}

const struct raw_chunk *walk_find_chunk(struct walk *walk, remote_addr address)
{
	return find_chunk(walk->room, address, 1);
}

static void load_chunk(struct walk *walk, struct raw_chunk *chunk)
{
	struct walk_room *room = walk->room;
	chunk->bytes = memory_view(walk->memory, chunk->address, chunk->size);
	chunk->loaded = chunk->bytes != NULL;
	if (chunk->loaded)
		return;
	room->bytes =
		alloc_room(room->bytes, &room->byte_capacity, room->byte_count + chunk->size, 1);
	chunk->offset = room->byte_count;
	chunk->loaded = memory_read(walk->memory, chunk->address, room->bytes + chunk->offset,
				    chunk->size, NULL);
	if (chunk->loaded)
		room->byte_count += chunk->size;
}

static const uint8_t *bytes_of(const struct walk_room *room, const struct raw_chunk *chunk)
{
	return chunk->bytes ? chunk->bytes : room->bytes + chunk->offset;
}

const uint8_t *walk_chunk_bytes(struct walk *walk, struct raw_chunk *chunk)
{
	if (!chunk->loaded)
		load_chunk(walk, chunk);
	return chunk->loaded ? bytes_of(walk->room, chunk) : NULL;
}

/* The same, copied now if it has not been. */
static const struct raw_chunk *chunk_of(struct walk *walk, remote_addr address, size_t size)
{
	struct raw_chunk *chunk = find_chunk(walk->room, address, size);
	return chunk && walk_chunk_bytes(walk, chunk) ? chunk : NULL;
}

/* The record's bytes, in the chunk that holds it or read into `own`; NULL: there are none. */
static const uint8_t *record_at(struct walk *walk, remote_addr address, uint8_t *own, size_t size,
				struct error *error)
{
	if (address == 0 || address % 8 != 0) {
		(void)error_set(error, ERROR_TORN, "no Python frame at %#llx",
				(unsigned long long)address);
		return NULL;
	}
	const struct walk_room *room = walk->room;
	/* Mostly the chunk that the last one was in. */
	const struct raw_chunk *chunk =
		room->chunk_hit < room->chunk_count ? &room->chunks[room->chunk_hit] : NULL;
	if (!chunk || !chunk->loaded || !chunk_holds(chunk, address, size))
		chunk = chunk_of(walk, address, size);
	if (chunk)
		return bytes_of(room, chunk) + (address - chunk->address);
	return memory_read(walk->memory, address, own, size, error) ? own : NULL;
}

bool walk_read_record(struct walk *walk, remote_addr address, void *record, size_t size,
		      struct error *error)
{
	const uint8_t *bytes = record_at(walk, address, record, size, error);
	if (bytes && bytes != record)
		memcpy(record, bytes, size);
	return bytes != NULL;
}

/* True for a frame that has been popped: it lies above the top of the data stack. */
bool walk_is_dead(const struct walk *walk, const struct frame_view *frame)
{
	const struct walk_room *room = walk->room;
	if (frame->owner != OWNED_BY_THREAD || frame->address < walk->stack_top ||
	    room->chunk_count == 0)
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
	uint8_t own[MAX_RECORD];
	const uint8_t *frame = record_at(walk, address, own, layout->iframe_size, error);
	if (!frame)
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

void walk_note_view(struct walk *walk, const struct frame_view *view, bool ends_run, bool dead)
{
	struct walk_room *room = walk->room;
	if (!room->recall)
		return;
	const bool in_chunk = room->chunk_hit < room->chunk_count &&
			      chunk_holds(&room->chunks[room->chunk_hit], view->address,
					  walk->layout->iframe_size);
	if (room->view_count == room->view_capacity)
		room->views = alloc_room(room->views, &room->view_capacity, room->view_count + 1,
					 sizeof(*room->views));
	const bool shown = room->frame_count > 0 &&
			   room->frames[room->frame_count - 1].address == view->address;
	room->views[room->view_count++] = (struct walked_view){
		.address = view->address,
		.previous = view->previous,
		.frame = (uint32_t)(room->frame_count - shown),
		.code = view->is_shim ? NO_INDEX : room->code_hit,
		.chunk = in_chunk ? (uint32_t)(room->chunk_count - 1 - room->chunk_hit) : NO_INDEX,
		.ends_run = ends_run,
		.lasting = !dead && view->copy == 0,
	};
}

/* ---- 3.13: shim frames in one chain ---- */

static bool walk_shims(struct walk *walk, struct error *error)
{
	struct walk_room *room = walk->room;
	const struct python_layout *layout = walk->layout;
	remote_addr address = field_u64(room->tstate, layout->tstate_current_frame), end = 0;
	struct loop_guard guard = {0, 0, 0};
	size_t first = 0;
	bool open = false;
	if (layout->tstate_base_frame != LAYOUT_ABSENT)
		end = field_u64(room->tstate, layout->tstate_base_frame);
	if (address && address != end && !walk_is_linked(walk, address)) {
		remote_addr before;
		if (!walk_frame_before(walk, address, &before, error))
			return false;
		address = before ? before : address;
		room->relinked_frames = before != 0;
	}
	while (address && address != end) {
		struct frame_view view;
		struct walked_view shim;
		if (walk_is_loop(&guard, address))
			return walk_loop_found(error);
		if (walk_recall_shim(walk, address, &shim)) {
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
		address = view.previous;
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
	reset_room(walk->room);
	if (!memory_read(walk->memory, tstate, walk->room->tstate, layout->tstate_size, error))
		return false;
	list_chunks(walk);
	if (layout->tstate_root_cframe != LAYOUT_ABSENT)
		walk->root = tstate + layout->tstate_root_cframe;
	if (walk->room->recall)
		walk_recall_begin(walk, tstate);
	struct error cause = {0};
	if (follow(walk, &cause))
		return true;
	/* What a stale pointer leads to may well be unmapped: that is not the thread's end. */
	bool lost = cause.kind == ERROR_GONE || cause.kind == ERROR_ABSENT;
	return error_set(error, lost ? ERROR_TORN : cause.kind, "%s", cause.message);
}

bool walk_stack(const struct python_runtime *runtime, const struct memory_reader *memory,
		remote_addr tstate, const struct python_slice *slices, size_t slice_count,
		struct walk_room *room, struct error *error)
{
	struct walk walk = {
		.runtime = runtime,
		.layout = &runtime->layout,
		.memory = memory,
		.slices = slices,
		.slice_count = slice_count,
		.innermost = slice_count ? slices : NULL,
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
