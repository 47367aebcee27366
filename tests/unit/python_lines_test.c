/* SPDX-License-Identifier: MIT */
/* Line tables of CPython 3.10 and 3.11+, decoded by hand beside the bytes. */
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
};

static void lines_follow_the_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct line_case *c = &cases[i];
		/* A copy of the exact size, so that a read past its end is seen. */
		uint8_t *table = malloc(c->size + (c->size == 0));
		memcpy(table, c->table, c->size);
		int32_t line = python_line_of(c->format, table, c->size, 10, c->instruction);
		free(table);
		if (line != c->line)
			fail_msg("%s (format %d): line %d, not %d", c->what, c->format, line,
				 c->line);
	}
}

/* Whatever the bytes are, decoding ends and stays inside of them. */
static void lines_of_random_tables_end(void **state)
{
	(void)state;
	uint32_t seed = 1;
	for (int round = 0; round < 20000; round++) {
		size_t size = (size_t)round % 40;
		uint8_t *table = malloc(size + 1);
		for (size_t i = 0; i < size; i++) {
			seed = seed * 1664525 + 1013904223;
			table[i] = (uint8_t)(seed >> 24);
		}
		uint8_t *exact = malloc(size + (size == 0));
		memcpy(exact, table, size);
		for (int32_t at = -1; at < 200; at += 7) {
			(void)python_line_of(PYTHON_LINES_310, exact, size, INT32_MAX, at);
			(void)python_line_of(PYTHON_LINES_311, exact, size, INT32_MIN, at);
		}
		free(exact);
		free(table);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_follow_the_table),
		cmocka_unit_test(lines_of_random_tables_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
