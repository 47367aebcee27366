/* SPDX-License-Identifier: MIT */
#include "files/far_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/errand.h"
#include "base/guard.h"
#include "files/write_all.h"

enum {
	READS_MOST = 16, /* each takes as long as copying 300 KiB */
	STEP = 1 << 20,
};

static const off_t SIZE_LIMIT = (off_t)2 << 30;

struct far_file {
	int fd;
	_Atomic int copy; /* -1: not made yet */
	_Atomic unsigned reads;
};

/* ---- who may not answer ---- */

static _Atomic bool unanswered;

static const uint64_t ANSWER_NS = 250000000;
static const uint64_t LOST_NS = 50000000; /* until one that was killed is left alone */

void far_file_note_unanswered(void)
{
	atomic_store(&unanswered, true);
	guard_note_unanswered();
}

bool far_file_unanswered(void)
{
	return atomic_load(&unanswered);
}

static bool await_here(void (*work)(void *context), void *context)
{
	bool lost;
	const enum guard_end end = guard_once(ANSWER_NS, LOST_NS, work, context, &lost);
	if (end == GUARD_STUCK)
		atomic_store(&unanswered, true);
	return end == GUARD_DONE;
}

struct awaited {
	void (*work)(void *context);
	void *context;
	bool well;
};

static void await_one(void *context)
{
	struct awaited *awaited = context;
	awaited->well = await_here(awaited->work, awaited->context);
}

bool far_file_await(void (*work)(void *context), void *context)
{
	struct awaited awaited = {work, context, false};
	if (far_file_unanswered())
		return false;
	errand_run(await_one, &awaited);
	return awaited.well;
}

/* ---- in a process that can be left ---- */

int far_file_status(int fd, struct stat *status)
{
	guard_begin_wait();
	const int failure = fstat(fd, status);
	guard_end_wait();
	return failure;
}

bool far_file_ask_server(int fd, struct stat *status)
{
	struct statx asked;
	guard_begin_wait();
	(void)!statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &asked);
	guard_end_wait();
	return far_file_status(fd, status) == 0;
}

ssize_t far_file_read_here(int fd, void *buffer, size_t size, off_t offset)
{
	guard_begin_wait();
	const ssize_t got = pread(fd, buffer, size, offset);
	guard_end_wait();
	return got;
}

void far_file_close_here(int fd)
{
	guard_begin_wait();
	close(fd);
	guard_end_wait();
}

static bool copy_bytes(int from, int to)
{
	uint8_t *const step = alloc_zeroed(1, STEP);
	ssize_t got = 1;
	bool well = true;
	for (off_t at = 0; well && got > 0; at += got) {
		got = far_file_read_here(from, step, STEP, at);
		well = got >= 0 && at + got <= SIZE_LIMIT && write_all(to, step, (size_t)got);
	}
	const int os_errno = got > 0 && !well ? EFBIG : errno;
	free(step);
	errno = os_errno;
	return well;
}

static int copy_here(int fd)
{
	const int copy = fd < 0 ? -1 : memfd_create("far", MFD_CLOEXEC);
	if (copy < 0 || copy_bytes(fd, copy))
		return copy;
	const int os_errno = errno;
	close(copy);
	errno = os_errno;
	return -1;
}

int far_file_copy_here(int fd)
{
	const int copy = copy_here(fd), os_errno = errno;
	if (fd >= 0)
		far_file_close_here(fd);
	errno = os_errno;
	return copy;
}

/* ---- for who cannot be left ---- */

/* In memory of its own: the kernel may write there when who reads was killed long ago. */
struct job {
	int fd, os_errno;
	size_t size;
	off_t offset;
	ssize_t got;
	uint8_t bytes[];
};

static void read_bytes(void *context)
{
	struct job *job = context;
	job->got = far_file_read_here(job->fd, job->bytes, job->size, job->offset);
	job->os_errno = errno;
}

static void copy_file(void *context)
{
	struct job *job = context;
	job->got = copy_here(job->fd);
	job->os_errno = errno;
}

static void close_file(void *context)
{
	far_file_close_here(((struct job *)context)->fd);
}

/* NULL: nobody answers. It is left to who waits then, for ever. */
static struct job *run(void (*work)(void *context), const struct job *of)
{
	struct job *job = alloc_zeroed(1, sizeof(*job) + of->size);
	*job = *of;
	if (far_file_await(work, job)) {
		errno = job->os_errno;
		return job;
	}
	errno = EIO;
	return NULL;
}

static ssize_t read_far(int fd, void *buffer, size_t size, off_t offset)
{
	if (size > STEP)
		size = STEP;
	if (guard_is_here())
		return far_file_read_here(fd, buffer, size, offset);
	struct job *job = run(read_bytes, &(struct job){.fd = fd, .size = size, .offset = offset});
	const ssize_t got = job ? job->got : -1;
	if (got > 0)
		memcpy(buffer, job->bytes, (size_t)got);
	free(job);
	return got;
}

void far_file_close(int fd)
{
	free(run(close_file, &(struct job){.fd = fd}));
}

/* ---- the file ---- */

struct far_file *far_file_new(int fd)
{
	struct far_file *file = alloc_zeroed(1, sizeof(*file));
	file->fd = fd;
	atomic_init(&file->copy, -1);
	return file;
}

void far_file_free(struct far_file *file)
{
	if (!file)
		return;
	far_file_close(file->fd);
	if (atomic_load(&file->copy) >= 0)
		close(atomic_load(&file->copy));
	free(file);
}

int far_file_copy(struct far_file *file)
{
	int known = atomic_load(&file->copy);
	if (known >= 0)
		return known;
	struct job *job = run(copy_file, &(struct job){.fd = file->fd});
	const int copy = job ? (int)job->got : -1, os_errno = errno;
	free(job);
	/* Two threads at once: the first one's counts. */
	if (copy >= 0 && !atomic_compare_exchange_strong(&file->copy, &known, copy)) {
		close(copy);
		return known;
	}
	errno = os_errno;
	return copy;
}

ssize_t far_file_read(struct far_file *file, void *buffer, size_t size, off_t offset)
{
	int copy = atomic_load(&file->copy);
	if (copy < 0 && !guard_is_here() && atomic_fetch_add(&file->reads, 1) >= READS_MOST)
		copy = far_file_copy(file);
	return copy >= 0 ? pread(copy, buffer, size, offset)
			 : read_far(file->fd, buffer, size, offset);
}
