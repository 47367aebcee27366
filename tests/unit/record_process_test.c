/* SPDX-License-Identifier: MIT */
/* When a process is looked into again: one without an interpreter, one that loads libraries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "record/process.h"

static const uint64_t MS = 1000000;

static uint64_t interval(const struct process *process, uint64_t age)
{
	return process_reopen_interval(process, process->met_ns + age);
}

static void one_that_waits_to_be_initialised_is_looked_into_soon(void **state)
{
	(void)state;
	const struct process command = {
		.given = true, .unready = true, .met_ns = MS, .open_cost_ns = 4 * MS};
	const struct process child = {.unready = true, .met_ns = MS, .open_cost_ns = MS / 10};
	assert_int_equal(interval(&command, 4 * MS), 4 * MS);
	assert_int_equal(interval(&child, MS), MS);
	assert_int_equal(interval(&child, 12 * MS), 3 * MS);
}

static void one_that_never_is_costs_less_and_less(void **state)
{
	(void)state;
	const struct process process = {
		.given = true, .unready = true, .met_ns = MS, .open_cost_ns = MS};
	unsigned tries = 0;
	for (uint64_t age = 0; age < 60000 * MS; age += interval(&process, age))
		tries++;
	assert_in_range(tries, 10, 60);
	assert_int_equal(interval(&process, 1000000 * MS), 10000 * MS);
	const struct process costly = {
		.given = true, .unready = true, .met_ns = MS, .open_cost_ns = 500 * MS};
	assert_int_equal(interval(&costly, 2000 * MS), 4000 * MS);
}

static void one_without_an_interpreter_takes_a_part_of_the_time(void **state)
{
	(void)state;
	const struct process given = {.given = true, .met_ns = MS, .open_cost_ns = 4 * MS};
	const struct process child = {.met_ns = MS, .open_cost_ns = MS};
	assert_int_equal(interval(&given, 4 * MS), 4 * MS); /* not mapped yet, maybe */
	assert_int_equal(interval(&given, 40 * MS), 10 * MS);
	assert_int_equal(interval(&given, 100 * MS), 32 * MS);
	assert_int_equal(interval(&child, 40 * MS), 10 * MS);
	assert_int_equal(interval(&child, 800 * MS), 100 * MS);
}

/* All that are due within so long, each of which takes `cost`. */
static unsigned refreshes(struct process *process, uint64_t from, uint64_t ns, uint64_t cost)
{
	unsigned count = 0;
	for (uint64_t now = from; now < from + ns; now += MS / 10)
		if (process_refresh_is_due(process, REFRESH_UNKNOWN_CODE, now)) {
			process_charge_refresh(process, now, cost);
			now += cost;
			count++;
		}
	return count;
}

static void a_library_loaded_after_a_costly_first_look_is_seen(void **state)
{
	(void)state;
	const uint64_t start = 5000 * MS;
	struct process process = {0};
	assert_true(process_refresh_is_due(&process, REFRESH_REGULAR, start));
	process_charge_refresh(&process, start, 30 * MS);
	assert_true(process_refresh_is_due(&process, REFRESH_UNKNOWN_CODE, start + 30 * MS));
	assert_false(process_refresh_is_due(&process, REFRESH_REGULAR, start + 900 * MS));
	assert_true(process_refresh_is_due(&process, REFRESH_REGULAR, start + 1000 * MS));
}

static void code_that_stays_unknown_is_looked_for_less_often(void **state)
{
	(void)state;
	const uint64_t start = 5000 * MS;
	struct process process = {0};
	process_charge_refresh(&process, start, MS / 10);
	assert_true(process_refresh_is_due(&process, REFRESH_UNKNOWN_CODE, start + MS));
	process_note_refresh(&process, REFRESH_UNKNOWN_CODE, false);
	assert_false(process_refresh_is_due(&process, REFRESH_UNKNOWN_CODE, start + MS));
	assert_true(process_refresh_is_due(&process, REFRESH_UNKNOWN_CODE, start + 2 * MS));
	assert_false(process_refresh_is_due(&process, REFRESH_STACK_END, start + MS));
	process_note_refresh(&process, REFRESH_UNKNOWN_CODE, false);
	assert_false(process_refresh_is_due(&process, REFRESH_UNKNOWN_CODE, start + 2 * MS));
	assert_true(process_refresh_is_due(&process, REFRESH_STACK_END, start + 2 * MS));
	for (unsigned i = 0; i < 100; i++)
		process_note_refresh(&process, REFRESH_UNKNOWN_CODE, false);
	assert_false(process_refresh_is_due(&process, REFRESH_UNKNOWN_CODE, start + 63 * MS));
	assert_true(process_refresh_is_due(&process, REFRESH_UNKNOWN_CODE, start + 64 * MS));
	process_note_refresh(&process, REFRESH_REGULAR, true);
	assert_true(process_refresh_is_due(&process, REFRESH_UNKNOWN_CODE, start + MS));
}

static void what_waits_at_the_end_is_looked_for_as_well(void **state)
{
	(void)state;
	const uint64_t start = 5000 * MS;
	struct process process = {0};
	atomic_store(&process.ending, true);
	assert_true(process_refresh_is_due(&process, REFRESH_REGULAR, start));
	process_charge_refresh(&process, start, MS / 10);
	assert_true(process_refresh_is_due(&process, REFRESH_UNKNOWN_CODE, start + MS));
	assert_false(process_refresh_is_due(&process, REFRESH_STACK_END, start + 9000 * MS));
	assert_false(process_refresh_is_due(&process, REFRESH_REGULAR, start + 9000 * MS));
}

static void refreshes_have_a_part_of_the_time_on_the_whole(void **state)
{
	(void)state;
	static const uint64_t costs[] = {1, 5, 30, 400};
	for (size_t i = 0; i < sizeof(costs) / sizeof(*costs); i++) {
		const uint64_t cost = costs[i] * MS;
		struct process process = {0};
		const unsigned first = refreshes(&process, 5000 * MS, 400 * MS, cost);
		const unsigned later = refreshes(&process, 5400 * MS + cost, 100000 * MS, cost);
		assert_in_range(first * cost, cost, 2 * 400 * MS / 8 + cost);
		assert_in_range(later * cost, 100000 * MS / 8 - cost, 100000 * MS / 8 + cost);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_waits_to_be_initialised_is_looked_into_soon),
		cmocka_unit_test(one_that_never_is_costs_less_and_less),
		cmocka_unit_test(one_without_an_interpreter_takes_a_part_of_the_time),
		cmocka_unit_test(a_library_loaded_after_a_costly_first_look_is_seen),
		cmocka_unit_test(code_that_stays_unknown_is_looked_for_less_often),
		cmocka_unit_test(what_waits_at_the_end_is_looked_for_as_well),
		cmocka_unit_test(refreshes_have_a_part_of_the_time_on_the_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
