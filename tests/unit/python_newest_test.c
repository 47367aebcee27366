/* SPDX-License-Identifier: MIT */
/* A frame that was made the current one before it was linked to the one before it. */
#include "tests/unit/python_world.h"

#include "python/walk.h"

static struct python_native_frame held[4];

/* The innermost native frame holds the address in a register. */
static void hold(remote_addr address)
{
	memcpy(held, slices, sizeof(held));
	held[0].saved[3] = address;
	held[0].saved_known = 1u << 3;
}

static void expect_held(struct world *world, const char *expected)
{
	char text[256];
	if (!python_stack_read(&world->runtime, &world->reader, TSTATE, held, 4, world->cache,
			       &world->stack, &world->error))
		fail_msg("%u.%u: %s", world->runtime.layout.major, world->runtime.layout.minor,
			 world->error.message);
	describe(&world->stack, text, sizeof(text));
	assert_string_equal(text, expected);
}

/* Frame 5 says it was called from there. */
static void link_newest(struct world *world, remote_addr previous)
{
	put64(world, frame_at(world, 5) + world->runtime.layout.iframe_previous, previous);
}

static void make_current(struct world *world, remote_addr frame)
{
	const struct python_layout *layout = &world->runtime.layout;
	if (layout->chain == CHAIN_SHIM)
		put64(world, TSTATE + layout->tstate_current_frame, frame);
	else
		put64(world, record_at(2) + layout->cframe_current_frame, frame);
}

static const struct python_layout *next_row(size_t *index)
{
	const struct python_layout *layout;
	do
		layout = python_layout_row((*index)++);
	while (layout && layout->tstate_datastack_chunk == LAYOUT_ABSENT);
	return layout;
}

static void a_call_not_linked_yet_shows_the_caller(void **state)
{
	(void)state;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = next_row(&row));) {
		struct world *world = world_of_row(layout);
		/* Nothing; frames further out; an entry that has returned; what is no frame. */
		const remote_addr stale[] = {0, frame_at(world, 3), frame_at(world, 1),
					     STACK + 0x7000, 0x123458};
		for (size_t i = 0; i < sizeof(stale) / sizeof(*stale); i++) {
			link_newest(world, stale[i]);
			hold(frame_at(world, 4));
			expect_held(world, "f4 | f3 f2 | f1 f0 ");
		}
		release_world(world);
	}
}

static void a_generator_not_linked_yet_shows_who_asks_for_its_value(void **state)
{
	(void)state;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = next_row(&row));) {
		struct world *world = world_of_row(layout);
		const remote_addr generator = 0x60000;
		memcpy(world->bytes + generator, world->bytes + frame_at(world, 3), 128);
		world->bytes[generator + layout->iframe_owner] = OWNED_BY_GENERATOR;
		put64(world, generator + layout->iframe_previous, 0);
		make_current(world, generator);
		hold(frame_at(world, 5));
		expect_held(world, "f5 f4 | f3 f2 | f1 f0 ");
		release_world(world);
	}
}

static void only_a_frame_that_fits_is_taken(void **state)
{
	(void)state;
	for (unsigned minor = 11; minor <= 12; minor++) {
		struct world *world = world_of(minor);
		const remote_addr others[] = {0,
					      frame_at(world, 5),
					      frame_at(world, 3),
					      frame_at(world, 4) + 8,
					      0x123456789,
					      STACK};
		for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
			link_newest(world, 0);
			hold(others[i]);
			expect_held(world, "| f3 f2 | f1 f0 ");
			assert_int_equal(world->stack.skipped_records, 1);
		}
		release_world(world);
	}
}

static void without_the_native_stack_it_is_torn(void **state)
{
	(void)state;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = next_row(&row));) {
		struct world *world = world_of_row(layout);
		link_newest(world, 0);
		expect_failure(world, false, ERROR_TORN);
		release_world(world);
	}
}

static void what_is_needed_of_the_caller_is_copied(void **state)
{
	(void)state;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = next_row(&row));) {
		struct world *world = world_of_row(layout);
		struct python_known_codes *known = python_known_codes_new();
		link_newest(world, 0);
		assert_true(python_stack_touch(&world->runtime, &world->reader, TSTATE, NULL, known,
					       &world->error));
		python_known_codes_free(known);
		world->only_copied = true;
		hold(frame_at(world, 4));
		expect_held(world, "f4 | f3 f2 | f1 f0 ");
		release_world(world);
	}
}

/* ---- what runs while a function is being left ---- */

static bool has_shims(const struct world *world)
{
	return world->runtime.layout.chain != CHAIN_CFRAME;
}

/* Frame 3 has returned to frame 2, and holds its room yet; frame 4 is a destructor of its locals.
 */
static void leave_frame_3(struct world *world)
{
	const struct python_layout *layout = &world->runtime.layout;
	const remote_addr caller = frame_at(world, 2);
	if (has_shims(world))
		put64(world, shim_at(2) + layout->iframe_previous, caller);
	else
		put64(world, frame_at(world, 4) + layout->iframe_previous, caller);
	if (layout->chain != CHAIN_SHIM)
		put64(world, record_at(1) + layout->cframe_current_frame, caller);
}

/* The frame has not executed its first instruction: it is hidden. */
static void stop_before_start(struct world *world, unsigned number)
{
	const struct python_layout *layout = &world->runtime.layout;
	const bool before = layout->lines == PYTHON_LINES_311 && layout->chain != CHAIN_SHIM;
	put64(world, frame_at(world, number) + layout->iframe_instruction,
	      world->codes[number % CODES] + layout->code_bytecode - (before ? 2 : 0));
}

static void forget_held(void)
{
	memcpy(held, slices, sizeof(held));
}

static void a_destructor_at_a_return_stands_on_the_caller(void **state)
{
	(void)state;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = next_row(&row));) {
		struct world *world = world_of_row(layout);
		leave_frame_3(world);
		forget_held();
		expect_held(world, "f5 f4 | f2 | f1 f0 ");
		/* Whatever is held: the frame that is being left is no frame any more. */
		make_current(world, frame_at(world, 4));
		put64(world, TSTATE + layout->tstate_datastack_top, frame_at(world, 5));
		hold(frame_at(world, 3));
		expect_held(world, "f4 | f2 | f1 f0 ");
		expect_stack(world, false, "f4 | f2 | f1 f0 ");
		release_world(world);
	}
}

static void a_destructor_that_has_not_begun_hides_no_caller(void **state)
{
	(void)state;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = next_row(&row));) {
		struct world *world = world_of_row(layout);
		leave_frame_3(world);
		make_current(world, frame_at(world, 4));
		put64(world, TSTATE + layout->tstate_datastack_top, frame_at(world, 5));
		stop_before_start(world, 4);
		hold(frame_at(world, 3));
		expect_held(world, "| f2 | f1 f0 ");
		release_world(world);
	}
}

/* Its memory has the entry that the activation was entered by, from when it was run by that alone.
 */
static void a_call_not_linked_yet_is_not_taken_for_a_destructor(void **state)
{
	(void)state;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = next_row(&row));) {
		struct world *world = world_of_row(layout);
		if (has_shims(world)) {
			link_newest(world, shim_at(2));
			stop_before_start(world, 5);
			hold(frame_at(world, 4));
			expect_held(world, "f4 | f3 f2 | f1 f0 ");
		}
		release_world(world);
	}
}

static void a_destructor_calls_as_others_do(void **state)
{
	(void)state;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = next_row(&row));) {
		struct world *world = world_of_row(layout);
		const remote_addr stale[] = {0, frame_at(world, 3), frame_at(world, 2)};
		leave_frame_3(world);
		for (size_t i = 0; i < sizeof(stale) / sizeof(*stale); i++) {
			link_newest(world, stale[i]);
			stop_before_start(world, 5);
			hold(frame_at(world, 4));
			expect_held(world, "f4 | f2 | f1 f0 ");
		}
		release_world(world);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_call_not_linked_yet_shows_the_caller),
		cmocka_unit_test(a_generator_not_linked_yet_shows_who_asks_for_its_value),
		cmocka_unit_test(only_a_frame_that_fits_is_taken),
		cmocka_unit_test(without_the_native_stack_it_is_torn),
		cmocka_unit_test(what_is_needed_of_the_caller_is_copied),
		cmocka_unit_test(a_destructor_at_a_return_stands_on_the_caller),
		cmocka_unit_test(a_destructor_that_has_not_begun_hides_no_caller),
		cmocka_unit_test(a_call_not_linked_yet_is_not_taken_for_a_destructor),
		cmocka_unit_test(a_destructor_calls_as_others_do),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
