/* SPDX-License-Identifier: MIT */
#include "base/file_limit.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/log.h"

/*
 * A table of descriptors that threads share grows by a wait for all CPUs (Linux fs/file.c,
 * expand_fdtable(): synchronize_rcu()), 7 to 15 ms each time that it doubles. Before there are
 * threads it grows at once.
 */
static void make_room_for_files(const struct rlimit *limit)
{
	enum { ROOM = 4096 };
	const int last = limit->rlim_cur < ROOM ? (int)limit->rlim_cur - 1 : ROOM - 1;
	const int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, last);
	if (fd >= 0)
		close(fd);
}

void file_limit_raise(struct rlimit *before)
{
	if (getrlimit(RLIMIT_NOFILE, before) != 0) {
		*before = (struct rlimit){1024, RLIM_INFINITY};
		return;
	}
	struct rlimit raised = *before;
	raised.rlim_cur = raised.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &raised) != 0) {
		log_verbose("the limit of open files stays as it is");
		raised = *before;
	}
	make_room_for_files(&raised);
}
