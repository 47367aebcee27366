/* SPDX-License-Identifier: MIT */
/*
 * Work that may wait for ever. A page of the target's memory may never come (userfaultfd, a file
 * system whose server is dead), and a thread that waits for one ends by SIGKILL alone, which ends
 * its whole process. So what stops threads, and what reads a page that is not there, is done by a
 * process of its own: it shares all our memory and descriptors, and is killed where it waits. The
 * kernel then lets its tracees run on. Its work is as if the read had never come back: the work
 * must hold no lock there.
 */
#ifndef BASE_GUARD_H
#define BASE_GUARD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum guard_end {
	GUARD_DONE,
	GUARD_STUCK,  /* it was killed in a wait */
	GUARD_FAILED, /* it could not be started, or has ended by itself */
};

struct guard {
	void (*work)(void *context);
	void *context;
	uint64_t limit_ns; /* of a wait, about */
	uint64_t lost_ns;  /* of the end of one that was killed; guard_init says 1 s */
	/* What the work says, and who looks at it hears. */
	_Atomic uint64_t waits; /* odd: it is in one; GUARD_CONDEMNED: it is to go no further */
	_Atomic uint64_t resting_until_ns; /* it waits for nothing before */
	uint64_t outer_seen_ns;		   /* the work's own */
	/* What is known of the process. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pid_t pid, outer; /* 0: there is none (any more); who started it */
	bool over, lost;
	int status;
	void *stack;
	pthread_t host;
};

void guard_init(struct guard *guard);
void guard_release(struct guard *guard);

/*
 * Runs the work, and waits for its end. All its waits in guard_begin_wait are limited. The caller
 * may be any thread of ours; of what the process holds, memory and descriptors stay.
 */
enum guard_end guard_run(struct guard *guard, uint64_t limit_ns, void (*work)(void *context),
			 void *context);

/*
 * The same with a guard of its own. *lost: it could not even be killed, within lost_ns; what it may
 * use is never to be freed.
 */
enum guard_end guard_once(uint64_t limit_ns, uint64_t lost_ns, void (*work)(void *context),
			  void *context, bool *lost);

/* After GUARD_STUCK: it could not even be killed. What it may use is never to be freed. */
bool guard_is_lost(const struct guard *guard);

/* Sends the process a SIGCHLD, if there is one; from any thread. */
void guard_wake(struct guard *guard);

/*
 * Lets go of the standard files, which others may read to the end, before a process of ours ends:
 * to end is to wait where a descriptor is open of a file system that does not answer. In a call of
 * its own, as the kernel lets go of what it has closed when the call returns. guard_run sees to it
 * in the process that calls it, where something was not answered: here, or as it is noted.
 */
void guard_close_standard(void);
void guard_note_unanswered(void);

/* ---- in the work; without a guard they do nothing ---- */

bool guard_is_here(void);

/* Around what may never come back; no lock is held. May run in the pause. */
void guard_begin_wait(void);
void guard_end_wait(void);

/* Nothing is waited for before that time: nobody needs to look. Ends the process where nobody is
 * left who could. */
void guard_rest_until(uint64_t time_ns);

/* The process that the user sees at work, which is not the one of the work. */
pid_t guard_outer_process(void);

#endif
