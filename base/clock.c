/* SPDX-License-Identifier: MIT */
/* The clocks. */
#include "base/clock.h"

#include <sched.h>
#include <time.h>

static uint64_t read_clock(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t clock_now_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t clock_thread_cpu_ns(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

int clock_cpu(void)
{
	unsigned cpu;
	return getcpu(&cpu, NULL) == 0 ? (int)cpu : -1;
}
