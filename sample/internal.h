/* SPDX-License-Identifier: MIT */
/* What the files of sample/ share: raw samples, threads under watch, merged stacks. */
#ifndef SAMPLE_INTERNAL_H
#define SAMPLE_INTERNAL_H

#include <stdatomic.h>

#include "base/memory_reader.h"
#include "base/table.h"
#include "python/python.h"
#include "sample/hold.h"
#include "sample/options.h"
#include "sample/sample.h"
#include "symbolize/symbolize.h"
#include "target/target.h"
#include "unwind/unwind.h"

/* ---- raw_sample.c: one pause, copied ------------------------------------------------------ */

enum {
	RAW_MAX_READS = 524288,	   /* remembered of one sample, to predict the next: two a frame */
	RAW_MAX_RANGES = 524288,   /* 200,000 heap frames, their records and what hangs on them */
	RAW_LARGE = 512,	   /* bytes from which on a range may hold others */
	RAW_MAX_LARGE = 4096,	   /* data-stack chunks of 200,000 frames */
	RAW_MAX_TSTATES = 64,	   /* sub-interpreters on one OS thread */
	RAW_MAX_STACK = 256 << 20, /* bytes of native stack up to the end of its mapping */
	RAW_MAX_GUESS = 32 << 20,  /* up to an end that may be another stack's */
	RAW_UNKNOWN_STACK = 1 << 20, /* copied of a stack whose end is not known yet */
	RAW_MAX_BYTES = RAW_MAX_STACK + (128 << 20),
};

struct raw_range {
	remote_addr address;
	uint32_t size;
	uint32_t offset; /* in bytes */
};

struct thread_slot;

struct raw_index {
	uint32_t stamp, number;
};

/*
 * All that is needed to tell one thread's stack at one moment, without the process: registers
 * and byte ranges (the native stack is one of them). Also a memory_reader over these ranges;
 * while `live` is set, what is not among them is read from the target and kept.
 */
struct raw_sample {
	struct memory_reader reader; /* first: see raw_sample_read */
	const struct target *live;
	bool frozen; /* though live, nothing is read any more: it has run on */
	bool holed;  /* some of what was predicted is gone */
	pid_t tid;
	uint64_t time_ns; /* CLOCK_MONOTONIC at the stop */
	/* How long the thread was stopped, or was held for the sample before, or until its
	 * interrupt was answered; 0: not known, or none of these. */
	uint64_t pause_ns;
	uint32_t allocations; /* made in the pause: none, but for new code objects */
	struct registers registers;
	bool stopped;		 /* false: read as it was, blocked or (wait.running) not */
	bool shortened;		 /* inner frames changed while they were read and are left out */
	bool unjoined;		 /* of a young thread that Python may know by now: see decode.c */
	uint64_t epoch;		 /* how often the target had executed another program */
	struct target_wait wait; /* of a blocked thread */
	char kernel[TARGET_KERNEL_SIZE]; /* what it waits in, when that is wanted; "": not known */
	remote_addr tstates[RAW_MAX_TSTATES];
	uint32_t tstate_count;
	uint64_t thread_id;  /* pthread_self() that each of them must have; 0: not known */
	pid_t namespace_tid; /* likewise native_thread_id, where there is one; 0: any */
	bool has_native;     /* native was filled in the pause (--unwinder=ptrace) */
	struct unwind_stack native;
	struct thread_slot *slot;	      /* whom to tell what was learned; NULL in replay */
	const struct python_runtime *runtime; /* the one the records were read with; NULL: none */
	struct raw_range *ranges;	      /* the first span_count of them in order of address */
	size_t range_count, range_capacity, span_count, span_hit;
	struct target_range *reads; /* what was asked for, in order */
	size_t read_count, read_capacity;
	size_t late_reads; /* of them, how many nothing had copied before */
	uint8_t *bytes;	   /* reserved, touched as needed */
	size_t byte_count, byte_capacity;
	struct raw_index *index; /* hash of addresses -> number of the range */
	size_t index_size;
	size_t index_mask; /* what is used of it, less one: little while there are few ranges */
	uint32_t stamp;	   /* index entries of another stamp are free */
	uint32_t *large;   /* ranges that reads may lie inside of */
	size_t large_count, large_capacity, large_hit;
	size_t touched;	       /* bytes of our memory that it has in use since raw_sample_trim */
	unsigned small_resets; /* samples in a row that needed far less of it */
	bool compact;	       /* a clone: all in one piece of memory */
};

/*
 * All memory it will ever need is reserved here: taking a sample allocates nothing. Pages once
 * touched stay, as the next sample of a deep stack needs them again, until samples have been
 * small for a while.
 */
struct raw_sample *raw_sample_new(void);
void raw_sample_free(struct raw_sample *raw); /* NULL accepted */
void raw_sample_reset(struct raw_sample *raw);

/* Bytes of our memory that the sample keeps from being used otherwise; and gives them back, with
 * what was copied. */
size_t raw_sample_footprint(const struct raw_sample *raw);
void raw_sample_trim(struct raw_sample *raw);

/*
 * Copies the ranges, which are in order of address and do not overlap, in as few
 * process_vm_readv as can be; those that cannot be read are left out. Once a sample, first. May
 * run in the pause.
 */
void raw_sample_prefetch(struct raw_sample *raw, const struct target *target,
			 const struct target_range *ranges, size_t count);

/* Copies what there is of a range whose end is a guess, up to the first hole. */
void raw_sample_prefetch_some(struct raw_sample *raw, const struct target *target,
			      const struct target_range *range);

/* True when the range is in the copy. */
bool raw_sample_holds(struct raw_sample *raw, remote_addr address, size_t size);

/* The end of the range in the copy that holds the address; 0: none does. */
remote_addr raw_sample_end_of(struct raw_sample *raw, remote_addr address);

/* Adds a range whose bytes the caller fills in (replay, tests). NULL when there is no room. */
uint8_t *raw_sample_add(struct raw_sample *raw, remote_addr address, size_t size);

/* The same for a prefetched range: they come first, in order of address. */
uint8_t *raw_sample_add_span(struct raw_sample *raw, remote_addr address, size_t size);

/*
 * Writes over what was copied of these bytes, wherever it stands, and adds the range when it is not
 * held as a whole. False: there is no room.
 */
bool MUST_CHECK raw_sample_overwrite(struct raw_sample *raw, remote_addr address, const void *bytes,
				     size_t size);

/* Copies every range again; one that cannot be read any more stays as it is. */
void raw_sample_refresh(struct raw_sample *raw, const struct target *target);

/*
 * Copies of one place at several moments (--nonblocking) may lie in several ranges, and where the
 * last read was found decides which is looked at first: decoding is to start alike, live and in
 * replay.
 */
void raw_sample_rewind(struct raw_sample *raw);

/* A copy with just the memory it needs; only to be read and freed. */
struct raw_sample *raw_sample_clone(const struct raw_sample *raw);

/* ---- prediction.c: what the next sample of a thread will need ------------------------------- */

struct recent_read {
	remote_addr address;
	uint32_t size;
	uint32_t age; /* samples since it was needed last */
};

/*
 * One range of a gathered read costs 0.4 us, a KiB more of it 0.08 us (measured): reads that lie
 * near one another are copied as one span.
 */
struct prediction {
	struct recent_read *reads, *merged;
	size_t count, read_capacity, merged_capacity;
	struct target_range *spans;	 /* in order */
	struct target_range *with_stack; /* room for them and the stack */
	size_t span_count, span_capacity, with_stack_capacity;
	unsigned unlearned; /* samples since the last one that was learned from */
	bool doubtful; /* some of it is gone: what the next sample does not need is forgotten */
};

void prediction_release(struct prediction *prediction);

/*
 * Is it worth while to learn from a sample of so many reads, `late` of which were not predicted? To
 * sort a hundred thousand reads takes longer than to copy them, and a deep stack is mostly as it
 * was.
 */
bool prediction_is_due(struct prediction *prediction, size_t reads, size_t late);

/* Learns from a sample's reads (which it sorts). Not in the pause. */
void prediction_learn(struct prediction *prediction, struct target_range *reads, size_t count);

/* The spans and the stack among them in order of address; overlapping ones give way. May run in
 * the pause. *count: how many. */
const struct target_range *prediction_with_stack(struct prediction *prediction,
						 struct target_range stack, size_t *count);

/* ---- threads under watch: slots.c ---------------------------------------------------------- */

struct join;

/* What a thread was last seen to be blocked in; running: at the last look it was not. */
struct noted_wait {
	struct target_wait wait;
	char kernel[TARGET_KERNEL_SIZE];
};

/* Whether copies of a thread by the kernel are worth asking for: see copied.c. */
struct copy_luck {
	unsigned misses; /* that gave nothing, in a row */
	unsigned rest;	 /* samples without one that the last row of them has cost */
	unsigned left;	 /* of these */
};

/*
 * A system call in which a thread was stopped although it was blocked, since to unwind it took
 * registers that a blocked thread does not tell. While it is in the same call with the same stack,
 * they are what they were.
 */
struct stopped_call {
	struct target_wait wait; /* running: none, or it has been in others since */
	struct registers registers;
	size_t size; /* of the stack, from SP on */
	uint64_t hash;
};

/* One thread of the target, from the taker's side. */

enum { YOUNG_SCANS = 50 };

struct thread_slot {
	pid_t tid, namespace_tid;
	bool seized, gone, listed;
	struct target_thread_files *files;
	bool blocked; /* it was, when it had run `blocked_runs` times (schedstat) */
	uint64_t blocked_runs;
	uint64_t blocked_position; /* the same by its switch log, where there is one */
	unsigned still;		   /* looks in a row at which it had not run */
	uint32_t index;		   /* in slots */
	uint64_t looked_tick;	   /* while asleep: the tick at which it was looked at last */
	/*
	 * Ticks at which it was as in its last sample, and the worker has not been told yet; or as
	 * it will be in its next one (`ahead`: there was no room for one, or the last one could not
	 * be decoded), if it has not run by then.
	 */
	uint64_t repeats;
	bool ahead;
	uint64_t told_ns;	/* when it was told last */
	uint64_t skip_until_ns; /* back-off of an uninterruptible thread */
	remote_addr tstates[RAW_MAX_TSTATES];
	uint32_t tstate_count;
	uint64_t thread_id; /* pthread_self(), once joined; 0: not known */
	/* Below YOUNG_SCANS it may be one that Python is about to know. */
	unsigned unjoined_scans; /* looks for such threads since which Python does not know it
				  */
	struct prediction prediction;
	struct target_range copied_stack; /* in the last pause; size 0: its end was not known */
	uint64_t copied_ns;		  /* when that was */
	struct hold hold;
	struct copy_luck luck;
	struct python_recent recent;	   /* --nonblocking */
	struct noted_wait *noted;	   /* --kernel; NULL: not looked at yet */
	struct stopped_call *stopped_call; /* or NULL */
	_Atomic remote_addr stack_end;	   /* told by the worker; 0: not known */
	_Atomic remote_addr learned;	   /* --join=rbx: the thread state the worker found */
	_Atomic bool wants_stop; /* unwinding needed a register: stop it although blocked */
	_Atomic bool last_bad;	 /* its last sample could not be decoded: to be taken again */
	/* the worker's side */
	const char *name;
	bool name_known, seen;
	uint64_t name_tried_ns; /* a name may come later: asked for again now and then */
	uint64_t python_id;
	uint32_t *last_stack; /* pdump: raw frame ids, outermost first */
	size_t last_count, last_capacity;
	uint32_t last_node;  /* precord: where its last sample ended in the call tree ... */
	uint64_t last_leaf;  /* ... with that inside of it; or NO_LEAF */
	bool last_torn;	     /* ... nowhere: it could not be decoded */
	uint32_t root_frame; /* with -t */
	char comm[32];
	char state;
	_Atomic unsigned in_use; /* raw samples on their way that point to it */
};

/*
 * The threads under watch, those that are asleep behind the others. Those that have ended stand
 * aside until no raw sample points to them and all their ticks are told, and are freed then: a
 * program may start thousands a minute.
 */
struct slots {
	struct thread_slot **slots, **gone;
	size_t count, capacity, gone_count, gone_capacity;
	size_t awake_count;		  /* the first of them; the others are asleep */
	struct table by_tid;		  /* -> index in slots */
	uint64_t next_look_ns, looked_ns; /* 0: not yet */
	uint64_t signs_ns;		  /* of the last look whether there may be others */
	size_t thread_count; /* at the last look, less those whose end was told since */
	bool born;	     /* some may have been made since */
	struct target_births births;
};

void slots_init(struct slots *slots);
void slots_release(struct slots *slots);

/*
 * Looks at the process's threads again: new ones get a slot, ended ones are let go. `options` says
 * which are wanted. When the last look took long, as with thousands of threads, and was but now,
 * or when there can be no others than then, this one is left out: the list must not take all the
 * time. slots->looked_ns tells of the last one that was not. Unless nonblocking, slots_end is to
 * be told of the ends; one that it is not told of is found within a second.
 */
bool MUST_CHECK slots_refresh(struct slots *slots, const struct target *target,
			      const struct session_options *options, struct error *error);

/* The slot of a thread that has not ended; NULL: none. */
struct thread_slot *slots_find(const struct slots *slots, pid_t tid);

/* The kernel has told that the thread ended. */
void slots_end(struct slots *slots, pid_t tid);

/* Moves the slot to those that are awake (as new ones are), or asleep; others may change places. */
void slots_wake(struct slots *slots, struct thread_slot *slot);
void slots_lay_down(struct slots *slots, struct thread_slot *slot);

/* None of them is there any more (exec): the next refresh does look. */
void slots_forget(struct slots *slots);

/* GONE when a thread that --thread asks for is not there. */
bool MUST_CHECK slots_check_wanted(const struct slots *slots, const struct target *target,
				   const struct session_options *options, struct error *error);

/* Forgets what was learned of thread states (they are joined anew). */
void slots_join(struct slots *slots, const struct join *join);

/* ---- join.c: which Python thread is this OS thread? ---------------------------------------- */

struct join {
	enum join_method method;
	struct python_thread *threads;
	size_t count;
	/* (number, 0), (number, 1) ... -> indices of threads: an OS thread may have several. */
	struct table by_tid; /* as the method tells it, in the target's namespace */
	struct table by_thread_id, by_tstate;
	uint64_t stamp;	 /* python_threads_stamp when it was read */
	bool tids_known; /* of all threads listed, the kernel's ids */
	bool valid;
};

void join_init(struct join *join, enum join_method method);
void join_release(struct join *join);

/* Reads the thread lists anew. Not in the pause. */
bool MUST_CHECK join_refresh(struct join *join, const struct python_runtime *runtime,
			     const struct target *target, struct error *error);

/* Fills the slot's thread states by what is known without stopping it. */
void join_slot(const struct join *join, struct thread_slot *slot);

/* The thread that has this thread state; NULL: none that is known. */
const struct python_thread *join_by_tstate(const struct join *join, remote_addr tstate);

/* The thread states of a pthread_self() value; returns how many. May run in the pause. */
uint32_t join_by_thread_id(const struct join *join, uint64_t thread_id,
			   remote_addr tstates[RAW_MAX_TSTATES]);

/* The known thread_id among the RBX values of the outermost three frames; 0: none. */
uint64_t join_rbx(const struct join *join, const struct unwind_stack *native);

/* How long to try to read a thread that runs meanwhile. */
struct patience {
	unsigned tries;
	unsigned for_whole; /* of them, how many accept nothing but all of the stack */
	uint64_t ns;
};

/* ---- take.c: the pause ----------------------------------------------------------------------- */

struct taker {
	const struct target *target;
	struct tracer *tracer;
	struct unstopped *unstopped; /* --nonblocking: there is no tracer; NULL: there is */
	struct patience patience;
	struct python_known_codes *known;
	const struct python_runtime *runtime; /* NULL: no Python (yet) */
	const struct session_options *options;
	struct holder holder;
	uint64_t next_ns;	      /* the deadline of the next tick */
	struct copier *copier;	      /* for interrupts; NULL: none */
	uint64_t interrupted, missed; /* samples taken so; tries that gave nothing */
	uint64_t copied;	      /* held ones that the kernel has copied */
	struct join join;
	remote_addr main_stack_end;
	unsigned pass; /* pdump: how often it has looked already */
};

/* What became of a take. */
enum take_result {
	TAKE_OK,
	TAKE_GONE,	      /* the thread ended */
	TAKE_UNINTERRUPTIBLE, /* it did not stop in time */
	TAKE_LATE,	      /* it got no CPU to stop on in time */
	TAKE_TORN,	      /* not stopped, and its stack changed at each look */
	TAKE_MOVED,	      /* it was blocked and woke up while it was copied: stop it instead */
};

/* In an epilogue, a just popped register's place is still named: below SP. */
enum { TAKE_RED_ZONE = 128 };

/*
 * From SP to the end of what can be frames. A thread made by pthread_create has its struct
 * pthread, at which fs_base points, at the top of its own stack; the main thread's end and that
 * of a stack seen before are known; else *sure is false, and what is there is to be read.
 */
size_t take_stack_size(const struct taker *taker, const struct thread_slot *slot,
		       const struct registers *registers, bool *sure);

/* The stack has been copied: who the thread is, and what belongs to its Python stack. */
void take_rest(const struct taker *taker, struct thread_slot *slot, struct raw_sample *raw);

/* A copy is dropped: what it had of code objects that were new (more than so many had been added
 * before it) would never come again. */
void take_forget_codes(const struct taker *taker, uint64_t added_before);

/* Once, before anything is taken: which copies the kernel is to make. Leaves taker->copier NULL
 * where it can make none in interrupts, or they are not wanted. */
void copies_init(struct taker *taker);

/* Takes a thread that runs on another CPU; false: it does not, or something is missing in the copy.
 * raw is the caller's still. */
bool take_interrupted(struct taker *taker, struct thread_slot *slot, struct raw_sample *raw);

/* Of a held thread with these registers: its memory is in the sample if the kernel has copied that
 * as it gave way. Else, false, nothing is. Runs in the pause. */
bool take_copied(struct taker *taker, struct thread_slot *slot, const struct registers *registers,
		 struct raw_sample *raw);

/* A sample has been learned from: what the next one needs is to be copied as the thread gives way.
 */
void take_expect(struct taker *taker, struct thread_slot *slot);

/* What a failed stop means. */
enum take_result take_failure(const struct thread_slot *slot, const struct error *error);

/* Of the look at a thread that its sample follows: with --kernel, what it is blocked in is noted,
 * and belongs to the sample if it has not moved since. */
void take_note_wait(const struct taker *taker, struct thread_slot *slot,
		    const struct target_wait *wait);

/* Stops the thread, copies, resumes it; without a tracer as take_unstopped does. `raw` is reset and
 * filled. */
enum take_result take_running(struct taker *taker, struct thread_slot *slot,
			      struct raw_sample *raw);

/* `raw` is of a stop in that call: from now on its registers are known there. Not in the pause. */
void take_note_call(struct thread_slot *slot, const struct target_wait *wait,
		    struct raw_sample *raw);
bool take_knows_call(const struct thread_slot *slot, const struct target_wait *wait);

/* Copies a blocked thread without stopping it; notes in the slot how often it had run then. */
enum take_result take_blocked(struct taker *taker, struct thread_slot *slot,
			      const struct target_wait *wait, struct raw_sample *raw);

/* Copies a thread that the caller has stopped already (pdump). */
void take_stopped(struct taker *taker, struct thread_slot *slot, struct raw_sample *raw);

/* After the thread runs again: remembers what to copy in one go next time. */
void take_learn(struct thread_slot *slot, struct raw_sample *raw);

/* ---- unstopped.c: a thread that runs while it is read --------------------------------------- */

struct unstopped *unstopped_new(void);
void unstopped_free(struct unstopped *looks); /* NULL accepted */

/*
 * Copies the Python stack of a thread that runs on, its thread states known: `raw` is reset and
 * filled. GONE, or TORN when no part of it stood still.
 */
enum take_result take_unstopped(struct taker *taker, struct thread_slot *slot,
				struct raw_sample *raw);

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
};

/* The frame runs Python code. */
void eval_code_learn(struct eval_code *code, const struct unwind_frame *frame);

/* Enough was learned: what is said of a frame does not change any more. */
bool eval_code_settled(const struct eval_code *code);

/* True when the frame is an activation of the eval function, by its name or by what was learned.
 * False proves nothing: a name may be that of one part of the function only. */
bool eval_code_holds(const struct eval_code *code, const struct python_runtime *runtime,
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
	MERGED_KIND_COUNT
};

struct merged_frame {
	enum merged_kind kind : 8;
	bool hidden : 1;    /* the interpreter's or start-up: --internals shows it */
	bool undecided : 1; /* hidden if no program can name the function */
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
	uint32_t learned;	     /* how often eval_code_learn was told of the native frame */
};

/* Frames innermost first; kept and reused. */
struct merged_stack {
	struct merged_frame *frames;
	size_t count, capacity;
	bool salvaged;	 /* a Python frame without owner was placed by order */
	bool truncated;	 /* the native stack does not reach the thread's start */
	bool broken;	 /* it contradicts the Python stack: not to be believed */
	size_t recalled; /* the outermost frames that were taken from the last merge */
	/* merge.c's own */
	bool plain; /* each part of it follows from what is there and outside: it may be recalled */
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
	/* What it is blocked on, where that has a mark: the GIL's own futex, or an import lock;
	 * MERGED_NATIVE: anything else. */
	enum merged_kind wait;
	bool collecting;	     /* this thread holds the GIL, the collector runs */
	struct eval_code *code;	     /* of the interpreter; learns; NULL: no Python */
	struct merge_recall *recall; /* NULL: nothing is */
};

void merge_stacks(const struct merge_input *input, struct merged_stack *merged);
void merged_stack_release(struct merged_stack *merged);

/* ---- merge_recall.c: what the last merge can tell the next one --------------------------------
 */

/* Nobody calls the eval function through more of its own parts. */
enum { EVAL_PARTS = 8 };

struct merge_recall *merge_recall_new(void);
void merge_recall_free(struct merge_recall *recall); /* NULL accepted */

/* Compares what is to be merged with what was. */
void merge_recall_begin(struct merge_recall *recall, const struct merge_input *input);

/*
 * Adds the frames outside of the last step of `merged`, if the last merge has been there and all
 * that they come from is the same. False: they have to be merged.
 */
bool merge_recall_rest(struct merge_recall *recall, const struct merge_input *input,
		       struct merged_stack *merged);

/* The id of the Python frame at merged->frames[i], if the last merge's has one at the same place;
 * else NO_FRAME_ID. */
uint32_t merge_recall_id(const struct merge_recall *recall, const struct merged_stack *merged,
			 size_t i);

/*
 * Keeps a merge whose frames are numbered, for the next one: the stacks change hands. What is too
 * large is not kept.
 */
void merge_recall_keep(struct merge_recall *recall, const struct merge_input *input,
		       struct unwind_stack *native, struct python_stack *python,
		       struct merged_stack *merged);

/* ---- frame_table.c: raw frames, named later ---------------------------------------------------
 */

enum raw_frame_kind { RAW_NATIVE, RAW_PYTHON, RAW_MARK, RAW_KERNEL };

/* One distinct frame as sampled: a code address of a module, or a line (`exact`: an instruction) of
 * a code object. */
struct raw_frame {
	enum raw_frame_kind kind : 8;
	bool exact : 1, guessed : 1, interpreter : 1, hidden : 1;
	bool undecided : 1;  /* hidden if no program can name the function */
	bool idle : 1;	     /* the leaf of a thread that was blocked */
	int32_t instruction; /* RAW_PYTHON, `exact`: tells frames apart in place of the line */
	union {
		struct {		       /* RAW_NATIVE */
			struct module *module; /* NULL: a PC in no module */
			uint64_t offset;       /* ELF address in the module */
		};
		struct { /* RAW_PYTHON */
			const struct python_code *code;
			struct python_position position; /* beyond the line only where `exact` */
		};
		/* RAW_MARK: "<gc>", "<gil wait>", a thread's root frame; RAW_KERNEL: a function of
		 * the kernel. Shown may change; both are interned. */
		struct {
			const char *mark, *shown;
		};
	};
};

struct frame_table {
	struct raw_frame *frames;
	size_t count, capacity;
	struct id_table ids;
};

void frame_table_release(struct frame_table *table);
uint32_t frame_table_native(struct frame_table *table, const struct raw_frame *frame);
uint32_t frame_table_python(struct frame_table *table, const struct raw_frame *frame);
uint32_t frame_table_mark(struct frame_table *table, const char *mark /* interned */);
uint32_t frame_table_kernel(struct frame_table *table, const char *function /* interned */);

/* ---- leaves.c: stacks that end at a native code address ----------------------------------------
 */

#define NO_LEAF UINT64_MAX /* the key of none */

/* A sequence of them. */
struct leaf_run {
	struct fresh_leaf *fresh; /* in no order, perhaps some more than once */
	size_t fresh_count, fresh_capacity;
	struct leaf_block *blocks; /* the others, in order */
	size_t block_count;	   /* how many those are */
};

/* All zero at first. */
enum { LEAF_RUNS = 32 };
struct leaves {
	struct leaf_run runs[LEAF_RUNS];
};

/* The frame as a key of 60 bits; false: it is none that can be kept so. */
bool leaf_pack(const struct raw_frame *frame, uint64_t *key);

/* Counts a stack: that of the node, and the key's frame inside of it. */
void leaves_add(struct leaves *leaves, uint32_t parent, uint64_t key, uint64_t samples);

/* Brings all of them to the tree whose nodes they belong to; none is left. Modules: those whose
 * frames were packed. */
void leaves_settle(struct leaves *leaves, struct frame_table *frames,
		   const struct module_table *modules, struct profile *tree);
void leaves_release(struct leaves *leaves);

/* Bytes of memory. */
size_t leaves_footprint(const struct leaves *leaves);

/* ---- c_functions.c: what of the interpreter a program can name --------------------------------
 */

struct c_functions;

struct c_functions *c_functions_new(const struct target *target, struct interner *strings);
void c_functions_free(struct c_functions *functions); /* NULL accepted */

/* Whether the function that covers an ELF address of the interpreter's module is shown. The first
 * look reads the module's tables: some milliseconds. */
bool c_functions_hold(struct c_functions *functions, const struct module *module, uint64_t address);

/* Whether a function that is stated so is, and appends the name it is shown by: "math.sqrt". */
bool c_function_is_shown(const struct symbolize_stated *stated);
void c_function_name(const struct symbolize_stated *stated, struct strbuf *name);

/* What symbolize/ is to open. */
struct symbolize_module module_to_symbolize(const struct module *module, int root);

/* ---- stack_switch.c: greenlets that are being switched -----------------------------------------
 */

/* Where a module of greenlet's has the function that copies a stack back; size 0: nowhere. */
struct stack_copier {
	uint32_t module; /* its id */
	uint64_t vaddr, size;
};

/* All zero at first. */
struct stack_switch {
	size_t looked_at; /* modules of the table, by their names */
	bool possible;	  /* one of them may be greenlet's */
	struct stack_copier *copiers;
	size_t count, capacity;
};

/*
 * True in the function that does it, while the outer part of the stack may be another greenlet's.
 * Reads the symbols of each module of greenlet's once, when its code is met; one without any (a
 * stripped one) is never said to do it.
 */
bool stack_switch_under_way(struct stack_switch *known, struct module_table *modules,
			    const struct unwind_stack *native);
void stack_switch_release(struct stack_switch *known);

/* ---- decode.c: raw sample in, merged frame ids out ------------------------------------------- */

/* All that turns raw samples into stacks; belongs to the worker. */
enum { DECODER_RECALLS = 8, DECODER_MERGE_RECALLS = 4 };

struct decoder {
	const struct target *target; /* NULL in replay */
	const struct session_options *options;
	struct interner *strings;
	struct module_table modules;
	struct unwinder *unwinder;
	struct python_runtime **runtimes; /* all ever opened; the last one is current */
	size_t runtime_count, runtime_capacity;
	struct python_code_cache **code_caches; /* one for each runtime */
	struct frame_table frames;
	struct c_functions *c_functions;
	struct unwind_stack native;
	struct python_stack python, part;
	struct merged_stack merged;
	struct python_slice *slices; /* at the room's end */
	size_t slice_capacity;
	uint64_t sliced_walk;		       /* that they are of; 0: of none */
	struct python_activation *activations; /* of several thread states, on their way */
	size_t activation_capacity;
	remote_addr *anchors; /* addresses of entry records */
	size_t anchor_capacity;
	uint32_t *stack; /* the result: frame ids, outermost first */
	size_t stack_count, stack_capacity;
	uint64_t leaf; /* the key of the frame inside of those; NO_LEAF: there is none */
	uint64_t refreshed_ns, useless_ns; /* when the module table was read, and to no avail */
	uint64_t captured_generation;
	struct capture *capture; /* NULL: none */
	struct join join;	 /* thread ids known, to compare evidence */
	struct eval_code code;	 /* of the interpreter opened last */
	struct stack_switch stack_switch;
	const char *marks[MERGED_KIND_COUNT];
	bool distrust_leaf; /* in a second try */
	bool mark_idle;	    /* profiles: a blocked thread's leaf is of kind idle */
	bool packs_leaf;    /* profiles: what can be a key is not in the table of frames */
	bool columns;	    /* dumps: Python frames have their whole position */
	bool decides_later; /* dumps: what a program can name is found out when frames are named */
	/* Live recordings: of a thread each, as long as they are few. */
	bool recalling;
	struct unwind_recall *recalls[DECODER_RECALLS];
	struct merge_recall *merge_recalls[DECODER_MERGE_RECALLS];
};

/* ---- numbering.c: what is shown of a merged stack ----------------------------------------------
 */

/* What a program can name of the interpreter stands in its stack, save outside of the outermost
 * Python frame. */
void decoder_show_c_functions(struct decoder *decoder, const struct python_runtime *runtime,
			      const struct unwind_stack *native);

/* The innermost frame that is shown; NULL: none. */
const struct merged_frame *decoder_leaf(const struct decoder *decoder);

/* Fills in decoder->stack and ->leaf. `recall`: what the merge was made with, or NULL. */
void decoder_number_frames(struct decoder *decoder, const struct unwind_stack *native,
			   const struct raw_sample *raw, const struct merge_recall *recall);

/* ---- known_wait.c ------------------------------------------------------------------------------
 */

/* What the thread is blocked on: the GIL's own futex, an import lock; MERGED_NATIVE: anything else.
 */
enum merged_kind known_wait(const struct raw_sample *raw, const struct python_stack *python,
			    const struct unwind_stack *native);

enum decode_result { DECODE_OK, DECODE_TORN, DECODE_EMPTY };

struct decode_facts {
	bool salvaged, truncated, guessed, contradiction, native_leaf;
	bool known_to_python, holds_gil, gc_running, has_gil;
	bool stale_join;     /* a thread state is not this thread's (any more) */
	bool needs_register; /* unwinding needs a register a blocked thread has not */
	uint64_t thread_id;
	enum unwind_end end;
};

void decoder_init(struct decoder *decoder, const struct target *target,
		  const struct session_options *options, struct interner *strings);
void decoder_release(struct decoder *decoder);

/* Opens the interpreter (again) through `memory`; it becomes the current one. */
bool MUST_CHECK decoder_open_python(struct decoder *decoder, const struct memory_reader *memory,
				    struct error *error);
const struct python_runtime *decoder_runtime(const struct decoder *decoder); /* NULL: none */

/* Where the frames of the main thread's stack end, or else the stack; 0: not known. Reads /proc. */
remote_addr decoder_main_stack_end(const struct decoder *decoder);

/* Decodes into decoder->stack and ->leaf. */
enum decode_result decode_sample(struct decoder *decoder, const struct raw_sample *raw,
				 struct decode_facts *facts);

/* ---- resolve.c: names and lines -------------------------------------------------------------- */

struct resolver;

/* `target` (NULL in replay) opens sources and debug files in the target's root. */
struct resolver *resolver_new(const struct target *target, struct interner *strings,
			      bool internals);
void resolver_free(struct resolver *resolver);

/* From now on debug files are fetched from servers; NULL: nothing changes. */
void resolver_set_fetch(struct resolver *resolver, const struct symbolize_fetch *fetch);

/* Begins to read what the module, the interpreter's, says of its functions: its frames are named
 * last. */
void resolver_read_ahead(struct resolver *resolver, const struct module *module);

/* Names every raw frame of the table, module by module. */
void resolver_run(struct resolver *resolver, struct frame_table *table, struct unwinder *unwinder);

/* One line about debug information that could not be used so far, interned; NULL: there is none. */
const char *resolver_problems(const struct resolver *resolver);

/* Appends the display frames of one stack of raw ids (outermost first), outermost first, inlined
 * levels expanded, hidden ones left out, Cython wrapper and body as one. */
void resolver_stack(struct resolver *resolver, const struct frame_table *table, const uint32_t *ids,
		    size_t count, struct frame **frames, size_t *frame_count,
		    size_t *frame_capacity);

/* Counts every stack of a tree of raw ids as one of display frames. */
void resolver_profile(struct resolver *resolver, const struct frame_table *table,
		      const struct profile *raw, struct profile *profile);

/* ---- capture.c ----------------------------------------------------------------------------------
 */

struct capture;

bool MUST_CHECK capture_open(const char *path, struct capture **capture, struct error *error);
void capture_modules(struct capture *capture, const struct module_table *modules);
/* Code made at run time, as far as it was met since the last call. */
void capture_jit(struct capture *capture, const struct module_table *modules);
/* The memory that opening the interpreter reads, so that replay opens it the same way. */
void capture_runtime(struct capture *capture, const struct raw_sample *memory);
void capture_thread(struct capture *capture, pid_t tid, const char *name);
void capture_sample(struct capture *capture, const struct raw_sample *raw);
void capture_repeat(struct capture *capture, pid_t tid);
bool MUST_CHECK capture_close(struct capture *capture, struct error *error);

/* ---- clock
 * ---------------------------------------------------------------------------------------- */

uint64_t clock_now_ns(void);

#endif
