/* SPDX-License-Identifier: MIT */
/* Stopping threads: tracer.c. All calls from the thread that made the tracer. */
#ifndef TARGET_TRACER_H
#define TARGET_TRACER_H

#include "target/target.h"

/*
 * Traces threads of one process and knows at each moment which are stopped. When the thread that
 * made it exits, or is killed, the kernel detaches everything and the target runs on.
 */
struct tracer;

struct tracer *tracer_new(const struct target *target);

/* Resumes every stopped thread and releases the memory; detaching is left to the thread's exit
 * (a detach would need another stop). NULL accepted. */
void tracer_free(struct tracer *tracer);

/*
 * Before the first thread is seized: what the processes fork from then on is traced from its first
 * instruction on, and reported (TRACER_CHILD); so are its own children. Who forks stands still
 * until tracer_poll.
 */
void tracer_follow_children(struct tracer *tracer);

/* PTRACE_SEIZE, once a thread; no stop. Already traced by us: true. DENIED, GONE. */
bool MUST_CHECK tracer_seize(struct tracer *tracer, pid_t tid, struct error *error);
/* The same of a thread of another process. */
bool MUST_CHECK tracer_seize_of(struct tracer *tracer, pid_t pid, pid_t tid, struct error *error);

/*
 * Stops a seized thread and reads its registers. Waits at most `patience_us` (BUSY then: the
 * thread is uninterruptible; its late stop is consumed and resumed by tracer_poll). A thread in a
 * group-stop is read as it is and stays stopped. GONE. Runs in the pause, allocates nothing.
 */
bool MUST_CHECK tracer_stop(struct tracer *tracer, pid_t tid, unsigned patience_us,
			    struct registers *registers, struct error *error);

/* Lets a stopped thread run on: the signal that stopped it is delivered, a group-stop is kept. */
void tracer_resume(struct tracer *tracer, pid_t tid);
void tracer_resume_all(struct tracer *tracer);

/* Forgets a thread that has ended. */
void tracer_forget(struct tracer *tracer, pid_t tid);

enum tracer_event {
	TRACER_NOTHING,
	TRACER_THREAD_ENDED,
	TRACER_EXEC,
	TRACER_PROCESS_ENDED,
	TRACER_CHILD, /* it runs, its first thread is seized */
};

/*
 * Consumes whatever the traced threads report (signals, late stops, ends) and passes it on. Call
 * it between samples, until it returns TRACER_NOTHING. *tid: the thread or, of the other events,
 * the process that it concerns; *status: wait status of TRACER_PROCESS_ENDED, when we are its
 * parent or tracer, else -1. A thread whose end is reported is forgotten. Reaps every child of
 * ours; a plain waitpid for a traced child may wait forever, since its traced threads have to be
 * reaped first.
 */
enum tracer_event tracer_poll(struct tracer *tracer, pid_t *tid, int *status);

/*
 * Sleeps until the deadline (CLOCK_MONOTONIC, ns) or until a traced thread reports something.
 * SIGCHLD must be blocked in every thread of ours. `following_ns`: the deadline of the sleep after
 * this one, or 0: with it known, the CPU comes to rest sooner. True: there may be something to
 * poll, or a tenth of a second of a longer sleep is over; false: the deadline has come.
 */
bool tracer_sleep(struct tracer *tracer, uint64_t deadline_ns, uint64_t following_ns);

#endif
