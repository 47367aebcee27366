/* SPDX-License-Identifier: MIT */
/* How long threads stood still: the distribution of a recording's pauses. */
#ifndef PROFILE_PAUSES_H
#define PROFILE_PAUSES_H

#include <stdint.h>

/* To 100 ns up to a millisecond, longer ones to about 3 % of their length. */
enum {
	PAUSES_BUCKET_NS = 100,
	PAUSES_EVEN = 10000, /* buckets of that width */
	PAUSES_OCTAVE = 32,  /* buckets for each doubling beyond */
	PAUSES_BUCKETS = PAUSES_EVEN + 16 * PAUSES_OCTAVE,
	PAUSES_WARM_UP = 100,
};

/* All zero at first. */
struct pauses {
	uint32_t buckets[PAUSES_BUCKETS + 1]; /* the last: longer */
	uint64_t count, max_ns;
	uint64_t allocating; /* that allocated, warm-up left out */
};

void pauses_add(struct pauses *pauses, uint64_t pause_ns, uint32_t allocations);

/* Such a share of them was not longer, in microseconds. */
double pauses_percentile_us(const struct pauses *pauses, double share);

#endif
