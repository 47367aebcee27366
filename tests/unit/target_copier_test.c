/* SPDX-License-Identifier: MIT */
/* What the kernel copies of a thread for us, in an interrupt of its CPU and as it leaves that, and
 * when nothing. */
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

#include "target/switch_log.h"
#include "target/copier.h"
#include "target/target.h"

enum { ENOUGH = 200, TRIES = 20000, WORDS = 512, RED_ZONE = 128, LOOP_SIZE = 16 };
enum { LARGE = COPIER_BYTES };
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
	struct target *target;
	struct copier *copier;
	struct switch_log *log; /* COPIER_AT_SWITCH */
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
	__asm__ volatile(
		"movq %[known], %%r15\n"
		"leaq 1f(%%rip), %%rcx\n"
		"movq %%rcx, %c[loop](%[facts])\n"
		"xorl %%ecx, %%ecx\n"
		"1: incq %%rcx\n"
		"movq %%rcx, (%[facts])\n"
		"movq %%rcx, 8(%[facts])\n"
		"jmp 1b\n"
		:
		: [known] "r"(R15), [facts] "r"(facts), [loop] "i"(offsetof(struct facts, loop)),
		  "m"(words)
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

static void start(struct runner *runner, int cpu)
{
	runner->cpu = cpu;
	runner->facts = mmap(NULL, sizeof(*runner->facts), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(runner->facts != MAP_FAILED);
	runner->pid = fork();
	assert_true(runner->pid >= 0);
	if (runner->pid == 0)
		run(runner->facts);
	stay_on(runner->pid, cpu);
	while (!runner->facts->second)
		sched_yield();
	assert_true(target_open(runner->pid, &runner->target, NULL));
}

static void teardown(struct runner *runner)
{
	sched_setaffinity(0, sizeof(usual), &usual);
	kill(runner->pid, SIGKILL);
	waitpid(runner->pid, NULL, 0);
	munmap(runner->facts, sizeof(*runner->facts));
	switch_log_close(runner->log);
	copier_free(runner->copier);
	target_free(runner->target);
}

static void give_up(struct runner *runner, const struct error *error)
{
	teardown(runner);
	skip_because(error->message);
}

static void setup(struct runner *runner, enum copier_place place)
{
	struct error error;
	int cpus[2];
	if (!choose_cpus(cpus))
		skip_because("one CPU");
	memset(runner, 0, sizeof(*runner));
	start(runner, cpus[1]);
	stay_on(0, cpus[0]);
	if (!copier_new(place, &runner->copier, &error))
		give_up(runner, &error);
	if (place == COPIER_AT_SWITCH) {
		if (!switch_log_open(runner->target, runner->pid, &runner->log, &error))
			give_up(runner, &error);
		assert_true(switch_log_copy(runner->log, runner->copier, &error));
	}
}

static struct copier_request request(const struct runner *runner, const struct target_range *ranges,
				     size_t count)
{
	return (struct copier_request){.tid = runner->pid,
				       .stack_end = runner->facts->stack_end,
				       .red_zone = RED_ZONE,
				       .ranges = ranges,
				       .range_count = count};
}

static struct target_range range(const volatile void *start, size_t size)
{
	return (struct target_range){(remote_addr)(uintptr_t)start, size};
}

/* Something else may run on its CPU for a moment. */
static enum copier_result interrupt(struct runner *runner, struct copier_request request)
{
	uint64_t took_ns;
	enum copier_result result = COPIER_ANOTHER;
	for (int i = 0; i < TRIES && result == COPIER_ANOTHER; i++)
		result = copier_interrupt(runner->copier, &request, runner->cpu, &took_ns);
	return result;
}

static void read_range(const struct runner *runner, size_t number, void *to, size_t size)
{
	const struct copier_span span = copier_range(runner->copier, number);
	assert_int_equal(span.range.size, size);
	memcpy(to, span.bytes, size);
}

static void check_copy(const struct runner *runner)
{
	struct registers registers;
	copier_registers(runner->copier, &registers);
	assert_int_equal(registers.value[REGISTER_R15], R15);
	assert_int_equal(registers.known, (1u << REGISTER_COUNT) - 1);
	assert_in_range(registers.value[REGISTER_RIP], runner->facts->loop,
			runner->facts->loop + LOOP_SIZE);
	/* One moment: the second is what the first is, or what it was before; and RCX is the first,
	 * or what it becomes next. */
	uint64_t counts[2], words[WORDS], guard;
	assert_int_equal(copier_range_count(runner->copier), 2);
	read_range(runner, 0, counts, sizeof(counts));
	assert_true(counts[0] - counts[1] <= 1);
	assert_true(registers.value[REGISTER_RCX] - counts[0] <= 1);
	read_range(runner, 1, words, sizeof(words));
	for (size_t i = 0; i < WORDS; i++)
		assert_int_equal(words[i], i);
	const struct copier_span stack = copier_stack(runner->copier, &registers);
	assert_int_equal(stack.range.address, registers.value[REGISTER_RSP] - RED_ZONE);
	assert_int_equal(stack.range.address + stack.range.size, runner->facts->stack_end);
	memcpy(&guard, stack.bytes + stack.range.size - 8, 8);
	assert_int_equal(guard, GUARD);
	assert_true(copier_is_untouched(runner->copier));
	/* As long as the registers say that were read: these may be another thread's by now. */
	registers.value[REGISTER_RSP] += 8;
	assert_int_equal(copier_stack(runner->copier, &registers).range.size, stack.range.size - 8);
	registers.value[REGISTER_RSP] = stack.range.address - LARGE;
	assert_int_equal(copier_stack(runner->copier, &registers).range.size, 0);
}

/* ---- in an interrupt ---- */

static void a_running_thread_is_copied_at_one_moment(void **state)
{
	(void)state;
	struct runner runner;
	setup(&runner, COPIER_IN_INTERRUPT);
	const struct target_range ranges[] = {
		range(&runner.facts->first, 16),
		range(runner.facts->words, sizeof(runner.facts->words)),
	};
	uint64_t before = 0, different = 0;
	for (int i = 0; i < ENOUGH; i++) {
		uint64_t counts[2];
		assert_int_equal(interrupt(&runner, request(&runner, ranges, 2)), COPIER_COPIED);
		check_copy(&runner);
		read_range(&runner, 0, counts, sizeof(counts));
		different += counts[0] != before;
		before = counts[0];
	}
	assert_true(different > ENOUGH / 2); /* it runs on */
	teardown(&runner);
}

static void another_thread_is_not_copied(void **state)
{
	(void)state;
	struct runner runner;
	uint64_t took_ns;
	setup(&runner, COPIER_IN_INTERRUPT);
	struct copier_request ours = request(&runner, NULL, 0);
	const struct copier_request its = ours;
	/* We run on our CPU, not on that one; and it does not run on ours. */
	ours.tid = getpid();
	for (int i = 0; i < ENOUGH; i++)
		assert_int_equal(copier_interrupt(runner.copier, &ours, runner.cpu, &took_ns),
				 COPIER_ANOTHER);
	kill(runner.pid, SIGSTOP);
	waitpid(runner.pid, NULL, WUNTRACED);
	assert_int_equal(copier_interrupt(runner.copier, &its, runner.cpu, &took_ns),
			 COPIER_ANOTHER);
	assert_int_equal(copier_interrupt(runner.copier, &its, 1 << 20, &took_ns), COPIER_FAILED);
	teardown(&runner);
}

static void what_is_not_there_is_told(void **state)
{
	(void)state;
	struct runner runner;
	setup(&runner, COPIER_IN_INTERRUPT);
	const struct target_range nowhere = {8, 16}, kernel = {0xffffffff81000000, 16};
	struct target_range many[COPIER_RANGES + 1];
	for (size_t i = 0; i < COPIER_RANGES + 1; i++)
		many[i] = range(runner.facts->words + i, 8);
	const struct target_range large = range(runner.facts, LARGE);
	struct copier_request wrong = request(&runner, NULL, 0), below = wrong;
	wrong.stack_end += LARGE;
	below.stack_end = 4096;

	assert_int_equal(interrupt(&runner, request(&runner, &nowhere, 1)), COPIER_MISSING);
	assert_int_equal(interrupt(&runner, request(&runner, &kernel, 1)), COPIER_MISSING);
	assert_int_equal(interrupt(&runner, request(&runner, &large, 1)), COPIER_LARGE);
	assert_int_equal(interrupt(&runner, request(&runner, many, COPIER_RANGES + 1)),
			 COPIER_LARGE);
	assert_int_equal(interrupt(&runner, wrong), COPIER_LARGE);
	assert_int_equal(interrupt(&runner, below), COPIER_LARGE);
	assert_int_equal(interrupt(&runner, request(&runner, many, COPIER_RANGES)), COPIER_COPIED);
	for (size_t i = 0; i < COPIER_RANGES; i++) {
		uint64_t word;
		read_range(&runner, i, &word, sizeof(word));
		assert_int_equal(word, i);
	}
	teardown(&runner);
}

/* ---- at a switch ---- */

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static const uint64_t LONG = 60000000000; /* ns: longer than a test takes */

/* It leaves its CPU, and has its last switch in the log. */
static void halt(const struct runner *runner, struct thread_switch *last)
{
	kill(runner->pid, SIGSTOP);
	waitpid(runner->pid, NULL, WUNTRACED);
	while (!switch_log_last(runner->log, last) || last->on_cpu || last->runnable)
		sched_yield();
}

static bool is_copied(const struct runner *runner)
{
	return copier_outcome(runner->copier) == COPIER_COPIED;
}

static void go_on(const struct runner *runner)
{
	const uint64_t count = runner->facts->first;
	kill(runner->pid, SIGCONT);
	while (runner->facts->first == count)
		sched_yield();
}

static void a_thread_is_copied_as_it_leaves_its_cpu(void **state)
{
	(void)state;
	struct runner runner;
	struct thread_switch last;
	setup(&runner, COPIER_AT_SWITCH);
	const struct target_range ranges[] = {
		range(&runner.facts->first, 16),
		range(runner.facts->words, sizeof(runner.facts->words)),
	};
	const struct copier_request whole = request(&runner, ranges, 2);
	assert_false(is_copied(&runner));
	for (int i = 0; i < ENOUGH; i++) {
		const uint64_t before = now_ns();
		assert_true(copier_expect(runner.copier, &whole, before, before + LONG));
		halt(&runner, &last);
		assert_true(is_copied(&runner));
		assert_in_range(copier_began_ns(runner.copier), before, last.time_ns);
		check_copy(&runner);
		struct registers copied;
		copier_registers(runner.copier, &copied);
		assert_memory_equal(copied.value, last.registers.value, sizeof(copied.value));
		/* It is of that switch, not of an earlier one. */
		uint64_t counts[2];
		read_range(&runner, 0, counts, sizeof(counts));
		assert_int_equal(counts[0], runner.facts->first);
		go_on(&runner);
	}
	teardown(&runner);
}

static void the_last_switch_counts(void **state)
{
	(void)state;
	struct runner runner;
	struct thread_switch last;
	setup(&runner, COPIER_AT_SWITCH);
	const struct copier_request all = request(&runner, NULL, 0);
	/* It is over, or has not come. */
	assert_true(copier_expect(runner.copier, &all, 0, now_ns()));
	halt(&runner, &last);
	assert_false(is_copied(&runner));
	go_on(&runner);
	const uint64_t before = now_ns();
	assert_true(copier_expect(runner.copier, &all, before + LONG, before + 2 * LONG));
	halt(&runner, &last);
	assert_false(is_copied(&runner));
	assert_in_range(copier_began_ns(runner.copier), before, last.time_ns);
	go_on(&runner);
	/* A copy is that until there is another switch, in its time or not. */
	const uint64_t until = now_ns() + LONG / 60;
	assert_true(copier_expect(runner.copier, &all, 0, until));
	halt(&runner, &last);
	assert_true(is_copied(&runner));
	go_on(&runner);
	while (now_ns() < until)
		sched_yield();
	halt(&runner, &last);
	assert_false(is_copied(&runner));
	go_on(&runner);
	/* What is there is not what is expected now. */
	assert_true(copier_expect(runner.copier, &all, 0, now_ns() + LONG));
	halt(&runner, &last);
	assert_true(is_copied(&runner));
	assert_true(copier_expect(runner.copier, &all, 0, now_ns() + LONG));
	assert_false(is_copied(&runner));
	teardown(&runner);
}

static void what_cannot_be_copied_at_a_switch_is_not(void **state)
{
	(void)state;
	struct runner runner;
	struct thread_switch last;
	setup(&runner, COPIER_AT_SWITCH);
	const struct target_range nowhere = {8, 16}, large = range(runner.facts, LARGE);
	const struct copier_request all = request(&runner, NULL, 0),
				    missing = request(&runner, &nowhere, 1),
				    much = request(&runner, &large, 1);
	struct copier_request another = all;
	another.tid = getpid();
	assert_true(copier_expect(runner.copier, &missing, 0, now_ns() + LONG));
	halt(&runner, &last);
	assert_int_equal(copier_outcome(runner.copier), COPIER_MISSING);
	go_on(&runner);
	assert_true(copier_expect(runner.copier, &another, 0, now_ns() + LONG));
	halt(&runner, &last);
	assert_int_equal(copier_outcome(runner.copier), COPIER_ANOTHER);
	go_on(&runner);
	/* And nothing that was expected before. */
	assert_true(copier_expect(runner.copier, &all, 0, now_ns() + LONG));
	assert_false(copier_expect(runner.copier, &much, 0, now_ns() + LONG));
	halt(&runner, &last);
	assert_false(is_copied(&runner));
	teardown(&runner);
}

/* One after the other, each with what was asked of it. */
static void one_copier_serves_several_threads(void **state)
{
	(void)state;
	struct runner runner, other;
	struct thread_switch last, other_last;
	struct error error;
	setup(&runner, COPIER_AT_SWITCH);
	memset(&other, 0, sizeof(other));
	start(&other, runner.cpu);
	assert_true(switch_log_open(other.target, other.pid, &other.log, &error));
	assert_true(switch_log_copy(other.log, runner.copier, &error));
	other.copier = runner.copier;
	for (int i = 0; i < ENOUGH; i++) {
		struct runner *one = i % 2 ? &other : &runner;
		const struct target_range ranges[] = {
			range(&one->facts->first, 16),
			range(one->facts->words, sizeof(one->facts->words)),
		};
		const struct copier_request whole = request(one, ranges, 2);
		assert_true(copier_expect(one->copier, &whole, now_ns(), now_ns() + LONG));
		halt(&runner, &last);
		halt(&other, &other_last);
		assert_true(is_copied(one));
		check_copy(one);
		struct registers copied;
		copier_registers(one->copier, &copied);
		assert_memory_equal(copied.value, (i % 2 ? &other_last : &last)->registers.value,
				    sizeof(copied.value));
		go_on(&runner);
		go_on(&other);
	}
	other.copier = NULL;
	teardown(&other);
	teardown(&runner);
}

/* The exit status of a program, by unshare(1) in a namespace of its own; says nothing. */
static int status_in_a_namespace(const char *program)
{
	int status;
	const pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		setenv(INNER, "1", 1);
		const int nowhere = open("/dev/null", O_WRONLY); /* what passes counts once */
		dup2(nowhere, STDOUT_FILENO);
		dup2(nowhere, STDERR_FILENO);
		execlp("unshare", "unshare", "--pid", "--fork", "--mount-proc", program,
		       (char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Everything again, where our process numbers are not the kernel's own. */
static void in_a_namespace_of_its_own_it_is_the_same(void **state)
{
	(void)state;
	char path[PATH_MAX] = "";
	if (getenv(INNER))
		return;
	if (geteuid() != 0)
		skip_because("needs root, for a namespace of its own");
	if (status_in_a_namespace("true") != 0)
		skip_because("unshare(1) is refused a namespace of its own, with its own /proc");
	assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
	assert_int_equal(status_in_a_namespace(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_running_thread_is_copied_at_one_moment),
		cmocka_unit_test(another_thread_is_not_copied),
		cmocka_unit_test(what_is_not_there_is_told),
		cmocka_unit_test(a_thread_is_copied_as_it_leaves_its_cpu),
		cmocka_unit_test(the_last_switch_counts),
		cmocka_unit_test(what_cannot_be_copied_at_a_switch_is_not),
		cmocka_unit_test(one_copier_serves_several_threads),
		cmocka_unit_test(in_a_namespace_of_its_own_it_is_the_same),
	};
	if (sched_getaffinity(0, sizeof(usual), &usual))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
