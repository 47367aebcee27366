/* SPDX-License-Identifier: MIT */
/*
 * One process: who it is, whether it is still the same, its memory and the files it sees. Relies
 * on a descriptor of /proc/PID, which goes dead with the process instead of following its number
 * to another one. What a hostile process offers (links, fifos, devices) is never followed.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/table.h"
#include "base/utf8.h"
#include "target/internal.h"

enum { AUXV_LIMIT = 1024, COMMAND_LINE_LIMIT = 4096, PATH_LIMIT = 4096, RANGES_LIMIT = 1024 };

ssize_t proc_read(int directory, const char *path, char *buffer, size_t size)
{
	_cleanup_close_ int fd = openat(directory, path, O_RDONLY | O_CLOEXEC);
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

/* "4242 (a) b) S 1 ...": the name is the process's own choice, so count from the last ")". */
bool proc_parse_stat(const char *text, struct proc_stat *stat)
{
	enum { STATE = 3, FLAGS = 9, START_TIME = 22, START_CODE = 26, START_STACK = 28 };
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
		if (field == FLAGS)
			stat->kernel_thread = value & PF_KTHREAD;
		else if (field == START_TIME)
			stat->start_time = value;
		else if (field == START_CODE)
			stat->start_code = value;
		else if (field == START_STACK)
			stat->start_stack = value;
	}
	return true;
}

static bool read_stat(const struct target *target, struct proc_stat *stat)
{
	char text[TARGET_STAT_SIZE];
	return proc_read(target->directory, "stat", text, sizeof(text)) > 0 &&
	       proc_parse_stat(text, stat);
}

static bool ended(char state)
{
	return state == 'Z' || state == 'X' || state == 'x';
}

/* ---- memory ---- */

static bool read_memory(const struct memory_reader *reader, remote_addr address, void *buffer,
			size_t size, struct error *error)
{
	const struct target *target = (const struct target *)(const void *)reader;
	pid_t tid = atomic_load_explicit(&target->state->living_tid, memory_order_relaxed);
	struct iovec local = {buffer, size};
	struct iovec remote = {(void *)(uintptr_t)address, size};
	if (!size)
		return true;
	ssize_t got = process_vm_readv(tid, &local, 1, &remote, 1, 0);
	if (got == (ssize_t)size)
		return true;
	return error_set_errno(error, got < 0 ? errno : EFAULT,
			       "cannot read %zu bytes at 0x%llx of process %d", size,
			       (unsigned long long)address, (int)target->pid);
}

const struct memory_reader *target_memory(const struct target *target)
{
	return &target->memory;
}

ssize_t target_read_ranges(const struct target *target, const struct target_range *ranges,
			   size_t count, void *buffer)
{
	struct iovec remote[RANGES_LIMIT];
	size_t total = 0;
	if (count > RANGES_LIMIT) {
		errno = EINVAL;
		return -1;
	}
	for (size_t i = 0; i < count; i++) {
		remote[i] = (struct iovec){(void *)(uintptr_t)ranges[i].address, ranges[i].size};
		total += ranges[i].size;
	}
	struct iovec local = {buffer, total};
	pid_t tid = atomic_load_explicit(&target->state->living_tid, memory_order_relaxed);
	return process_vm_readv(tid, &local, 1, remote, count, 0);
}

/* ---- identity ---- */

/* "python3", "a b" -> "python3 a b"; a kernel thread has none: "[kworker/0:1]". */
static char *read_command_line(int directory)
{
	char text[COMMAND_LINE_LIMIT];
	ssize_t size = proc_read(directory, "cmdline", text, sizeof(text));
	while (size > 0 && text[size - 1] == '\0')
		size--;
	for (ssize_t i = 0; i < size; i++)
		if (text[i] == '\0')
			text[i] = ' ';
	_cleanup_strbuf_ struct strbuf clean;
	strbuf_init(&clean);
	if (size > 0) {
		utf8_add_clean(&clean, text, (size_t)size);
	} else if ((size = proc_read(directory, "comm", text, sizeof(text))) > 0) {
		strbuf_add_char(&clean, '[');
		utf8_add_clean(&clean, text, (size_t)size - (text[size - 1] == '\n'));
		strbuf_add_char(&clean, ']');
	}
	return alloc_string(clean.text);
}

/* "exe", or "task/TID/exe" when the first thread has ended. */
static void living_path(const struct target *target, const char *name, char path[64])
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
	living_path(target, name, path);
	return openat(target->directory, path, O_RDONLY | O_CLOEXEC);
}

/* It never had one, or has given it up: the memory goes first when a process ends. */
static bool explain_no_program(const struct target *target, struct error *error)
{
	struct proc_stat stat;
	if (read_stat(target, &stat) && stat.kernel_thread)
		return error_set(error, ERROR_UNSUPPORTED,
				 "process %d has no program of its own (a kernel thread)",
				 (int)target->pid);
	return error_set(error, ERROR_GONE, "process %d has ended", (int)target->pid);
}

static bool read_executable(struct target *target, struct error *error)
{
	char path[64], link[PATH_LIMIT];
	living_path(target, "exe", path);
	ssize_t size = readlinkat(target->directory, path, link, sizeof(link) - 1);
	if (size < 0 && errno == ENOENT)
		return explain_no_program(target, error);
	if (size < 0)
		return error_set_errno(error, errno, "cannot read process %d", (int)target->pid);
	link[size] = '\0';
	free(target->executable);
	target->executable = alloc_string(link);
	return true;
}

static bool fill_target(struct target *target, struct error *error)
{
	struct proc_stat stat;
	if (!read_stat(target, &stat))
		return error_set(error, ERROR_GONE, "no process %d", (int)target->pid);
	if (ended(stat.state) && !target_find_living_thread(target))
		return error_set(error, ERROR_GONE, "process %d has ended (a zombie)",
				 (int)target->pid);
	target->start_time = stat.start_time;
	if (!read_executable(target, error))
		return false;
	target->command_line = read_command_line(target->directory);
	target->root = openat(target->directory, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	target->newest = open("/proc/sys/kernel/ns_last_pid", O_RDONLY | O_CLOEXEC);
	return true;
}

bool target_open(pid_t pid, struct target **out, struct error *error)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	int directory = pid > 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (directory < 0 && (pid <= 0 || errno == ENOENT || errno == ESRCH))
		return error_set(error, ERROR_GONE, "no process %d", (int)pid);
	if (directory < 0)
		return error_set_errno(error, errno, "cannot open %s", path);
	struct target *target = alloc_zeroed(1, sizeof(*target));
	target->memory.read = read_memory;
	target->pid = pid;
	target->directory = directory;
	target->root = target->newest = -1;
	target->state = alloc_zeroed(1, sizeof(*target->state));
	atomic_store(&target->state->living_tid, pid);
	if (!fill_target(target, error)) {
		target_free(target);
		return false;
	}
	*out = target;
	return true;
}

void target_free(struct target *target)
{
	if (!target)
		return;
	close(target->directory);
	if (target->root >= 0)
		close(target->root);
	if (target->newest >= 0)
		close(target->newest);
	free(target->command_line);
	free(target->executable);
	free(target->state);
	free(target);
}

void target_follow_exec(struct target *target)
{
	struct error ignored; /* it may have ended meanwhile: then the old names stand */
	if (!read_executable(target, &ignored))
		return;
	free(target->command_line);
	target->command_line = read_command_line(target->directory);
}

pid_t target_pid(const struct target *target)
{
	return target->pid;
}

const char *target_command_line(const struct target *target)
{
	return target->command_line;
}

const char *target_executable(const struct target *target)
{
	return target->executable;
}

int target_root(const struct target *target)
{
	return target->root;
}

bool target_alive(const struct target *target)
{
	struct proc_stat stat;
	if (!read_stat(target, &stat) || stat.start_time != target->start_time)
		return false;
	return !ended(stat.state) || target_find_living_thread(target);
}

/*
 * The bytes that AT_RANDOM of the auxiliary vector points to: new at each exec, also where
 * addresses are not random. 0 where the vector may be read, but not the memory. False: there is no
 * vector.
 */
static bool read_random(const struct target *target, uint64_t *random)
{
	char path[64], vector[AUXV_LIMIT + 1];
	Elf64_auxv_t entry;
	struct error error;
	living_path(target, "auxv", path);
	ssize_t size = proc_read(target->directory, path, vector, sizeof(vector));
	*random = 0;
	for (ssize_t at = 0; at + (ssize_t)sizeof(entry) <= size; at += sizeof(entry)) {
		memcpy(&entry, vector + at, sizeof(entry));
		if (entry.a_type == AT_RANDOM)
			return memory_read_u64(target_memory(target), entry.a_un.a_val, random,
					       &error) ||
			       error.kind == ERROR_DENIED;
	}
	return false;
}

bool target_image_key(const struct target *target, uint64_t *key, struct error *error)
{
	char path[64];
	struct proc_stat stat;
	struct stat file;
	uint64_t random;
	living_path(target, "exe", path);
	if (!read_stat(target, &stat) || fstatat(target->directory, path, &file, 0) < 0 ||
	    !read_random(target, &random))
		return error_set(error, ERROR_GONE, "process %d has ended", (int)target->pid);
	*key = hash_pair(hash_pair(file.st_dev, file.st_ino),
			 hash_pair(stat.start_code, hash_pair(stat.start_stack, random)));
	return true;
}

remote_addr target_start_stack(const struct target *target)
{
	struct proc_stat stat;
	return read_stat(target, &stat) ? stat.start_stack : 0;
}

/* ---- files as the target sees them ---- */

/*
 * Looks before it opens: an O_PATH descriptor touches neither fifo nor device. The second open is
 * of the very file that was looked at.
 */
static int reopen_regular(int fd)
{
	_cleanup_close_ int found = fd;
	struct stat status;
	char path[40];
	if (found < 0 || fstat(found, &status) < 0)
		return -1;
	if (!S_ISREG(status.st_mode)) {
		errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
		return -1;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", found);
	return open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

int proc_open_regular(int directory, const char *path)
{
	return reopen_regular(openat(directory, path, O_PATH | O_CLOEXEC));
}

static bool same_root(int root)
{
	struct stat theirs, ours;
	return fstat(root, &theirs) == 0 && stat("/", &ours) == 0 && theirs.st_dev == ours.st_dev &&
	       theirs.st_ino == ours.st_ino;
}

int target_open_file(const struct target *target, const char *path, struct error *error)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	int fd = (int)syscall(SYS_openat2, target->root, path, &how, sizeof(how));
	/* Linux before 5.6, or a seccomp filter that does not know the call. */
	if (fd < 0 && (errno == ENOSYS || errno == EPERM) && same_root(target->root))
		fd = open(path, O_PATH | O_CLOEXEC);
	fd = reopen_regular(fd);
	if (fd < 0)
		error_set_errno(error, errno, "cannot open %s of process %d", path,
				(int)target->pid);
	return fd;
}
