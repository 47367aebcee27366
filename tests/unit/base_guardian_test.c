/* SPDX-License-Identifier: MIT */
/* The signals of the process that works: as before, or held until it has handlers. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/guardian.h"

enum { PATIENCE_S = 20, FAILED = 9 };

/* The outer process ends with the child's status: how many of the four are blocked in it. */
static int blocked_in_child(bool holds)
{
	static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
	const struct guardian_options options = {
		.status = FAILED, .lost = "all", .holds_signals = holds};
	int status;
	const pid_t outer = fork();
	if (outer == 0) {
		sigset_t before, set;
		struct error error;
		int count = 0;
		sigemptyset(&set);
		sigprocmask(SIG_SETMASK, &set, NULL);
		if (!guardian_begin(&options, &before, &error))
			_exit(FAILED);
		sigprocmask(SIG_BLOCK, NULL, &set);
		for (size_t i = 0; i < sizeof(passed_on) / sizeof(*passed_on); i++)
			count += sigismember(&set, passed_on[i]) + sigismember(&before, passed_on[i]);
		_exit(count);
	}
	alarm(PATIENCE_S);
	assert_int_equal(waitpid(outer, &status, 0), outer);
	alarm(0);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void what_has_handlers_of_its_own_holds_signals(void **state)
{
	(void)state;
	assert_int_equal(blocked_in_child(true), 4);
}

static void others_get_them_as_before(void **state)
{
	(void)state;
	assert_int_equal(blocked_in_child(false), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_has_handlers_of_its_own_holds_signals),
		cmocka_unit_test(others_get_them_as_before),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
