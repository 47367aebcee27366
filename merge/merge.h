/* SPDX-License-Identifier: MIT */
/*
 * A raw sample in, one true stack out: unwound, read, merged on addresses, numbered. Knows no
 * process, no thread under watch and no capture; whoever drives it stores what it found out.
 */
#ifndef MERGE_MERGE_H
#define MERGE_MERGE_H

#include "base/intern.h"
#include "base/memory_reader.h"
#include "copy/join.h"
#include "copy/raw_sample.h"
#include "frames/frames.h"
#include "python/python.h"
#include "modules/module.h"
#include "unwind/unwind.h"

struct decoder;

struct decode_options {
	bool native;	    /* native frames merged with the Python frames */
	bool internals;	    /* keep the interpreter's own frames */
	bool rbx;	    /* unwind for `rbx_thread_id` in any case */
	bool marks_idle;    /* profiles: a blocked thread's leaf is of kind idle */
	bool packs_leaf;    /* profiles: what can be a key is not in the table of frames */
	bool columns;	    /* dumps: Python frames have their whole position */
	bool decides_later; /* dumps: what a program can name is found out when frames are named */
	bool reuses;	    /* recordings: frames that are as they were are not walked again */
};

enum refresh_reason {
	REFRESH_REGULAR,      /* before each sample: libraries come and go */
	REFRESH_UNKNOWN_CODE, /* code where none was: look at once */
	REFRESH_STACK_END,    /* a stack goes on where nothing was copied */
};

/* What a decoder may ask for of a running process; of none, in replay, all functions are NULL. */
struct decoder_source {
	void *context;
	/* Reads the module table anew, if it is time to; true: it is another one than before. */
	bool (*refresh_modules)(void *context, struct module_table *modules,
				enum refresh_reason reason);
	/* Reads the list of Python's threads anew. */
	bool (*refresh_threads)(void *context, const struct python_runtime *runtime,
				struct join *join);
	const struct memory_reader *code; /* of code that no file has; NULL: none */
	/* In whose file system modules are opened, and whose code made at run time is looked for;
	 * NULL: in ours, and what module_table_add_jit has added. */
	const struct target *target;
};

enum decode_result { DECODE_OK, DECODE_TORN, DECODE_EMPTY };

/* All that a sample says. */
struct decoded {
	enum decode_result result;
	/* Frame ids, outermost first, until the next sample; stack[-1] and stack[-2] are there for
	 * roots. */
	uint32_t *stack;
	size_t stack_count;
	uint64_t leaf; /* the key of the frame inside of those; NO_LEAF: there is none */
	bool salvaged, truncated, guessed, contradiction, native_leaf;
	bool known_to_python, holds_gil, waits_for_gil, gc_running, has_gil;
	bool stale_join;     /* a thread state is not this thread's (any more) */
	bool needs_register; /* unwinding needs a register a blocked thread has not */
	bool unwound;	     /* there is a native stack, and `rbx_thread_id` is what it says */
	uint64_t thread_id;
	uint64_t rbx_thread_id; /* the thread_id that the outermost frames have in RBX; 0: none */
	enum unwind_end end;
	/* Code that replaces the thread's stack, in the middle of which it has none (greenlet):
	 * COPY_SWITCHES, some of size 0; the decoder's. NULL: not looked for. */
	const struct target_range *switches;
	remote_addr stack_end; /* more of the stack is needed, and it goes up to here; 0: no */
};

/* `source` is used, not owned, and may change between samples; `options` are copied. */
struct decoder *decoder_new(const struct decode_options *options,
			    const struct decoder_source *source, struct interner *strings);
void decoder_free(struct decoder *decoder); /* NULL accepted */

/* Another program runs, of which nothing is known by its address; stacks and frames stay valid. */
void decoder_forget_program(struct decoder *decoder);

/* Opens the interpreter (again) through `memory`; it becomes the current one. */
bool MUST_CHECK decoder_open_python(struct decoder *decoder, const struct memory_reader *memory,
				    struct error *error);
const struct python_runtime *decoder_runtime(const struct decoder *decoder); /* NULL: none */

/* Its own: where code is, the frames that ids are of, and who knows where functions begin. */
struct module_table *decoder_modules(struct decoder *decoder);
struct frame_table *decoder_frames(struct decoder *decoder);
struct unwinder *decoder_unwinder(struct decoder *decoder);

void merge_decode(struct decoder *decoder, const struct raw_sample *raw, struct decoded *decoded);

/* enum sample_flag of a sample that was decoded. */
uint32_t merge_sample_flags(const struct raw_sample *raw, const struct decoded *decoded);

#endif
