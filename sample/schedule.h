/* SPDX-License-Identifier: MIT */
/* When to sample: absolute deadlines, jittered against programs that beat at the same rate. */
#ifndef SAMPLE_SCHEDULE_H
#define SAMPLE_SCHEDULE_H

#include "base/types.h"

struct schedule {
	uint64_t start_ns, period_ns;
	uint64_t tick; /* the next one */
	uint64_t seed;
};

/* rate in Hz, > 0. */
void schedule_init(struct schedule *schedule, double rate, uint64_t now_ns);

/*
 * The deadline of the next tick, never in the past by more than one period: ticks whose time has
 * gone by are skipped and added to *late. Deadlines do not drift: tick N is at N periods from the
 * start, give or take a quarter of one.
 */
uint64_t schedule_next(struct schedule *schedule, uint64_t now_ns, uint64_t *late);

/* What that will tell next, if nothing is late by then. */
uint64_t schedule_following(const struct schedule *schedule);

#endif
