/* SPDX-License-Identifier: MIT */
/* A process and its threads as /proc shows them: our own, forked ones, and what is no process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "target/internal.h"

static struct target *self;

static void our_memory_is_read_all_or_nothing(void **state)
{
	(void)state;
	struct error error = {0};
	char copy[8];
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(pages + 4096, 4096);
	memcpy(pages + 4088, "12345678", 8);
	assert_true(memory_read(target_memory(self), (uintptr_t)pages + 4088, copy, 8, &error));
	assert_memory_equal(copy, "12345678", 8);
	assert_false(memory_read(target_memory(self), (uintptr_t)pages + 4089, copy, 8, &error));
	assert_int_equal(error.kind, ERROR_GONE);
	assert_false(memory_read(target_memory(self), 0, copy, 8, &error));
	assert_false(memory_read(target_memory(self), UINT64_MAX - 3, copy, 8, &error));
	assert_true(memory_read(target_memory(self), 0, copy, 0, &error));
	munmap(pages, 4096);
}

static void ranges_are_read_up_to_the_first_hole(void **state)
{
	(void)state;
	char first[4] = "abc", second[4] = "def", out[64];
	const struct target_range good[] = {{(uintptr_t)first, 4}, {(uintptr_t)second, 4}};
	const struct target_range hole[] = {{(uintptr_t)first, 4}, {16, 4}, {(uintptr_t)second, 4}};
	uint64_t allocations = alloc_count();
	assert_int_equal(target_read_ranges(self, good, 2, out), 8);
	assert_memory_equal(out, "abc\0def", 8);
	assert_int_equal(target_read_ranges(self, hole, 3, out), 4);
	assert_int_equal(target_read_ranges(self, good, 1025, out), -1);
	assert_int_equal(alloc_count(), allocations);
}

static void what_is_no_process_is_gone(void **state)
{
	(void)state;
	struct target *target;
	struct error error;
	static const pid_t rows[] = {0, -1, 0x7fffffff};
	for (size_t i = 0; i < 3; i++) {
		error.kind = ERROR_NONE;
		assert_false(target_open(rows[i], &target, &error));
		assert_int_equal(error.kind, ERROR_GONE);
	}
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	siginfo_t info;
	waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
	assert_false(target_open(pid, &target, &error));
	assert_int_equal(error.kind, ERROR_GONE);
	waitpid(pid, NULL, 0);
}

static void a_process_is_alive_until_it_ends(void **state)
{
	(void)state;
	int gate[2];
	struct error error;
	struct target *target;
	uint64_t key;
	char byte;
	assert_int_equal(pipe(gate), 0);
	pid_t pid = fork();
	if (pid == 0) {
		close(gate[1]);
		(void)!read(gate[0], &byte, 1);
		_exit(0);
	}
	assert_true(target_open(pid, &target, &error));
	assert_true(target_alive(target));
	assert_true(target_image_key(target, &key, &error));
	close(gate[0]);
	close(gate[1]);
	siginfo_t info;
	waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
	assert_false(target_alive(target)); /* a zombie */
	waitpid(pid, NULL, 0);
	assert_false(target_alive(target));
	assert_int_equal(target_thread_count(target), 0);
	assert_false(target_image_key(target, &key, &error));
	struct target_thread *threads;
	size_t count;
	assert_false(target_threads(target, &threads, &count, &error));
	assert_int_equal(error.kind, ERROR_GONE);
	assert_false(memory_read_u64(target_memory(target), (uintptr_t)&key, &key, &error));
	assert_int_equal(error.kind, ERROR_GONE);
	target_free(target);
}

static void *wait_in_pipe(void *pipe_end)
{
	char byte;
	prctl(PR_SET_NAME, "a) \nR\xc3\xa4\xff");
	(void)!write(((int *)pipe_end)[3], "r", 1);
	(void)!read(((int *)pipe_end)[0], &byte, 1);
	return NULL;
}

/* Others may make threads all the while: only that a new one is noticed can be told for sure. */
static void a_new_thread_is_noticed(void **state)
{
	(void)state;
	struct target_births births = {0};
	assert_false(target_no_births(self, &births));
	for (int i = 0; i < 20; i++) {
		pid_t pid = fork();
		if (pid == 0)
			_exit(0);
		assert_false(target_no_births(self, &births));
		assert_false(target_no_births(self, &births));
		waitpid(pid, NULL, 0);
	}
	if (access("/proc/sys/kernel/ns_last_pid", R_OK) != 0)
		return;
	for (int i = 0; i < 100000; i++)
		if (target_no_births(self, &births))
			return;
	fail_msg("births are told all the time");
}

static bool blocks_in_read(const struct target_thread_files *files, struct target_wait *wait)
{
	struct error error;
	for (int i = 0; i < 10000; i++) {
		if (!target_thread_wait(files, wait, &error))
			fail_msg("%s", error.message);
		if (!wait->running && wait->number == SYS_read)
			return true;
		usleep(100);
	}
	return false;
}

static void a_blocked_thread_shows_its_call_and_its_name(void **state)
{
	(void)state;
	int pipes[4];
	pthread_t thread;
	char byte;
	struct error error = {0};
	struct target_thread *threads;
	size_t count;
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(pipe(pipes + 2), 0);
	pthread_create(&thread, NULL, wait_in_pipe, pipes);
	assert_int_equal(read(pipes[2], &byte, 1), 1);
	assert_int_equal(target_thread_count(self), 2);
	assert_true(target_threads(self, &threads, &count, &error));
	assert_int_equal(count, 2);
	assert_int_equal(threads[0].tid, getpid());
	assert_int_equal(threads[0].state, 'R');
	assert_string_equal(threads[1].name, "a)  R\xc3\xa4\xef\xbf\xbd");
	struct target_thread_files *files;
	struct target_wait wait;
	uint64_t runs, later;
	assert_true(target_thread_files_open(self, threads[1].tid, &files, &error));
	assert_true(blocks_in_read(files, &wait));
	assert_int_equal(wait.arguments[0], pipes[0]);
	assert_int_equal(wait.arguments[2], 1);
	const char *stack = (const char *)(uintptr_t)wait.sp;
	assert_true(stack && wait.pc);
	uint64_t allocations = alloc_count();
	assert_true(target_thread_runs(files, &runs, &error));
	assert_true(target_thread_wait(files, &wait, &error));
	assert_true(target_thread_runs(files, &later, &error));
	assert_int_equal(runs, later);
	assert_int_equal(target_thread_state(files), 'S');
	assert_int_equal(alloc_count(), allocations);
	(void)!write(pipes[1], "e", 1);
	pthread_join(thread, NULL);
	while (target_thread_wait(files, &wait, &error))
		;
	assert_int_equal(error.kind, ERROR_GONE);
	assert_int_equal(target_thread_state(files), 0);
	target_thread_files_close(files);
	assert_false(target_thread_files_open(self, threads[1].tid, &files, &error));
	assert_int_equal(error.kind, ERROR_GONE);
	free(threads);
	for (int i = 0; i < 4; i++)
		close(pipes[i]);
}

static void only_regular_files_inside_of_the_root_are_opened(void **state)
{
	(void)state;
	char directory[] = "/tmp/target_process_testXXXXXX", path[128];
	struct error error = {0};
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/fifo", directory);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(target_open_file(self, path, &error), -1);
	unlink(path);
	assert_int_equal(target_open_file(self, directory, &error), -1);
	assert_int_equal(target_open_file(self, "/dev/null", &error), -1);
	assert_int_equal(target_open_file(self, path, &error), -1);
	assert_int_equal(error.kind, ERROR_ABSENT);
	int fd = target_open_file(self, "/../../proc/../etc/passwd", &error);
	assert_true(fd >= 0);
	close(fd);
	rmdir(directory);
}

static void stat_is_counted_from_the_last_parenthesis(void **state)
{
	(void)state;
	struct proc_stat stat;
	static const char text[] = "42 (a) S 1 (b) Z 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 "
				   "21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40";
	assert_true(proc_parse_stat(text, &stat));
	assert_int_equal(stat.state, 'Z');
	assert_int_equal(stat.cpu_ticks, 14 + 15);
	assert_int_equal(stat.start_time, 22);
	assert_int_equal(stat.start_code, 26);
	assert_int_equal(stat.start_stack, 28);
	assert_false(proc_parse_stat("", &stat));
	assert_false(proc_parse_stat("42 (a)", &stat));
	assert_false(proc_parse_stat("42 (a) S 1 2", &stat));
}

static void system_calls_have_names(void **state)
{
	(void)state;
	assert_string_equal(target_syscall_name(SYS_read), "read");
	assert_string_equal(target_syscall_name(SYS_futex), "futex");
	assert_string_equal(target_syscall_name(SYS_epoll_wait), "epoll_wait");
	assert_string_equal(target_syscall_name(SYS_clock_nanosleep), "clock_nanosleep");
	assert_string_equal(target_syscall_name(SYS_openat2), "openat2");
	assert_null(target_syscall_name(-1));
	assert_null(target_syscall_name(400));
	assert_null(target_syscall_name(100000));
}

static int set_up(void **state)
{
	(void)state;
	return !target_open(getpid(), &self, NULL);
}

static int tear_down(void **state)
{
	(void)state;
	target_free(self);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(our_memory_is_read_all_or_nothing),
		cmocka_unit_test(ranges_are_read_up_to_the_first_hole),
		cmocka_unit_test(what_is_no_process_is_gone),
		cmocka_unit_test(a_process_is_alive_until_it_ends),
		cmocka_unit_test(a_new_thread_is_noticed),
		cmocka_unit_test(a_blocked_thread_shows_its_call_and_its_name),
		cmocka_unit_test(only_regular_files_inside_of_the_root_are_opened),
		cmocka_unit_test(stat_is_counted_from_the_last_parenthesis),
		cmocka_unit_test(system_calls_have_names),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
