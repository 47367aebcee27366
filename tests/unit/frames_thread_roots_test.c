/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frames/frames.h"

static void check(enum root_choice choice, const char *const expected[4])
{
	static const struct {
		pid_t tid;
		const char *name;
	} threads[4] = {{7, "main"}, {8, "request"}, {9, "python3"}, {8, "request"}};
	struct interner *strings = interner_new();
	struct frame_table frames = {0};
	struct thread_roots roots = {0};
	for (size_t i = 0; i < 4; i++) {
		size_t index = NO_ROOT;
		uint32_t first = thread_roots_name(&roots, &frames, strings, &index, threads[i].tid,
						   intern_text(strings, "python3"));
		assert_int_equal(index, i);
		assert_int_equal(thread_roots_name(&roots, &frames, strings, &index, threads[i].tid,
						   intern_text(strings, threads[i].name)),
				 first);
	}
	thread_roots_show(&roots, &frames, strings, choice);
	for (size_t i = 0; i < 4; i++)
		assert_string_equal(frames.frames[roots.roots[i].frame].shown, expected[i]);
	thread_roots_release(&roots);
	frame_table_release(&frames);
	interner_free(strings);
}

static void threads_of_one_name_are_shown_alike(void **state)
{
	(void)state;
	check(ROOTS_NAME, (const char *const[]){"thread 7 \"main\"", "thread \"request\"",
						"thread 9 \"python3\"", "thread \"request\""});
}

static void each_thread_is_shown_by_its_number(void **state)
{
	(void)state;
	check(ROOTS_EACH, (const char *const[]){"thread 7 \"main\"", "thread 8 \"request\"",
						"thread 9 \"python3\"", "thread 8 \"request\""});
}

/* The last of `count` threads that threading has numbered. */
static const char *last_of(struct interner *strings, size_t count, const char *format)
{
	struct frame_table frames = {0};
	struct thread_roots roots = {0};
	for (size_t i = 0; i < count; i++) {
		size_t index = NO_ROOT;
		char name[64];
		snprintf(name, sizeof(name), format, (int)i + 1);
		thread_roots_name(&roots, &frames, strings, &index, 100 + (pid_t)i,
				  intern_text(strings, name));
	}
	thread_roots_show(&roots, &frames, strings, ROOTS_NAME);
	const char *const shown = frames.frames[roots.roots[count - 1].frame].shown;
	thread_roots_release(&roots);
	frame_table_release(&frames);
	return shown;
}

static void many_threads_with_a_number_alone_share_a_root(void **state)
{
	static const struct {
		size_t count;
		const char *format, *expected;
	} cases[] = {
		{17, "Thread-%d (serve)", "thread \"Thread-N (serve)\""},
		{17, "Thread-%d", "thread \"Thread-N\""},
		{16, "Thread-%d (serve)", "thread 115 \"Thread-16 (serve)\""},
		{17, "Thread-%d-io", "thread 116 \"Thread-17-io\""},
		{17, "Threads-%d", "thread 116 \"Threads-17\""},
		{17, "worker-%d", "thread 116 \"worker-17\""},
	};
	(void)state;
	struct interner *strings = interner_new();
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_string_equal(last_of(strings, cases[i].count, cases[i].format),
				    cases[i].expected);
	interner_free(strings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_of_one_name_are_shown_alike),
		cmocka_unit_test(many_threads_with_a_number_alone_share_a_root),
		cmocka_unit_test(each_thread_is_shown_by_its_number),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
