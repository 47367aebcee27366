/* SPDX-License-Identifier: MIT */
/* How soon the taker runs (a late taker is a late sample), and where the worker does. */
#include "copy/placement.h"

#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/errand.h"
#include "base/log.h"

enum {
	SLICE_NS = 100000,
	TAKER_NICE = -10,
	REAL_TIME_PRIORITY = 1, /* the lowest */
	MOST_SHARE = 4, /* one part in so many of a CPU is what a real-time thread may use */
};
static const uint64_t CHECK_NS = 100000000; /* between two looks at what it uses */
static const int64_t MOST_SPARE_NS = 10000000;

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

static void be_prompt_and_fair(void)
{
	const int nice = getpriority(PRIO_PROCESS, 0);
	/* Who started us at another priority than the usual one meant it. */
	if (nice == 0 && be_prompt(TAKER_NICE))
		return;
	if (!be_prompt(nice))
		log_debug("sample", "cannot ask for a short scheduling slice");
}

void placement_run_soon(struct promptness *promptness)
{
	const struct sched_param first = {.sched_priority = REAL_TIME_PRIORITY};
	const bool usual =
		sched_getscheduler(0) == SCHED_OTHER && getpriority(PRIO_PROCESS, 0) == 0;
	const uint64_t cpu_ns = clock_thread_cpu_ns(), now_ns = clock_now_ns();
	*promptness = (struct promptness){
		.cpu_ns = cpu_ns,
		.checked_ns = now_ns,
		.checked_cpu_ns = cpu_ns,
		.rested_ns = now_ns,
	};
	promptness->real_time =
		usual && sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first) == 0;
	if (!promptness->real_time)
		be_prompt_and_fair();
}

struct hurry {
	pid_t tid;
	bool on;
};

static void set_hurry(void *context)
{
	const struct hurry *hurry = context;
	const struct sched_param first = {.sched_priority = REAL_TIME_PRIORITY}, usual = {0};
	if (hurry->on ? sched_setscheduler(hurry->tid, SCHED_FIFO | SCHED_RESET_ON_FORK, &first)
		      : sched_setscheduler(hurry->tid, SCHED_OTHER, &usual))
		log_debug("sample", "a thread of ours has to wait for a CPU");
}

/* sched(7): to take SCHED_RESET_ON_FORK back needs the right to set it. */
void placement_hurry(pid_t tid, bool on)
{
	struct hurry hurry = {tid, on};
	errand_run(set_hurry, &hurry);
}

static void check_share(struct promptness *promptness, uint64_t now_ns)
{
	const uint64_t passed_ns = now_ns - promptness->checked_ns;
	const uint64_t used_ns = promptness->cpu_ns - promptness->checked_cpu_ns;
	promptness->checked_ns = now_ns;
	promptness->checked_cpu_ns = promptness->cpu_ns;
	if (used_ns <= passed_ns / MOST_SHARE)
		return;
	log_debug("sample", "the taker uses %.0f %% of a CPU, and leaves others their turn",
		  100 * (double)used_ns / (double)passed_ns);
	promptness->real_time = false;
	be_prompt_and_fair();
}

uint64_t placement_rest_until(struct promptness *promptness, uint64_t now_ns)
{
	const uint64_t cpu_ns = clock_thread_cpu_ns();
	int64_t spare_ns = promptness->spare_ns + (int64_t)(now_ns - promptness->rested_ns) / 2;
	if (spare_ns > MOST_SPARE_NS)
		spare_ns = MOST_SPARE_NS;
	spare_ns -= (int64_t)(cpu_ns - promptness->cpu_ns);
	promptness->spare_ns = spare_ns;
	promptness->cpu_ns = cpu_ns;
	promptness->rested_ns = now_ns;
	if (promptness->real_time && now_ns - promptness->checked_ns >= CHECK_NS)
		check_share(promptness, now_ns);
	return spare_ns < 0 ? now_ns + 2 * (uint64_t)-spare_ns : now_ns;
}

void placement_init(struct placement *placement)
{
	*placement = (struct placement){.cpu = -1};
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
