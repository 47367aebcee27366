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
	assert_int_equal(unwinder->store.state_size, anew->store.state_size);
	assert_memory_equal(row->state, alone->state, anew->store.state_size);
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
	assert_true(unwinder->store.row_count < LOOKS / 4);
	assert_true(unwinder->store.range_count > 100);
}

static void rows_are_made_anew_after_a_flush(void **state)
{
	(void)state;
	rows_flush(unwinder);
	assert_int_equal(unwinder->store.range_count, 0);
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
	};
	return cmocka_run_group_tests_name("unwind_row", tests, set_up, tear_down);
}
