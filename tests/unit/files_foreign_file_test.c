/* SPDX-License-Identifier: MIT */
/* Of what strangers may put at a path, regular files that they may read are opened; nothing else.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "files/foreign_file.h"
#include "tests/unit/owned_file.h"

enum { NOBODY = 65534 };

static char folder[64]; /* .../root is what paths are looked up in */

static void make_socket(const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", name);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
}

static int set_up(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/foreign_file_test.XXXXXX");
	assert_non_null(mkdtemp(folder));
	assert_int_equal(chdir(folder), 0);
	write_file("outside", 0644, 0);
	assert_int_equal(mkdir("root", 0755), 0);
	assert_int_equal(chdir("root"), 0);
	write_file("file", 0644, 0);
	write_file("private", 0600, 0);
	write_file("groups", 0640, 0);
	write_file("theirs", 0400, NOBODY);
	assert_int_equal(mkdir("folder", 0755), 0);
	assert_int_equal(mkfifo("fifo", 0666), 0);
	make_socket("socket");
	assert_int_equal(symlink("file", "link"), 0);
	assert_int_equal(symlink("/file", "absolute"), 0);
	assert_int_equal(symlink("../outside", "up"), 0);
	assert_int_equal(symlink("/outside", "out"), 0);
	assert_int_equal(symlink("loop", "loop"), 0);
	assert_int_equal(symlink("fifo", "to_fifo"), 0);
	/* Without the right to, or in a container: not there. */
	if (mknod("device", S_IFCHR | 0666, makedev(1, 3)) == 0)
		chmod("device", 0666);
	return 0;
}

static int tear_down(void **state)
{
	char command[100];
	(void)state;
	snprintf(command, sizeof(command), "cd / && rm -rf '%s'", folder);
	return system(command);
}

static const struct {
	const char *path;
	uid_t user;
	int failure; /* 0: opened */
} cases[] = {
	{"/file", 0, 0},
	{"/file", NOBODY, 0},
	{"/link", NOBODY, 0},
	{"/absolute", NOBODY, 0},
	{"/../../file", NOBODY, 0},
	{"/private", 0, 0},
	{"/private", NOBODY, EACCES},
	{"/groups", NOBODY, EACCES},
	{"/theirs", NOBODY, 0},
	{"/none", 0, ENOENT},
	{"/up", 0, ENOENT},
	{"/out", 0, ENOENT},
	{"/loop", 0, ELOOP},
	{"/folder", 0, EISDIR},
	{"/fifo", 0, EINVAL},
	{"/to_fifo", 0, EINVAL},
	{"/socket", 0, EINVAL},
	{"/device", 0, EINVAL},
};

/* Whether any of them was opened, since the last question. */
static bool was_opened(int watch)
{
	char events[4096];
	return read(watch, events, sizeof(events)) > 0;
}

static int watch_all(void)
{
	static const char *const names[] = {"private", "groups", "fifo",
					    "socket",  "device", "../outside"};
	const int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	assert_true(watch >= 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (inotify_add_watch(watch, names[i], IN_OPEN) < 0)
			assert_int_equal(errno, ENOENT);
	return watch;
}

static void what_is_no_file_is_not_even_opened(void **state)
{
	(void)state;
	const struct foreign_root root = {.fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)};
	const int watch = watch_all();
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *path = cases[i].path;
		if (access(path + 1, F_OK) != 0 && strcmp(path, "/device") == 0) {
			printf("skip %s: cannot make a device\n", path);
			continue;
		}
		if (cases[i].user && geteuid() != 0) {
			printf("skip %s: needs root\n", path);
			continue;
		}
		const int fd = foreign_file_open(
			(struct foreign_root){.fd = root.fd, .user = cases[i].user}, path);
		if (fd < 0 ? errno != cases[i].failure : cases[i].failure)
			fail_msg("%s as %u: %d, %s", path, cases[i].user, fd, strerror(errno));
		if (was_opened(watch) != (fd >= 0 && strcmp(path, "/private") == 0))
			fail_msg("%s was opened, or not", path);
		if (fd >= 0) {
			assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
			assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
			close(fd);
		}
	}
	close(watch);
	close(root.fd);
}

static void files_of_the_kernel_are_not_opened(void **state)
{
	static const char *const paths[] = {"/proc/kmsg",
					    "/proc/self/status",
					    "/proc/self/fd/0",
					    "/proc/self/exe",
					    "/sys/kernel/mm/transparent_hugepage/enabled",
					    "/sys/kernel/tracing/trace_pipe",
					    "/dev/null",
					    "/dev/kmsg"};
	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		const int fd =
			foreign_file_open((struct foreign_root){.fd = FOREIGN_OUR_ROOT}, paths[i]);
		if (fd >= 0)
			fail_msg("%s was opened", paths[i]);
	}
}

/* Where a process has no root that we may see, nothing is ours instead. */
static void nowhere_is_not_our_root(void **state)
{
	char path[100];
	(void)state;
	snprintf(path, sizeof(path), "%s/outside", folder);
	const int fd = foreign_file_open((struct foreign_root){.fd = FOREIGN_OUR_ROOT}, path);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(foreign_file_open((struct foreign_root){.fd = FOREIGN_NOWHERE}, path), -1);
	assert_int_equal(foreign_file_find(FOREIGN_NOWHERE, path), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_no_file_is_not_even_opened),
		cmocka_unit_test(files_of_the_kernel_are_not_opened),
		cmocka_unit_test(nowhere_is_not_our_root),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
