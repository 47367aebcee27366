/* SPDX-License-Identifier: MIT */
/* The threads of a file of raw samples: what each did last, and when. */
#ifndef REPLAY_THREADS_H
#define REPLAY_THREADS_H

#include "base/table.h"
#include "profile/profile.h"

struct replay_thread {
	uint32_t *ids; /* of its last stack; count 0: that is not kept, nor what repeats it */
	size_t count, capacity;
	size_t root;	  /* its number among the roots */
	const char *name; /* interned; NULL: not known */
	pid_t tid;
	bool known_to_python, native_leaf;
	uint32_t number; /* in the timeline; TIMELINE_NONE: not yet */
};

struct replay_threads {
	struct table by_tid;
	struct replay_thread *threads;
	size_t count, capacity;
	bool started;
	uint64_t start_ns; /* of the first sample in the timeline, once started */
};

void replay_threads_release(struct replay_threads *threads);

/* The thread; a new one if it is met first. Valid until the next call. */
struct replay_thread *replay_thread_of(struct replay_threads *threads, pid_t tid);

void replay_thread_name(struct replay_thread *thread, struct profile *tree, const char *name);

/* Counts the stack that the thread has now in the tree, and in its timeline, if it has one.
 * time_ns: CLOCK_MONOTONIC of the process that recorded it; flags: enum sample_flag. */
void replay_thread_count(struct replay_threads *threads, struct replay_thread *thread,
			 struct profile *tree, uint64_t time_ns, uint32_t flags);

/* Counts it once more. time_ns: as above; what has no timeline needs none. */
void replay_thread_repeat(struct replay_threads *threads, struct replay_thread *thread,
			  struct profile *tree, uint64_t time_ns);

#endif
