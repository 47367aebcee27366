/* SPDX-License-Identifier: MIT */
/*
 * Which thread states are joined to which thread, in this process: of each row a list of states in
 * our own memory, with the ids of threads of ours.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "copy/copy.h"
#include "copy/join.h"
#include "python/internal.h"
#include "target/target.h"

enum { STARTING, WORKER, MAIN, STATES, RECORD_SIZE = 1 << 20 };

struct world {
	const struct python_layout *layout;
	struct python_runtime runtime;
	uint64_t head;
	uint8_t *interpreter, *states[STATES];
	struct target *self;
	struct join join;
	struct error error;
};

struct worker {
	pthread_t thread;
	pid_t tid;
	int started[2], ended[2];
};

static void *work(void *argument)
{
	struct worker *worker = argument;
	char byte;
	worker->tid = gettid();
	(void)!write(worker->started[1], "r", 1);
	(void)!read(worker->ended[0], &byte, 1);
	return NULL;
}

static void start_worker(struct worker *worker)
{
	char byte;
	assert_int_equal(pipe(worker->started), 0);
	assert_int_equal(pipe(worker->ended), 0);
	assert_int_equal(pthread_create(&worker->thread, NULL, work, worker), 0);
	assert_int_equal(read(worker->started[0], &byte, 1), 1);
}

static void end_worker(struct worker *worker)
{
	close(worker->ended[1]);
	pthread_join(worker->thread, NULL);
	close(worker->ended[0]);
	close(worker->started[0]);
	close(worker->started[1]);
}

static uint64_t address_of(const void *record)
{
	return (uint64_t)(uintptr_t)record;
}

static void put(uint8_t *record, uint16_t offset, uint64_t value)
{
	memcpy(record + offset, &value, sizeof(value));
}

static void set_ids(struct world *world, int number, pthread_t thread, pid_t tid)
{
	put(world->states[number], world->layout->tstate_thread_id, (uint64_t)thread);
	put(world->states[number], world->layout->tstate_native_thread_id, (uint64_t)tid);
}

static void make_world(struct world *world, const struct python_layout *layout)
{
	memset(world, 0, sizeof(*world));
	world->layout = layout;
	world->runtime.layout = *layout;
	world->interpreter = alloc_zeroed(1, RECORD_SIZE);
	world->head = address_of(world->interpreter);
	world->runtime.head = address_of(&world->head);
	python_runtime_plan(&world->runtime);
	for (int i = 0; i < STATES; i++)
		world->states[i] = alloc_zeroed(1, RECORD_SIZE);
	for (int i = 0; i < STATES; i++) {
		put(world->states[i], layout->tstate_interp, world->head);
		if (i + 1 < STATES)
			put(world->states[i], layout->tstate_next,
			    address_of(world->states[i + 1]));
		if (i > 0)
			put(world->states[i], (uint16_t)(layout->tstate_next - 8),
			    address_of(world->states[i - 1]));
	}
	put(world->interpreter, layout->interp_threads_head, address_of(world->states[0]));
	assert_true(target_open(getpid(), &world->self, &world->error));
	join_init(&world->join, JOIN_AUTO);
}

static void free_world(struct world *world)
{
	join_release(&world->join);
	target_free(world->self);
	for (int i = 0; i < STATES; i++)
		free(world->states[i]);
	free(world->interpreter);
}

/* The thread has this state and no other. */
static void expect_joined(const struct world *world, pid_t tid, int number, pthread_t thread)
{
	struct copy_state state = {.tid = tid, .namespace_tid = tid};
	join_thread(&world->join, &state);
	assert_int_equal(state.tstate_count, 1);
	assert_int_equal(state.tstates[0], address_of(world->states[number]));
	assert_int_equal(state.thread_id, (uint64_t)thread);
}

/* Read between the two ids that a thread writes, a state has one of its maker's. */
static void check_handed_over(struct world *world, struct worker *starting, struct worker *worker)
{
	const pthread_t self = pthread_self();
	set_ids(world, MAIN, self, getpid());
	set_ids(world, WORKER, worker->thread, worker->tid);
	const struct {
		pthread_t thread;
		pid_t tid;
	} makers[] = {{self, getpid()}, {worker->thread, worker->tid}};
	for (size_t i = 0; i < sizeof(makers) / sizeof(*makers); i++) {
		set_ids(world, STARTING, starting->thread, makers[i].tid);
		assert_true(
			join_refresh(&world->join, &world->runtime, world->self, &world->error));
		expect_joined(world, getpid(), MAIN, self);
		expect_joined(world, worker->tid, WORKER, worker->thread);
		expect_joined(world, starting->tid, STARTING, starting->thread);
	}
	/* Before both it is one of the maker's; and then its own. */
	set_ids(world, STARTING, self, getpid());
	assert_true(join_refresh(&world->join, &world->runtime, world->self, &world->error));
	struct copy_state main_state = {.tid = getpid(), .namespace_tid = getpid()};
	join_thread(&world->join, &main_state);
	assert_int_equal(main_state.tstate_count, 2);
	assert_int_equal(main_state.thread_id, (uint64_t)self);
	set_ids(world, STARTING, starting->thread, starting->tid);
	assert_true(join_refresh(&world->join, &world->runtime, world->self, &world->error));
	expect_joined(world, starting->tid, STARTING, starting->thread);
	expect_joined(world, getpid(), MAIN, self);
}

static void a_state_that_is_handed_over_is_not_the_makers(void **state)
{
	struct worker starting, worker;
	const struct python_layout *row;
	unsigned rows = 0;
	(void)state;
	start_worker(&starting);
	start_worker(&worker);
	for (size_t i = 0; (row = python_layout_row(i)); i++) {
		struct world world;
		if (row->tstate_native_thread_id == LAYOUT_ABSENT)
			continue;
		make_world(&world, row);
		check_handed_over(&world, &starting, &worker);
		free_world(&world);
		rows++;
	}
	assert_true(rows > 0);
	end_worker(&worker);
	end_worker(&starting);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_state_that_is_handed_over_is_not_the_makers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
