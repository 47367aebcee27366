/* SPDX-License-Identifier: MIT */
/* Deadlines without drift. */
#include "sample/schedule.h"

void schedule_init(struct schedule *schedule, double rate, uint64_t now_ns)
{
	schedule->period_ns = (uint64_t)(1e9 / rate);
	if (schedule->period_ns == 0)
		schedule->period_ns = 1;
	schedule->start_ns = now_ns;
	schedule->tick = 1;
	schedule->random = now_ns | 1;
}

/* xorshift64 (Marsaglia 2003): even enough to break the beat with a periodic program. */
static uint64_t next_random(struct schedule *schedule)
{
	uint64_t x = schedule->random;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return schedule->random = x;
}

uint64_t schedule_next(struct schedule *schedule, uint64_t now_ns, uint64_t *late)
{
	uint64_t period = schedule->period_ns;
	uint64_t due = (now_ns - schedule->start_ns) / period;
	if (due > schedule->tick) {
		*late += due - schedule->tick;
		schedule->tick = due;
	}
	uint64_t quarter = period / 4;
	uint64_t jitter = quarter ? next_random(schedule) % (2 * quarter) : 0;
	return schedule->start_ns + schedule->tick++ * period + jitter - quarter;
}
