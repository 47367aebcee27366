/* SPDX-License-Identifier: MIT */
/* The broker gives what the command line names, and what who asked for it may read; no more. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "files/broker.h"
#include "files/broker_judge.h"
#include "files/foreign_file.h"
#include "files/given_file.h"
#include "files/new_file.h"
#include "tests/unit/owned_file.h"

enum { NOBODY = 65534, SOMEBODY = 1234, OWNER = 1235, LOOKED_AT = 1236 };

static char folder[64];
static int root;

static int set_up(void **state)
{
	static const char *given[] = {"given", "core"}, *outputs[] = {"output"};
	static struct broker_rules rules = {.user = SOMEBODY,
					    .given = given,
					    .given_count = 2,
					    .outputs = outputs,
					    .output_count = 1};
	(void)state;
	strcpy(folder, "/tmp/broker_judge_test.XXXXXX");
	assert_non_null(mkdtemp(folder));
	assert_int_equal(chdir(folder), 0);
	write_file("given", 0600, 0);
	write_file("core", 0600, OWNER);
	write_file("outside", 0644, 0);
	assert_int_equal(mkdir("root", 0755), 0);
	write_file("root/file", 0644, 0);
	write_file("root/private", 0600, 0);
	write_file("root/mine", 0400, SOMEBODY);
	write_file("root/owners", 0400, OWNER);
	write_file("root/theirs", 0400, LOOKED_AT);
	assert_int_equal(mkfifo("root/fifo", 0644), 0);
	assert_int_equal(symlink("/../outside", "root/out"), 0);
	assert_int_equal(symlink("..", "root/up"), 0);
	root = open("root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(broker_judge_start(&rules));
	return 0;
}

static int tear_down(void **state)
{
	char command[128];
	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

/* Whether it is opened, and what it has is what is there. */
static bool opens(const char *path, uid_t user)
{
	char text[5] = "";
	const int fd = foreign_file_open((struct foreign_root){.fd = root, .user = user}, path);
	if (fd < 0)
		return false;
	assert_int_equal(read(fd, text, 4), 4);
	close(fd);
	return true;
}

static void claims_are_not_believed(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	for (size_t i = 0; i < 3; i++) {
		const uid_t claimed[] = {0, SOMEBODY, 4321};
		assert_true(opens("file", claimed[i]));
		assert_true(opens("mine", claimed[i]));
		assert_false(opens("private", claimed[i]));
	}
	assert_false(opens("mine", NOBODY));
	assert_false(opens("owners", OWNER));
	/* Whose file the command line names is known, once it is opened. */
	const int core = given_file_open("core", 0);
	assert_true(core >= 0);
	close(core);
	assert_true(opens("owners", OWNER));
	assert_false(opens("owners", SOMEBODY));
}

static void roots_and_kinds_hold(void **state)
{
	(void)state;
	assert_false(opens("out", 0));
	assert_false(opens("up/outside", 0));
	assert_false(opens("fifo", 0));
	assert_false(opens("nothing", 0));
	assert_int_equal(errno, ENOENT);
	assert_int_equal(foreign_file_open((struct foreign_root){.fd = FOREIGN_OUR_ROOT},
					   "/proc/self/maps"),
			 -1);
	assert_int_equal(
		foreign_file_open((struct foreign_root){.fd = FOREIGN_OUR_ROOT}, "/dev/null"),
		-1);
	assert_int_equal(foreign_folder_open(root, "up"), -1);
	const int again = foreign_folder_open(root, ".");
	assert_true(again >= 0);
	close(again);
	/* One that was found is judged as well. */
	const int found = foreign_file_find(root, "file");
	assert_true(found >= 0);
	const int opened = foreign_file_open_found(found, 0);
	assert_true(opened >= 0);
	close(opened);
	if (geteuid() == 0)
		assert_int_equal(foreign_file_open_found(foreign_file_find(root, "private"), 0),
				 -1);
}

static void only_what_is_named(void **state)
{
	struct new_file file;
	struct error error;
	char text[5] = "";
	(void)state;
	const int fd = given_file_open("given", 0);
	assert_int_equal(read(fd, text, 4), 4);
	assert_int_equal(write(fd, text, 4), -1);
	close(fd);
	assert_int_equal(given_file_open("outside", 0), -1);
	assert_int_equal(given_file_open("./given", 0), -1);
	/* To be written, or cut off, is not what it was named for. */
	const int again = given_file_open("given", O_RDWR | O_TRUNC);
	assert_int_equal(write(again, text, 4), -1);
	assert_int_equal(read(again, text, 4), 4);
	close(again);
	assert_false(new_file_open(&file, "given", &error));
	assert_string_equal(error.message, "cannot write given: operation not permitted");
}

static void outputs_are_whole_or_not_there(void **state)
{
	struct new_file file;
	struct error error;
	(void)state;
	assert_true(new_file_open(&file, "output", &error));
	assert_int_equal(write(file.fd, "half", 4), 4);
	assert_int_equal(access("output", F_OK), -1);
	new_file_drop(&file);
	assert_int_equal(access("output", F_OK), -1);
	assert_true(new_file_open(&file, "output", &error));
	assert_int_equal(write(file.fd, "whole", 5), 5);
	assert_true(new_file_commit(&file, "output", &error));
	assert_int_equal(access("output", F_OK), 0);
	/* As many as one likes, one after the other. */
	for (int i = 0; i < 20; i++) {
		assert_true(new_file_open(&file, "output", &error));
		assert_true(new_file_commit(&file, "output", &error));
	}
	const int scratch = given_file_scratch();
	assert_int_equal(write(scratch, "x", 1), 1);
	close(scratch);
}

/* A process of that user, which ends when the other end is closed. */
static pid_t start_process(int *end)
{
	int ends[2], ready[2];
	char byte = 'x';
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pipe(ready), 0);
	const pid_t child = fork();
	if (child == 0) {
		close(ends[1]);
		if (setuid(LOOKED_AT) != 0 || write(ready[1], &byte, 1) != 1)
			_exit(1);
		_exit(read(ends[0], &byte, 1) < 0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ends[0]);
	*end = ends[1];
	return child;
}

static void files_of_who_is_looked_at(void **state)
{
	char path[32];
	int end;
	(void)state;
	if (geteuid() != 0)
		skip();
	const pid_t pid = start_process(&end);
	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	const int found = open(path, O_PATH | O_CLOEXEC);
	const int process = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(found >= 0 && process >= 0);
	foreign_file_introduce(found);
	assert_false(opens("theirs", LOOKED_AT));
	foreign_file_introduce(process);
	assert_true(opens("theirs", LOOKED_AT));
	assert_false(opens("theirs", SOMEBODY));
	close(end);
	close(found);
	close(process);
	waitpid(pid, NULL, 0);
}

static void mapped_files_by_their_mappings_alone(void **state)
{
	(void)state;
	const int ours = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(ours >= 0);
	assert_int_equal(foreign_file_open_mapped(ours, "map_files/../status"), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(foreign_file_open_mapped(ours, "status"), -1);
	assert_int_equal(foreign_file_open_mapped(root, "map_files/0-1"), -1);
	assert_int_equal(errno, EPERM);
	close(ours);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(claims_are_not_believed),
		cmocka_unit_test(roots_and_kinds_hold),
		cmocka_unit_test(only_what_is_named),
		cmocka_unit_test(outputs_are_whole_or_not_there),
		cmocka_unit_test(files_of_who_is_looked_at),
		cmocka_unit_test(mapped_files_by_their_mappings_alone),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
