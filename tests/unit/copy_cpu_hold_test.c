/* SPDX-License-Identifier: MIT */
/* Whom the taker follows to its CPU, when it lets that be, and whether the thread stood still. */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "copy/cpu_hold.h"

static const uint64_t MS = 1000000;
enum { CPU = 3, SEVERAL = 20, ENOUGH = 50 };

/* A thread that runs all the time, and its hold. */
struct runner {
	pid_t pid;
	struct target *target;
	struct cpu_holder holder;
	struct cpu_hold hold;
};

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void rest(void)
{
	struct timespec time = {.tv_nsec = 200000};
	nanosleep(&time, NULL);
}

static void begin_tick(struct cpu_holder *holder)
{
	uint64_t now = now_ns();
	cpu_holder_begin(holder, now, now, MS, 0);
}

/* Where it is when it has been stopped. */
static struct registers registers_of(struct runner *runner)
{
	struct thread_switch last = {.on_cpu = true};
	kill(runner->pid, SIGSTOP);
	waitpid(runner->pid, NULL, WUNTRACED);
	while (!switch_log_last(runner->hold.log, &last) || last.on_cpu || last.runnable)
		rest();
	return last.registers;
}

/* Its log is open, and not trusted yet. */
static void setup(struct runner *runner)
{
	memset(runner, 0, sizeof(*runner));
	runner->pid = fork();
	assert_true(runner->pid >= 0);
	if (runner->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			__asm__ volatile("" ::: "memory");
	}
	assert_true(target_open(runner->pid, &runner->target, NULL));
	cpu_holder_init(&runner->holder, runner->target, true);
	cpu_hold_learn(&runner->holder, &runner->hold, runner->target, runner->pid, 0);
	assert_null(runner->hold.log); /* one stop is none */
	cpu_hold_learn(&runner->holder, &runner->hold, runner->target, runner->pid, 0);
	if (!runner->hold.log) {
		assert_false(runner->holder.wanted);
		kill(runner->pid, SIGKILL);
		waitpid(runner->pid, NULL, 0);
		target_free(runner->target);
		printf("skipped: context switches may not be followed here\n");
		skip();
	}
}

static void trust(struct runner *runner)
{
	struct registers registers = registers_of(runner);
	registers.fs_base = 0x1234;
	cpu_hold_check(&runner->hold, &registers);
	assert_true(runner->hold.trusted);
	kill(runner->pid, SIGCONT);
	struct thread_switch last = {.runnable = false};
	while (!switch_log_last(runner->hold.log, &last) || !last.runnable)
		rest();
}

static void teardown(struct runner *runner)
{
	cpu_hold_release(&runner->hold);
	cpu_holder_release(&runner->holder);
	placement_stay_on(&runner->holder.placement, -1);
	kill(runner->pid, SIGKILL);
	waitpid(runner->pid, NULL, 0);
	target_free(runner->target);
}

/* It may be moved to another CPU now and then, so not each time. */
static void a_thread_is_held_on_its_own_cpu(void **state)
{
	(void)state;
	struct runner runner;
	setup(&runner);
	trust(&runner);
	unsigned runs = 0, held = 0, told = 0;
	const uint64_t end = now_ns() + 10000 * MS;
	while ((runs < ENOUGH || held < ENOUGH || told < ENOUGH) && now_ns() < end) {
		struct thread_switch last;
		uint64_t pause_ns = 0;
		rest();
		begin_tick(&runner.holder);
		runs += cpu_hold_runs(&runner.holder, &runner.hold);
		if (cpu_hold_begin(&runner.holder, &runner.hold, &last)) {
			assert_int_equal(last.registers.fs_base, 0x1234);
			bool still = cpu_hold_end(&runner.holder, &runner.hold, &last, &pause_ns);
			held += still && last.cpu == sched_getcpu() &&
				cpu_holder_follows(&runner.holder);
			told += still && pause_ns > 0 && pause_ns < 1000 * MS;
		}
		cpu_holder_end(&runner.holder, now_ns());
	}
	assert_true(runs >= ENOUGH);
	assert_true(held >= ENOUGH);
	assert_true(told >= ENOUGH);
	assert_true(runner.holder.held >= held);
	teardown(&runner);
}

static void copy_switches(struct runner *runner)
{
	struct copier *copier;
	struct error error;
	if (!copier_new(COPIER_AT_SWITCH, &copier, &error)) {
		teardown(runner);
		printf("skipped: %s\n", error.message);
		skip();
	}
	assert_true(switch_log_copy(runner->hold.log, copier, &error));
	runner->holder.copier = copier;
	runner->holder.expected = runner->pid;
}

static void the_kernel_s_copy_is_a_part_of_the_pause(void **state)
{
	(void)state;
	struct runner runner;
	setup(&runner);
	trust(&runner);
	copy_switches(&runner);
	struct copier *copier = runner.holder.copier;
	const struct copier_request nothing = {.tid = runner.pid};
	unsigned told = 0;
	for (const uint64_t end = now_ns() + 10000 * MS; told < ENOUGH && now_ns() < end;) {
		struct thread_switch last, before = runner.hold.last;
		const uint64_t copy_ns = runner.hold.copy_ns;
		const bool ours = runner.hold.ours;
		uint64_t pause_ns = 0;
		assert_true(copier_expect(copier, &nothing, 0, UINT64_MAX));
		rest();
		begin_tick(&runner.holder);
		if (cpu_hold_begin(&runner.holder, &runner.hold, &last) &&
		    cpu_hold_end(&runner.holder, &runner.hold, &last, &pause_ns) &&
		    /* On a busy machine it may have left its CPU before that was expected. */
		    copier_began_ns(copier)) {
			assert_int_equal(runner.hold.copy_ns, last.time_ns - copier_began_ns(copier));
			/* The kernel itself needs some time from one to the other. */
			assert_true(runner.hold.copy_ns > 0);
			if (ours && pause_ns > 0) {
				const uint64_t off_ns = switch_log_off_cpu(runner.hold.log, &before);
				assert_true(pause_ns > copy_ns && pause_ns <= copy_ns + off_ns);
				told += pause_ns == copy_ns + off_ns;
			}
		}
		cpu_holder_end(&runner.holder, now_ns());
	}
	assert_true(told >= ENOUGH);
	teardown(&runner);
}

static void what_ran_meanwhile_is_told(void **state)
{
	(void)state;
	struct runner runner;
	struct thread_switch last;
	uint64_t pause_ns;
	setup(&runner);
	trust(&runner);
	begin_tick(&runner.holder);
	while (!cpu_hold_begin(&runner.holder, &runner.hold, &last))
		rest();
	while (switch_log_position(runner.hold.log) == last.position)
		rest();
	assert_false(cpu_hold_end(&runner.holder, &runner.hold, &last, &pause_ns));
	assert_int_equal(runner.holder.lost, 1);
	teardown(&runner);
}

static void other_registers_than_by_ptrace_are_not_believed(void **state)
{
	(void)state;
	struct runner runner;
	struct thread_switch last;
	setup(&runner);
	struct registers registers = registers_of(&runner);
	registers.value[REGISTER_RBX] ^= 1;
	cpu_hold_check(&runner.hold, &registers);
	assert_true(runner.hold.refused);
	assert_false(cpu_hold_runs(&runner.holder, &runner.hold));
	cpu_hold_learn(&runner.holder, &runner.hold, runner.target, runner.pid, 0);
	assert_null(runner.hold.log);
	assert_false(cpu_hold_begin(&runner.holder, &runner.hold, &last));
	for (int i = 0; i < SEVERAL; i++)
		cpu_hold_learn(&runner.holder, &runner.hold, runner.target, runner.pid, 0);
	assert_null(runner.hold.log);
	teardown(&runner);
}

static void too_many_switches_are_not_followed(void **state)
{
	(void)state;
	struct runner runner;
	struct thread_switch last;
	const uint64_t second = 1000 * MS, now = now_ns();
	setup(&runner);
	trust(&runner);
	cpu_holder_begin(&runner.holder, now, now, MS, 0);
	while (!cpu_hold_runs(&runner.holder, &runner.hold))
		rest();
	runner.hold.checked_position += 11000 * 216; /* as if it had had so many */
	cpu_holder_begin(&runner.holder, now + second, now + second, MS / 2, 0);
	cpu_hold_runs(&runner.holder, &runner.hold);
	assert_non_null(runner.hold.log); /* the taker's own are not its fault */
	runner.hold.checked_position += 11000 * 216;
	cpu_holder_begin(&runner.holder, now + 2 * second, now + 2 * second, 10 * MS, 0);
	cpu_hold_runs(&runner.holder, &runner.hold);
	assert_null(runner.hold.log);
	assert_true(runner.hold.refused);
	assert_false(cpu_hold_begin(&runner.holder, &runner.hold, &last));
	teardown(&runner);
}

static void nobody_is_followed_when_it_is_not_wanted(void **state)
{
	(void)state;
	struct cpu_holder holder;
	struct cpu_hold hold = {.stops = 0};
	cpu_holder_init(&holder, NULL, false);
	for (int i = 0; i < SEVERAL; i++)
		cpu_hold_learn(&holder, &hold, NULL, getpid(), 0);
	assert_null(hold.log);
}

/* As if it had gone to that CPU. */
static void pretend(struct cpu_holder *holder)
{
	cpu_holder_init(holder, NULL, false);
	holder->placement.cpu = CPU;
}

static void several_running_threads_are_not_followed(void **state)
{
	(void)state;
	struct cpu_holder holder;
	pretend(&holder);
	for (int i = 0; i < SEVERAL; i++) {
		holder.running = 2;
		begin_tick(&holder);
	}
	assert_false(cpu_holder_follows(&holder));
	assert_false(holder.may_follow);
	/* Until there is one again. */
	holder.running = 1;
	begin_tick(&holder);
	assert_true(holder.may_follow);
	/* One tick with several does not matter. */
	holder.running = 2;
	begin_tick(&holder);
	assert_true(holder.may_follow);
}

static void a_cpu_that_is_given_late_is_left_alone(void **state)
{
	(void)state;
	struct cpu_holder holder;
	const uint64_t late = 2 * MS;
	uint64_t now = 1000 * MS;
	pretend(&holder);
	for (int i = 0; i < SEVERAL; i++, now += MS)
		cpu_holder_begin(&holder, now, now - MS / 100, MS, 0);
	assert_true(holder.may_follow && cpu_holder_follows(&holder));
	for (int i = 0; i < SEVERAL; i++, now += MS)
		cpu_holder_begin(&holder, now, now - late, MS, 0);
	assert_false(holder.may_follow || cpu_holder_follows(&holder));
	cpu_holder_begin(&holder, now + 3000 * MS, now + 3000 * MS, MS, 0);
	assert_true(holder.may_follow);
}

static void one_long_stall_is_not_the_thread_s(void **state)
{
	(void)state;
	struct cpu_holder holder;
	uint64_t now = 1000 * MS;
	pretend(&holder);
	for (int i = 0; i < SEVERAL; i++, now += MS)
		cpu_holder_begin(&holder, now, i % 10 ? now : now - 100 * MS, MS, 0);
	assert_true(holder.may_follow && cpu_holder_follows(&holder));
	for (int i = 0; i < SEVERAL; i++, now += MS)
		cpu_holder_begin(&holder, now, i % 2 ? now : now - 100 * MS, MS, 0);
	assert_false(holder.may_follow || cpu_holder_follows(&holder));
}

static void a_cpu_that_nobody_runs_on_is_left(void **state)
{
	(void)state;
	struct cpu_holder holder;
	pretend(&holder);
	for (int i = 0; i < SEVERAL; i++)
		begin_tick(&holder);
	assert_true(cpu_holder_follows(&holder));
	for (int i = 0; i < 5 * SEVERAL; i++)
		begin_tick(&holder);
	assert_false(cpu_holder_follows(&holder));
	assert_true(holder.may_follow);
}

static void other_work_is_not_done_at_its_expense(void **state)
{
	(void)state;
	struct cpu_holder holder;
	pretend(&holder);
	uint64_t now = now_ns();
	cpu_holder_begin(&holder, now, now, MS, MS / 20);
	assert_false(holder.may_follow || cpu_holder_follows(&holder));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_is_held_on_its_own_cpu),
		cmocka_unit_test(the_kernel_s_copy_is_a_part_of_the_pause),
		cmocka_unit_test(what_ran_meanwhile_is_told),
		cmocka_unit_test(other_registers_than_by_ptrace_are_not_believed),
		cmocka_unit_test(too_many_switches_are_not_followed),
		cmocka_unit_test(nobody_is_followed_when_it_is_not_wanted),
		cmocka_unit_test(several_running_threads_are_not_followed),
		cmocka_unit_test(a_cpu_that_is_given_late_is_left_alone),
		cmocka_unit_test(one_long_stall_is_not_the_thread_s),
		cmocka_unit_test(a_cpu_that_nobody_runs_on_is_left),
		cmocka_unit_test(other_work_is_not_done_at_its_expense),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
