/* SPDX-License-Identifier: MIT */
/*
 * The threads of a process as /proc/PID/task shows them, and what a blocked one waits in. The looks
 * at one thread run in the pause: they use descriptors that are kept open and allocate nothing.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/errand.h"
#include "base/utf8.h"
#include "target/internal.h"

/* The kernel's own limit of thread numbers (PID_MAX_LIMIT). */
enum { THREADS_LIMIT = 4 * 1024 * 1024, STATUS_SIZE = 8192 };

/*
 * A descriptor is -1 while it is not kept open: the file is opened at each look then. With
 * thousands of threads there may not be enough of them, and some are left for modules and output.
 */
struct target_thread_files {
	const struct target *target;
	pid_t tid;
	int syscall, schedstat;
};

/* ---- the list ---- */

static void cleanup_closedir(DIR **directory)
{
	if (*directory)
		closedir(*directory);
}

static DIR *open_tasks(const struct target *target)
{
	int fd = rights_openat(target->directory, "task", O_RDONLY | O_DIRECTORY);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	if (!directory && fd >= 0)
		close(fd);
	return directory;
}

/* The next thread's number, 0 at the end; errno says whether that is the end (0). */
static pid_t next_task(DIR *directory)
{
	struct dirent *entry;
	errno = 0;
	while ((entry = readdir(directory)))
		if (isdigit((unsigned char)entry->d_name[0]))
			return (pid_t)strtol(entry->d_name, NULL, 10);
	return 0;
}

/* "State:\tS (sleeping)" -> "S (sleeping)...". A newline in the name is shown as "\n". */
static const char *status_field(const char *status, const char *name)
{
	const char *at = strstr(status, name);
	return at ? at + strlen(name) : NULL;
}

/* "4242\t17\t3\n": the innermost namespace comes last. */
static pid_t last_number(const char *text)
{
	pid_t last = 0;
	while (*text && *text != '\n') {
		char *end;
		long value = strtol(text, &end, 10);
		if (end == text)
			break;
		last = (pid_t)value;
		text = end;
	}
	return last;
}

static void copy_name(struct target_thread *thread, const char *bytes, size_t size)
{
	_cleanup_strbuf_ struct strbuf clean;
	strbuf_init(&clean);
	utf8_add_clean(&clean, bytes, size);
	size_t used = clean.size < sizeof(thread->name) ? clean.size : sizeof(thread->name) - 1;
	/* Not in the middle of a character. */
	while (used < clean.size && used > 0 && (clean.text[used] & 0xc0) == 0x80)
		used--;
	memcpy(thread->name, clean.text, used);
	thread->name[used] = '\0';
}

static bool explain_thread(pid_t tid, int os_errno, struct error *error)
{
	if (proc_says_ended(os_errno))
		return error_set(error, ERROR_GONE, "thread %d has ended", (int)tid);
	return error_set_errno(error, os_errno, "cannot look at thread %d", (int)tid);
}

bool target_thread_read(const struct target *target, pid_t tid, struct target_thread *thread,
			struct error *error)
{
	char path[64], text[STATUS_SIZE];
	if (target->core)
		return core_thread_read(target->core, tid, thread) ||
		       explain_thread(tid, ESRCH, error);
	*thread = (struct target_thread){.tid = tid, .namespace_tid = tid, .state = '?'};
	snprintf(path, sizeof(path), "task/%d/comm", (int)tid);
	ssize_t size = proc_read(target->directory, path, text, sizeof(text));
	if (size < 0)
		return explain_thread(tid, errno, error);
	copy_name(thread, text, (size_t)size - (size > 0 && text[size - 1] == '\n'));
	snprintf(path, sizeof(path), "task/%d/status", (int)tid);
	if (proc_read(target->directory, path, text, sizeof(text)) < 0)
		return explain_thread(tid, errno, error);
	const char *state = status_field(text, "\nState:\t");
	const char *numbers = status_field(text, "\nNSpid:\t");
	if (state)
		thread->state = *state;
	pid_t inner = numbers ? last_number(numbers) : 0;
	if (inner > 0)
		thread->namespace_tid = inner;
	return true;
}

pid_t target_thread_tracer(const struct target *target, pid_t tid)
{
	char path[64], text[STATUS_SIZE];
	snprintf(path, sizeof(path), "task/%d/status", (int)tid);
	if (proc_read(target->directory, path, text, sizeof(text)) < 0)
		return 0;
	const char *tracer = status_field(text, "\nTracerPid:\t");
	return tracer ? (pid_t)strtol(tracer, NULL, 10) : 0;
}

pid_t target_process_of(pid_t tid)
{
	char path[32], text[STATUS_SIZE];
	snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	if (proc_read(AT_FDCWD, path, text, sizeof(text)) < 0)
		return tid;
	const char *process = status_field(text, "\nTgid:\t");
	const pid_t pid = process ? (pid_t)strtol(process, NULL, 10) : 0;
	return pid > 0 ? pid : tid;
}

static bool cannot_list(const struct target *target, int os_errno, struct error *error)
{
	return error_set_errno(error, os_errno == ENOENT ? ESRCH : os_errno,
			       "cannot list the threads of process %d", (int)target->pid);
}

/* The first thread may end before the others; its number then no longer leads to the memory. */
static void note_living(const struct target *target, const struct target_thread *threads,
			size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (target_state_is_end(threads[i].state))
			continue;
		atomic_store(&target->state->living_tid, threads[i].tid);
		return;
	}
}

bool target_threads(const struct target *target, struct target_thread **out, size_t *out_count,
		    struct error *error)
{
	__attribute__((cleanup(cleanup_closedir))) DIR *directory = open_tasks(target);
	struct target_thread *threads = NULL;
	size_t count = 0, capacity = 0;
	pid_t tid;
	if (!directory)
		return cannot_list(target, errno, error);
	while (count < THREADS_LIMIT && (tid = next_task(directory))) {
		threads = alloc_room(threads, &capacity, count + 1, sizeof(*threads));
		if (target_thread_read(target, tid, &threads[count], NULL))
			count++;
	}
	if (!count) {
		free(threads);
		return error_set(error, ERROR_GONE, "process %d has ended", (int)target->pid);
	}
	note_living(target, threads, count);
	*out = threads;
	*out_count = count;
	return true;
}

bool target_thread_list(const struct target *target, pid_t **out, size_t *out_count,
			struct error *error)
{
	if (target->core)
		return core_thread_list(target->core, out, out_count);
	__attribute__((cleanup(cleanup_closedir))) DIR *directory = open_tasks(target);
	size_t count = 0, capacity = 0;
	pid_t *tids = NULL, tid;
	if (!directory)
		return cannot_list(target, errno, error);
	while (count < THREADS_LIMIT && (tid = next_task(directory))) {
		tids = alloc_room(tids, &capacity, count + 1, sizeof(*tids));
		tids[count++] = tid;
	}
	const int failure = count < THREADS_LIMIT ? errno : 0;
	if (count && (!failure || proc_says_ended(failure))) {
		*out = tids;
		*out_count = count;
		return true;
	}
	free(tids);
	if (!count && (!failure || proc_says_ended(failure)))
		return error_set(error, ERROR_GONE, "process %d has ended", (int)target->pid);
	return cannot_list(target, failure, error);
}

bool target_find_living_thread(const struct target *target)
{
	__attribute__((cleanup(cleanup_closedir))) DIR *directory = open_tasks(target);
	struct target_thread thread;
	pid_t tid;
	while (directory && (tid = next_task(directory))) {
		if (!target_thread_read(target, tid, &thread, NULL) ||
		    target_state_is_end(thread.state))
			continue;
		atomic_store(&target->state->living_tid, tid);
		return true;
	}
	return false;
}

/* Linux, fs/proc/base.c: proc_task_getattr adds the number of threads to the link count of 2. */
size_t target_thread_count(const struct target *target)
{
	struct stat status;
	if (fstatat(target->directory, "task", &status, 0) < 0 || status.st_nlink < 2)
		return 0;
	return status.st_nlink - 2;
}

/* Linux, Documentation/admin-guide/sysctl/kernel.rst: ns_last_pid; 0: not told. */
static pid_t newest_tid(const struct target *target)
{
	char text[32];
	ssize_t size = pread(target->newest, text, sizeof(text) - 1, 0);
	if (size <= 0)
		return 0;
	text[size] = '\0';
	return (pid_t)strtol(text, NULL, 10);
}

bool target_no_births(const struct target *target, struct target_births *births)
{
	const struct target_births last = *births;
	births->newest = newest_tid(target);
	births->calm = births->newest > 0 && births->newest == last.newest;
	return births->calm && last.calm;
}

/* ---- one thread ---- */

/* Half of the descriptors that this process may have are for threads. */
static bool may_keep(const struct target *target)
{
	return atomic_load(&target->state->kept_files) < target->state->files_limit;
}

/* Asks for as many descriptors as may be had, once. Half of them are for threads. */
static void raise_limit(const struct target *target)
{
	struct rlimit limit;
	if (target->state->files_limit)
		return;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		limit.rlim_cur = limit.rlim_max = 0;
	struct rlimit more = {limit.rlim_max, limit.rlim_max};
	if (limit.rlim_cur < limit.rlim_max && setrlimit(RLIMIT_NOFILE, &more) == 0)
		limit = more;
	target->state->files_limit =
		limit.rlim_cur < 2 * THREADS_LIMIT ? (unsigned)limit.rlim_cur / 2 : THREADS_LIMIT;
}

static int open_look(const struct target_thread_files *files, const char *name)
{
	char path[64];
	snprintf(path, sizeof(path), "task/%d/%s", (int)files->tid, name);
	return rights_open_proc(files->target->directory, path);
}

/* The same, and kept open if it may be. */
static int open_kept(const struct target_thread_files *files, const char *name)
{
	if (!may_keep(files->target))
		return -1;
	int fd = open_look(files, name);
	if (fd >= 0)
		atomic_fetch_add(&files->target->state->kept_files, 1);
	return fd;
}

static void close_kept(const struct target_thread_files *files, int fd)
{
	if (fd < 0)
		return;
	close(fd);
	atomic_fetch_sub(&files->target->state->kept_files, 1);
}

bool target_thread_files_open(const struct target *target, pid_t tid,
			      struct target_thread_files **out, struct error *error)
{
	struct target_thread_files *files = alloc_zeroed(1, sizeof(*files));
	*files = (struct target_thread_files){target, tid, -1, -1};
	*out = files;
	if (target->core)
		return true;
	raise_limit(target);
	int fd = open_look(files, "syscall");
	if (fd >= 0 && may_keep(target)) {
		files->syscall = fd;
		atomic_fetch_add(&target->state->kept_files, 1);
	} else if (fd >= 0) {
		close(fd);
	} else {
		int os_errno = errno;
		free(files);
		if (proc_says_ended(os_errno))
			return error_set(error, ERROR_GONE, "thread %d has ended", (int)tid);
		return error_set_errno(error, os_errno, "cannot open /proc/%d/task/%d/syscall",
				       (int)target->pid, (int)tid);
	}
	return true;
}

void target_thread_files_close(struct target_thread_files *files)
{
	if (!files)
		return;
	close_kept(files, files->syscall);
	close_kept(files, files->schedstat);
	free(files);
}

/* By the descriptor that is kept, else by one for this look. */
static bool read_look(const struct target_thread_files *files, int kept, const char *name,
		      char *text, size_t size, struct error *error)
{
	_cleanup_close_ int own = kept < 0 ? open_look(files, name) : -1;
	int fd = kept < 0 ? own : kept;
	ssize_t got = fd < 0 ? -1 : pread(fd, text, size - 1, 0);
	if (fd < 0 && !proc_says_ended(errno))
		return error_set_errno(error, errno, "cannot look at thread %d", (int)files->tid);
	if (got < 0 && fd >= 0)
		return error_set_errno(error, errno, "cannot look at thread %d", (int)files->tid);
	if (got <= 0)
		return error_set(error, ERROR_GONE, "thread %d has ended", (int)files->tid);
	text[got] = '\0';
	return true;
}

struct reading {
	const struct target_thread_files *files;
	int kept;
	const char *name;
	char *text;
	size_t size;
	struct error *error;
	bool well;
};

static void read_one(void *context)
{
	struct reading *of = context;
	of->well = read_look(of->files, of->kept, of->name, of->text, of->size, of->error);
}

/* Some of these are judged at each read. */
bool thread_read_look(const struct target_thread_files *files, int kept, const char *name,
		      char *text, size_t size, struct error *error)
{
	struct reading reading = {files, kept, name, text, size, error, false};
	errand_run(read_one, &reading);
	return reading.well;
}

/* Reads " 0x1f" at *at and moves behind it. */
static bool next_hex(const char **at, uint64_t *value)
{
	char *end;
	if (**at != ' ')
		return false;
	*value = strtoull(*at, &end, 16);
	if (end == *at)
		return false;
	*at = end;
	return true;
}

/*
 * "running\n", "-1 0x7ffd2c1e 0x7f0c21\n" (blocked, not in a call: SP, PC), "-1 0x0 0x0\n" (ended,
 * as a main thread may be before the others: it has no stack) or "202 0x55d0 0x189 0x0 0x0 0x0
 * 0xffffffff 0x7ffd2c1e 0x7f0c21\n" (six arguments, SP, PC).
 */
static bool parse_wait(const char *text, struct target_wait *wait)
{
	memset(wait, 0, sizeof(*wait));
	if (strncmp(text, "running", 7) == 0) {
		wait->running = true;
		wait->number = -1;
		return true;
	}
	char *end;
	wait->number = strtol(text, &end, 10);
	if (end == text)
		return false;
	const char *at = end;
	for (size_t i = 0; wait->number != -1 && i < 6; i++)
		if (!next_hex(&at, &wait->arguments[i]))
			return false;
	return next_hex(&at, &wait->sp) && next_hex(&at, &wait->pc);
}

char target_thread_state(const struct target_thread_files *files)
{
	char text[TARGET_STAT_SIZE];
	struct proc_stat stat;
	struct error error;
	if (!thread_read_look(files, -1, "stat", text, sizeof(text), &error))
		return error.kind == ERROR_GONE ? 0 : '?';
	return proc_parse_stat(text, &stat) ? stat.state : 0;
}

bool target_thread_wait(const struct target_thread_files *files, struct target_wait *wait,
			struct error *error)
{
	char text[256];
	struct target_wait found;
	if (files->target->core)
		return core_thread_wait(files->target->core, files->tid, wait) ||
		       error_set(error, ERROR_GONE, "no thread %d", (int)files->tid);
	if (!thread_read_look(files, files->syscall, "syscall", text, sizeof(text), error))
		return false;
	if (!parse_wait(text, &found))
		return error_set(error, ERROR_CORRUPT, "thread %d: cannot understand \"%.40s\"",
				 (int)files->tid, text);
	if (!found.running && found.number == -1 && found.sp == 0 && found.pc == 0)
		return error_set(error, ERROR_GONE, "thread %d has ended", (int)files->tid);
	/*
	 * Woken, but not yet on a CPU (TASK_WAKING: for some 20 us after each of our stops, when
	 * its CPU went idle meanwhile): not blocked in anything.
	 */
	if (!found.running && found.number == -1 && target_thread_state(files) == 'R')
		found = (struct target_wait){.running = true, .number = -1};
	*wait = found;
	return true;
}

bool target_thread_keeps_runs(struct target_thread_files *files)
{
	if (files->schedstat < 0)
		files->schedstat = open_kept(files, "schedstat");
	return files->schedstat >= 0;
}

/* "time_on_cpu time_waiting times_run\n" */
enum { SCHEDSTAT_CPU_NS, SCHEDSTAT_WAITED_NS, SCHEDSTAT_RUNS, SCHEDSTAT_COUNT };

static bool read_schedstat(struct target_thread_files *files, uint64_t values[SCHEDSTAT_COUNT],
			   struct error *error)
{
	char text[128];
	target_thread_keeps_runs(files);
	if (!thread_read_look(files, files->schedstat, "schedstat", text, sizeof(text), error))
		return false;
	const char *at = text;
	for (int i = 0; i < SCHEDSTAT_COUNT; i++) {
		char *end;
		values[i] = strtoull(at, &end, 10);
		if (end == at)
			return error_set(error, ERROR_CORRUPT, "thread %d: bad schedstat",
					 (int)files->tid);
		at = end;
	}
	return true;
}

bool target_thread_runs(struct target_thread_files *files, uint64_t *runs, struct error *error)
{
	uint64_t values[SCHEDSTAT_COUNT];
	if (!read_schedstat(files, values, error))
		return false;
	*runs = values[SCHEDSTAT_RUNS];
	return true;
}

bool target_thread_cpu_ns(struct target_thread_files *files, uint64_t *used_ns, struct error *error)
{
	uint64_t values[SCHEDSTAT_COUNT];
	if (!read_schedstat(files, values, error))
		return false;
	*used_ns = values[SCHEDSTAT_CPU_NS];
	return true;
}
