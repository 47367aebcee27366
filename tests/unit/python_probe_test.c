/* SPDX-License-Identifier: MIT */
/* Looks at stacks that change between them: what they agree on, and what is left of the copy. */
#include "python/probe.h"
#include "tests/unit/python_world.h"

enum { MAX_RANGES = 24 };

struct watched {
	struct world *world;
	struct python_probe *earlier, *later;
	struct python_known_codes *known;
	struct python_recent recent;
	struct python_cut cut;
};

static void watch(struct watched *watched, const struct python_layout *layout)
{
	*watched = (struct watched){
		.world = world_of_row(layout),
		.earlier = python_probe_new(),
		.later = python_probe_new(),
		.known = python_known_codes_new(),
	};
	/* As if the thread had been looked at before. */
	watched->recent.outermost = frame_at(watched->world, 0);
}

static void release(struct watched *watched)
{
	python_probe_free(watched->earlier);
	python_probe_free(watched->later);
	python_known_codes_free(watched->known);
	release_world(watched->world);
}

static bool look(struct watched *watched, struct python_probe *into)
{
	struct world *world = watched->world;
	const struct python_view view = {&world->runtime, &world->reader, TSTATE, watched->known,
					 &watched->recent};
	memset(&world->error, 0, sizeof(world->error));
	return python_probe_take(into, &view, &world->error);
}

/* Makes this frame the innermost one, as leaving it, or entering it, does. */
static void go_to(struct world *world, unsigned number)
{
	const struct python_layout *layout = &world->runtime.layout;
	remote_addr frame = frame_at(world, number);
	if (has_frame_objects(layout)) {
		put64(world, TSTATE + layout->tstate_frame, frame);
		return;
	}
	put64(world, TSTATE + layout->tstate_datastack_top, frame_at(world, number + 1));
	if (layout->chain == CHAIN_SHIM)
		put64(world, TSTATE + layout->tstate_current_frame, frame);
	else
		make_record(world, number / 2, frame);
}

static void call_other(struct world *world, unsigned number, unsigned code)
{
	const struct python_layout *layout = &world->runtime.layout;
	remote_addr at = frame_at(world, number) +
			 (has_frame_objects(layout) ? layout->frame_code : layout->iframe_code);
	put64(world, at, world->codes[code]);
	if (!has_frame_objects(layout))
		put64(world, frame_at(world, number) + layout->iframe_instruction,
		      world->codes[code] + layout->code_bytecode + 4);
}

static void run_on(struct world *world, unsigned number)
{
	const struct python_layout *layout = &world->runtime.layout;
	remote_addr code = world->codes[number % CODES];
	if (has_frame_objects(layout))
		put32(world, frame_at(world, number) + layout->frame_lasti,
		      8u / layout->lasti_unit);
	else
		put64(world, frame_at(world, number) + layout->iframe_instruction,
		      code + layout->code_bytecode + 8);
}

static void compare(struct watched *watched, enum python_agreement expected, size_t kept)
{
	const struct python_layout *layout = &watched->world->runtime.layout;
	if (!look(watched, watched->later))
		fail_msg("%u.%u: %s", layout->major, layout->minor, watched->world->error.message);
	enum python_agreement found =
		python_probes_agree(watched->earlier, watched->later, &watched->cut);
	if (found != expected || watched->cut.kept != kept)
		fail_msg("%u.%u: %d, not %d; %zu kept, not %zu", layout->major, layout->minor,
			 found, expected, watched->cut.kept, kept);
}

/* What is read when the words of the cut are in the copy. */
static void expect_after_cut(struct watched *watched, const char *expected)
{
	struct world *world = watched->world;
	char text[256], *to = text;
	for (size_t i = 0; i < watched->cut.patch_count; i++)
		put64(world, watched->cut.patches[i].address, watched->cut.patches[i].value);
	assert_true(read_stack(world, false));
	for (size_t i = 0; i < world->stack.count; i++)
		to += snprintf(to, sizeof(text) - (size_t)(to - text), "%s ",
			       world->stack.frames[i].code->name);
	assert_string_equal(text, expected);
}

#define each_row(watched)                                                                          \
	for (size_t row_ = 0;                                                                      \
	     python_layout_row(row_) && (watch((watched), python_layout_row(row_)), 1);            \
	     release(watched), row_++)

static void a_stack_that_stands_still_is_whole(void **state)
{
	(void)state;
	struct watched watched;
	each_row(&watched)
	{
		assert_true(look(&watched, watched.earlier));
		assert_int_equal(python_probe_frames(watched.earlier), 6);
		compare(&watched, PYTHON_LOOKS_AGREE, 6);
		/* The innermost frame alone runs. */
		run_on(watched.world, 5);
		compare(&watched, PYTHON_LOOKS_AGREE, 6);
		expect_after_cut(&watched, "f5 f4 f3 f2 f1 f0 ");
	}
}

static void a_frame_that_was_left_or_entered_is_no_loss(void **state)
{
	(void)state;
	struct watched watched;
	each_row(&watched)
	{
		assert_true(look(&watched, watched.earlier));
		go_to(watched.world, 4);
		compare(&watched, PYTHON_LOOKS_AGREE, 5);
		assert_true(look(&watched, watched.earlier));
		go_to(watched.world, 5);
		compare(&watched, PYTHON_LOOKS_AGREE, 5);
		expect_after_cut(&watched, "f4 f3 f2 f1 f0 ");
	}
}

static void what_was_replaced_is_cut_off(void **state)
{
	(void)state;
	struct watched watched;
	each_row(&watched)
	{
		assert_true(look(&watched, watched.earlier));
		call_other(watched.world, 4, 1);
		compare(&watched, PYTHON_LOOKS_SHARE, 4);
		expect_after_cut(&watched, "f3 f2 f1 f0 ");
	}
}

static void the_frame_they_part_in_was_innermost(void **state)
{
	(void)state;
	struct watched watched;
	each_row(&watched)
	{
		assert_true(look(&watched, watched.earlier));
		run_on(watched.world, 3);
		call_other(watched.world, 4, 1);
		compare(&watched, PYTHON_LOOKS_SHARE, 4);
		expect_after_cut(&watched, "f3 f2 f1 f0 ");
	}
}

static void nothing_in_common_is_nothing(void **state)
{
	(void)state;
	struct watched watched;
	each_row(&watched)
	{
		assert_true(look(&watched, watched.earlier));
		call_other(watched.world, 0, 1);
		compare(&watched, PYTHON_LOOKS_DIFFER, 0);
	}
}

static void any_frame_may_become_the_innermost(void **state)
{
	(void)state;
	static const char *const expected[] = {
		"f5 f4 f3 f2 f1 f0 ", "f4 f3 f2 f1 f0 ", "f3 f2 f1 f0 ",
		"f2 f1 f0 ",	      "f1 f0 ",		 "f0 "};
	struct watched watched;
	each_row(&watched)
	{
		assert_true(look(&watched, watched.later));
		for (size_t i = 0; i < 6; i++) {
			python_probe_cut(watched.later, i, &watched.cut);
			assert_int_equal(watched.cut.kept, 6 - i);
			expect_after_cut(&watched, expected[i]);
		}
	}
}

static void what_is_outside_of_the_newer_memory_must_stand(void **state)
{
	(void)state;
	struct watched watched;
	each_row(&watched)
	{
		struct world *world = watched.world;
		const struct target_range inner[] = {
			{frame_at(world, 3), 8}, {frame_at(world, 4), 8}, {frame_at(world, 5), 8}};
		const struct target_range all[] = {{frame_at(world, 0), 6 * 0x200}};
		assert_true(look(&watched, watched.earlier));
		call_other(world, 4, 1);
		assert_true(look(&watched, watched.later));
		assert_true(python_probe_rests_on(watched.later, watched.earlier, inner, 3));
		/* f3 ran: its caller may have, too. */
		run_on(world, 3);
		assert_true(look(&watched, watched.later));
		assert_false(python_probe_rests_on(watched.later, watched.earlier, inner, 3));
		assert_true(python_probe_rests_on(watched.later, watched.earlier, all, 1));
		/* Another outermost frame. */
		call_other(world, 0, 1);
		assert_true(look(&watched, watched.later));
		assert_false(python_probe_rests_on(watched.later, watched.earlier, all, 1));
	}
}

static bool in_ranges(const struct target_range *ranges, size_t count, remote_addr address)
{
	for (size_t i = 0; i < count; i++)
		if (address - ranges[i].address < ranges[i].size)
			return true;
	return false;
}

static void the_top_is_where_the_innermost_frames_are(void **state)
{
	(void)state;
	struct watched watched;
	each_row(&watched)
	{
		struct world *world = watched.world;
		const struct python_layout *layout = &world->runtime.layout;
		struct target_range ranges[MAX_RANGES];
		assert_true(look(&watched, watched.earlier));
		size_t count =
			python_probe_top(watched.earlier, &watched.recent, ranges, MAX_RANGES);
		assert_true(ranges[0].address >= TSTATE && ranges[0].address < CHUNK);
		for (unsigned i = 3; i < 6; i++)
			assert_true(in_ranges(ranges, count, frame_at(world, i)));
		if (layout->chain == CHAIN_CFRAME || layout->chain == CHAIN_CFRAME_SHIM)
			assert_true(in_ranges(ranges, count, record_at(2)));
		if (layout->chain == CHAIN_SHIM || layout->chain == CHAIN_CFRAME_SHIM)
			assert_true(in_ranges(ranges, count, shim_at(2)));
		/* Not one too many. */
		assert_int_equal(python_probe_top(watched.earlier, &watched.recent, ranges, 2), 2);
	}
}

static void a_look_that_fails_tells_the_top(void **state)
{
	(void)state;
	struct watched watched;
	each_row(&watched)
	{
		struct world *world = watched.world;
		struct target_range ranges[MAX_RANGES];
		put64(world, world->codes[1] + world->runtime.layout.object_type, 0x800);
		assert_false(look(&watched, watched.earlier));
		assert_int_equal(world->error.kind, ERROR_TORN);
		size_t count =
			python_probe_top(watched.earlier, &watched.recent, ranges, MAX_RANGES);
		assert_true(in_ranges(ranges, count, frame_at(world, 5)));
	}
}

static void popped_frames_are_torn(void **state)
{
	(void)state;
	for (unsigned minor = 13; minor <= 15; minor++) {
		struct watched watched;
		watch(&watched, python_layout_find(3, minor, false));
		struct world *world = watched.world;
		put64(world, TSTATE + world->runtime.layout.tstate_datastack_top,
		      frame_at(world, 5));
		assert_false(look(&watched, watched.earlier));
		assert_int_equal(world->error.kind, ERROR_TORN);
		release(&watched);
	}
}

/* Its frames were replaced while it was read: what is outside of them is not all that there was. */
static void an_entry_record_that_leads_nowhere_is_torn(void **state)
{
	(void)state;
	for (unsigned minor = 11; minor <= 12; minor++)
		for (unsigned activation = 0; activation < 3; activation++) {
			struct watched watched;
			watch(&watched, python_layout_find(3, minor, false));
			struct world *world = watched.world;
			make_record(world, activation, 0x123458);
			assert_false(look(&watched, watched.earlier));
			assert_int_equal(world->error.kind, ERROR_TORN);
			release(&watched);
		}
}

static void recent_frames_are_few(void **state)
{
	(void)state;
	struct watched watched;
	watch(&watched, python_layout_find(3, 9, false));
	struct world *world = watched.world;
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 6; i-- > 0;) {
			go_to(world, i);
			assert_true(look(&watched, watched.earlier));
			assert_int_equal(watched.recent.frames[0], frame_at(world, i));
			assert_true(watched.recent.count <= PYTHON_RECENT);
			for (size_t k = 1; k < watched.recent.count; k++)
				assert_int_not_equal(watched.recent.frames[k], frame_at(world, i));
		}
	assert_int_equal(watched.recent.count, 6);
	for (unsigned i = 0; i < PYTHON_RECENT; i++) {
		put64(world, TSTATE + world->runtime.layout.tstate_frame, 0x50000 + i * 0x200u);
		assert_false(look(&watched, watched.earlier));
	}
	assert_int_equal(watched.recent.count, PYTHON_RECENT);
	assert_int_equal(watched.recent.frames[0], 0x50000 + (PYTHON_RECENT - 1) * 0x200u);
	release(&watched);
}

/* A generator's frame that has just been left is the end of its chain. */
static void another_outermost_frame_must_be_seen_again(void **state)
{
	(void)state;
	struct watched watched;
	each_row(&watched)
	{
		struct world *world = watched.world;
		const struct python_layout *layout = &world->runtime.layout;
		remote_addr link = frame_at(world, 4) + layout->frame_back;
		if (!has_frame_objects(layout))
			continue;
		assert_true(look(&watched, watched.earlier));
		for (int i = 0; i < 20; i++) {
			put64(world, link, i % 5 ? 0 : frame_at(world, 3));
			assert_int_equal(look(&watched, watched.earlier), i % 5 == 0);
		}
		put64(world, link, 0);
		int looks = 1;
		while (looks < 100 && !look(&watched, watched.earlier))
			looks++;
		assert_in_range(looks, 4, 20);
		assert_int_equal(python_probe_frames(watched.earlier), 2);
		put64(world, link, frame_at(world, 3));
		assert_false(look(&watched, watched.earlier));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stack_that_stands_still_is_whole),
		cmocka_unit_test(a_frame_that_was_left_or_entered_is_no_loss),
		cmocka_unit_test(what_was_replaced_is_cut_off),
		cmocka_unit_test(the_frame_they_part_in_was_innermost),
		cmocka_unit_test(nothing_in_common_is_nothing),
		cmocka_unit_test(any_frame_may_become_the_innermost),
		cmocka_unit_test(what_is_outside_of_the_newer_memory_must_stand),
		cmocka_unit_test(the_top_is_where_the_innermost_frames_are),
		cmocka_unit_test(a_look_that_fails_tells_the_top),
		cmocka_unit_test(popped_frames_are_torn),
		cmocka_unit_test(an_entry_record_that_leads_nowhere_is_torn),
		cmocka_unit_test(recent_frames_are_few),
		cmocka_unit_test(another_outermost_frame_must_be_seen_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
