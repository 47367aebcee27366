/* SPDX-License-Identifier: MIT */
/* str objects of every kind, of both header sizes, sound and hostile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "python/internal.h"

enum { OBJECT = 4096, ELSEWHERE = 8192, MEMORY = 1 << 20 };

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

enum { ASCII_STATE = 1 << 5 | 1 << 6, COMPACT_STATE = 1 << 5 };

struct string_case {
	const char *what;
	uint32_t state; /* without the kind */
	unsigned kind;
	const void *data;
	size_t length; /* code points */
	const char *text;
};

static const uint16_t greek[] = {0x3ba, 0xd800, 'x'};
static const uint32_t snake[] = {0x1f40d, 'y', 0x110000};

static const struct string_case cases[] = {
	{"ASCII", ASCII_STATE, 1, "Hopper.go", 9, "Hopper.go"},
	{"empty", ASCII_STATE, 1, "", 0, ""},
	{"Latin-1", COMPACT_STATE, 1, "caf\xe9", 4, "caf\xc3\xa9"},
	{"two bytes, with half a surrogate pair", COMPACT_STATE, 2, greek, 3,
	 "\xce\xba\xef\xbf\xbdx"},
	{"four bytes, with no code point", COMPACT_STATE, 4, snake, 3,
	 "\xf0\x9f\x90\x8dy\xef\xbf\xbd"},
	{"not compact", 0, 1, "legacy\n", 7, "legacy "},
};

static void put_string(const struct python_layout *layout, uint8_t *bytes,
		       const struct string_case *c)
{
	uint32_t state = c->state | c->kind << 2;
	uint64_t length = c->length, elsewhere = ELSEWHERE;
	memset(bytes, 0, MEMORY);
	memcpy(bytes + OBJECT + layout->unicode_length, &length, 8);
	memcpy(bytes + OBJECT + layout->unicode_state, &state, 4);
	memcpy(bytes + OBJECT + layout->unicode_data, &elsewhere, 8);
	size_t at = c->state == ASCII_STATE     ? OBJECT + layout->unicode_ascii_size
		    : c->state == COMPACT_STATE ? OBJECT + layout->unicode_compact_size
						: ELSEWHERE;
	memcpy(bytes + at, c->data, c->length * c->kind);
}

static void strings_of_every_kind_become_utf8(void **state)
{
	struct flat_memory *memory = *state;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = python_layout_row(row)) != NULL; row++)
		for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
			struct strbuf text;
			struct error error;
			put_string(layout, memory->bytes, &cases[i]);
			strbuf_init(&text);
			if (!python_string_read(layout, &memory->reader, OBJECT, &text, &error) ||
			    strcmp(text.text, cases[i].text) != 0)
				fail_msg("3.%u, %s: \"%s\"", layout->minor, cases[i].what,
					 text.text);
			strbuf_release(&text);
		}
}

static void strings_without_a_kind_are_corrupt(void **state)
{
	struct flat_memory *memory = *state;
	const struct python_layout *layout = python_layout_find(3, 11, false);
	for (unsigned kind = 0; kind < 8; kind++) {
		struct strbuf text;
		struct error error = {0};
		const struct string_case c = {"", ASCII_STATE, kind, "", 0, ""};
		put_string(layout, memory->bytes, &c);
		strbuf_init(&text);
		bool ok = python_string_read(layout, &memory->reader, OBJECT, &text, &error);
		assert_int_equal(ok, kind == 1 || kind == 2 || kind == 4);
		assert_int_equal(error.kind, ok ? ERROR_NONE : ERROR_CORRUPT);
		strbuf_release(&text);
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
		cmocka_unit_test(strings_without_a_kind_are_corrupt),
		cmocka_unit_test(strings_too_long_are_cut_off),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
