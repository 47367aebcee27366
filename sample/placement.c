/* SPDX-License-Identifier: MIT */
/* How soon the taker runs: a late taker is a late sample. */
#include "sample/placement.h"

#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"

enum { SLICE_NS = 100000 };

/* sched_setattr(2): glibc 2.36 does not declare it, and <linux/sched/types.h> clashes with it. */
struct scheduling {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

void placement_run_soon(void)
{
	/*
	 * Linux 6.12's EEVDF: a thread that asks for a short slice preempts a longer one when it
	 * wakes, instead of waiting up to 3 ms for the target to use its slice up. Older kernels
	 * ignore the field.
	 */
	struct scheduling wanted = {
		.size = sizeof(wanted),
		.policy = SCHED_OTHER,
		.nice = getpriority(PRIO_PROCESS, 0), /* as it is */
		.runtime = SLICE_NS,
	};
	if (syscall(SYS_sched_setattr, 0, &wanted, 0) != 0)
		log_debug("sample", "cannot ask for a short scheduling slice");
}
