/* SPDX-License-Identifier: MIT */
/* For tests of who may read what; cmocka.h is included before. */
#ifndef TESTS_UNIT_OWNED_FILE_H
#define TESTS_UNIT_OWNED_FILE_H

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* A new file with "text" in it; without root it is ours, whoever is to be its owner. */
static void write_file(const char *name, mode_t mode, uid_t owner)
{
	const int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "text", 4), 4);
	assert_int_equal(fchmod(fd, mode), 0);
	if (geteuid() == 0)
		assert_int_equal(fchown(fd, owner, (gid_t)-1), 0);
	close(fd);
}

#endif
