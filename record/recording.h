/* SPDX-License-Identifier: MIT */
/* One recording under way: what its two threads, the taker and the worker, share. */
#ifndef RECORD_RECORDING_H
#define RECORD_RECORDING_H

#include <pthread.h>

#include "record/internal.h"
#include "record/missed.h"
#include "profile/pauses.h"
#include "record/process_set.h"
#include "record/queue.h"
#include "record/schedule.h"
#include "base/guard.h"

/* How samples were taken; the taker counts. */
struct taken_counts {
	_Atomic uint64_t asked, late, gone, torn, uninterruptible, dropped;
	_Atomic uint64_t ticks, late_ticks;
	_Atomic uint64_t never_stopped; /* threads of which no sample could be had for that */
};

/* Where the taker is, for the worker. */
struct taker_place {
	_Atomic pid_t tid;
	_Atomic int cpu;      /* -1: not known yet */
	_Atomic bool follows; /* ... it is there for a thread that runs there */
};

/*
 * A child may live for a tenth of a second, and is not sampled before its interpreter is known: for
 * that the worker does not wait for a CPU until it has had one look at all. The taker sets `on`,
 * the worker clears it, and says until when it is not to be set again: so that it is a part of the
 * time.
 */
struct worker_hurry {
	_Atomic pid_t tid; /* the worker */
	_Atomic bool on;
	_Atomic uint64_t rest_until_ns;
	uint64_t cpu_ns; /* the worker's own: what it had used when that was set, if it has seen it
			  */
};

/* Starting: the taker reports whether it could trace. */
struct start_answer {
	pthread_mutex_t lock;
	pthread_cond_t answered;
	bool done, failed;
	pid_t process; /* which one it could not */
	struct error error;
};

/* What is counted of all processes: the worker's, and whoever's who asks for a profile, under
 * `lock`.
 */
struct counted {
	struct profile_counts counts;
	uint64_t processes; /* of which some sample was kept */
	uint64_t left_out;  /* of what was asked: of threads that do not count */
	struct pauses pauses;
};

struct recording_span {
	uint64_t start_ns, end_ns;
	uint64_t start_time_ns; /* since 1970 */
};

/* How it ended; `error`, why sampling failed, is set before `failed`. */
struct recording_end {
	_Atomic bool ended, has_wait_status, failed, out_of_memory;
	_Atomic int wait_status;
	struct error error;
};

/* What waits to be released, and whose wait status is asked for; pid 0: there is none. */
struct recorded_command {
	pid_t pid;
	int release_fd;
};

/* The first one looks after the taker. */
struct recorder_threads {
	pthread_t taker, worker;
	bool taker_started, worker_started;
};

/* The process that takes, and what is to be done when it had to be killed. */
struct taker_keeping {
	struct guard guard;
	struct queue_entry taking; /* is copied; raw NULL: none is */
	_Atomic bool distrust;	   /* a page has not come: see target_distrust_memory */
	unsigned stuck, late;	   /* how often; and how often one has come later */
};

/* A recording: processes that the taker samples, and what the worker makes of it. */
struct recorder {
	struct process_set processes;
	const struct session_options options;
	struct decode_options decoding;
	struct interner *strings;
	struct recorder_threads threads;
	struct taker_keeping keeping;
	_Atomic bool stop; /* the taker is to end */
	int event_fd;
	pid_t front_pid; /* the process that the user has started */
	struct recorded_command command;
	struct start_answer start;
	/* The taker's. */
	struct copy_means means;
	struct schedule schedule;
	struct missed_ticks missed; /* since the last tick: that had passed when the taker woke */
	uint64_t counted_ticks; /* as the looks at those asleep count them: the missed ones, too */
	uint64_t rest_until_ns; /* ticks before that are left out: others have the CPU */
	struct queue queue;
	struct taken_counts taken;
	struct taker_place place;
	struct worker_hurry hurry;
	pthread_mutex_t lock;
	struct counted counted;
	struct recording_span span;
	struct recording_end ending;
};

void *recorder_take(void *recorder); /* taker_keeping.c: the thread that looks after the taker */
void *recorder_work(void *recorder); /* worker.c: the worker thread */

/*
 * sampler.c, in the taker. A tick: looks at the threads and takes those that count. Now and
 * then: reports those that have ended to the worker. At the end: counts what those that were still
 * asleep did since their last looks.
 */
void sampler_tick(struct recorder *recorder, uint64_t now_ns);
/* Ticks have passed, from that time on: the next sweep sees what is known of the threads then. */
void sampler_miss(struct recorder *recorder, uint64_t first_ns, uint64_t ticks);
void sampler_flush_ended(struct recorder *recorder, struct process *process);
void sampler_finish(struct recorder *recorder);
/* The taker was killed: what it was about to copy is lost. From the thread that looks after it. */
void sampler_drop(struct recorder *recorder);

/* How much of each tick the looks at sleeping threads take. */
uint64_t sampler_looks_ns(const struct recorder *recorder);

/* --mode=cpu, when both threads have ended: what the target's threads have used since their last
 * samples counts as these do. */
void worker_settle_cpu_time(struct recorder *recorder);
/* Makes what the worker needs of a process, once. */
void worker_prepare(struct recorder *recorder, struct process *process);

/* Reads the modules and opens the interpreter; the worker, under the lock. */
bool MUST_CHECK worker_open(struct recorder *recorder, struct process *process,
			    struct error *error);

#endif
