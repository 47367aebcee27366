/* SPDX-License-Identifier: MIT */
/* The rule that is found for an address is the one that is made for this address alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "unwind/internal.h"

enum { LOOKS = 20000, AREA = 8192 };

static struct module_table table;
static struct target *self;
static struct unwinder *unwinder, *anew;

static void expect_same(remote_addr address)
{
	const struct unwind_row *const row = row_find(unwinder, address);
	rows_flush(anew);
	const struct unwind_row *const alone = row_find(anew, address);
	assert_int_equal(row->kind, alone->kind);
	assert_int_equal(row->function, alone->function);
	assert_int_equal(row->signal_frame, alone->signal_frame);
	assert_ptr_equal(row->section, alone->section);
	if (row->kind != ROW_FOUND)
		return;
	assert_int_equal(unwinder->state_size, anew->state_size);
	assert_memory_equal(row->state, alone->state, anew->state_size);
	assert_ptr_equal(row_find(unwinder, address), row);
}

/* Of this program, and of the C library around two functions (the procedure linkage table's rule is
 * an expression; a function may have a part elsewhere). */
static void rows_hold_for_all_of_their_addresses(void **state)
{
	const uintptr_t areas[] = {(uintptr_t)expect_same, (uintptr_t)qsort, (uintptr_t)unw_step,
				   (uintptr_t)rows_hold_for_all_of_their_addresses};
	unsigned short seed[3] = {7, 7, 7};
	(void)state;
	for (int i = 0; i < LOOKS; i++) {
		const remote_addr area = areas[(size_t)i % (sizeof(areas) / sizeof(*areas))];
		expect_same(area - AREA / 2 + (remote_addr)(nrand48(seed) % AREA));
	}
	/* Most have been found without making a row. */
	assert_true(unwinder->row_count < LOOKS / 4);
	assert_true(unwinder->range_count > 100);
}

static void rows_are_made_anew_after_a_flush(void **state)
{
	(void)state;
	rows_flush(unwinder);
	assert_int_equal(unwinder->range_count, 0);
	expect_same((uintptr_t)qsort);
	expect_same((uintptr_t)qsort + 1);
}

static void nothing_is_found_outside_of_code(void **state)
{
	(void)state;
	assert_int_equal(row_find(unwinder, 8)->kind, ROW_UNMAPPED);
	assert_int_equal(row_find(unwinder, (uintptr_t)&table)->kind, ROW_NOT_CODE);
	expect_same(8);
	expect_same((uintptr_t)&table);
}

/* More than there is room for: what is found is what was put last, and the newest are there. */
static void answers_are_the_last_ones_or_none(void **state)
{
	enum { ADDRESSES = 100000, KEYS = 3, NEWEST = 1000, ROUNDS = 3 };
	struct answers answers = {0};
	uint32_t answer;
	size_t found = 0;
	(void)state;
	assert_false(answers_find(&answers, 0, ANSWER_ROW, &answer));
	for (uint32_t round = 0; round < ROUNDS; round++)
		for (uint32_t i = 0; i < ADDRESSES; i++)
			answers_put(&answers, i * UINT64_C(16), i % KEYS, i + round);
	for (uint32_t i = 0; i < ADDRESSES; i++) {
		for (uint32_t key = 0; key < KEYS; key++) {
			if (!answers_find(&answers, i * UINT64_C(16), key, &answer))
				continue;
			assert_int_equal(key, i % KEYS);
			assert_int_equal(answer, i + ROUNDS - 1);
			found++;
		}
		if (i >= ADDRESSES - NEWEST)
			assert_true(found > 0);
	}
	assert_in_range(found, 8192, 16384);
	/* Put again and again, it takes one place. */
	for (uint32_t i = 0; i < 100; i++)
		answers_put(&answers, 16, ANSWER_CALL, i);
	assert_true(answers_find(&answers, 16, ANSWER_CALL, &answer));
	assert_int_equal(answer, 99);
	answers_clear(&answers);
	assert_false(answers_find(&answers, 16, ANSWER_CALL, &answer));
	answers_release(&answers);
}

static int set_up(void **state)
{
	struct error error;
	(void)state;
	if (!target_open(getpid(), &self, &error))
		return -1;
	module_table_init(&table);
	if (!module_table_refresh(&table, self, NULL, &error))
		return -1;
	unwinder = unwinder_new(&table);
	anew = unwinder_new(&table);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unwinder_free(anew);
	unwinder_free(unwinder);
	module_table_release(&table);
	target_free(self);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_hold_for_all_of_their_addresses),
		cmocka_unit_test(rows_are_made_anew_after_a_flush),
		cmocka_unit_test(nothing_is_found_outside_of_code),
		cmocka_unit_test(answers_are_the_last_ones_or_none),
	};
	return cmocka_run_group_tests_name("unwind_row", tests, set_up, tear_down);
}
