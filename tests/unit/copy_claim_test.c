/* SPDX-License-Identifier: MIT */
/* Which thread runs a sub-interpreter's thread state: the one on whose stack its newest entry is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "copy/internal.h"
#include "python/internal.h"
#include "target/internal.h"

enum { MAIN = 100, WORKER = 101, OTHER = 102 };

static const remote_addr MAIN_END = 0x7ffd00000000, WORKER_END = 0x7f2000800700,
			 OTHER_END = 0x7f2001000700;
static const remote_addr OWN_MAIN = 0x1000, OWN_WORKER = 0x2000, INNER = 0x3000, SECOND = 0x4000;

struct scene {
	struct target target;
	struct python_runtime runtime;
	struct python_thread threads[5];
	struct taker taker;
	struct raw_sample *raw;
};

/* Two interpreters that the main thread has made, and three threads. */
static void make_scene(struct scene *scene, unsigned minor)
{
	memset(scene, 0, sizeof(*scene));
	scene->target.pid = MAIN;
	scene->runtime.layout = *python_layout_find(3, minor, false);
	const struct python_thread threads[] = {
		{.tstate = SECOND, .interpreter = 3, .thread_id = 0x7f2009000000},
		{.tstate = INNER, .interpreter = 2, .thread_id = 0x7f2009000000},
		{.tstate = 0x5000, .interpreter = 1, .thread_id = OTHER_END},
		{.tstate = OWN_WORKER, .interpreter = 1, .thread_id = WORKER_END},
		{.tstate = OWN_MAIN, .interpreter = 1, .thread_id = 0x7f2009000000},
	};
	memcpy(scene->threads, threads, sizeof(threads));
	scene->taker.target = &scene->target;
	scene->taker.runtime = &scene->runtime;
	scene->taker.main_stack_end = MAIN_END;
	scene->taker.join.threads = scene->threads;
	scene->taker.join.count = 5;
	scene->taker.join.roaming[0] = SECOND;
	scene->taker.join.roaming[1] = INNER;
	scene->taker.join.roaming_count = 2;
	scene->raw = raw_sample_new();
}

static void put_entry(struct scene *scene, remote_addr state, remote_addr entry)
{
	memcpy(raw_sample_add(scene->raw, state + scene->runtime.layout.tstate_cframe, 8), &entry,
	       8);
}

/* A sample of the thread, whose SP is known or (0) is not, as its ids have it. */
static void begin(struct scene *scene, pid_t tid, remote_addr sp)
{
	struct raw_sample *raw = scene->raw;
	raw_sample_reset(raw);
	raw->tid = tid;
	raw->who.thread_id = tid == MAIN ? 0x7f2009000000 : tid == WORKER ? WORKER_END : OTHER_END;
	raw->registers.value[REGISTER_RSP] = sp;
	raw->registers.known = sp ? 1u << REGISTER_RSP : 0;
	const remote_addr of_main[] = {SECOND, INNER, OWN_MAIN};
	memcpy(raw->who.tstates, of_main, sizeof(of_main));
	raw->who.tstate_count = tid == MAIN ? 3 : 1;
	if (tid != MAIN)
		raw->who.tstates[0] = tid == WORKER ? OWN_WORKER : 0x5000;
}

static void expect_states(struct scene *scene, uint64_t claimed, uint32_t count,
			  const remote_addr *states)
{
	claim_states(&scene->taker, scene->raw);
	assert_int_equal(scene->raw->who.tstate_count, count);
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(scene->raw->who.tstates[i], states[i]);
	assert_int_equal(scene->raw->who.claimed, claimed);
}

static void a_state_is_that_of_the_thread_with_its_entry(void **unused)
{
	(void)unused;
	const remote_addr worker[] = {INNER, OWN_WORKER}, main_thread[] = {SECOND, OWN_MAIN},
			  other[] = {0x5000};
	struct scene scene;
	for (unsigned minor = 10; minor <= 12; minor++)
		for (unsigned known = 0; known < 2; known++) {
			make_scene(&scene, minor);
			begin(&scene, WORKER, known ? WORKER_END - 0x5000 : 0);
			put_entry(&scene, INNER, WORKER_END - 0x4000);
			put_entry(&scene, SECOND, MAIN_END - 0x4000);
			expect_states(&scene, 1, 2, worker);
			begin(&scene, MAIN, known ? MAIN_END - 0x5000 : 0);
			put_entry(&scene, INNER, WORKER_END - 0x4000);
			put_entry(&scene, SECOND, MAIN_END - 0x4000);
			expect_states(&scene, 0, 2, main_thread);
			begin(&scene, OTHER, known ? OTHER_END - 0x5000 : 0);
			put_entry(&scene, INNER, WORKER_END - 0x4000);
			put_entry(&scene, SECOND, MAIN_END - 0x4000);
			expect_states(&scene, 0, 1, other);
			raw_sample_free(scene.raw);
		}
}

static void one_that_nobody_runs_is_its_maker_s(void **unused)
{
	(void)unused;
	const remote_addr of_main[] = {SECOND, INNER, OWN_MAIN}, worker[] = {OWN_WORKER};
	struct scene scene;
	make_scene(&scene, 12);
	const remote_addr root = scene.runtime.layout.tstate_root_cframe;
	for (unsigned i = 0; i < 2; i++) {
		begin(&scene, i ? MAIN : WORKER, i ? MAIN_END - 0x5000 : WORKER_END - 0x5000);
		put_entry(&scene, INNER, INNER + root);
		put_entry(&scene, SECOND, SECOND + root);
		expect_states(&scene, 0, i ? 3 : 1, i ? of_main : worker);
	}
	raw_sample_free(scene.raw);
}

/* A record below the stack pointer is of a call that has returned. */
static void what_is_below_the_stack_is_nobody_s(void **unused)
{
	(void)unused;
	const remote_addr worker[] = {OWN_WORKER};
	struct scene scene;
	make_scene(&scene, 11);
	begin(&scene, WORKER, WORKER_END - 0x5000);
	put_entry(&scene, INNER, WORKER_END - 0x6000);
	put_entry(&scene, SECOND, SECOND + scene.runtime.layout.tstate_root_cframe);
	expect_states(&scene, 0, 1, worker);
	raw_sample_free(scene.raw);
}

static void where_nothing_tells_the_ids_do(void **unused)
{
	(void)unused;
	const remote_addr of_main[] = {SECOND, INNER, OWN_MAIN}, worker[] = {OWN_WORKER};
	struct scene scene;
	for (unsigned minor = 9; minor <= 13; minor += 4) {
		make_scene(&scene, minor);
		begin(&scene, MAIN, MAIN_END - 0x5000);
		expect_states(&scene, 0, 3, of_main);
		begin(&scene, WORKER, WORKER_END - 0x5000);
		expect_states(&scene, 0, 1, worker);
		raw_sample_free(scene.raw);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_state_is_that_of_the_thread_with_its_entry),
		cmocka_unit_test(one_that_nobody_runs_is_its_maker_s),
		cmocka_unit_test(what_is_below_the_stack_is_nobody_s),
		cmocka_unit_test(where_nothing_tells_the_ids_do),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
