/* SPDX-License-Identifier: MIT */
/* What the files of python/ share among themselves. */
#ifndef PYTHON_INTERNAL_H
#define PYTHON_INTERNAL_H

#include <string.h>

#include "base/arena.h"
#include "base/strbuf.h"
#include "base/table.h"
#include "python/layout.h"
#include "python/python.h"

enum {
	MAX_FRAMES = 200000,
	MAX_INTERPRETERS = 1024,
	MAX_THREADS = 65536,
	MAX_STRING = 64 << 10, /* bytes of a name; the rest is cut off */
	MAX_LINE_TABLE = 16 << 20,
	MAX_CHUNK = 4 << 20, /* larger: its frames are read one by one */
	MAX_CHUNKS = 16384,
	MAX_CHUNK_BYTES = 128 << 20, /* of all chunks of a thread together */
	MAX_TSTATE = 2048,	     /* largest row, with room */
	MAX_CODE = 512,
	MAX_RECORD = 160, /* entry records, frames */
	WINDOWS = 4,
	CODE_RANGES = 16,
};

struct python_range {
	remote_addr start, end;
};
struct python_ranges {
	struct python_range list[CODE_RANGES];
	size_t count;
};

/* Consecutive fields that are worth one read. */
struct python_window {
	uint16_t offset, size;
};

/*
 * A list or chain that the target wrote may lead back into itself. After Brent: one element is
 * marked, and the distance to the next one to be marked doubles; meeting it again is a loop.
 */
struct loop_guard {
	remote_addr mark;
	size_t steps, next;
};

/* Call for each element; true: seen before, or one more than `limit`. */
static inline bool loop_met(struct loop_guard *guard, remote_addr address, size_t limit)
{
	if (guard->steps >= limit || (guard->steps && address == guard->mark))
		return true;
	if (guard->steps++ == guard->next) {
		guard->mark = address;
		guard->next = guard->next * 2 + 1;
	}
	return false;
}

/* Which entry of a dict has which integer as its key: see object_dict_indexed. */
struct object_index {
	remote_addr start; /* of the entries, `count` of which are noted */
	size_t count;
	struct table places;
};

/* Where threading._active of an interpreter was found last. */
struct python_active {
	remote_addr interpreter, dict;
	bool without_threading; /* it had not imported that: why there is no dict */
	struct object_index threads;
};

struct python_runtime {
	struct python_layout layout; /* the row, completed by the target's own offsets */
	const struct module *module;
	remote_addr address;	/* of _PyRuntime; 0: none (<= 3.6) */
	remote_addr head;	/* of the pointer to the newest interpreter */
	remote_addr current;	/* of the pointer to the GIL holder's state (<= 3.11) */
	remote_addr collecting; /* of the int that says so (<= 3.8); 0: none */
	/* Code of the eval function, of what <gc> stands for, of what takes the lock of imports. */
	struct python_ranges eval, collector, import_lock;
	struct python_ranges gil;	       /* of what gets and gives up the GIL */
	remote_addr code_type;		       /* of PyCode_Type */
	struct python_window windows[WINDOWS]; /* of PyInterpreterState */
	unsigned window_count;
	struct python_active *last_active;
	/* Functions of the C API, in order of address, where the module may be a host's. */
	struct module_place *api;
	size_t api_count;
	char version[32];
};

/* Fields of records read as bytes. */
static inline uint64_t field_u64(const void *record, uint16_t offset)
{
	uint64_t value;
	memcpy(&value, (const char *)record + offset, sizeof(value));
	return value;
}

/* The same; 0 where the layout has no such field. */
static inline uint64_t field_optional(const void *record, uint16_t offset)
{
	return offset == LAYOUT_ABSENT ? 0 : field_u64(record, offset);
}

static inline uint32_t field_u32(const void *record, uint16_t offset)
{
	uint32_t value;
	memcpy(&value, (const char *)record + offset, sizeof(value));
	return value;
}

static inline uint8_t field_u8(const void *record, uint16_t offset)
{
	return ((const uint8_t *)record)[offset];
}

/* ---- runtime.c, debug_offsets.c ---- */

/* Replaces the layout's offsets by those that the target gives at _PyRuntime (3.13+). CORRUPT or
 * UNSUPPORTED when they cannot be believed. */
bool MUST_CHECK python_debug_offsets_apply(struct python_layout *layout,
					   const struct memory_reader *memory, remote_addr runtime,
					   uint32_t version, struct error *error);

/* Fills in the windows from the layout. */
void python_runtime_plan(struct python_runtime *runtime);

/* ---- host.c ---- */

/* Fills in `api`. */
void python_host_locate(struct python_runtime *runtime);

/* ---- threads.c ---- */

/* What is read of an interpreter in every sample. */
struct python_interpreter {
	remote_addr address, next, threads_head, gil;
	bool collecting;
};
bool MUST_CHECK python_interpreter_read(const struct python_runtime *runtime,
					const struct memory_reader *memory, remote_addr address,
					struct python_interpreter *interpreter,
					struct error *error);

/* ---- strings.c ---- */

/* Py_TPFLAGS_... of a type; what it is a subclass of, in every version. */
enum {
	TYPE_INLINE_VALUES = 1 << 2,
	TYPE_MANAGED_DICT = 1 << 4,
	TYPE_INT = 1 << 23, /* 2.7, as opposed to its long */
	TYPE_LONG = 1 << 24,
	TYPE_BYTES = 1 << 27, /* 2.7: str */
	TYPE_UNICODE = 1 << 28,
	TYPE_DICT = 1 << 29,
};

/* The flags of an object's type; 0: they cannot be read. */
uint64_t python_type_flags(const struct python_layout *layout, const struct memory_reader *memory,
			   remote_addr object);

/* Appends a str object (2.7: or unicode) to text as clean UTF-8, made from at most MAX_STRING bytes
 * of it. CORRUPT when it is not a str. */
bool MUST_CHECK python_string_read(const struct python_layout *layout,
				   const struct memory_reader *memory, remote_addr object,
				   struct strbuf *text, struct error *error);

/* Whether the object is one of those, by its type; and whether it is this ASCII text. */
bool python_is_string(const struct python_layout *layout, const struct memory_reader *memory,
		      remote_addr object);
bool python_string_is(const struct python_layout *layout, const struct memory_reader *memory,
		      remote_addr object, const char *wanted);

/* ---- objects.c: best effort, no errors: 0 is "not found" ---- */

struct python_objects {
	const struct python_layout *layout;
	const struct memory_reader *memory;
};

struct object_key {
	const char *text; /* ASCII; NULL: an integer */
	uint64_t integer;
};

uint64_t object_word(const struct python_objects *objects, remote_addr address);
remote_addr object_dict_value(const struct python_objects *objects, remote_addr dict,
			      const struct object_key *wanted);
remote_addr object_attribute(const struct python_objects *objects, remote_addr object,
			     const char *name);
bool object_integer(const struct python_objects *objects, remote_addr object, uint64_t *value);

/*
 * The same as object_dict_value with an integer, for a dict that is asked for many of them: the
 * keys are read once, and those that are new. *index belongs to this dict; zeroed at first.
 */
remote_addr object_dict_indexed(const struct python_objects *objects, remote_addr dict,
				uint64_t key, struct object_index *index);
void object_index_release(struct object_index *index);

/* ---- code.c ---- */

/* A code object's header, as far as a walk needs it. */
struct python_code_header {
	remote_addr address;
	uint64_t identity; /* what tells it from another object that was at the same address */
	remote_addr filename, name, line_table;
	remote_addr bytecode;	  /* of the first instruction; 0: not in the object (<= 3.10) */
	remote_addr copies;	  /* the threads' copies of the instructions; 0: none */
	uint32_t first_traceable; /* bytes */
	uint64_t frame_size;	  /* bytes of its frames on the data stack (3.11+) */
	int32_t first_line;
	bool used;			/* by a frame of the walk */
	const struct python_code *code; /* once resolved */
};

/* TORN when there is no code object at the address. */
bool MUST_CHECK python_code_header_read(const struct python_runtime *runtime,
					const struct memory_reader *memory, remote_addr address,
					struct python_code_header *header, struct error *error);

/* Reads all that decoding will need, for the recording reader's sake. */
bool MUST_CHECK python_code_touch(const struct python_runtime *runtime,
				  const struct memory_reader *memory,
				  const struct python_code_header *header, struct strbuf *scratch,
				  struct error *error);

/* The cached code object, decoded now if need be. TORN when the copy lacks its strings. */
bool MUST_CHECK python_code_resolve(struct python_code_cache *cache,
				    const struct python_runtime *runtime,
				    const struct memory_reader *memory,
				    const struct python_code_header *header,
				    const struct python_code **code, struct error *error);

int32_t python_code_line(struct python_code_cache *cache, const struct python_code *code,
			 enum python_line_format format, int32_t instruction);

/* ---- activations.c ---- */

struct walk_room;

/*
 * Finds the native frame of each frame object in room, and adds the activations to it: among those
 * of the eval function and those in which room's entry records lie. `memory` has the stack. Not in
 * the pause.
 */
void python_find_activations(const struct python_runtime *runtime,
			     const struct memory_reader *memory,
			     const struct python_native_frame *native_frames,
			     size_t native_frame_count, struct walk_room *room);

/*
 * The native frame in which the record lies, from slices[*at] outwards: records and slices are both
 * given outwards, so each slice is looked at once. False: it is on another stack, and *at stays.
 */
bool python_find_slice(const struct python_native_frame *native_frames, size_t native_frame_count,
		       remote_addr record, size_t *at);

#endif
