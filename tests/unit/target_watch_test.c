/* SPDX-License-Identifier: MIT */
/* A process is watched without being traced: its end, its exec, and being woken. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "target/target.h"
#include "target/tracer.h"
#include "target/watch.h"

static const uint64_t DEADLINE_NS = 30000000000;

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A child that goes on each time it is told to. */
struct child {
	pid_t pid;
	int tell, hear;
	struct target *target;
	struct watcher *watcher;
};

static void start(struct child *child, const char *script)
{
	int orders[2], answers[2];
	struct error error;
	char byte;
	assert_int_equal(pipe(orders), 0);
	assert_int_equal(pipe(answers), 0);
	child->pid = fork();
	if (child->pid == 0) {
		dup2(orders[0], 0);
		dup2(answers[1], 1);
		close(orders[1]);
		close(answers[0]);
		personality(ADDR_NO_RANDOMIZE);
		if (script)
			execl("/bin/sh", "sh", "-c", script, script, (char *)NULL);
		(void)!write(1, "r", 1);
		(void)!read(0, &byte, 1);
		_exit(7);
	}
	close(orders[0]);
	close(answers[1]);
	child->tell = orders[1];
	child->hear = answers[0];
	assert_int_equal(read(child->hear, &byte, 1), 1);
	assert_true(target_open(child->pid, &child->target, &error));
	child->watcher = watcher_new(child->target);
}

static void tell(const struct child *child)
{
	assert_int_equal(write(child->tell, "\n", 1), 1);
}

static void release(struct child *child)
{
	watcher_free(child->watcher);
	target_free(child->target);
	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, 0);
	close(child->tell);
	close(child->hear);
}

static void the_end_is_heard_and_left_to_the_parent(void **state)
{
	(void)state;
	struct child child;
	int status;
	start(&child, NULL);
	assert_int_equal(watcher_poll(child.watcher), TRACER_NOTHING);
	assert_false(watcher_sleep(child.watcher, now_ns() + 1000000));
	tell(&child);
	assert_true(watcher_sleep(child.watcher, now_ns() + DEADLINE_NS));
	assert_int_equal(watcher_poll(child.watcher), TRACER_PROCESS_ENDED);
	assert_int_equal(watcher_poll(child.watcher), TRACER_PROCESS_ENDED);
	assert_true(watcher_sleep(child.watcher, now_ns() + DEADLINE_NS));
	assert_int_equal(waitpid(child.pid, &status, 0), child.pid);
	assert_int_equal(WEXITSTATUS(status), 7);
	assert_int_equal(watcher_poll(child.watcher), TRACER_PROCESS_ENDED);
	release(&child);
}

static enum tracer_event await_event(struct watcher *watcher)
{
	uint64_t end = now_ns() + DEADLINE_NS;
	enum tracer_event event = TRACER_NOTHING;
	while (event == TRACER_NOTHING && now_ns() < end) {
		watcher_sleep(watcher, now_ns() + 1000000);
		event = watcher_poll(watcher);
	}
	return event;
}

/* The same program with the same arguments at the same addresses: told by its random bytes alone.
 */
static void an_exec_is_seen_even_of_the_same_program(void **state)
{
	(void)state;
	struct child child;
	char byte;
	start(&child, "printf r; read line; exec sh -c \"$0\" \"$0\"");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(watcher_poll(child.watcher), TRACER_NOTHING);
		tell(&child);
		assert_int_equal(await_event(child.watcher), TRACER_EXEC);
		assert_int_equal(read(child.hear, &byte, 1), 1);
		/* Half way through the exec its stack was another one again. */
		while (watcher_poll(child.watcher) == TRACER_EXEC)
			continue;
	}
	release(&child);
}

static void *wake(void *watcher)
{
	watcher_wake(watcher);
	return NULL;
}

static void another_thread_wakes_it(void **state)
{
	(void)state;
	struct child child;
	pthread_t thread;
	start(&child, NULL);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(pthread_create(&thread, NULL, wake, child.watcher), 0);
		assert_true(watcher_sleep(child.watcher, now_ns() + DEADLINE_NS));
		pthread_join(thread, NULL);
	}
	assert_int_equal(watcher_poll(child.watcher), TRACER_NOTHING);
	/* A wake before the sleep is not lost. */
	watcher_wake(child.watcher);
	watcher_wake(child.watcher);
	assert_true(watcher_sleep(child.watcher, now_ns() + DEADLINE_NS));
	assert_false(watcher_sleep(child.watcher, now_ns()));
	release(&child);
	watcher_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_end_is_heard_and_left_to_the_parent),
		cmocka_unit_test(an_exec_is_seen_even_of_the_same_program),
		cmocka_unit_test(another_thread_wakes_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
