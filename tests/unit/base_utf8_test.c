/* SPDX-License-Identifier: MIT */
/* Text of the target is visible, whatever it is made of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/log.h"
#include "base/utf8.h"

struct text_case {
	const char *bytes, *shown;
};

static const struct text_case cases[] = {
	{"", ""},
	{"fit", "fit"},
	{"b\xc3\xa4r \xe6\xbc\xa2 \xf0\x9f\x90\x8d", "b\xc3\xa4r \xe6\xbc\xa2 \xf0\x9f\x90\x8d"},
	/* controls: of C0, DEL, of C1; separators of lines */
	{"\033[31mred\033]0;title\a", " [31mred ]0;title "},
	{"a\tb\nc\rd\177e", "a b c d e"},
	{"\xc2\x9b"
	 "31m\xc2\x85",
	 " 31m "},
	{"a\xe2\x80\xa8"
	 "b\xe2\x80\xa9",
	 "a b "},
	/* what turns the order around */
	{"gpj.\xe2\x80\xae"
	 "exe",
	 "gpj.\\u202eexe"},
	{"\xe2\x80\xaa\xe2\x80\xab\xe2\x80\xac\xe2\x80\xad", "\\u202a\\u202b\\u202c\\u202d"},
	{"\xe2\x81\xa6\xe2\x81\xa7\xe2\x81\xa8\xe2\x81\xa9", "\\u2066\\u2067\\u2068\\u2069"},
	{"\xe2\x80\x8e\xe2\x80\x8f\xd8\x9c", "\\u200e\\u200f\\u061c"},
	/* what is not seen */
	{"f\xe2\x80\x8b\xe2\x80\x8c\xe2\x80\x8d(\xef\xbb\xbf", "f\\u200b\\u200c\\u200d(\\ufeff"},
	{"\xc2\xad\xcd\x8f\xe1\xa0\x8e\xe2\x81\xa0", "\\u00ad\\u034f\\u180e\\u2060"},
	{"\xe3\x85\xa4\xef\xbe\xa0\xe1\x85\x9f", "\\u3164\\uffa0\\u115f"},
	{"f\xef\xb8\x8f\xef\xbf\xbb", "f\\ufe0f\\ufffb"},
	{"f\xf3\xa0\x81\x81\xf3\xa0\x84\x80", "f\\U000e0041\\U000e0100"},
	/* their neighbours are */
	{"\xe2\x80\x90\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xb0",
	 "\xe2\x80\x90\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xb0"},
	/* no UTF-8 */
	{"\xff\xc0\xaf\xed\xa0\x80",
	 "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
	{"\xef\xbf\xbe", "\xef\xbf\xbd"},
};

static void text_is_shown_as_it_is_or_escaped(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		_cleanup_strbuf_ struct strbuf once, twice;
		strbuf_init(&once);
		strbuf_init(&twice);
		utf8_add_clean(&once, cases[i].bytes, strlen(cases[i].bytes));
		assert_string_equal(once.text, cases[i].shown);
		utf8_add_clean(&twice, once.text, once.size);
		assert_string_equal(twice.text, once.text);
	}
}

/* What log_...() writes to stderr. */
static void read_log(void (*say)(const char *text), const char *text, char *out, size_t size)
{
	int ends[2];
	const int terminal = dup(STDERR_FILENO);
	assert_int_equal(pipe(ends), 0);
	assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
	say(text);
	assert_true(dup2(terminal, STDERR_FILENO) >= 0);
	close(terminal);
	close(ends[1]);
	const ssize_t got = read(ends[0], out, size - 1);
	close(ends[0]);
	out[got > 0 ? got : 0] = '\0';
}

static void say_error(const char *text)
{
	log_error("cannot read %s", text);
}

static void say_warning(const char *text)
{
	log_warning("cannot read %s", text);
}

static void say_info(const char *text)
{
	log_info("cannot read %s", text);
}

static void say_debug(const char *text)
{
	log_debug("python", "cannot read %s", text);
}

static void messages_are_one_line_without_escapes(void **state)
{
	(void)state;
	static const struct {
		void (*say)(const char *text);
		const char *before;
	} ways[] = {{say_error, "pdump: "},
		    {say_warning, "pdump: "},
		    {say_info, ""},
		    {say_debug, "python: "}};
	log_enable_area("python");
	for (size_t way = 0; way < sizeof(ways) / sizeof(*ways); way++)
		for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
			char got[512], expected[512];
			read_log(ways[way].say, cases[i].bytes, got, sizeof(got));
			snprintf(expected, sizeof(expected), "%scannot read %s\n", ways[way].before,
				 cases[i].shown);
			assert_string_equal(got, expected);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_shown_as_it_is_or_escaped),
		cmocka_unit_test(messages_are_one_line_without_escapes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
