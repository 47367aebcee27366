/* SPDX-License-Identifier: MIT */
/* Raw samples of the target's threads, by all the ways there are to make one. */
#ifndef COPY_COPY_H
#define COPY_COPY_H

#include <stdatomic.h>

#include "base/table.h"
#include "copy/cpu_hold.h"
#include "copy/join.h"
#include "copy/options.h"
#include "copy/raw_sample.h"
#include "python/probe.h"
#include "python/python.h"
#include "target/switch_log.h"
#include "target/target.h"
#include "unwind/unwind.h"

/* ---- state.c: one thread, as it is copied -----------------------------------------------------
 */

/*
 * What the worker has found out of a thread for the taker. The worker alone writes, the taker
 * reads, and clears what is marked so; each field stands for itself, and an old value costs a
 * sample at most.
 */
struct thread_advice {
	_Atomic remote_addr stack_end; /* where its stack ends, written once; 0: not known */
	_Atomic remote_addr learned;   /* --join=rbx: its thread_id */
	_Atomic bool wants_stop; /* --stop=ptrace: unwinding needed a register it does not report */
	/* Its last sample could not be decoded, or not whole: to be taken again. The taker clears
	 * it with each sample that it sends. */
	_Atomic bool last_bad;
	/* Code that puts another stack in the place of the thread's (greenlet): while it runs
	 * there is none to be copied. The same twice: no code. */
	struct {
		_Atomic remote_addr begin, end;
	} switches[COPY_SWITCHES];
};

/* Below that many looks for threads a new one may be one that Python is about to know. */
enum { YOUNG_SCANS = 50 };

/* By what it is seen that a thread has not run: its switch log's position, or how often it has. */
struct stillness {
	enum { STILL_UNKNOWN, STILL_BY_LOG, STILL_BY_RUNS } by;
	uint64_t value;
};

/* What the ways to copy know of a thread from its last samples: theirs alone. */
struct copy_past;

/* One thread of the target as it is copied: the taker's, but for the advice. */
struct copy_state {
	pid_t tid, namespace_tid;
	struct target_thread_files *files;
	/* Who it is in Python. */
	remote_addr tstates[RAW_MAX_TSTATES];
	uint32_t tstate_count;
	uint64_t thread_id;	 /* pthread_self(), once joined; 0: not known */
	unsigned unjoined_scans; /* looks for threads since which Python does not know it */
	/* It was blocked when it had run `blocked_runs` times (schedstat), and its switch log, if
	 * it has one, was there. */
	bool blocked;
	uint64_t blocked_runs, blocked_position;
	struct stillness sampled;	       /* since its last sample, if that is known */
	uint64_t asked_to_stop_ns, stopped_ns; /* the last time, by ptrace; 0: never */
	bool named;			       /* the worker has heard its name, or will */
	uint64_t nameless_ns, name_due_ns;     /* between two looks for a name; of the next */
	struct thread_advice advice;
	struct copy_past *past;
};

/* `files` are taken over. */
void copy_state_init(struct copy_state *state, pid_t tid, pid_t namespace_tid,
		     struct target_thread_files *files);
void copy_state_release(struct copy_state *state);

/* The thread has ended, or is not copied any more: closes what is open for it. */
void copy_state_end(struct copy_state *state);

/* Does the log of its switches say when it runs? A look at such a thread costs nothing. */
bool copy_state_is_followed(const struct copy_state *state);

/* It has not run since it was seen to be blocked: so it still is, in the same place. */
bool copy_state_sleeps_on(const struct copy_state *state);

/* It was blocked just now: if it still is after its runs were counted, it was all the while. */
void copy_state_note_blocked(struct copy_state *state);

/* It has not run since its last sample: blocked, or it waits for a CPU. */
bool copy_state_is_as_sampled(const struct copy_state *state);

/* The position of its switch log; 0: it has none. */
uint64_t copy_state_position(const struct copy_state *state);

/* Its switches after that position, as switch_log_since() has them. It is followed. */
size_t copy_state_switches(const struct copy_state *state, uint64_t position,
			   struct thread_change *changes, size_t capacity, bool *all);

/* ---- take.c, methods.c: the pause
 * ----------------------------------------------------------------------- */

/* Which copies are wanted. */
struct copy_options {
	enum stop_choice stop;
	double rate; /* Hz */
	bool kernel; /* what a blocked thread waits in */
	bool names;  /* of threads, as Python has them */
};

/* How long to try to read a thread that runs meanwhile. */
struct patience {
	unsigned tries;
	unsigned for_whole; /* of them, how many accept nothing but all of the stack */
	uint64_t ns;
};

/* Of a thread that is about to be sampled. */
struct early_name {
	uint64_t thread_id; /* whose it is; 0: nobody's */
	char text[PYTHON_NAME_SIZE];
};

/* What there is once, however many processes are sampled: the taker's. */
struct copy_means {
	struct tracer *tracer; /* NULL: nothing is traced */
	struct cpu_holder holder;
	struct promptness promptness;
	uint64_t next_ns;	      /* the deadline of the next tick */
	struct copier *copier;	      /* for interrupts; NULL: none */
	uint64_t interrupted, missed; /* samples taken so; tries that gave nothing */
	uint64_t stopped;	      /* samples for which a running thread was stopped */
	uint64_t copied;	      /* held ones that the kernel has copied */
};

/* ... and for each process. */
struct taker {
	struct copy_means *means;
	const struct target *target;
	struct unstopped *unstopped; /* --nonblocking: there is no tracer; NULL: there is */
	struct patience patience;
	struct unwinder *unwinder; /* --unwinder=ptrace: of stopped threads; NULL: none */
	struct python_known_codes *known;
	const struct python_runtime *runtime; /* NULL: no Python (yet) */
	struct copy_options options;
	struct join join;
	remote_addr main_stack_end;
	struct early_name early;
	unsigned pass; /* pdump: how often it has looked already */
};

/* What became of a copy. */
enum copy_result {
	COPY_OK,
	COPY_NEXT,	      /* not in this way: try the next */
	COPY_GONE,	      /* the thread ended */
	COPY_FAILED,	      /* we lack what a look at it takes */
	COPY_UNINTERRUPTIBLE, /* it did not stop in time */
	COPY_LATE,	      /* it got no CPU to stop on in time */
	COPY_TORN,	      /* not stopped, and its stack changed at each look */
	COPY_MOVED,	      /* it was blocked, and woke up each time while it was copied */
};

/* Once, before anything is taken: which copies the kernel is to make. Leaves means->copier NULL
 * where it can make none in interrupts, or they are not wanted. */
void copies_init(struct copy_means *means, const struct copy_options *options);

/* What a failed stop means. */
enum copy_result take_failure(const struct copy_state *state, const struct error *error);

/* Of the look at a thread that its sample follows: with --kernel, what it is blocked in is noted,
 * and belongs to the sample if it has not moved since. */
void take_note_wait(const struct taker *taker, struct copy_state *state,
		    const struct target_wait *wait);

/* Copies a thread that runs, by the first way that does. `raw` is reset and filled. Where its stack
 * was being replaced, it is copied again shortly after. */
enum copy_result copy_running(struct taker *taker, struct copy_state *state,
			      struct raw_sample *raw);

/* It is as in its last sample, and not copied for that reason. */
void copy_leave(struct taker *taker, struct copy_state *state);

/* It waited for a CPU when the tick was due: likewise. */
bool copy_waited(const struct taker *taker, const struct copy_state *state);

/* It runs by now: what is known without a look at it. */
bool copy_runs(const struct taker *taker, struct copy_state *state);

/* `raw` is of a stop in that call: from now on its registers are known there. Not in the pause. */
void take_note_call(struct copy_state *state, const struct target_wait *wait,
		    struct raw_sample *raw);
bool take_knows_call(const struct copy_state *state, const struct target_wait *wait);

/*
 * Copies a blocked thread without stopping it; notes in the state how often it had run then. *wait
 * becomes what it was copied in, or, with COPY_MOVED, what it does now.
 */
enum copy_result take_blocked(struct taker *taker, struct copy_state *state,
			      struct target_wait *wait, struct raw_sample *raw);

/* Copies a thread that the caller has stopped already (pdump). */
void take_stopped(struct taker *taker, struct copy_state *state, struct raw_sample *raw);

/* After the thread runs again: remembers what to copy in one go next time. */
void copy_learn(struct taker *taker, struct copy_state *state, struct raw_sample *raw);

/* ---- thread_name.c ----------------------------------------------------------------------------
 */

/* The thread of this state, as the threading module names it. */
bool thread_name(const struct target *target, const struct python_runtime *runtime,
		 const struct python_thread *thread, pid_t tid, char name[PYTHON_NAME_SIZE]);

/* Reads the name of a thread that is about to be sampled, if that is wanted and not known yet. */
void take_name_early(struct taker *taker, const struct copy_state *state, uint64_t now);

/* The thread has been sampled, and runs on: its name goes into the sample, if that is wanted. */
void take_name(struct taker *taker, struct copy_state *state, struct raw_sample *raw);

/* ---- unstopped.c: a thread that runs while it is read --------------------------------------- */

struct unstopped *unstopped_new(void);
void unstopped_free(struct unstopped *looks); /* NULL accepted */

#endif
