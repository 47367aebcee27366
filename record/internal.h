/* SPDX-License-Identifier: MIT */
/* What the files of record/ share: threads under watch. */
#ifndef RECORD_INTERNAL_H
#define RECORD_INTERNAL_H

#include <stdatomic.h>

#include "base/clock.h"
#include "base/table.h"
#include "capture/capture.h"
#include "copy/copy.h"
#include "frames/frames.h"
#include "merge/merge.h"
#include "python/python.h"
#include "record/record.h"
#include "modules/module.h"
#include "unwind/unwind.h"

/* ---- threads under watch -------------------------------------------------------------------- */

enum last_sample { LAST_LEFT_OUT, LAST_KEPT, LAST_TORN, LAST_GONE };

/* What the worker has counted of one thread; the worker's alone. */
struct thread_tally {
	const char *name;	/* in Python; NULL: not known */
	const char *shown_name; /* of its root frame: that, or the kernel's */
	bool seen;
	enum last_sample last; /* what became of its last sample ... */
	uint32_t last_node;    /* ... where that ended in the call tree ... */
	uint64_t last_leaf;    /* ... with that inside of it; or NO_LEAF */
	bool last_native;      /* ... in native code */
	uint32_t root_frame;   /* with -t */
	size_t root;	       /* its number among them */
	uint32_t timeline;     /* its number in the timeline; TIMELINE_NONE at first */
	uint64_t owed_ns;      /* CPU time that no sample has counted yet; see record/cpu_time.h */
};

/*
 * One thread of the target. The taker's, but for the tally; `in_use`, which both count, keeps it
 * alive while an entry of the queue points to it, and copy.advice goes back (copy/copy.h).
 */
struct watched_thread {
	struct process *process; /* whose it is */
	struct copy_state copy;
	bool seized, gone, listed;
	unsigned still;	      /* looks in a row at which it had not run */
	bool asked;	      /* at its last look: a sample of it was wanted */
	uint32_t index;	      /* in slots */
	uint64_t looked_tick; /* while asleep: the tick at which it was looked at last */
	/* What its samples came to: NEVER_STOPPED where all it ever was is uninterruptible. */
	enum { UNTRIED, NEVER_STOPPED, SAMPLED } tried;
	/*
	 * Unreported ticks with an unchanged stack; or with the stack that its next sample will
	 * have (`ahead`: there was no room for one, or the last one could not be decoded), if it
	 * has not run by then.
	 */
	uint64_t repeats;
	uint64_t repeats_ns; /* of the last of them that is behind its last sample */
	bool deferred;
	uint64_t reported_ns;	/* when they were reported last */
	uint64_t skip_until_ns; /* back-off of an uninterruptible thread */
	uint64_t cpu_ns;	/* that it had used when that was asked last ... */
	uint64_t cpu_left_ns;	/* ... and at the end, since its last sample */
	char comm[32];
	char state; /* the kernel's letter */
	_Atomic unsigned in_use;
	struct thread_tally tally;
};

/* ---- watched_threads.c ---------------------------------------------------------------------- */

/*
 * The threads under watch, those that are asleep behind the others. Those that have ended stand
 * aside until no raw sample points to them and all their ticks are reported, and are freed then: a
 * program may start thousands a minute.
 */
struct watched_threads {
	struct process *process; /* whose they are */
	struct watched_thread **threads, **gone;
	size_t count, capacity, gone_count, gone_capacity;
	size_t awake_count;		  /* the first of them; the others are asleep */
	struct table by_tid;		  /* -> index in slots */
	uint64_t next_look_ns, looked_ns; /* 0: not yet */
	uint64_t signs_ns;		  /* of the last look whether there may be others */
	size_t thread_count; /* at the last look, less those whose end was reported since */
	bool born;	     /* some may have been made since */
	struct target_births births;
};

struct process;
void threads_init(struct watched_threads *threads, struct process *process);
void threads_release(struct watched_threads *threads);

/*
 * Looks at the process's threads again: new ones are put under watch, ended ones are let go.
 * `options` says which are wanted. When the last look took long, as with thousands of threads, and
 * was but now, or when there can be no others than then, this one is left out: the list must not
 * take all the time. threads->looked_ns is that of the last one that was not. Unless nonblocking,
 * threads_end is called for each end; one without a call is found within a second.
 */
bool MUST_CHECK threads_refresh(struct watched_threads *threads, const struct target *target,
				const struct session_options *options, struct error *error);

/* The thread of that number, unless it has ended; NULL: none. */
struct watched_thread *threads_find(const struct watched_threads *threads, pid_t tid);

/* The kernel has reported that the thread ended. */
void threads_end(struct watched_threads *threads, pid_t tid);

/* Moves it to those that are awake (as new ones are), or asleep; others may change places. */
void threads_mark_awake(struct watched_threads *threads, struct watched_thread *watched);
void threads_mark_asleep(struct watched_threads *threads, struct watched_thread *watched);

/* None of them is there any more (exec): the next refresh does look. */
void threads_forget(struct watched_threads *threads);

/* The process has ended, and they with it. True: nobody has anything to do with any of them any
 * more. To be called again until then, with what they have to report out of the way. */
bool threads_end_all(struct watched_threads *threads);

/* GONE when a thread that --thread asks for is not there. */
bool MUST_CHECK threads_check_wanted(const struct watched_threads *threads,
				     const struct target *target,
				     const struct session_options *options, struct error *error);

/* Keeps what decoding a sample of the thread has shown for its next one. */
void watched_thread_learn(struct watched_thread *watched, enum join_method method,
			  const struct decoded *decoded);

/* Forgets what was learned of thread states (they are joined anew). */
void threads_join(struct watched_threads *threads, const struct join *join);

#endif
