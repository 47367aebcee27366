/* SPDX-License-Identifier: MIT */
/*
 * What sampling ends in, ready for output: a call tree of interned frames (precord), or the
 * stacks of all threads at one moment (pdump). Pure data: no process, no run-time address.
 */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H

#include <regex.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/id_table.h"
#include "base/intern.h"
#include "base/types.h"
#include "profile/timeline.h"

/* Which root frames a recording has. */
enum root_choice {
	ROOTS_NONE, /* the program's own */
	ROOTS_NAME, /* one for all threads of a name */
	ROOTS_EACH, /* one for each thread */
};

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
	FRAME_THREAD,  /* a root frame: "thread 14990 "Thread-1 (worker)"" (-t), or around those,
			  of a process: "process 14976 "python3 train.py"" (-s) */
	FRAME_GAP,     /* a mark: native frames are missing here */
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

/* short_path.c: the end of a path behind site-packages, or behind the standard library's folder.
 * NULL: in neither. */
const char *short_path_installed(const char *path);

/* Of the standard library, an installed package or a frozen module. */
bool short_path_is_library(const char *path);

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

/*
 * All counts of samples, one for each thread that counts at each tick, and when sampling is over
 *     asked = samples + late + torn + gone + uninterruptible + dropped.
 * Where a thread turned out not to count (it held no GIL, it is none of Python's), none was asked.
 */
struct profile_counts {
	uint64_t asked;
	uint64_t samples;  /* kept */
	uint64_t repeats;  /* of these: the thread had not run since the one before */
	uint64_t late;	   /* not taken: the tick had passed */
	uint64_t torn;	   /* dropped: could not be decoded */
	uint64_t salvaged; /* kept, though not whole or without evidence for the order */
	uint64_t guessed;  /* samples with a guessed frame */
	uint64_t gone;	   /* the thread, or the program that it ran, ended meanwhile */
	uint64_t uninterruptible;
	uint64_t contradictions; /* samples whose kinds of evidence for the thread disagree */
	uint64_t truncated;	 /* of those salvaged: with a gap where native frames are missing */
	uint64_t dropped;	 /* not taken: the queue was full */
	uint64_t native_samples; /* samples whose leaf is native or Cython */
	uint64_t threads;
	uint64_t ticks;	     /* at which the threads were looked at */
	uint64_t late_ticks; /* at which they were to be */
	uint64_t stopped_ns; /* all pauses added up */
	uint64_t elapsed_ns; /* while it was sampled */
	/* Of how many samples each look counts as, where that differs (mode "cpu"), the squares
	 * added up: samples / squares of them are evidence of their own; 0: each look is a sample.
	 */
	uint64_t squares;
};

/* Each of them by number, 0 to PROFILE_COUNT_FIELDS - 1, in files of profiles: counts.c. */
enum { PROFILE_COUNT_FIELDS = 19 };
const char *profile_count_name(size_t index);
uint64_t profile_count(const struct profile_counts *counts, size_t index);
void profile_set_count(struct profile_counts *counts, size_t index, uint64_t value);

/* How well a recording kept its pace; all 0 where its length is not known. */
struct profile_pacing {
	double rate;	      /* ticks a second: of those that were wanted, the share that was */
	double late_share;    /* of what was asked: what came too late */
	double stopped_share; /* of the time: pauses of any thread */
};

/* rate: ticks a second that were wanted. */
struct profile_pacing profile_pacing(const struct profile_counts *counts, double rate);

/* What is asked and not accounted for: while it is sampled, what is on its way; later, 0. */
uint64_t profile_pending(const struct profile_counts *counts);

struct profile_step {
	uint32_t frame, node;
};

/* The stack added last, outermost first: the next one mostly begins as it does. */
struct profile_path {
	struct profile_step *steps;
	size_t count, capacity;
};

struct profile {
	struct frame *frames;
	size_t frame_count, frame_capacity;
	struct profile_node *nodes;
	size_t node_count, node_capacity;
	struct id_table children; /* nodes that are not the one behind their parent */
	struct profile_path last;
	struct id_table frame_ids;
	struct profile_counts counts;
	struct interner *strings; /* owned by the caller, outlives the profile */
	/* what was recorded */
	const char *command_line, *python_version;
	const char *mode;	    /* which threads count: "running", "wall", "gil", "cpu" */
	const char *event;	    /* at what samples are taken: "clock"; NULL: not known */
	const char *host, *version; /* where, and by which version of ours; NULL: not known */
	pid_t pid;
	double rate;		    /* Hz asked for; what was kept of it: see profile_pacing */
	uint64_t start_time_ns;	    /* since 1970 */
	const char *debug_problems; /* debug information that could not be used; NULL: none */
	bool native;
	bool timed;		  /* there is a timeline */
	bool times_made;	  /* ... of times that nobody has measured */
	struct timeline timeline; /* all zero if not */
};

void profile_init(struct profile *profile, struct interner *strings);
void profile_release(struct profile *profile);

/* Mode "cpu": a sample is a period (of the rate) of a thread's time on a CPU. */
bool profile_is_of_cpu_time(const struct profile *profile);

/* The id of an equal frame, or of a new one. Strings of the frame must be interned in strings. */
uint32_t profile_frame(struct profile *profile, const struct frame *frame);

/* From now on it has a timeline: see profile.rate, which must be set. */
void profile_time(struct profile *profile);

/* Counts one stack, outermost frame first; returns the node that it ends in. 0 samples: makes room
 * for it. A tree that is full counts what does not fit at the last node that does. */
uint32_t profile_add(struct profile *profile, const uint32_t *frames, size_t count,
		     uint64_t samples);

/* Counts the stack that ends in the frame inside of this node, and returns where that is; of a full
 * tree, see above. */
uint32_t profile_add_to(struct profile *profile, uint32_t node, uint32_t frame, uint64_t samples);

/* Counts the stack that ends in this node once more. */
void profile_add_again(struct profile *profile, uint32_t node, uint64_t samples);

/* The samples that passed through each node or ended in it; to be freed by the caller. */
uint64_t *profile_totals(const struct profile *profile);

/* ---- profiles made of others; they share their strings -----------------------------------------
 */

/* merge.c: whether their shares mean the same; UNSUPPORTED with what does not: mode, event, rate,
 * native frames. What one of them does not know is no reason. */
bool MUST_CHECK profile_compare(const struct profile *one, const struct profile *other,
				struct error *error);

/* All stacks of several that can be compared, in a new profile: times since the first one began. */
bool MUST_CHECK profile_merge(struct profile *profile, const struct profile *from, size_t count,
			      struct error *error);

/* filter.c: which stacks count and which frames of them are shown; each a regular expression that a
 * frame's text has to match, with its short or its full file name; NULL: none. */
struct profile_filter {
	const regex_t *focus;	/* only stacks with such a frame */
	const regex_t *ignore;	/* no stacks with such a frame */
	const regex_t *include; /* only such frames */
	const regex_t *exclude; /* no such frames */
};

/* Stacks that do not count were never asked for; those that have lost all frames count. */
void profile_filter(struct profile *profile, const struct profile_filter *filter);

/* paths.c: what is in the folder `from` is in `to`. */
void profile_move_sources(struct profile *profile, const char *from, const char *to);

/* roots.c: a frame for each thread, or for all of a name, around its stacks. Those without a thread
 * stay as they are. */
void profile_root(struct profile *profile, enum root_choice choice);

/* Times for one that has none: its stacks one after the other, as if of one thread. */
void profile_make_times(struct profile *profile);

/* ---- pdump ---------------------------------------------------------------------------------- */

enum thread_activity { THREAD_ACTIVE, THREAD_IDLE, THREAD_UNINTERRUPTIBLE, THREAD_GONE };

/* What a core file's process ended by, as sigaction(2) has it in siginfo_t. */
struct dump_signal {
	int number, code;
	uint64_t address; /* of a fault: where; see output */
	pid_t sender;	  /* of a signal that was sent */
};

struct dump_thread {
	pid_t tid;
	uint64_t python_id; /* threading ident; 0: unknown to Python */
	const char *name;   /* the threading module's, else the kernel's */
	enum thread_activity activity;
	char state; /* the kernel's letter */
	bool known_to_python, holds_gil, gc_running;
	bool truncated;	      /* it has a gap: the native frames are not all there */
	struct frame *frames; /* innermost first */
	size_t frame_count;
	const char *problem;		 /* why there is no (complete) stack; NULL: all well */
	const struct dump_signal *crash; /* NULL: it is not the one that crashed */
};

struct dump {
	pid_t pid;
	const char *command_line;
	const char *executable;
	const char *python_version;    /* NULL: not Python */
	const char *python_executable; /* module that holds the interpreter */
	const char *python_problem; /* why not: "CPython 3.16 is not supported"; NULL: all well */
	bool no_python;		    /* python_problem is that there is none */
	const char *debug_problems; /* debug information that could not be used; NULL: none */
	const char *const *core_problems; /* files that a core file needs and that are not here */
	size_t core_problem_count;
	bool native, has_gil;
	uint64_t time;	  /* seconds since 1970 */
	const char *host; /* the machine's name; NULL: not known */
	bool has_rank;	  /* it is one of the processes of a job ... */
	uint32_t rank;	  /* ... and which */
	struct dump_thread *threads;
	size_t thread_count;
	struct arena arena; /* frames and threads live here */
	struct interner *strings;
};

#endif
