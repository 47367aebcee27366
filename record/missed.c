/* SPDX-License-Identifier: MIT */
#include "record/missed.h"

#include <string.h>

/* How many of the ticks are before that time. */
static uint64_t ticks_before(const struct missed_ticks *ticks, uint64_t time_ns)
{
	/* Before any has been missed, nothing is known of them. */
	if (ticks->count == 0 || time_ns <= ticks->first_ns)
		return 0;
	const uint64_t before = (time_ns - ticks->first_ns - 1) / ticks->period_ns + 1;
	return before < ticks->count ? before : ticks->count;
}

void missed_split(const struct missed_ticks *ticks, const struct thread_change *changes,
		  size_t count, bool complete, struct missed_split *split)
{
	uint64_t end = ticks->count; /* of the ticks that are left: those before a switch */
	memset(split, 0, sizeof(*split));
	for (size_t i = 0; i < count; i++) {
		const struct thread_change *const change = &changes[i];
		const uint64_t start = ticks_before(ticks, change->time_ns);
		const uint64_t these = end > start ? end - start : 0;
		if (change->on_cpu || (i > 0 && change->runnable))
			split->ran += these;
		else if (i > 0)
			split->slept += these;
		else
			split->after = these;
		end -= these;
	}
	if (complete)
		split->before = end;
	else
		split->ran += end;
}

uint64_t missed_between(const struct missed_ticks *ticks, uint64_t first_ns, uint64_t last_ns)
{
	const uint64_t before = ticks_before(ticks, first_ns);
	const uint64_t until = ticks_before(ticks, last_ns + 1);
	return until > before ? until - before : 0;
}
