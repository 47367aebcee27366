/* SPDX-License-Identifier: MIT */
/*
 * Python stacks made by hand: sound ones, ones that are caught while they change, hostile ones, and
 * every read failing once.
 */
#include "tests/unit/python_world.h"

/* ---- sound stacks ---- */

static void stacks_of_every_chain_are_read(void **state)
{
	(void)state;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = python_layout_row(row)) != NULL; row++) {
		struct world *world = world_of_row(layout);
		expect_stack(world, false,
			     has_frame_objects(layout) ? "f5 | f4 | f3 | f2 | f1 | f0 "
						       : "f5 f4 | f3 f2 | f1 f0 ");
		const struct python_stack *stack = &world->stack;
		assert_int_equal(stack->frames[0].line, 7);
		assert_int_equal(stack->frames[0].instruction, 4);
		assert_string_equal(stack->frames[0].code->file, "file.py");
		assert_int_equal(stack->thread_id, 77);
		assert_true(stack->holds_gil && stack->has_gil && !stack->gc_running);
		bool shims = layout->chain == CHAIN_SHIM || layout->chain == CHAIN_CFRAME_SHIM;
		remote_addr record = has_frame_objects(layout) ? 0 : record_at(0);
		assert_int_equal(stack->activations[stack->activation_count - 1].record,
				 shims ? shim_at(0) : record);
		release_world(world);
	}
}

static void expect_state(struct world *world, bool has_gil, bool holds_gil, bool gc_running)
{
	const struct python_layout *layout = &world->runtime.layout;
	assert_true(read_stack(world, false));
	if (world->stack.has_gil != has_gil || world->stack.holds_gil != holds_gil ||
	    world->stack.gc_running != gc_running)
		fail_msg("%u.%u%s: has %d, holds %d, gc %d", layout->major, layout->minor,
			 layout->free_threaded ? "t" : "", world->stack.has_gil,
			 world->stack.holds_gil, world->stack.gc_running);
}

static void the_gil_and_the_collector_are_told(void **state)
{
	(void)state;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = python_layout_row(row)) != NULL; row++) {
		struct world *world = world_of_row(layout);
		bool by_interpreter = layout->gil_place == GIL_BY_INTERPRETER;
		remote_addr holder = by_interpreter ? (remote_addr)GIL + layout->gil_last_holder
						    : world->runtime.current;
		remote_addr collecting = COLLECTING;
		if (layout->gc_place == GC_BY_INTERPRETER)
			collecting = (remote_addr)INTERPRETER + layout->interp_gc_collecting;
		else
			world->runtime.collecting = COLLECTING;
		put32(world, collecting, 1);
		expect_state(world, true, true, true);
		put32(world, collecting, 0);
		put64(world, holder, TSTATE + 0x400);
		expect_state(world, true, false, false);
		put64(world, holder, 0);
		expect_state(world, true, false, false);
		put64(world, holder, TSTATE);
		if (by_interpreter) { /* who held it last does not hold it any more */
			put32(world, GIL + layout->gil_locked, 0);
			expect_state(world, true, false, false);
			put32(world, GIL + layout->gil_locked, 1);
		}
		expect_state(world, true, true, false);
		if (layout->free_threaded) {
			put32(world, GIL + layout->gil_enabled, 0);
			expect_state(world, false, false, false);
		}
		/* Not to be read: no reason to lose the stack. */
		world->runtime.current = MEMORY;
		world->runtime.collecting = MEMORY;
		if (by_interpreter)
			put64(world, INTERPRETER + layout->interp_gil, MEMORY);
		expect_state(world, !layout->free_threaded, false, false);
		release_world(world);
	}
}

static void no_frames_is_a_stack_too(void **state)
{
	(void)state;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = python_layout_row(row)) != NULL; row++) {
		struct world *world = world_of_row(layout);
		if (layout->tstate_frame != LAYOUT_ABSENT)
			put64(world, TSTATE + layout->tstate_frame, 0);
		if (layout->tstate_current_frame != LAYOUT_ABSENT)
			put64(world, TSTATE + layout->tstate_current_frame,
			      layout->tstate_base_frame == LAYOUT_ABSENT ? 0 : BASE_FRAME);
		if (layout->tstate_cframe != LAYOUT_ABSENT)
			put64(world, TSTATE + layout->tstate_cframe,
			      (remote_addr)TSTATE + layout->tstate_root_cframe);
		expect_stack(world, false, "");
		assert_int_equal(world->stack.activation_count, 0);
		release_world(world);
	}
}

/* What touching reads is all that reading needs, also when the code objects are known already; and
 * those are learned from a copy whose stack is not read, too. */
static void touching_reads_all_that_reading_needs(void **state)
{
	(void)state;
	static const struct python_native nothing;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = python_layout_row(row / 2)) != NULL; row++) {
		struct world *world = world_of_row(layout);
		struct python_known_codes *known = python_known_codes_new();
		for (int round = 0; round < 2; round++) {
			memset(world->copied, 0, sizeof(world->copied));
			world->only_copied = false;
			uint64_t before = 0, added = python_known_codes_added(known);
			if (round == 1)
				before = alloc_count();
			assert_true(python_stack_touch(&world->runtime, &world->reader, TSTATE,
						       NULL, known, &world->error));
			if (round == 1)
				assert_int_equal(alloc_count(), before);
			assert_true(round == 1 ? python_known_codes_added(known) == added
					       : python_known_codes_added(known) > added);
			world->only_copied = true;
			uint64_t stamp;
			if (round == 0 && row % 2) {
				python_codes_learn(&world->runtime, &world->reader, TSTATE,
						   &nothing, world->cache);
			} else {
				assert_true(read_stack(world, false));
				assert_int_equal(world->stack.count, 6);
			}
			assert_true(python_threads_stamp(&world->runtime, &world->reader, &stamp,
							 &world->error));
		}
		/* Another cache has never seen the strings. */
		python_code_cache_free(world->cache);
		world->cache = python_code_cache_new(world->interner);
		expect_failure(world, false, ERROR_TORN);
		python_known_codes_free(known);
		release_world(world);
	}
}

static void code_at_a_reused_address_is_another_code(void **state)
{
	(void)state;
	struct world *world = world_of(12);
	expect_stack(world, false, "f5 f4 | f3 f2 | f1 f0 ");
	put64(world, world->codes[5] + world->runtime.layout.code_name,
	      make_string(world, "another"));
	expect_stack(world, false, "another f4 | f3 f2 | f1 f0 ");
	release_world(world);
}

/* What its pointers lead to is another object's by now, too; and it is read in the pause. */
static void code_in_all_of_anothers_memory_is_another_code(void **state)
{
	const struct python_layout *layout;
	(void)state;
	for (size_t row = 0; (layout = python_layout_row(row)); row++)
		for (unsigned versions = 0; versions < 2; versions++) {
			struct world *world = world_of_row(layout);
			struct python_known_codes *known = python_known_codes_new();
			/* As when too many have been made. */
			for (unsigned i = 0; !versions && i < CODES; i++)
				if (layout->code_version != LAYOUT_ABSENT)
					put32(world, world->codes[i] + layout->code_version, 0);
			for (unsigned round = 0; round < 2; round++) {
				if (round == 1)
					remake_code(world, world->codes[5]);
				world->only_copied = false;
				memset(world->copied, 0, sizeof(world->copied));
				assert_true(python_stack_touch(&world->runtime, &world->reader,
							       TSTATE, NULL, known,
							       &world->error));
				world->only_copied = true;
				assert_true(read_stack(world, false));
				assert_string_equal(world->stack.frames[0].code->name,
						    round ? "g5" : "f5");
				assert_string_equal(world->stack.frames[1].code->name, "f4");
			}
			python_known_codes_free(known);
			release_world(world);
		}
}

/* The same text compiled again and again is one function to whoever reads the profile. */
static void code_made_again_is_the_same_code(void **state)
{
	(void)state;
	struct world *world = world_of(12);
	assert_true(read_stack(world, false));
	const struct python_code *before = world->stack.frames[0].code;
	for (uint32_t version = 2; version < 100; version++) {
		put32(world, world->codes[5] + world->runtime.layout.code_version, version);
		assert_true(read_stack(world, false));
		assert_ptr_equal(world->stack.frames[0].code, before);
	}
	assert_null(python_code_cache_get(world->cache, CODES));
	release_world(world);
}

static void frames_that_have_not_started_are_hidden(void **state)
{
	(void)state;
	for (unsigned minor = 11; minor <= 13; minor++) {
		struct world *world = world_of(minor);
		const struct python_layout *layout = &world->runtime.layout;
		remote_addr start = world->codes[5] + layout->code_bytecode;
		put64(world, frame_at(world, 5) + layout->iframe_instruction, start);
		expect_stack(world, false, "f4 | f3 f2 | f1 f0 ");
		/* A generator that has not started is shown. */
		world->bytes[frame_at(world, 5) + layout->iframe_owner] = 1;
		expect_stack(world, false, "f5 f4 | f3 f2 | f1 f0 ");
		release_world(world);
	}
}

/* ---- stacks that are changing ---- */

static void records_not_filled_yet_are_skipped(void **state)
{
	(void)state;
	for (unsigned minor = 11; minor <= 12; minor++) {
		struct world *world = world_of(minor);
		const struct python_layout *layout = &world->runtime.layout;
		const remote_addr stale[] = {0, 0x123456789,	    0x7000,
					     3, frame_at(world, 1), frame_at(world, 3)};
		for (size_t i = 0; i < sizeof(stale) / sizeof(*stale); i++) {
			put64(world, record_at(2) + layout->cframe_current_frame, stale[i]);
			expect_stack(world, true, "| f3 f2 | f1 f0 ");
			assert_int_equal(world->stack.skipped_records, 1);
			assert_int_equal(world->stack.activations[0].record, record_at(2));
			expect_stack(world, false, "| f3 f2 | f1 f0 ");
		}
		release_world(world);
	}
}

/* The newest record's `previous` is left from before: garbage, or a record too far out. */
static void records_are_rebuilt_from_the_root(void **state)
{
	struct python_known_codes *known = python_known_codes_new();
	(void)state;
	for (unsigned minor = 11; minor <= 12; minor++) {
		struct world *world = world_of(minor);
		const struct python_layout *layout = &world->runtime.layout;
		const remote_addr stale[] = {0,
					     0x123456789,
					     STACK + 0x7e00,
					     record_at(2),
					     record_at(0),
					     STACK + 1,
					     (remote_addr)TSTATE + layout->tstate_root_cframe};
		put64(world, record_at(2) + layout->cframe_current_frame, 0x55);
		bool searched = false;
		for (size_t i = 0; i < sizeof(stale) / sizeof(*stale); i++) {
			put64(world, record_at(2) + layout->cframe_previous, stale[i]);
			/* A spilled copy of the address is no record. */
			put64(world, STACK + 0x7720, record_at(0));
			expect_stack(world, true, "| f3 f2 | f1 f0 ");
			assert_true(world->stack.rebuilt_records >= 1);
			/* Touching finds them without slices, and reads what is needed. */
			memset(world->copied, 0, sizeof(world->copied));
			memset(world->copied + STACK, 1, 0x8000);
			python_known_codes_clear(known);
			assert_true(python_stack_touch(&world->runtime, &world->reader, TSTATE,
						       NULL, known, &world->error));
			world->only_copied = true;
			expect_stack(world, true, "| f3 f2 | f1 f0 ");
			world->only_copied = false;
			/* It does not read on where the stack is known to end. */
			const struct python_native native = {.end = STACK + 0x8000};
			memset(world->copied, 0, sizeof(world->copied));
			python_known_codes_clear(known);
			assert_true(python_stack_touch(&world->runtime, &world->reader, TSTATE,
						       &native, known, &world->error));
			searched |= world->copied[native.end - 1];
			assert_int_equal(world->copied[native.end], 0);
		}
		assert_true(searched);
		put64(world, record_at(2) + layout->cframe_previous, 0x123456789);
		expect_failure(world, false, ERROR_TORN);
		release_world(world);
	}
	python_known_codes_free(known);
}

static void popped_frames_are_not_shown(void **state)
{
	(void)state;
	struct world *world = world_of(11);
	const struct python_layout *layout = &world->runtime.layout;
	/* f5 has been popped, but its record still leads to it. */
	put64(world, TSTATE + layout->tstate_datastack_top, frame_at(world, 5));
	expect_stack(world, false, "f4 | f3 f2 | f1 f0 ");
	/* f4, an entry, has been popped: the record is left from a call that returned. */
	put64(world, TSTATE + layout->tstate_datastack_top, frame_at(world, 4));
	put64(world, record_at(2) + layout->cframe_current_frame, frame_at(world, 4));
	expect_stack(world, false, "| f3 f2 | f1 f0 ");
	release_world(world);
}

/* generator.throw() puts a generator that delegates on the stack without an activation of its own.
 */
static void delegating_generators_are_no_entries(void **state)
{
	(void)state;
	struct world *world = world_of(11);
	const struct python_layout *layout = &world->runtime.layout;
	world->bytes[frame_at(world, 3) + layout->iframe_is_entry] = 1;
	world->bytes[frame_at(world, 3) + layout->iframe_owner] = 1;
	expect_stack(world, false, "f5 f4 | f3 f2 | f1 f0 ");
	expect_stack(world, true, "f5 f4 | f3 f2 | f1 f0 ");
	assert_int_equal(world->stack.rebuilt_records, 0);
	release_world(world);
}

/* 3.10 makes a generator that delegates current a moment before it links it. */
static void a_generator_that_is_not_linked_is_torn(void **state)
{
	(void)state;
	struct world *world = world_of(10);
	const struct python_layout *layout = &world->runtime.layout;
	put64(world, frame_at(world, 5) + layout->frame_back, 0);
	expect_stack(world, false, "f5 ");
	put64(world, frame_at(world, 5) + layout->frame_generator, 0x5000);
	expect_failure(world, false, ERROR_TORN);
	/* Called by nothing but native code: no other activation. */
	put64(world, TSTATE + layout->tstate_cframe, record_at(0));
	expect_stack(world, false, "f5 ");
	release_world(world);
}

/* Its records say where activations are, and are not needed for the frames. */
static void records_of_frame_objects_may_be_anything(void **state)
{
	(void)state;
	const struct python_native_frame native = {.sp = STACK + 0x6000, .cfa = STACK + 0x7f00};
	char text[256];
	struct world *world = world_of(10);
	const struct python_layout *layout = &world->runtime.layout;
	put64(world, record_at(0) + layout->cframe_previous, record_at(1));
	assert_true(python_stack_read(&world->runtime, &world->reader, TSTATE, &native, 1,
				      world->cache, &world->stack, &world->error));
	describe(&world->stack, text, sizeof(text));
	assert_string_equal(text, "f5 | f4 | f3 | f2 | f1 | f0 ");
	release_world(world);
}

static void free_frames_are_in_no_stack(void **state)
{
	(void)state;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = python_layout_row(row)) != NULL; row++) {
		if (!has_frame_objects(layout))
			continue;
		struct world *world = world_of_row(layout);
		put64(world, frame_at(world, 3) + layout->object_type - 8, 0);
		expect_failure(world, false, ERROR_TORN);
		release_world(world);
	}
}

static void shims_below_the_stack_pointer_are_torn(void **state)
{
	(void)state;
	struct world *world = world_of(13);
	const struct python_native_frame above = {.sp = shim_at(2) + 0x100, .cfa = STACK + 0x7f00};
	assert_false(python_stack_read(&world->runtime, &world->reader, TSTATE, &above, 1,
				       world->cache, &world->stack, &world->error));
	assert_int_equal(world->error.kind, ERROR_TORN);
	release_world(world);
}

/* ---- hostile ones ---- */

static void loops_are_corrupt(void **state)
{
	(void)state;
	for (unsigned minor = 10; minor <= 13; minor++) {
		struct world *world = world_of(minor);
		const struct python_layout *layout = &world->runtime.layout;
		if (minor == 10)
			put64(world, frame_at(world, 0) + layout->frame_back, frame_at(world, 5));
		else
			put64(world, frame_at(world, 1) + layout->iframe_previous,
			      frame_at(world, 1));
		expect_failure(world, false, ERROR_CORRUPT);
		release_world(world);
	}
}

static void loops_of_records_are_torn(void **state)
{
	(void)state;
	for (unsigned minor = 11; minor <= 12; minor++) {
		struct world *world = world_of(minor);
		put64(world, record_at(0) + world->runtime.layout.cframe_previous, record_at(1));
		expect_failure(world, false, ERROR_TORN);
		release_world(world);
	}
}

static void chunks_may_say_anything(void **state)
{
	(void)state;
	for (unsigned minor = 11; minor <= 13; minor++) {
		struct world *world = world_of(minor);
		const struct python_layout *layout = &world->runtime.layout;
		const uint64_t sizes[] = {0, 1, UINT64_MAX, MAX_CHUNK + 1ull, MAX_CHUNK};
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			put64(world, CHUNK + layout->chunk_length, sizes[i]);
			expect_stack(world, false, "f5 f4 | f3 f2 | f1 f0 ");
		}
		put64(world, CHUNK + layout->chunk_length, CHUNK_SIZE);
		put64(world, CHUNK + layout->chunk_previous, CHUNK);
		expect_stack(world, false, "f5 f4 | f3 f2 | f1 f0 ");
		release_world(world);
	}
}

static void frames_without_a_code_object_are_torn(void **state)
{
	(void)state;
	for (unsigned minor = 10; minor <= 13; minor++) {
		struct world *world = world_of(minor);
		/* An outer one: the innermost record alone may be unfinished. */
		put64(world, world->codes[0] + world->runtime.layout.object_type, 0x800);
		expect_failure(world, false, ERROR_TORN);
		release_world(world);
	}
}

/* Whichever read fails, a kind of error comes out, or a stack that is none of the worse for it. */
static void every_read_may_fail(void **state)
{
	struct python_known_codes *known = python_known_codes_new();
	(void)state;
	for (unsigned minor = 10; minor <= 13; minor++) {
		struct world *world = world_of(minor);
		/* The slices are those of the stack with three activations. */
		const bool with_slices = minor != 10;
		assert_true(read_stack(world, with_slices));
		size_t failures = 0, total = world->reads;
		release_world(world);
		for (size_t n = 1; n <= total; n++) {
			char text[256];
			world = world_of(minor);
			world->fail_at = n;
			if (read_stack(world, with_slices)) {
				describe(&world->stack, text, sizeof(text));
				assert_true(strstr(text, "f3 ") && strstr(text, "f0 "));
			} else {
				failures++;
				assert_int_not_equal(world->error.kind, ERROR_NONE);
				assert_int_equal(world->stack.count, 0);
			}
			release_world(world);
			world = world_of(minor);
			world->fail_at = n;
			python_known_codes_clear(known);
			if (!python_stack_touch(&world->runtime, &world->reader, TSTATE, NULL,
						known, &world->error))
				assert_int_not_equal(world->error.kind, ERROR_NONE);
			release_world(world);
		}
		assert_true(total > 40 && failures > 0);
	}
	python_known_codes_free(known);
}

static void random_words_never_crash(void **state)
{
	(void)state;
	uint32_t seed = 7;
	for (int round = 0; round < 400; round++) {
		struct world *world = world_of(10 + (unsigned)round % 4);
		for (int i = 0; i < 3; i++) {
			seed = seed * 1664525 + 1013904223;
			remote_addr places[] = {TSTATE + (seed >> 8) % 45 * 8,
						STACK + 0x7000 + (seed >> 8) % 512 * 8,
						CHUNK + (seed >> 8) % 128 * 8,
						HEAP + (seed >> 8) % 256 * 8};
			seed = seed * 1664525 + 1013904223;
			uint64_t values[] = {0,
					     seed,
					     (uint64_t)seed << 32,
					     STACK + 0x7800,
					     frame_at(world, seed % 6),
					     UINT64_MAX,
					     TSTATE};
			put64(world, places[seed >> 16 & 3], values[(seed >> 20) % 7]);
		}
		if (!read_stack(world, true))
			assert_int_not_equal(world->error.kind, ERROR_NONE);
		release_world(world);
	}
}

/* ---- threads ---- */

static void threads_are_listed_and_checked(void **state)
{
	(void)state;
	for (unsigned minor = 10; minor <= 13; minor++) {
		struct world *world = world_of(minor);
		const struct python_layout *layout = &world->runtime.layout;
		struct python_thread *threads;
		size_t count;
		uint64_t before, after;
		assert_true(python_threads_stamp(&world->runtime, &world->reader, &before, NULL));
		assert_true(
			python_threads(&world->runtime, &world->reader, &threads, &count, NULL));
		assert_int_equal(count, 1);
		assert_int_equal(threads[0].thread_id, 77);
		assert_int_equal(threads[0].id, 5);
		free(threads);
		/* A loop, then a thread state of nobody. */
		put64(world, TSTATE + layout->tstate_next, TSTATE);
		assert_false(python_threads(&world->runtime, &world->reader, &threads, &count,
					    &world->error));
		assert_int_equal(world->error.kind, ERROR_TORN);
		put64(world, TSTATE + layout->tstate_next, STACK);
		assert_false(python_threads(&world->runtime, &world->reader, &threads, &count,
					    &world->error));
		assert_int_equal(world->error.kind, ERROR_TORN);
		put64(world, INTERPRETER + layout->interp_threads_head, STACK);
		assert_true(python_threads_stamp(&world->runtime, &world->reader, &after, NULL));
		assert_true(before != after);
		put64(world, INTERPRETER + layout->interp_next, INTERPRETER);
		assert_false(python_threads_stamp(&world->runtime, &world->reader, &after, NULL));
		release_world(world);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_of_every_chain_are_read),
		cmocka_unit_test(the_gil_and_the_collector_are_told),
		cmocka_unit_test(no_frames_is_a_stack_too),
		cmocka_unit_test(touching_reads_all_that_reading_needs),
		cmocka_unit_test(code_at_a_reused_address_is_another_code),
		cmocka_unit_test(code_in_all_of_anothers_memory_is_another_code),
		cmocka_unit_test(code_made_again_is_the_same_code),
		cmocka_unit_test(frames_that_have_not_started_are_hidden),
		cmocka_unit_test(records_not_filled_yet_are_skipped),
		cmocka_unit_test(records_are_rebuilt_from_the_root),
		cmocka_unit_test(popped_frames_are_not_shown),
		cmocka_unit_test(delegating_generators_are_no_entries),
		cmocka_unit_test(a_generator_that_is_not_linked_is_torn),
		cmocka_unit_test(records_of_frame_objects_may_be_anything),
		cmocka_unit_test(free_frames_are_in_no_stack),
		cmocka_unit_test(shims_below_the_stack_pointer_are_torn),
		cmocka_unit_test(loops_are_corrupt),
		cmocka_unit_test(loops_of_records_are_torn),
		cmocka_unit_test(chunks_may_say_anything),
		cmocka_unit_test(frames_without_a_code_object_are_torn),
		cmocka_unit_test(every_read_may_fail),
		cmocka_unit_test(random_words_never_crash),
		cmocka_unit_test(threads_are_listed_and_checked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
