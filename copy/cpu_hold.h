/* SPDX-License-Identifier: MIT */
/*
 * How a running thread is kept still without a stop: by its CPU, which the taker has while it is
 * awake. Where the kernel reports a thread's context switches (target/switch_log.c), the taker
 * sleeps and wakes on that thread's CPU. When it wakes, the thread is off it, with its registers in
 * the log; it may be moved to another CPU and run on there, but not without a record in the log. So
 * what is copied while the log stands still is of one moment. The thread neither stops nor wakes:
 * no interrupt to another CPU, no idle CPU that has to be woken.
 *
 * Measured beside stops by ptrace, in turns (70 frames, a virtual machine with 2 CPUs): what a
 * sample takes from the target falls to a half at 1000 Hz and to three quarters at 10,000, our own
 * CPU time to a half, late samples at 10,000 Hz from 17 to 2 %. At 100 Hz there is no difference:
 * the copy is slower by as much as it is made with cold caches. (Without the kernel's copies, see
 * copy/bpf_copy.c.)
 */
#ifndef COPY_HOLD_H
#define COPY_HOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "copy/placement.h"
#include "target/copier.h"
#include "target/switch_log.h"

/* Of one thread of the target; zeroed at first. */
struct cpu_hold {
	struct switch_log *log; /* NULL: not followed (yet) */
	bool refused;		/* it cannot be followed, or is not worth it */
	bool trusted;		/* the log has had the same registers as ptrace */
	bool interrupted;	/* it is copied from another CPU: its own is left, not followed */
	pid_t tid;
	unsigned stops;	  /* it was stopped that often */
	uint64_t fs_base; /* then; the log does not have it */
	uint64_t checked_ns, checked_position;
	struct thread_switch last; /* the one by which it was held last */
	uint64_t copy_ns;	   /* the kernel's copy took it so long before that */
	uint64_t rest_ns;	   /* when that tick ended; 0: it was the last one */
	bool ours;		   /* ... was on our account */
};

/* Of the taker. */
struct cpu_holder {
	bool wanted;
	struct switch_log *own; /* of a thread of ours: see cpu_holder_init */
	struct copier *copier;	/* copies the thread that gives way to us; NULL: none does */
	pid_t expected;		/* which that is likely to be the next time */
	struct placement placement;
	uint64_t tick_ns, period_ns; /* when this tick began; from one to the next */
	uint64_t deadline_ns;	     /* when it was due */
	uint64_t rest_ns;	     /* when the last one ended */
	unsigned running;	     /* threads to be held in this tick */
	unsigned crowded, idle;	     /* ticks in a row with several of them, with none */
	uint64_t late; /* by how much ticks were late and what was lost, less those on time */
	uint64_t stay_until_ns; /* until then the taker goes to nobody's CPU */
	bool may_follow;
	int leave;	     /* the CPU that is left when the tick is over; -1: none */
	uint64_t held, lost; /* samples taken so; those that ran on meanwhile */
	uint64_t left;	     /* times that a thread had not run since its sample */
};

/*
 * Of the calling thread, before it traces anything: to ask for the first log may take the kernel
 * tens of milliseconds, but not while another one is open; so one of our own is until the end.
 */
void cpu_holder_init(struct cpu_holder *holder, const struct target *target, bool wanted);
void cpu_holder_release(struct cpu_holder *holder);

/* The taker woke for a tick that was due at `deadline_ns`, and has other things to do in it that
 * take about `other_ns`; and: it goes to sleep. */
void cpu_holder_begin(struct cpu_holder *holder, uint64_t now_ns, uint64_t deadline_ns,
		      uint64_t period_ns, uint64_t other_ns);
void cpu_holder_end(struct cpu_holder *holder, uint64_t now_ns);

/* The taker is on the CPU of a thread, which stands still while it is awake. */
bool cpu_holder_follows(const struct cpu_holder *holder);

/* True when it had no CPU at the time for which this tick was due, and waited for one: known from
 * the log alone. */
bool cpu_hold_waited(const struct cpu_holder *holder, const struct cpu_hold *hold);

/* Changes whenever the thread has run; 0: not known. */
uint64_t cpu_hold_position(const struct cpu_hold *hold);

/* True when the log alone says that the thread runs or waits for a CPU. */
bool cpu_hold_runs(const struct cpu_holder *holder, struct cpu_hold *hold);

/*
 * Is the thread still? Then *last says since when and with which registers, fs_base included (else
 * it is undefined). It may be on another CPU: then the taker goes there. Runs in the pause.
 */
bool cpu_hold_begin(struct cpu_holder *holder, struct cpu_hold *hold, struct thread_switch *last);

/*
 * Returns true if the thread has not run since cpu_hold_begin. *pause_ns: how long it was still for
 * the sample before this one. That includes the kernel's copy; it ends when the thread had a CPU
 * again, or when the taker slept if others had the CPU first. 0: not known, or not on our account.
 */
bool cpu_hold_end(struct cpu_holder *holder, struct cpu_hold *hold,
		  const struct thread_switch *last, uint64_t *pause_ns);

/* It has not run since it was held: this tick is not at its expense. */
void cpu_hold_leave(struct cpu_holder *holder, struct cpu_hold *hold);

/* In a stop by ptrace: compares the log with the registers. */
void cpu_hold_check(struct cpu_hold *hold, const struct registers *registers);

/* After such a stop, which took so long: follows the thread from now on, if it is stopped often, or
 * got no CPU to stop on. */
void cpu_hold_learn(struct cpu_holder *holder, struct cpu_hold *hold, const struct target *target,
		    pid_t tid, uint64_t stop_ns);

/* Until it is stopped often again. */
void cpu_hold_release(struct cpu_hold *hold);

#endif
