/* SPDX-License-Identifier: MIT */
/* Opens files that a stranger may have chosen: looks first, at what it then opens. */
#include "files/foreign_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/guard.h"
#include "files/broker.h"
#include "files/far_file.h"

static bool is_our_root(int root)
{
	struct stat theirs, ours;
	return fstat(root, &theirs) == 0 && stat("/", &ours) == 0 && theirs.st_dev == ours.st_dev &&
	       theirs.st_ino == ours.st_ino;
}

/* ---- by the broker ---- */

static int ask(const struct broker_request *request, int fd)
{
	struct broker_reply reply;
	const int got = broker_ask(request, fd, &reply);
	if (reply.unanswered)
		far_file_note_unanswered();
	return got;
}

static int ask_for(enum broker_op op, struct foreign_root root, const char *path)
{
	struct broker_request request = {.op = op,
					 .root = root.fd,
					 .user = root.user,
					 .flags = root.far	    ? BROKER_FAR | BROKER_COPY
						  : guard_is_here() ? BROKER_FAR
								    : 0};
	return broker_set_path(&request, path) ? ask(&request, root.fd) : -1;
}

/* ---- here ---- */

static int find_here(int root, const char *path)
{
	const struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_NO_MAGICLINKS | (root == FOREIGN_OUR_ROOT ? 0 : RESOLVE_IN_ROOT),
	};
	const int directory = root == FOREIGN_OUR_ROOT ? AT_FDCWD : root;
	guard_begin_wait();
	const int fd = (int)syscall(SYS_openat2, directory, path, &how, sizeof(how));
	guard_end_wait();
	/* Linux before 5.6, or a seccomp filter that does not know the call. */
	if (fd < 0 && (errno == ENOSYS || errno == EPERM) &&
	    (root == FOREIGN_OUR_ROOT || is_our_root(root)))
		return open(path, O_PATH | O_CLOEXEC);
	return fd;
}

/* Those of the kernel: some do something when they are read, /proc/kmsg and trace_pipe lose it. */
static bool is_kernels(int fd)
{
	static const long types[] = {PROC_SUPER_MAGIC,	  SYSFS_MAGIC,	    DEBUGFS_MAGIC,
				     TRACEFS_MAGIC,	  SECURITYFS_MAGIC, CGROUP_SUPER_MAGIC,
				     CGROUP2_SUPER_MAGIC, BPF_FS_MAGIC,	    EFIVARFS_MAGIC,
				     PSTOREFS_MAGIC,	  SELINUX_MAGIC,    BINFMTFS_MAGIC};
	struct statfs system;
	if (fstatfs(fd, &system) < 0)
		return false;
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (system.f_type == types[i])
			return true;
	return false;
}

int foreign_file_find(int root, const char *path)
{
	if (!broker_is_used())
		return find_here(root, path);
	return ask_for(BROKER_FIND, (struct foreign_root){.fd = root}, path);
}

int foreign_folder_open(int root, const char *path)
{
	const struct open_how how = {
		.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH,
	};
	if (broker_is_used())
		return ask_for(BROKER_FOLDER, (struct foreign_root){.fd = root}, path);
	const int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
		return fd;
	return openat(root, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int open_judged(int found)
{
	_cleanup_close_ int fd = found;
	struct stat status;
	char path[40];
	if (fd < 0 || fstat(fd, &status) < 0)
		return -1;
	if (!S_ISREG(status.st_mode) || is_kernels(fd)) {
		errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
		return -1;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

int foreign_file_open_found(int found, uid_t user)
{
	if (broker_is_used()) {
		const struct broker_request request = {.op = BROKER_OPEN_FOUND,
						       .user = user,
						       .flags = guard_is_here() ? BROKER_FAR : 0};
		_cleanup_close_ int known = found;
		return known < 0 ? -1 : ask(&request, known);
	}
	guard_begin_wait();
	const int fd = open_judged(found);
	guard_end_wait();
	return fd;
}

int foreign_file_open_mapped(int process, const char *path)
{
	if (broker_is_used())
		return ask_for(BROKER_MAPPED, (struct foreign_root){.fd = process}, path);
	return foreign_file_open_found(openat(process, path, O_PATH | O_CLOEXEC), 0);
}

void foreign_file_introduce(int process)
{
	const struct broker_request request = {.op = BROKER_TARGET};
	if (broker_is_used())
		(void)ask(&request, process);
}

bool foreign_file_is_readable(const struct stat *status, uid_t user)
{
	return user == 0 || user == geteuid() || (status->st_mode & S_IROTH) ||
	       (status->st_uid == user && (status->st_mode & S_IRUSR));
}

static int open_near(struct foreign_root root, const char *path)
{
	const int found = foreign_file_find(root.fd, path);
	struct stat status;
	if (found < 0)
		return -1;
	const bool known = far_file_status(found, &status) == 0;
	if (known && foreign_file_is_readable(&status, root.user))
		return foreign_file_open_found(found, root.user);
	close(found);
	errno = EACCES;
	return -1;
}

struct far_opening {
	struct foreign_root root;
	const char *path;
	int fd, os_errno;
};

static void open_far(void *context)
{
	struct far_opening *opening = context;
	struct stat status;
	opening->fd = open_near(opening->root, opening->path);
	if (opening->fd >= 0)
		(void)!far_file_ask_server(opening->fd, &status);
	if (!opening->root.uncopied)
		opening->fd = far_file_copy_here(opening->fd);
	opening->os_errno = errno;
}

int foreign_file_open(struct foreign_root root, const char *path)
{
	struct far_opening opening = {root, path, -1, EIO};
	if (broker_is_used())
		return ask_for(BROKER_FOREIGN, root, path);
	if (!root.far)
		return open_near(root, path);
	if (!far_file_await(open_far, &opening))
		opening.fd = -1;
	errno = opening.os_errno;
	return opening.fd;
}
