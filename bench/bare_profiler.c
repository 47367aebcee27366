/* SPDX-License-Identifier: MIT */
/*
 * The least that a profiler can do which stops a thread by ptrace and copies its stack, and nothing
 * else: no look whether the thread runs, no Python, no decoding, no naming, no output. What it
 *costs is what this machine asks for any such profiler.
 *
 *	bare_profiler PID RATE BYTES
 *
 * Until SIGINT; then prints "SAMPLES P50_US P99_US", the pauses from before the stop to before the
 * resume.
 */
#include <elf.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

enum { SPIN_NS = 60000, MAX_PAUSES = 1 << 22, MAX_BYTES = 1 << 20 };

static volatile sig_atomic_t ended;
static uint32_t pauses[MAX_PAUSES];
static size_t pause_count;
static char bytes[MAX_BYTES];

static void end(int number)
{
	(void)number;
	ended = 1;
}

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int wait_for_stop(pid_t pid)
{
	int status;
	const uint64_t start = now_ns();
	while (now_ns() - start < SPIN_NS)
		if (waitpid(pid, &status, __WALL | WNOHANG) != 0)
			return WIFSTOPPED(status);
	return waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status);
}

static int sample(pid_t pid, size_t size)
{
	struct user_regs_struct registers;
	struct iovec into = {&registers, sizeof(registers)};
	const uint64_t start = now_ns();
	if (ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) != 0 || !wait_for_stop(pid))
		return 0;
	ptrace(PTRACE_GETREGSET, pid, (void *)NT_PRSTATUS, &into);
	struct iovec local = {bytes, size}, remote = {(void *)registers.rsp, size};
	process_vm_readv(pid, &local, 1, &remote, 1, 0);
	const uint64_t pause = now_ns() - start;
	if (pause_count < MAX_PAUSES)
		pauses[pause_count++] = (uint32_t)pause;
	return ptrace(PTRACE_CONT, pid, NULL, NULL) == 0;
}

static int by_length(const void *left, const void *right)
{
	const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	return (a > b) - (a < b);
}

static void sleep_until(uint64_t deadline)
{
	const struct timespec at = {(time_t)(deadline / 1000000000u),
				    (long)(deadline % 1000000000u)};
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	const pid_t pid = atoi(argv[1]);
	const uint64_t period = (uint64_t)(1e9 / atof(argv[2]));
	size_t size = (size_t)atol(argv[3]);
	size = size < MAX_BYTES ? size : MAX_BYTES;
	/* Without SA_RESTART: a sleep ends, too. */
	sigaction(SIGINT, &(struct sigaction){.sa_handler = end}, NULL);
	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) != 0) {
		perror("ptrace");
		return 1;
	}
	const uint64_t start = now_ns();
	for (uint64_t tick = 1; !ended; tick++) {
		const uint64_t passed = (now_ns() - start) / period;
		tick = passed > tick ? passed : tick;
		sleep_until(start + tick * period);
		if (!ended && !sample(pid, size))
			break;
	}
	qsort(pauses, pause_count, sizeof(*pauses), by_length);
	if (pause_count > 0)
		printf("%zu %.1f %.1f\n", pause_count, pauses[pause_count / 2] / 1e3,
		       pauses[pause_count * 99 / 100] / 1e3);
	return 0;
}
