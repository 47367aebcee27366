/* SPDX-License-Identifier: MIT */
/* What stands in the kernel's lists of cgroups, and what could stand there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target/cgroup.h"

/* ---- where they are mounted ---- */

static void a_mount_of_either_version_is_found(void **state)
{
	(void)state;
	struct target_cgroup_mount mount;
	assert_true(target_cgroup_parse_mount("29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - "
					      "cgroup2 cgroup2 rw,nsdelegate\n",
					      &mount));
	assert_true(mount.unified);
	assert_string_equal(mount.point, "/sys/fs/cgroup");
	assert_string_equal(mount.root, "/");
	target_cgroup_free_mount(&mount);
	assert_true(target_cgroup_parse_mount("33 25 0:29 /docker/0123 /sys/fs/a\\040b\\134 ro - "
					      "cgroup cgroup rw,cpu,cpuacct\n",
					      &mount));
	assert_false(mount.unified);
	assert_string_equal(mount.point, "/sys/fs/a b\\");
	assert_string_equal(mount.root, "/docker/0123");
	assert_string_equal(mount.controllers, "rw,cpu,cpuacct");
	target_cgroup_free_mount(&mount);
}

static void what_is_no_mount_of_cgroups_is_none(void **state)
{
	(void)state;
	static const char *const lines[] = {
		"",
		"\n",
		"29",
		"29 23 0:26 / /mnt rw - ext4 /dev/vda rw\n",
		"29 23 0:26 / /mnt rw - cgroup3 x rw\n",
		"29 23 0:26 / /mnt rw - cgrou",
		"29 23 0:26 / - cgroup",
		"29 23 0:26 / /mnt rw",
		" - cgroup2",
	};
	struct target_cgroup_mount mount;
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		if (target_cgroup_parse_mount(lines[i], &mount)) {
			target_cgroup_free_mount(&mount);
			fail_msg("taken for a mount: %s", lines[i]);
		}
}

/* ---- which is ours ---- */

static void check_own(const char *line, const char *mounted, const char *expected, bool inner)
{
	struct target_cgroup_mount mount;
	bool found = false;
	assert_true(target_cgroup_parse_mount(mounted, &mount));
	char *own = target_cgroup_own(line, &mount, &found);
	if (!expected) {
		assert_null(own);
	} else {
		assert_non_null(own);
		assert_string_equal(own, expected);
		assert_int_equal(found, inner);
	}
	free(own);
	target_cgroup_free_mount(&mount);
}

static void our_group_is_below_what_is_mounted(void **state)
{
	(void)state;
	static const char whole[] = "1 2 0:3 / /cg rw - cgroup2 none rw";
	static const char inside[] = "1 2 0:3 /docker/01 /cg rw - cgroup none rw,pids";
	static const char named[] = "1 2 0:3 / /cg/systemd rw - cgroup none rw,name=systemd";
	check_own("0::/user.slice/a b\n", whole, "/cg/user.slice/a b", true);
	check_own("0::/\n", whole, "/cg", false);
	check_own("0::/../../elsewhere\n", whole, NULL, false);
	check_own("0::/..\n", whole, NULL, false);
	check_own("0::/..named\n", whole, "/cg/..named", true);
	check_own("4:cpu,cpuacct:/x\n", whole, NULL, false);
	check_own("8:pids:/docker/01\n", inside, "/cg", false);
	check_own("8:pids:/docker/01/sub\n", inside, "/cg/sub", true);
	check_own("8:pids:/docker/012\n", inside, NULL, false);
	check_own("8:pids:/\n", inside, NULL, false);
	check_own("8:cpu:/docker/01\n", inside, NULL, false);
	check_own("1:name=systemd:/a:b\n", named, "/cg/systemd/a:b", true);
	check_own("1::/a\n", named, NULL, false);
	check_own("1\n", named, NULL, false);
	check_own("", named, NULL, false);
}

/* ---- its processes ---- */

enum { ROOM = 8 };

/* The numbers of a text, as read from a pipe. */
static size_t numbers_of(const char *text, size_t size, pid_t found[ROOM],
			 struct target_cgroup_rest *rest)
{
	int ends[2];
	size_t count = 0;
	assert_int_equal(pipe(ends), 0);
	const pid_t writer = fork();
	if (writer == 0) {
		close(ends[0]);
		while (size > 0) {
			const ssize_t got = write(ends[1], text, size);
			if (got <= 0)
				break;
			text += got;
			size -= (size_t)got;
		}
		_exit(0);
	}
	close(ends[1]);
	*rest = (struct target_cgroup_rest){0};
	assert_true(target_cgroup_read_numbers(ends[0], found, ROOM, &count, rest));
	close(ends[0]);
	assert_int_equal(waitpid(writer, NULL, 0), writer);
	return count;
}

static void numbers_are_read_whatever_stands_between_them(void **state)
{
	(void)state;
	struct target_cgroup_rest rest;
	pid_t found[ROOM];
	static const char text[] = "812\n7\n0\n4194304\nabc\n-5\n99999999999999999999\n4194305\n31";
	assert_int_equal(numbers_of(text, strlen(text), found, &rest), 5);
	const pid_t expected[] = {812, 7, 4194304, 5, 31};
	assert_memory_equal(found, expected, sizeof(expected));
	assert_int_equal(rest.elsewhere, 1);
	assert_false(rest.more);
	assert_int_equal(numbers_of("", 0, found, &rest), 0);
}

static void numbers_that_are_cut_by_a_piece_are_whole(void **state)
{
	(void)state;
	struct target_cgroup_rest rest;
	pid_t found[ROOM];
	char text[8200];
	memset(text, '\n', sizeof(text));
	memcpy(text + 4094, "123456", 6);
	memcpy(text + 8190, "1234567", 7);
	assert_int_equal(numbers_of(text, sizeof(text), found, &rest), 2);
	assert_int_equal(found[0], 123456);
	assert_int_equal(found[1], 1234567);
}

static void more_than_there_is_room_for_is_said(void **state)
{
	(void)state;
	struct target_cgroup_rest rest;
	pid_t found[ROOM];
	static const char text[] = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";
	assert_int_equal(numbers_of(text, strlen(text), found, &rest), ROOM);
	assert_true(rest.more);
	/* Without an end. */
	const size_t size = 20 << 20;
	char *endless = malloc(size);
	memset(endless, '\n', size);
	assert_int_equal(numbers_of(endless, size, found, &rest), 0);
	assert_true(rest.more);
	free(endless);
}

static void what_cannot_be_read_is_no_list(void **state)
{
	(void)state;
	struct target_cgroup_rest rest = {0};
	pid_t found[ROOM];
	size_t count = 0;
	assert_false(target_cgroup_read_numbers(-1, found, ROOM, &count, &rest));
}

static void we_are_not_foreign(void **state)
{
	(void)state;
	int ends[2];
	char byte;
	assert_int_equal(pipe(ends), 0);
	const pid_t child = fork();
	if (child == 0) {
		close(ends[1]);
		_exit(read(ends[0], &byte, 1) != 0);
	}
	assert_false(target_is_foreign(getpid()));
	assert_false(target_is_foreign(getppid()));
	assert_false(target_is_foreign(child));
	assert_false(target_is_foreign(0));
	assert_false(target_is_foreign(-1));
	if (getpid() != 1 && getppid() != 1)
		assert_true(target_is_foreign(1));
	close(ends[1]);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_false(target_is_foreign(child));
	close(ends[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mount_of_either_version_is_found),
		cmocka_unit_test(what_is_no_mount_of_cgroups_is_none),
		cmocka_unit_test(our_group_is_below_what_is_mounted),
		cmocka_unit_test(numbers_are_read_whatever_stands_between_them),
		cmocka_unit_test(numbers_that_are_cut_by_a_piece_are_whole),
		cmocka_unit_test(more_than_there_is_room_for_is_said),
		cmocka_unit_test(what_cannot_be_read_is_no_list),
		cmocka_unit_test(we_are_not_foreign),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
