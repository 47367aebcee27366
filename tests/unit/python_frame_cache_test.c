/* SPDX-License-Identifier: MIT */
/* Frames that are taken from the last read of a stack: what comes out is what decoding them again
 * would give, whatever has changed since. */
#include "tests/unit/python_world.h"

#include "base/alloc.h"

enum { FRAMES = 6 };

struct pair {
	struct world *world; /* it has a cache */
	struct python_code_cache *plain_cache;
	struct python_stack plain;
};

static void start(struct pair *pair, const struct python_layout *layout)
{
	memset(pair, 0, sizeof(*pair));
	pair->world = world_of_row(layout);
	python_code_cache_keep_frames(pair->world->cache, true);
	pair->plain_cache = python_code_cache_new(pair->world->interner);
	python_stack_init(&pair->plain);
}

static void finish(struct pair *pair)
{
	python_stack_release(&pair->plain);
	python_code_cache_free(pair->plain_cache);
	release_world(pair->world);
}

/* Rows whose frames stand on a data stack. */
static const struct python_layout *next_row(size_t *index)
{
	const struct python_layout *layout;
	do
		layout = python_layout_row((*index)++);
	while (layout && layout->tstate_datastack_chunk == LAYOUT_ABSENT);
	return layout;
}

static void expect_equal(const struct python_stack *a, const struct python_stack *b)
{
	assert_int_equal(a->count, b->count);
	assert_int_equal(a->activation_count, b->activation_count);
	for (size_t i = 0; i < a->count; i++) {
		assert_int_equal(a->frames[i].address, b->frames[i].address);
		assert_int_equal(a->frames[i].instruction, b->frames[i].instruction);
		assert_int_equal(a->frames[i].line, b->frames[i].line);
		assert_string_equal(a->frames[i].code->name, b->frames[i].code->name);
	}
	for (size_t i = 0; i < a->activation_count; i++) {
		assert_int_equal(a->activations[i].record, b->activations[i].record);
		assert_int_equal(a->activations[i].first, b->activations[i].first);
		assert_int_equal(a->activations[i].count, b->activations[i].count);
	}
}

/* Reads the stack both ways. */
static void read_both(struct pair *pair)
{
	struct world *world = pair->world;
	struct error error = {0};
	const uint64_t last = world->stack.walk;
	const bool well = read_stack(world, true);
	assert_int_equal(python_stack_read(&world->runtime, &world->reader, TSTATE, slices, 4,
					   pair->plain_cache, &pair->plain, &error),
			 well);
	assert_int_equal(pair->plain.reused, 0);
	if (!well) {
		assert_int_equal(world->error.kind, error.kind);
		return;
	}
	expect_equal(&world->stack, &pair->plain);
	assert_true(world->stack.walk > last);
	assert_int_equal(pair->plain.reused_from, 0);
	if (world->stack.reused)
		assert_in_range(world->stack.reused_from, 1, last);
	else
		assert_int_equal(world->stack.reused_from, 0);
	assert_int_equal(world->stack.skipped_records, pair->plain.skipped_records);
	assert_int_equal(world->stack.rebuilt_records, pair->plain.rebuilt_records);
}

static void expect_reused(struct pair *pair, size_t reused)
{
	read_both(pair);
	if (pair->world->stack.reused != reused)
		fail_msg("%u.%u: %zu frames cached, not %zu", pair->world->runtime.layout.major,
			 pair->world->runtime.layout.minor, pair->world->stack.reused, reused);
}

typedef void check_function(struct pair *pair);

static void on_each_layout(void **state)
{
	check_function *const *check = *state;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = next_row(&row));) {
		struct pair pair;
		start(&pair, layout);
		(*check)(&pair);
		finish(&pair);
	}
}

static void an_unchanged_stack_is_recalled_whole(struct pair *pair)
{
	expect_reused(pair, 0);
	for (int i = 0; i < 3; i++)
		expect_reused(pair, FRAMES);
	python_code_cache_keep_frames(pair->world->cache, false);
	expect_reused(pair, 0);
}

/* Frame N stands where it stood, called by the same one, but is another one. */
static void what_is_outside_of_a_changed_frame_is_recalled(struct pair *pair)
{
	const struct python_layout *layout = &pair->world->runtime.layout;
	read_both(pair);
	for (unsigned i = 0; i < FRAMES; i++) {
		const remote_addr frame = frame_at(pair->world, i);
		const remote_addr code = pair->world->codes[i];
		put64(pair->world, frame + layout->iframe_instruction,
		      code + layout->code_bytecode + 6);
		expect_reused(pair, i);
		expect_reused(pair, FRAMES);
		put64(pair->world, frame + layout->iframe_code, pair->world->codes[0]);
		put64(pair->world, frame + layout->iframe_instruction,
		      pair->world->codes[0] + layout->code_bytecode + 4);
		expect_reused(pair, i);
		make_frame(pair->world, i, i % 2 ? frame_at(pair->world, i - 1) : 0, false);
		make_stack(pair->world);
		read_both(pair);
	}
}

/* The frames' bytes are the same, what they run is not: a freed code object's memory is used
 * again. */
static void code_at_a_reused_address_is_not_recalled(struct pair *pair)
{
	const struct python_layout *layout = &pair->world->runtime.layout;
	read_both(pair);
	for (unsigned i = 0; i < FRAMES; i++) {
		put64(pair->world, pair->world->codes[i] + layout->code_name,
		      make_string(pair->world, "another"));
		expect_reused(pair, i);
		assert_string_equal(pair->world->stack.frames[FRAMES - 1 - i].code->name,
				    "another");
	}
}

static void code_in_all_of_anothers_memory_is_not_recalled(struct pair *pair)
{
	read_both(pair);
	for (unsigned i = 0; i < FRAMES; i++) {
		remake_code(pair->world, pair->world->codes[i]);
		expect_reused(pair, i);
		assert_int_equal(pair->world->stack.frames[FRAMES - 1 - i].code->name[0], 'g');
	}
}

/* Other thread states, of which some share the place where the first one's stack is kept. */
static void thread_states_do_not_mix(struct pair *pair)
{
	read_both(pair);
	struct python_stack other;
	python_stack_init(&other);
	for (remote_addr at = TSTATE + 0x2000; at < TSTATE + 0x2800; at += 0x40) {
		struct error error = {0};
		(void)!python_stack_read(&pair->world->runtime, &pair->world->reader, at, NULL, 0,
					 pair->world->cache, &other, &error);
		assert_int_equal(other.reused, 0);
		read_both(pair);
	}
	python_stack_release(&other);
}

/* ---- everything that is read, changed in turn ---- */

static void change_word(struct pair *pair, remote_addr address, uint64_t value)
{
	uint64_t before;
	memcpy(&before, pair->world->bytes + address, sizeof(before));
	put64(pair->world, address, value);
	read_both(pair);
	/* Also from what was found now, if anything, back to what was. */
	put64(pair->world, address, before);
	read_both(pair);
}

static void change_words(struct pair *pair, remote_addr start, remote_addr end)
{
	for (remote_addr at = start; at < end; at += 8) {
		uint64_t word;
		memcpy(&word, pair->world->bytes + at, sizeof(word));
		const uint64_t values[] = {0,
					   word + 2,
					   word ^ 0x100,
					   frame_at(pair->world, 1),
					   frame_at(pair->world, 4),
					   shim_at(1),
					   record_at(1),
					   pair->world->codes[2]};
		for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
			change_word(pair, at, values[i]);
	}
}

static void any_word_may_change(struct pair *pair)
{
	const struct python_layout *layout = &pair->world->runtime.layout;
	read_both(pair);
	change_words(pair, CHUNK, frame_at(pair->world, FRAMES));
	change_words(pair, record_at(2), record_at(0) + 0x100);
	change_words(pair, TSTATE, TSTATE + layout->tstate_size);
	for (unsigned i = 0; i < FRAMES; i++)
		change_words(pair, pair->world->codes[i],
			     pair->world->codes[i] + layout->code_size);
}

/* Each read fails once: what is read all the same is right. */
static void a_failing_read_is_no_recall(struct pair *pair)
{
	read_both(pair);
	for (size_t fail = 1; fail < 64; fail++) {
		pair->world->reads = 0;
		pair->world->fail_at = fail;
		const bool well = read_stack(pair->world, true);
		pair->world->fail_at = 0;
		if (well)
			expect_equal(&pair->world->stack, &pair->plain);
		read_both(pair);
	}
}

int main(void)
{
	static struct {
		const char *name;
		check_function *check;
	} checks[] = {
		{"an_unchanged_stack_is_recalled_whole", an_unchanged_stack_is_recalled_whole},
		{"what_is_outside_of_a_changed_frame_is_recalled",
		 what_is_outside_of_a_changed_frame_is_recalled},
		{"code_at_a_reused_address_is_not_recalled",
		 code_at_a_reused_address_is_not_recalled},
		{"code_in_all_of_anothers_memory_is_not_recalled",
		 code_in_all_of_anothers_memory_is_not_recalled},
		{"thread_states_do_not_mix", thread_states_do_not_mix},
		{"any_word_may_change", any_word_may_change},
		{"a_failing_read_is_no_recall", a_failing_read_is_no_recall},
	};
	struct CMUnitTest tests[sizeof(checks) / sizeof(*checks)];
	for (size_t i = 0; i < sizeof(checks) / sizeof(*checks); i++)
		tests[i] = (struct CMUnitTest){.name = checks[i].name,
					       .test_func = on_each_layout,
					       .initial_state = &checks[i].check};
	return cmocka_run_group_tests_name("python_recall", tests, NULL, NULL);
}
