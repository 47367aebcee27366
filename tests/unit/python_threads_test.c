/* SPDX-License-Identifier: MIT */
/*
 * The lists of interpreters and thread states of every row: whole, with members that lead back or
 * nowhere, endless; and every read failing once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "python/internal.h"

enum {
	SIZE = 1 << 20,
	HEAD = 0x100,
	COLLECTING = 0x180,
	INTERPRETERS = 0x10000,
	INTERPRETER_SIZE = 0x8000,
	STATES = 0x60000,
	STATE_SIZE = 0x1000,
	COUNT = 3, /* of interpreters, and of states of each */
};

struct world {
	struct memory_reader memory;
	struct python_runtime runtime;
	long reads_left;		/* until one fails; negative: none does */
	remote_addr when_read, then_at; /* once the one was read, at the other stands `then` */
	uint64_t then;
	uint8_t *bytes;
};

static bool read_world(const struct memory_reader *memory, remote_addr address, void *buffer,
		       size_t size, struct error *error)
{
	struct world *world = (struct world *)(uintptr_t)memory;
	if (world->reads_left == 0 || address >= SIZE || size > SIZE - address)
		return error_set(error, ERROR_GONE, "no memory there");
	world->reads_left -= world->reads_left > 0;
	memcpy(buffer, world->bytes + address, size);
	if (address == world->when_read)
		memcpy(world->bytes + world->then_at, &world->then, sizeof(world->then));
	return true;
}

static void put(struct world *world, remote_addr address, uint64_t value)
{
	memcpy(world->bytes + address, &value, sizeof(value));
}

static remote_addr interpreter_at(unsigned number)
{
	return INTERPRETERS + number * INTERPRETER_SIZE;
}

static remote_addr state_at(unsigned interpreter, unsigned number)
{
	return STATES + (interpreter * 8 + number) * STATE_SIZE;
}

static void put_next(struct world *world, unsigned interpreter, unsigned number, remote_addr next)
{
	put(world, state_at(interpreter, number) + world->runtime.layout.tstate_next, next);
}

/* Python 2's states do not know the newer one. */
static bool has_previous(const struct world *world)
{
	return world->runtime.layout.tstate_next >= 8;
}

static void make_state(struct world *world, unsigned interpreter, unsigned number)
{
	const struct python_layout *layout = &world->runtime.layout;
	remote_addr state = state_at(interpreter, number);
	put(world, state + layout->tstate_interp, interpreter_at(interpreter));
	put(world, state + layout->tstate_thread_id, 0x7f0000000000 + number);
	if (layout->tstate_native_thread_id != LAYOUT_ABSENT)
		put(world, state + layout->tstate_native_thread_id, 1000 + number);
	if (layout->tstate_id != LAYOUT_ABSENT)
		put(world, state + layout->tstate_id, 10 + number);
	put_next(world, interpreter, number,
		 number + 1 < COUNT ? state_at(interpreter, number + 1) : 0);
	if (has_previous(world))
		put(world, state + layout->tstate_next - 8,
		    number > 0 ? state_at(interpreter, number - 1) : 0);
}

static void make_world(struct world *world, const struct python_layout *row)
{
	struct python_runtime *runtime = &world->runtime;
	memset(world, 0, sizeof(*world));
	world->memory.read = read_world;
	world->reads_left = -1;
	world->bytes = alloc_zeroed(1, SIZE);
	runtime->layout = *row;
	runtime->head = HEAD;
	if (row->gc_place != GC_BY_INTERPRETER)
		runtime->collecting = COLLECTING;
	python_runtime_plan(runtime);
	put(world, HEAD, interpreter_at(0));
	for (unsigned i = 0; i < COUNT; i++) {
		remote_addr interpreter = interpreter_at(i);
		put(world, interpreter + row->interp_next,
		    i + 1 < COUNT ? interpreter_at(i + 1) : 0);
		put(world, interpreter + row->interp_threads_head, state_at(i, 0));
		for (unsigned k = 0; k < COUNT; k++)
			make_state(world, i, k);
	}
}

/* Calls the function with a world of each row. */
static void with_each_row(void (*function)(struct world *world))
{
	const struct python_layout *row;
	for (size_t i = 0; (row = python_layout_row(i)); i++) {
		struct world world;
		make_world(&world, row);
		function(&world);
		free(world.bytes);
	}
}

static enum error_kind list(struct world *world, struct python_thread **threads, size_t *count)
{
	struct error error = {0};
	*threads = NULL;
	*count = 0;
	bool read = python_threads(&world->runtime, &world->memory, threads, count, &error);
	assert_int_equal(read, error.kind == ERROR_NONE);
	return error.kind;
}

static void expect_torn(struct world *world)
{
	struct python_thread *threads;
	size_t count;
	assert_int_equal(list(world, &threads, &count), ERROR_TORN);
	assert_null(threads);
}

static void check_all(struct world *world)
{
	const struct python_layout *layout = &world->runtime.layout;
	bool has_native = layout->tstate_native_thread_id != LAYOUT_ABSENT;
	bool has_id = layout->tstate_id != LAYOUT_ABSENT;
	struct python_thread *threads;
	size_t count;
	assert_int_equal(list(world, &threads, &count), ERROR_NONE);
	assert_int_equal(count, COUNT * COUNT);
	for (unsigned i = 0; i < count; i++) {
		unsigned number = i % COUNT;
		assert_int_equal(threads[i].tstate, state_at(i / COUNT, number));
		assert_int_equal(threads[i].interpreter, interpreter_at(i / COUNT));
		assert_int_equal(threads[i].thread_id, 0x7f0000000000 + number);
		assert_int_equal(threads[i].native_thread_id, has_native ? 1000 + number : 0);
		assert_int_equal(threads[i].id, has_id ? 10 + number : 0);
	}
	free(threads);
}

static void every_interpreter_and_thread_is_listed(void **state)
{
	(void)state;
	with_each_row(check_all);
}

static void check_loops(struct world *world)
{
	remote_addr next = interpreter_at(COUNT - 1) + world->runtime.layout.interp_next;
	for (unsigned from = 0; from < COUNT; from++)
		for (unsigned to = 0; to <= from; to++) {
			put_next(world, 1, from, state_at(1, to));
			expect_torn(world);
			put_next(world, 1, from, from + 1 < COUNT ? state_at(1, from + 1) : 0);
		}
	for (unsigned to = 0; to < COUNT; to++) {
		uint64_t stamp;
		put(world, next, interpreter_at(to));
		expect_torn(world);
		assert_false(python_threads_stamp(&world->runtime, &world->memory, &stamp, NULL));
	}
	put(world, next, 0);
	check_all(world);
}

static void lists_that_lead_back_are_torn(void **state)
{
	(void)state;
	with_each_row(check_loops);
}

static void check_strays(struct world *world)
{
	static const remote_addr nowhere[] = {1, 0x8000000000000000, SIZE, SIZE - 8, 12};
	for (size_t i = 0; i < sizeof(nowhere) / sizeof(*nowhere); i++) {
		put_next(world, 2, 1, nowhere[i]);
		expect_torn(world);
	}
	/* Another interpreter's state: the memory of one that has ended serves again. */
	put_next(world, 2, 1, state_at(0, 1));
	expect_torn(world);
	put_next(world, 2, 1, state_at(2, 2));
	check_all(world);
}

static void members_that_are_none_are_torn(void **state)
{
	(void)state;
	with_each_row(check_strays);
}

/* The ids of a state's thread find it in each interpreter. */
static uint32_t find(struct world *world, uint64_t thread_id, uint64_t native, bool *all)
{
	remote_addr found[COUNT + 1];
	uint32_t count = python_threads_newest(&world->runtime, &world->memory, thread_id, native,
					       found, COUNT + 1, all);
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(found[i], state_at(i, 2));
	return count;
}

/* A state that is off the list is made anew for a thread that starts, before it is on it again. */
static void check_used_again(struct world *world)
{
	const remote_addr interpreter = interpreter_at(1), head = state_at(1, 0);
	const uint16_t next = world->runtime.layout.tstate_next;
	bool all;
	if (has_previous(world)) {
		put(world, state_at(1, 1) + next - 8, 0);
		put(world, state_at(1, 1) + next, 0);
		expect_torn(world);
		find(world, 0x7f0000000009, 1009, &all);
		assert_false(all);
		make_state(world, 1, 1);
	}
	/* The first one, whose interpreter's list begins elsewhere by now. */
	put_next(world, 1, 0, 0);
	world->when_read = head;
	world->then_at = interpreter + world->runtime.layout.interp_threads_head;
	world->then = state_at(1, 1);
	expect_torn(world);
	put(world, world->then_at, head);
	world->when_read = 0;
	make_state(world, 1, 0);
	check_all(world);
}

static void states_that_are_used_again_are_torn(void **state)
{
	(void)state;
	with_each_row(check_used_again);
}

static void check_failures(struct world *world)
{
	enum error_kind kind = ERROR_GONE;
	for (long reads = 0; kind != ERROR_NONE; reads++) {
		struct python_thread *threads;
		size_t count;
		assert_true(reads < 100);
		world->reads_left = reads;
		kind = list(world, &threads, &count);
		free(threads);
	}
	world->reads_left = -1;
}

static void every_read_may_fail(void **state)
{
	(void)state;
	with_each_row(check_failures);
}

static void check_collecting(struct world *world)
{
	const struct python_layout *layout = &world->runtime.layout;
	remote_addr place = layout->gc_place == GC_BY_INTERPRETER
				    ? interpreter_at(1) + layout->interp_gc_collecting
				    : COLLECTING;
	for (int collecting = 0; collecting < 2; collecting++) {
		struct python_interpreter interpreter;
		struct error error;
		world->bytes[place] = (uint8_t)collecting;
		if (!python_interpreter_read(&world->runtime, &world->memory, interpreter_at(1),
					     &interpreter, &error))
			fail_msg("%s", error.message);
		assert_int_equal(interpreter.collecting, collecting);
		assert_int_equal(interpreter.next, interpreter_at(2));
		assert_int_equal(interpreter.threads_head, state_at(1, 0));
	}
}

static void the_collector_is_asked_where_it_is(void **state)
{
	(void)state;
	with_each_row(check_collecting);
}

static void check_newest(struct world *world)
{
	const bool has_native = world->runtime.layout.tstate_native_thread_id != LAYOUT_ABSENT;
	const remote_addr next = interpreter_at(COUNT - 1) + world->runtime.layout.interp_next;
	remote_addr one;
	bool all;
	assert_int_equal(find(world, 0x7f0000000002, 0, &all), COUNT);
	assert_true(all);
	assert_int_equal(find(world, 0, 1002, &all), has_native ? COUNT : 0);
	assert_true(all);
	assert_int_equal(find(world, 0x7f0000000009, 1009, &all), 0);
	assert_true(all);
	/* No room for the others. */
	assert_int_equal(python_threads_newest(&world->runtime, &world->memory, 0x7f0000000001, 0,
					       &one, 1, &all),
			 1);
	assert_int_equal(one, state_at(0, 1));
	assert_false(all);
	/* An endless list, one that leads nowhere, another interpreter's state, no interpreter. */
	const remote_addr strays[] = {state_at(1, 0), 12, SIZE, state_at(0, 1)};
	for (size_t i = 0; i < sizeof(strays) / sizeof(*strays); i++) {
		put_next(world, 1, 1, strays[i]);
		find(world, 0x7f0000000009, 1009, &all);
		assert_false(all);
	}
	put_next(world, 1, 1, state_at(1, 2));
	put(world, next, interpreter_at(0));
	assert_int_equal(find(world, 0x7f0000000009, 1009, &all), 0);
	assert_false(all);
	put(world, next, 12);
	assert_int_equal(find(world, 0x7f0000000009, 1009, &all), 0);
	assert_false(all);
	for (world->reads_left = 0; world->reads_left < COUNT; world->reads_left++) {
		const long reads = world->reads_left;
		assert_int_equal(find(world, 0x7f0000000009, 1009, &all), 0);
		assert_false(all);
		world->reads_left = reads;
	}
	world->reads_left = -1;
}

static void a_new_thread_is_looked_for_among_the_newest(void **state)
{
	(void)state;
	with_each_row(check_newest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_interpreter_and_thread_is_listed),
		cmocka_unit_test(lists_that_lead_back_are_torn),
		cmocka_unit_test(members_that_are_none_are_torn),
		cmocka_unit_test(states_that_are_used_again_are_torn),
		cmocka_unit_test(every_read_may_fail),
		cmocka_unit_test(the_collector_is_asked_where_it_is),
		cmocka_unit_test(a_new_thread_is_looked_for_among_the_newest),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
