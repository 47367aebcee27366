/* SPDX-License-Identifier: MIT */
/*
 * --mode=cpu: samples count by the time that their threads were on a CPU. Each sample has what its
 * thread has used since the one before, and counts as so many periods of the rate; what is left
 * over goes to the thread's next sample. So the samples of a thread add up to its CPU time,
 * however many of them came too late.
 */
#ifndef RECORD_CPU_TIME_H
#define RECORD_CPU_TIME_H

#include "record/internal.h"

/* The taker: how long the thread was on a CPU since this was asked last; what it has used before
 * the first time counts. 0 when it has ended. */
uint64_t cpu_time_since(struct watched_thread *watched);

/* The worker: takes the whole periods out of what the thread is owed. Before its first sample is
 * `seen` half a period is added, so that all of them together are the nearest to what it used. */
uint64_t cpu_time_periods(struct thread_tally *tally, double rate);

#endif
