/* SPDX-License-Identifier: MIT */
/* Stacks that end at a code address: kept in little memory, they are those that were counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "frames/frames.h"

enum { MODULES = 3, PARENTS = 400 };

/* Two trees with the same inner nodes: one is counted in as it comes, the other in the end. */
struct world {
	struct interner *strings;
	struct module made[MODULES];
	struct module *modules[MODULES];
	struct module_table table;
	struct frame_table frames[2];
	struct profile trees[2];
	struct leaves leaves;
	uint64_t random;
};

static uint64_t any(struct world *world, uint64_t below)
{
	world->random = world->random * 6364136223846793005u + 1442695040888963407u;
	return (world->random >> 33) % below;
}

static void set_up_world(struct world *world)
{
	memset(world, 0, sizeof(*world));
	world->strings = interner_new();
	for (uint32_t i = 0; i < MODULES; i++) {
		world->made[i].id = i;
		/* The last one is of code made at run time. */
		world->made[i].base = i + 1 == MODULES ? 0x7f1234567000 : 0;
		world->modules[i] = &world->made[i];
	}
	world->table.modules = world->modules;
	world->table.module_count = MODULES;
	for (int tree = 0; tree < 2; tree++) {
		profile_init(&world->trees[tree], world->strings);
		for (uint32_t i = 0; i + 1 < PARENTS; i++)
			profile_add(&world->trees[tree], (const uint32_t[]){1000000 + i % 20, 1000000 + i},
				    2, 0);
	}
}

static void release_world(struct world *world)
{
	for (int tree = 0; tree < 2; tree++) {
		profile_release(&world->trees[tree]);
		frame_table_release(&world->frames[tree]);
	}
	leaves_release(&world->leaves);
	interner_free(world->strings);
}

static void count(struct world *world, uint32_t parent, const struct raw_frame *frame,
		  uint64_t samples)
{
	uint64_t key;
	assert_true(leaf_pack(frame, &key));
	assert_true(key >> 60 == 0);
	leaves_add(&world->leaves, parent, key, samples);
	profile_add_to(&world->trees[0], parent, frame_table_native(&world->frames[0], frame),
		       samples);
}

/* What tells a stack of the end from others, and how often it was met. */
struct counted {
	uint64_t parent, module, offset, flags, self;
};

static int by_all(const void *left, const void *right)
{
	return memcmp(left, right, sizeof(struct counted));
}

static struct counted *list(const struct profile *tree, const struct frame_table *frames,
			    size_t first)
{
	struct counted *all = alloc_zeroed(tree->node_count - first + 1, sizeof(*all));
	for (size_t i = first; i < tree->node_count; i++) {
		const struct raw_frame *frame = &frames->frames[tree->nodes[i].frame];
		assert_int_equal(frame->kind, RAW_NATIVE);
		all[i - first] = (struct counted){
			tree->nodes[i].parent, frame->module->id, frame->offset,
			(uint64_t)frame->exact | (uint64_t)frame->guessed << 1 |
				(uint64_t)frame->interpreter << 2 | (uint64_t)frame->hidden << 3 |
				(uint64_t)frame->idle << 4,
			tree->nodes[i].self};
	}
	qsort(all, tree->node_count - first, sizeof(*all), by_all);
	return all;
}

static void check_trees(struct world *world, size_t first)
{
	const size_t count = world->trees[0].node_count;
	assert_int_equal(world->trees[1].node_count, count);
	struct counted *now = list(&world->trees[0], &world->frames[0], first);
	struct counted *later = list(&world->trees[1], &world->frames[1], first);
	assert_memory_equal(now, later, (count - first) * sizeof(*now));
	free(now);
	free(later);
}

static void settle(struct world *world)
{
	leaves_settle(&world->leaves, &world->frames[1], &world->table, &world->trees[1]);
	assert_int_equal(leaves_footprint(&world->leaves), 0);
}

static void all_that_was_counted_comes_to_the_tree(void **state)
{
	struct world world;
	(void)state;
	set_up_world(&world);
	const size_t first = world.trees[0].node_count;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 60000; i++) {
			/* Dense and far apart, once and often. */
			static const uint64_t reaches[] = {20, 3000, 1000000, UINT64_C(1) << 40};
			struct raw_frame frame = {
				.kind = RAW_NATIVE,
				.exact = any(&world, 8) > 0,
				.guessed = any(&world, 8) == 0,
				.interpreter = any(&world, 2),
				.hidden = any(&world, 8) == 0,
				.module = world.modules[any(&world, MODULES)],
				.offset = any(&world, 8) == 0 ? (UINT64_C(1) << 40) - 1
							      : any(&world, reaches[any(&world, 4)]),
			};
			frame.offset += frame.module->base;
			const uint64_t samples = any(&world, 9) ? 1 : any(&world, 1000000000);
			count(&world, (uint32_t)any(&world, PARENTS), &frame, samples);
		}
		settle(&world); /* and what comes after that is counted, too */
		check_trees(&world, first);
	}
	release_world(&world);
}

static void none_and_one_are_counted(void **state)
{
	struct world world;
	(void)state;
	set_up_world(&world);
	const size_t first = world.trees[0].node_count;
	settle(&world);
	check_trees(&world, first);
	const struct raw_frame frame = {.kind = RAW_NATIVE, .module = world.modules[1]};
	count(&world, PROFILE_ROOT, &frame, (UINT64_C(1) << 33) + 5);
	count(&world, PROFILE_ROOT, &frame, UINT32_MAX);
	settle(&world);
	check_trees(&world, first);
	release_world(&world);
}

static void a_new_stack_takes_some_bytes(void **state)
{
	struct world world;
	enum { STACKS = 200000, BYTES = 6 };
	(void)state;
	set_up_world(&world);
	for (int i = 0; i < STACKS; i++) {
		const struct raw_frame frame = {.kind = RAW_NATIVE,
						.exact = true,
						.module = world.modules[MODULES - 1],
						.offset = 0x7f1234567000 + any(&world, 2000000)};
		uint64_t key;
		assert_true(leaf_pack(&frame, &key));
		leaves_add(&world.leaves, (uint32_t)any(&world, 30000), key, 1);
	}
	assert_in_range(leaves_footprint(&world.leaves), STACKS, (uint64_t)STACKS * BYTES + (1 << 18));
	release_world(&world);
}

static void what_does_not_fit_is_left_to_the_table(void **state)
{
	struct module module = {.id = 5}, made = {.id = 5, .base = 4096}, last = {.id = 65535}, beyond = {.id = 65536};
	const struct raw_frame good = {.kind = RAW_NATIVE, .module = &module, .offset = 1};
	struct raw_frame frames[8];
	uint64_t key;
	(void)state;
	for (size_t i = 0; i < 8; i++)
		frames[i] = good;
	frames[0].kind = RAW_PYTHON;
	frames[1].idle = true;
	frames[2].module = NULL;
	frames[3].module = &beyond;
	frames[4].offset = UINT64_C(1) << 40;
	frames[5].offset = UINT64_MAX;
	frames[6].module = &made;
	frames[6].offset = 4095;
	frames[7].analysed = true;
	for (size_t i = 0; i < 8; i++)
		assert_false(leaf_pack(&frames[i], &key));
	frames[5].module = &last;
	frames[5].offset = (UINT64_C(1) << 40) - 1;
	assert_true(leaf_pack(&good, &key) && leaf_pack(&frames[5], &key));
	assert_true(key != NO_LEAF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_that_was_counted_comes_to_the_tree),
		cmocka_unit_test(none_and_one_are_counted),
		cmocka_unit_test(a_new_stack_takes_some_bytes),
		cmocka_unit_test(what_does_not_fit_is_left_to_the_table),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
