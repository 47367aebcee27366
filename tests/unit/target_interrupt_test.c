/* SPDX-License-Identifier: MIT */
/* What is copied in an interrupt of the CPU on which a thread runs, and when nothing is. */
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "target/target.h"

enum { ENOUGH = 200, TRIES = 20000, WORDS = 512, RED_ZONE = 128, LOOP_SIZE = 16 };
enum { LARGE = INTERRUPT_BYTES };
static const char INNER[] = "PDUMP_TEST_IN_A_NAMESPACE";
static const uint64_t R15 = 0x1234567887654321, GUARD = 0xfeedbeeffeedbeef;

/* What the thread writes, and where its stack is: shared with it. */
struct facts {
	volatile uint64_t first, second; /* counted up, one after the other */
	volatile uint64_t stack_end;
	volatile uint64_t loop; /* where it runs */
	uint64_t words[WORDS];
};

struct runner {
	pid_t pid;
	int cpu; /* that it stays on */
	struct facts *facts;
	struct interrupter *interrupter;
};

static void stay_on(pid_t pid, int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	assert_int_equal(sched_setaffinity(pid, sizeof(set), &set), 0);
}

/* Runs for ever, with a known word in a register, on top of its stack and in `facts`. */
static void run(struct facts *facts)
{
	uint64_t words[4] = {GUARD, GUARD, GUARD, GUARD};
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (size_t i = 0; i < WORDS; i++)
		facts->words[i] = i; /* so that they are in its memory */
	facts->stack_end = (uint64_t)(uintptr_t)(words + 4);
	__asm__ volatile("movq %[known], %%r15\n"
			 "leaq 1f(%%rip), %%rcx\n"
			 "movq %%rcx, %c[loop](%[facts])\n"
			 "xorl %%ecx, %%ecx\n"
			 "1: incq %%rcx\n"
			 "movq %%rcx, (%[facts])\n"
			 "movq %%rcx, 8(%[facts])\n"
			 "jmp 1b\n"
			 :
			 : [known] "r"(R15), [facts] "r"(facts),
			   [loop] "i"(offsetof(struct facts, loop)), "m"(words)
			 : "rcx", "r15", "memory");
	abort();
}

static cpu_set_t usual; /* the CPUs that we may run on, before the tests */

/* Two CPUs that we may run on: ours, and the thread's. */
static bool choose_cpus(int cpus[2])
{
	int count = 0;
	for (int cpu = 0; cpu < CPU_SETSIZE && count < 2; cpu++)
		if (CPU_ISSET((size_t)cpu, &usual))
			cpus[count++] = cpu;
	return count == 2;
}

static void skip_because(const char *reason)
{
	printf("skipped: %s\n", reason);
	skip();
}

static void setup(struct runner *runner)
{
	struct error error;
	int cpus[2];
	if (!choose_cpus(cpus))
		skip_because("one CPU");
	if (!interrupter_new(&runner->interrupter, &error))
		skip_because(error.message);
	runner->cpu = cpus[1];
	runner->facts = mmap(NULL, sizeof(*runner->facts), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(runner->facts != MAP_FAILED);
	runner->pid = fork();
	assert_true(runner->pid >= 0);
	if (runner->pid == 0)
		run(runner->facts);
	stay_on(runner->pid, cpus[1]);
	stay_on(0, cpus[0]);
	while (!runner->facts->second)
		sched_yield();
}

static void teardown(struct runner *runner)
{
	sched_setaffinity(0, sizeof(usual), &usual);
	kill(runner->pid, SIGKILL);
	waitpid(runner->pid, NULL, 0);
	munmap(runner->facts, sizeof(*runner->facts));
	interrupter_free(runner->interrupter);
}

static struct interrupt_stack stack_of(const struct runner *runner)
{
	return (struct interrupt_stack){runner->facts->stack_end, RED_ZONE};
}

static struct target_range range(const volatile void *start, size_t size)
{
	return (struct target_range){(remote_addr)(uintptr_t)start, size};
}

/* Something else may run on its CPU for a moment. */
static enum interrupt_result copy(struct runner *runner, pid_t tid, struct interrupt_stack stack,
				  const struct target_range *ranges, size_t count)
{
	uint64_t took_ns;
	enum interrupt_result result = INTERRUPT_ANOTHER;
	for (int i = 0; i < TRIES && result == INTERRUPT_ANOTHER; i++)
		result = interrupter_copy(runner->interrupter, tid, runner->cpu, &stack, ranges,
					  count, &took_ns);
	return result;
}

static void check_copy(struct runner *runner)
{
	const struct interrupter *interrupter = runner->interrupter;
	struct registers registers;
	interrupter_registers(interrupter, &registers);
	assert_int_equal(registers.value[REGISTER_R15], R15);
	assert_int_equal(registers.known, (1u << REGISTER_COUNT) - 1);
	assert_in_range(registers.value[REGISTER_RIP], runner->facts->loop,
			runner->facts->loop + LOOP_SIZE);
	/* One moment: the second is what the first is, or what it was before; and RCX is the first,
	 * or what it becomes next. */
	uint64_t counts[2], words[WORDS], guard;
	memcpy(counts, interrupter_range(interrupter, 0), sizeof(counts));
	assert_true(counts[0] - counts[1] <= 1);
	assert_true(registers.value[REGISTER_RCX] - counts[0] <= 1);
	memcpy(words, interrupter_range(interrupter, 1), sizeof(words));
	for (size_t i = 0; i < WORDS; i++)
		assert_int_equal(words[i], i);
	const uint64_t bottom = registers.value[REGISTER_RSP] - RED_ZONE;
	memcpy(&guard,
	       interrupter_stack(interrupter) + (runner->facts->stack_end - 8 - bottom), 8);
	assert_int_equal(guard, GUARD);
}

static void a_running_thread_is_copied_at_one_moment(void **state)
{
	(void)state;
	struct runner runner;
	setup(&runner);
	const struct target_range ranges[] = {
		range(&runner.facts->first, 16),
		range(runner.facts->words, sizeof(runner.facts->words)),
	};
	uint64_t before = 0, different = 0;
	for (int i = 0; i < ENOUGH; i++) {
		uint64_t count;
		assert_int_equal(copy(&runner, runner.pid, stack_of(&runner), ranges, 2),
				 INTERRUPT_COPIED);
		check_copy(&runner);
		memcpy(&count, interrupter_range(runner.interrupter, 0), sizeof(count));
		different += count != before;
		before = count;
	}
	assert_true(different > ENOUGH / 2); /* it runs on */
	teardown(&runner);
}

static void another_thread_is_not_copied(void **state)
{
	(void)state;
	struct runner runner;
	struct interrupt_stack stack;
	uint64_t took_ns;
	setup(&runner);
	stack = stack_of(&runner);
	/* We run on our CPU, not on that one; and it does not run on ours. */
	for (int i = 0; i < ENOUGH; i++)
		assert_int_equal(interrupter_copy(runner.interrupter, getpid(), runner.cpu, &stack,
						  NULL, 0, &took_ns),
				 INTERRUPT_ANOTHER);
	kill(runner.pid, SIGSTOP);
	waitpid(runner.pid, NULL, WUNTRACED);
	assert_int_equal(interrupter_copy(runner.interrupter, runner.pid, runner.cpu, &stack, NULL,
					  0, &took_ns),
			 INTERRUPT_ANOTHER);
	assert_int_equal(interrupter_copy(runner.interrupter, runner.pid, 1 << 20, &stack, NULL, 0,
					  &took_ns),
			 INTERRUPT_FAILED);
	teardown(&runner);
}

static void what_is_not_there_is_told(void **state)
{
	(void)state;
	struct runner runner;
	setup(&runner);
	const struct interrupt_stack right = stack_of(&runner);
	const struct target_range nowhere = {8, 16}, kernel = {0xffffffff81000000, 16};
	struct target_range many[INTERRUPT_RANGES + 1];
	for (size_t i = 0; i < INTERRUPT_RANGES + 1; i++)
		many[i] = range(runner.facts->words + i, 8);
	const struct target_range large = range(runner.facts, LARGE);
	struct interrupt_stack wrong = {right.end + LARGE, RED_ZONE}, below = {4096, RED_ZONE};

	assert_int_equal(copy(&runner, runner.pid, right, &nowhere, 1), INTERRUPT_MISSING);
	assert_int_equal(copy(&runner, runner.pid, right, &kernel, 1), INTERRUPT_MISSING);
	assert_int_equal(copy(&runner, runner.pid, right, &large, 1), INTERRUPT_LARGE);
	assert_int_equal(copy(&runner, runner.pid, right, many, INTERRUPT_RANGES + 1),
			 INTERRUPT_LARGE);
	assert_int_equal(copy(&runner, runner.pid, wrong, NULL, 0), INTERRUPT_LARGE);
	assert_int_equal(copy(&runner, runner.pid, below, NULL, 0), INTERRUPT_LARGE);
	assert_int_equal(copy(&runner, runner.pid, right, many, INTERRUPT_RANGES),
			 INTERRUPT_COPIED);
	for (size_t i = 0; i < INTERRUPT_RANGES; i++) {
		uint64_t word;
		memcpy(&word, interrupter_range(runner.interrupter, i), sizeof(word));
		assert_int_equal(word, i);
	}
	teardown(&runner);
}

/* Everything again, where our process numbers are not the kernel's own. */
static void in_a_namespace_of_its_own_it_is_the_same(void **state)
{
	(void)state;
	char path[PATH_MAX] = "";
	int status;
	if (getenv(INNER))
		return;
	if (geteuid() != 0)
		skip_because("needs root, for a namespace of its own");
	assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
	const pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		setenv(INNER, "1", 1);
		const int nowhere = open("/dev/null", O_WRONLY); /* what passes counts once */
		dup2(nowhere, STDOUT_FILENO);
		dup2(nowhere, STDERR_FILENO);
		execlp("unshare", "unshare", "--pid", "--fork", path, (char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_running_thread_is_copied_at_one_moment),
		cmocka_unit_test(another_thread_is_not_copied),
		cmocka_unit_test(what_is_not_there_is_told),
		cmocka_unit_test(in_a_namespace_of_its_own_it_is_the_same),
	};
	if (sched_getaffinity(0, sizeof(usual), &usual))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
