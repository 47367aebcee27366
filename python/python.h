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
#include "modules/module.h"

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

/*
 * Where the interpreter is linked into a program, its module has the program's functions as well:
 * has_host says that it may, and that its symbols tell them apart. is_api: the address lies in a
 * function of the C API, or in one in which the interpreter's own threads begin. calls_api: the
 * call before this return address is to one of the former.
 */
bool python_runtime_has_host(const struct python_runtime *runtime);
bool python_runtime_is_api(const struct python_runtime *runtime, remote_addr pc);
bool python_runtime_calls_api(const struct python_runtime *runtime, remote_addr return_address);

/* True when it lies in the eval function, in the collector, or in the function that acquires the
 * lock of all imports, as far as their names say. knows_eval: nearly all of the eval function has
 * a name; not so where just its entry has one, as in stripped builds that split it or make tail
 * calls of it: there Python code may run in any frame of the interpreter's. */
bool python_runtime_knows_eval(const struct python_runtime *runtime);
bool python_runtime_evaluates(const struct python_runtime *runtime, remote_addr pc);
bool python_runtime_collects(const struct python_runtime *runtime, remote_addr pc);
/* In what gets or gives up the GIL. */
bool python_runtime_passes_gil(const struct python_runtime *runtime, remote_addr pc);
bool python_runtime_knows_collector(const struct python_runtime *runtime); /* false: stripped */
bool python_runtime_locks_imports(const struct python_runtime *runtime, remote_addr pc);
/* It has a JIT (3.13+), used or not. Reads all of its file: not in the pause. */
bool python_runtime_has_jit(const struct python_runtime *runtime);

/* ---- threads: threads.c ---------------------------------------------------------------------- */

struct python_thread {
	remote_addr tstate;
	remote_addr interpreter;
	uint64_t thread_id;	   /* pthread_self() */
	uint64_t native_thread_id; /* kernel thread id in the target's namespace; 0: not known */
	uint64_t id;		   /* PyThreadState.id: never reused within an interpreter */
	bool main; /* for its name: the process's main thread. Not filled in by what reads it */
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
 * Where a thread state's newest entry record is, on the native stack of the thread that runs it;
 * 0: nobody does. False: nothing says (but 3.10 to 3.12). May run in the pause.
 */
bool python_thread_entry(const struct python_runtime *runtime, const struct memory_reader *memory,
			 remote_addr tstate, remote_addr *entry);

/*
 * A number that changes when a thread state is added: the heads of the interpreters' lists,
 * mixed. A few reads; may run in the pause.
 */
bool MUST_CHECK python_threads_stamp(const struct python_runtime *runtime,
				     const struct memory_reader *memory, uint64_t *stamp,
				     struct error *error);

/* One thread state; false: there is none (any more). */
bool MUST_CHECK python_thread_read(const struct python_runtime *runtime,
				   const struct memory_reader *memory, remote_addr tstate,
				   struct python_thread *thread);

/*
 * The name given by the threading module ("Thread-1 (worker)"; clean UTF-8); false: there is none.
 * Not in the pause, and of one runtime by one thread of ours only.
 */
enum { PYTHON_NAME_SIZE = 512 };
bool python_thread_name(const struct python_runtime *runtime, const struct memory_reader *memory,
			const struct python_thread *thread, char name[PYTHON_NAME_SIZE]);

/* ---- one thread's stack: stack.c ------------------------------------------------------------- */

/*
 * What the taker calls while the thread is stopped: reads, through `memory`, every byte that
 * python_stack_read will need for this thread state: thread state, entry records, data-stack
 * chunks, frames, the identity of each code object, who holds the GIL, whether the collector runs.
 * `memory` is the taker's recording reader; nothing is returned but success. `known` tells which
 * code objects are known already; of others all that python_code_read needs is read, too, and they
 * are added. `native`: what is known of the native stack; NULL: nothing. Allocates nothing after
 * warm-up except for unknown code objects.
 */
struct python_native_frame;
struct python_native {
	const struct python_native_frame *innermost; /* its CFA a mere bound; NULL: no registers */
	remote_addr end;			     /* no frame is there or above; 0: not known */
};

struct python_known_codes;
struct python_known_codes *python_known_codes_new(void);
void python_known_codes_free(struct python_known_codes *known);

/* Forgets all: to be called when a touched copy was dropped before python_stack_read saw it, as
 * the strings of code objects that were new in it would never come again. */
void python_known_codes_clear(struct python_known_codes *known);

/* How many were ever added. */
uint64_t python_known_codes_added(const struct python_known_codes *known);

/* The same, of a copy before which so many had been added: if it has brought none, nothing is to be
 * forgotten. */
void python_known_codes_drop(struct python_known_codes *known, uint64_t added_before);

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

/* Another program runs: what was where is forgotten, code objects that were given out are not. */
void python_code_cache_forget_places(struct python_code_cache *cache);

/*
 * From now on python_stack_read keeps of the last stacks of a few threads what it has read, and
 * decodes no frame again whose bytes, and those of all outside of it, are the same. The result is
 * the same as without. Only for memory that is of one moment.
 */
void python_code_cache_keep_frames(struct python_code_cache *cache, bool frame_cache);
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
	size_t reused; /* of the frames, the outermost: how many were not decoded again ... */
	uint64_t reused_from; /* ... but taken from that walk */
	bool of_objects;      /* frames are objects (<= 3.10) */
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
struct python_native_frame {
	remote_addr sp, cfa;
	remote_addr pc; /* inside of the call: a return address is given less one */
	uint64_t saved[PYTHON_SAVED_COUNT];
	uint8_t saved_known; /* bit N: saved[N] holds */
	bool guessed;
};

/* Learns the code objects that python_stack_touch has read first; `native` as there. */
void python_codes_learn(const struct python_runtime *runtime, const struct memory_reader *memory,
			remote_addr tstate, const struct python_native *native,
			struct python_code_cache *codes);

/*
 * Decodes the thread's Python stack from the copy. TORN when the chain cannot be followed to its
 * end (the stack so far is not given out, but the ids are, 0: not read); CORRUPT on a loop or
 * beyond 200,000 frames.
 */
bool MUST_CHECK python_stack_read(const struct python_runtime *runtime,
				  const struct memory_reader *memory, remote_addr tstate,
				  const struct python_native_frame *native_frames,
				  size_t native_frame_count, struct python_code_cache *codes,
				  struct python_stack *stack, struct error *error);

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

/* The same with what else the table says. */
struct python_position python_position_of(enum python_line_format format, const uint8_t *table,
					  size_t size, int32_t first_line, int32_t instruction);

#endif
