/* SPDX-License-Identifier: MIT */
/* What the files of copy/ share. */
#ifndef COPY_INTERNAL_H
#define COPY_INTERNAL_H

#include "base/clock.h"
#include "copy/copy.h"
#include "copy/prediction.h"

/* ---- claim.c --------------------------------------------------------------------------------- */

/* Takes from the sample's thread states those that another thread runs, and adds those of other
 * threads that this one runs. */
void claim_states(const struct taker *taker, struct raw_sample *raw);

/* ---- state.c --------------------------------------------------------------------------------- */

/* What a thread was last seen to be blocked in; running: at the last look it was not. */
struct noted_wait {
	struct target_wait wait;
	char kernel[TARGET_KERNEL_SIZE];
};

/* Whether copies of a thread by the kernel are worth asking for: see bpf_copy.c. */
struct copy_backoff {
	unsigned misses;    /* that gave nothing, in a row */
	unsigned length;    /* samples without one that the last row of them has cost */
	unsigned remaining; /* of these */
};

/*
 * A system call in which a thread was stopped although it was blocked, as --stop=ptrace asks, since
 * to unwind it took registers that a blocked thread does not report and that are not found either.
 * While it is in the same call with the same stack, they are what they were.
 */
struct stopped_call {
	struct target_wait wait; /* running: none, or it has been in others since */
	struct registers registers;
	size_t size; /* of the stack, from SP on */
	uint64_t hash;
};

struct copy_past {
	struct prediction prediction;
	struct target_range copied_stack; /* in the last pause; size 0: its end was not known */
	uint64_t copied_ns;		  /* when that was */
	struct cpu_hold hold;
	struct copy_backoff backoff;
	struct python_recent recent;	   /* --nonblocking */
	struct noted_wait *noted;	   /* --kernel; NULL: not looked at yet */
	struct stopped_call *stopped_call; /* or NULL */
};

/* ---- methods.c: the ways to copy a thread that runs -------------------------------------------
 */

/*
 * One way to copy. They are tried in the order of methods.c. `copy` resets and fills the sample and
 * returns COPY_NEXT where this way does not do for the thread now: then nothing has been done to
 * it. What a way knows of a thread from its last samples is in its struct copy_past, which no other
 * folder sees.
 */
struct copy_method {
	const char *name;
	bool (*usable)(const struct taker *taker);
	enum copy_result (*copy)(struct taker *taker, struct copy_state *state,
				 struct raw_sample *raw);
	/* A sample was taken, by whichever way, and the thread runs on; NULL: nothing to do. */
	void (*learn)(struct taker *taker, struct copy_state *state);
	/* The thread is not copied any more; NULL: nothing is open for it. */
	void (*release)(struct copy_state *state);
};

extern const struct copy_method copy_core;			      /* core_copy.c */
extern const struct copy_method copy_unstopped;			      /* unstopped.c */
extern const struct copy_method copy_interrupt, copy_hold, copy_stop; /* take.c */

/* Of a thread that nothing sets in motion: copies what its registers, in the sample, lead to. */
void take_still(const struct taker *taker, struct copy_state *state, struct raw_sample *raw);

/* For each of them: release. */
void copy_methods_release(struct copy_state *state);

/* ---- stack_end.c ------------------------------------------------------------------------------
 */

/* In an epilogue, a just popped register's place is still named: below SP. */
enum { TAKE_RED_ZONE = 128 };

/*
 * From SP to the end of what can be frames. A thread made by pthread_create has its struct
 * pthread, at which fs_base points, at the top of its own stack; the main thread's end and that
 * of a stack seen before are known; else *sure is false, and what is there is to be read.
 */
size_t take_stack_size(const struct taker *taker, const struct copy_state *state,
		       const struct registers *registers, bool *sure);
remote_addr take_stack_top(const struct taker *taker, const struct copy_state *state,
			   const struct registers *registers);

/* ---- bpf_copy.c: by the kernel -----------------------------------------------------------------
 */

/* Has the thread's CPU interrupted and its stack and what was predicted copied there; false: it
 * runs on this CPU, or a copy is not worth it, or failed. The thread runs on: the rest is missing.
 */
bool bpf_copy_interrupt(struct taker *taker, struct copy_state *state, struct raw_sample *raw);

/* Was such a copy of use? */
void bpf_copy_judge(struct taker *taker, struct copy_state *state, bool hit);

/* Of a held thread with these registers: its memory is in the sample if the kernel has copied that
 * as it gave way. Else, false, nothing is. Runs in the pause. */
bool bpf_copy_at_switch(struct taker *taker, struct copy_state *state,
			const struct registers *registers, struct raw_sample *raw);

/* What the next sample needs is to be copied as the thread gives way. */
void bpf_copy_expect(struct taker *taker, struct copy_state *state);

/* ---- signal_stack.c: handlers on stacks of their own -----------------------------------------
 */

/* SP on the stack that the thread has left for the one of this SP, which the sample has no copy of;
 * 0: there is none. `top`: where the thread's own stack ends; 0: not known. May run in the pause.
 */
remote_addr signal_stack_left(struct raw_sample *raw, remote_addr sp, remote_addr top);

/* ---- join.c ---------------------------------------------------------------------------------- */

/*
 * The native_thread_id that the thread's states must have; 0: any. The main thread's may have its
 * parent's, after a fork of which Python has not learned; its pthread_self() is nobody else's.
 */
pid_t join_required_tid(const struct copy_state *state, const struct target *target);

#endif
