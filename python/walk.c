/* SPDX-License-Identifier: MIT */
/*
 * A thread state into the raw list of its Python frames and activations. The one place that follows frames: on
 * a stopped thread, to have every byte copied, and later on that copy. It runs in the pause:
 * once its room has grown to the deepest stack it allocates nothing, and it never prints or
 * opens files. Nothing it reads is believed before it has been checked.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "python/internal.h"

enum {
	OWNED_BY_THREAD = 0,
	OWNED_BY_GENERATOR = 1,
	MAX_INSTRUCTION = 1 << 28,
	MAX_SLICE = 8 << 20,
	MAX_SEARCHED = 64 << 20, /* bytes of native stack, for one rebuild */
	SCAN_STEP = 64 << 10,
	PAGE = 4096,
};

struct walk {
	const struct python_runtime *runtime;
	const struct python_layout *layout;
	const struct memory_reader *memory;
	const struct python_slice *slices;
	size_t slice_count;
	bool scan;
	struct walk_room *room;
	remote_addr root;      /* &tstate->root_cframe */
	remote_addr stack_top; /* the data stack holds nothing at and above it */
	size_t searched;       /* bytes of native stack so far */
};

/* Brent's algorithm: a chain that comes back to the mark is a loop; the mark moves ever later. */
struct loop_guard {
	remote_addr mark;
	size_t steps, next;
};

/* What the walk needs of an _PyInterpreterFrame. */
struct frame_view {
	remote_addr address, previous, code, instruction;
	uint8_t owner;
	bool is_entry, is_shim;
};

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

static bool is_loop(struct loop_guard *guard, remote_addr address)
{
	if (guard->steps && address == guard->mark)
		return true;
	if (guard->steps++ == guard->next) {
		guard->mark = address;
		guard->next = guard->next ? guard->next * 2 : 1;
	}
	return guard->steps > MAX_FRAMES;
}

static bool loop_found(struct error *error)
{
	return error_set(error, ERROR_CORRUPT, "Python frames form a loop");
}

/* ---- code objects ---- */

/* The index of the code object in room->codes, read once a walk. */
static bool find_code(struct walk *walk, remote_addr address, uint32_t *index, struct error *error)
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

static bool push_frame(struct walk *walk, remote_addr address, int32_t instruction, uint32_t code,
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

static void push_activation(struct walk *walk, remote_addr record, size_t first, size_t count)
{
	struct walk_room *room = walk->room;
	room->activations = alloc_room(room->activations, &room->activation_capacity,
				       room->activation_count + 1, sizeof(*room->activations));
	room->activations[room->activation_count++] =
		(struct python_activation){record, (uint32_t)first, (uint32_t)count};
}

/* ---- the data stack: most frames of a thread stand in its chunks ---- */

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
		if (size < layout->chunk_data || size > MAX_CHUNK ||
		    total + size > MAX_CHUNK_BYTES)
			return;
		total += size;
		room->chunks = alloc_room(room->chunks, &room->chunk_capacity,
					  room->chunk_count + 1, sizeof(*room->chunks));
		room->chunks[room->chunk_count++] = (struct raw_chunk){address, size, 0, false};
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

static bool read_record(struct walk *walk, remote_addr address, void *record, size_t size,
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
static bool is_dead(const struct walk *walk, const struct frame_view *frame)
{
	const struct walk_room *room = walk->room;
	if (frame->owner != OWNED_BY_THREAD || room->chunk_count == 0)
		return false;
	const struct raw_chunk *top = &room->chunks[0];
	return walk->stack_top >= top->address && walk->stack_top <= top->address + top->size &&
	       frame->address >= walk->stack_top && frame->address < top->address + top->size;
}

/* ---- frames ---- */

static bool view_frame(struct walk *walk, remote_addr address, struct frame_view *view,
		       struct error *error)
{
	const struct python_layout *layout = walk->layout;
	uint8_t frame[MAX_RECORD];
	if (!read_record(walk, address, frame, layout->iframe_size, error))
		return false;
	view->address = address;
	view->previous = field_u64(frame, layout->iframe_previous);
	view->code = field_u64(frame, layout->iframe_code);
	view->instruction = field_u64(frame, layout->iframe_instruction);
	view->owner = field_u8(frame, layout->iframe_owner);
	view->is_shim = view->owner >= layout->shim_owner;
	view->is_entry = layout->iframe_is_entry != LAYOUT_ABSENT &&
			 field_u8(frame, layout->iframe_is_entry) == 1;
	return true;
}

/*
 * Adds the frame when Python itself would show it. CPython 3.11+ _PyFrame_IsIncomplete: a frame that
 * has not reached RESUME is hidden; 3.12+ pushes a helper frame for Class() that stays there.
 */
static bool add_frame(struct walk *walk, const struct frame_view *view, struct error *error)
{
	uint32_t index;
	if (!find_code(walk, view->code, &index, error))
		return false;
	const struct python_code_header *code = &walk->room->codes[index];
	int64_t instruction = (int64_t)(view->instruction - code->bytecode);
	if (instruction < -2 || instruction > MAX_INSTRUCTION)
		return error_set(error, ERROR_TORN, "instruction %lld of code object %#llx",
				 (long long)instruction, (unsigned long long)view->code);
	if (view->owner != OWNED_BY_GENERATOR && instruction < (int64_t)code->first_traceable)
		return true;
	return push_frame(walk, view->address, instruction < 0 ? -1 : (int32_t)instruction, index,
			  error);
}

/* ---- 3.11 and 3.12: records, each with its run of frames ---- */

/*
 * Adds the frames from `start` up to the end of their activation, which must lead on to `outer`, the
 * current frame of the next record. False: they do not, and nothing is added. *entry is the
 * address that identifies the activation; *visited counts the steps of the whole walk.
 */
static bool add_run(struct walk *walk, const struct entry_record *record, remote_addr outer,
		    remote_addr *entry, size_t *visited, struct error *error)
{
	size_t first = walk->room->frame_count;
	remote_addr address = record->current_frame;
	struct frame_view view;
	struct loop_guard guard = {0, 0, 0};
	bool innermost = true;
	while (!is_loop(&guard, address) || loop_found(error)) {
		if (++*visited > 2 * MAX_FRAMES)
			break;
		if (!view_frame(walk, address, &view, error))
			break;
		*entry = view.is_shim ? view.address : record->address;
		bool dead = !view.is_shim && is_dead(walk, &view);
		/* Only the innermost can be dead: 3.11 unlinks a frame after it has popped it. */
		if (dead && (view.is_entry || !innermost))
			break;
		if (!view.is_shim && !dead && !add_frame(walk, &view, error))
			break;
		if ((view.is_shim || view.is_entry) && view.previous == outer)
			return true;
		if (view.is_shim || view.is_entry)
			break;
		address = view.previous;
		innermost = false;
	}
	walk->room->frame_count = first;
	return error->kind == ERROR_CORRUPT
		       ? false
		       : error_set(error, ERROR_TORN, "frames of entry record %#llx do not join",
				   (unsigned long long)record->address);
}

static bool parse_record(const struct walk *walk, remote_addr address, const uint8_t *bytes,
			 struct entry_record *record)
{
	const struct python_layout *layout = walk->layout;
	record->address = address;
	record->previous = field_u64(bytes, layout->cframe_previous);
	record->current_frame = layout->cframe_current_frame == LAYOUT_ABSENT
					? 0 : field_u64(bytes, layout->cframe_current_frame);
	return record->previous != address && record->previous % 8 == 0;
}

static void push_record(struct walk_room *room, const struct entry_record *record)
{
	room->records = alloc_room(room->records, &room->record_capacity, room->record_count + 1,
				   sizeof(*room->records));
	room->records[room->record_count++] = *record;
}

/* Lists the entry records, newest first. False: the list does not lead to the root. */
static bool list_records(struct walk *walk)
{
	struct walk_room *room = walk->room;
	remote_addr address = field_u64(room->tstate, walk->layout->tstate_cframe);
	struct loop_guard guard = {0, 0, 0};
	room->record_count = 0;
	while (address != walk->root) {
		uint8_t bytes[MAX_RECORD];
		struct entry_record record;
		if (is_loop(&guard, address) || address == 0 || address % 8 != 0 ||
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
	struct walk_room *room = walk->room;
	size_t size = 0, step = SCAN_STEP;
	size_t wanted = high == 0 || high - low > MAX_SLICE ? MAX_SLICE : high - low;
	if (walk->searched + wanted > MAX_SEARCHED)
		return 0;
	while (size < wanted && step) {
		size_t piece = step < wanted - size ? step : wanted - size;
		if (step == PAGE && (low + size) % PAGE + piece > PAGE)
			piece = PAGE - (low + size) % PAGE;
		room->slice = alloc_room(room->slice, &room->slice_capacity, size + piece, 1);
		if (memory_read(walk->memory, low + size, room->slice + size, piece, NULL))
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
		if (!parse_record(walk, low + start, walk->room->slice + start, found) ||
		    found->previous != outer->address)
			continue;
		if (layout->cframe_current_frame == LAYOUT_ABSENT)
			return true;
		size_t count = walk->room->frame_count;
		remote_addr entry;
		struct error ignored = {0};
		bool joins = add_run(walk, found, outer->current_frame, &entry, visited, &ignored);
		walk->room->frame_count = count;
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
	if (walk->scan)
		return (end == 0 || end > low) &&
		       find_in_slice(walk, low, end, outer, visited, found);
	for (size_t i = walk->slice_count; i-- > 0;) {
		const struct python_slice *slice = &walk->slices[i];
		remote_addr sp = (slice->sp + 7) & ~(remote_addr)7;
		if (slice->cfa <= low || slice->cfa <= sp || (end && sp >= end))
			continue;
		if (find_in_slice(walk, sp > low ? sp : low,
				  end && end < slice->cfa ? end : slice->cfa, outer, visited, found))
			return true;
	}
	return false;
}

/*
 * The newest record's `previous` cannot be trusted: keeps that record and, from `outer` (the
 * root, when it is the last) inwards, finds the others again in the native frames.
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
	/* records: newest, kept - 1 bad ones, tail, found -> newest, found (reversed), tail */
	struct entry_record *all = room->records;
	size_t total = 1 + found + tail;
	struct entry_record *sorted = alloc_zeroed(total, sizeof(*sorted));
	sorted[0] = newest;
	for (size_t i = 0; i < found; i++)
		sorted[1 + i] = all[room->record_count - 1 - i];
	memcpy(sorted + 1 + found, all + kept, tail * sizeof(*sorted));
	memcpy(all, sorted, total * sizeof(*sorted));
	free(sorted);
	room->record_count = total;
	room->rebuilt_records += (uint32_t)found;
	return found;
}

/* Adds the activations of all records. *skipped: the newest has not been filled in yet. */
static bool add_records(struct walk *walk, const struct entry_record *root, size_t *visited,
			bool *skipped, struct error *error)
{
	struct walk_room *room = walk->room;
	room->frame_count = room->activation_count = 0;
	*skipped = false;
	for (size_t i = 0; i < room->record_count; i++) {
		const struct entry_record *record = &room->records[i];
		remote_addr outer = i + 1 < room->record_count ? room->records[i + 1].current_frame
							       : root->current_frame;
		size_t first = room->frame_count;
		remote_addr entry = record->address;
		struct error cause = {0};
		/* A record that a greenlet starts its stack with runs no frame of its own. */
		bool empty = i > 0 && record->current_frame == outer;
		if (empty || add_run(walk, record, outer, &entry, visited, &cause)) {
			push_activation(walk, entry, first, room->frame_count - first);
			continue;
		}
		if (i > 0)
			return error_set(error, cause.kind, "%s", cause.message);
		push_activation(walk, record->address, first, 0);
		*skipped = true;
	}
	return true;
}

static bool walk_records(struct walk *walk, struct error *error)
{
	const struct python_layout *layout = walk->layout;
	struct walk_room *room = walk->room;
	struct entry_record root = {walk->root, 0, 0};
	size_t visited = 0;
	bool skipped = false;
	root.current_frame = field_u64(room->tstate, (uint16_t)(layout->tstate_root_cframe +
								layout->cframe_current_frame));
	bool complete = list_records(walk);
	if (room->record_count == 0)
		return complete || error_set(error, ERROR_TORN, "no entry record");
	if (complete && add_records(walk, &root, &visited, &skipped, error)) {
		/* Being entered: `previous` may have been left from an earlier use of the record's
		 * memory and lead past records that lie between. */
		visited = 0;
		if (skipped && rebuild_records(walk, 1, &root, &visited) &&
		    !add_records(walk, &root, &visited, &skipped, error))
			return false;
		room->skipped_records = skipped;
		return true;
	}
	visited = 0;
	if (!rebuild_records(walk, room->record_count, &root, &visited))
		return complete ? false
				: error_set(error, ERROR_TORN, "entry records lead nowhere");
	visited = 0;
	if (!add_records(walk, &root, &visited, &skipped, error))
		return false;
	room->skipped_records = skipped;
	return true;
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
		if (is_loop(&guard, address))
			return loop_found(error);
		if (!view_frame(walk, address, &view, error))
			return false;
		if (view.is_shim) {
			push_activation(walk, view.address, first, room->frame_count - first);
			first = room->frame_count;
		} else if (!add_frame(walk, &view, error)) {
			return false;
		}
		open = !view.is_shim;
		address = view.previous;
	}
	return !open || error_set(error, ERROR_TORN, "outermost Python frame has no entry");
}

/* ---- 3.10: frame objects, one record each ---- */

static bool add_heap_frames(struct walk *walk, struct error *error)
{
	const struct python_layout *layout = walk->layout;
	remote_addr address = field_u64(walk->room->tstate, layout->tstate_frame);
	struct loop_guard guard = {0, 0, 0};
	while (address) {
		uint8_t frame[MAX_RECORD];
		uint32_t code;
		if (is_loop(&guard, address))
			return loop_found(error);
		if (!read_record(walk, address, frame, layout->frame_size, error) ||
		    !find_code(walk, field_u64(frame, layout->frame_code), &code, error))
			return false;
		int32_t lasti = (int32_t)field_u32(frame, layout->frame_lasti);
		if (lasti < -1 || lasti > MAX_INSTRUCTION)
			return error_set(error, ERROR_TORN, "f_lasti is %d", lasti);
		if (!push_frame(walk, address, lasti < 0 ? -1 : lasti * layout->lasti_unit, code,
				error))
			return false;
		address = field_u64(frame, layout->frame_back);
	}
	return true;
}

/*
 * Frames and records say nothing of each other, but both nest: pairs them from the outermost end. A
 * record more than frames: the eval function is being entered. A frame more than records: it
 * is being left (CPython 3.10 unlinks the record first); that frame has nothing more to run,
 * and is dropped.
 */
static bool walk_heap_frames(struct walk *walk, struct error *error)
{
	struct walk_room *room = walk->room;
	const struct entry_record root = {walk->root, 0, 0};
	size_t visited = 0;
	if (!add_heap_frames(walk, error))
		return false;
	size_t frames = room->frame_count;
	bool complete = list_records(walk);
	bool newest_ok = room->record_count == 0 ||
			 room->records[0].previous == walk->root ||
			 room->records[0].previous > room->records[0].address;
	bool sound = complete && newest_ok;
	size_t rebuilt = 0;
	if (room->record_count && (!sound || room->record_count + 1 < frames))
		rebuilt = rebuild_records(walk, sound ? 1 : room->record_count, &root, &visited);
	size_t records = room->record_count;
	if (!sound && (!rebuilt || records < frames || records > frames + 1))
		return error_set(error, ERROR_TORN, "%zu entry records for %zu frames", records,
				 frames);
	size_t entering = records > frames ? records - frames : 0;
	size_t extra = frames > records ? frames - records : 0;
	for (size_t i = 0; i < entering; i++)
		push_activation(walk, room->records[i].address, 0, 0);
	for (size_t i = extra == 1; i < extra; i++)
		push_activation(walk, 0, i, 1);
	for (size_t i = extra; i < frames; i++)
		push_activation(walk, room->records[i - extra + entering].address, i, 1);
	room->skipped_records = (uint32_t)entering;
	return true;
}

static bool follow(struct walk *walk, struct error *error)
{
	switch (walk->layout->chain) {
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
		.runtime = runtime, .layout = layout, .memory = memory, .slices = slices,
		.slice_count = slice_count, .scan = scan, .room = room,
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
