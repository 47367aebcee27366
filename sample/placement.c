/* SPDX-License-Identifier: MIT */
/* How soon the taker runs (a late taker is a late sample), and where the worker does. */
#include "sample/placement.h"

#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"

enum {
	SLICE_NS = 100000,
	TAKER_NICE = -10,
};

/* sched_setattr(2): glibc 2.36 does not declare it, and <linux/sched/types.h> clashes with it. */
struct scheduling {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

/*
 * Linux 6.12's EEVDF: a thread that asks for a short slice preempts a longer one when it wakes,
 * instead of waiting up to 3 ms for that to use its slice up. Older kernels ignore the field.
 */
static bool be_prompt(int nice)
{
	struct scheduling wanted = {
		.size = sizeof(wanted),
		.policy = SCHED_OTHER,
		.nice = nice,
		.runtime = SLICE_NS,
	};
	return syscall(SYS_sched_setattr, 0, &wanted, 0) == 0;
}

void placement_run_soon(void)
{
	int nice = getpriority(PRIO_PROCESS, 0);
	/* Who started us at another priority than the usual one meant it. */
	if (nice == 0 && be_prompt(TAKER_NICE))
		return;
	if (!be_prompt(nice))
		log_debug("sample", "cannot ask for a short scheduling slice");
}

void placement_init(struct placement *placement)
{
	placement->cpu = -1;
	/* EINVAL: more CPUs than the set has room for. */
	placement->known = sched_getaffinity(0, sizeof(placement->usual), &placement->usual) == 0;
}

static bool stay(struct placement *placement, int cpu, bool off, const cpu_set_t *set)
{
	if (sched_setaffinity(0, sizeof(*set), set) != 0) {
		log_debug("sample", "cannot choose where to run");
		return false;
	}
	placement->cpu = cpu;
	placement->off = off;
	return true;
}

bool placement_stay_on(struct placement *placement, int cpu)
{
	cpu_set_t set = placement->usual;
	if (!placement->known || cpu >= CPU_SETSIZE)
		return false;
	if (cpu == placement->cpu && !placement->off)
		return true;
	if (cpu >= 0) {
		if (!CPU_ISSET((size_t)cpu, &placement->usual))
			return false;
		CPU_ZERO(&set);
		CPU_SET((size_t)cpu, &set);
	}
	return stay(placement, cpu, false, &set);
}

bool placement_stay_off(struct placement *placement, int cpu)
{
	cpu_set_t set = placement->usual;
	if (!placement->known || cpu < 0 || cpu >= CPU_SETSIZE)
		return false;
	if (cpu == placement->cpu && placement->off)
		return true;
	CPU_CLR((size_t)cpu, &set);
	return CPU_COUNT(&set) > 0 && stay(placement, cpu, true, &set);
}

void placement_let_go(pid_t tid)
{
	cpu_set_t set;
	if (sched_getaffinity(0, sizeof(set), &set) != 0 ||
	    sched_setaffinity(tid, sizeof(set), &set) != 0)
		log_debug("sample", "cannot let thread %d run anywhere", (int)tid);
}
