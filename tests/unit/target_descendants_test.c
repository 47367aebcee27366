/* SPDX-License-Identifier: MIT */
/* The processes that a process has started, and theirs: some that we fork. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "target/internal.h"
#include "target/descendants.h"

enum { CHILDREN = 3 };

static int ready[2];

static void report_and_wait(void)
{
	const pid_t own = getpid();
	if (write(ready[1], &own, sizeof(own)) == sizeof(own))
		for (;;)
			pause();
	_exit(1);
}

/* A child that has one of its own, both of which wait until they are killed. */
static pid_t fork_child(void)
{
	const pid_t child = fork();
	if (child != 0)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (fork() == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	report_and_wait();
	return 0;
}

static bool contains(const pid_t *pids, size_t count, pid_t pid)
{
	for (size_t i = 0; i < count; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

static void children_and_their_children_are_found(void **state)
{
	(void)state;
	pid_t children[CHILDREN], all[2 * CHILDREN], found[4 * CHILDREN];
	struct target_other other;
	assert_int_equal(pipe(ready), 0);
	for (size_t i = 0; i < CHILDREN; i++)
		children[i] = fork_child();
	for (size_t i = 0; i < 2 * CHILDREN; i++)
		assert_int_equal(read(ready[0], &all[i], sizeof(*all)), sizeof(*all));
	assert_int_equal(target_descendants(getpid(), found, 4 * CHILDREN), 2 * CHILDREN);
	for (size_t i = 0; i < 2 * CHILDREN; i++)
		assert_true(contains(found, 2 * CHILDREN, all[i]));
	for (size_t i = 0; i < CHILDREN; i++)
		assert_true(contains(found, CHILDREN, children[i])); /* before theirs */
	assert_int_equal(target_descendants(children[0], found, 4 * CHILDREN), 1);
	/* No more than there is room for. */
	assert_int_equal(target_descendants(getpid(), found, 1), 1);
	assert_int_equal(target_descendants(getpid(), found, 0), 0);
	assert_int_equal(target_descendants(-1, found, 4), 0);
	assert_true(target_other_read(children[0], &other));
	assert_int_equal(other.pid, children[0]);
	assert_non_null(strstr(other.command, "descendants_test"));
	for (size_t i = 0; i < CHILDREN; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
		assert_false(target_other_read(children[i], &other));
	}
}

static size_t place_of(const pid_t *pids, size_t count, pid_t pid)
{
	size_t at = 0;
	while (at < count && pids[at] != pid)
		at++;
	assert_true(at < count);
	return at;
}

/* Ourselves, then each child with its own child right behind it. */
static void a_tree_has_each_process_before_what_it_started(void **state)
{
	(void)state;
	pid_t children[CHILDREN], own[1], found[4 * CHILDREN];
	assert_int_equal(pipe(ready), 0);
	for (size_t i = 0; i < CHILDREN; i++)
		children[i] = fork_child();
	for (size_t i = 0; i < 2 * CHILDREN; i++)
		assert_int_equal(read(ready[0], own, sizeof(*own)), sizeof(*own));
	assert_true(target_knows_children());
	const size_t count = target_process_tree(getpid(), found, 4 * CHILDREN);
	assert_int_equal(count, 1 + 2 * CHILDREN);
	assert_int_equal(found[0], getpid());
	for (size_t i = 0; i < CHILDREN; i++) {
		const size_t at = place_of(found, count, children[i]);
		assert_int_equal(target_descendants(children[i], own, 1), 1);
		assert_int_equal(place_of(found, count, own[0]), at + 1);
	}
	for (size_t most = 0; most <= count; most++)
		assert_int_equal(target_process_tree(getpid(), found, most), most);
	assert_int_equal(target_process_tree(-1, found, 4), 1);
	for (size_t i = 0; i < CHILDREN; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
}

/* Their numbers are more than one read of the kernel's list gives, whatever its size. */
static void thousands_of_children_are_all_found(void **state)
{
	(void)state;
	enum { MANY = 4000 };
	static pid_t children[MANY], found[2 * MANY];
	size_t begun = 0;
	for (; begun < MANY && (children[begun] = fork()) > 0; begun++)
		;
	if (begun < MANY && children[begun] == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	assert_int_equal(begun, MANY);
	const size_t count = target_process_tree(getpid(), found, 2 * MANY);
	assert_int_equal(count, MANY + 1);
	for (size_t i = 0; i < MANY; i++)
		assert_int_equal(found[i + 1], children[i]);
	assert_int_equal(target_descendants(getpid(), found, 2 * MANY), MANY);
	assert_memory_equal(found, children, sizeof(children));
	for (size_t i = 0; i < MANY; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
}

/* The first argument is the process's own choice: no byte of it reaches a terminal as it is. */
static void commands_are_clean_text(void **state)
{
	(void)state;
	int lines[2];
	char line;
	assert_int_equal(pipe(lines), 0);
	const pid_t child = fork();
	if (child == 0) {
		dup2(lines[1], STDOUT_FILENO);
		execl("/bin/sh", "s\x1b[31mh\n\xff", "-c", "echo; kill -STOP $$", NULL);
		_exit(1);
	}
	assert_int_equal(read(lines[0], &line, 1), 1);
	struct target_other other;
	assert_true(target_other_read(child, &other));
	assert_string_equal(other.command, "s [31mh \xef\xbf\xbd -c echo; kill -STOP $$");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(children_and_their_children_are_found),
		cmocka_unit_test(a_tree_has_each_process_before_what_it_started),
		cmocka_unit_test(thousands_of_children_are_all_found),
		cmocka_unit_test(commands_are_clean_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
