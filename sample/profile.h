/* SPDX-License-Identifier: MIT */
/*
 * What sampling ends in, ready for output: a call tree of interned frames (precord), or the
 * stacks of all threads at one moment (pdump). Pure data: no process, no run-time address.
 */
#ifndef SAMPLE_PROFILE_H
#define SAMPLE_PROFILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/intern.h"
#include "base/id_table.h"
#include "base/types.h"

enum frame_kind {
	FRAME_PYTHON,	      /* the user's Python code */
	FRAME_PYTHON_LIBRARY, /* standard library and installed packages */
	FRAME_CYTHON,
	FRAME_BUILTIN, /* a C function of the interpreter that a program can name: "sorted" */
	FRAME_NATIVE,
	FRAME_INTERPRETER, /* the interpreter's own code (--internals), <gc>, <gil wait> */
	FRAME_KERNEL,
	FRAME_IDLE,    /* a mark: what an idle thread's leaf is counted under */
	FRAME_GUESSED, /* native, reached without unwind information */
	FRAME_THREAD,  /* a root frame: "thread 14990 "Thread-1 (worker)"" (-t) */
	FRAME_KIND_COUNT
};

/* "python", "python-library", "cython", ... for JSON and classes. */
const char *frame_kind_name(enum frame_kind kind);

/* One displayable frame. All strings are clean UTF-8 and live as long as the profile's strings. */
struct frame {
	enum frame_kind kind;
	const char *name;	  /* "Hopper.go", "dgemm_kernel"; NULL: no name is known */
	const char *file;	  /* full path; NULL: none */
	const char *short_file;	  /* as shown: "implicit/als.py", "train.py"; NULL: none */
	int line;		  /* 0: none */
	int end_line;		  /* 0: neither this nor columns are known */
	int column, end_column;	  /* UTF-8 bytes from 0 on; -1: none */
	const char *module;	  /* "libopenblas.so.0"; NULL for Python frames */
	const char *module_path;  /* full path of it */
	uint64_t offset;	  /* ELF address of the PC in module */
	uint64_t function_offset; /* ELF address of the function's unwind entry; nameless frames
				     show it */
	bool has_function;	  /* false: nothing covers the PC: "library [guessed]" */
	const char *build_id;	  /* hex; NULL: none */
	bool inlined;
	bool guessed;	/* shown with " [guessed]" */
	bool uncertain; /* the name is a guess: shown with "?" */
	bool estimated; /* the line is an estimate: shown as ":~18" */
};

/*
 * The text of a frame as cli.md has it: "fit (als.py:159)", "dgemm_kernel (libopenblas.so.0)",
 * "libfoo.so+0x1a2b0", "lib.so [guessed]". `lines` false (-F): no line number. full: full paths.
 */
struct strbuf;
void frame_text(struct strbuf *out, const struct frame *frame, bool lines, bool full);

/* Appends the name as that begins with it: long template arguments left out. */
void frame_name_text(struct strbuf *out, const struct frame *frame);

/* short_name.c: appends a name, "std::vector<...>::push_back" */
void short_name_add(struct strbuf *out, const char *name);

enum { PROFILE_ROOT = 0, PROFILE_NONE = 0xffffffffu };

/*
 * A node of the call tree. Node 0 is the root and has no frame. Children come after their parent.
 * Small, because a long recording has millions of them.
 */
struct profile_node {
	uint32_t parent;
	uint32_t frame; /* index in frames */
	uint64_t self;	/* samples that ended here */
};

struct profile_counts {
	uint64_t samples;  /* kept */
	uint64_t ticks;	   /* at which the threads were looked at */
	uint64_t late;	   /* not taken: the tick had passed */
	uint64_t torn;	   /* dropped: could not be decoded */
	uint64_t salvaged; /* kept, though some evidence was missing */
	uint64_t guessed;  /* samples with a guessed frame */
	uint64_t gone;	   /* threads that ended in the middle of a sample */
	uint64_t uninterruptible;
	uint64_t contradictions; /* samples whose kinds of evidence for the thread disagree */
	uint64_t truncated;	 /* kept, but the native stack does not reach the outermost frame */
	uint64_t dropped;	 /* not taken: the queue was full */
	uint64_t native_samples; /* samples whose leaf is native or Cython */
	uint64_t threads;
	uint64_t stopped_ns; /* all pauses added up */
	uint64_t elapsed_ns; /* while it was sampled */
};

/* How well a recording kept its pace; all 0 where its length is not known. */
struct profile_pacing {
	double rate;	      /* ticks a second */
	double late_share;    /* of what was to be taken: what came too late */
	double stopped_share; /* of the time: pauses of any thread */
};

struct profile_pacing profile_pacing(const struct profile_counts *counts);

struct profile_step {
	uint32_t frame, node;
};

struct profile {
	struct frame *frames;
	size_t frame_count, frame_capacity;
	struct profile_node *nodes;
	size_t node_count, node_capacity;
	struct id_table children;  /* nodes that are not the one behind their parent */
	struct profile_step *last; /* the stack added last, outermost first */
	size_t last_count, last_capacity;
	struct id_table frame_ids;
	struct profile_counts counts;
	struct interner *strings; /* owned by the caller, outlives the profile */
	/* what was recorded */
	const char *command_line, *python_version, *mode;
	pid_t pid;
	double rate;		    /* Hz asked for */
	uint64_t start_time;	    /* seconds since 1970 */
	const char *debug_problems; /* debug information that could not be used; NULL: none */
	bool native;
};

void profile_init(struct profile *profile, struct interner *strings);
void profile_release(struct profile *profile);

/* The id of an equal frame, or of a new one. Strings of the frame must be interned in strings. */
uint32_t profile_frame(struct profile *profile, const struct frame *frame);

/* Counts one stack, outermost frame first; returns the node that it ends in. 0 samples: makes room
 * for it. A tree that is full counts what does not fit at the last node that does. */
uint32_t profile_add(struct profile *profile, const uint32_t *frames, size_t count,
		     uint64_t samples);

/* Counts the stack that ends in the frame inside of this node; of a full tree, see above. */
void profile_add_to(struct profile *profile, uint32_t node, uint32_t frame, uint64_t samples);

/* Counts the stack that ends in this node once more. */
void profile_add_again(struct profile *profile, uint32_t node, uint64_t samples);

/* The samples that passed through each node or ended in it; to be freed by the caller. */
uint64_t *profile_totals(const struct profile *profile);

/* ---- pdump ---------------------------------------------------------------------------------- */

enum thread_activity { THREAD_ACTIVE, THREAD_IDLE, THREAD_UNINTERRUPTIBLE, THREAD_GONE };

struct dump_thread {
	pid_t tid;
	uint64_t python_id; /* threading ident; 0: unknown to Python */
	const char *name;   /* the threading module's, else the kernel's */
	enum thread_activity activity;
	char state; /* the kernel's letter */
	bool known_to_python, holds_gil, gc_running;
	bool truncated;	      /* the native stack does not reach the thread's start */
	struct frame *frames; /* innermost first */
	size_t frame_count;
	const char *problem; /* why there is no (complete) stack; NULL: all well */
};

struct dump {
	pid_t pid;
	const char *command_line;
	const char *executable;
	const char *python_version;    /* NULL: not Python */
	const char *python_executable; /* module that holds the interpreter */
	const char *python_problem; /* why not: "CPython 3.16 is not supported"; NULL: all well */
	const char *debug_problems; /* debug information that could not be used; NULL: none */
	bool native, has_gil;
	uint64_t time; /* seconds since 1970 */
	struct dump_thread *threads;
	size_t thread_count;
	struct arena arena; /* frames and threads live here */
	struct interner *strings;
};

#endif
