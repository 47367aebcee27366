/* SPDX-License-Identifier: MIT */
/* What walk.c (frames, one by one) and records.c (the entry records that chain them) share: the one
 * walk that both touching and reading use. */
#ifndef PYTHON_WALK_H
#define PYTHON_WALK_H

#include "python/internal.h"

struct walked_frame {
	remote_addr address;
	int32_t instruction;
	uint32_t code; /* index in walk_room.codes */
};

struct code_slot {
	uint32_t stamp, index;
};

struct raw_chunk {
	remote_addr address;
	size_t length;	      /* of all of it */
	size_t size;	      /* of the part in use */
	const uint8_t *bytes; /* where the reader has them; NULL: in walk_room.bytes, once copied */
	size_t offset;	      /* there */
	bool loaded;
};

struct entry_record {
	remote_addr address, current_frame, previous;
};

/* A frame that the walk has looked at, shown or not. */
struct walked_view {
	remote_addr address, previous;
	uint32_t frame; /* how many frames had been added before it */
	uint32_t code;	/* in walk_room.codes; NO_INDEX: a shim has none */
	uint32_t chunk; /* in which it stands, counted from the oldest; NO_INDEX: in none */
	bool ends_run;	/* the activation's outermost */
	bool lasting;	/* its bytes and its code object say all of it */
};
enum { NO_INDEX = 0xffffffffu };

struct frame_cache;

/* The code objects met, each once. */
struct walked_codes {
	struct python_code_header *items;
	size_t count, capacity;
	uint32_t hit;		 /* the one found last */
	struct code_slot *slots; /* by hash of the address */
	size_t slot_count;	 /* a power of two */
	uint32_t stamp;		 /* slots of another stamp are free */
};

/* The chunks of the data stack, the newest first. */
struct walked_chunks {
	struct raw_chunk *items;
	size_t count, capacity, hit; /* hit: where a frame was found last */
	uint32_t *order;	     /* indices by address, once asked for */
	size_t order_count, order_capacity;
};

/* records.c: entry records that are looked for on the native stack. */
struct record_rebuild {
	uint8_t *bytes; /* of one native frame */
	size_t capacity;
	uint32_t skipped, rebuilt;
};

/* Everything a walk needs room for: kept from walk to walk, so that it stops allocating. */
struct walk_room {
	struct walked_frame *frames;
	size_t frame_count, frame_capacity;
	struct python_activation *activations;
	size_t activation_count, activation_capacity;
	struct entry_record *records;
	size_t record_count, record_capacity;
	struct walked_codes codes;
	struct walked_chunks chunks;
	uint8_t *bytes;
	size_t byte_count, byte_capacity;
	struct record_rebuild rebuild;
	uint32_t *kept; /* activations.c: how often each place had an activation's own frame */
	uint32_t kept_most;
	bool cut;	/* see struct python_stack */
	bool mixed;	/* the native stack has activations of other frames among those of ours */
	uint64_t walks; /* so far */
	struct frame_cache *frame_cache; /* NULL: each frame is decoded, and no views are noted */
	struct walked_view *views;
	size_t view_count, view_capacity;
	uint8_t tstate[MAX_TSTATE];
};
void walk_room_release(struct walk_room *room);
void walk_room_reset(struct walk_room *room); /* before a walk */

/* Reads the thread state and follows its frames. Slices as in python_stack_read. */
bool MUST_CHECK walk_stack(const struct python_runtime *runtime, const struct memory_reader *memory,
			   remote_addr tstate, const struct python_native_frame *native_frames,
			   size_t native_frame_count, struct walk_room *room, struct error *error);

/* The same for python_stack_touch: without slices, the stack above the newest record is searched as
 * a whole. */
bool MUST_CHECK walk_touch(const struct python_runtime *runtime, const struct memory_reader *memory,
			   remote_addr tstate, const struct python_native *native,
			   struct walk_room *room, struct error *error);

/* Reads what decoding will need of the code objects of a walk's frames, those that are known
 * excepted (stack.c). */
bool MUST_CHECK python_codes_read(const struct python_runtime *runtime,
				  const struct memory_reader *memory,
				  struct python_known_codes *known, struct walk_room *room,
				  struct error *error);

/* Makes known what python_codes_read has read, and reads what else python_stack_read needs. */
bool MUST_CHECK python_stack_finish(const struct python_runtime *runtime,
				    const struct memory_reader *memory, remote_addr tstate,
				    struct python_known_codes *known, const struct walk_room *room,
				    struct error *error);

/* The room of a code cache: what python_stack_read walks in. */
struct walk_room *python_code_cache_room(struct python_code_cache *cache);

/* The cache of a thread state's last walk; NULL: there is to be none. */
struct frame_cache *python_code_cache_frames(struct python_code_cache *cache, remote_addr tstate);

/* ---- frame_cache.c: the frames of the last walk, where no byte of them has changed ---- */

struct frame_cache *frame_cache_new(void);
void frame_cache_free(struct frame_cache *frame_cache); /* NULL accepted */

/* How many of the outermost frames of the walk in `room` were taken from the last one: all of
 * them, as they were resolved then, in *frames. *walk: that one's number; 0: none were. */
size_t frame_cache_frames(const struct walk_room *room, const struct python_frame **frames,
			  uint64_t *walk);

/* Keeps the walk, whose frames have been resolved, for the next one; what the room has of it is
 * gone. */
void frame_cache_keep(const struct python_runtime *runtime, const struct memory_reader *memory,
		      remote_addr tstate, struct walk_room *room, const struct python_stack *stack);

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
	const struct python_native_frame *native_frames;
	size_t native_frame_count;
	bool scan;
	const struct python_native_frame
		*innermost; /* slices[0], or as much of it as touching knows */
	remote_addr end;    /* of the native stack; 0: not known */
	struct walk_room *room;
	remote_addr root;      /* &tstate->root_cframe */
	remote_addr stack_top; /* the data stack holds nothing at and above it */
	size_t searched;       /* bytes of native stack so far */
};

/* The chunks of the data stack, as the thread state has them. */
void walk_list_chunks(struct walk *walk);

/* What was taken from the last walk: the first of it is at these places. */
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
	remote_addr object; /* its PyFrameObject, where somebody asked for one (3.12+) */
	uint32_t copy;	    /* which copy of the instructions it runs; 0: the code object's own */
	uint8_t owner;
	bool is_entry, is_shim;
};

bool walk_loop_found(struct error *error); /* false, with CORRUPT */

/* The index of the code object in room->codes, read once a walk; TORN when there is none at the
 * address. */
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

/* Where the instructions start that the frame runs. */
bool MUST_CHECK walk_find_bytecode(struct walk *walk, const struct frame_view *view,
				   const struct python_code_header *code, remote_addr *bytecode,
				   struct error *error);
bool walk_is_dead(const struct walk *walk, const struct frame_view *frame);

/* Adds the frame when Python itself would show it. */
bool MUST_CHECK walk_add_frame(struct walk *walk, const struct frame_view *view,
			       struct error *error);

/* The bytes of a chunk, loaded now if need be, until another one is; NULL: there are none. */
const uint8_t *walk_chunk_bytes(struct walk *walk, struct raw_chunk *chunk);

/* Adds a frame that was looked at to the views; `dead`: it was left out. */
void walk_note_view(struct walk *walk, const struct frame_view *view, bool ends_run, bool dead);

/* frame_cache.c: finds out what of the last walk still holds, once the chunks are listed. */
void frame_cache_begin(struct walk *walk, remote_addr tstate);

/*
 * Adds the frames from `address` up to the end of the activation, which leads on to `outer`, where
 * the last walk has been there and no byte of them has changed; *end: the last of them. False: they
 * have to be decoded.
 */
bool frame_cache_run(struct walk *walk, remote_addr address, remote_addr outer, size_t *visited,
		     struct walked_view *end);

/* The same, wherever it leads on to. */
bool frame_cache_shim(struct walk *walk, remote_addr address, struct walked_view *end);

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

/* records.c: lists the entry records, newest first; false: the list does not lead to the root. */
bool walk_list_records(struct walk *walk);

/* The same file: follows frames by entry records (3.11 and 3.12). */
bool MUST_CHECK walk_records(struct walk *walk, struct error *error);

#endif
