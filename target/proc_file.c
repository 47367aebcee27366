/* SPDX-License-Identifier: MIT */
/* Files of /proc: small ones as a whole, and the numbers of "stat". */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/errand.h"
#include "target/internal.h"

static ssize_t read_here(int directory, const char *path, char *buffer, size_t size)
{
	_cleanup_close_ int fd = rights_open_proc(directory, path);
	if (fd < 0)
		return -1;
	size_t used = 0;
	while (used < size - 1) {
		ssize_t got = read(fd, buffer + used, size - 1 - used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (got == 0)
			break;
		used += (size_t)got;
	}
	buffer[used] = '\0';
	return (ssize_t)used;
}

struct reading {
	int directory;
	const char *path;
	char *buffer;
	size_t size;
	ssize_t got;
};

/* Some of these are judged, or have zeros for who may not know, at each read. */
static void read_one(void *context)
{
	struct reading *reading = context;
	reading->got = read_here(reading->directory, reading->path, reading->buffer, reading->size);
}

ssize_t proc_read(int directory, const char *path, char *buffer, size_t size)
{
	struct reading reading = {directory, path, buffer, size, -1};
	errand_run(read_one, &reading);
	return reading.got;
}

bool proc_says_ended(int os_errno)
{
	return os_errno == ENOENT || os_errno == ESRCH;
}

bool target_state_is_end(char state)
{
	return state == 'Z' || state == 'X' || state == 'x';
}

void proc_living_path(const struct target *target, const char *name, char path[64])
{
	pid_t tid = atomic_load(&target->state->living_tid);
	if (tid == target->pid)
		snprintf(path, 64, "%s", name);
	else
		snprintf(path, 64, "task/%d/%s", (int)tid, name);
}

int target_open_proc(const struct target *target, const char *name)
{
	char path[64];
	if (target->core) {
		errno = ENOENT;
		return -1;
	}
	proc_living_path(target, name, path);
	return rights_openat(target->directory, path, O_RDONLY);
}

/* "4242 (a) b) S 1 ...": the name is the process's own choice, so count from the last ")". */
bool proc_parse_stat(const char *text, struct proc_stat *stat)
{
	enum {
		STATE = 3,
		PARENT = 4,
		FLAGS = 9,
		UTIME = 14,
		STIME = 15,
		START_TIME = 22,
		START_CODE = 26,
		START_STACK = 28
	};
	const char *at = strrchr(text, ')');
	if (!at || at[1] != ' ' || !at[2])
		return false;
	*stat = (struct proc_stat){.state = at[2]};
	at += 3;
	for (int field = STATE + 1; field <= START_STACK; field++) {
		char *end;
		uint64_t value = strtoull(at, &end, 10);
		if (end == at)
			return false;
		at = end;
		if (field == PARENT)
			stat->parent = (pid_t)value;
		else if (field == FLAGS)
			stat->kernel_thread = value & PF_KTHREAD;
		else if (field == UTIME || field == STIME)
			stat->cpu_ticks += value;
		else if (field == START_TIME)
			stat->start_time = value;
		else if (field == START_CODE)
			stat->start_code = value;
		else if (field == START_STACK)
			stat->start_stack = value;
	}
	return true;
}
