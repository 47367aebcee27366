/* SPDX-License-Identifier: MIT */
/*
 * One process: who it is, whether it is still the same, its memory and the files it sees. Relies
 * on a descriptor of /proc/PID, which goes dead with the process instead of following its number
 * to another one. What a hostile process offers (links, fifos, devices) is never followed.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/errand.h"
#include "base/parser_thread.h"
#include "base/table.h"
#include "base/utf8.h"
#include "files/foreign_file.h"
#include "target/internal.h"

enum { AUXV_LIMIT = 1024, COMMAND_LINE_LIMIT = 4096, PATH_LIMIT = 4096 };
enum { STATUS_LIMIT = 4096 };

/* False with errno: ESRCH also where it says nothing. */
static bool read_stat_at(const struct target *target, const char *path, struct proc_stat *stat)
{
	char text[TARGET_STAT_SIZE];
	const ssize_t size = proc_read(target->directory, path, text, sizeof(text));
	if (size >= 0)
		errno = ESRCH;
	return size > 0 && proc_parse_stat(text, stat);
}

static bool read_stat(const struct target *target, struct proc_stat *stat)
{
	return read_stat_at(target, "stat", stat);
}

/* With what it says of the memory: a first thread that has ended before others has none any more.
 */
static bool read_memory_stat(const struct target *target, struct proc_stat *stat)
{
	char path[64];
	proc_living_path(target, "stat", path);
	return read_stat_at(target, path, stat) && !target_state_is_end(stat->state);
}

/* ---- identity ---- */

/* "python3", "a b" -> "python3 a b"; a kernel thread has none: "[kworker/0:1]". */
static char *read_command_line(const struct target *target)
{
	const int directory = target->directory;
	char text[COMMAND_LINE_LIMIT], path[64];
	ssize_t size = proc_read(directory, "cmdline", text, sizeof(text));
	if (size <= 0) { /* the first thread has ended */
		proc_living_path(target, "cmdline", path);
		size = proc_read(directory, path, text, sizeof(text));
	}
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
	proc_living_path(target, "exe", path);
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
		return proc_says_ended(errno)
			       ? error_set(error, ERROR_GONE, "no process %d", (int)target->pid)
			       : error_set_errno(error, errno, "cannot read process %d",
						 (int)target->pid);
	if (target_state_is_end(stat.state) && !target_find_living_thread(target))
		return error_set(error, ERROR_GONE, "process %d has ended (a zombie)",
				 (int)target->pid);
	target->start_time = stat.start_time;
	if (!read_executable(target, error))
		return false;
	target->command_line = read_command_line(target);
	target_user(target);
	target->root = openat(target->directory, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	target->newest = open("/proc/sys/kernel/ns_last_pid", O_RDONLY | O_CLOEXEC);
	return true;
}

/*
 * Some of what is said of a process may be read by whoever may not read its memory (Yama; a seccomp
 * filter).
 */
static bool may_read_memory(const struct target *target, struct error *error)
{
	if (memory_may_read(target))
		return true;
	return error_set_errno(error, errno, "cannot read the memory of process %d",
			       (int)target->pid);
}

/* What it waits in is its user's to read, and root's: CAP_SYS_PTRACE does not open that. */
static bool may_see_calls(const struct target *target, struct error *error)
{
	char path[64];
	snprintf(path, sizeof(path), "task/%d/syscall",
		 (int)atomic_load(&target->state->living_tid));
	_cleanup_close_ int fd = rights_open_proc(target->directory, path);
	if (fd >= 0 || errno != EACCES)
		return true;
	return error_set_errno(error, errno, "cannot open /proc/%d/%s", (int)target->pid, path);
}

static bool open_here(pid_t pid, struct target **out, struct error *error)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	int directory = pid > 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (directory < 0 && pid > 0 && errno == ENOENT && kill(pid, 0) < 0 && errno == EPERM)
		return error_set_errno(error, EPERM, "cannot see process %d in /proc", (int)pid);
	if (directory < 0 && (pid <= 0 || errno == ENOENT || errno == ESRCH))
		return error_set(error, ERROR_GONE, "no process %d", (int)pid);
	if (directory < 0)
		return error_set_errno(error, errno, "cannot open %s", path);
	struct target *target = alloc_zeroed(1, sizeof(*target));
	target->pid = pid;
	target->directory = directory;
	target->root = target->newest = -1;
	target->state = alloc_zeroed(1, sizeof(*target->state));
	atomic_store(&target->state->living_tid, pid);
	atomic_store(&target->state->user, (uid_t)-1);
	memory_open(target);
	if (!fill_target(target, error) || !may_read_memory(target, error) ||
	    !may_see_calls(target, error)) {
		target_free(target);
		return false;
	}
	*out = target;
	return true;
}

struct opening {
	pid_t pid;
	struct target **out;
	struct error *error;
	bool well;
};

static void open_one(void *context)
{
	struct opening *opening = context;
	opening->well = open_here(opening->pid, opening->out, opening->error);
}

bool target_open(pid_t pid, struct target **out, struct error *error)
{
	struct opening opening = {pid, out, error, false};
	errand_run(open_one, &opening);
	return opening.well;
}

static void release(struct target *target)
{
	if (target->core)
		core_free(target->core);
	if (target->directory >= 0)
		close(target->directory);
	if (target->root >= 0)
		close(target->root);
	if (target->newest >= 0)
		close(target->newest);
	memory_close(target);
	free(target->command_line);
	free(target->executable);
}

void target_free(struct target *target)
{
	if (!target)
		return;
	release(target);
	free(target->state);
	free(target);
}

/* What is counted in the state is ours, and stays. */
void target_replace(struct target *target, struct target *fresh)
{
	struct target_state *const state = target->state;
	release(target);
	*target = *fresh;
	target->state = state;
	atomic_store(&state->living_tid, atomic_load(&fresh->state->living_tid));
	atomic_store(&state->user, atomic_load(&fresh->state->user));
	atomic_store(&state->user_seen_ns, 0);
	memory_replace(&state->pages, &fresh->state->pages);
	free(fresh->state);
	free(fresh);
}

static void follow_exec(void *context)
{
	struct target *target = context;
	struct error ignored; /* it may have ended meanwhile: then the old names stand */
	memory_follow_exec(target);
	if (!read_executable(target, &ignored))
		return;
	free(target->command_line);
	target->command_line = read_command_line(target);
}

void target_follow_exec(struct target *target)
{
	errand_run(follow_exec, target);
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

bool target_alive(const struct target *target)
{
	struct proc_stat stat;
	if (!read_stat(target, &stat))
		return !proc_says_ended(errno);
	if (stat.start_time != target->start_time)
		return false;
	return !target_state_is_end(stat.state) || target_find_living_thread(target);
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
	proc_living_path(target, "auxv", path);
	ssize_t size = proc_read(target->directory, path, vector, sizeof(vector));
	*random = 0;
	for (ssize_t at = 0; at + (ssize_t)sizeof(entry) <= size; at += sizeof(entry)) {
		memcpy(&entry, vector + at, sizeof(entry));
		if (entry.a_type == AT_RANDOM)
			return memory_read_u64(&target->memory, entry.a_un.a_val, random, &error) ||
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
	proc_living_path(target, "exe", path);
	if (!read_memory_stat(target, &stat) || fstatat(target->directory, path, &file, 0) < 0 ||
	    !read_random(target, &random))
		return error_set(error, ERROR_GONE, "process %d has ended", (int)target->pid);
	*key = hash_pair(hash_pair(file.st_dev, file.st_ino),
			 hash_pair(stat.start_code, hash_pair(stat.start_stack, random)));
	return true;
}

remote_addr target_start_stack(const struct target *target)
{
	struct proc_stat stat;
	if (target->core)
		return core_start_stack(target->core);
	return read_memory_stat(target, &stat) ? stat.start_stack : 0;
}

/* ---- files as the target sees them ---- */

/* "\nUid:\treal effective saved files": the last one is who opens its files. */
static bool read_user(const struct target *target, uid_t *user)
{
	char path[64], text[STATUS_LIMIT];
	unsigned ids[4];
	proc_living_path(target, "status", path);
	const char *line = proc_read(target->directory, path, text, sizeof(text)) > 0
				   ? strstr(text, "\nUid:\t")
				   : NULL;
	if (!line || sscanf(line, "\nUid:\t%u %u %u %u", &ids[0], &ids[1], &ids[2], &ids[3]) != 4)
		return false;
	*user = ids[3];
	return true;
}

/* Of the modules that are opened one after the other it is asked once: the kernel writes a whole
 * page for the answer. Who has no rights and nobody who has may not ask: what was seen last holds.
 */
uid_t target_user(const struct target *target)
{
	static const uint64_t valid_ns = 20000000;
	uid_t user;
	if (target->core)
		return core_files(target).user;
	struct target_state *state = target->state;
	const uint64_t now = clock_now_ns(), seen = atomic_load(&state->user_seen_ns);
	const bool valid = seen && (now - seen <= valid_ns || parser_thread_is_alone());
	if (!valid && read_user(target, &user)) {
		const bool changed = atomic_exchange(&state->user, user) != user;
		atomic_store(&state->user_seen_ns, now); /* by then others find it */
		if (changed)
			foreign_file_introduce(target->directory);
	}
	return atomic_load(&state->user);
}

int target_directory(const struct target *target)
{
	return target->directory;
}

uint64_t target_start_time(const struct target *target)
{
	return target->start_time;
}

struct foreign_root target_files(const struct target *target)
{
	if (target->core)
		return core_files(target);
	return (struct foreign_root){.fd = target->root >= 0 ? target->root : FOREIGN_NOWHERE,
				     .user = target_user(target)};
}

struct comparison {
	const struct target *target;
	bool same;
};

static void compare_mounts(void *context)
{
	struct comparison *comparison = context;
	char path[64];
	struct stat theirs, ours;
	proc_living_path(comparison->target, "ns/mnt", path);
	comparison->same = fstatat(comparison->target->directory, path, &theirs, 0) == 0 &&
			   stat("/proc/self/ns/mnt", &ours) == 0 && theirs.st_ino == ours.st_ino;
}

bool target_shares_mounts(const struct target *target)
{
	struct comparison comparison = {.target = target};
	if (!target->core)
		errand_run(compare_mounts, &comparison);
	return comparison.same;
}

int target_open_file(const struct target *target, const char *path, struct error *error)
{
	const int fd = foreign_file_open(target_files(target), path);
	if (fd < 0)
		error_set_errno(error, errno, "cannot open %s of process %d", path,
				(int)target->pid);
	return fd;
}
