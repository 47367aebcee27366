/* SPDX-License-Identifier: MIT */
/*
 * What all walks do: the code objects and frames found so far, chunks of the data stack, records
 * read from them. Runs in the pause: once the room has grown to the deepest stack it allocates
 * nothing. Nothing that is read is believed before it has been checked.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "python/walk.h"

void walk_room_release(struct walk_room *room)
{
	free(room->frames);
	free(room->activations);
	free(room->records);
	free(room->codes.items);
	free(room->codes.slots);
	free(room->chunks.items);
	free(room->chunks.order);
	free(room->bytes);
	free(room->rebuild.bytes);
	free(room->kept);
	free(room->views);
	memset(room, 0, sizeof(*room));
}

void walk_room_reset(struct walk_room *room)
{
	room->frame_count = room->activation_count = room->record_count = 0;
	room->codes.count = room->chunks.count = room->byte_count = room->view_count = 0;
	room->chunks.hit = room->chunks.order_count = 0;
	room->rebuild.skipped = room->rebuild.rebuilt = 0;
	room->cut = room->mixed = false;
	if (++room->codes.stamp == 0) {
		memset(room->codes.slots, 0, room->codes.slot_count * sizeof(*room->codes.slots));
		room->codes.stamp = 1;
	}
}

bool walk_loop_found(struct error *error)
{
	return error_set(error, ERROR_CORRUPT, "Python frames form a loop");
}

/* ---- code objects ---- */

/* The slot of a code object, or the free one where it would go. */
static struct code_slot *code_slot_of(const struct walked_codes *codes, remote_addr address)
{
	size_t mask = codes->slot_count - 1;
	size_t slot = hash_pair(address, 0) & mask;
	while (codes->slots[slot].stamp == codes->stamp &&
	       codes->items[codes->slots[slot].index].address != address)
		slot = (slot + 1) & mask;
	return &codes->slots[slot];
}

/* At most half of the slots are in use. */
static void make_code_slots(struct walked_codes *codes)
{
	if (2 * (codes->count + 1) <= codes->slot_count)
		return;
	free(codes->slots);
	codes->slot_count = codes->slot_count ? 2 * codes->slot_count : 1024;
	codes->slots = alloc_zeroed(codes->slot_count, sizeof(*codes->slots));
	for (uint32_t i = 0; i < codes->count; i++)
		*code_slot_of(codes, codes->items[i].address) = (struct code_slot){codes->stamp, i};
}

bool walk_find_code(struct walk *walk, remote_addr address, uint32_t *index, struct error *error)
{
	struct walked_codes *codes = &walk->room->codes;
	/* Mostly a function calls itself, or there are few. */
	if (codes->hit < codes->count && codes->items[codes->hit].address == address) {
		*index = codes->hit;
		return true;
	}
	make_code_slots(codes);
	struct code_slot *slot = code_slot_of(codes, address);
	if (slot->stamp == codes->stamp) {
		*index = codes->hit = slot->index;
		return true;
	}
	struct python_code_header header;
	if (!python_code_header_read(walk->runtime, walk->memory, address, &header, error))
		return false;
	codes->items =
		alloc_room(codes->items, &codes->capacity, codes->count + 1, sizeof(*codes->items));
	*index = (uint32_t)codes->count++;
	codes->items[*index] = header;
	*slot = (struct code_slot){codes->stamp, *index};
	codes->hit = *index;
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

/* ---- the data stack: most frames of a thread are in its chunks ---- */

/* Of the chunk in use, the part in use: in whole KiB, so that the reads change seldom. */
static uint64_t used_size(const struct walk *walk, remote_addr address, uint64_t size)
{
	uint64_t used = (walk->stack_top - address + 1023) & ~UINT64_C(1023);
	return walk->stack_top >= address && used < size ? used : size;
}

/* Notes where the chunks are. A list that cannot be read to its end is no failure: frames outside
 * the chunks that we know are read one by one. */
void walk_list_chunks(struct walk *walk)
{
	const struct python_layout *layout = walk->layout;
	struct walked_chunks *chunks = &walk->room->chunks;
	const uint8_t *tstate = walk->room->tstate;
	walk->stack_top = 0;
	if (layout->tstate_datastack_chunk == LAYOUT_ABSENT)
		return;
	walk->stack_top = field_u64(tstate, layout->tstate_datastack_top);
	remote_addr address = field_u64(tstate, layout->tstate_datastack_chunk);
	size_t total = 0;
	while (address && chunks->count < MAX_CHUNKS) {
		uint8_t header[MAX_RECORD];
		if (!memory_read(walk->memory, address, header, layout->chunk_data, NULL))
			return;
		uint64_t size = field_u64(header, layout->chunk_length);
		if (size < layout->chunk_data || size > MAX_CHUNK || total + size > MAX_CHUNK_BYTES)
			return;
		total += size;
		chunks->items = alloc_room(chunks->items, &chunks->capacity, chunks->count + 1,
					   sizeof(*chunks->items));
		chunks->items[chunks->count++] = (struct raw_chunk){
			.address = address, .length = size, .size = used_size(walk, address, size)};
		address = field_u64(header, layout->chunk_previous);
	}
}

static remote_addr chunk_at(const struct walked_chunks *chunks, size_t place)
{
	return chunks->items[chunks->order[place]].address;
}

static void sift(struct walked_chunks *chunks, size_t top, size_t count)
{
	uint32_t *order = chunks->order;
	for (size_t child; (child = 2 * top + 1) < count; top = child) {
		if (child + 1 < count && chunk_at(chunks, child) < chunk_at(chunks, child + 1))
			child++;
		if (chunk_at(chunks, child) <= chunk_at(chunks, top))
			return;
		uint32_t other = order[top];
		order[top] = order[child];
		order[child] = other;
	}
}

/* A heapsort: qsort may allocate, and this runs in the pause. */
static void order_chunks(struct walked_chunks *chunks)
{
	size_t count = chunks->count;
	chunks->order =
		alloc_room(chunks->order, &chunks->order_capacity, count, sizeof(*chunks->order));
	chunks->order_count = count;
	for (size_t i = 0; i < count; i++)
		chunks->order[i] = (uint32_t)i;
	for (size_t i = count / 2; i-- > 0;)
		sift(chunks, i, count);
	for (size_t end = count; end-- > 1;) {
		uint32_t largest = chunks->order[0];
		chunks->order[0] = chunks->order[end];
		chunks->order[end] = largest;
		sift(chunks, 0, end);
	}
}

/* Where a frame was found last; NULL: nowhere yet. */
static const struct raw_chunk *last_chunk(const struct walked_chunks *chunks)
{
	return chunks->hit < chunks->count ? &chunks->items[chunks->hit] : NULL;
}

static bool chunk_contains(const struct raw_chunk *chunk, remote_addr address, size_t size)
{
	return address >= chunk->address && size <= chunk->size &&
	       address - chunk->address <= chunk->size - size;
}

/*
 * The chunk that holds the range whole; NULL: none. Frames lead from one chunk to the one before;
 * those of generators lie anywhere, and there may be as many of them as chunks.
 */
static struct raw_chunk *find_chunk(struct walked_chunks *chunks, remote_addr address, size_t size)
{
	size_t near = chunks->hit + 2 < chunks->count ? chunks->hit + 2 : chunks->count;
	for (size_t i = chunks->hit; i < near; i++)
		if (chunk_contains(&chunks->items[i], address, size)) {
			chunks->hit = i;
			return &chunks->items[i];
		}
	if (chunks->order_count != chunks->count)
		order_chunks(chunks);
	size_t low = 0, high = chunks->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (chunk_at(chunks, middle) <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || !chunk_contains(&chunks->items[chunks->order[low - 1]], address, size))
		return NULL;
	chunks->hit = chunks->order[low - 1];
	return &chunks->items[chunks->hit];
}

const struct raw_chunk *walk_find_chunk(struct walk *walk, remote_addr address)
{
	return find_chunk(&walk->room->chunks, address, 1);
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
	struct raw_chunk *chunk = find_chunk(&walk->room->chunks, address, size);
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
	const struct raw_chunk *chunk = last_chunk(&room->chunks);
	if (!chunk || !chunk->loaded || !chunk_contains(chunk, address, size))
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
	    room->chunks.count == 0)
		return false;
	const struct raw_chunk *top = &room->chunks.items[0];
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
	view->object = field_u64(frame, layout->iframe_instruction - sizeof(remote_addr));
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
 * In the code object, or in one of the copies that free-threaded builds make for their threads.
 * CPython 3.14 Include/internal/pycore_code.h, _PyCodeArray: a count, then pointers, the first of
 * them to the code object's own.
 */
bool walk_find_bytecode(struct walk *walk, const struct frame_view *view,
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
	const struct python_code_header *code = &walk->room->codes.items[index];
	remote_addr bytecode;
	if (!walk_find_bytecode(walk, view, code, &bytecode, error))
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
	if (!room->frame_cache)
		return;
	const struct walked_chunks *chunks = &room->chunks;
	const struct raw_chunk *chunk = last_chunk(chunks);
	const bool in_chunk =
		chunk && chunk_contains(chunk, view->address, walk->layout->iframe_size);
	if (room->view_count == room->view_capacity)
		room->views = alloc_room(room->views, &room->view_capacity, room->view_count + 1,
					 sizeof(*room->views));
	const bool shown = room->frame_count > 0 &&
			   room->frames[room->frame_count - 1].address == view->address;
	room->views[room->view_count++] = (struct walked_view){
		.address = view->address,
		.previous = view->previous,
		.frame = (uint32_t)(room->frame_count - shown),
		.code = view->is_shim ? NO_INDEX : room->codes.hit,
		.chunk = in_chunk ? (uint32_t)(chunks->count - 1 - chunks->hit) : NO_INDEX,
		.ends_run = ends_run,
		.lasting = !dead && view->copy == 0,
	};
}
