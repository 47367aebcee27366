/* SPDX-License-Identifier: MIT */
/* Where our threads run: each step is taken once, and what is not there is refused. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "copy/placement.h"

/* On the stack of a thread, where anything may have been before. */
static void all_of_it_is_set_at_the_start(void **state)
{
	(void)state;
	struct placement placement;
	memset(&placement, 0xff, sizeof(placement));
	placement_init(&placement);
	unsigned char off;
	memcpy(&off, &placement.off, sizeof(off));
	assert_int_equal(off, 0);
	assert_int_equal(placement.cpu, -1);
	assert_true(placement.known);
	/* It runs on any CPU already: nothing to do. */
	assert_true(placement_stay_on(&placement, -1));
	assert_false(placement_stay_off(&placement, CPU_SETSIZE));
}

static void a_thread_rests_for_as_long_as_it_has_worked(void **state)
{
	struct promptness promptness;
	(void)state;
	placement_run_soon(&promptness);
	const uint64_t now_ns = promptness.rested_ns + 1000000;
	promptness.cpu_ns -= 1000000;
	/* All the while: half of that is over. */
	const uint64_t until_ns = placement_rest_until(&promptness, now_ns);
	assert_true(until_ns >= now_ns + 1000000);
	assert_true(until_ns < now_ns + 1000000 + 100000000);
	/* When it has rested, it owes nothing. */
	promptness.spare_ns = -500000;
	promptness.cpu_ns -= 1000;
	assert_true(placement_rest_until(&promptness, until_ns + 200000000) ==
		    until_ns + 200000000);
}

/* Else the few ticks that take longer than others would cost samples. */
static void a_thread_that_works_little_does_not_rest(void **state)
{
	struct promptness promptness;
	(void)state;
	placement_run_soon(&promptness);
	uint64_t now_ns = promptness.rested_ns + 1000000000;
	assert_true(placement_rest_until(&promptness, now_ns) == now_ns);
	now_ns += 100000;
	promptness.cpu_ns -= 2000000;
	assert_true(placement_rest_until(&promptness, now_ns) == now_ns);
	/* A long rest before does not let it work for long. */
	now_ns += UINT64_C(60000000000);
	promptness.cpu_ns -= 20000000;
	assert_true(placement_rest_until(&promptness, now_ns) > now_ns);
}

/* Where it may be one at all. */
static void a_real_time_thread_that_uses_much_of_its_cpu_leaves_others_their_turn(void **state)
{
	const uint64_t check_ns = 100000000;
	struct promptness promptness;
	(void)state;
	placement_run_soon(&promptness);
	if (!promptness.real_time)
		return;
	assert_int_equal(sched_getscheduler(0), SCHED_FIFO | SCHED_RESET_ON_FORK);
	promptness.checked_cpu_ns -= check_ns / 5;
	placement_rest_until(&promptness, promptness.checked_ns + check_ns);
	assert_true(promptness.real_time);
	promptness.checked_cpu_ns -= check_ns / 3;
	placement_rest_until(&promptness, promptness.checked_ns + check_ns - 1);
	assert_true(promptness.real_time);
	placement_rest_until(&promptness, promptness.checked_ns + check_ns);
	assert_false(promptness.real_time);
	assert_int_equal(sched_getscheduler(0) & ~SCHED_RESET_ON_FORK, SCHED_OTHER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_of_it_is_set_at_the_start),
		cmocka_unit_test(a_thread_rests_for_as_long_as_it_has_worked),
		cmocka_unit_test(a_thread_that_works_little_does_not_rest),
		cmocka_unit_test(
			a_real_time_thread_that_uses_much_of_its_cpu_leaves_others_their_turn),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
