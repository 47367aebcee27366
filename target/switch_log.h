/* SPDX-License-Identifier: MIT */
/* Context switches of a thread, as the kernel tells of them. */
#ifndef TARGET_SWITCH_LOG_H
#define TARGET_SWITCH_LOG_H

#include "target/target.h"

/*
 * What the kernel's performance events tell of one thread's context switches. While no other record
 * follows that of a switch, the thread has not run: whatever was copied meanwhile is of one moment,
 * though nobody stopped it. The thread pays for it about a microsecond a switch. From one thread of
 * ours at a time.
 */
struct switch_log;

/*
 * The first event of a machine is waited for until all CPUs have been through the kernel's
 * scheduler (Linux kernel/events/core.c, account_event()): 5 to 20 ms. This is that wait, in a
 * process or thread that has time, while another one makes ready; the event is kept until the
 * process ends.
 */
void switch_log_expect(void);

struct thread_switch {
	bool on_cpu;	   /* it runs; false: it has left its CPU, and `registers` are the user's */
	bool runnable;	   /* it runs, or waits for a CPU that somebody else was given */
	int cpu;	   /* on which it runs or ran */
	uint64_t time_ns;  /* of the switch, CLOCK_MONOTONIC */
	uint64_t position; /* of its record in the log */
	struct registers registers; /* without fs_base */
};

/*
 * Takes two pages and a descriptor. DENIED without CAP_PERFMON (or CAP_SYS_ADMIN) while
 * kernel.perf_event_paranoid is above 1; GONE; BUSY: too many are open; SYSTEM. The caller closes
 * it before the target is freed.
 */
bool MUST_CHECK switch_log_open(const struct target *target, pid_t tid, struct switch_log **log,
				struct error *error);
void switch_log_close(struct switch_log *log); /* NULL accepted */

/* The thread's last switch; false: none since the log was opened, or it is being written. A tenth
 * of a microsecond, no system call; in the pause, too, as the two below. */
bool MUST_CHECK switch_log_last(const struct switch_log *log, struct thread_switch *last);

/* Where the log is written: falls by so much each time that the thread leaves its CPU and gets one
 * again; the same as last->position: the thread has not run since that. */
enum { SWITCH_LOG_BYTES = 216 };
uint64_t switch_log_position(const struct switch_log *log);

/* From a switch on until the next one. */
struct thread_change {
	uint64_t time_ns;
	bool on_cpu, runnable; /* as in thread_switch */
};

/* The switches after the one at that position, the newest first. Returns how many; *all: they are
 * all. Not in the pause. */
size_t switch_log_since(const struct switch_log *log, uint64_t position,
			struct thread_change *changes, size_t capacity, bool *all);

/* How long the thread was off its CPU after that switch; 0: it still is, or the log is beyond it.
 */
uint64_t switch_log_off_cpu(const struct switch_log *log, const struct thread_switch *out);

#endif
