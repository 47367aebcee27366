/* SPDX-License-Identifier: MIT */
/* Places of processes that come and go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "record/process_set.h"

static const struct session_options options = {.rate = 100};

static pid_t start(void)
{
	pid_t pid = fork();
	if (pid == 0)
		for (;;)
			pause();
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static struct process *add(struct process_set *set, struct copy_means *means, pid_t pid)
{
	const struct process_making making = {&options, means};
	struct process *process;
	struct error error;
	assert_true(process_set_add(set, pid, &making, &process, &error));
	assert_ptr_equal(process_set_find(set, pid), process);
	return process;
}

static void a_place_is_used_again_once_nothing_is_left_in_it(void **state)
{
	(void)state;
	struct process_set set;
	struct copy_means means = {0};
	struct error error;
	const pid_t first = start(), second = start(), third = start();
	process_set_init(&set);
	struct process *process = add(&set, &means, first);
	assert_true(threads_refresh(&process->threads, process->target, &options, &error));
	const uint64_t epoch = atomic_load(&process->news.epoch);
	const struct target *target = process->target;
	/* A sample of it is on its way. */
	atomic_store(&process->threads.threads[0]->in_use, 1);
	struct watched_thread *watched = process->threads.threads[0];
	assert_ptr_equal(watched->process, process);
	process_set_end(&set, process);
	assert_null(process_set_find(&set, first));
	process_set_settle(&set);
	assert_ptr_not_equal(add(&set, &means, second), process);
	atomic_store(&watched->in_use, 0);
	process_set_settle(&set);
	assert_int_equal(set.live, 1);
	assert_int_equal(set.ended, 0);
	/* The worker looks into it. */
	pthread_mutex_lock(&process->opening);
	assert_int_equal(process_set_count(&set), 2);
	assert_ptr_not_equal(add(&set, &means, third), process);
	pthread_mutex_unlock(&process->opening);
	assert_ptr_equal(add(&set, &means, getpid()), process);
	assert_int_equal(process_set_count(&set), 3);
	/* Who has a pointer to its target has the new one's; all else begins anew, as after an
	 * exec. */
	assert_ptr_equal(process->target, target);
	assert_int_equal(target_pid(target), getpid());
	assert_int_equal(atomic_load(&process->news.epoch), epoch + 1);
	assert_int_equal(process->threads.count, 0);
	assert_int_equal(process->found.root, PROFILE_NONE);
	process_set_release(&set);
	end(first);
	end(second);
	end(third);
}

static void what_was_given_keeps_its_place(void **state)
{
	(void)state;
	struct process_set set;
	struct copy_means means = {0};
	const pid_t first = start(), second = start();
	process_set_init(&set);
	struct process *process = add(&set, &means, first);
	process->given = true;
	process_set_end(&set, process);
	process_set_settle(&set);
	assert_ptr_not_equal(add(&set, &means, second), process);
	assert_int_equal(target_pid(process->target), first);
	process_set_release(&set);
	end(first);
	end(second);
}

static void one_that_is_gone_leaves_no_place(void **state)
{
	(void)state;
	struct process_set set;
	struct copy_means means = {0};
	const struct process_making making = {&options, &means};
	struct process *process;
	struct error error;
	const pid_t pid = start();
	process_set_init(&set);
	process_set_end(&set, add(&set, &means, pid));
	process_set_settle(&set);
	end(pid);
	assert_false(process_set_add(&set, pid, &making, &process, &error));
	assert_int_equal(error.kind, ERROR_GONE);
	assert_int_equal(set.live, 0);
	/* The free place is as it was. */
	add(&set, &means, getpid());
	assert_int_equal(process_set_count(&set), 1);
	process_set_release(&set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_place_is_used_again_once_nothing_is_left_in_it),
		cmocka_unit_test(what_was_given_keeps_its_place),
		cmocka_unit_test(one_that_is_gone_leaves_no_place),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
