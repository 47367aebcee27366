/* SPDX-License-Identifier: MIT */
/*
 * The scheduling of our own threads. A taker that holds a thread (sample/hold.h) is on that
 * thread's CPU, and the worker off it. One that copies a thread in an interrupt is off its CPU, and
 * the worker stays on the taker's, as with one that stops threads by ptrace: a target's CPU that is
 * idle in a pause would pull the worker over, and the target then waits for it. For ptrace the
 * taker is not pinned: on the target's own CPU it would push the target to another one at each
 * resume (the scheduler wakes it on an idle CPU), which cost 7 % of its speed more than the pauses
 * do. Let alone, the two settle on different CPUs.
 */
#ifndef SAMPLE_PLACEMENT_H
#define SAMPLE_PLACEMENT_H

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

/*
 * Lets the calling thread preempt others when it wakes; with the right to (CAP_SYS_NICE) also when
 * all CPUs are busy: 2 busy threads on 2 CPUs at 1000 Hz, 1 to 3 % of the samples late instead of
 * 6 to 13.
 */
void placement_run_soon(void);

/* Where a thread of ours runs. */
struct placement {
	cpu_set_t usual; /* the CPUs that it may run on */
	bool known;	 /* ... are known */
	int cpu;	 /* that it stays on, or off; -1: it runs on any of them */
	bool off;
};

/* Of the calling thread, like the next. */
void placement_init(struct placement *placement);

/*
 * Keeps the thread on that CPU from now on, or off it; -1: lets it run on any again. False: it may
 * not, or there is no other.
 */
bool placement_stay_on(struct placement *placement, int cpu);
bool placement_stay_off(struct placement *placement, int cpu);

/* Of another thread of ours: it may run wherever the calling one may. */
void placement_let_go(pid_t tid);

#endif
