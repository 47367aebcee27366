/* SPDX-License-Identifier: MIT */
/*
 * Reads a CPython interpreter out of any memory_reader: its runtime, threads, frames, code
 * objects and lines. Everything goes through the reader, so that the same functions run on a
 * stopped thread (to find what must be copied) and on the copy (to decode it).
 */
#ifndef PYTHON_PYTHON_H
#define PYTHON_PYTHON_H

#include "base/error.h"
#include "base/intern.h"
#include "base/memory_reader.h"
#include "target/target.h"

/* ---- the runtime: runtime.c ----------------------------------------------------------------- */

struct python_runtime;

/*
 * Finds the interpreter among the modules: a libpython, the executable, any module with
 * _PyRuntime or a .PyRuntime section; then its version and layout. ABSENT: no interpreter here;
 * UNSUPPORTED: a version without a layout, named in the message; TORN: not initialised or
 * finalizing.
 */
bool MUST_CHECK python_runtime_open(struct module_table *table, const struct memory_reader *memory,
				    struct python_runtime **runtime, struct error *error);
void python_runtime_free(struct python_runtime *runtime); /* NULL accepted */

const char *python_runtime_version(const struct python_runtime *runtime); /* "3.11.2" */

/* The file that it is in; belongs to the module table. */
const struct module *python_runtime_module(const struct python_runtime *runtime);

/* True when the address (run-time) lies in code of the interpreter's own module. */
bool python_runtime_owns(const struct python_runtime *runtime, remote_addr pc);

/* True when it lies in the eval function, in the collector, or in the function that acquires the
 * lock of all imports, as far as their names tell. knows_eval: nearly all of the eval function has
 * a name; not so where just its entry has one, as in stripped builds that split it or make tail
 * calls of it: there Python code may run in any frame of the interpreter's. */
bool python_runtime_knows_eval(const struct python_runtime *runtime);
bool python_runtime_evaluates(const struct python_runtime *runtime, remote_addr pc);
bool python_runtime_collects(const struct python_runtime *runtime, remote_addr pc);
bool python_runtime_locks_imports(const struct python_runtime *runtime, remote_addr pc);

/* ---- threads: threads.c ---------------------------------------------------------------------- */

struct python_thread {
	remote_addr tstate;
	remote_addr interpreter;
	uint64_t thread_id;	   /* pthread_self() */
	uint64_t native_thread_id; /* kernel thread id in the target's namespace; 0: not known */
	uint64_t id;		   /* PyThreadState.id: never reused within an interpreter */
};

/* All thread states of all interpreters, newest interpreter first; *threads malloc'ed, the
 * caller frees. At most 65,536. TORN when the lists changed under us. */
bool MUST_CHECK python_threads(const struct python_runtime *runtime,
			       const struct memory_reader *memory, struct python_thread **threads,
			       size_t *count, struct error *error);

/*
 * The thread states of a thread that began after the list was read: looks at the newest ones of
 * each interpreter, for these ids (0: not known). Returns how many were found, at most `capacity`;
 * *all: every thread state of every interpreter was looked at, there are no others. Allocates
 * nothing; may run in the pause.
 */
uint32_t python_threads_newest(const struct python_runtime *runtime,
			       const struct memory_reader *memory, uint64_t thread_id,
			       uint64_t native_thread_id, remote_addr tstates[], uint32_t capacity,
			       bool *all);

/*
 * A number that changes when a thread state is added: the heads of the interpreters' lists,
 * mixed. A few reads; may run in the pause.
 */
bool MUST_CHECK python_threads_stamp(const struct python_runtime *runtime,
				     const struct memory_reader *memory, uint64_t *stamp,
				     struct error *error);

/* The name given by the threading module ("Thread-1 (worker)"; clean UTF-8, interned), or NULL. */
const char *python_thread_name(const struct python_runtime *runtime,
			       const struct memory_reader *memory,
			       const struct python_thread *thread, struct interner *interner);

/* ---- one thread's stack: stack.c ------------------------------------------------------------- */

/*
 * What the taker calls while the thread is stopped: reads, through `memory`, every byte that
 * python_stack_read will need for this thread state: thread state, entry records, data-stack
 * chunks, frames, the identity of each code object, who holds the GIL, whether the collector runs.
 * `memory` is the taker's recording reader; nothing is returned but success. `known` (may be NULL)
 * tells which code objects are known already; of others all that python_code_read needs is read,
 * too, and they are added. `native`: what is known of the native stack; NULL: nothing. Allocates
 * nothing after warm-up except for unknown code objects.
 */
struct python_slice;
struct python_native {
	const struct python_slice *innermost; /* its CFA a mere bound; NULL: no registers */
	remote_addr end;		      /* no frame stands there or above; 0: not known */
};

struct python_known_codes;
struct python_known_codes *python_known_codes_new(void);
void python_known_codes_free(struct python_known_codes *known);

/* Forgets all: to be called when a touched copy was dropped before python_stack_read saw it, as
 * the strings of code objects that were new in it would never come again. */
void python_known_codes_clear(struct python_known_codes *known);

/* How many were ever added: the same as before a touch whose copy is dropped, there is nothing to
 * forget. */
uint64_t python_known_codes_added(const struct python_known_codes *known);

bool MUST_CHECK python_stack_touch(const struct python_runtime *runtime,
				   const struct memory_reader *memory, remote_addr tstate,
				   const struct python_native *native,
				   struct python_known_codes *known, struct error *error);

/*
 * A code object, decoded once; also those made after it, from the same source. Owned by the cache,
 * valid for its life. Strings are clean UTF-8.
 */
struct python_code {
	uint32_t id;	  /* index in the cache */
	const char *name; /* qualified from 3.11 on: "Hopper.go" */
	const char *file; /* co_filename */
	int32_t first_line;
	const uint8_t *line_table;
	uint32_t line_table_size;
};

/* True for the functions of importlib (3.3+) in which a thread waits until another one has imported
 * a module. */
bool python_code_locks_imports(const struct python_code *code);

struct python_code_cache;
struct python_code_cache *python_code_cache_new(struct interner *interner);
void python_code_cache_free(struct python_code_cache *cache);

/*
 * From now on python_stack_read keeps of the last stacks of a few threads what it has read, and
 * decodes no frame again whose bytes, and those of all outside of it, are the same. The result is
 * the same as without. Only for memory that is of one moment.
 */
void python_code_cache_set_recall(struct python_code_cache *cache, bool recall);
const struct python_code *python_code_cache_get(const struct python_code_cache *cache, uint32_t id);

/* Lines from 1 on, 0: none; columns are UTF-8 bytes from 0 on, -1: none. Before 3.11 tables tell
 * lines alone: end_line is 0. */
struct python_position {
	int32_t line, end_line, column, end_column;
};

struct python_frame {
	remote_addr address; /* of the frame object or _PyInterpreterFrame */
	const struct python_code *code;
	int32_t instruction; /* byte offset in the code; -1: not started */
	int32_t line;	     /* 0: none */
};

/* Where the frame is in its source, columns and all: for output that shows them. */
struct python_position python_frame_position(const struct python_runtime *runtime,
					     const struct python_frame *frame);

/*
 * One activation of the eval function, and the run of Python frames that it executes:
 * frames[first] (innermost) .. frames[first + count - 1]. count may be 0: entered, no frame yet.
 */
struct python_activation {
	remote_addr record; /* lies in the native frame's [sp, cfa); 0: not known which one */
	uint32_t first, count;
};

/* Frames and activations innermost first. Arrays are kept and reused from call to call. */
struct python_stack {
	struct python_frame *frames;
	size_t count, frame_capacity;
	struct python_activation *activations;
	size_t activation_count, activation_capacity;
	uint32_t skipped_records; /* entry records linked before they were filled, dropped */
	uint32_t rebuilt_records; /* records found again from the outermost end (see rebuild below)
				   */
	uint64_t walk;		  /* its number; 0: of none */
	size_t recalled; /* of the frames, the outermost: how many were not decoded again ... */
	uint64_t recalled_from; /* ... but taken from that walk */
	bool of_objects;	/* frames are objects (<= 3.10) */
	bool cut; /* the chain of frames is known to end inside of the thread's outermost one */
	bool holds_gil, gc_running;
	bool has_gil;			      /* false: this build has none (free-threaded) */
	uint64_t thread_id, native_thread_id; /* as in the copy: to verify the join */
	remote_addr gil; /* address of the GIL's struct, to recognise who waits for it */
	uint32_t gil_size;
};

void python_stack_init(struct python_stack *stack);
void python_stack_release(struct python_stack *stack);

/*
 * A native frame, innermost first, as found by the unwinder. Where an entry record chain is broken
 * (3.11: `previous` stale in the eval function's prologue), it is rebuilt from the outermost record
 * inwards by looking for its address in the slices; where there are no records (<= 3.9), the
 * activations are found among them. NULL slices: neither can be done.
 */
enum { PYTHON_SAVED_COUNT = 6 }; /* RBX, RBP, R12 - R15 */
struct python_slice {
	remote_addr sp, cfa;
	remote_addr pc; /* inside of the call: a return address is given less one */
	uint64_t saved[PYTHON_SAVED_COUNT];
	uint8_t saved_known; /* bit N: saved[N] holds */
	bool guessed;
};

/*
 * Decodes the thread's Python stack from the copy. TORN when the chain cannot be followed to its
 * end (the stack so far is not given out, but the ids are, 0: not read); CORRUPT on a loop or
 * beyond 200,000 frames.
 */
bool MUST_CHECK python_stack_read(const struct python_runtime *runtime,
				  const struct memory_reader *memory, remote_addr tstate,
				  const struct python_slice *slices, size_t slice_count,
				  struct python_code_cache *codes, struct python_stack *stack,
				  struct error *error);

/* ---- a thread that runs while it is read: look.c ----------------------------------------------
 */

/*
 * What looks at a thread's frame objects (CPython up to 3.10) remember: those that were the
 * innermost ones lately, the last one first, and the outermost one. Zeroed at first.
 */
enum { PYTHON_RECENT = 23 };
struct python_recent {
	remote_addr frames[PYTHON_RECENT];
	size_t count;
	remote_addr outermost, other; /* other: what it was in the last looks instead */
	unsigned others;	      /* how many looks in a row */
};

/* Whose frames are looked at, through which memory. */
struct python_view {
	const struct python_runtime *runtime;
	const struct memory_reader *memory;
	remote_addr tstate;
	struct python_known_codes *known;
	struct python_recent *recent;
};

/*
 * A thread state's frames as one look shows them. The thread changes them meanwhile, so nothing of
 * it is true until another look has shown the same: python_looks_agree.
 */
struct python_look;
struct python_look *python_look_new(void);
void python_look_free(struct python_look *look); /* NULL accepted */

/*
 * Follows the frames as python_stack_touch does, and reads what it reads of code objects, but makes
 * none of them known. Fails as that does; then the look still has what was seen until then.
 * Allocates nothing once the depth has been seen, but for unknown code objects.
 */
bool MUST_CHECK python_look_take(struct python_look *look, const struct python_view *view,
				 struct error *error);

/* The view's last look, at a copy that is kept: its code objects are known from now on, and what
 * else python_stack_read needs is read. */
bool MUST_CHECK python_look_keep(const struct python_look *look, const struct python_view *view,
				 struct error *error);

size_t python_look_frames(const struct python_look *look);

/* A number that changes, most likely, when any frame or its instruction does; never 0. */
uint64_t python_look_stamp(const struct python_look *look);

/*
 * Where the innermost frames and what leads to them change, by what the look, also a failed one,
 * has seen: at most `size` ranges, the thread state's own first. Returns how many.
 */
size_t python_look_top(const struct python_look *look, const struct python_recent *recent,
		       struct target_range *ranges, size_t size);

/*
 * For a look in which these ranges were newer than the rest of the memory, of which `base` is a
 * look: true when what lies outside of them stood still, that is, when its frames there are base's,
 * and at least one more is, which is inside.
 */
bool python_look_rests_on(const struct python_look *look, const struct python_look *base,
			  const struct target_range *ranges, size_t count);

/*
 * Up to 3.10 each frame is an object of its own, freed when it is left, and a look that meets a
 * freed one has seen nothing. So a look begins at a frame that can be believed: one that the thread
 * state names both before and after it is read. *ranges are to be read in this order, by one call;
 * false: there is none to begin with (other versions, no frame seen so far).
 */
enum { PYTHON_START_RANGES = 3, PYTHON_START_SIZE = 1024 };
bool python_look_start(const struct python_view *view,
		       struct target_range ranges[PYTHON_START_RANGES]);

/* Whether what was read so was the innermost frame; if not, what is tried next is noted. */
bool python_look_started(const struct python_view *view,
			 const struct target_range ranges[PYTHON_START_RANGES],
			 const uint8_t *bytes);

/* The words that make frames[innermost] the innermost one, written into a copy that shows the look.
 */
struct python_patch {
	remote_addr address;
	uint64_t value;
};
struct python_cut {
	size_t kept; /* frames that are left, the outermost ones */
	struct python_patch patches[2];
	size_t patch_count;
};
void python_look_cut(const struct python_look *look, size_t innermost, struct python_cut *cut);

/*
 * Compares two looks, one taken after the other. *cut is what leaves of the later one the part that
 * both have, and that therefore was the thread's stack at a moment between them.
 */
enum python_agreement {
	PYTHON_LOOKS_AGREE,  /* it is all that one of the two shows */
	PYTHON_LOOKS_SHARE,  /* each shows more: inner frames were left and entered meanwhile */
	PYTHON_LOOKS_DIFFER, /* there is none */
};
enum python_agreement python_looks_agree(const struct python_look *earlier,
					 const struct python_look *later, struct python_cut *cut);

/* ---- lines: lines.c -------------------------------------------------------------------------- */

enum python_line_format {
	PYTHON_LINES_UNSIGNED, /* co_lnotab, lines only grow (<= 3.5) */
	PYTHON_LINES_SIGNED,   /* co_lnotab (3.6 - 3.9) */
	PYTHON_LINES_310,
	PYTHON_LINES_311,
};

/* Line of the byte offset, 0: none (no location). Bounded by the table's size, never fails. */
int32_t python_line_of(enum python_line_format format, const uint8_t *table, size_t size,
		       int32_t first_line, int32_t instruction);

/* The same with what else the table tells. */
struct python_position python_position_of(enum python_line_format format, const uint8_t *table,
					  size_t size, int32_t first_line, int32_t instruction);

#endif
