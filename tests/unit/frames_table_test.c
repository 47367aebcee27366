/* SPDX-License-Identifier: MIT */
/* Which sampled frames are one and the same, and which are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "frames/frames.h"

static const struct python_code codes[2];

static uint32_t add(struct frame_table *table, bool exact, size_t code, int32_t line,
		    int32_t instruction)
{
	const struct raw_frame frame = {.kind = RAW_PYTHON,
					.exact = exact,
					.code = &codes[code],
					.position = {.line = line},
					.instruction = instruction};
	return frame_table_python(table, &frame);
}

static void recordings_tell_python_frames_apart_by_line(void **state)
{
	(void)state;
	struct frame_table table = {0};
	uint32_t first = add(&table, false, 0, 10, 4);
	assert_int_equal(add(&table, false, 0, 10, 20), first);
	assert_int_not_equal(add(&table, false, 0, 11, 20), first);
	assert_int_not_equal(add(&table, false, 1, 10, 4), first);
	assert_int_equal(table.count, 3);
	frame_table_release(&table);
}

static void dumps_tell_them_apart_by_instruction(void **state)
{
	(void)state;
	struct frame_table table = {0};
	uint32_t first = add(&table, true, 0, 10, 4);
	uint32_t second = add(&table, true, 0, 10, 20);
	assert_int_not_equal(second, first);
	assert_int_equal(add(&table, true, 0, 10, 4), first);
	assert_int_not_equal(add(&table, true, 0, 10, -1), first); /* not started */
	assert_int_not_equal(add(&table, true, 1, 10, 4), first);
	/* An instruction is no line. */
	assert_int_not_equal(add(&table, false, 0, 4, 10), first);
	assert_int_equal(table.frames[second].instruction, 20);
	assert_int_equal(table.count, 5);
	frame_table_release(&table);
}

static void where_a_function_begins_tells_no_frames_apart(void **state)
{
	(void)state;
	struct frame_table table = {0};
	struct module module = {.id = 1};
	struct raw_frame frame = {.kind = RAW_NATIVE, .module = &module, .offset = 0x1010};
	const uint32_t first = frame_table_native(&table, &frame);
	assert_int_equal(table.frames[first].function, 0);
	frame.function = 0x1000;
	assert_int_equal(frame_table_native(&table, &frame), first);
	assert_int_equal(table.frames[first].function, 0x1000);
	frame.function = 0;
	assert_int_equal(frame_table_native(&table, &frame), first);
	assert_int_equal(table.frames[first].function, 0x1000);
	assert_int_equal(table.count, 1);
	frame_table_release(&table);
}

static void where_nothing_was_unreadable_is_believed(void **state)
{
	(void)state;
	struct frame_table table = {0};
	struct module module = {.id = 1};
	struct raw_frame frame = {
		.kind = RAW_NATIVE, .module = &module, .offset = 0x1080, .function = 0x1020};
	const uint32_t first = frame_table_native(&table, &frame);
	frame.certain = true;
	frame.function = 0x1060;
	assert_int_equal(frame_table_native(&table, &frame), first);
	assert_int_equal(table.frames[first].function, 0x1060);
	frame.certain = false;
	frame.function = 0x1020;
	assert_int_equal(frame_table_native(&table, &frame), first);
	assert_int_equal(table.frames[first].function, 0x1060);
	frame_table_release(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recordings_tell_python_frames_apart_by_line),
		cmocka_unit_test(dumps_tell_them_apart_by_instruction),
		cmocka_unit_test(where_a_function_begins_tells_no_frames_apart),
		cmocka_unit_test(where_nothing_was_unreadable_is_believed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
