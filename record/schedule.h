/* SPDX-License-Identifier: MIT */
/* When to sample: absolute deadlines, jittered against programs that beat at the same rate. */
#ifndef RECORD_SCHEDULE_H
#define RECORD_SCHEDULE_H

#include "base/types.h"

struct schedule {
	uint64_t start_ns, period_ns;
	uint64_t tick;	 /* the next one */
	uint64_t end_ns; /* UINT64_MAX: none */
	uint64_t seed;
};

/* rate in Hz, > 0. */
void schedule_init(struct schedule *schedule, double rate, uint64_t now_ns);

/* Ticks after that time are never late. */
void schedule_end_after(struct schedule *schedule, uint64_t duration_ns);

/*
 * The deadline of the next tick, never in the past by more than one period: ticks whose time has
 * gone by are skipped and added to *late. Deadlines do not drift: tick N is at N periods from the
 * start, give or take a quarter of one.
 */
uint64_t schedule_next(struct schedule *schedule, uint64_t now_ns, uint64_t *late);

/* Skips those before the one that is due, as schedule_next does. Returns how many, from *first_ns
 * on, a period apart. */
uint64_t schedule_skip(struct schedule *schedule, uint64_t now_ns, uint64_t *first_ns);

/* True when the time is after the end. */
bool schedule_is_over(const struct schedule *schedule, uint64_t time_ns);

/* What that will return next, if nothing is late by then. */
uint64_t schedule_following(const struct schedule *schedule);

#endif
