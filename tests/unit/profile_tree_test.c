/* SPDX-License-Identifier: MIT */
/* The call tree's counts and the text of frames. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/table.h"
#include "profile/profile.h"

static int start(void **state)
{
	struct profile *profile = calloc(1, sizeof(*profile));
	profile_init(profile, interner_new());
	*state = profile;
	return 0;
}

static int stop(void **state)
{
	struct profile *profile = *state;
	interner_free(profile->strings);
	profile_release(profile);
	free(profile);
	return 0;
}

static uint32_t named(struct profile *profile, const char *name)
{
	struct frame frame = {.name = intern_text(profile->strings, name)};
	return profile_frame(profile, &frame);
}

static void equal_stacks_are_one_path(void **state)
{
	struct profile *p = *state;
	uint32_t a = named(p, "a"), b = named(p, "b");
	profile_add(p, (const uint32_t[]){a, b}, 2, 3);
	profile_add(p, (const uint32_t[]){a, b}, 2, 4);
	assert_int_equal(p->node_count, 3);
	assert_int_equal(p->nodes[2].self, 7);
}

static void self_and_total_follow_the_path(void **state)
{
	struct profile *p = *state;
	uint32_t a = named(p, "a"), b = named(p, "b");
	profile_add(p, (const uint32_t[]){a}, 1, 1);
	profile_add(p, (const uint32_t[]){a, b}, 2, 2);
	profile_add(p, (const uint32_t[]){a, b, a}, 3, 4);
	profile_add(p, NULL, 0, 8);
	const uint64_t self[] = {8, 1, 2, 4}, total[] = {15, 7, 6, 4};
	assert_int_equal(p->node_count, 4);
	uint64_t *totals = profile_totals(p);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(p->nodes[i].self, self[i]);
		assert_int_equal(totals[i], total[i]);
	}
	free(totals);
}

static void children_are_found_again_and_come_after_their_parent(void **state)
{
	struct profile *p = *state;
	for (uint32_t i = 0; i < 1000; i++) {
		char name[16];
		snprintf(name, sizeof(name), "f%u", i % 250);
		profile_add(p, (const uint32_t[]){named(p, "root"), named(p, name)}, 2, 1);
	}
	assert_int_equal(p->node_count, 252);
	assert_int_equal(p->frame_count, 251);
	for (uint32_t i = 2; i < p->node_count; i++) {
		assert_int_equal(p->nodes[i].parent, 1);
		assert_int_equal(p->nodes[i].self, 4);
	}
}

enum { STACKS = 3000, MOST = 6, NAMES = 4 };

struct stack {
	uint32_t frames[MOST], node;
	size_t size;
	uint64_t samples; /* of all equal ones, in the first of them */
};

static struct stack *first_equal(struct stack *stacks, const struct stack *stack)
{
	while (stacks < stack && (stacks->size != stack->size ||
				  memcmp(stacks->frames, stack->frames, sizeof(stack->frames))))
		stacks++;
	return stacks;
}

static void is_path(const struct profile *p, const struct stack *stack)
{
	uint32_t at = stack->node;
	for (size_t i = stack->size; i-- > 0; at = p->nodes[at].parent)
		assert_int_equal(p->nodes[at].frame, stack->frames[i]);
	assert_int_equal(at, PROFILE_ROOT);
}

/* The tree against each stack compared with all that came before it. */
static void random_stacks_are_counted_as_they_are(void **state)
{
	struct profile *p = *state;
	static struct stack stacks[STACKS];
	for (int i = 0; i < NAMES; i++)
		named(p, (const char[]){(char)('a' + i), 0});
	for (uint64_t i = 0, random = 1; i < STACKS; i++) {
		struct stack *stack = &stacks[i];
		random = hash_pair(random, i);
		stack->size = random % (MOST + 1);
		for (size_t k = 0; k < stack->size; k++)
			stack->frames[k] = (uint32_t)(random >> (8 + 4 * k)) % NAMES;
		stack->node = profile_add(p, stack->frames, stack->size, i);
		struct stack *first = first_equal(stacks, stack);
		assert_int_equal(first->node, stack->node);
		first->samples += i;
		is_path(p, stack);
	}
	for (size_t i = 0; i < STACKS; i++)
		if (stacks[i].samples)
			assert_int_equal(p->nodes[stacks[i].node].self, stacks[i].samples);
}

static void frames_differ_by_every_field(void **state)
{
	struct profile *p = *state;
	const char *text = intern_text(p->strings, "x");
	const struct frame frames[] = {
		{0},
		{.kind = FRAME_NATIVE},
		{.name = text},
		{.file = text},
		{.short_file = text},
		{.line = 1},
		{.line = -1},
		{.module = text},
		{.module_path = text},
		{.offset = 1},
		{.function_offset = 1},
		{.has_function = true},
		{.build_id = text},
		{.inlined = true},
		{.guessed = true},
		{.uncertain = true},
		{.estimated = true},
	};
	const size_t count = sizeof(frames) / sizeof(frames[0]);
	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < count; i++)
			assert_int_equal(profile_frame(p, &frames[i]), i);
	assert_int_equal(p->frame_count, count);
}

static void very_deep_stacks_are_counted(void **state)
{
	struct profile *p = *state;
	const size_t depth = 200000;
	uint32_t *stack = calloc(depth, sizeof(*stack)), a = named(p, "a");
	for (size_t i = 0; i < depth; i++)
		stack[i] = a;
	profile_add(p, stack, depth, 1);
	assert_int_equal(p->node_count, depth + 1);
	assert_int_equal(p->nodes[depth].self, 1);
	free(stack);
}

static void frame_texts_are_as_documented(void **state)
{
	(void)state;
	static const struct {
		struct frame frame;
		bool no_lines, full;
		const char *text;
	} cases[] = {
		{{.name = "fit", .short_file = "als.py", .file = "/a/als.py", .line = 159},
		 0,
		 0,
		 "fit (als.py:159)"},
		{{.name = "fit", .short_file = "als.py", .file = "/a/als.py", .line = 159},
		 1,
		 0,
		 "fit (als.py)"},
		{{.name = "fit", .short_file = "als.py", .file = "/a/als.py", .line = 159},
		 0,
		 1,
		 "fit (/a/als.py:159)"},
		{{.name = "fit", .short_file = "als.py"}, 0, 0, "fit (als.py)"},
		{{.name = "fit"}, 0, 0, "fit"},
		{{.name = "dgemm", .module = "libopenblas.so.0"}, 0, 0, "dgemm (libopenblas.so.0)"},
		{{.name = "dgemm", .module = "b.so", .module_path = "/l/b.so"},
		 0,
		 1,
		 "dgemm (/l/b.so)"},
		{{.name = "f", .module = "b.so", .short_file = "f.c", .line = 3},
		 0,
		 0,
		 "f (f.c:3)"},
		{{.name = "f", .module = "b.so", .short_file = "f.c"}, 0, 0, "f (b.so)"},
		{{.module = "b.so",
		  .has_function = true,
		  .function_offset = 0x1a2b0,
		  .offset = 0x1a2ff},
		 0,
		 0,
		 "b.so+0x1a2b0"},
		{{.module = "b.so"}, 0, 0, "b.so [guessed]"},
		{{.module = "b.so", .guessed = true}, 0, 0, "b.so [guessed]"},
		{{.name = "f", .module = "b.so", .guessed = true}, 0, 0, "f (b.so) [guessed]"},
		{{.module = "b.so", .has_function = true, .guessed = true},
		 0,
		 0,
		 "b.so+0x0 [guessed]"},
		{{.name = "f", .module = "b.so", .uncertain = true}, 0, 0, "f? (b.so)"},
		{{.name = "f", .short_file = "a.pyx", .line = 18, .estimated = true},
		 0,
		 0,
		 "f (a.pyx:~18)"},
		{{.name = "f", .short_file = "a.pyx", .line = 18, .estimated = true},
		 1,
		 0,
		 "f (a.pyx)"},
		{{0}, 0, 0, "[unknown] [guessed]"},
		{{.name = ""}, 0, 0, "[unknown] [guessed]"},
		{{.kind = FRAME_THREAD, .name = "thread 7 \"x (y)\""}, 0, 0, "thread 7 \"x (y)\""},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct strbuf _cleanup_strbuf_ text;
		strbuf_init(&text);
		frame_text(&text, &cases[i].frame, !cases[i].no_lines, cases[i].full);
		assert_string_equal(text.text, cases[i].text);
	}
}

static void kinds_have_names(void **state)
{
	(void)state;
	for (int i = 0; i < FRAME_KIND_COUNT; i++)
		assert_non_null(frame_kind_name(i));
	assert_string_equal(frame_kind_name(FRAME_PYTHON_LIBRARY), "python-library");
	assert_string_equal(frame_kind_name(FRAME_KIND_COUNT), "unknown");
}

static void pacing_is_shares_of_what_was_asked_for(void **state)
{
	(void)state;
	static const struct {
		const char *what;
		uint64_t ticks, late_ticks, asked, late, stopped_ns, elapsed_ns;
		double rate, late_share, stopped_share;
	} cases[] = {
		{"nothing", 0, 0, 0, 0, 0, 0, 0, 0, 0},
		{"of unknown length", 5, 5, 10, 5, 7, 0, 0, 0, 0},
		{"no tick yet", 0, 0, 0, 0, 0, 1, 0, 0, 0},
		{"short", 29, 0, 29, 0, 0, 300000000, 1000, 0, 0},
		{"a quarter is late", 1500, 500, 2000, 500, 100000000, 2000000000, 750, 0.25, 0.05},
		{"of two threads one woke unseen", 100, 0, 200, 20, 0, 100000000, 1000, 0.1, 0},
		{"all is late", 0, 10, 10, 10, 0, 1000000000, 0, 1, 0},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct profile_counts counts = {.ticks = cases[i].ticks,
						      .late_ticks = cases[i].late_ticks,
						      .asked = cases[i].asked,
						      .late = cases[i].late,
						      .stopped_ns = cases[i].stopped_ns,
						      .elapsed_ns = cases[i].elapsed_ns};
		const struct profile_pacing pacing = profile_pacing(&counts, 1000);
		print_message("%s\n", cases[i].what);
		assert_float_equal(pacing.rate, cases[i].rate, 1e-9);
		assert_float_equal(pacing.late_share, cases[i].late_share, 1e-9);
		assert_float_equal(pacing.stopped_share, cases[i].stopped_share, 1e-9);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(equal_stacks_are_one_path, start, stop),
		cmocka_unit_test_setup_teardown(self_and_total_follow_the_path, start, stop),
		cmocka_unit_test_setup_teardown(
			children_are_found_again_and_come_after_their_parent, start, stop),
		cmocka_unit_test_setup_teardown(random_stacks_are_counted_as_they_are, start, stop),
		cmocka_unit_test_setup_teardown(frames_differ_by_every_field, start, stop),
		cmocka_unit_test_setup_teardown(very_deep_stacks_are_counted, start, stop),
		cmocka_unit_test(frame_texts_are_as_documented),
		cmocka_unit_test(kinds_have_names),
		cmocka_unit_test(pacing_is_shares_of_what_was_asked_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
