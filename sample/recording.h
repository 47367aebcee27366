/* SPDX-License-Identifier: MIT */
/* One recording under way: what its two threads, the taker and the worker, share. */
#ifndef SAMPLE_RECORDING_H
#define SAMPLE_RECORDING_H

#include <pthread.h>

#include "sample/internal.h"
#include "sample/queue.h"
#include "sample/schedule.h"

/* Pauses are told to 100 ns up to a millisecond, longer ones to about 3 % of their length. */
enum {
	PAUSE_BUCKET_NS = 100,
	PAUSE_EVEN = 10000, /* buckets of that width */
	PAUSE_OCTAVE = 32,  /* buckets for each doubling beyond */
	PAUSE_BUCKETS = PAUSE_EVEN + 16 * PAUSE_OCTAVE,
	PAUSE_WARM_UP = 100,
};

struct recorder {
	struct target *target;
	const struct session_options options;
	struct interner *strings;
	pthread_t taker_thread, worker_thread;
	bool taker_started, worker_started;
	_Atomic bool stop; /* the taker is to end */
	int event_fd;
	int release_fd;

	/* the taker's own */
	struct taker taker;
	_Atomic pid_t taker_tid;
	struct watcher *watcher; /* --nonblocking: instead of a tracer */
	struct slots slots;
	struct schedule schedule;
	uint64_t joined_ns, watched_ns;
	uint64_t listed_ns; /* of the list of threads that are all traced, or watched */
	size_t first_slot;  /* where a tick begins: with those that the last one had no room for */
	size_t next_asleep; /* whose turn it is, as an index in slots */
	uint64_t owed_ns;   /* of looks at those: WAKE_NS a look */

	/* from the taker to the worker, and back */
	struct queue queue;
	_Atomic uint64_t epoch; /* how often the target has executed another program */
	_Atomic uint64_t late, gone, torn, uninterruptible, dropped;
	_Atomic uint64_t ticks;
	_Atomic int taker_cpu;	    /* -1: not known yet */
	_Atomic bool taker_follows; /* ... it is there for a thread that runs there */
	_Atomic(const struct python_runtime *) runtime; /* as the worker last opened it */
	_Atomic uint64_t runtime_epoch;
	_Atomic remote_addr main_stack_end;
	_Atomic bool join_again;   /* a thread state turned out to be another thread's */
	_Atomic bool forget_codes; /* a sample was dropped: its new code objects are not known */

	/* starting: the taker tells whether it could trace */
	pthread_mutex_t start_lock;
	pthread_cond_t started;
	bool start_done, start_failed;
	struct error start_error;

	/* the worker's, and whoever asks for a profile: under `lock` */
	pthread_mutex_t lock;
	struct decoder decoder;
	struct resolver *resolver;
	bool fetching;	      /* by that resolver */
	struct profile raw;   /* a call tree of raw frame ids */
	struct leaves leaves; /* ... and stacks that end inside of its nodes */
	struct profile_counts counts;
	struct capture *capture;
	uint64_t worker_epoch, opened_ns;
	uint64_t seen_threads;
	uint32_t pauses[PAUSE_BUCKETS + 1]; /* the last: longer */
	uint64_t pause_count, pause_max_ns;
	uint64_t allocating_pauses; /* that allocated, warm-up left out */
	uint64_t start_ns, end_ns;
	time_t start_time;

	/* the end */
	_Atomic bool ended, has_wait_status, failed;
	_Atomic int wait_status;
	struct error error; /* why sampling failed; set before `failed` */
};

void *recorder_take(void *recorder); /* taker.c: the taker thread */
void *recorder_work(void *recorder); /* worker.c: the worker thread */

/*
 * sweep.c, in the taker thread. A tick: looks at the threads and takes those that count. Now and
 * then: tells the worker of those that have ended. At the end: counts what those that were still
 * asleep did since their last looks.
 */
void recorder_sweep(struct recorder *recorder, uint64_t now_ns);
void recorder_tell_of_ended(struct recorder *recorder);
void recorder_sweep_end(struct recorder *recorder);

/* How much of each tick the looks at sleeping threads take. */
uint64_t recorder_looks_ns(const struct recorder *recorder);

/* Reads the modules and opens the interpreter; the worker, under the lock. */
bool MUST_CHECK worker_open(struct recorder *recorder, struct error *error);

#endif
