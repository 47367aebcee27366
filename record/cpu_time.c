/* SPDX-License-Identifier: MIT */
/*
 * The CPU time of threads under watch. It is the kernel's own sum (schedstat), read once a sample
 * after the pause. Of a thread that runs on it is as old as the last tick of the kernel's clock:
 * what is missing is a part of the next reading.
 */
#include "record/cpu_time.h"

uint64_t cpu_time_since(struct watched_thread *watched)
{
	uint64_t used;
	if (!watched->copy.files || !target_thread_cpu_ns(watched->copy.files, &used, NULL) ||
	    used <= watched->cpu_ns)
		return 0;
	const uint64_t since = used - watched->cpu_ns;
	watched->cpu_ns = used;
	return since;
}

uint64_t cpu_time_periods(struct thread_tally *tally, double rate)
{
	const uint64_t period_ns = (uint64_t)(1e9 / rate);
	if (!tally->seen)
		tally->owed_ns += period_ns / 2;
	const uint64_t periods = tally->owed_ns / period_ns;
	tally->owed_ns %= period_ns;
	return periods;
}
