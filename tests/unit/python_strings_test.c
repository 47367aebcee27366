/* SPDX-License-Identifier: MIT */
/* str objects of every kind, as each version lays them out, sound and hostile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "python/internal.h"

enum { OBJECT = 4096, ELSEWHERE = 8192, TYPE = 1 << 19, MEMORY = 1 << 20 };

struct flat_memory {
	struct memory_reader reader;
	uint8_t *bytes;
};

static bool read_flat(const struct memory_reader *reader, remote_addr address, void *buffer,
		      size_t size, struct error *error)
{
	const struct flat_memory *memory = (const struct flat_memory *)reader;
	if (address > MEMORY || size > MEMORY - address)
		return error_set(error, ERROR_GONE, "not mapped");
	memcpy(buffer, memory->bytes + address, size);
	return true;
}

static void put_u64(uint8_t *bytes, size_t at, uint64_t value)
{
	memcpy(bytes + at, &value, 8);
}

/* An object of nothing but its type, which has these flags. */
static void put_object(const struct python_layout *layout, uint8_t *bytes, uint64_t flags)
{
	memset(bytes, 0, MEMORY);
	put_u64(bytes, OBJECT + layout->object_type, TYPE);
	put_u64(bytes, TYPE + layout->type_flags, flags);
}

static void expect_text(const struct python_layout *layout, const struct flat_memory *memory,
			const char *what, const char *expected)
{
	struct strbuf text;
	struct error error = {0};
	strbuf_init(&text);
	if (!python_string_read(layout, &memory->reader, OBJECT, &text, &error) ||
	    strcmp(text.text, expected) != 0)
		fail_msg("%u.%u%s, %s: \"%s\", %s", layout->major, layout->minor,
			 layout->free_threaded ? "t" : "", what, text.text, error.message);
	/* Names are looked for by their length first, which is known of ASCII alone. */
	bool ascii = true;
	for (const char *at = expected; *at; at++)
		ascii &= (unsigned char)*at < 0x80;
	assert_true(python_is_string(layout, &memory->reader, OBJECT));
	assert_true(!ascii || python_string_is(layout, &memory->reader, OBJECT, expected));
	assert_false(python_string_is(layout, &memory->reader, OBJECT, "other"));
	strbuf_release(&text);
}

static void expect_none(const struct python_layout *layout, const struct flat_memory *memory,
			enum error_kind kind)
{
	struct strbuf text;
	struct error error = {0};
	strbuf_init(&text);
	assert_false(python_string_read(layout, &memory->reader, OBJECT, &text, &error));
	assert_int_equal(error.kind, kind);
	assert_int_equal(text.size, 0);
	strbuf_release(&text);
}

/* ---- 3.3 and later ---- */

/* PyASCIIObject.state without the interned field: kind in 0-2, compact 3, ASCII 4. */
enum { COMPACT_STATE = 1 << 3, ASCII_STATE = COMPACT_STATE | 1 << 4 };

struct string_case {
	const char *what;
	uint32_t state; /* without the kind */
	unsigned kind;
	const void *data;
	size_t length; /* code points */
	const char *text;
};

static const uint16_t greek[] = {0x3ba, 0xd800, 0xdc00, 'x'};
static const uint32_t snake[] = {0x1f40d, 'y', 0x110000};

/* "unicode\xf0\x9f\x92\xbb.py" and others, by surrogateescape */
static const uint16_t escaped[] = {'u', 0xdcf0, 0xdc9f, 0xdc92, 0xdcbb, '.', 'p', 'y'};
static const uint32_t wide_escaped[] = {0x1f40d, 0xdcf0, 0xdc9f, 0xdc92, 0xdcbb, 0xdcc3};
static const uint16_t latin[] = {'c', 0xdce9, '/', 0xdcc3, 0xe9, 0xdcc3, 0xdcbc};
static const uint16_t no_bytes[] = {0xdc7f, 0xdc41, 0xdd00, 0xd880, 0xdcff, 0xdc80};
static const uint16_t bad_bytes[] = {0xdcc0, 0xdcaf, 0xdced, 0xdcb2, 0xdc80, 0xdcc2, 0xdc85};

static const struct string_case cases[] = {
	{"ASCII", ASCII_STATE, 1, "Hopper.go", 9, "Hopper.go"},
	{"empty", ASCII_STATE, 1, "", 0, ""},
	{"Latin-1", COMPACT_STATE, 1, "caf\xe9", 4, "caf\xc3\xa9"},
	{"two bytes, with surrogates, which make no pair", COMPACT_STATE, 2, greek, 4,
	 "\xce\xba\xef\xbf\xbd\xef\xbf\xbdx"},
	{"four bytes, with no code point", COMPACT_STATE, 4, snake, 3,
	 "\xf0\x9f\x90\x8dy\xef\xbf\xbd"},
	{"not compact", 0, 1, "legacy\n", 7, "legacy "},
	{"two bytes, with escaped bytes", COMPACT_STATE, 2, escaped, 8, "u\xf0\x9f\x92\xbb.py"},
	{"the same, not compact", 0, 2, escaped, 8, "u\xf0\x9f\x92\xbb.py"},
	{"four bytes, with escaped bytes, the last one too few", COMPACT_STATE, 4, wide_escaped, 6,
	 "\xf0\x9f\x90\x8d\xf0\x9f\x92\xbb\xef\xbf\xbd"},
	{"bytes that are no UTF-8, also beside text that is", COMPACT_STATE, 2, latin, 7,
	 "c\xef\xbf\xbd/\xef\xbf\xbd\xc3\xa9\xc3\xbc"},
	{"surrogates that stand for no byte, and bytes that are no text", COMPACT_STATE, 2,
	 no_bytes, 6, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
	{"overlong, a surrogate, a control character", COMPACT_STATE, 2, bad_bytes, 7,
	 "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd "},
};

static void put_state(const struct python_layout *layout, uint8_t *bytes, uint32_t state)
{
	bool byte = layout->string_form == STRINGS_COMPACT_BYTE_STATE;
	/* Interned, in whichever way: three in two bits, and what a byte has room for. */
	uint32_t word = byte ? state << 8 | 0xa5 : state << 2 | 3;
	memcpy(bytes + OBJECT + layout->unicode_state, &word, 4);
}

static void put_string(const struct python_layout *layout, uint8_t *bytes,
		       const struct string_case *c)
{
	put_object(layout, bytes, TYPE_UNICODE);
	put_u64(bytes, OBJECT + layout->unicode_length, c->length);
	put_u64(bytes, OBJECT + layout->unicode_data, ELSEWHERE);
	put_state(layout, bytes, c->state | c->kind);
	size_t at = c->state == ASCII_STATE	? OBJECT + layout->unicode_ascii_size
		    : c->state == COMPACT_STATE ? OBJECT + layout->unicode_compact_size
						: ELSEWHERE;
	memcpy(bytes + at, c->data, c->length * c->kind);
}

static void strings_of_every_kind_become_utf8(void **state)
{
	struct flat_memory *memory = *state;
	const struct python_layout *layout;
	unsigned byte_states = 0;
	for (size_t row = 0; (layout = python_layout_row(row)) != NULL; row++) {
		byte_states += layout->string_form == STRINGS_COMPACT_BYTE_STATE;
		for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
			if (layout->string_form == STRINGS_BYTES)
				continue;
			put_string(layout, memory->bytes, &cases[i]);
			expect_text(layout, memory, cases[i].what, cases[i].text);
		}
	}
	assert_int_equal(byte_states, 2); /* 3.14t, 3.15t */
}

static void strings_that_nobody_has_read_yet_are_wide(void **state)
{
	static const uint32_t wide[] = {'t', 0x3bb, 0x1f40d, '-', '1'};
	struct flat_memory *memory = *state;
	const struct python_layout *layout;
	unsigned rows = 0;
	for (size_t row = 0; (layout = python_layout_row(row)) != NULL; row++) {
		if (layout->string_form == STRINGS_BYTES)
			continue;
		put_object(layout, memory->bytes, TYPE_UNICODE);
		if (layout->unicode_wstr == LAYOUT_ABSENT) {
			put_state(layout, memory->bytes, 0);
			expect_none(layout, memory, ERROR_CORRUPT);
			continue;
		}
		rows++;
		put_u64(memory->bytes, OBJECT + layout->unicode_wstr_length, 5);
		put_u64(memory->bytes, OBJECT + layout->unicode_wstr, 0);
		expect_none(layout, memory, ERROR_CORRUPT);
		put_u64(memory->bytes, OBJECT + layout->unicode_wstr, ELSEWHERE);
		memcpy(memory->bytes + ELSEWHERE, wide, sizeof(wide));
		expect_text(layout, memory, "wchar_t", "t\xce\xbb\xf0\x9f\x90\x8d-1");
		memcpy(memory->bytes + ELSEWHERE, wide_escaped, sizeof(wide));
		expect_text(layout, memory, "wchar_t, escaped", "\xf0\x9f\x90\x8d\xf0\x9f\x92\xbb");
	}
	assert_int_equal(rows, 9); /* 3.3 to 3.11 */
}

static void strings_without_a_kind_are_corrupt(void **state)
{
	struct flat_memory *memory = *state;
	const struct python_layout *layout = python_layout_find(3, 11, false);
	for (unsigned kind = 0; kind < 8; kind++) {
		const struct string_case c = {"", ASCII_STATE, kind, "", 0, ""};
		put_string(layout, memory->bytes, &c);
		if (kind == 1 || kind == 2 || kind == 4)
			expect_text(layout, memory, "a kind", "");
		else
			expect_none(layout, memory, ERROR_CORRUPT);
	}
}

static void strings_too_long_are_cut_off(void **state)
{
	struct flat_memory *memory = *state;
	const struct python_layout *layout = python_layout_find(3, 13, false);
	const struct string_case c = {"", ASCII_STATE, 1, "a", 1, ""};
	const uint64_t lengths[] = {MAX_STRING + 1, UINT64_MAX};
	for (size_t i = 0; i < 2; i++) {
		struct strbuf text;
		put_string(layout, memory->bytes, &c);
		memset(memory->bytes + OBJECT + layout->unicode_ascii_size, 'a', MAX_STRING + 10);
		memcpy(memory->bytes + OBJECT + layout->unicode_length, &lengths[i], 8);
		strbuf_init(&text);
		assert_true(python_string_read(layout, &memory->reader, OBJECT, &text, NULL));
		assert_int_equal(text.size, MAX_STRING);
		strbuf_release(&text);
	}
}

/* ---- 2.7 ---- */

static void old_str_is_taken_for_utf8(void **state)
{
	static const struct {
		const char *bytes, *text;
	} old[] = {
		{"Hopper.go", "Hopper.go"},	{"", ""}, {"caf\xc3\xa9", "caf\xc3\xa9"},
		{"caf\xe9", "caf\xef\xbf\xbd"}, /* Latin-1, which nobody can know */
		{"two\nlines", "two lines"},
	};
	struct flat_memory *memory = *state;
	const struct python_layout *layout = python_layout_find(2, 7, false);
	for (size_t i = 0; i < sizeof(old) / sizeof(*old); i++) {
		put_object(layout, memory->bytes, TYPE_BYTES);
		put_u64(memory->bytes, OBJECT + layout->object_var_size, strlen(old[i].bytes));
		memcpy(memory->bytes + OBJECT + layout->bytes_data, old[i].bytes,
		       strlen(old[i].bytes) + 1);
		expect_text(layout, memory, "str", old[i].text);
	}
	put_u64(memory->bytes, OBJECT + layout->object_var_size, UINT64_MAX);
	memset(memory->bytes + OBJECT + layout->bytes_data, 'a', MAX_STRING + 10);
	struct strbuf text;
	strbuf_init(&text);
	assert_true(python_string_read(layout, &memory->reader, OBJECT, &text, NULL));
	assert_int_equal(text.size, MAX_STRING);
	strbuf_release(&text);
}

static void put_unicode(const struct python_layout *layout, uint8_t *bytes, const void *units,
			size_t length)
{
	put_object(layout, bytes, TYPE_UNICODE);
	put_u64(bytes, OBJECT + layout->unicode_length, length);
	put_u64(bytes, OBJECT + layout->unicode_data, ELSEWHERE);
	memcpy(bytes + ELSEWHERE, units, length * layout->unicode_width);
}

static void old_unicode_has_code_units_of_either_width(void **state)
{
	static const uint16_t narrow[] = {0x3ba, 0xd83d, 0xdc0d, 'x', 0xdc00, 0xd800};
	struct flat_memory *memory = *state;
	struct python_layout layout = *python_layout_find(2, 7, false);
	assert_int_equal(layout.unicode_width, 4);
	put_unicode(&layout, memory->bytes, snake, 3);
	expect_text(&layout, memory, "unicode", "\xf0\x9f\x90\x8dy\xef\xbf\xbd");
	layout.unicode_width = 2;
	put_unicode(&layout, memory->bytes, narrow, 6);
	/* A pair, and two halves that are none: in the wrong order, and the last one alone. */
	expect_text(&layout, memory, "narrow unicode",
		    "\xce\xba\xf0\x9f\x90\x8dx\xef\xbf\xbd\xef\xbf\xbd");
	/* Python 2 has no escaped bytes. */
	put_unicode(&layout, memory->bytes, escaped, 3);
	expect_text(&layout, memory, "no bytes", "u\xef\xbf\xbd\xef\xbf\xbd");
	put_unicode(&layout, memory->bytes, narrow, 2);
	expect_text(&layout, memory, "half a pair", "\xce\xba\xef\xbf\xbd");
	put_u64(memory->bytes, OBJECT + layout.unicode_data, MEMORY);
	expect_none(&layout, memory, ERROR_GONE);
}

static void old_objects_of_other_types_are_corrupt(void **state)
{
	struct flat_memory *memory = *state;
	const struct python_layout *layout = python_layout_find(2, 7, false);
	put_object(layout, memory->bytes, TYPE_INT | TYPE_LONG | TYPE_DICT);
	expect_none(layout, memory, ERROR_CORRUPT);
	put_u64(memory->bytes, OBJECT + layout->object_type, 0);
	expect_none(layout, memory, ERROR_CORRUPT);
	put_u64(memory->bytes, OBJECT + layout->object_type, UINT64_MAX);
	expect_none(layout, memory, ERROR_CORRUPT);
}

static int set_up(void **state)
{
	struct flat_memory *memory = calloc(1, sizeof(*memory));
	memory->reader.read = read_flat;
	memory->bytes = calloc(1, MEMORY);
	*state = memory;
	return 0;
}

static int tear_down(void **state)
{
	struct flat_memory *memory = *state;
	free(memory->bytes);
	free(memory);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strings_of_every_kind_become_utf8),
		cmocka_unit_test(strings_that_nobody_has_read_yet_are_wide),
		cmocka_unit_test(strings_without_a_kind_are_corrupt),
		cmocka_unit_test(strings_too_long_are_cut_off),
		cmocka_unit_test(old_str_is_taken_for_utf8),
		cmocka_unit_test(old_unicode_has_code_units_of_either_width),
		cmocka_unit_test(old_objects_of_other_types_are_corrupt),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
