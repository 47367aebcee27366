/* SPDX-License-Identifier: MIT */
/* A target that is watched without being traced: its end, and its exec. */
#ifndef TARGET_WATCH_H
#define TARGET_WATCH_H

#include "target/target.h"

/* Hears of the end of a process and of its exec without tracing it. All calls from one thread,
 * watcher_wake excepted. */
struct watcher;
struct watcher *watcher_new(const struct target *target);
void watcher_free(struct watcher *watcher); /* NULL accepted */

/*
 * TRACER_PROCESS_ENDED when it has, TRACER_EXEC when it runs another program than at the last call:
 * some tens of microseconds. A child of ours that has ended is left for its parent to reap.
 */
enum tracer_event watcher_poll(struct watcher *watcher);

/* Sleeps until the deadline (CLOCK_MONOTONIC, ns), until the process has ended, or until it is
 * woken, from any thread. True: it did not sleep until the deadline. */
bool watcher_sleep(struct watcher *watcher, uint64_t deadline_ns);
void watcher_wake(struct watcher *watcher);

#endif
