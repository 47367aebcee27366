/* SPDX-License-Identifier: MIT */
/*
 * The target's memory. To read a page that is not there makes the kernel get it for the target, and
 * that may never end (base/guard.h). Guarded work reads at once, until some page has not come: it
 * is killed then, and from that time on reads only pages that are there. The rest of us looks
 * first (/proc/PID/pagemap, which gets no page), and leaves those that are not there to a guarded
 * process. Where the pages cannot be asked for, all is read at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/errand.h"
#include "base/guard.h"
#include "target/internal.h"

enum {
	RANGES_LIMIT = 1024,
	ENTRIES = 512,	/* pages that are asked for at a time */
	MOST_STUCK = 4, /* reads to be given up, each after LIMIT_NS */
};

/* For a page, where nobody stands still: the first one, and when one has not come. */
static const uint64_t PATIENCE_NS = 300000000, LIMIT_NS = 60000000;
static const uint64_t LOST_NS = 1000000000; /* until one that was killed is left alone */
static const uint64_t PRESENT = (uint64_t)1 << 63;

void target_distrust_memory(const struct target *target)
{
	atomic_store(&target->state->pages.distrusted, true);
}

void target_forgo_memory(const struct target *target)
{
	atomic_store(&target->state->pages.stuck, MOST_STUCK);
	target_distrust_memory(target);
}

static bool is_distrusted(const struct target *target)
{
	return atomic_load_explicit(&target->state->pages.distrusted, memory_order_relaxed);
}

uint64_t target_withheld_reads(const struct target *target)
{
	return target->state ? atomic_load(&target->state->pages.withheld) : 0;
}

/* ---- which pages are there ---- */

static int open_new(const struct target *target, const char *name)
{
	char path[64];
	proc_living_path(target, name, path);
	return rights_open_proc(target->directory, path);
}

static int open_once(const struct target *target, _Atomic int *kept, const char *name)
{
	int fd = atomic_load(kept), none = -1;
	if (fd >= 0)
		return fd;
	fd = open_new(target, name);
	if (fd < 0 || atomic_compare_exchange_strong(kept, &none, fd))
		return fd;
	close(fd); /* another thread was faster */
	return none;
}

/* The descriptor keeps its number, whoever uses it at the moment. */
static void open_again(const struct target *target, const _Atomic int *kept, const char *name)
{
	const int before = atomic_load(kept);
	if (before < 0)
		return;
	const int fd = open_new(target, name);
	if (fd < 0)
		return;
	dup3(fd, before, O_CLOEXEC);
	close(fd);
}

void memory_follow_exec(const struct target *target)
{
	open_again(target, &target->state->pages.map, "pagemap");
	open_again(target, &target->state->pages.memory, "mem");
}

/* -1: not known. */
static ssize_t read_entries(const struct target *target, remote_addr address, uint64_t *entries,
			    size_t count)
{
	const int map = open_once(target, &target->state->pages.map, "pagemap");
	const off_t offset = (off_t)(address / TARGET_PAGE * sizeof(*entries));
	ssize_t got = -1;
	for (int i = 0; map >= 0 && i < 2; i++) {
		guard_begin_wait();
		got = pread(map, entries, count * sizeof(*entries), offset);
		guard_end_wait();
		if (got != 0)
			break;
		memory_follow_exec(target);
	}
	return got > 0 ? got / (ssize_t)sizeof(*entries) : -1;
}

/*
 * One that is not there: because nothing is mapped, which a read is told at once? The kernel looks
 * for where a page is, and gets none; where it cannot be asked, there may be something.
 */
struct place {
	const struct target *target;
	remote_addr address;
	bool is_hole;
};

static void ask_for_page(void *context)
{
	struct place *place = context;
	const pid_t tid =
		atomic_load_explicit(&place->target->state->living_tid, memory_order_relaxed);
	void *page = (void *)(uintptr_t)(place->address / TARGET_PAGE * TARGET_PAGE);
	int status = 0;
	guard_begin_wait();
	const long failure = syscall(SYS_move_pages, tid, 1UL, &page, NULL, &status, 0);
	guard_end_wait();
	place->is_hole = failure == 0 && status == -EFAULT;
}

static bool is_hole(const struct target *target, remote_addr address)
{
	struct place place = {target, address, false};
	errand_run(ask_for_page, &place);
	return place.is_hole;
}

/* How many of the bytes, from the first on, are there; where that is not known, all. */
static size_t present_bytes(const struct target *target, remote_addr address, size_t size)
{
	uint64_t entries[ENTRIES];
	remote_addr at = address;
	while (at - address < size) {
		const uint64_t left = size - (at - address);
		const uint64_t pages = (at % TARGET_PAGE + left + TARGET_PAGE - 1) / TARGET_PAGE;
		const ssize_t got =
			read_entries(target, at, entries, pages < ENTRIES ? pages : ENTRIES);
		if (got < 0)
			return size;
		for (ssize_t i = 0; i < got; i++) {
			if (!(entries[i] & PRESENT))
				return at - address < size ? at - address : size;
			at = (at / TARGET_PAGE + 1) * TARGET_PAGE;
		}
	}
	return size;
}

/*
 * Cuts the ranges behind the last byte that is there. Returns how many bytes are left; *hole:
 * behind them is nothing that could come.
 */
static size_t cut_to_present(const struct target *target, struct iovec *remote, size_t *count,
			     bool *hole)
{
	size_t total = 0;
	*hole = false;
	for (size_t i = 0; i < *count; i++) {
		const size_t there =
			present_bytes(target, (uintptr_t)remote[i].iov_base, remote[i].iov_len);
		total += there;
		if (there == remote[i].iov_len)
			continue;
		*hole = is_hole(target, (uintptr_t)remote[i].iov_base + there);
		remote[i].iov_len = there;
		*count = i + (there > 0);
	}
	return total;
}

/* ---- reading ---- */

struct job {
	const struct target *target;
	pid_t tid;
	struct iovec local;
	struct iovec *remote;
	size_t count;
	ssize_t got;
	int os_errno;
};

static void read_with_rights(void *context)
{
	struct job *job = context;
	guard_begin_wait();
	job->got = process_vm_readv(job->tid, &job->local, 1, job->remote, job->count, 0);
	job->os_errno = errno;
	guard_end_wait();
}

/* As process_vm_readv: up to the first range that is not whole. */
static ssize_t read_file(int fd, const struct job *job)
{
	size_t total = 0;
	for (size_t i = 0; i < job->count; i++) {
		const ssize_t got =
			pread(fd, (char *)job->local.iov_base + total, job->remote[i].iov_len,
			      (off_t)(uintptr_t)job->remote[i].iov_base);
		if (got < 0 && total == 0)
			return -1;
		total += got > 0 ? (size_t)got : 0;
		if (got != (ssize_t)job->remote[i].iov_len)
			break;
	}
	return (ssize_t)total;
}

/*
 * The right to read through /proc/PID/mem is judged when that is opened (proc_pid_mem(5)), with
 * rights; process_vm_readv's at each call. Nothing comes of it once the program is another one.
 */
static void read_by_file(struct job *job)
{
	_Atomic int *const memory = &job->target->state->pages.memory;
	const int fd = open_once(job->target, memory, "mem");
	job->got = fd < 0 ? -1 : read_file(fd, job);
	if (job->got == 0) {
		memory_follow_exec(job->target);
		job->got = read_file(fd, job);
	}
	job->os_errno = errno == EIO ? EFAULT : errno;
	if (job->got > 0)
		return;
	job->os_errno = job->got == 0 ? ESRCH : job->os_errno;
	job->got = -1;
}

/* The thread that it was read by has ended, as the first one may before the others. */
static bool is_another_alive(struct job *job)
{
	const pid_t before = job->tid;
	if (job->got >= 0 || job->os_errno != ESRCH || !target_find_living_thread(job->target))
		return false;
	job->tid = atomic_load(&job->target->state->living_tid);
	return job->tid != before;
}

static void read_now(struct job *job)
{
	if (errand_is_needed()) {
		read_by_file(job);
		return;
	}
	read_with_rights(job);
	if (is_another_alive(job))
		read_with_rights(job);
}

/* In memory of its own: one that cannot even be killed may still write to it. */
static struct job *own_job(const struct job *of)
{
	struct job *job = alloc_zeroed(1, sizeof(*job));
	*job = *of;
	job->remote = alloc_zeroed(of->count, sizeof(*job->remote));
	memcpy(job->remote, of->remote, of->count * sizeof(*job->remote));
	job->local.iov_base = alloc_zeroed(of->local.iov_len, 1);
	return job;
}

static void own_job_free(struct job *job)
{
	free(job->remote);
	free(job->local.iov_base);
	free(job);
}

static bool read_by_guard(const struct target *target, struct job *job)
{
	struct target_pages *pages = &target->state->pages;
	struct job *own = own_job(job);
	const uint64_t limit_ns = is_distrusted(target) ? LIMIT_NS : PATIENCE_NS;
	bool lost;
	const enum guard_end end = guard_once(limit_ns, LOST_NS, read_with_rights, own, &lost);
	if (end == GUARD_STUCK) {
		atomic_fetch_add(&pages->stuck, 1);
		target_distrust_memory(target);
	} else if (end == GUARD_DONE) {
		job->got = own->got;
		job->os_errno = own->os_errno;
		if (job->got > 0)
			memcpy(job->local.iov_base, own->local.iov_base, (size_t)job->got);
	}
	if (!lost)
		own_job_free(own);
	return end == GUARD_DONE;
}

struct guarded_read {
	const struct target *target;
	struct job *job;
	bool well;
};

static void read_one(void *context)
{
	struct guarded_read *read = context;
	read->well = read_by_guard(read->target, read->job);
}

static bool read_in_process(const struct target *target, struct job *job)
{
	struct guarded_read read = {target, job, false};
	errand_run(read_one, &read);
	return read.well;
}

/* By a process that can be killed. False: it had to be, or there is none: the read is withheld. */
static bool read_guarded(const struct target *target, struct job *job)
{
	struct target_pages *pages = &target->state->pages;
	const bool may_wait = !guard_is_here() && atomic_load(&pages->stuck) < MOST_STUCK;
	if (may_wait && read_in_process(target, job))
		return true;
	atomic_fetch_add(&pages->withheld, 1);
	return false;
}

static ssize_t read_what_is_there(const struct target *target, struct job *job)
{
	struct iovec present[RANGES_LIMIT];
	struct job less = *job;
	memcpy(present, job->remote, job->count * sizeof(*present));
	less.remote = present;
	bool hole;
	const size_t size = cut_to_present(target, present, &less.count, &hole);
	job->os_errno = EFAULT;
	if (size < job->local.iov_len && !hole) {
		if (read_guarded(target, job))
			return job->got;
		job->os_errno = EAGAIN;
	}
	if (size == 0)
		return -1;
	less.local.iov_len = size;
	read_now(&less);
	job->os_errno = less.got < 0 ? less.os_errno : job->os_errno;
	return less.got;
}

static void note_awaited(struct target_pages *pages, const struct job *job)
{
	const size_t count = job->count < AWAITED_MOST ? job->count : AWAITED_MOST;
	for (size_t i = 0; i < count; i++)
		pages->awaited[i] = (struct target_range){(uintptr_t)job->remote[i].iov_base,
							  job->remote[i].iov_len};
	atomic_store_explicit(&pages->awaited_count, count, memory_order_relaxed);
}

static ssize_t read_ranges(const struct target *target, struct job *job)
{
	job->target = target;
	job->tid = atomic_load_explicit(&target->state->living_tid, memory_order_relaxed);
	if (!guard_is_here() || is_distrusted(target))
		return read_what_is_there(target, job);
	note_awaited(&target->state->pages, job);
	read_now(job);
	atomic_store_explicit(&target->state->pages.awaited_count, 0, memory_order_relaxed);
	return job->got;
}

/* The first page of it that is not there, and may come, is got. False: it does not come. */
static bool await_range(const struct target *target, const struct target_range *range)
{
	char byte;
	for (size_t from = 0; from < range->size;) {
		const size_t there =
			present_bytes(target, range->address + from, range->size - from);
		from += there;
		const remote_addr absent = range->address + from;
		if (from >= range->size || is_hole(target, absent))
			return true;
		struct iovec remote = {(void *)(uintptr_t)absent, 1};
		struct job job = {.target = target,
				  .tid = atomic_load(&target->state->living_tid),
				  .local = {&byte, 1},
				  .remote = &remote,
				  .count = 1};
		if (!read_guarded(target, &job))
			return false;
		from += TARGET_PAGE - absent % TARGET_PAGE;
	}
	return true;
}

bool target_await_memory(const struct target *target)
{
	struct target_pages *pages = &target->state->pages;
	const size_t count = atomic_exchange(&pages->awaited_count, 0);
	for (size_t i = 0; i < count; i++)
		if (!await_range(target, &pages->awaited[i]))
			return false;
	return true;
}

static bool read_memory(const struct memory_reader *reader, remote_addr address, void *buffer,
			size_t size, struct error *error)
{
	const struct target *target = (const struct target *)(const void *)reader;
	struct iovec remote = {(void *)(uintptr_t)address, size};
	struct job job = {.local = {buffer, size}, .remote = &remote, .count = 1};
	if (!size)
		return true;
	const ssize_t got = read_ranges(target, &job);
	if (got == (ssize_t)size)
		return true;
	if (job.os_errno == EAGAIN)
		return error_set(error, ERROR_BUSY,
				 "a page of process %d's memory does not come (at 0x%llx)",
				 (int)target->pid, (unsigned long long)address);
	return error_set_errno(error, got < 0 ? job.os_errno : EFAULT,
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
	if (target->core)
		return core_read_ranges(target->core, ranges, count, buffer);
	if (count > RANGES_LIMIT) {
		errno = EINVAL;
		return -1;
	}
	for (size_t i = 0; i < count; i++) {
		remote[i] = (struct iovec){(void *)(uintptr_t)ranges[i].address, ranges[i].size};
		total += ranges[i].size;
	}
	struct job job = {.local = {buffer, total}, .remote = remote, .count = count};
	const ssize_t got = read_ranges(target, &job);
	errno = job.os_errno;
	return got;
}

/* ---- of a target ---- */

void memory_open(struct target *target)
{
	target->memory.read = read_memory;
	atomic_store(&target->state->pages.map, -1);
	atomic_store(&target->state->pages.memory, -1);
}

void memory_replace(struct target_pages *pages, struct target_pages *fresh)
{
	atomic_store(&pages->map, atomic_load(&fresh->map));
	atomic_store(&pages->memory, atomic_load(&fresh->memory));
	atomic_store(&pages->stuck, atomic_load(&fresh->stuck));
	atomic_store(&pages->distrusted, atomic_load(&fresh->distrusted));
	atomic_store(&pages->withheld, atomic_load(&fresh->withheld));
	atomic_store(&pages->awaited_count, 0);
}

/* Nobody has anything at that address, and the right is judged before that is found. */
bool memory_may_read(const struct target *target)
{
	const pid_t tid = atomic_load_explicit(&target->state->living_tid, memory_order_relaxed);
	char byte;
	struct iovec local = {&byte, 1}, remote = {(void *)UINTPTR_MAX, 1};
	return process_vm_readv(tid, &local, 1, &remote, 1, 0) >= 0 ||
	       (errno != EPERM && errno != EACCES && errno != ENOSYS);
}

void memory_close(struct target *target)
{
	const int map = target->core ? -1 : atomic_load(&target->state->pages.map);
	const int memory = target->core ? -1 : atomic_load(&target->state->pages.memory);
	if (map >= 0)
		close(map);
	if (memory >= 0)
		close(memory);
}
