/* SPDX-License-Identifier: MIT */
/*
 * Where what was found, or fetched, is kept for the next time. We may be root under another user's
 * HOME (sudo -E, or a sudo that is set up to keep it): a folder that is not ours is neither read
 * nor written, and nothing is made in it, for all in it is that user's to choose, links as well.
 * With capabilities of our program file nothing is: what is kept is read back with them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "files/cache_folder.h"

static const int FLAGS = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

static bool is_owned(int fd, struct stat *status)
{
	return !fstat(fd, status) && status->st_uid == geteuid();
}

bool cache_is_ours(int fd, mode_t type)
{
	struct stat status;

	return is_owned(fd, &status) && (status.st_mode & S_IFMT) == type &&
	       !(status.st_mode & (S_IWGRP | S_IWOTH));
}

/* Gives the folder back if it is ours alone; else closes it and gives -1. */
static int keep_ours(int fd)
{
	if (fd < 0 || cache_is_ours(fd, S_IFDIR))
		return fd;
	close(fd);
	return -1;
}

int cache_folder_below(int parent, const char *name)
{
	_cleanup_close_ int above = parent;

	if (above < 0 || (mkdirat(above, name, 0700) && errno != EEXIST))
		return -1;
	return keep_ours(openat(above, name, FLAGS | O_NOFOLLOW));
}

/*
 * A folder that others may write to will do: what they put there in place of the next one is not
 * ours.
 */
static int open_owned(const char *path)
{
	struct stat status;
	const int fd = open(path, FLAGS);

	if (fd < 0 || is_owned(fd, &status))
		return fd;
	close(fd);
	return -1;
}

int cache_folder_open(const char *name)
{
	const char *base = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");

	/* XDG base directory specification: relative paths are to be ignored. */
	if (base && base[0] == '/')
		return cache_folder_below(open_owned(base), name);
	if (!home || home[0] != '/')
		return -1;
	return cache_folder_below(cache_folder_below(open_owned(home), ".cache"), name);
}

int cache_folder_at(const char *path)
{
	if (mkdir(path, 0700) && errno != EEXIST)
		return -1;
	return keep_ours(open(path, FLAGS));
}
