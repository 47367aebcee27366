/* SPDX-License-Identifier: MIT */
/* What is told of a thread's context switches: where it is, with which registers, and for how long.
 */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "target/switch_log.h"
#include "target/target.h"

enum {
	LOGS = 256,
	ROUNDS = 200,
	NOBODY = 65534,
	NO_LOG = 77, /* exit status of a child that was refused a log as it should be */
};

/* The value of each register in the child. */
static uint64_t value_of(unsigned number)
{
	return UINT64_C(0x1111000000000000) + number;
}

#define SET(name, number) "movabs $0x111100000000" number ", %" name "\n\t"

/* All registers but RSP and RIP have values that tell which they are. */
__attribute__((noreturn)) static void spin(void)
{
	__asm__ volatile(SET("rax", "0000") SET("rdx", "0001") SET("rcx", "0002") SET("rbx", "0003")
				 SET("rsi", "0004") SET("rdi", "0005") SET("rbp", "0006")
					 SET("r8", "0008") SET("r9", "0009") SET("r10", "000a")
						 SET("r11", "000b") SET("r12", "000c")
							 SET("r13", "000d") SET("r14", "000e")
								 SET("r15", "000f") "1: jmp 1b");
	__builtin_unreachable();
}

/* A child on the CPU that we are on from now on; it spins, or is blocked for ever. */
static pid_t start(bool spins)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET((size_t)sched_getcpu(), &set);
	assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (spins)
			spin();
		for (;;)
			pause();
	}
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void rest(void)
{
	struct timespec time = {.tv_nsec = 200000};
	nanosleep(&time, NULL);
}

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Skips the test where the kernel tells us nothing. */
static struct switch_log *open_log(const struct target *target)
{
	struct switch_log *log;
	struct error error;
	if (switch_log_open(target, target_pid(target), &log, &error))
		return log;
	assert_int_equal(error.kind, ERROR_DENIED);
	printf("skipped: %s\n", error.message);
	skip();
	return NULL;
}

static struct thread_switch next_switch(const struct switch_log *log)
{
	struct thread_switch last;
	do
		rest();
	while (!switch_log_last(log, &last) || last.on_cpu);
	return last;
}

static void a_thread_that_lost_its_cpu_stands_still(void **state)
{
	(void)state;
	pid_t pid = start(true);
	struct target *target;
	assert_true(target_open(pid, &target, NULL));
	struct switch_log *log = open_log(target);
	uint64_t positions = switch_log_position(log);
	unsigned compared = 0;
	for (int i = 0; i < ROUNDS; i++) {
		/* While we are awake, on the only CPU that it may run on, it does not. */
		struct thread_switch last = next_switch(log);
		uint64_t pc = last.registers.value[REGISTER_RIP];
		if (pc < (uintptr_t)spin || pc > (uintptr_t)spin + 256) {
			i--; /* it is still on its way there */
			continue;
		}
		assert_true(last.runnable);
		assert_int_equal(last.cpu, sched_getcpu());
		assert_true(last.time_ns <= now_ns());
		assert_int_equal(last.registers.known, (1u << REGISTER_COUNT) - 1);
		const bool set = last.registers.value[REGISTER_R15] == value_of(REGISTER_R15);
		compared += set;
		for (unsigned k = 0; k < REGISTER_RIP && set; k++)
			if (k != REGISTER_RSP)
				assert_int_equal(last.registers.value[k], value_of(k));
		assert_int_equal(switch_log_position(log), last.position);
		assert_int_equal(switch_log_off_cpu(log, &last), 0);
		/* Then it runs on, and the log tells for how long it did not. */
		uint64_t stood = now_ns() - last.time_ns;
		while (switch_log_position(log) == last.position)
			rest();
		uint64_t off = switch_log_off_cpu(log, &last);
		if (off == 0)
			continue; /* we got no CPU for so long that the log is beyond it */
		assert_true(off >= stood && off <= now_ns() - last.time_ns);
		positions = switch_log_position(log);
	}
	assert_true(compared > ROUNDS / 2);
	assert_true(positions < UINT64_MAX - ROUNDS * UINT64_C(100)); /* it was around many times */
	switch_log_close(log);
	target_free(target);
	end(pid);
}

/* Each switch since that one, in turns: it got its CPU, it lost it. */
static void all_switches_since_one_are_told(void **state)
{
	(void)state;
	struct thread_change changes[8];
	struct target *target;
	bool all = false;
	const pid_t pid = start(true);
	assert_true(target_open(pid, &target, NULL));
	struct switch_log *log = open_log(target);
	struct thread_switch first = next_switch(log), last = first;
	assert_int_equal(switch_log_since(log, first.position, changes, 8, &all), 0);
	assert_true(all);
	while (first.position - last.position < 2 * SWITCH_LOG_BYTES)
		last = next_switch(log);
	/* While we are awake it has no CPU. */
	const size_t count = switch_log_since(log, first.position, changes, 8, &all);
	assert_true(all && count >= 4 && count % 2 == 0);
	assert_int_equal(changes[0].time_ns, last.time_ns);
	for (size_t i = 0; i < count; i++) {
		const uint64_t before_ns = i + 1 < count ? changes[i + 1].time_ns : first.time_ns;
		assert_int_equal(changes[i].on_cpu, i % 2);
		assert_true(changes[i].runnable && changes[i].time_ns >= before_ns);
	}
	assert_int_equal(switch_log_since(log, first.position, changes, 3, &all), 3);
	assert_false(all);
	/* What the log has no room for. */
	while (first.position - switch_log_position(log) < 40 * SWITCH_LOG_BYTES)
		rest();
	assert_true(switch_log_since(log, first.position, changes, 8, &all) <= 8);
	assert_false(all);
	end(pid);
	switch_log_close(log);
	target_free(target);
}

static void a_blocked_thread_is_not_runnable(void **state)
{
	(void)state;
	pid_t pid = start(false);
	struct target *target;
	struct target_thread_files *files;
	struct target_wait wait = {.running = true};
	assert_true(target_open(pid, &target, NULL));
	assert_true(target_thread_files_open(target, pid, &files, NULL));
	struct switch_log *log = open_log(target);
	struct thread_switch last;
	while (wait.running)
		assert_true(target_thread_wait(files, &wait, NULL));
	/* It has not run since the log was opened, or once more until it was blocked. */
	kill(pid, SIGSTOP);
	waitpid(pid, NULL, WUNTRACED);
	kill(pid, SIGCONT);
	do {
		rest();
		assert_true(target_thread_wait(files, &wait, NULL));
	} while (wait.running || wait.number < 0 || !switch_log_last(log, &last) || last.on_cpu);
	assert_false(last.runnable);
	assert_int_equal(last.registers.value[REGISTER_RSP], wait.sp);
	assert_int_equal(last.registers.value[REGISTER_RIP], wait.pc);
	switch_log_close(log);
	target_thread_files_close(files);
	target_free(target);
	end(pid);
}

static void only_so_many_are_open(void **state)
{
	(void)state;
	pid_t pid = start(false);
	struct target *target;
	struct switch_log *logs[LOGS], *more;
	struct error error;
	assert_true(target_open(pid, &target, NULL));
	logs[0] = open_log(target);
	for (size_t i = 1; i < LOGS; i++)
		assert_true(switch_log_open(target, pid, &logs[i], NULL));
	assert_false(switch_log_open(target, pid, &more, &error));
	assert_int_equal(error.kind, ERROR_BUSY);
	switch_log_close(logs[0]);
	assert_true(switch_log_open(target, pid, &logs[0], NULL));
	for (size_t i = 0; i < LOGS; i++)
		switch_log_close(logs[i]);
	end(pid);
	assert_false(switch_log_open(target, pid, &more, &error));
	assert_int_equal(error.kind, ERROR_GONE);
	switch_log_close(NULL);
	target_free(target);
}

static int paranoid(void)
{
	int level = -1;
	FILE *file = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
	if (file && fscanf(file, "%d", &level) != 1)
		level = -1;
	if (file)
		fclose(file);
	return level;
}

static void without_the_right_it_is_denied(void **state)
{
	(void)state;
	if (geteuid() != 0 || paranoid() < 2) {
		printf("skipped: needs root and kernel.perf_event_paranoid above 1\n");
		skip();
	}
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct target *target;
		struct switch_log *log;
		struct error error;
		if (!target_open(getpid(), &target, NULL) || setuid(NOBODY) != 0)
			_exit(1);
		bool opened = switch_log_open(target, getpid(), &log, &error);
		_exit(!opened && error.kind == ERROR_DENIED ? NO_LOG : 1);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), NO_LOG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_that_lost_its_cpu_stands_still),
		cmocka_unit_test(all_switches_since_one_are_told),
		cmocka_unit_test(a_blocked_thread_is_not_runnable),
		cmocka_unit_test(only_so_many_are_open),
		cmocka_unit_test(without_the_right_it_is_denied),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
