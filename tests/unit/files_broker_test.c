/* SPDX-License-Identifier: MIT */
/* Answers come to the thread that has asked, whatever others ask or leave unheard. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "files/broker.h"
#include "base/guard.h"

enum { THREADS = 8, QUESTIONS = 300, SLOW = 1u << 31, FAILS = 1u << 30 };

static int nothing;

/* A pipe's end that holds the number that was asked for, once more where a descriptor came along.
 * Of some there is none. */
static int give_number(void *context, const struct broker_request *request, int fd,
		       struct broker_reply *reply)
{
	int ends[2];
	uint32_t number;
	(void)context;
	if (!request)
		return -1;
	number = request->handle;
	if (number & SLOW)
		usleep(300000);
	reply->os_errno = number & FAILS ? EXDEV : 0;
	reply->handle = number;
	if (number & FAILS || pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	(void)!write(ends[1], &number, sizeof(number));
	if (fd >= 0)
		(void)!write(ends[1], &number, sizeof(number));
	close(ends[1]);
	return ends[0];
}

static int set_up(void **state)
{
	(void)state;
	nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_true(nothing >= 0 && !broker_is_used());
	assert_true(broker_start(give_number, NULL, NULL));
	return 0;
}

/* True when the answer is the one to the question. */
static bool is_answered(uint32_t number, int fd)
{
	const struct broker_request request = {.op = BROKER_FIND, .handle = number};
	struct broker_reply reply;
	uint32_t told[3];
	const int got = broker_ask(&request, fd, &reply);
	if (number & FAILS)
		return got == -1 && errno == EXDEV && reply.handle == number;
	if (got <= 0 || reply.handle != number)
		return false;
	const ssize_t size = read(got, told, sizeof(told));
	close(got);
	return size == (fd >= 0 ? 2 : 1) * (ssize_t)sizeof(number) && told[0] == number;
}

static void *ask_much(void *argument)
{
	const uint32_t first = *(const uint32_t *)argument;
	for (uint32_t i = 0; i < QUESTIONS; i++) {
		const uint32_t number = first + i;
		if (!is_answered(i % 5 == 4 ? number | FAILS : number, i % 3 == 0 ? nothing : -1))
			return argument;
	}
	return NULL;
}

static void each_thread_hears_its_own_answers(void **state)
{
	pthread_t threads[THREADS];
	uint32_t first[THREADS];
	(void)state;
	for (uint32_t i = 0; i < THREADS; i++) {
		first[i] = (i + 1) * 1000;
		assert_int_equal(pthread_create(&threads[i], NULL, ask_much, &first[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		void *failed;
		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
}

/* One that was forked since has what was ours. */
static void each_process_hears_its_own_answers(void **state)
{
	uint32_t first[] = {50000, 60000, 70000};
	pid_t children[2];
	int status;
	(void)state;
	for (int i = 0; i < 2; i++) {
		children[i] = fork();
		if (children[i] == 0)
			_exit(ask_much(&first[i]) ? 1 : 0);
	}
	assert_null(ask_much(&first[2]));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_int_equal(status, 0);
	}
}

static void ask_in_vain(void *context)
{
	const struct broker_request request = {.op = BROKER_FIND, .handle = SLOW | 7};
	struct broker_reply reply;
	guard_begin_wait();
	*(int *)context = broker_ask(&request, -1, &reply);
	guard_end_wait();
}

/* The answer to one that was killed comes all the same, and nobody else takes it for his. */
static void the_answer_to_one_that_was_killed_is_nobodys(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		int got = -2;
		bool lost;
		assert_int_equal(guard_once(50000000, 1000000000, ask_in_vain, &got, &lost),
				 GUARD_STUCK);
		assert_int_equal(got, -2);
		for (uint32_t number = 1; number < 20; number++)
			assert_true(is_answered(number, -1));
	}
}

/* Last: nobody answers then. */
static void without_a_broker_all_fail(void **state)
{
	const struct broker_request request = {.op = BROKER_FIND, .handle = 1};
	struct broker_reply reply;
	(void)state;
	assert_int_equal(kill(broker_process(), SIGKILL), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(broker_ask(&request, -1, &reply), -1);
		assert_int_equal(errno, EIO);
		assert_int_equal(reply.os_errno, EIO);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_thread_hears_its_own_answers),
		cmocka_unit_test(each_process_hears_its_own_answers),
		cmocka_unit_test(the_answer_to_one_that_was_killed_is_nobodys),
		cmocka_unit_test(without_a_broker_all_fail),
	};
	return cmocka_run_group_tests(tests, set_up, NULL);
}
