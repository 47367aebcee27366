/* SPDX-License-Identifier: MIT */
/* What a process was started with: one that we start with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "target/internal.h"

/* cat(1), which waits for us; returned once it is no copy of ours any more. */
static pid_t begin(const char *const environment[], int *end)
{
	int lines[2], begun[2];
	char byte;
	assert_int_equal(pipe2(lines, O_CLOEXEC), 0);
	assert_int_equal(pipe2(begun, O_CLOEXEC), 0);
	const pid_t child = fork();
	if (child == 0) {
		dup2(lines[0], STDIN_FILENO);
		execle("/bin/cat", "cat", NULL, (char *const *)(uintptr_t)environment);
		_exit(1);
	}
	close(lines[0]);
	close(begun[1]);
	assert_int_equal(read(begun[0], &byte, 1), 0); /* closed by its exec */
	close(begun[0]);
	*end = lines[1];
	return child;
}

static struct target *opened(pid_t pid)
{
	struct target *target;
	struct error error;
	assert_true(target_open(pid, &target, &error));
	return target;
}

static void ranks_are_those_of_whoever_started_the_job(void **state)
{
	(void)state;
	static char many[20000];
	memset(many, 'x', sizeof(many) - 1);
	memcpy(many, "LONG=", 5);
	const struct {
		const char *environment[4];
		int rank; /* -1: none */
	} cases[] = {
		{{NULL}, -1},
		{{"RANK=3"}, 3},
		{{"RANK=0"}, 0},
		{{"RANK="}, -1},
		{{"RANK=-1"}, -1},
		{{"RANK= 1"}, -1},
		{{"RANK=3x"}, -1},
		{{"RANK=999999999"}, 999999999},
		{{"RANK=9999999999"}, -1},
		{{"LOCAL_RANK=1", "RANKS=4", "RAN=5"}, -1},
		{{"RANK", "A=b"}, -1},
		{{many, "RANK=7"}, 7},
		{{"SLURM_PROCID=0", "OMPI_COMM_WORLD_RANK=5"}, 5},
		{{"SLURM_PROCID=2", "RANK=11"}, 11},
		{{"PMI_RANK=4", "SLURM_PROCID=0"}, 4},
		{{"RANK=none", "SLURM_PROCID=6"}, 6},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int end;
		uint32_t rank = 77;
		const pid_t child = begin(cases[i].environment, &end);
		struct target *target = opened(child);
		assert_int_equal(target_job_rank(target, &rank), cases[i].rank >= 0);
		if (cases[i].rank >= 0)
			assert_int_equal(rank, cases[i].rank);
		target_free(target);
		close(end);
		waitpid(child, NULL, 0);
	}
}

static void values_fit_or_are_none(void **state)
{
	(void)state;
	const char *const environment[] = {"A=12345", "B==", "C=", NULL};
	char value[8];
	int end;
	const pid_t child = begin(environment, &end);
	struct target *target = opened(child);
	for (size_t size = 1; size < sizeof(value); size++) {
		const bool fits = size > 5;
		memset(value, '#', sizeof(value));
		assert_int_equal(target_environment(target, "A", value, size), fits);
		if (fits)
			assert_string_equal(value, "12345");
		assert_int_equal(value[size], '#');
	}
	assert_true(target_environment(target, "B", value, sizeof(value)));
	assert_string_equal(value, "=");
	assert_true(target_environment(target, "C", value, sizeof(value)));
	assert_string_equal(value, "");
	assert_false(target_environment(target, "D", value, sizeof(value)));
	close(end);
	waitpid(child, NULL, 0);
	assert_false(target_environment(target, "C", value, sizeof(value)));
	target_free(target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_are_those_of_whoever_started_the_job),
		cmocka_unit_test(values_fit_or_are_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
