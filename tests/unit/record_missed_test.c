/* SPDX-License-Identifier: MIT */
/* Where a thread was at ticks that nobody was awake for, by its switches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "record/missed.h"

#define IN(time)                                                                                   \
	{                                                                                          \
		(time), true, true                                                                 \
	}
#define LOST_CPU(time)                                                                             \
	{                                                                                          \
		(time), false, true                                                                \
	}
#define BLOCKED(time)                                                                              \
	{                                                                                          \
		(time), false, false                                                               \
	}

struct missed_case {
	const char *name;
	struct thread_change changes[6]; /* the newest first */
	size_t count;
	bool partial; /* there were others before */
	struct missed_split split;
};

/* Ten ticks, at 1000, 1010 ... 1090. */
static const struct missed_ticks TEN = {.first_ns = 1000, .period_ns = 10, .count = 10};

static const struct missed_case cases[] = {
	{"it has not run", {{0}}, 0, false, {.before = 10}},
	{"nothing is known", {{0}}, 0, true, {.ran = 10}},
	{"it got a CPU, and has it", {IN(1045)}, 1, false, {.before = 5, .ran = 5}},
	{"at the time of a tick it has it", {IN(1040)}, 1, false, {.before = 4, .ran = 6}},
	{"it got a CPU and lost it", {LOST_CPU(1065), IN(1025)}, 2, false, {3, 3, 0, 4}},
	{"it got a CPU and blocked", {BLOCKED(1065), IN(1025)}, 2, false, {3, 3, 0, 4}},
	{"between two ticks", {LOST_CPU(1029), IN(1021)}, 2, false, {.before = 3, .after = 7}},
	{"it waited between",
	 {LOST_CPU(1085), IN(1065), LOST_CPU(1035), IN(1015)},
	 4,
	 false,
	 {.before = 2, .after = 1, .ran = 7}},
	{"it slept between",
	 {LOST_CPU(1085), IN(1065), BLOCKED(1035), IN(1015)},
	 4,
	 false,
	 {.before = 2, .after = 1, .slept = 3, .ran = 4}},
	{"before all of them", {LOST_CPU(900), IN(800)}, 2, false, {.after = 10}},
	{"after all of them", {LOST_CPU(1200), IN(1100)}, 2, false, {.before = 10}},
	{"the first switches are not known",
	 {LOST_CPU(1065), IN(1025)},
	 2,
	 true,
	 {.after = 3, .ran = 7}},
};

static void what_it_did_is_told_by_its_switches(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct missed_case *const one = &cases[i];
		struct missed_split split;
		missed_split(&TEN, one->changes, one->count, !one->partial, &split);
		if (split.before != one->split.before || split.after != one->split.after ||
		    split.slept != one->split.slept || split.ran != one->split.ran)
			fail_msg("%s: before %u, after %u, slept %u, ran %u", one->name,
				 (unsigned)split.before, (unsigned)split.after,
				 (unsigned)split.slept, (unsigned)split.ran);
	}
}

/* No tick is counted twice, whatever the log says. */
static void all_ticks_are_counted_once(void **state)
{
	unsigned short seed[3] = {1, 2, 3};
	(void)state;
	for (int i = 0; i < 10000; i++) {
		struct thread_change changes[8];
		struct missed_split split;
		const size_t count = (size_t)nrand48(seed) % 9;
		for (size_t j = 0; j < count; j++)
			changes[j] = (struct thread_change){(uint64_t)nrand48(seed) % 1200,
							    nrand48(seed) % 2, nrand48(seed) % 2};
		missed_split(&TEN, changes, count, nrand48(seed) % 2, &split);
		assert_int_equal(split.before + split.after + split.slept + split.ran, TEN.count);
	}
}

static void those_between_two_times_are_counted(void **state)
{
	const uint64_t first = TEN.first_ns, period = TEN.period_ns;
	(void)state;
	const struct {
		uint64_t from, to, count;
	} times[] = {
		{0, 0, 0},
		{0, first - 1, 0},
		{0, first, 1},
		{first, first, 1},
		{first + 1, first + period - 1, 0},
		{first + 1, first + period, 1},
		{first, first + 9 * period, 10},
		{0, first + 1000 * period, 10},
		{first + 9 * period + 1, first + 1000 * period, 0},
		{first + period, first, 0},
	};
	for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++)
		assert_int_equal(missed_between(&TEN, times[i].from, times[i].to), times[i].count);
}

/* None has been missed yet. */
static void of_no_ticks_there_are_none(void **state)
{
	const struct missed_ticks none = {0};
	const struct thread_change change = {.time_ns = 5};
	struct missed_split split;
	(void)state;
	assert_int_equal(missed_between(&none, 1, 10), 0);
	missed_split(&none, &change, 1, true, &split);
	assert_int_equal(split.before + split.after + split.slept + split.ran, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_it_did_is_told_by_its_switches),
		cmocka_unit_test(all_ticks_are_counted_once),
		cmocka_unit_test(those_between_two_times_are_counted),
		cmocka_unit_test(of_no_ticks_there_are_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
