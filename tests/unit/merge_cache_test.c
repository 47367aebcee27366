/* SPDX-License-Identifier: MIT */
/* A merge that takes over what the last one has made: the same as one that does not, and no more of
 * it than comes from what has not changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "merge/internal.h"
#include "python/internal.h"

enum {
	NATIVES = 30,
	EVERY = 8, /* natives 4, 12, 20 and 28 run two Python frames each */
	FIRST = 4,
	LEVELS = 4,
	/* Merged frames outside of the second, third and fourth of them. The first is too near to
	 * the leaf. */
	OUTSIDE_2 = 7 + 2 + 7 + 2 + 1,
	OUTSIDE_3 = 7 + 2 + 1,
	OUTSIDE_4 = 1,
	STACK = 0x100000, /* the outermost frame's end */
	FRAME = 0x100,
	FIRST_ID = 100,
};

struct stage {
	struct unwind_stack native;
	struct python_stack python;
	struct merged_stack merged, plain;
	struct module_table modules;
	struct module interpreter; /* without code of its own */
	struct python_runtime runtime, other_runtime;
	struct python_code codes[2 * LEVELS], other_code;
	struct eval_code eval, plain_eval;
	struct merge_cache *cache;
	bool collecting, has_other_runtime;
};

/* With so many native frames more at the leaf. */
static void fill(struct stage *stage, int more)
{
	const size_t count = (size_t)(NATIVES + more);
	struct unwind_stack *native = &stage->native;
	struct python_stack *python = &stage->python;
	native->frames =
		alloc_room(native->frames, &native->capacity, count, sizeof(*native->frames));
	python->frames = alloc_room(python->frames, &python->frame_capacity, 2 * LEVELS,
				    sizeof(*python->frames));
	python->activations = alloc_room(python->activations, &python->activation_capacity, LEVELS,
					 sizeof(*python->activations));
	native->count = count;
	native->end = UNWIND_END_OUTERMOST;
	for (size_t i = 0; i < count; i++) {
		const remote_addr cfa = STACK - (count - 1 - i) * FRAME;
		native->frames[i] = (struct unwind_frame){.pc = 0x500000 - (count - i),
							  .sp = cfa - FRAME,
							  .cfa = cfa,
							  .function = cfa};
	}
	python->count = 2 * LEVELS;
	python->activation_count = LEVELS;
	for (size_t i = 0; i < 2 * LEVELS; i++)
		python->frames[i] = (struct python_frame){
			.code = &stage->codes[i], .line = (int)i + 1, .instruction = 2 * (int)i};
	for (size_t i = 0; i < LEVELS; i++)
		python->activations[i] = (struct python_activation){
			native->frames[(size_t)(FIRST + more) + i * EVERY].sp + 8, 2 * (uint32_t)i,
			2};
}

static struct merge_input input_of(struct stage *stage)
{
	return (struct merge_input){
		.native = &stage->native,
		.python = &stage->python,
		.runtime = stage->has_other_runtime ? &stage->other_runtime : &stage->runtime,
		.modules = &stage->modules,
		.collecting = stage->collecting,
		.code = &stage->eval,
		.cache = stage->cache,
	};
}

static void merge(struct stage *stage)
{
	const struct merge_input input = input_of(stage);
	struct merge_input plain = input;
	plain.cache = NULL;
	plain.code = &stage->plain_eval;
	merge_stacks(&input, &stage->merged);
	merge_stacks(&plain, &stage->plain);
}

static void keep(struct stage *stage)
{
	const struct merge_input input = input_of(stage);
	merge_cache_keep(stage->cache, &input, &stage->native, &stage->python, &stage->merged);
}

/* One merge, kept, its frames numbered by their place from the outermost end. */
static void set_up(struct stage *stage)
{
	memset(stage, 0, sizeof(*stage));
	module_table_init(&stage->modules);
	stage->runtime.module = stage->other_runtime.module = &stage->interpreter;
	stage->cache = merge_cache_new();
	fill(stage, 0);
	stage->native.walk = stage->python.walk = 1;
	merge(stage);
	assert_int_equal(stage->merged.reused, 0);
	for (size_t i = 0; i < stage->merged.count; i++)
		stage->merged.frames[i].id = FIRST_ID + (uint32_t)(stage->merged.count - i);
	keep(stage);
}

static void tear_down(struct stage *stage)
{
	unwind_stack_release(&stage->native);
	python_stack_release(&stage->python);
	merged_stack_release(&stage->merged);
	merged_stack_release(&stage->plain);
	merge_cache_free(stage->cache);
	module_table_release(&stage->modules);
}

static void expect_the_same(const struct stage *stage)
{
	const struct merged_stack *a = &stage->merged, *b = &stage->plain;
	assert_int_equal(a->count, b->count);
	for (size_t i = 0; i < a->count; i++) {
		assert_int_equal(a->frames[i].kind, b->frames[i].kind);
		assert_int_equal(a->frames[i].native, b->frames[i].native);
		assert_ptr_equal(a->frames[i].code, b->frames[i].code);
		assert_int_equal(a->frames[i].line, b->frames[i].line);
		assert_int_equal(a->frames[i].instruction, b->frames[i].instruction);
		assert_int_equal(a->frames[i].hidden, b->frames[i].hidden);
	}
	assert_int_equal(a->salvaged, b->salvaged);
	assert_int_equal(a->truncated, b->truncated);
	assert_int_equal(a->broken, b->broken);
	assert_memory_equal(&stage->eval, &stage->plain_eval, sizeof(stage->eval));
}

static void expect_numbers(const struct stage *stage)
{
	const struct merged_stack *merged = &stage->merged;
	for (size_t i = merged->count - merged->reused; i < merged->count; i++)
		assert_int_equal(merged->frames[i].id, FIRST_ID + (merged->count - i));
}

/* ---- what has changed, and how much is cached ---- */

static void pc_2(struct stage *stage)
{
	stage->native.frames[2].pc++;
}
static void pc_12(struct stage *stage)
{
	stage->native.frames[12].pc++;
}
static void pc_13(struct stage *stage)
{
	stage->native.frames[13].pc++;
}
static void pc_25(struct stage *stage)
{
	stage->native.frames[25].pc++;
}
static void sp_25(struct stage *stage)
{
	stage->native.frames[25].sp += 8;
}
static void cfa_25(struct stage *stage)
{
	stage->native.frames[25].cfa -= 8;
}
static void function_25(struct stage *stage)
{
	stage->native.frames[25].function++;
}
static void kind_25(struct stage *stage)
{
	stage->native.frames[25].pc_kind = UNWIND_PC_RETURN;
}
static void guessed_25(struct stage *stage)
{
	stage->native.frames[25].guessed = true;
}
static void trampoline_25(struct stage *stage)
{
	stage->native.frames[25].trampoline = true;
}
static void pc_29(struct stage *stage)
{
	stage->native.frames[29].pc++;
}
static void end_29(struct stage *stage)
{
	stage->native.frames[29].cfa += 8;
}
static void line_0(struct stage *stage)
{
	stage->python.frames[0].line++;
}
static void code_4(struct stage *stage)
{
	stage->python.frames[4].code = &stage->other_code;
}
static void line_4(struct stage *stage)
{
	stage->python.frames[4].line++;
}
static void instruction_5(struct stage *stage)
{
	stage->python.frames[5].instruction++;
}
static void record_2(struct stage *stage)
{
	stage->python.activations[2].record += 8;
}
static void split_2(struct stage *stage)
{
	stage->python.activations[2].count = 1;
	stage->python.activations[3].first--;
	stage->python.activations[3].count = 3;
}
static void line_7(struct stage *stage)
{
	stage->python.frames[7].line++;
}
static void nothing(struct stage *stage)
{
	(void)stage;
}
static void collecting(struct stage *stage)
{
	stage->collecting = true;
}
static void modules(struct stage *stage)
{
	stage->modules.generation++;
}
static void runtime(struct stage *stage)
{
	stage->has_other_runtime = true;
}

struct change {
	void (*make)(struct stage *stage);
	int more; /* native frames at the leaf */
	size_t reused;
};

static const struct change changes[] = {
	{nothing, 0, OUTSIDE_2},
	{nothing, 3, OUTSIDE_2},
	{nothing, -3, OUTSIDE_2},
	{pc_2, 0, OUTSIDE_2},
	{pc_12, 0, OUTSIDE_2},
	{line_0, 0, OUTSIDE_2},
	{pc_13, 0, OUTSIDE_3},
	{code_4, 0, OUTSIDE_3},
	{line_4, 0, OUTSIDE_3},
	{instruction_5, 0, OUTSIDE_3},
	{record_2, 0, OUTSIDE_3},
	{pc_25, 0, OUTSIDE_4},
	{sp_25, 0, OUTSIDE_4},
	{cfa_25, 0, OUTSIDE_4},
	{function_25, 0, OUTSIDE_4},
	{kind_25, 0, OUTSIDE_4},
	{guessed_25, 0, OUTSIDE_4},
	{trampoline_25, 0, OUTSIDE_4},
	{split_2, 0, OUTSIDE_4},
	{line_7, 0, OUTSIDE_4},
	{pc_29, 0, 0},
	{end_29, 0, 0},
	{collecting, 0, 0},
	{modules, 0, 0},
	{runtime, 0, 0},
};

/* What the unwinder says of its own frames is believed of the walk that was merged last. */
static void frames_of_another_walk_are_compared(void **state)
{
	(void)state;
	for (uint64_t from = 1; from <= 2; from++) {
		struct stage stage;
		set_up(&stage);
		fill(&stage, 0);
		pc_25(&stage);
		stage.native.walk = 3;
		stage.native.reused_from = from;
		stage.native.reused = from == 1 ? stage.native.count - 26 : stage.native.count;
		merge(&stage);
		expect_the_same(&stage);
		assert_int_equal(stage.merged.reused, OUTSIDE_4);
		expect_numbers(&stage);
		tear_down(&stage);
	}
}

/* The same of what is said of the Python frames. */
static void python_frames_of_another_walk_are_compared(void **state)
{
	(void)state;
	for (uint64_t from = 1; from <= 2; from++) {
		struct stage stage;
		set_up(&stage);
		fill(&stage, 0);
		line_7(&stage);
		stage.python.walk = 3;
		stage.python.reused_from = from;
		stage.python.reused = from == 1 ? stage.python.count - 8 : stage.python.count;
		merge(&stage);
		expect_the_same(&stage);
		assert_int_equal(stage.merged.reused, OUTSIDE_4);
		expect_numbers(&stage);
		tear_down(&stage);
	}
}

static void what_has_not_changed_is_recalled(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
		struct stage stage;
		set_up(&stage);
		fill(&stage, changes[i].more);
		changes[i].make(&stage);
		merge(&stage);
		expect_the_same(&stage);
		if (stage.merged.reused != changes[i].reused)
			fail_msg("change %zu: %zu frames cached, not %zu", i,
				 stage.merged.reused, changes[i].reused);
		expect_numbers(&stage);
		tear_down(&stage);
	}
}

/* What was cached is used again. */
static void a_recalled_merge_is_kept(void **state)
{
	(void)state;
	struct stage stage;
	set_up(&stage);
	for (int i = 0; i < 5; i++) {
		fill(&stage, i);
		merge(&stage);
		assert_int_equal(stage.merged.reused, OUTSIDE_2);
		expect_the_same(&stage);
		expect_numbers(&stage);
		keep(&stage);
	}
	tear_down(&stage);
}

/* Near the leaf nothing is cached, but the number of a Python frame at the same place from the
 * outermost end is, if it is the same one. */
static void numbers_of_equal_frames_are_recalled(void **state)
{
	(void)state;
	struct stage stage;
	set_up(&stage);
	fill(&stage, 0);
	stage.python.frames[0].code = &stage.other_code;
	stage.python.frames[2].instruction++;
	stage.python.frames[3].line++;
	merge(&stage);
	size_t known = 0;
	for (size_t i = 0; i < stage.merged.count; i++) {
		const uint32_t id = merge_cache_id(stage.cache, &stage.merged, i);
		const struct merged_frame *frame = &stage.merged.frames[i];
		const bool changed = frame->code == &stage.other_code ||
				     frame->code == &stage.codes[2] ||
				     frame->code == &stage.codes[3];
		if (frame->kind == MERGED_PYTHON && !changed)
			assert_int_equal(id, FIRST_ID + (stage.merged.count - i));
		else
			assert_int_equal(id, NO_FRAME_ID);
		known += id != NO_FRAME_ID;
	}
	assert_int_equal(known, 2 * LEVELS - 3);
	tear_down(&stage);
}

/* Python frames without a native frame: where they went depends on what is inside, too. */
static void a_salvaged_merge_is_not_kept(void **state)
{
	(void)state;
	struct stage stage;
	set_up(&stage);
	for (int i = 0; i < 2; i++) {
		fill(&stage, 0);
		stage.python.activations[3].record = 0;
		merge(&stage);
		assert_true(stage.merged.salvaged);
		assert_int_equal(stage.merged.reused, 0);
		expect_the_same(&stage);
		keep(&stage);
	}
	tear_down(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_has_not_changed_is_recalled),
		cmocka_unit_test(frames_of_another_walk_are_compared),
		cmocka_unit_test(python_frames_of_another_walk_are_compared),
		cmocka_unit_test(a_recalled_merge_is_kept),
		cmocka_unit_test(numbers_of_equal_frames_are_recalled),
		cmocka_unit_test(a_salvaged_merge_is_not_kept),
	};
	return cmocka_run_group_tests_name("sample_merge_recall", tests, NULL, NULL);
}
