/* SPDX-License-Identifier: MIT */
/*
 * From a path to a folder and a name in it, one component after the other, each judged by what was
 * opened; then all is done in that folder by descriptors. A file without a name (O_TMPFILE) leaves
 * nothing behind, however we end; where a file system has none, it has a random one.
 */
#include "files/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "files/broker.h"

enum { MAX_LINKS = 40, NAME_TRIES = 100, NAME_PART = 200 };

/* ---- where it is ---- */

/* Where a path leads. Descriptors are O_PATH, and ours. */
struct place {
	int folder, found; /* found -1: nothing is there */
	char name[NAME_MAX + 1];
	struct stat status;  /* of what was found */
	char rest[PATH_MAX]; /* of the path, from the folder on */
	unsigned links;
	bool refused; /* it is another user's, where that matters */
};

static void place_release(struct place *place)
{
	if (place->folder >= 0)
		close(place->folder);
	if (place->found >= 0)
		close(place->found);
}

#define _cleanup_place_ __attribute__((cleanup(place_release)))

static void go_to(struct place *place, int folder)
{
	if (place->folder >= 0)
		close(place->folder);
	place->folder = folder;
}

/* In a folder that all may write to, where only a file's owner may rename it: /tmp. */
static bool is_trusted(int folder, const struct stat *status)
{
	struct stat above;
	if (fstat(folder, &above) < 0)
		return false;
	return (above.st_mode & (S_ISVTX | S_IWOTH)) != (S_ISVTX | S_IWOTH) ||
	       status->st_uid == geteuid() || status->st_uid == above.st_uid;
}

/* /proc/self/fd/1 and the like: what its text says need not be what it leads to. */
static bool is_magic(int folder)
{
	struct statfs system;
	return fstatfs(folder, &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

/* Puts a link's text in front of the rest of the path. */
static bool follow(struct place *place, int link, const char *rest)
{
	char target[PATH_MAX], joined[2 * PATH_MAX + 1];
	const ssize_t size = readlinkat(link, "", target, sizeof(target) - 1);
	if (size <= 0)
		return false;
	const int length = snprintf(joined, sizeof(joined), "%.*s%s%s", (int)size, target,
				    *rest ? "/" : "", rest);
	errno = ++place->links > MAX_LINKS ? ELOOP : ENAMETOOLONG;
	if (place->links > MAX_LINKS || length >= PATH_MAX)
		return false;
	memcpy(place->rest, joined, (size_t)length + 1);
	if (target[0] == '/')
		go_to(place, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
	return place->folder >= 0;
}

/* The path's first component; false with errno: there is none such. *rest: what follows it. */
static bool next_name(struct place *place, const char **rest)
{
	const char *at = place->rest + strspn(place->rest, "/");
	const size_t size = strcspn(at, "/");
	errno = size > NAME_MAX ? ENAMETOOLONG : ENOENT;
	if (size == 0 || size > NAME_MAX)
		return false;
	memcpy(place->name, at, size);
	place->name[size] = '\0';
	at += size;
	*rest = at + strspn(at, "/");
	/* "out/" is a folder, whether it is there or not. */
	errno = EISDIR;
	return **rest || !*at;
}

/* Through a link of /proc, which only the kernel can follow; to the end of the path, or a folder.
 */
static bool follow_magic(struct place *place, int link, const char *rest, bool *done)
{
	const int flags = O_PATH | O_CLOEXEC | (*rest ? O_DIRECTORY : 0);
	const int fd = openat(place->folder, place->name, flags);
	if (fd < 0)
		return false;
	if (*rest) {
		go_to(place, fd);
		memmove(place->rest, rest, strlen(rest) + 1);
		return true;
	}
	if (fstat(fd, &place->status) == 0 && S_ISREG(place->status.st_mode)) {
		close(fd);
		return follow(place, link, rest); /* it has a name to be replaced at */
	}
	place->found = fd;
	*done = true;
	return true;
}

/* One component. *done: it was the last one, and is no link. */
static bool step(struct place *place, bool *done)
{
	const char *rest;
	if (!next_name(place, &rest))
		return false;
	int fd = openat(place->folder, place->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &place->status) < 0) {
		*done = errno == ENOENT && !*rest;
		return *done;
	}
	const bool link = S_ISLNK(place->status.st_mode);
	if ((link || !*rest) && !S_ISDIR(place->status.st_mode) &&
	    !is_trusted(place->folder, &place->status)) {
		close(fd);
		place->refused = true;
		return false;
	}
	if (link) {
		_cleanup_close_ int owned = fd;
		return is_magic(place->folder) ? follow_magic(place, owned, rest, done)
					       : follow(place, owned, rest);
	}
	*done = !*rest;
	if (*done) {
		place->found = fd;
		return true;
	}
	go_to(place, fd);
	memmove(place->rest, rest, strlen(rest) + 1);
	errno = ENOTDIR;
	return S_ISDIR(place->status.st_mode);
}

static bool explain(const struct place *place, const char *path, struct error *error)
{
	if (!place->refused)
		return error_set_errno(error, errno, "cannot write %.120s", path);
	return error_set(error, ERROR_DENIED,
			 "cannot write %.90s: %.30s is another user's, in a folder that all may "
			 "write to",
			 path, place->name);
}

static bool find(struct place *place, const char *path, struct error *error)
{
	bool done = false;
	*place = (struct place){.folder = -1, .found = -1};
	const int length = snprintf(place->rest, sizeof(place->rest), "%s", path);
	errno = ENAMETOOLONG;
	if (length < (int)sizeof(place->rest))
		place->folder = open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	while (place->folder >= 0 && !done)
		if (!step(place, &done))
			return explain(place, path, error);
	if (place->folder < 0)
		return error_set_errno(error, errno, "cannot write %.120s", path);
	if (place->found < 0 || !S_ISDIR(place->status.st_mode))
		return true;
	return error_set_errno(error, EISDIR, "cannot write %.120s", path);
}

/* Whether we may do that with what a descriptor is of. */
static bool may(int fd, int what)
{
	char path[40];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return faccessat(AT_FDCWD, path, what, AT_EACCESS) == 0;
}

static bool find_writable(struct place *place, const char *path, struct error *error)
{
	if (!find(place, path, error))
		return false;
	const bool replaced = place->found < 0 || S_ISREG(place->status.st_mode);
	if ((place->found >= 0 && !may(place->found, W_OK)) ||
	    (replaced && !may(place->folder, W_OK | X_OK)))
		return error_set_errno(error, errno, "cannot write %.120s", path);
	return true;
}

bool new_file_check(const char *path, struct error *error)
{
	_cleanup_place_ struct place place;
	return find_writable(&place, path, error);
}

/* ---- what is made there ---- */

static void make_name(char temporary[NAME_MAX + 1], const char *name)
{
	uint64_t random = 0;
	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		random = (uint64_t)getpid() << 32;
	snprintf(temporary, NAME_MAX + 1, ".%.*s.%016llx.tmp", NAME_PART, name,
		 (unsigned long long)random);
}

/* One that is replaced is nobody else's to read before it has the old one's owner and mode. */
static int open_temporary(struct new_file *file)
{
	const mode_t mode = file->replaces ? 0600 : 0666;
	int fd = openat(file->folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
	for (int i = 0; fd < 0 && i < NAME_TRIES; i++) {
		make_name(file->temporary, file->name);
		fd = openat(file->folder, file->temporary,
			    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	if (fd < 0)
		file->temporary[0] = '\0';
	return fd;
}

/* A fifo that nobody reads is not waited for: ENXIO. One that is slow to read is. */
static int open_found(int found)
{
	char path[40];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", found);
	const int fd = open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0)
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	return fd;
}

static bool open_lent(struct new_file *file, const char *path, struct error *error)
{
	struct broker_request request = {.op = BROKER_NEW};
	struct broker_reply reply;
	if (!broker_set_path(&request, path))
		return error_set_errno(error, errno, "cannot write %.120s", path);
	file->fd = broker_ask(&request, -1, &reply);
	file->handle = reply.handle;
	file->lent = file->fd >= 0;
	if (!file->lent && error)
		*error = reply.error;
	return file->lent;
}

static bool end_lent(struct new_file *file, bool keep, struct error *error)
{
	const struct broker_request request = {.op = keep ? BROKER_COMMIT : BROKER_DROP,
					       .handle = file->handle};
	struct broker_reply reply;
	close(file->fd);
	*file = (struct new_file){.fd = -1, .folder = -1};
	const bool well = broker_ask(&request, -1, &reply) >= 0;
	if (!well && error)
		*error = reply.error;
	return well;
}

static bool open_here(struct new_file *file, const char *path, struct error *error)
{
	_cleanup_place_ struct place place;
	if (!find_writable(&place, path, error))
		return false;
	if (place.found >= 0 && !S_ISREG(place.status.st_mode)) {
		file->fd = open_found(place.found);
	} else {
		file->replaces = place.found >= 0;
		file->old = place.status;
		memcpy(file->name, place.name, sizeof(file->name));
		file->folder = place.folder;
		place.folder = -1;
		file->fd = open_temporary(file);
	}
	if (file->fd >= 0)
		return true;
	if (errno == ENXIO && S_ISFIFO(place.status.st_mode))
		error_set(error, ERROR_SYSTEM, "cannot write %.120s: nobody reads this pipe", path);
	else
		error_set_errno(error, errno, "cannot write %.120s", path);
	new_file_drop(file);
	return false;
}

bool new_file_open(struct new_file *file, const char *path, struct error *error)
{
	*file = (struct new_file){.fd = -1, .folder = -1};
	return broker_is_used() ? open_lent(file, path, error) : open_here(file, path, error);
}

/* Rights that come with a file's owner are not for what we write. */
static bool copy_mode(const struct new_file *file)
{
	if (fchown(file->fd, file->old.st_uid, file->old.st_gid) < 0 && errno != EPERM &&
	    errno != EINVAL)
		return false;
	return fchmod(file->fd, file->old.st_mode & 0777) == 0;
}

/* Gives a file without a name that one. */
static bool give_name(const struct new_file *file, const char *name)
{
	char path[40];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
	return linkat(AT_FDCWD, path, file->folder, name, AT_SYMLINK_FOLLOW) == 0;
}

static bool put_in_place(struct new_file *file)
{
	char temporary[NAME_MAX + 1];
	if (!file->temporary[0]) {
		/* EEXIST: one was made meanwhile. It is replaced like an older one. */
		if (!file->replaces && give_name(file, file->name))
			return true;
		make_name(temporary, file->name);
		if (!give_name(file, temporary))
			return false;
		memcpy(file->temporary, temporary, sizeof(temporary));
	}
	if (renameat(file->folder, file->temporary, file->folder, file->name) < 0)
		return false;
	file->temporary[0] = '\0';
	return true;
}

/* A rename is on the disk when its folder is; failing here no longer harms the file. */
static void sync_folder(int folder)
{
	_cleanup_close_ int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		(void)fsync(fd);
}

static bool finish(struct new_file *file)
{
	if (file->folder < 0)
		return true;
	/* EINVAL: a file system that cannot sync. */
	if ((file->replaces && !copy_mode(file)) || (fsync(file->fd) < 0 && errno != EINVAL) ||
	    !put_in_place(file))
		return false;
	sync_folder(file->folder);
	return true;
}

bool new_file_commit(struct new_file *file, const char *path, struct error *error)
{
	if (file->lent)
		return end_lent(file, true, error);
	const bool good = finish(file);
	if (!good)
		error_set_errno(error, errno, "cannot write %.120s", path);
	new_file_drop(file);
	return good;
}

void new_file_drop(struct new_file *file)
{
	if (file->lent) {
		(void)end_lent(file, false, NULL);
		return;
	}
	if (file->temporary[0])
		unlinkat(file->folder, file->temporary, 0);
	if (file->fd >= 0)
		close(file->fd);
	if (file->folder >= 0)
		close(file->folder);
	*file = (struct new_file){.fd = -1, .folder = -1};
}
