/* SPDX-License-Identifier: MIT */
/*
 * Hears of a process's end and of its exec without tracing it: no signal is sent to it, no thread
 * of it stops, and another tracer may hold it meanwhile. The end comes by a pidfd (Linux 5.3;
 * looked for now and then where there is none), another program shows in the process's image.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "target/internal.h"
#include "target/tracer.h"
#include "target/watch.h"

enum { SLEEP_LIMIT_NS = 100 * 1000 * 1000 }; /* between two looks whether it has ended */

struct watcher {
	const struct target *target;
	int process; /* pidfd; -1: none */
	int wake;
	bool has_image, ended;
	uint64_t image;
};

struct watcher *watcher_new(const struct target *target)
{
	struct watcher *watcher = alloc_zeroed(1, sizeof(*watcher));
	struct sigaction action;
	/* Inherited as ignored, no exit status of a child would be kept. */
	if (sigaction(SIGCHLD, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
		signal(SIGCHLD, SIG_DFL);
	prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
	watcher->target = target;
	watcher->process = (int)syscall(SYS_pidfd_open, target_pid(target), 0);
	watcher->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	watcher->has_image = target_image_key(target, &watcher->image, NULL);
	return watcher;
}

void watcher_free(struct watcher *watcher)
{
	if (!watcher)
		return;
	if (watcher->process >= 0)
		close(watcher->process);
	if (watcher->wake >= 0)
		close(watcher->wake);
	free(watcher);
}

void watcher_wake(struct watcher *watcher)
{
	uint64_t one = 1;
	/* It fails only when it is awake already, or cannot be waited for. */
	if (write(watcher->wake, &one, sizeof(one)) < 0)
		return;
}

enum tracer_event watcher_poll(struct watcher *watcher)
{
	uint64_t image;
	if (watcher->ended || !target_alive(watcher->target)) {
		watcher->ended = true;
		return TRACER_PROCESS_ENDED;
	}
	/* In the middle of exec, or of its end: the next look will tell. */
	if (!target_image_key(watcher->target, &image, NULL))
		return TRACER_NOTHING;
	bool other = watcher->has_image && image != watcher->image;
	watcher->image = image;
	watcher->has_image = true;
	return other ? TRACER_EXEC : TRACER_NOTHING;
}

/* True when it was woken up. */
static bool forget_wakes(struct watcher *watcher)
{
	uint64_t wakes;
	return read(watcher->wake, &wakes, sizeof(wakes)) > 0;
}

/* A process that is said to have ended, and yet lives, is looked at now and then. */
static bool has_ended(struct watcher *watcher)
{
	if (!target_alive(watcher->target))
		return true;
	if (watcher->process >= 0)
		close(watcher->process);
	watcher->process = -1;
	return false;
}

bool watcher_sleep(struct watcher *watcher, uint64_t deadline_ns)
{
	while (!watcher->ended) {
		struct pollfd polled[] = {{.fd = watcher->wake, .events = POLLIN},
					  {.fd = watcher->process, .events = POLLIN}};
		uint64_t now = clock_now_ns(), left = deadline_ns > now ? deadline_ns - now : 0;
		if (watcher->process < 0 && left > SLEEP_LIMIT_NS)
			left = SLEEP_LIMIT_NS;
		struct timespec timeout = {.tv_sec = (time_t)(left / 1000000000u),
					   .tv_nsec = (long)(left % 1000000000u)};
		int events = ppoll(polled, 2, &timeout, NULL);
		if (forget_wakes(watcher))
			return true;
		if (events > 0 && polled[1].revents)
			watcher->ended = has_ended(watcher);
		else if (events == 0 && watcher->process < 0)
			watcher->ended = !target_alive(watcher->target);
		if (!watcher->ended && clock_now_ns() >= deadline_ns)
			return false;
	}
	return true;
}
