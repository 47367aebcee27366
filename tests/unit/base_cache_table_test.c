/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cache_table.h"

/* More than there is room for: what is found is what was put last, and the newest are there. */
static void values_are_the_last_ones_or_none(void **state)
{
	enum { PAIRS = 100000, KEYS = 3, NEWEST = 1000, ROUNDS = 3 };
	struct cache_table table = {0};
	uint32_t value;
	size_t found = 0;
	(void)state;
	assert_false(cache_table_find(&table, 0, 0, &value));
	for (uint32_t round = 0; round < ROUNDS; round++)
		for (uint32_t i = 0; i < PAIRS; i++)
			cache_table_put(&table, i * UINT64_C(16), i % KEYS, i + round);
	for (uint32_t i = 0; i < PAIRS; i++) {
		for (uint32_t key = 0; key < KEYS; key++) {
			if (!cache_table_find(&table, i * UINT64_C(16), key, &value))
				continue;
			assert_int_equal(key, i % KEYS);
			assert_int_equal(value, i + ROUNDS - 1);
			found++;
		}
	}
	assert_in_range(found, 8192, 16384);
	for (uint32_t i = PAIRS - NEWEST; i < PAIRS; i++)
		assert_true(cache_table_find(&table, i * UINT64_C(16), i % KEYS, &value));
	/* Put again and again, it takes one place. */
	for (uint32_t i = 0; i < 100; i++)
		cache_table_put(&table, 16, 1, i);
	assert_true(cache_table_find(&table, 16, 1, &value));
	assert_int_equal(value, 99);
	cache_table_clear(&table);
	assert_false(cache_table_find(&table, 16, 1, &value));
	cache_table_release(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_the_last_ones_or_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
