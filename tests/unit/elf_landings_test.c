/* SPDX-License-Identifier: MIT */
/* Where exceptions land, as the tables of compilers say it, and as none of theirs does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "elf/elf.h"

enum { AREA = 0x5000, START = 0x1000, END = 0x1100 };

struct area {
	struct memory_reader reader;
	const uint8_t *bytes;
	size_t size;
};

static bool read_area(const struct memory_reader *reader, remote_addr address, void *buffer,
		      size_t size, struct error *error)
{
	const struct area *const area = (const struct area *)reader;
	if (address < AREA || address - AREA > area->size || size > area->size - (address - AREA))
		return error_set(error, ERROR_ABSENT, "beyond the end");
	memcpy(buffer, area->bytes + (address - AREA), size);
	return true;
}

struct test_case {
	const char *name;
	uint8_t bytes[64];
	size_t size;
	bool bad;
	size_t count; /* of what is found, and the first of that */
	struct elf_landing first;
};

#define AREA_OF(...) .bytes = {__VA_ARGS__}, .size = sizeof((uint8_t[]){__VA_ARGS__})

static const struct test_case cases[] = {
	{"GCC's, with types", AREA_OF(0xff, 0x9b, 0x19, 1, 12, 0x1c, 5, 0, 0, 0x21, 0x2f, 0x6b, 0, 0x60, 5,
				      0x70, 1), .count = 2, .first = {0x1021, 0x1050, 0x106b}},
	{"without types", AREA_OF(0xff, 0xff, 1, 4, 4, 5, 9, 0), .count = 1,
	 .first = {0x1004, 0x1009, 0x1009}},
	{"numbers of four bytes", AREA_OF(0xff, 0xff, 3, 13, 4, 0, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0, 0),
	 .count = 1, .first = {0x1004, 0x1009, 0x1009}},
	{"numbers of two bytes", AREA_OF(0xff, 0xff, 2, 7, 4, 0, 5, 0, 9, 0, 0), .count = 1,
	 .first = {0x1004, 0x1009, 0x1009}},
	{"pads elsewhere, at an address", AREA_OF(3, 0, 0x20, 0, 0, 0xff, 1, 4, 4, 5, 9, 0), .count = 1,
	 .first = {0x1004, 0x1009, 0x2009}},
	{"pads elsewhere, from here", AREA_OF(0x1b, 0, 1, 0, 0, 0xff, 1, 4, 4, 5, 9, 0), .count = 1,
	 .first = {0x1004, 0x1009, 0x5001 + 0x100 + 9}},
	{"a long number", AREA_OF(0xff, 0xff, 1, 5, 4, 5, 0x89, 1, 0), .count = 1,
	 .first = {0x1004, 0x1009, 0x1089}},
	{"no sites", AREA_OF(0xff, 0xff, 1, 0)},
	{"up to the function's end", AREA_OF(0xff, 0xff, 1, 5, 0xf0, 1, 0x10, 9, 0), .count = 1,
	 .first = {0x10f0, 0x1100, 0x1009}},
	{"beyond the function's end", AREA_OF(0xff, 0xff, 1, 5, 0xf0, 1, 0x11, 9, 0), .bad = true},
	{"out of order", AREA_OF(0xff, 0xff, 1, 8, 8, 1, 9, 0, 4, 1, 9, 0), .bad = true},
	{"one within another", AREA_OF(0xff, 0xff, 1, 8, 4, 4, 9, 0, 6, 1, 9, 0), .bad = true},
	{"a site that is cut", AREA_OF(0xff, 0xff, 1, 6, 4, 5, 9, 0, 0x10, 1, 9, 0), .bad = true},
	{"an end that is missing", AREA_OF(0xff, 0xff, 1, 9, 4, 5, 9, 0), .bad = true},
	{"too long", AREA_OF(0xff, 0xff, 1, 0x81, 0x80, 0x10, 4, 5, 9, 0), .bad = true},
	{"a number without end", AREA_OF(0xff, 0xff, 1, 14, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
					 0x80, 0x80, 0x80, 0, 0, 0), .bad = true},
	{"a length that wraps", AREA_OF(0xff, 0xff, 1, 13, 4, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
					0xff, 1, 9, 0), .bad = true},
	{"numbers of no kind", AREA_OF(0xff, 0xff, 7, 4, 4, 5, 9, 0), .bad = true},
	{"pads from the data", AREA_OF(0x33, 0, 1, 0, 0, 0xff, 1, 4, 4, 5, 9, 0), .bad = true},
	{"nothing", .bad = true},
};

static bool read_case(const struct test_case *test, size_t size, struct elf_landings *landings)
{
	const struct area area = {{.read = read_area}, test->bytes, size};
	return elf_landings_read(landings, &area.reader, AREA, START, END);
}

static void tables_are_read_or_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct test_case *const test = &cases[i];
		struct elf_landings landings = {0};
		if (read_case(test, test->size, &landings) == test->bad)
			fail_msg("%s", test->name);
		if (landings.count != test->count ||
		    (test->count && memcmp(landings.items, &test->first, sizeof(test->first)) != 0))
			fail_msg("%s: %zu found", test->name, landings.count);
		elf_landings_release(&landings);
	}
}

static void tables_may_end_anywhere(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		for (size_t size = 0; size < cases[i].size; size++) {
			struct elf_landings landings = {0};
			assert_false(read_case(&cases[i], size, &landings));
			assert_null(landings.items);
		}
}

static void an_address_is_in_one_part_or_none(void **state)
{
	static const struct {
		uint64_t address, pad;
	} places[] = {{0x1000, 0}, {0x101c, 0}, {0x1020, 0}, {0x1021, 0x106b}, {0x104f, 0x106b},
		      {0x1050, 0}, {0x1060, 0x1070}, {0x1064, 0x1070}, {0x1065, 0}, {UINT64_MAX, 0}};
	struct elf_landings landings = {0};
	(void)state;
	assert_null(elf_landings_find(&landings, START));
	assert_true(read_case(&cases[0], cases[0].size, &landings));
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		const struct elf_landing *const found =
			elf_landings_find(&landings, places[i].address);
		assert_int_equal(found ? found->pad : 0, places[i].pad);
	}
	elf_landings_release(&landings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables_are_read_or_refused),
		cmocka_unit_test(tables_may_end_anywhere),
		cmocka_unit_test(an_address_is_in_one_part_or_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
