/* SPDX-License-Identifier: MIT */
/* Copies of a thread that the kernel makes. */
#ifndef TARGET_COPIER_H
#define TARGET_COPIER_H

#include "target/target.h"

/*
 * Copies registers and memory of a thread in its own place: in an interrupt of the CPU on which it
 * runs, or as it leaves that; one thread at a time, any. DENIED without CAP_BPF and CAP_PERFMON (or
 * CAP_SYS_ADMIN); SYSTEM: the kernel cannot (before Linux 5.15), or not safely (5.18 to 6.3). Takes
 * 0.2 MB of the kernel's memory and a millisecond. The caller frees it. From one thread of ours at
 * a time.
 */
struct copier;
struct switch_log;
enum copier_place { COPIER_IN_INTERRUPT, COPIER_AT_SWITCH };
bool MUST_CHECK copier_new(enum copier_place place, struct copier **copier, struct error *error);
void copier_free(struct copier *copier); /* NULL accepted */

/* The stack is copied from `red_zone` bytes below SP to its end: no more than COPIER_BYTES, nor are
 * all of the ranges, which are in the order of their addresses. */
enum { COPIER_RANGES = 64, COPIER_BYTES = 64 << 10 };
struct copier_request {
	pid_t tid;
	remote_addr stack_end;
	size_t red_zone;
	const struct target_range *ranges;
	size_t range_count;
};

enum copier_result {
	COPIER_COPIED,
	COPIER_ANOTHER, /* another thread runs on that CPU; it has not left its CPU in that time */
	COPIER_CALL,	/* it is in a system call that is under way */
	COPIER_LARGE,	/* too much */
	COPIER_MISSING, /* not all of it is in memory: nothing can be used */
	COPIER_FAILED,	/* there is no such CPU, or the kernel does not do it */
};

/*
 * COPIER_IN_INTERRUPT: now. Some microseconds of that CPU, some tens of the caller's; he is on
 * another CPU. *took_ns: from the request to the answer, so no less than the thread stood still;
 * undefined unless COPIED.
 */
enum copier_result copier_interrupt(struct copier *copier, const struct copier_request *request,
				    int cpu, uint64_t *took_ns);

/*
 * COPIER_AT_SWITCH: of a thread whose log that is, from now on; once for each log. And: each time
 * that this thread leaves its CPU in that time (CLOCK_MONOTONIC), in place of what was expected
 * before, of this thread or another. The CPU needs some microseconds for it. False: too much,
 * nothing is copied.
 */
bool MUST_CHECK switch_log_copy(const struct switch_log *log, const struct copier *copier,
				struct error *error);
bool MUST_CHECK copier_expect(struct copier *copier, const struct copier_request *request,
			      uint64_t from_ns, uint64_t until_ns);

/*
 * What became of what was expected last at that thread's last switch, and when the kernel began
 * with it (CLOCK_MONOTONIC, copied or not; the log's record is written after it; 0: there was no
 * switch since). Both, and the copy, are of that switch while the log stands still
 * (switch_log_position). No system call; in the pause.
 */
enum copier_result copier_outcome(const struct copier *copier);
uint64_t copier_began_ns(const struct copier *copier);

/*
 * What was copied last: registers, without fs_base; the stack, red zone included, as long as it is
 * by these registers (empty: there are no such copies); the ranges as they were asked for. The
 * bytes are the copier's, until it is asked for others.
 *
 * A CPU that was taken away from a virtual machine may answer late, and write into a copy that is
 * being read. So nothing of it is fetched twice, and copier_is_untouched() is asked after the last
 * read. In the pause.
 */
struct copier_span {
	struct target_range range;
	const uint8_t *bytes;
};
void copier_registers(const struct copier *copier, struct registers *registers);
struct copier_span copier_stack(const struct copier *copier, const struct registers *registers);
size_t copier_range_count(const struct copier *copier);
struct copier_span copier_range(const struct copier *copier, size_t number);
bool copier_is_untouched(const struct copier *copier);

#endif
