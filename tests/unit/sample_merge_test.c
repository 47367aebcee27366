/* SPDX-License-Identifier: MIT */
/* The merge on synthetic stacks: what owns what is told by addresses alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "python/internal.h"
#include "sample/internal.h"

enum { MAX = 16 };

struct stage {
	struct unwind_frame natives[MAX];
	struct python_frame frames[MAX];
	struct python_activation activations[MAX];
	struct python_code codes[MAX];
	struct unwind_stack native;
	struct python_stack python;
	struct module_table modules;
	struct merged_stack merged;
	struct eval_code code;
	struct python_runtime runtime;
	struct module interpreter; /* without code of its own */
	char text[512];
};

/* Native frames of 0x100 bytes each, innermost at 0x1000. */
static void set_natives(struct stage *stage, size_t count, enum unwind_end end)
{
	for (size_t i = 0; i < count; i++)
		stage->natives[i] = (struct unwind_frame){
			.pc = 0x400000 + i, .sp = 0x1000 + i * 0x100, .cfa = 0x1100 + i * 0x100};
	stage->native = (struct unwind_stack){
		.frames = stage->natives, .count = count, .capacity = MAX, .end = end};
}

/* One activation: its record's address and how many frames it runs. */
static void add_activation(struct stage *stage, remote_addr record, uint32_t count)
{
	struct python_stack *python = &stage->python;
	python->activations = stage->activations;
	python->frames = stage->frames;
	stage->activations[python->activation_count++] =
		(struct python_activation){record, (uint32_t)python->count, count};
	for (uint32_t i = 0; i < count; i++, python->count++) {
		stage->codes[python->count].id = (uint32_t)python->count;
		stage->frames[python->count] = (struct python_frame){
			.code = &stage->codes[python->count], .line = (int)python->count + 1};
	}
}

/* "n0 p0 p1 n2": innermost first; hidden frames in parentheses. */
static const char *merge(struct stage *stage, bool native, enum merged_kind wait)
{
	struct merge_input input = {.native = native ? &stage->native : NULL,
				    .python =
					    stage->python.activation_count ? &stage->python : NULL,
				    .runtime = &stage->runtime,
				    .modules = &stage->modules,
				    .code = &stage->code,
				    .wait = wait};
	merge_stacks(&input, &stage->merged);
	stage->text[0] = '\0';
	for (size_t i = 0; i < stage->merged.count; i++) {
		const struct merged_frame *frame = &stage->merged.frames[i];
		size_t used = strlen(stage->text);
		snprintf(stage->text + used, sizeof(stage->text) - used,
			 frame->hidden ? "%s(%c%u)" : "%s%c%u", i ? " " : "",
			 frame->kind == MERGED_PYTHON	     ? 'p'
			 : frame->kind == MERGED_GIL_WAIT    ? 'g'
			 : frame->kind == MERGED_IMPORT_WAIT ? 'i'
							     : 'n',
			 frame->kind == MERGED_PYTHON ? frame->code->id : frame->native);
	}
	return stage->text;
}

static int set_up(void **state)
{
	struct stage *stage = calloc(1, sizeof(*stage));
	module_table_init(&stage->modules);
	stage->runtime.module = &stage->interpreter;
	*state = stage;
	return 0;
}

static int tear_down(void **state)
{
	struct stage *stage = *state;
	merged_stack_release(&stage->merged);
	module_table_release(&stage->modules);
	free(stage);
	return 0;
}

static void python_frames_replace_the_activation_that_holds_their_record(void **state)
{
	struct stage *stage = *state;
	set_natives(stage, 6, UNWIND_END_OUTERMOST);
	add_activation(stage, 0x1150, 2); /* in native 1 */
	add_activation(stage, 0x1450, 1); /* in native 4 */
	assert_string_equal(merge(stage, true, MERGED_NATIVE), "n0 p0 p1 n2 n3 p2 (n5)");
	assert_false(stage->merged.salvaged);
	assert_false(stage->merged.truncated);
}

static void an_activation_just_entered_vanishes(void **state)
{
	struct stage *stage = *state;
	set_natives(stage, 4, UNWIND_END_OUTERMOST);
	add_activation(stage, 0x1010, 0);
	add_activation(stage, 0x1210, 1);
	assert_string_equal(merge(stage, true, MERGED_NATIVE), "n1 p0 (n3)");
	assert_false(stage->merged.salvaged);
}

/* Python and native frames of different moments: greenlets are being switched. */
static void an_activation_that_runs_nothing_in_mid_stack_is_told(void **state)
{
	struct stage *stage = *state;
	const remote_addr eval = 0x7000;
	set_natives(stage, 8, UNWIND_END_OUTERMOST);
	stage->natives[4].function = stage->natives[6].function = eval;
	add_activation(stage, 0x1650, 2);
	/* Nobody knows yet what the eval function is: the first stack tells. */
	for (unsigned i = 0; i < 100; i++) {
		merge(stage, true, MERGED_NATIVE);
		assert_true(stage->merged.broken);
	}
	stage->natives[4].function = 0x9000;
	assert_string_equal(merge(stage, true, MERGED_NATIVE), "n0 n1 n2 n3 n4 n5 p0 p1 (n7)");
	assert_false(stage->merged.broken);
	/* Outside of the outermost one: of another greenlet, which does not run. */
	stage->natives[7].function = eval;
	merge(stage, true, MERGED_NATIVE);
	assert_false(stage->merged.broken);
	stage->code = (struct eval_code){0};
	merge(stage, true, MERGED_NATIVE);
	merge(stage, true, MERGED_NATIVE);
	assert_false(stage->merged.broken);
	/* By its name, from the start. */
	stage->code = (struct eval_code){0};
	stage->runtime.eval = (struct python_ranges){{{0x400003, 0x400005}}, 1};
	merge(stage, true, MERGED_NATIVE);
	assert_true(stage->merged.broken);
}

/* A first stack that was being switched names the wrong function: those after it outweigh it. */
static void one_mistake_about_the_eval_function_is_soon_forgotten(void **state)
{
	struct stage *stage = *state;
	set_natives(stage, 8, UNWIND_END_OUTERMOST);
	add_activation(stage, 0x1650, 2);
	stage->natives[6].function = 0x9000;
	merge(stage, true, MERGED_NATIVE);
	stage->natives[6].function = 0x7000;
	stage->natives[4].function = 0x9000;
	merge(stage, true, MERGED_NATIVE);
	assert_true(stage->merged.broken);
	for (unsigned i = 0; i < 8; i++)
		merge(stage, true, MERGED_NATIVE);
	assert_false(stage->merged.broken);
}

static void a_run_without_its_activation_goes_between_its_neighbours(void **state)
{
	struct stage *stage = *state;
	set_natives(stage, 5, UNWIND_END_OUTERMOST);
	add_activation(stage, 0x1010, 1);
	add_activation(stage, 0, 1); /* no record */
	add_activation(stage, 0x1310, 1);
	assert_string_equal(merge(stage, true, MERGED_NATIVE), "p0 n1 n2 p1 p2 (n4)");
	assert_true(stage->merged.salvaged);
}

static void a_cut_native_stack_keeps_the_outer_python_frames(void **state)
{
	struct stage *stage = *state;
	set_natives(stage, 2, UNWIND_END_STACK_COPY);
	add_activation(stage, 0x1110, 1);
	add_activation(stage, 0x9010, 3);
	assert_string_equal(merge(stage, true, MERGED_NATIVE), "n0 p0 p1 p2 p3");
	assert_true(stage->merged.salvaged);
	assert_true(stage->merged.truncated);
}

static void records_on_another_stack_match_nothing_here(void **state)
{
	struct stage *stage = *state;
	set_natives(stage, 3, UNWIND_END_OUTERMOST);
	add_activation(stage, 0x1110, 1);
	add_activation(stage, 0x50, 1);
	assert_string_equal(merge(stage, true, MERGED_NATIVE), "n0 p0 n2 p1");
	assert_true(stage->merged.salvaged);
}

static void two_records_in_one_frame_keep_their_order(void **state)
{
	/* The eval function inlined into another: both records are its locals. */
	struct stage *stage = *state;
	set_natives(stage, 3, UNWIND_END_OUTERMOST);
	add_activation(stage, 0x1110, 1);
	add_activation(stage, 0x1180, 1);
	assert_string_equal(merge(stage, true, MERGED_NATIVE), "n0 p0 p1 (n2)");
}

static void without_native_frames_python_stands_alone(void **state)
{
	struct stage *stage = *state;
	add_activation(stage, 0x1110, 1);
	add_activation(stage, 0, 2);
	assert_string_equal(merge(stage, false, MERGED_NATIVE), "p0 p1 p2");
	assert_false(stage->merged.salvaged);
}

static void a_gil_waiter_without_native_frames_has_the_mark(void **state)
{
	struct stage *stage = *state;
	add_activation(stage, 0x1110, 1);
	assert_string_equal(merge(stage, false, MERGED_GIL_WAIT), "g0 p0");
}

static void an_import_waiter_is_marked_inside_of_what_it_imports(void **state)
{
	struct stage *stage = *state;
	add_activation(stage, 0x1110, 1);
	assert_string_equal(merge(stage, false, MERGED_IMPORT_WAIT), "i0 p0");
}

static void a_thread_unknown_to_python_is_all_native(void **state)
{
	struct stage *stage = *state;
	set_natives(stage, 3, UNWIND_END_NO_INFO);
	assert_string_equal(merge(stage, true, MERGED_NATIVE), "n0 n1 n2");
	assert_true(stage->merged.truncated);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(python_frames_replace_the_activation_that_holds_their_record),
		TEST(an_activation_just_entered_vanishes),
		TEST(an_activation_that_runs_nothing_in_mid_stack_is_told),
		TEST(one_mistake_about_the_eval_function_is_soon_forgotten),
		TEST(a_run_without_its_activation_goes_between_its_neighbours),
		TEST(a_cut_native_stack_keeps_the_outer_python_frames),
		TEST(records_on_another_stack_match_nothing_here),
		TEST(two_records_in_one_frame_keep_their_order),
		TEST(without_native_frames_python_stands_alone),
		TEST(a_gil_waiter_without_native_frames_has_the_mark),
		TEST(an_import_waiter_is_marked_inside_of_what_it_imports),
		TEST(a_thread_unknown_to_python_is_all_native),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
