/* SPDX-License-Identifier: MIT */
/* Deadlines without drift. */
#include "record/schedule.h"

void schedule_init(struct schedule *schedule, double rate, uint64_t now_ns)
{
	schedule->period_ns = (uint64_t)(1e9 / rate);
	if (schedule->period_ns == 0)
		schedule->period_ns = 1;
	schedule->start_ns = now_ns;
	schedule->tick = 1;
	schedule->seed = now_ns;
	schedule->end_ns = UINT64_MAX;
}

void schedule_end_after(struct schedule *schedule, uint64_t duration_ns)
{
	schedule->end_ns = schedule->start_ns + duration_ns;
}

bool schedule_is_over(const struct schedule *schedule, uint64_t time_ns)
{
	return time_ns > schedule->end_ns;
}

/* splitmix64 (Steele, Lea and Flood 2014): even enough to break the beat with a periodic program.
 */
static uint64_t random_of(const struct schedule *schedule, uint64_t tick)
{
	uint64_t x = schedule->seed + tick * UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

uint64_t schedule_following(const struct schedule *schedule)
{
	uint64_t period = schedule->period_ns, quarter = period / 4;
	uint64_t jitter = quarter ? random_of(schedule, schedule->tick) % (2 * quarter) : 0;
	return schedule->start_ns + schedule->tick * period + jitter - quarter;
}

uint64_t schedule_skip(struct schedule *schedule, uint64_t now_ns, uint64_t *first_ns)
{
	const uint64_t until = schedule_is_over(schedule, now_ns) ? schedule->end_ns : now_ns;
	const uint64_t due = (until - schedule->start_ns) / schedule->period_ns;
	const uint64_t first = schedule->tick;
	*first_ns = schedule->start_ns + first * schedule->period_ns;
	if (due <= first)
		return 0;
	schedule->tick = due;
	return due - first;
}

uint64_t schedule_next(struct schedule *schedule, uint64_t now_ns, uint64_t *late)
{
	uint64_t first_ns;
	*late += schedule_skip(schedule, now_ns, &first_ns);
	uint64_t deadline = schedule_following(schedule);
	schedule->tick++;
	return deadline;
}
