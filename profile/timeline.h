/* SPDX-License-Identifier: MIT */
/*
 * Samples with their times: what formats with a time axis need beside the call tree. A profile has
 * one (profile.timed) when a writer of its outputs asks for it (output_format_is_timed); without
 * it, all else is the same.
 *
 * Samples are in the order of their times within a thread, threads are mixed. Samples of one thread
 * with an equal stack and equal flags at consecutive ticks are one entry with a count: a run. The
 * counts of all runs and `lost` add up to profile.counts.samples.
 */
#ifndef PROFILE_TIMELINE_H
#define PROFILE_TIMELINE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/types.h"

enum sample_flag {
	SAMPLE_HOLDS_GIL = 1,
	SAMPLE_WAITS_FOR_GIL = 2,
	SAMPLE_IDLE = 4, /* blocked, off the CPU */
	SAMPLE_GC = 8,	 /* it collects garbage */
	SAMPLE_SALVAGED = 16,
	SAMPLE_GUESSED = 32,
	SAMPLE_FLAGS = 63,
};

/* "holds-gil", ...: of one flag. */
const char *sample_flag_name(enum sample_flag flag);

struct profile_process {
	pid_t pid;
	const char *command_line, *python_version; /* interned; python_version NULL: not Python */
};

struct profile_thread {
	uint32_t process; /* index in processes */
	pid_t tid;
	const char *name; /* interned; NULL: none */
	bool known_to_python;
};

/* A run: `count` samples, the first at time_ns, one a period from there on. */
struct profile_sample {
	uint64_t time_ns; /* since the recording's start (profile.start_time_ns) */
	uint32_t node;	  /* of the call tree, in which the stack ends */
	uint32_t thread;  /* index in threads */
	uint32_t count;
	uint32_t flags; /* enum sample_flag */
};

enum { TIMELINE_MOST = 1 << 23, TIMELINE_NONE = 0xffffffffu };

/* Where a thread's next sample goes. */
struct timeline_end {
	uint32_t sample;    /* its last run; TIMELINE_NONE: it has none */
	uint64_t before_ns; /* the end of the run before that one */
};

struct timeline {
	struct profile_process *processes;
	size_t process_count, process_capacity;
	struct profile_thread *threads;
	size_t thread_count, thread_capacity;
	struct profile_sample *samples;
	size_t sample_count, sample_capacity;
	uint64_t period_ns; /* from tick to tick; never 0 */
	size_t most;	    /* runs that are kept: TIMELINE_MOST, unless a test asks for less */
	uint64_t lost;	    /* samples that came when there were as many */
	struct timeline_end *ends; /* of each thread */
	size_t end_capacity;
};

/* rate: ticks a second; not positive or not finite: as 100. */
void timeline_init(struct timeline *timeline, double rate);
void timeline_release(struct timeline *timeline); /* all zero accepted */

/* Appends one; returns its index. */
uint32_t timeline_process(struct timeline *timeline, const struct profile_process *process);
uint32_t timeline_thread(struct timeline *timeline, const struct profile_thread *thread);

/* Appends `run`, or adds it to the thread's last run, if it goes on with that one. A time before
 * the last one's is moved there. */
void timeline_add(struct timeline *timeline, const struct profile_sample *run);

/* The thread was as in its last sample at so many more ticks, the last of which was at last_ns. If
 * that is too early for so many, some were before that sample. */
void timeline_repeat(struct timeline *timeline, uint32_t thread, uint64_t ticks, uint64_t last_ns);

/* The time of the run's last sample. */
uint64_t timeline_last_ns(const struct timeline *timeline, const struct profile_sample *run);

/* When it ends: a period after its last sample, or where the thread's next run starts, if that is
 * earlier. next NULL: it is the thread's last one. */
uint64_t timeline_end_ns(const struct timeline *timeline, const struct profile_sample *run,
			 const struct profile_sample *next);

/*
 * Which runs a thread has: those of thread i are samples[runs[first[i]]] to
 * samples[runs[first[i + 1] - 1]], in the order of their times.
 */
struct timeline_order {
	uint32_t *runs;
	size_t *first; /* thread_count + 1 of them */
};

void timeline_order_init(struct timeline_order *order, const struct timeline *timeline);
void timeline_order_release(struct timeline_order *order);

/* Makes a timeline of another's samples, for another tree: node N is nodes[N] there, or
 * TIMELINE_NONE if it is not. Runs that have become equal are one. */
void timeline_map(struct timeline *timeline, const struct timeline *from, const uint32_t *nodes);

#endif
