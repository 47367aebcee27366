/* SPDX-License-Identifier: MIT */
/* Where and how soon the taker runs: a late taker is a late sample, a slow one a long pause. */
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

void placement_pin(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

void placement_keep_off(pthread_t thread, const cpu_set_t *allowed, int cpu)
{
	cpu_set_t set = *allowed;
	CPU_CLR(cpu, &set);
	if (CPU_COUNT(&set) > 0)
		pthread_setaffinity_np(thread, sizeof(set), &set);
}
