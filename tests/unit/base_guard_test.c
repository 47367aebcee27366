/* SPDX-License-Identifier: MIT */
/* What a guard runs ends with the process that has started it, by whatever way it hears of that. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/guard.h"

enum { PATIENCE_S = 20 };
static const uint64_t LIMIT_NS = 1000000000, REST_NS = 1000000;

/* Says who it is, and goes on for ever. *context: where to. */
static void rest_for_ever(void *context)
{
	const pid_t self = getpid();
	/* As where the signal does not come. */
	prctl(PR_SET_PDEATHSIG, 0);
	(void)!write(*(const int *)context, &self, sizeof(self));
	for (;;) {
		guard_rest_until(clock_now_ns() + REST_NS);
		usleep(REST_NS / 1000);
	}
}

static void run_guarded(int *end)
{
	static struct guard guard;
	guard_init(&guard);
	(void)guard_run(&guard, LIMIT_NS, rest_for_ever, end);
	_exit(0);
}

static void it_ends_with_who_has_started_it(void **state)
{
	int ends[2], status;
	pid_t worker;
	(void)state;
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	assert_int_equal(pipe(ends), 0);
	const pid_t outer = fork();
	if (outer == 0)
		run_guarded(&ends[1]);
	assert_int_equal(read(ends[0], &worker, sizeof(worker)), sizeof(worker));
	assert_int_not_equal(worker, outer);
	assert_int_equal(kill(outer, SIGKILL), 0);
	assert_int_equal(waitpid(outer, &status, 0), outer);
	alarm(PATIENCE_S);
	assert_int_equal(waitpid(worker, &status, __WALL), worker);
	alarm(0);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_ends_with_who_has_started_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
