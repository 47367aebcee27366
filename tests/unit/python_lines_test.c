/* SPDX-License-Identifier: MIT */
/* Line tables of every format, decoded by hand beside the bytes; and hostile ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "python/python.h"

struct line_case {
	const char *what;
	enum python_line_format format;
	const char *table;
	size_t size;
	int32_t instruction, line; /* the first line is always 10 */
};

#define TABLE(bytes) bytes, sizeof(bytes) - 1

/*
 * {6, 1} {8, 2} {0, 255} {0, 3} {255, 0} {4, 200}: 0-5 is 10, 6-13 is 11, from 14 on 11 + 2 + 255
 * + 3 = 271, from 14 + 255 + 4 = 273 on 471; where lines are signed, 11 + 2 - 1 + 3 = 15, then
 * 15 - 56 = -41.
 */
#define LNOTAB TABLE("\x06\x01\x08\x02\x00\xff\x00\x03\xff\x00\x04\xc8")

/* {6, +1} {4, no line} {2, -1} {0, +5} {4, +2}: 0-5 is 11, 6-9 none, 10-11 is 10, 12-15 is 17. */
#define OLD TABLE("\x06\x01\x04\x80\x02\xff\x00\x05\x04\x02")

/*
 * 0x80 ..: form 0, 1 unit, line + 0;     0x83 ..: form 0, 4 units;
 * 0xd9: form 11 (line + 1), 2 units, 2 columns;
 * 0xe8 0x05: form 13, 1 unit, svarint 5 = -2;
 * 0xf0 ...: form 14, 1 unit, svarint 0x42 0x03 = (2 | 3 << 6) = 194 -> +97, end, columns;
 * 0xf8: form 15, 1 unit, no location; 0xe8 0x00: form 13, 1 unit, + 0.
 */
#define NEW                                                                                        \
	TABLE("\x80\x00"                                                                           \
	      "\x83\x2c"                                                                           \
	      "\xd9\x01\x02"                                                                       \
	      "\xe8\x05"                                                                           \
	      "\xf0\x42\x03\x01\x01\x05"                                                           \
	      "\xf8"                                                                               \
	      "\xe8\x00")

static const struct line_case cases[] = {
	{"not started", PYTHON_LINES_UNSIGNED, LNOTAB, -1, 10},
	{"first line", PYTHON_LINES_UNSIGNED, LNOTAB, 0, 10},
	{"last of a range", PYTHON_LINES_UNSIGNED, LNOTAB, 5, 10},
	{"first of a range", PYTHON_LINES_UNSIGNED, LNOTAB, 6, 11},
	{"last of the next", PYTHON_LINES_UNSIGNED, LNOTAB, 13, 11},
	{"a delta in three pairs", PYTHON_LINES_UNSIGNED, LNOTAB, 14, 271},
	{"within addresses in two pairs", PYTHON_LINES_UNSIGNED, LNOTAB, 272, 271},
	{"behind addresses in two pairs", PYTHON_LINES_UNSIGNED, LNOTAB, 273, 471},
	{"beyond the table", PYTHON_LINES_UNSIGNED, LNOTAB, INT32_MAX, 471},
	{"half a pair", PYTHON_LINES_UNSIGNED, TABLE("\x00\x01\x00"), 5, 11},
	{"no table", PYTHON_LINES_UNSIGNED, "", 0, 7, 10},
	{"a pair at address 0", PYTHON_LINES_UNSIGNED, TABLE("\x00\x04"), 0, 14},
	{"a pair at address 0, not started", PYTHON_LINES_UNSIGNED, TABLE("\x00\x04"), -1, 10},

	{"not started", PYTHON_LINES_SIGNED, LNOTAB, -1, 10},
	{"last of a range", PYTHON_LINES_SIGNED, LNOTAB, 13, 11},
	{"a delta in three pairs", PYTHON_LINES_SIGNED, LNOTAB, 14, 15},
	{"line below zero", PYTHON_LINES_SIGNED, LNOTAB, 300, -41},
	{"lines go back", PYTHON_LINES_SIGNED, TABLE("\x02\x7f\x02\x80\x02\xff"), 6, 8},
	{"half a pair", PYTHON_LINES_SIGNED, TABLE("\x00"), 5, 10},
	{"no table", PYTHON_LINES_SIGNED, "", 0, 7, 10},

	{"not started", PYTHON_LINES_310, OLD, -1, 10},
	{"first range", PYTHON_LINES_310, OLD, 0, 11},
	{"last of a range", PYTHON_LINES_310, OLD, 4, 11},
	{"no line", PYTHON_LINES_310, OLD, 6, 0},
	{"negative delta after no line", PYTHON_LINES_310, OLD, 10, 10},
	{"empty range counts its delta", PYTHON_LINES_310, OLD, 12, 17},
	{"beyond the table", PYTHON_LINES_310, OLD, 16, 0},
	{"far beyond the table", PYTHON_LINES_310, OLD, INT32_MAX, 0},
	{"half a pair", PYTHON_LINES_310, TABLE("\x06"), 0, 0},
	{"no table", PYTHON_LINES_310, "", 0, 0, 0},

	{"not started", PYTHON_LINES_311, NEW, -1, 10},
	{"short form", PYTHON_LINES_311, NEW, 0, 10},
	{"short form, long run", PYTHON_LINES_311, NEW, 8, 10},
	{"one line form", PYTHON_LINES_311, NEW, 10, 11},
	{"one line form, its second unit", PYTHON_LINES_311, NEW, 12, 11},
	{"no columns, negative delta", PYTHON_LINES_311, NEW, 14, 9},
	{"long form, two-byte delta", PYTHON_LINES_311, NEW, 16, 106},
	{"no location", PYTHON_LINES_311, NEW, 18, 0},
	{"line goes on after no location", PYTHON_LINES_311, NEW, 20, 106},
	{"beyond the table", PYTHON_LINES_311, NEW, 22, 0},
	{"no table", PYTHON_LINES_311, "", 0, 0, 0},
	{"delta cut off", PYTHON_LINES_311, TABLE("\xe8"), 0, 10},
	{"delta that never ends", PYTHON_LINES_311, TABLE("\xe8\x7f\x7f\x7f\x7f\x7f\x7f"), 2, 0},
	{"delta of more than 32 bits", PYTHON_LINES_311,
	 TABLE("\xe8\x7e\x7f\x7f\x7f\x7f\x7f\x7f\x3f"), 0, INT32_MIN + 9},
	{"byte of a column that starts an entry", PYTHON_LINES_311, TABLE("\xd0\xe8\x04"), 0, 10},
};

/* A copy of the exact size, so that a read past its end is seen. */
static struct python_position position_in(enum python_line_format format, const char *bytes,
					  size_t size, int32_t instruction)
{
	uint8_t *table = malloc(size + (size == 0));
	memcpy(table, bytes, size);
	struct python_position position =
		python_position_of(format, table, size, 10, instruction);
	assert_int_equal(python_line_of(format, table, size, 10, instruction), position.line);
	free(table);
	return position;
}

static void lines_follow_the_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct line_case *c = &cases[i];
		int32_t line = position_in(c->format, c->table, c->size, c->instruction).line;
		if (line != c->line)
			fail_msg("%s (format %d): line %d, not %d", c->what, c->format, line,
				 c->line);
	}
}

struct position_case {
	const char *what;
	int32_t instruction;
	struct python_position position;
};

static const struct position_case positions[] = {
	{"not started", -1, {10, 0, -1, -1}},
	{"short form, no width", 0, {10, 10, 0, 0}},
	{"short form, 0x2c: column 2, 12 wide", 2, {10, 10, 2, 14}},
	{"one line form", 12, {11, 11, 1, 2}},
	{"no columns", 14, {9, 9, -1, -1}},
	{"long form: end line + 1, columns 0 and 4", 16, {106, 107, 0, 4}},
	{"no location", 18, {0, 0, -1, -1}},
	{"no columns again", 20, {106, 106, -1, -1}},
	{"beyond the table", 22, {0, 0, -1, -1}},
};

static void positions_follow_the_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(positions) / sizeof(*positions); i++) {
		const struct position_case *c = &positions[i];
		struct python_position is = position_in(PYTHON_LINES_311, NEW, c->instruction);
		if (memcmp(&is, &c->position, sizeof(is)) != 0)
			fail_msg("%s: %d, %d, %d, %d", c->what, is.line, is.end_line, is.column,
				 is.end_column);
	}
	/* Form 9, columns 9 << 3 | 7 and 15 more; then a long form of large columns, and none. */
	static const char far[] = "\xc8\x7f\xf0\x00\x00\x61\x02\x62\x02\xf0\x01\x00\x00\x00";
	struct python_position is = position_in(PYTHON_LINES_311, far, sizeof(far) - 1, 0);
	assert_int_equal(is.column, 79);
	assert_int_equal(is.end_column, 94);
	is = position_in(PYTHON_LINES_311, far, sizeof(far) - 1, 2);
	assert_int_equal(is.column, (0x21 | 2 << 6) - 1);
	assert_int_equal(is.end_column, (0x22 | 2 << 6) - 1);
	is = position_in(PYTHON_LINES_311, far, sizeof(far) - 1, 4);
	assert_int_equal(is.column, -1);
	assert_int_equal(is.end_column, -1);
}

static void tables_before_3_11_tell_lines_alone(void **state)
{
	(void)state;
	const struct python_position lnotab = {11, 0, -1, -1}, none = {0, 0, -1, -1};
	struct python_position is = position_in(PYTHON_LINES_UNSIGNED, LNOTAB, 6);
	assert_memory_equal(&is, &lnotab, sizeof(is));
	is = position_in(PYTHON_LINES_SIGNED, LNOTAB, 6);
	assert_memory_equal(&is, &lnotab, sizeof(is));
	is = position_in(PYTHON_LINES_310, OLD, 0);
	assert_memory_equal(&is, &lnotab, sizeof(is));
	is = position_in(PYTHON_LINES_310, OLD, 6);
	assert_memory_equal(&is, &none, sizeof(is));
}

static const enum python_line_format formats[] = {PYTHON_LINES_UNSIGNED, PYTHON_LINES_SIGNED,
						  PYTHON_LINES_310, PYTHON_LINES_311};

/* Whatever the bytes are, decoding ends and stays inside of them. */
static void lines_of_random_tables_end(void **state)
{
	(void)state;
	uint32_t seed = 1;
	for (int round = 0; round < 20000; round++) {
		size_t size = (size_t)round % 40;
		uint8_t *exact = malloc(size + (size == 0));
		for (size_t i = 0; i < size; i++) {
			seed = seed * 1664525 + 1013904223;
			exact[i] = (uint8_t)(seed >> 24);
		}
		for (int32_t at = -1; at < 200; at += 7)
			for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
				(void)python_line_of(formats[i], exact, size, INT32_MAX, at);
				(void)python_line_of(formats[i], exact, size, INT32_MIN, at);
			}
		free(exact);
	}
}

/* The worst that a table can be made of: one walk through it, and no more. */
static void huge_tables_of_one_byte_end(void **state)
{
	(void)state;
	enum { SIZE = 16 << 20 };
	static const uint8_t worst[] = {0x00, 0x01, 0x7f, 0x80, 0xe8, 0xf0, 0xff};
	uint8_t *table = malloc(SIZE);
	for (size_t i = 0; i < sizeof(worst); i++) {
		memset(table, worst[i], SIZE);
		for (size_t f = 0; f < sizeof(formats) / sizeof(*formats); f++)
			(void)python_position_of(formats[f], table, SIZE, 1, INT32_MAX);
	}
	free(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_follow_the_table),
		cmocka_unit_test(positions_follow_the_table),
		cmocka_unit_test(tables_before_3_11_tell_lines_alone),
		cmocka_unit_test(lines_of_random_tables_end),
		cmocka_unit_test(huge_tables_of_one_byte_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
