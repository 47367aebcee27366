/* SPDX-License-Identifier: MIT */
/* Numbers found by their keys, whatever hashes the keys have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/id_table.h"
#include "base/table.h"

enum { COUNT = 5000 };

typedef uint64_t (*hash_of)(uint64_t key);

static uint64_t spread(uint64_t key)
{
	return hash_pair(key, 7);
}

static uint64_t all_the_same(uint64_t key)
{
	(void)key;
	return 0xffffffffffffffffu;
}

/* A table that is full of runs, and those wrap round at its end. */
static uint64_t few(uint64_t key)
{
	return key % 16 - 8;
}

/* What number a key has, when number i's key is 3 * i; -1: it is not there. */
static int64_t number_of(const struct id_table *table, hash_of hash, uint64_t key)
{
	struct id_search search = id_table_search(table, hash(key));
	uint32_t id;
	while (id_table_next(table, &search, &id))
		if (UINT64_C(3) * id == key)
			return id;
	return -1;
}

static void assert_holds(hash_of hash, uint32_t count)
{
	struct id_table table = {0};
	assert_int_equal(number_of(&table, hash, 0), -1);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(number_of(&table, hash, 3 * i), -1);
		id_table_add(&table, hash(3 * i), i);
	}
	assert_int_equal(table.count, count);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(number_of(&table, hash, 3 * i), i);
		assert_int_equal(number_of(&table, hash, 3 * i + 1), -1);
	}
	id_table_clear(&table);
	assert_int_equal(table.count, 0);
	assert_int_equal(number_of(&table, hash, 3), -1);
	id_table_add(&table, hash(3), 1);
	assert_int_equal(number_of(&table, hash, 3), 1);
	id_table_release(&table);
}

static void every_number_is_found_and_no_other(void **state)
{
	(void)state;
	assert_holds(spread, COUNT);
	assert_holds(few, COUNT / 4);
	assert_holds(all_the_same, COUNT / 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_number_is_found_and_no_other),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
