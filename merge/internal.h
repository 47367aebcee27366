/* SPDX-License-Identifier: MIT */
/* What the files of merge/ share. */
#ifndef MERGE_INTERNAL_H
#define MERGE_INTERNAL_H

#include "merge/merge.h"

/* ---- eval_code.c ------------------------------------------------------------------------------
 */

enum { LEARNED_CODE = 16 };

/* A function (or the part of one that has unwind information of its own), and how many of its
 * frames were seen to run Python code. */
struct learned_code {
	remote_addr function;
	uint32_t count;
};

/* Of one interpreter; zeroed at first. */
struct eval_code {
	struct learned_code learned[LEARNED_CODE];
	size_t count;
	uint32_t most;
	/* Whether the interpreter has a JIT: asked of its file when that first matters. */
	enum { JIT_UNKNOWN, JIT_ABSENT, JIT_PRESENT } jit;
};

/* The frame runs Python code. */
void eval_code_learn(struct eval_code *code, const struct unwind_frame *frame);

/* Enough was learned: what is said of a frame does not change any more. */
bool eval_code_settled(const struct eval_code *code);

/* True when the frame is an activation of the eval function, by its name or by what was learned.
 * False proves nothing: a name may be that of one part of the function only. */
bool eval_code_contains(const struct eval_code *code, const struct python_runtime *runtime,
			const struct unwind_frame *frame);

/* ---- merge.c: one true stack ------------------------------------------------------------------
 */

enum merged_kind {
	MERGED_NATIVE,
	MERGED_PYTHON,
	/* marks */
	MERGED_GC,
	MERGED_GIL_WAIT,
	MERGED_IMPORT_WAIT,
	MERGED_GAP,    /* native frames are missing here */
	MERGED_SIGNAL, /* what the kernel calls a signal handler through */
	MERGED_KIND_COUNT
};

/* What a thread waits for, where that has a mark. */
enum wait_kind { WAIT_NONE, WAIT_GIL, WAIT_IMPORT_LOCK };

struct merged_frame {
	enum merged_kind kind : 8;
	bool hidden : 1;    /* the interpreter's or start-up: --internals shows it */
	bool undecided : 1; /* hidden if no program can name the function */
	bool host : 1;	    /* of the program that the interpreter is linked into */
	uint32_t id; /* once it is numbered, what is shown; NO_FRAME_ID: not to be used again */
	const struct python_code *code;
	union {
		uint32_t native; /* MERGED_NATIVE: index of the native frame */
		int32_t line;	 /* MERGED_PYTHON, like the next */
	};
	int32_t instruction;
};
enum { NO_FRAME_ID = 0xffffffffu };

/* How far a merge had come when Python frames had taken a native frame's place. */
struct merge_step {
	uint32_t native, activation; /* the next ones */
	uint32_t count;		     /* of merged frames */
	uint32_t learned;	     /* how often eval_code_learn has seen the native frame */
};

/* Frames innermost first; kept and reused. */
struct merged_stack {
	struct merged_frame *frames;
	size_t count, capacity;
	bool salvaged;	/* a Python frame without owner was placed by order, or it has a gap */
	bool truncated; /* it has a gap: the native frames are not all there */
	bool unreached; /* ... and Python frames outside of it, which they do not reach */
	bool broken;	/* the two contradict one another: not to be believed */
	size_t reused;	/* the outermost frames that were taken from the last merge */
	/* merge.c's own */
	bool plain; /* each part of it follows from what is there and outside: it may be cached */
	remote_addr end;	  /* of the native stack */
	struct merge_step *steps; /* innermost first */
	size_t step_count, step_capacity;
	uint32_t *skip; /* of each activation: the next one that a native frame may own */
	size_t skip_capacity;
	remote_addr *lowest; /* of each native frame: the lowest SP of it and those outside */
	size_t lowest_capacity;
	size_t looks; /* at activations: as many as there are frames, times a small number */
};

struct merge_input {
	const struct unwind_stack *native;    /* NULL: Python frames only */
	const struct python_stack *python;    /* NULL: a thread unknown to Python */
	const struct python_runtime *runtime; /* NULL: no Python */
	struct module_table *modules;
	/* What the thread is blocked on, or at work at: to get or give up the GIL; an import lock.
	 */
	enum wait_kind wait;
	bool collecting;	   /* in its interpreter a collection is under way */
	struct eval_code *code;	   /* of the interpreter; learns; NULL: no Python */
	struct merge_cache *cache; /* NULL: nothing is */
};

void merge_stacks(const struct merge_input *input, struct merged_stack *merged);
void merged_stack_release(struct merged_stack *merged);

/* ---- start_up.c: how a thread came to where its program begins --------------------------------
 */

/* Hides it at the outermost end of a stack that is merged otherwise. */
void start_up_hide(const struct merge_input *input, struct merged_stack *merged);

/* By its name: glibc's or musl's libraries. NULL: no. */
bool start_up_is_c_library(const struct module *module);

/* ---- merge_cache.c: what the next merge takes from the last one --------------------------------
 */

/* Nobody calls the eval function through more of its own parts. */
enum { EVAL_PARTS = 8 };

struct merge_cache *merge_cache_new(void);
void merge_cache_free(struct merge_cache *cache); /* NULL accepted */

/* Compares what is to be merged with what was. */
void merge_cache_begin(struct merge_cache *cache, const struct merge_input *input);

/*
 * Adds the frames outside of the last step of `merged`, if the last merge has been there and all
 * that they come from is the same. False: they have to be merged.
 */
bool merge_cache_rest(struct merge_cache *cache, const struct merge_input *input,
		      struct merged_stack *merged);

/* The id of the Python frame at merged->frames[i], if the last merge's has one at the same place;
 * else NO_FRAME_ID. */
uint32_t merge_cache_id(const struct merge_cache *cache, const struct merged_stack *merged,
			size_t i);

/*
 * Keeps a merge whose frames are numbered, for the next one: the stacks change hands. What is too
 * large is not kept.
 */
void merge_cache_keep(struct merge_cache *cache, const struct merge_input *input,
		      struct unwind_stack *native, struct python_stack *python,
		      struct merged_stack *merged);

/* ---- stack_switch.c: greenlets that are being switched -----------------------------------------
 */

/* Where a module of greenlet's has the function that copies a stack back, and two more that switch;
 * ELF addresses, size 0: nowhere. */
struct stack_copier {
	uint32_t module; /* its id */
	struct target_range code[COPY_SWITCHES];
};

/* All zero at first. */
struct stack_switch {
	uint64_t placements; /* of the table whose modules were looked at, by their names */
	bool possible;	     /* one of them may be greenlet's */
	struct stack_copier *copiers;
	size_t count, capacity;
	struct target_range code[COPY_SWITCHES]; /* of one module, where it is loaded */
	remote_addr *roots; /* where the functions start that greenlets' stacks begin in */
	size_t root_count, root_capacity;
};

/* Looks for greenlet's among the modules that are new, and reads the symbols of each once; true:
 * there are other roots than before. */
bool stack_switch_follow(struct stack_switch *known, const struct module_table *modules);

/*
 * True in the function that does it, while the outer part of the stack may be another greenlet's.
 * A module of greenlet's without symbols (a stripped one) is never said to do it.
 */
bool stack_switch_under_way(struct stack_switch *known, struct module_table *modules,
			    const struct unwind_stack *native);

/*
 * True near such a function, or anywhere in greenlet's own code at the innermost end: where the
 * native stack leads nowhere from there, it was being replaced.
 */
bool stack_switch_is_near(struct stack_switch *known, struct module_table *modules,
			  const struct unwind_stack *native);
/* By its name: greenlet's extension module. */
bool stack_switch_is_greenlet(const struct module *module);
void stack_switch_release(struct stack_switch *known);

/* ---- known_wait.c ------------------------------------------------------------------------------
 */

/* What the thread is blocked on: the GIL's own futex, an import lock. */
enum wait_kind known_wait(const struct raw_sample *raw, const struct python_stack *python,
			  const struct unwind_stack *native, struct module_table *modules);

#endif
