/* SPDX-License-Identifier: MIT */
/* Which native frame runs which frame object: python/activations.c on made-up stacks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "python/internal.h"
#include "python/walk.h"

enum { STACK = 0x10000, WORDS = 512, SLICE = 0x40, EVAL = 0x400000, OTHER = 0x500000, FRAMES = 6 };

struct world {
	struct memory_reader reader;
	uint64_t words[WORDS];
	struct python_native_frame slices[16];
	size_t slice_count;
	struct python_runtime runtime;
	struct walk_room room;
};

static bool read_world(const struct memory_reader *reader, remote_addr address, void *buffer,
		       size_t size, struct error *error)
{
	const struct world *world = (const struct world *)reader;
	if (address < STACK || address + size > STACK + sizeof(world->words))
		return error_set(error, ERROR_ABSENT, "not copied");
	memcpy(buffer, (const char *)world->words + (address - STACK), size);
	return true;
}

static remote_addr frame_at(size_t i)
{
	return 0x7000000 + 0x200 * i;
}

static void start(struct world *world, size_t frames)
{
	memset(world, 0, sizeof(*world));
	world->reader.read = read_world;
	world->runtime.eval = (struct python_ranges){{{EVAL, EVAL + 0x8000}}, 1};
	world->room.frames = calloc(frames + 1, sizeof(*world->room.frames));
	world->room.frame_count = frames;
	for (size_t i = 0; i < frames; i++)
		world->room.frames[i].address = frame_at(i);
}

/* The next outer native frame; `held` stands in one of its words. */
static struct python_native_frame *add(struct world *world, remote_addr pc, uint64_t held)
{
	size_t i = world->slice_count++;
	struct python_native_frame *slice = &world->slices[i];
	slice->sp = STACK + i * SLICE;
	slice->cfa = slice->sp + SLICE;
	slice->pc = pc;
	world->words[i * SLICE / 8 + 3] = held;
	return slice;
}

/* The native frame that runs the Python frame; -1: not known. */
static int owner_of(const struct world *world, size_t frame)
{
	const struct python_activation *activation = world->room.activations;
	while (frame - activation->first >= activation->count)
		activation++;
	for (size_t i = 0; i < world->slice_count; i++)
		if (activation->record >= world->slices[i].sp &&
		    activation->record < world->slices[i].cfa)
			return (int)i;
	assert_int_equal(activation->record, 0);
	return -1;
}

static void find(struct world *world)
{
	python_find_activations(&world->runtime, &world->reader, world->slices, world->slice_count,
				&world->room);
	size_t next = 0;
	for (size_t i = 0; i < world->room.activation_count; i++) {
		assert_int_equal(world->room.activations[i].first, next);
		next += world->room.activations[i].count;
	}
	assert_int_equal(next, world->room.frame_count);
}

static void finish(struct world *world)
{
	walk_room_release(&world->room);
}

static void counts_from_the_outermost_end(void **state)
{
	struct world world;
	(void)state;
	start(&world, 3);
	add(&world, OTHER, frame_at(0));
	add(&world, EVAL + 8, frame_at(0)); /* just entered: holds its caller's, saved */
	add(&world, EVAL + 8, frame_at(0));
	add(&world, OTHER, frame_at(1));
	add(&world, EVAL + 8, frame_at(1));
	add(&world, EVAL + 8, frame_at(2));
	add(&world, OTHER, 0);
	find(&world);
	assert_int_equal(owner_of(&world, 0), 2);
	assert_int_equal(owner_of(&world, 1), 4);
	assert_int_equal(owner_of(&world, 2), 5);
	finish(&world);
}

static void a_register_is_evidence(void **state)
{
	struct world world;
	(void)state;
	start(&world, 2);
	add(&world, EVAL, 0)->saved[1] = frame_at(0);
	world.slices[0].saved_known = 1 << 1;
	add(&world, EVAL, 0)->saved[4] = frame_at(1);
	world.slices[1].saved_known = 1 << 4;
	find(&world);
	assert_int_equal(owner_of(&world, 0), 0);
	assert_int_equal(owner_of(&world, 1), 1);
	finish(&world);
}

static void activations_of_another_greenlet_lie_outside(void **state)
{
	struct world world;
	(void)state;
	start(&world, 2);
	add(&world, EVAL, frame_at(0));
	add(&world, EVAL, frame_at(1));
	add(&world, OTHER, 0);
	add(&world, EVAL, 0x1234);
	add(&world, EVAL, frame_at(0)); /* left from earlier */
	find(&world);
	assert_int_equal(owner_of(&world, 0), 0);
	assert_int_equal(owner_of(&world, 1), 1);
	finish(&world);
}

static void an_activation_without_a_name_is_left_open(void **state)
{
	struct world world;
	(void)state;
	start(&world, 4);
	add(&world, EVAL, frame_at(0)); /* being entered */
	add(&world, EVAL, frame_at(0));
	add(&world, EVAL, frame_at(1));
	add(&world, OTHER, frame_at(2)); /* a cold part */
	add(&world, EVAL, frame_at(3));
	find(&world);
	assert_int_equal(owner_of(&world, 0), 1);
	assert_int_equal(owner_of(&world, 1), 2);
	assert_int_equal(owner_of(&world, 2), -1);
	assert_int_equal(owner_of(&world, 3), 4);
	finish(&world);
}

static void two_thread_states_do_not_mix(void **state)
{
	struct world world;
	(void)state;
	start(&world, 3);
	add(&world, EVAL, frame_at(0));
	add(&world, EVAL, 0x9999); /* the other state's */
	add(&world, EVAL, frame_at(1));
	add(&world, EVAL, 0x8888);
	add(&world, EVAL, frame_at(2));
	find(&world);
	assert_int_equal(owner_of(&world, 0), 0);
	assert_int_equal(owner_of(&world, 1), 2);
	assert_int_equal(owner_of(&world, 2), 4);
	finish(&world);
}

static void no_evidence_claims_nothing(void **state)
{
	struct world world;
	(void)state;
	start(&world, 2);
	add(&world, EVAL, 0);
	add(&world, EVAL, 0);
	find(&world);
	assert_int_equal(owner_of(&world, 0), -1);
	assert_int_equal(owner_of(&world, 1), -1);
	finish(&world);
}

static void records_of_another_stack_are_no_candidates(void **state)
{
	struct world world;
	struct entry_record records[] = {{STACK + 0x20, 0, 0},
					 {STACK + SLICE + 0x20, 0, 0},
					 {0x9990000, 0, 0},
					 {STACK + 3 * SLICE + 0x20, 0, 0}};
	(void)state;
	start(&world, 2);
	add(&world, OTHER, frame_at(0));
	add(&world, OTHER, frame_at(1));
	add(&world, OTHER, 0);
	add(&world, OTHER, 0x777);
	world.room.records = malloc(sizeof(records));
	memcpy(world.room.records, records, sizeof(records));
	world.room.record_count = 4;
	find(&world);
	assert_int_equal(owner_of(&world, 0), 0);
	assert_int_equal(owner_of(&world, 1), 1);
	finish(&world);
}

/* throw() through a generator that delegates: 3.10 links its frame, but nothing runs it. */
static void a_frame_that_is_not_run_is_left_open(void **state)
{
	struct world world;
	(void)state;
	start(&world, 5);
	add(&world, EVAL, frame_at(0));
	add(&world, EVAL, frame_at(1));
	add(&world, OTHER, frame_at(2));
	add(&world, EVAL, frame_at(3));
	add(&world, EVAL, frame_at(4));
	/* Each also has what was left there: the next outer one's. */
	const uint64_t left[] = {frame_at(1), frame_at(2), 0, frame_at(4), 0};
	for (size_t i = 0; i < 5; i++)
		world.words[i * SLICE / 8 + 4] = left[i];
	find(&world);
	assert_int_equal(owner_of(&world, 0), 0);
	assert_int_equal(owner_of(&world, 1), 1);
	assert_int_equal(owner_of(&world, 2), -1);
	assert_int_equal(owner_of(&world, 3), 3);
	assert_int_equal(owner_of(&world, 4), 4);
	finish(&world);
}

/* A stack where all fits tells where the eval function keeps its frame; then comes another one. */
static void teach(struct world *world, size_t frames)
{
	start(world, 8);
	for (size_t i = 0; i < 8; i++)
		add(world, EVAL, frame_at(i));
	find(world);
	assert_int_equal(world->room.kept_most, 8);
	memset(world->words, 0, sizeof(world->words));
	world->slice_count = world->room.activation_count = 0;
	world->room.frame_count = frames;
}

/* The same up to 3.9, which links it to nothing: what lies outside of it is not to be had. */
static void a_chain_that_is_broken_ends_where_it_is(void **state)
{
	struct world world;
	(void)state;
	teach(&world, 3);
	add(&world, EVAL, frame_at(0));
	add(&world, EVAL, frame_at(1));
	add(&world, OTHER, 0);
	add(&world, EVAL, 0x1234);
	/* Where nothing is kept, this is left from an earlier call. */
	world.words[3 * SLICE / 8 + 5] = frame_at(2);
	find(&world);
	assert_int_equal(owner_of(&world, 1), 1);
	assert_int_equal(owner_of(&world, 2), 1);
	assert_true(world.room.cut);
	assert_false(world.room.mixed);
	finish(&world);
}

/* Greenlets: the stack of one is copied in place of another one's. */
static void activations_of_other_frames_among_ours_are_told(void **state)
{
	struct world world;
	(void)state;
	teach(&world, 4);
	add(&world, EVAL, frame_at(0));
	add(&world, EVAL, 0x1111);
	add(&world, EVAL, 0x2222);
	add(&world, EVAL, frame_at(3));
	find(&world);
	assert_true(world.room.mixed);
	finish(&world);
	/* All of ours are there, the others lie outside. */
	teach(&world, 2);
	add(&world, EVAL, frame_at(0));
	add(&world, EVAL, frame_at(1));
	add(&world, EVAL, 0x1111);
	add(&world, EVAL, 0x2222);
	find(&world);
	assert_false(world.room.mixed);
	assert_false(world.room.cut);
	finish(&world);
}

static void random_stacks_keep_the_order(void **state)
{
	uint32_t seed = 5;
	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct world world;
		start(&world, FRAMES);
		for (int i = 0; i < 12; i++) {
			seed = seed * 1664525 + 1013904223;
			add(&world, seed >> 31 ? EVAL : OTHER, frame_at(seed >> 16 & 7));
			world.words[i * SLICE / 8 + 5] = frame_at(seed >> 8 & 7);
		}
		find(&world);
		int before = -1;
		for (size_t i = 0; i < FRAMES; i++) {
			int owner = owner_of(&world, i);
			if (owner < 0)
				continue;
			/* The last ones may be told to be the next inner one's. */
			assert_true(owner >= before);
			assert_int_equal(world.slices[owner].pc, EVAL);
			before = owner;
		}
		finish(&world);
	}
}

/* Sizes that were seen: 2.7's whole function; entry of Debian's 3.13, its other part without a name;
 * entry of one that makes tail calls, and a part that PGO has split off. */
static void an_entry_alone_is_not_the_eval_function(void **state)
{
	(void)state;
	static struct python_runtime runtime;
	assert_false(python_runtime_knows_eval(&runtime));
	runtime.eval = (struct python_ranges){{{EVAL, EVAL + 2384}}, 1};
	assert_false(python_runtime_knows_eval(&runtime));
	runtime.eval = (struct python_ranges){{{EVAL, EVAL + 282}, {OTHER, OTHER + 8}}, 2};
	assert_false(python_runtime_knows_eval(&runtime));
	runtime.eval = (struct python_ranges){{{EVAL, EVAL + 29040}}, 1};
	assert_true(python_runtime_knows_eval(&runtime));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_from_the_outermost_end),
		cmocka_unit_test(a_register_is_evidence),
		cmocka_unit_test(activations_of_another_greenlet_lie_outside),
		cmocka_unit_test(an_activation_without_a_name_is_left_open),
		cmocka_unit_test(two_thread_states_do_not_mix),
		cmocka_unit_test(no_evidence_claims_nothing),
		cmocka_unit_test(records_of_another_stack_are_no_candidates),
		cmocka_unit_test(a_frame_that_is_not_run_is_left_open),
		cmocka_unit_test(a_chain_that_is_broken_ends_where_it_is),
		cmocka_unit_test(activations_of_other_frames_among_ours_are_told),
		cmocka_unit_test(random_stacks_keep_the_order),
		cmocka_unit_test(an_entry_alone_is_not_the_eval_function),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
