/* SPDX-License-Identifier: MIT */
/* Dumps in, groups of equal stacks and places out. Stacks are written "inner middle outer". */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "profile/dump_groups.h"

enum { MOST = 12 };

/* One line a process: its threads, apart by "|", the first of which is its first. A frame is NAME,
 * or NAME:LINE; "-NAME" is a library's, "+NAME" native. "!" is a problem in a stack's place. */
struct test_case {
	const char *what;
	const char *processes[MOST];
	const char *groups; /* "1/1 2/3": processes/threads of each group, in order */
	const char *places;
};

static struct frame make_frame(struct interner *strings, char *word)
{
	struct frame frame = {.kind = FRAME_PYTHON, .short_file = "f.py"};
	char *line = strchr(word, ':');
	if (line)
		*line++ = '\0';
	if (*word == '-')
		frame.kind = FRAME_PYTHON_LIBRARY;
	if (*word == '+')
		frame.kind = FRAME_NATIVE;
	frame.name = intern_text(strings, word + (*word == '-' || *word == '+'));
	frame.line = line ? atoi(line) : 1;
	return frame;
}

static void add_frames(struct dump *dump, struct dump_thread *thread, char *stack)
{
	char *rest = NULL;
	thread->frames = arena_alloc(&dump->arena, MOST * sizeof(*thread->frames));
	for (char *word = strtok_r(stack, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		if (strcmp(word, "!") == 0)
			thread->problem = "it changed while it was read";
		else
			thread->frames[thread->frame_count++] = make_frame(dump->strings, word);
	}
}

static void add_process(struct dump_list *list, struct interner *strings, const char *process)
{
	struct dump dump = {.pid = (pid_t)(100 * (list->count + 1)), .strings = strings};
	char text[256], *rest = NULL;
	arena_init(&dump.arena);
	snprintf(text, sizeof(text), "%s", process);
	dump.threads = arena_alloc(&dump.arena, MOST * sizeof(*dump.threads));
	for (char *one = strtok_r(text, "|", &rest); one; one = strtok_r(NULL, "|", &rest)) {
		dump.threads[dump.thread_count].tid = dump.pid + (pid_t)dump.thread_count;
		add_frames(&dump, &dump.threads[dump.thread_count++], one);
	}
	dump_list_add(list, &dump);
}

static void describe(const struct dump_groups *groups, struct strbuf *shape, struct strbuf *places)
{
	for (size_t i = 0; i < groups->count; i++)
		strbuf_printf(shape, "%s%zu/%zu", i ? " " : "", groups->groups[i].processes,
			      groups->groups[i].count);
	for (size_t i = 0; i < groups->place_count; i++)
		strbuf_printf(places, "%s%zu %s", i ? ", " : "", groups->places[i].processes,
			      groups->places[i].name ? groups->places[i].name : "none");
}

/* Each thread is in one group, and equal to all that are there. */
static void check_members(const struct dump_groups *groups)
{
	size_t threads = 0, members = 0;
	for (size_t i = 0; i < groups->list->count; i++)
		threads += groups->list->dumps[i].thread_count;
	for (size_t i = 0; i < groups->count; i++) {
		const struct dump_group *group = &groups->groups[i];
		const struct dump_member *one = group->members;
		for (size_t k = 0; k < group->count; k++) {
			const struct dump_member *other = &group->members[k];
			assert_true(k == 0 || other[-1].dump < other->dump ||
				    (other[-1].dump == other->dump &&
				     other[-1].thread < other->thread));
			assert_int_equal(
				groups->list->dumps[one->dump].threads[one->thread].frame_count,
				groups->list->dumps[other->dump].threads[other->thread].frame_count);
		}
		members += group->count;
	}
	assert_int_equal(members, threads);
}

static const struct test_case cases[] = {
	{"nothing", {NULL}, "", ""},
	{"one", {"f main"}, "1/1", "1 f"},
	{"the odd one is first",
	 {"-all_reduce train", "-all_reduce train", "-poll -next train", "-all_reduce train"},
	 "1/1 3/3", "3 all_reduce, 1 next"},
	{"the innermost own function, where all are there",
	 {"-wait -get work main", "-wait -get work main"}, "2/2", "2 work"},
	{"a helper of all is no place",
	 {"block reduce train", "block load train", "block reduce train"}, "1/1 2/2",
	 "2 reduce, 1 load"},
	{"equal but for the line",
	 {"f:7 main", "f:8 main", "f:7 main"}, "1/1 2/2", "2 f (f.py:7), 1 f (f.py:8)"},
	{"equal but for an outer line",
	 {"f main:1", "f main:2", "f main:1"}, "1/1 2/2", "3 f"},
	{"equal but for native frames",
	 {"+read f main", "+write f main"}, "1/1 1/1", "2 f"},
	{"two that part early, two that part late",
	 {"a loop main", "b loop main", "serve start", "a loop main"}, "1/1 1/1 2/2",
	 "2 a, 1 b, 1 serve"},
	{"one is on the way of the others",
	 {"-reduce train", "train", "-reduce train"}, "1/1 2/2", "2 reduce, 1 train"},
	{"libraries alone", {"-poll -main", "-wait -main"}, "1/1 1/1", "1 poll, 1 wait"},
	{"native alone", {"+read +main", "+write +main"}, "1/1 1/1", "1 read, 1 write"},
	{"no stack", {"!", "f main", "!"}, "1/1 2/2", "2 none, 1 f"},
	{"no thread", {"", "f main"}, "1/1", "1 f"},
	{"several threads; the first counts",
	 {"f main|w", "f main|w|w", "g main|w"}, "1/1 2/2 3/4", "2 f, 1 g"},
	{"of as many processes, fewer threads first", {"f|w|w", "f|w|w"}, "2/2 2/4", "2 f"},
	{"an incomplete one is another one", {"f main", "f main !"}, "1/1 1/1", "2 f"},
	{"a first thread without a stack", {"!|f main", "!|g main"}, "1/1 1/1 2/2", "1 f, 1 g"},
	{"a recursion's depth", {"f f f", "f f", "f f f"}, "1/1 2/2", "3 f"},
	{"the same function on two ways",
	 {"f a main", "f b main", "f b main"}, "1/1 2/2", "2 b, 1 a"},
};

static void groups_and_places_are_as_the_stacks(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct interner *strings = interner_new();
		struct dump_list list = {0};
		struct dump_groups groups;
		_cleanup_strbuf_ struct strbuf shape, places;
		strbuf_init(&shape);
		strbuf_init(&places);
		print_message("%s\n", cases[i].what);
		for (size_t k = 0; k < MOST && cases[i].processes[k]; k++)
			add_process(&list, strings, cases[i].processes[k]);
		dump_groups_init(&groups, &list, true, false);
		describe(&groups, &shape, &places);
		check_members(&groups);
		assert_string_equal(shape.text, cases[i].groups);
		assert_string_equal(places.text, cases[i].places);
		dump_groups_release(&groups);
		dump_list_release(&list);
		interner_free(strings);
	}
}

static size_t group_count(const char *one, const char *other, bool lines)
{
	struct interner *strings = interner_new();
	struct dump_list list = {0};
	struct dump_groups groups;
	add_process(&list, strings, one);
	add_process(&list, strings, other);
	dump_groups_init(&groups, &list, lines, false);
	const size_t count = groups.count;
	dump_groups_release(&groups);
	dump_list_release(&list);
	interner_free(strings);
	return count;
}

static void lines_count_on_request(void **state)
{
	(void)state;
	assert_int_equal(group_count("f:1 main", "f:2 main", true), 2);
	assert_int_equal(group_count("f:1 main", "f:2 main", false), 1);
	assert_int_equal(group_count("f:1 main", "g:1 main", false), 2);
}

/* 4,096 processes of 30 frames, each of which parts from the others at a place of its own. */
static void thousands_are_grouped(void **state)
{
	(void)state;
	enum { MANY = 4096 };
	struct interner *strings = interner_new();
	struct dump_list list = {0};
	struct dump_groups groups;
	for (size_t i = 0; i < MANY; i++) {
		char text[64];
		snprintf(text, sizeof(text), "f%zu g main|w%zu", i, i % 2);
		add_process(&list, strings, text);
	}
	dump_groups_init(&groups, &list, true, false);
	assert_int_equal(groups.count, MANY + 2);
	assert_int_equal(groups.place_count, MANY);
	assert_int_equal(groups.groups[MANY].processes, MANY / 2);
	dump_groups_release(&groups);
	dump_list_release(&list);
	interner_free(strings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups_and_places_are_as_the_stacks),
		cmocka_unit_test(lines_count_on_request),
		cmocka_unit_test(thousands_are_grouped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
