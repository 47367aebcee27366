/* SPDX-License-Identifier: MIT */
/* A growing string is whole wherever its room ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/strbuf.h"

static void printing_is_whole_wherever_the_room_ends(void **state)
{
	(void)state;
	for (size_t before = 0; before < 70; before++) {
		struct strbuf _cleanup_strbuf_ text;
		char expected[128];
		strbuf_init(&text);
		memset(expected, 'x', before);
		memcpy(expected + before, "<-12 some text>", sizeof("<-12 some text>"));
		for (size_t i = 0; i < before; i++)
			strbuf_add_char(&text, 'x');
		strbuf_printf(&text, "<%d %s>", -12, "some text");
		assert_string_equal(text.text, expected);
		assert_int_equal(text.size, strlen(expected));
		strbuf_printf(&text, "%s", "");
		assert_int_equal(text.size, strlen(expected));
	}
}

static void numbers_have_all_their_digits(void **state)
{
	(void)state;
	struct strbuf _cleanup_strbuf_ text;
	strbuf_init(&text);
	strbuf_add_number(&text, 0);
	strbuf_add_char(&text, ' ');
	strbuf_add_number(&text, 1009);
	strbuf_add_char(&text, ' ');
	strbuf_add_number(&text, UINT64_MAX);
	assert_string_equal(text.text, "0 1009 18446744073709551615");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(printing_is_whole_wherever_the_room_ends),
		cmocka_unit_test(numbers_have_all_their_digits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
