/* SPDX-License-Identifier: MIT */
/* Deadlines: no drift, jitter within bounds, late ticks counted and not made up for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "record/schedule.h"

static const uint64_t START = 5000000000u, PERIOD = 1000000;

static void deadlines_do_not_drift(void **state)
{
	(void)state;
	struct schedule schedule;
	uint64_t late = 0, now = START;
	schedule_init(&schedule, 1000, now);
	for (uint64_t i = 1; i <= 100000; i++) {
		uint64_t following = schedule_following(&schedule);
		now = schedule_next(&schedule, now, &late);
		assert_int_equal(now, following);
		uint64_t exact = START + i * PERIOD;
		assert_in_range(now, exact - PERIOD / 4, exact + PERIOD / 4);
	}
	assert_int_equal(late, 0);
}

static void deadlines_are_jittered(void **state)
{
	(void)state;
	struct schedule schedule;
	uint64_t late = 0, now = START, early = 0;
	schedule_init(&schedule, 1000, now);
	for (uint64_t i = 1; i <= 10000; i++) {
		now = schedule_next(&schedule, now, &late);
		early += now < START + i * PERIOD;
	}
	assert_in_range(early, 4500, 5500);
}

static void ticks_gone_by_are_counted_and_skipped(void **state)
{
	(void)state;
	struct schedule schedule;
	uint64_t late = 0;
	schedule_init(&schedule, 1000, START);
	schedule_next(&schedule, START, &late);
	/* Held up for ten periods: the next deadline is near, the nine before it are lost. */
	uint64_t now = START + 11 * PERIOD;
	uint64_t next = schedule_next(&schedule, now, &late);
	assert_int_equal(late, 9);
	assert_in_range(next, now - PERIOD / 4, now + PERIOD / 4);
}

/* Held up beyond the end: what is late is what was before that. */
static void after_the_end_no_tick_is_late(void **state)
{
	(void)state;
	struct schedule schedule;
	uint64_t late = 0;
	schedule_init(&schedule, 1000, START);
	assert_false(schedule_is_over(&schedule, UINT64_MAX));
	schedule_end_after(&schedule, 20 * PERIOD);
	assert_false(schedule_is_over(&schedule, START + 20 * PERIOD));
	assert_true(schedule_is_over(&schedule, START + 20 * PERIOD + 1));
	schedule_next(&schedule, START + 11 * PERIOD, &late);
	assert_int_equal(late, 10);
	schedule_next(&schedule, START + 1000 * PERIOD, &late);
	assert_int_equal(late, 18);
	schedule_next(&schedule, START + 1000 * PERIOD, &late);
	assert_int_equal(late, 18);
}

static void a_huge_rate_is_no_division_by_zero(void **state)
{
	(void)state;
	struct schedule schedule;
	uint64_t late = 0;
	schedule_init(&schedule, 1e12, START);
	assert_in_range(schedule_next(&schedule, START + 10, &late), START, START + 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deadlines_do_not_drift),
		cmocka_unit_test(deadlines_are_jittered),
		cmocka_unit_test(ticks_gone_by_are_counted_and_skipped),
		cmocka_unit_test(after_the_end_no_tick_is_late),
		cmocka_unit_test(a_huge_rate_is_no_division_by_zero),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
