/* SPDX-License-Identifier: MIT */
/*
 * The scheduling of our own threads. A taker that holds a thread (copy/cpu_hold.h) is on that
 * thread's CPU, and the worker off it. One that copies a thread in an interrupt is off its CPU, and
 * the worker stays on the taker's, as with one that stops threads by ptrace: a target's CPU that is
 * idle in a pause would pull the worker over, and the target then waits for it. For ptrace the
 * taker is not pinned: on the target's own CPU it would push the target to another one at each
 * resume (the scheduler wakes it on an idle CPU), which cost 7 % of its speed more than the pauses
 * do. Let alone, the two settle on different CPUs.
 */
#ifndef COPY_PLACEMENT_H
#define COPY_PLACEMENT_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* How soon a thread of ours runs when it wakes, and what it leaves to others. */
struct promptness {
	bool real_time;
	uint64_t cpu_ns;		     /* CPU time that it has had */
	uint64_t checked_ns, checked_cpu_ns; /* at the last look at its share */
	int64_t spare_ns;		     /* that it may use yet, at rested_ns */
	uint64_t rested_ns;
};

/*
 * Lets the calling thread preempt others when it wakes. With the right to (CAP_SYS_NICE) it is a
 * real-time thread: sessions share the CPUs evenly however many threads each of them has (Linux's
 * autogroups), and a higher priority counts among the threads of one session alone. Else it asks
 * for a short slice and, where it may, for a higher priority.
 */
void placement_run_soon(struct promptness *promptness);

/* Makes another thread of ours a real-time thread, where it may, for what cannot wait; and no
 * longer.
 */
void placement_hurry(pid_t tid, bool on);

/*
 * The same thread has worked, and is about to sleep: until when it is to sleep at least, so that it
 * uses no more than half a CPU, but for some milliseconds at a time. One that uses more than a
 * quarter is no real-time thread any more.
 */
uint64_t placement_rest_until(struct promptness *promptness, uint64_t now_ns);

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
