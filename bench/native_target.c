/* SPDX-License-Identifier: MIT */
/*
 * Native code that a benchmark's target calls by ctypes: it feels what a profiler does to the
 * thread that it runs on.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <time.h>

static _Atomic uint64_t interrupted; /* calls of epoll_wait that gave EINTR */

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/*
 * Looks at the clock for duration_ns. When two looks are least_ns or more apart, the thread stood
 * still between them: the first `room` of these gaps are written to `gaps`. Returns how many.
 */
size_t record_gaps(uint64_t duration_ns, uint64_t least_ns, uint64_t *gaps, size_t room)
{
	size_t count = 0;
	uint64_t last = now_ns(), end = last + duration_ns;
	while (last < end) {
		uint64_t now = now_ns();
		if (now - last >= least_ns && count < room)
			gaps[count++] = now - last;
		last = now;
	}
	return count;
}

/* Keeps a CPU busy until *stop. */
void spin(const _Atomic int32_t *stop)
{
	while (!*stop)
		;
}

/* Blocks until the descriptor is readable, and counts how often something else ends the wait. */
void wait_until_readable(int fd)
{
	struct epoll_event event = {.events = EPOLLIN};
	int poll = epoll_create1(EPOLL_CLOEXEC);
	epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
	while (epoll_wait(poll, &event, 1, -1) < 0 && errno == EINTR)
		interrupted++;
}

uint64_t interrupted_waits(void)
{
	return interrupted;
}
