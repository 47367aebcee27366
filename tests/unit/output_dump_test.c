/* SPDX-License-Identifier: MIT */
/* A dump as text and as JSON; the JSON against its schema where python3-jsonschema is there. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <cmocka.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "output/output.h"
#include "tests/unit/output_schema.h"

static struct frame frames[] = {
	{.kind = FRAME_NATIVE,
	 .name = "dgemm_kernel",
	 .module = "libopenblas.so.0",
	 .module_path = "/usr/lib/libopenblas.so.0",
	 .offset = 0xb0010,
	 .has_function = true,
	 .function_offset = 0xb0000,
	 .build_id = "ab12"},
	{.kind = FRAME_CYTHON,
	 .name = "axpy",
	 .file = "/src/implicit/_als.pyx",
	 .short_file = "implicit/_als.pyx",
	 .line = 18,
	 .module = "_als.so"},
	{.kind = FRAME_GUESSED, .module = "libx.so", .guessed = true},
	{.kind = FRAME_NATIVE,
	 .module = "libx.so",
	 .has_function = true,
	 .function_offset = 0x1a2b0,
	 .offset = 0x1a2ff},
	{.kind = FRAME_PYTHON,
	 .name = "<module>",
	 .file = "/home/me/train.py",
	 .short_file = "train.py",
	 .line = 61,
	 .end_line = 62,
	 .column = 0,
	 .end_column = 12},
};

static struct frame evil[] = {
	{.kind = FRAME_PYTHON,
	 .name = "a\x1b[31m\nb\xff",
	 .line = 3,
	 .end_line = 3,
	 .column = -1,
	 .end_column = -1},
	{.kind = FRAME_GAP, .name = "[gap]"},
};

static struct dump_thread threads[] = {
	{.tid = 14976,
	 .name = "MainThread",
	 .python_id = 140155235067584,
	 .state = 'R',
	 .known_to_python = true,
	 .holds_gil = true,
	 .frames = frames,
	 .frame_count = 5},
	{.tid = 14990,
	 .name = "Thread-1 (worker)",
	 .activity = THREAD_IDLE,
	 .state = 'S',
	 .known_to_python = true,
	 .gc_running = true,
	 .truncated = true,
	 .frames = evil,
	 .frame_count = 2},
	{.tid = 15001,
	 .name = "python3",
	 .activity = THREAD_UNINTERRUPTIBLE,
	 .state = 'D',
	 .problem = "uninterruptible"},
	{.tid = 15002,
	 .activity = THREAD_GONE,
	 .frames = frames,
	 .frame_count = 1,
	 .problem = "ended meanwhile"},
};

static struct dump dump = {
	.pid = 14976,
	.command_line = "python3 train.py",
	.executable = "/usr/bin/python3.11",
	.python_version = "3.11.2",
	.python_executable = "/usr/bin/python3.11",
	.native = true,
	.has_gil = true,
	.time = 1763694000,
	.threads = threads,
	.thread_count = 4,
};

static const char expected[] = "Process 14976: python3 train.py\n"
			       "Python 3.11.2 (/usr/bin/python3.11)\n"
			       "\n"
			       "Thread 14976 (active, gil): \"MainThread\"\n"
			       "    dgemm_kernel (libopenblas.so.0)\n"
			       "    axpy (implicit/_als.pyx:18)\n"
			       "    libx.so [guessed]\n"
			       "    libx.so+0x1a2b0\n"
			       "    <module> (train.py:61)\n"
			       "Thread 14990 (idle, gc): \"Thread-1 (worker)\"\n"
			       "    a [31m b\xef\xbf\xbd\n"
			       "    [gap]\n"
			       "Thread 15001 (uninterruptible, native): \"python3\"\n"
			       "    [stack not read: uninterruptible]\n"
			       "Thread 15002 (gone, native)\n"
			       "    dgemm_kernel (libopenblas.so.0)\n"
			       "    [stack incomplete: ended meanwhile]\n";

static void text_is_as_documented(void **state)
{
	(void)state;
	struct strbuf _cleanup_strbuf_ out;
	strbuf_init(&out);
	output_dump_text(&dump, &(struct view_options){.lines = true}, &out);
	assert_string_equal(out.text, expected);
}

/* Removes "ESC [ ... m". */
static void remove_colors(char *text)
{
	char *to = text;
	for (const char *from = text; *from; from++) {
		if (*from == '\033')
			from = strchr(from, 'm');
		else
			*to++ = *from;
	}
	*to = '\0';
}

static void colors_change_nothing_but_colors(void **state)
{
	(void)state;
	struct strbuf _cleanup_strbuf_ out;
	strbuf_init(&out);
	output_dump_text(&dump, &(struct view_options){.color = true, .lines = true}, &out);
	assert_non_null(strstr(out.text, "\033[1mThread 14976"));
	assert_non_null(strstr(out.text, "axpy\033[0m\033[2m (implicit/_als.pyx:18)\033[0m\n"));
	remove_colors(out.text);
	assert_string_equal(out.text, expected);
}

static void a_python_problem_stands_in_for_the_version(void **state)
{
	(void)state;
	struct strbuf _cleanup_strbuf_ out;
	strbuf_init(&out);
	struct dump other = {.pid = 1,
			     .executable = "/bin/x",
			     .python_problem = "CPython 3.16 is not supported"};
	output_dump_text(&other, &(struct view_options){0}, &out);
	assert_string_equal(out.text, "Process 1: /bin/x\nCPython 3.16 is not supported\n\n");
}

static void what_is_not_python_is_one_line(void **state)
{
	(void)state;
	struct strbuf _cleanup_strbuf_ out;
	strbuf_init(&out);
	struct dump other = {.pid = 7,
			     .command_line = "sh run.sh",
			     .no_python = true,
			     .python_problem = "no CPython interpreter in this process"};
	output_dump_text(&other, &(struct view_options){0}, &out);
	assert_string_equal(out.text, "Process 7: sh run.sh (not Python)\n");
	/* One that was looked at is shown as others are. */
	other.threads = threads + 2;
	other.thread_count = 1;
	strbuf_reset(&out);
	output_dump_text(&other, &(struct view_options){0}, &out);
	assert_string_equal(out.text, "Process 7: sh run.sh\n"
				      "no CPython interpreter in this process\n\n"
				      "Thread 15001 (uninterruptible, native): \"python3\"\n"
				      "    [stack not read: uninterruptible]\n");
}

static void json_tells_where_a_process_is(void **state)
{
	(void)state;
	static const struct {
		struct dump dump;
		const char *begin;
	} cases[] = {
		{{.pid = 7},
		 "{\"schema\":\"pdump/1\",\"version\":\"" VERSION
		 "\",\"host\":null,\"pid\":7,\"rank\":null,"},
		{{.pid = 7, .host = "node1", .has_rank = true},
		 "{\"schema\":\"pdump/1\",\"version\":\"" VERSION
		 "\",\"host\":\"node1\",\"pid\":7,\"rank\":0,"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct strbuf _cleanup_strbuf_ out;
		struct error error;
		strbuf_init(&out);
		assert_true(output_dump_json(&cases[i].dump, &out, &error));
		assert_memory_equal(out.text, cases[i].begin, strlen(cases[i].begin));
		check_schema("output/pdump.schema.json", &out);
	}
}

static void full_filenames_are_shown_on_request(void **state)
{
	(void)state;
	struct strbuf _cleanup_strbuf_ out;
	strbuf_init(&out);
	output_dump_text(&dump, &(struct view_options){.full_filenames = true, .lines = true},
			 &out);
	assert_non_null(strstr(out.text, "    <module> (/home/me/train.py:61)\n"));
	assert_non_null(strstr(out.text, "    dgemm_kernel (/usr/lib/libopenblas.so.0)\n"));
}

static json_t *parsed(struct strbuf *out)
{
	struct error error;
	assert_true(output_dump_json(&dump, out, &error));
	assert_int_equal(out->text[out->size - 1], '\n');
	json_t *top = json_loadb(out->text, out->size, 0, NULL);
	assert_non_null(top);
	return top;
}

static void json_holds_what_the_dump_holds(void **state)
{
	(void)state;
	struct strbuf _cleanup_strbuf_ out;
	strbuf_init(&out);
	json_t *top = parsed(&out);
	json_t *all = json_object_get(top, "threads");
	json_t *first = json_object_get(json_array_get(all, 0), "frames");
	const char *names[] = {"dgemm_kernel", "axpy", "libx.so", "libx.so+0x1a2b0", "<module>"};
	assert_int_equal(json_array_size(all), 4);
	assert_int_equal(json_array_size(first), 5);
	for (size_t i = 0; i < 5; i++)
		assert_string_equal(
			json_string_value(json_object_get(json_array_get(first, i), "name")),
			names[i]);
	assert_string_equal(json_string_value(json_object_get(top, "time")),
			    "2025-11-21T03:00:00Z");
	assert_string_equal(json_string_value(json_object_get(json_array_get(first, 0), "offset")),
			    "0xb0010");
	assert_true(json_is_true(json_object_get(json_array_get(all, 0), "owns_gil")));
	json_decref(top);
}

static const json_t *member(const json_t *top, size_t thread, size_t frame, const char *name)
{
	const json_t *threads_of = json_array_get(json_object_get(top, "threads"), thread);
	return json_object_get(json_array_get(json_object_get(threads_of, "frames"), frame), name);
}

static void json_has_columns_where_they_are_known(void **state)
{
	(void)state;
	struct strbuf _cleanup_strbuf_ out;
	strbuf_init(&out);
	json_t *top = parsed(&out);
	assert_int_equal(json_integer_value(member(top, 0, 4, "end_line")), 62);
	assert_true(json_is_integer(member(top, 0, 4, "column")));
	assert_int_equal(json_integer_value(member(top, 0, 4, "column")), 0);
	assert_int_equal(json_integer_value(member(top, 0, 4, "end_column")), 12);
	/* A line without columns, and a native frame. */
	assert_int_equal(json_integer_value(member(top, 1, 0, "end_line")), 3);
	assert_true(json_is_null(member(top, 1, 0, "column")));
	assert_true(json_is_null(member(top, 1, 0, "end_column")));
	assert_true(json_is_null(member(top, 0, 1, "end_line")));
	assert_true(json_is_null(member(top, 0, 1, "column")));
	json_decref(top);
}

static void json_follows_its_schema(void **state)
{
	(void)state;
	struct strbuf _cleanup_strbuf_ out;
	strbuf_init(&out);
	json_decref(parsed(&out));
	check_schema("output/pdump.schema.json", &out);
}

/* Addresses are those of faults alone, senders those of signals that were sent. */
static void a_crash_is_in_the_thread_s_first_line(void **state)
{
	static const struct {
		struct dump_signal signal;
		const char *text;
	} crashes[] = {
		{{SIGSEGV, SEGV_MAPERR, 0x10, 16}, "Thread 5 (crashed: SIGSEGV at 0x10)"},
		{{SIGSEGV, SI_KERNEL, 0, 0}, "Thread 5 (crashed: SIGSEGV)"},
		{{SIGSEGV, SI_USER, 77, 77}, "Thread 5 (crashed: SIGSEGV from process 77)"},
		{{SIGABRT, SI_TKILL, 78, 78}, "Thread 5 (crashed: SIGABRT from process 78)"},
		{{99, 1, 1, 1}, "Thread 5 (crashed: signal 99)"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(crashes) / sizeof(*crashes); i++) {
		struct strbuf _cleanup_strbuf_ out;
		struct dump_thread thread = {.tid = 5,
					     .state = 'R',
					     .known_to_python = true,
					     .crash = &crashes[i].signal};
		struct dump other = {
			.pid = 5, .command_line = "x", .threads = &thread, .thread_count = 1};
		struct error error;
		strbuf_init(&out);
		output_dump_text(&other, &(struct view_options){0}, &out);
		assert_non_null(strstr(out.text, crashes[i].text));
		strbuf_reset(&out);
		assert_true(output_dump_json(&other, &out, &error));
		check_schema("output/pdump.schema.json", &out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_as_documented),
		cmocka_unit_test(a_crash_is_in_the_thread_s_first_line),
		cmocka_unit_test(colors_change_nothing_but_colors),
		cmocka_unit_test(a_python_problem_stands_in_for_the_version),
		cmocka_unit_test(what_is_not_python_is_one_line),
		cmocka_unit_test(json_tells_where_a_process_is),
		cmocka_unit_test(full_filenames_are_shown_on_request),
		cmocka_unit_test(json_holds_what_the_dump_holds),
		cmocka_unit_test(json_has_columns_where_they_are_known),
		cmocka_unit_test(json_follows_its_schema),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
