/* SPDX-License-Identifier: MIT */
/*
 * The processes that a process has started, and those started by them: from
 * /proc/PID/task/TID/children
 * ("4243 4250 ", the children that this thread has made), without a look at any other process.
 * Where the kernel does not say (CONFIG_PROC_CHILDREN), there are none.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arrays.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "target/descendants.h"
#include "target/internal.h"

enum { THREADS_MOST = 4096, LIST_SIZE = 4 << 10, PATH_SIZE = 64 };

static bool contains(const pid_t *pids, size_t count, pid_t pid)
{
	for (size_t i = 0; i < count; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

/* The whole numbers of a piece of the list, behind those that are known. Returns where they end: a
 * number that no space follows may go on in the next piece. */
static const char *add_numbers(const char *list, pid_t *found, size_t *count, size_t most)
{
	char *end;
	for (;;) {
		const long pid = strtol(list, &end, 10);
		if (end == list || pid <= 0 || *end != ' ')
			return list;
		if (*count < most && !contains(found, *count, (pid_t)pid))
			found[(*count)++] = (pid_t)pid;
		list = end + 1;
	}
}

/* What one thread has made. The kernel gives some of a long list at each read. */
static size_t add_children(int tasks, const char *tid, pid_t *found, size_t count, size_t most)
{
	char path[PATH_SIZE], list[LIST_SIZE];
	snprintf(path, sizeof(path), "%.20s/children", tid);
	_cleanup_close_ int fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
	size_t kept = 0;
	while (fd >= 0 && count < most && kept < sizeof(list) - 1) {
		const ssize_t got = read(fd, list + kept, sizeof(list) - 1 - kept);
		if (got <= 0)
			break;
		list[kept + (size_t)got] = '\0';
		const char *rest = add_numbers(list, found, &count, most);
		kept = strlen(rest);
		memmove(list, rest, kept);
	}
	return count;
}

static size_t add_children_of(pid_t pid, pid_t *found, size_t count, size_t most)
{
	char path[PATH_SIZE];
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	DIR *tasks = opendir(path);
	if (!tasks)
		return count;
	size_t threads = 0;
	for (struct dirent *task; threads < THREADS_MOST && (task = readdir(tasks)); threads++)
		if (task->d_name[0] != '.')
			count = add_children(dirfd(tasks), task->d_name, found, count, most);
	closedir(tasks);
	return count;
}

size_t target_children(pid_t pid, pid_t *found, size_t most)
{
	return add_children_of(pid, found, 0, most);
}

size_t target_descendants(pid_t pid, pid_t *found, size_t most)
{
	size_t count = add_children_of(pid, found, 0, most);
	for (size_t i = 0; i < count && count < most; i++)
		count = add_children_of(found[i], found, count, most);
	return count;
}

size_t target_process_tree(pid_t pid, pid_t *found, size_t most)
{
	size_t count = most ? 1 : 0;
	if (count)
		found[0] = pid;
	for (size_t i = 0; i < count && count < most; i++) {
		const size_t all = add_children_of(found[i], found, count, most);
		/* [those after it][its children] -> [its children][those after it] */
		array_reverse(found + i + 1, count - i - 1, sizeof(*found));
		array_reverse(found + count, all - count, sizeof(*found));
		array_reverse(found + i + 1, all - i - 1, sizeof(*found));
		count = all;
	}
	return count;
}

bool target_knows_children(void)
{
	return access("/proc/thread-self/children", R_OK) == 0;
}

/* "python3\0worker.py\0" -> "python3 worker.py"; of one that has no such text, its name. */
static void read_command(int folder, struct target_other *process)
{
	char bytes[sizeof(process->command)];
	struct strbuf clean;
	strbuf_init(&clean);
	ssize_t size = proc_read(folder, "cmdline", bytes, sizeof(bytes));
	if (size <= 0)
		size = proc_read(folder, "comm", bytes, sizeof(bytes));
	while (size > 0 && (bytes[size - 1] == '\0' || bytes[size - 1] == '\n'))
		size--;
	utf8_add_clean(&clean, bytes, size > 0 ? (size_t)size : 0);
	snprintf(process->command, sizeof(process->command), "%s", clean.text ? clean.text : "");
	strbuf_release(&clean);
}

bool target_other_read(pid_t pid, struct target_other *process)
{
	char path[PATH_SIZE], text[TARGET_STAT_SIZE];
	struct proc_stat stat;
	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return false;
	const bool well =
		proc_read(folder, "stat", text, sizeof(text)) > 0 && proc_parse_stat(text, &stat);
	if (well) {
		const long ticks = sysconf(_SC_CLK_TCK);
		const uint64_t tick_ns = ticks > 0 ? UINT64_C(1000000000) / (uint64_t)ticks : 0;
		*process = (struct target_other){.pid = pid,
						 .start_time = stat.start_time,
						 .cpu_ns = stat.cpu_ticks * tick_ns};
		read_command(folder, process);
	}
	close(folder);
	return well;
}
