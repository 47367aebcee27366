/* SPDX-License-Identifier: MIT */
/*
 * The scheduling of our own threads. None is pinned: a taker that runs on the target's own CPU
 * pushes the target to another one at each resume (the scheduler wakes it on an idle CPU), which
 * cost 7 % of its speed more than the pauses do. Let alone, the two settle on different CPUs.
 */
#ifndef SAMPLE_PLACEMENT_H
#define SAMPLE_PLACEMENT_H

/* Lets the calling thread preempt others when it wakes. */
void placement_run_soon(void);

#endif
