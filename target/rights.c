/* SPDX-License-Identifier: MIT */
/*
 * Rights over files that a program file's capabilities give to who is not root. /proc/PID has files
 * that only its user may read (auxv, task/TID/syscall), whatever CAP_SYS_PTRACE says: for these
 * alone CAP_DAC_READ_SEARCH is in effect, in the thread that opens one; all else is opened and
 * written with the user's own rights.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/errand.h"
#include "target/internal.h"
#include "target/rights.h"

/* Linux, include/uapi/linux/capability.h. */
static const uint32_t FILE_RIGHTS = 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH;

/* Puts into effect which of them we have, or none; of this thread. False: nothing has changed. */
static bool put_into_effect(bool wanted)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
	if (syscall(SYS_capget, &header, sets) != 0)
		return false;
	const uint32_t before = sets[0].effective;
	sets[0].effective =
		(before & ~FILE_RIGHTS) | (wanted ? sets[0].permitted & FILE_RIGHTS : 0);
	return sets[0].effective != before && syscall(SYS_capset, &header, sets) == 0;
}

void target_rights_begin(void)
{
	if (geteuid() != 0)
		(void)put_into_effect(false);
}

static bool is_proc(int directory)
{
	struct statfs system;
	return fstatfs(directory, &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

static int open_here(int directory, const char *path)
{
	const int fd = openat(directory, path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 || errno != EACCES || geteuid() == 0)
		return fd;
	if (!is_proc(directory) || !put_into_effect(true)) {
		errno = EACCES;
		return -1;
	}
	const int opened = openat(directory, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	const int os_errno = errno;
	(void)put_into_effect(false);
	errno = os_errno;
	return opened;
}

struct opening {
	int directory, flags, fd;
	const char *path;
	int (*open)(int directory, const char *path);
};

static void open_one(void *context)
{
	struct opening *opening = context;
	opening->fd = opening->open ? opening->open(opening->directory, opening->path)
				    : openat(opening->directory, opening->path, opening->flags);
}

int rights_open_proc(int directory, const char *path)
{
	struct opening opening = {.directory = directory, .path = path, .open = open_here};
	errand_run(open_one, &opening);
	return opening.fd;
}

int rights_openat(int directory, const char *path, int flags)
{
	struct opening opening = {.directory = directory, .path = path, .flags = flags | O_CLOEXEC};
	errand_run(open_one, &opening);
	return opening.fd;
}
