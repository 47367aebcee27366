/* SPDX-License-Identifier: MIT */
/*
 * How a running thread is kept still without a stop: by its CPU, which the taker has while it is
 * awake. Where the kernel tells of a thread's context switches (target/switch_log.c), the taker
 * sleeps and wakes on that thread's CPU. When it wakes, the thread is off it, with its registers in
 * the log; it may be moved to another CPU and run on there, but not without a record in the log. So
 * what is copied while the log stands still is of one moment. The thread neither stops nor wakes:
 * no interrupt to another CPU, no idle CPU that has to be woken.
 *
 * Measured beside stops by ptrace, in turns (70 frames, a virtual machine with 2 CPUs): what a
 * sample takes from the target falls to a half at 1000 Hz and to three quarters at 10,000, our own
 * CPU time to a half, late samples at 10,000 Hz from 17 to 2 %. At 100 Hz there is no difference:
 * the copy is slower by as much as it is made with cold caches. (Without the kernel's copies, see
 * sample/copied.c.)
 */
#ifndef SAMPLE_HOLD_H
#define SAMPLE_HOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "sample/placement.h"
#include "target/target.h"

/* Of one thread of the target; zeroed at first. */
struct hold {
	struct switch_log *log; /* NULL: not followed (yet) */
	bool refused;		/* it cannot be followed, or is not worth it */
	bool trusted;		/* the log has told the registers that ptrace did */
	bool interrupted;	/* it is copied from another CPU: its own is left, not followed */
	pid_t tid;
	unsigned stops;	  /* it was stopped that often */
	uint64_t fs_base; /* then; the log does not tell it */
	uint64_t checked_ns, checked_position;
	struct thread_switch last; /* the one by which it was held last */
	uint64_t copy_ns;	   /* the kernel's copy took it so long before that */
	bool ours;		   /* ... was on our account */
};

/* Of the taker. */
struct holder {
	bool wanted;
	struct switch_log *own; /* of a thread of ours: see holder_init */
	struct copier *copier;	/* copies the thread that gives way to us; NULL: none does */
	pid_t expected;		/* which that is likely to be the next time */
	struct placement placement;
	uint64_t tick_ns, period_ns; /* when this tick began; from one to the next */
	uint64_t rest_ns;	     /* when the last one ended */
	unsigned running;	     /* threads to be held in this tick */
	unsigned crowded, idle;	     /* ticks in a row with several of them, with none */
	uint64_t late; /* by how much ticks were late and what was lost, less those on time */
	uint64_t stay_until_ns; /* until then the taker goes to nobody's CPU */
	bool may_follow;
	int leave;	     /* the CPU that is left when the tick is over; -1: none */
	uint64_t held, lost; /* samples taken so; those that ran on meanwhile */
};

/*
 * Of the calling thread, before it traces anything: to ask for the first log may take the kernel
 * tens of milliseconds, but not while another one is open; so one of our own is until the end.
 */
void holder_init(struct holder *holder, const struct target *target, bool wanted);
void holder_release(struct holder *holder);

/* The taker woke for a tick that was due at `deadline_ns`, and has other things to do in it that
 * take about `other_ns`; and: it goes to sleep. */
void holder_begin(struct holder *holder, uint64_t now_ns, uint64_t deadline_ns, uint64_t period_ns,
		  uint64_t other_ns);
void holder_end(struct holder *holder, uint64_t now_ns);

/* The taker is on the CPU of a thread, which stands still while it is awake. */
bool holder_follows(const struct holder *holder);

/* Changes whenever the thread has run; 0: nobody tells. */
uint64_t hold_position(const struct hold *hold);

/* True when the log alone tells that the thread runs or waits for a CPU. */
bool hold_runs(const struct holder *holder, struct hold *hold);

/*
 * Is the thread still? Then *last tells since when and with which registers, fs_base included (else
 * it is undefined). It may be on another CPU: then the taker goes there. Runs in the pause.
 */
bool hold_begin(struct holder *holder, struct hold *hold, struct thread_switch *last);

/*
 * True when it was still all the while since. *pause_ns: how long it stood still for the sample
 * before this one, the kernel's copy included, until it had a CPU again, or until the taker slept
 * when others had that before it; 0: not known, or not on our account.
 */
bool hold_end(struct holder *holder, struct hold *hold, const struct thread_switch *last,
	      uint64_t *pause_ns);

/* In a stop by ptrace: compares the log with the registers. */
void hold_check(struct hold *hold, const struct registers *registers);

/* After such a stop: follows the thread from now on, if it is stopped often. */
void hold_learn(struct holder *holder, struct hold *hold, const struct target *target, pid_t tid);

/* Until it is stopped often again. */
void hold_release(struct hold *hold);

#endif
