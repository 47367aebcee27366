/* SPDX-License-Identifier: MIT */
/* Periods of CPU time: none is lost, none counts twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "record/cpu_time.h"

static void periods_add_up_to_the_nearest(void **state)
{
	(void)state;
	static const uint64_t used_ns[] = {0,	     4999999, 5000000,	 14999999,
					   15000000, 3,	      912345678, 1234567891234};
	for (size_t i = 0; i < sizeof(used_ns) / sizeof(*used_ns); i++) {
		/* At once, and in parts that are no whole periods. */
		struct thread_tally once = {.owed_ns = used_ns[i]}, parts = {0};
		const uint64_t nearest = (used_ns[i] + 5000000) / 10000000;
		assert_int_equal(cpu_time_periods(&once, 100), nearest);
		uint64_t sum = 0;
		for (uint64_t n = 0; n < 7; n++) {
			parts.owed_ns += used_ns[i] / 7 + (n == 0 ? used_ns[i] % 7 : 0);
			sum += cpu_time_periods(&parts, 100);
			parts.seen = true;
		}
		assert_int_equal(sum, nearest);
		assert_in_range(parts.owed_ns, 0, 9999999);
	}
}

static void a_thread_that_has_ended_has_used_nothing_more(void **state)
{
	(void)state;
	struct watched_thread watched = {.cpu_ns = 5};
	assert_int_equal(cpu_time_since(&watched), 0);
	assert_int_equal(watched.cpu_ns, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(periods_add_up_to_the_nearest),
		cmocka_unit_test(a_thread_that_has_ended_has_used_nothing_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
