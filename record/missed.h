/* SPDX-License-Identifier: MIT */
/*
 * Ticks at which the taker had no CPU, and what its switch log says a thread did then: where it
 * stood still in that time, before or after it ran, is known from the samples on both sides.
 */
#ifndef RECORD_MISSED_H
#define RECORD_MISSED_H

#include "target/switch_log.h"

/* `count` ticks from that time on. */
struct missed_ticks {
	uint64_t first_ns, period_ns, count;
};

/* How many of them the thread was ... */
struct missed_split {
	uint64_t before; /* ... as in its last sample */
	uint64_t after; /* ... as it is since its last switch: as in the next one, if it still is */
	uint64_t slept; /* ... blocked, somewhere between these */
	uint64_t ran;	/* ... on a CPU, or waiting for one between these: nobody knows where */
};

/*
 * changes: its switches since its last sample, the newest first; complete: there were no others,
 * and it was off its CPU in that sample.
 */
void missed_split(const struct missed_ticks *ticks, const struct thread_change *changes,
		  size_t count, bool complete, struct missed_split *split);

/* How many of them are between these times, both included. */
uint64_t missed_between(const struct missed_ticks *ticks, uint64_t first_ns, uint64_t last_ns);

#endif
