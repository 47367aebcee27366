/* SPDX-License-Identifier: MIT */
/* What walk.c (frames, one by one) and records.c (the entry records that chain them) share. */
#ifndef PYTHON_WALK_H
#define PYTHON_WALK_H

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
	const struct python_slice *innermost; /* slices[0], or as much of it as touching knows */
	remote_addr end;		      /* of the native stack; 0: not known */
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

/* What was taken from the last walk: the first of it stands at these places. */
struct walk_taken {
	size_t next; /* the view of the last walk that may be met next */
	size_t first_frame, first_view;
	size_t frames, views;
};

/* What a part of a walk that comes to nothing goes back to. */
struct walk_mark {
	size_t frames, views;
	struct walk_taken taken;
};

/* What the walk needs of an _PyInterpreterFrame. */
struct frame_view {
	remote_addr address, previous, code, instruction;
	uint32_t copy; /* which copy of the instructions it runs; 0: the code object's own */
	uint8_t owner;
	bool is_entry, is_shim;
};

/* A chain that comes back to where it was. */
static inline bool walk_is_loop(struct loop_guard *guard, remote_addr address)
{
	if (guard->steps && address == guard->mark)
		return true;
	if (guard->steps++ == guard->next) {
		guard->mark = address;
		guard->next = guard->next ? guard->next * 2 : 1;
	}
	return guard->steps > MAX_FRAMES;
}
bool walk_loop_found(struct error *error); /* false, with CORRUPT */

/* The index of the code object in room->codes; TORN when there is none at the address. */
bool MUST_CHECK walk_find_code(struct walk *walk, remote_addr address, uint32_t *index,
			       struct error *error);
bool MUST_CHECK walk_push_frame(struct walk *walk, remote_addr address, int32_t instruction,
				uint32_t code, struct error *error);
void walk_push_activation(struct walk *walk, remote_addr record, size_t first, size_t count);

/* The chunk of the data stack that the address lies in; NULL: none. */
const struct raw_chunk *walk_find_chunk(struct walk *walk, remote_addr address);

/* Reads a frame, from its chunk where it is in one. */
bool MUST_CHECK walk_read_record(struct walk *walk, remote_addr address, void *record, size_t size,
				 struct error *error);
bool MUST_CHECK walk_view_frame(struct walk *walk, remote_addr address, struct frame_view *view,
				struct error *error);
bool walk_is_dead(const struct walk *walk, const struct frame_view *frame);

/* Adds the frame when Python itself would show it. */
bool MUST_CHECK walk_add_frame(struct walk *walk, const struct frame_view *view,
			       struct error *error);

/* The bytes of a chunk, loaded now if need be, until another one is; NULL: there are none. */
const uint8_t *walk_chunk_bytes(struct walk *walk, struct raw_chunk *chunk);

/* Adds a frame that was looked at to the views; `dead`: it was left out. */
void walk_note_view(struct walk *walk, const struct frame_view *view, bool ends_run, bool dead);

/* walk_recall.c: finds out what of the last walk still holds, once the chunks are listed. */
void walk_recall_begin(struct walk *walk, remote_addr tstate);

/*
 * Adds the frames from `address` up to the end of the activation, which leads on to `outer`, where
 * the last walk has been there and no byte of them has changed; *end: the last of them. False: they
 * have to be decoded.
 */
bool walk_recall_run(struct walk *walk, remote_addr address, remote_addr outer, size_t *visited,
		     struct walked_view *end);

/* The same, wherever it leads on to. */
bool walk_recall_shim(struct walk *walk, remote_addr address, struct walked_view *end);

struct walk_mark walk_mark(const struct walk_room *room);
void walk_go_back(struct walk_room *room, const struct walk_mark *mark);

/*
 * newest.c: whether the frame that a thread made its current one last is linked to the one before
 * it, as far as one can see; and the one before it, 0: not found. TORN when that cannot be found
 * out without the native stack.
 */
bool walk_is_linked(struct walk *walk, remote_addr address);
bool MUST_CHECK walk_frame_before(struct walk *walk, remote_addr address, remote_addr *before,
				  struct error *error);

/* heap.c: follows frame objects (<= 3.10). */
bool MUST_CHECK walk_frames(struct walk *walk, struct error *error);

/* records.c: lists the entry records, newest first; false: the list does not lead to the root.
 * Rebuilds what of it is lost from `outer` inwards; how many were found. */
bool walk_list_records(struct walk *walk);
size_t walk_rebuild_records(struct walk *walk, size_t kept, const struct entry_record *root,
			    size_t *visited);

/* records.c: follows frames by entry records (3.11 and 3.12). */
bool MUST_CHECK walk_records(struct walk *walk, struct error *error);

#endif
