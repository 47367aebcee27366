/* SPDX-License-Identifier: MIT */
/* What the files of the tracer share: who is traced, and how it sleeps until one of them reports.
 */
#ifndef TARGET_TRACER_INTERNAL_H
#define TARGET_TRACER_INTERNAL_H

#include <signal.h>
#include <time.h>

#include "target/internal.h"
#include "target/tracer.h"

struct traced {
	pid_t tid;
	pid_t pid;		 /* its process */
	bool stopped;		 /* by us, until tracer_resume */
	bool group_stop;	 /* its user's stop: to be kept */
	bool unsure;		 /* may have stopped already: look before interrupting */
	bool restart;		 /* the call that it was in goes on when it is resumed */
	int signal;		 /* to be delivered on resuming */
	enum tracer_event event; /* to be reported */
};

/* A timer that wakes this thread from its wait for SIGCHLD. */
struct alarm {
	timer_t timer;
	uint64_t at; /* for when it was set last; 0: it could not be */
};

enum { ALARM_TICK, ALARM_SLEEP, ALARM_COUNT = ALARM_SLEEP + 2 };

/* One that has threads here, or has had. */
struct traced_process {
	pid_t pid;
	size_t threads; /* in the table */
	bool born;	/* by one that is traced, and not reported yet */
	bool ended;	/* its end is to be reported */
	bool emptied;	/* the last of its threads was reported to have ended */
	int end_status;
};

struct tracer {
	const struct target *target; /* the first process's */
	struct traced *threads;	     /* in order of tid */
	size_t count, capacity;
	struct traced_process *processes;
	size_t process_count, process_capacity;
	size_t events; /* of threads that have one to report ... */
	size_t news;   /* ... and processes that are born, ended or emptied */
	bool follows_children;
	/*
	 * A SIGCHLD was taken, and not all reports after it. To ask for reports the kernel goes
	 * through all traced threads, at 25 ns each: with a thousand of them that is not done at
	 * each tick. Doubtful: it told of a stop that we made and have seen; but while one waits to
	 * be taken, the kernel does not keep another.
	 */
	bool heard, doubtful;
	uint64_t looked_at, looks;
	struct alarm alarms[ALARM_COUNT];
	size_t alarm_count;  /* all of them, or they cannot be used */
	unsigned spin_rests; /* stops to come without a spin */
};

/* ---- who is traced: traced.c ---- */

/* The thread, or the process; NULL: it is not traced. */
struct traced *traced_find(const struct tracer *tracer, pid_t tid);
struct traced_process *traced_find_process(const struct tracer *tracer, pid_t pid);

/* One that is not traced yet. Processes and threads found before may be elsewhere then. */
struct traced_process *traced_add_process(struct tracer *tracer, pid_t pid);
struct traced *traced_add(struct tracer *tracer, struct traced_process *process, pid_t tid);
/* The same where there is room for it: it allocates nothing. */
struct traced *traced_insert(struct tracer *tracer, struct traced_process *process, pid_t tid);

/* They are traced no more, what they had to report is dropped. A process's threads go first. */
void traced_drop(struct tracer *tracer, struct traced *thread);
void traced_drop_threads(struct tracer *tracer, struct traced_process *process);
void traced_drop_process(struct tracer *tracer, struct traced_process *process);

/* The thread has something to report, and is not stopped. */
void traced_set_event(struct tracer *tracer, struct traced *thread, enum tracer_event event);

/* The process has something to report, and is counted in tracer->news. */
bool traced_has_news(const struct traced_process *process);

/* ---- sleeping: tracer_sleep.c, which has tracer_sleep, too ---- */

/* Of the calling thread, which alone they wake; done without where they cannot be had. */
void tracer_make_alarms(struct tracer *tracer);

/* SIGCHLD alone. */
sigset_t tracer_signals(void);

/* Sleeps until a traced thread reports something, for some milliseconds at most. Runs in the pause,
 * allocates nothing. */
void tracer_wait_report(struct tracer *tracer, uint64_t now_ns);

#endif
