/* SPDX-License-Identifier: MIT */
/* Merged dumps as text and as JSON; the JSON against its schema where python3-jsonschema is there.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "output/output.h"
#include "tests/unit/output_schema.h"

static struct frame reduce[] = {
	{.kind = FRAME_PYTHON_LIBRARY,
	 .name = "all_reduce",
	 .short_file = "torch/d.py",
	 .file = "/t/torch/d.py",
	 .line = 9},
	{.kind = FRAME_PYTHON, .name = "train", .short_file = "train.py", .line = 61},
};
static struct frame load[] = {
	{.kind = FRAME_NATIVE, .name = "poll", .module = "libc.so.6"},
	{.kind = FRAME_PYTHON_LIBRARY,
	 .name = "DataLoader.__next__",
	 .short_file = "torch/l.py",
	 .line = 7},
	{.kind = FRAME_PYTHON, .name = "train", .short_file = "train.py", .line = 60},
};
static struct frame work[] = {
	{.kind = FRAME_PYTHON, .name = "wo\x1brk", .short_file = "train.py", .line = 5},
};

static struct dump_thread first[] = {
	{.tid = 10,
	 .name = "MainThread",
	 .activity = THREAD_IDLE,
	 .state = 'S',
	 .known_to_python = true,
	 .frames = reduce,
	 .frame_count = 2},
	{.tid = 11,
	 .name = "w_0",
	 .activity = THREAD_IDLE,
	 .state = 'S',
	 .known_to_python = true,
	 .frames = work,
	 .frame_count = 1},
	{.tid = 12,
	 .name = "w_1",
	 .state = 'R',
	 .known_to_python = true,
	 .frames = work,
	 .frame_count = 1},
};
static struct dump_thread second[] = {
	{.tid = 20,
	 .name = "MainThread",
	 .state = 'R',
	 .known_to_python = true,
	 .frames = reduce,
	 .frame_count = 2},
	{.tid = 21,
	 .name = "w_0",
	 .activity = THREAD_IDLE,
	 .state = 'S',
	 .known_to_python = true,
	 .frames = work,
	 .frame_count = 1},
};
static struct dump_thread third[] = {
	{.tid = 30,
	 .name = "MainThread",
	 .activity = THREAD_IDLE,
	 .state = 'S',
	 .holds_gil = true,
	 .known_to_python = true,
	 .frames = load,
	 .frame_count = 3},
	{.tid = 31,
	 .name = "w_0",
	 .activity = THREAD_UNINTERRUPTIBLE,
	 .state = 'D',
	 .known_to_python = true,
	 .problem = "it does not stop"},
};

static struct dump all[] = {
	{.pid = 10,
	 .command_line = "python3 train.py",
	 .python_version = "3.11.2",
	 .has_rank = true,
	 .host = "n1",
	 .threads = first,
	 .thread_count = 3},
	{.pid = 20,
	 .command_line = "python3 train.py",
	 .python_version = "3.11.2",
	 .has_rank = true,
	 .rank = 1,
	 .host = "n1",
	 .threads = second,
	 .thread_count = 2},
	{.pid = 30,
	 .command_line = "python3 train.py",
	 .python_version = "3.11.2",
	 .has_rank = true,
	 .rank = 2,
	 .host = "n1",
	 .threads = third,
	 .thread_count = 2},
	{.pid = 40,
	 .command_line = "sh run.sh",
	 .no_python = true,
	 .python_problem = "none",
	 .host = "n1"},
};
static const struct dump_list list = {.dumps = all, .count = 4};

static const char expected[] = "2 processes in all_reduce, 1 in DataLoader.__next__\n"
			       "\n"
			       "1 of 3 processes: 30 (rank 2)\n"
			       "Thread 30 (idle, gil): \"MainThread\"\n"
			       "    poll (libc.so.6)\n"
			       "    DataLoader.__next__ (torch/l.py:7)\n"
			       "    train (train.py:60)\n"
			       "\n"
			       "1 of 3 processes: 30 (rank 2)\n"
			       "Thread 31 (uninterruptible): \"w_0\"\n"
			       "    [stack not read: it does not stop]\n"
			       "\n"
			       "2 of 3 processes: 10 (rank 0), 20 (rank 1)\n"
			       "2 main threads (1 active, 1 idle): \"MainThread\"\n"
			       "    all_reduce (torch/d.py:9)\n"
			       "    train (train.py:61)\n"
			       "\n"
			       "2 of 3 processes: 10 (rank 0), 20 (rank 1)\n"
			       "3 threads 11, 12, 21 (1 active, 2 idle): \"w_0\", \"w_1\"\n"
			       "    wo rk (train.py:5)\n"
			       "\n"
			       "Process 40: sh run.sh (not Python)\n";

static void put(const struct dump_list *dumps, struct view_options options, struct strbuf *out)
{
	struct dump_groups groups;
	strbuf_init(out);
	dump_groups_init(&groups, dumps, options.lines, options.full_filenames);
	output_groups_text(&groups, &options, out);
	dump_groups_release(&groups);
}

static void text_is_as_documented(void **state)
{
	(void)state;
	_cleanup_strbuf_ struct strbuf out;
	put(&list, (struct view_options){.lines = true}, &out);
	assert_string_equal(out.text, expected);
}

static void colors_change_nothing_but_colors(void **state)
{
	(void)state;
	_cleanup_strbuf_ struct strbuf out;
	put(&list, (struct view_options){.lines = true, .color = true}, &out);
	assert_non_null(strstr(out.text, "\033[1m2 main threads"));
	assert_non_null(strstr(out.text, "\033[1m1 of 3 processes"));
	char *to = out.text;
	for (const char *from = out.text; *from; from++) {
		if (*from == '\033')
			from = strchr(from, 'm');
		else
			*to++ = *from;
	}
	*to = '\0';
	assert_string_equal(out.text, expected);
}

/* Several machines, all alike, and more places, names and numbers than are listed. */
static void what_is_many_is_cut_short(void **state)
{
	(void)state;
	enum { MANY = 20 };
	static struct dump_thread threads[MANY][2];
	static struct frame frames[MANY][2];
	static struct dump dumps[MANY];
	static char names[MANY][8];
	for (size_t i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "f%02zu", i / 2);
		frames[i][0] = (struct frame){.name = names[i], .line = 1};
		frames[i][1] = (struct frame){.name = "main", .line = 1};
		threads[i][0] = (struct dump_thread){.tid = (int)i + 100,
						     .frames = frames[i],
						     .frame_count = 2,
						     .known_to_python = true};
		threads[i][1] = (struct dump_thread){.tid = (int)i + 200,
						     .frames = work,
						     .frame_count = 1,
						     .name = names[i],
						     .known_to_python = true};
		dumps[i] = (struct dump){.pid = (int)i + 100,
					 .threads = threads[i],
					 .thread_count = 2,
					 .host = i % 2 ? "odd" : "even"};
	}
	const struct dump_list many = {.dumps = dumps, .count = MANY};
	_cleanup_strbuf_ struct strbuf out;
	put(&many, (struct view_options){.lines = true}, &out);
	static const char begin[] = "2 processes in f00, 2 in f01, 2 in f02, 2 in f03, 2 in f04, "
				    "10 elsewhere\n\n2 of 20 processes: even:100, odd:101\n"
				    "2 main threads (active)\n    f00\n    main\n";
	assert_memory_equal(out.text, begin, sizeof(begin) - 1);
	assert_non_null(strstr(out.text,
			       "\nall 20 processes\n20 threads 200, 201, 202, 203, 204, "
			       "205, 206, 207, 208, 209, 210, 211, 212, 213, 214, 215, "
			       "... (active): \"f00\", \"f01\", \"f02\", \"f03\", ...\n"));
}

static void nothing_is_said_to_be_nothing(void **state)
{
	(void)state;
	const struct dump_list none = {0};
	const struct dump_list other = {.dumps = all + 3, .count = 1};
	_cleanup_strbuf_ struct strbuf out, more;
	put(&none, (struct view_options){0}, &out);
	assert_string_equal(out.text, "no process has a stack\n");
	put(&other, (struct view_options){0}, &more);
	assert_string_equal(more.text, "no process has a stack\n\nProcess 40: sh run.sh (not"
				       " Python)\n");
}

static void json_holds_each_stack_once(void **state)
{
	(void)state;
	_cleanup_strbuf_ struct strbuf out;
	struct dump_groups groups;
	struct error error;
	strbuf_init(&out);
	dump_groups_init(&groups, &list, true, false);
	assert_true(output_groups_json(&groups, &out, &error));
	dump_groups_release(&groups);
	assert_int_equal(out.text[out.size - 1], '\n');
	json_t *top = json_loadb(out.text, out.size, 0, NULL);
	const json_t *stacks = json_object_get(top, "stacks");
	assert_int_equal(json_integer_value(json_object_get(top, "process_count")), 3);
	assert_int_equal(json_array_size(json_object_get(top, "processes")), 4);
	assert_int_equal(json_array_size(stacks), 4);
	const json_t *last = json_array_get(stacks, 3);
	const json_t *member = json_array_get(json_object_get(last, "threads"), 2);
	assert_int_equal(json_array_size(json_object_get(last, "threads")), 3);
	assert_int_equal(json_integer_value(json_object_get(member, "process")), 1);
	assert_int_equal(json_integer_value(json_object_get(member, "os_thread_id")), 21);
	assert_string_equal(json_string_value(json_object_get(
				    json_array_get(json_object_get(top, "places"), 1), "name")),
			    "DataLoader.__next__");
	json_decref(top);
	check_schema("output/pdump-merge.schema.json", &out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_as_documented),
		cmocka_unit_test(colors_change_nothing_but_colors),
		cmocka_unit_test(what_is_many_is_cut_short),
		cmocka_unit_test(nothing_is_said_to_be_nothing),
		cmocka_unit_test(json_holds_each_stack_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
