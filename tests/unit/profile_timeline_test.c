/* SPDX-License-Identifier: MIT */
/* Timed samples: runs, gaps, repeats, and which are a thread's. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "profile/profile.h"

enum { PERIOD = 10 };
static struct timeline timeline;

static int start(void **state)
{
	(void)state;
	timeline_init(&timeline, 1e9 / PERIOD);
	assert_int_equal(timeline.period_ns, PERIOD);
	for (pid_t tid = 1; tid <= 2; tid++)
		timeline_thread(&timeline, &(struct profile_thread){.tid = tid});
	return 0;
}

static int stop(void **state)
{
	(void)state;
	timeline_release(&timeline);
	return 0;
}

static void add(uint32_t thread, uint32_t node, uint64_t time_ns)
{
	timeline_add(&timeline, &(struct profile_sample){time_ns, node, thread, 1, 0});
}

/* "time x count" of each run of a thread. */
struct expected {
	uint64_t time_ns;
	uint32_t count;
};

static void assert_runs(uint32_t thread, const struct expected *expected, size_t count)
{
	struct timeline_order order;
	timeline_order_init(&order, &timeline);
	assert_int_equal(order.first[thread + 1] - order.first[thread], count);
	for (size_t i = 0; i < count; i++) {
		const struct profile_sample *run =
			&timeline.samples[order.runs[order.first[thread] + i]];
		assert_int_equal(run->thread, thread);
		assert_int_equal(run->time_ns, expected[i].time_ns);
		assert_int_equal(run->count, expected[i].count);
	}
	timeline_order_release(&order);
}

#define ASSERT_RUNS(thread, ...)                                                                   \
	assert_runs(thread, (const struct expected[]){__VA_ARGS__},                                \
		    sizeof((const struct expected[]){__VA_ARGS__}) / sizeof(struct expected))

static void equal_samples_in_a_row_are_one_run(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 5; i++) {
		add(0, 7, 100 + i * PERIOD + i % 3); /* not quite at the ticks */
		add(1, i, 100 + i * PERIOD);
	}
	ASSERT_RUNS(0, {100, 5});
	ASSERT_RUNS(1, {100, 1}, {110, 1}, {120, 1}, {130, 1}, {140, 1});
}

static void another_stack_or_flag_ends_a_run(void **state)
{
	(void)state;
	add(0, 7, 100);
	add(0, 8, 110);
	timeline_add(&timeline, &(struct profile_sample){120, 8, 0, 1, SAMPLE_GC});
	ASSERT_RUNS(0, {100, 1}, {110, 1}, {120, 1});
}

static void what_is_behind_a_gap_is_another_run(void **state)
{
	(void)state;
	add(0, 7, 100);
	add(0, 7, 115); /* a tick is at most a quarter late, and it takes a while */
	add(0, 7, 122);
	add(0, 7, 140);
	ASSERT_RUNS(0, {100, 3}, {140, 1});
	assert_int_equal(timeline_end_ns(&timeline, &timeline.samples[0], &timeline.samples[1]),
			 130);
	assert_int_equal(timeline_end_ns(&timeline, &timeline.samples[1], NULL), 150);
}

static void a_run_ends_where_the_next_one_starts(void **state)
{
	(void)state;
	add(0, 7, 100);
	add(0, 8, 106);
	assert_int_equal(timeline_end_ns(&timeline, &timeline.samples[0], &timeline.samples[1]),
			 106);
}

static void repeats_lengthen_the_last_run(void **state)
{
	(void)state;
	add(0, 7, 100);
	timeline_repeat(&timeline, 0, 3, 130);
	timeline_repeat(&timeline, 0, 2, 151);
	ASSERT_RUNS(0, {100, 6});
	timeline_repeat(&timeline, 0, 2, 260); /* nothing was known of it from 151 to 250 */
	ASSERT_RUNS(0, {100, 6}, {250, 2});
}

static void repeats_before_the_sample_move_its_start(void **state)
{
	(void)state;
	add(0, 6, 100);
	add(0, 7, 140);
	timeline_repeat(&timeline, 0, 2, 130);
	ASSERT_RUNS(0, {100, 1}, {120, 3});
	timeline_repeat(&timeline, 0, 3, 150); /* two of them before it, one behind it */
	ASSERT_RUNS(0, {100, 1}, {100, 6});
}

static void a_threads_times_never_go_back(void **state)
{
	(void)state;
	add(0, 7, 100);
	timeline_repeat(&timeline, 0, 3, 130);
	add(0, 8, 120);
	ASSERT_RUNS(0, {100, 4}, {130, 1});
}

static void samples_beyond_the_bound_are_counted(void **state)
{
	(void)state;
	timeline.most = 2;
	add(0, 7, 100);
	add(0, 8, 110);
	add(0, 9, 120);
	timeline_repeat(&timeline, 0, 4, 160); /* of one that is lost */
	add(1, 9, 120);
	timeline_repeat(&timeline, 1, 2, 140);
	ASSERT_RUNS(0, {100, 1}, {110, 1});
	assert_int_equal(timeline.lost, 8);
}

static void runs_that_become_equal_are_one(void **state)
{
	(void)state;
	struct timeline mapped;
	const uint32_t nodes[] = {0, 5, 5, 6};
	add(0, 1, 100);
	add(1, 1, 100);
	add(0, 2, 110);
	add(0, 3, 120);
	timeline.lost = 3;
	timeline_map(&mapped, &timeline, nodes);
	timeline_release(&timeline);
	timeline = mapped;
	ASSERT_RUNS(0, {100, 2}, {120, 1});
	ASSERT_RUNS(1, {100, 1});
	assert_int_equal(timeline.samples[0].node, 5);
	assert_int_equal(timeline.lost, 3);
}

static void no_rate_is_none_to_divide_by(void **state)
{
	(void)state;
	const double rates[] = {0, -1, 1e300, 0.0 / 0.0, 1e-300};
	for (size_t i = 0; i < sizeof(rates) / sizeof(*rates); i++) {
		timeline_release(&timeline);
		timeline_init(&timeline, rates[i]);
		assert_in_range(timeline.period_ns, 1, UINT64_C(1000000000000000));
	}
}

static void an_empty_timeline_has_no_runs(void **state)
{
	(void)state;
	struct timeline_order order;
	struct timeline none = {0};
	timeline_order_init(&order, &none);
	assert_int_equal(order.first[0], 0);
	timeline_order_release(&order);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
	const struct CMUnitTest tests[] = {
		TEST(equal_samples_in_a_row_are_one_run),
		TEST(another_stack_or_flag_ends_a_run),
		TEST(what_is_behind_a_gap_is_another_run),
		TEST(a_run_ends_where_the_next_one_starts),
		TEST(repeats_lengthen_the_last_run),
		TEST(repeats_before_the_sample_move_its_start),
		TEST(a_threads_times_never_go_back),
		TEST(samples_beyond_the_bound_are_counted),
		TEST(runs_that_become_equal_are_one),
		TEST(no_rate_is_none_to_divide_by),
		TEST(an_empty_timeline_has_no_runs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
