/* SPDX-License-Identifier: MIT */
/* More threads than descriptors: every one of them can be looked at all the same. */
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "target/target.h"

enum { THREADS = 100, DESCRIPTORS = 64 };

static int quiet[2];

static void *wait_in_read(void *argument)
{
	char byte;
	return read(quiet[0], &byte, 1) == 1 ? argument : NULL;
}

static unsigned count_open(void)
{
	unsigned count = 0;
	DIR *directory = opendir("/proc/self/fd");
	while (directory && readdir(directory))
		count++;
	if (directory)
		closedir(directory);
	return count;
}

/* In the child: what is wrong is its exit status. */
static int look_at_all(pid_t parent)
{
	const struct rlimit few = {DESCRIPTORS, DESCRIPTORS};
	struct target *target;
	struct target_thread_files *files[THREADS + 1] = {NULL};
	pid_t *tids;
	size_t count;
	if (setrlimit(RLIMIT_NOFILE, &few) < 0 || !target_open(parent, &target, NULL))
		return 1;
	if (!target_thread_list(target, &tids, &count, NULL) || count != THREADS + 1)
		return 2;
	unsigned before = count_open();
	for (size_t i = 0; i < count; i++)
		if (!target_thread_files_open(target, tids[i], &files[i], NULL))
			return 3;
	if (count_open() - before > DESCRIPTORS / 2)
		return 4;
	for (size_t i = 0; i < count; i++) {
		struct target_wait wait;
		struct target_thread thread;
		uint64_t runs;
		if (!target_thread_wait(files[i], &wait, NULL) ||
		    !target_thread_runs(files[i], &runs, NULL) || !target_thread_state(files[i]) ||
		    !target_thread_read(target, tids[i], &thread, NULL) || thread.tid != tids[i])
			return 5;
	}
	if (count_open() - before > DESCRIPTORS / 2)
		return 6;
	for (size_t i = 0; i < count; i++)
		target_thread_files_close(files[i]);
	if (count_open() != before)
		return 7;
	free(tids);
	target_free(target);
	return 0;
}

static void threads_beyond_the_descriptors_can_be_looked_at(void **state)
{
	pthread_t threads[THREADS];
	(void)state;
	assert_int_equal(pipe(quiet), 0);
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, wait_in_read, NULL), 0);
	pid_t self = getpid(), child = fork();
	if (child == 0)
		_exit(look_at_all(self));
	int status = -1;
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close(quiet[1]);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	close(quiet[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_beyond_the_descriptors_can_be_looked_at),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
