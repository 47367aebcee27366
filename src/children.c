/* SPDX-License-Identifier: MIT */
/*
 * Who looks for what keeps a CPU busy, and records the process that started it, is to be told: by
 * the CPU time of the target's descendants, as /proc has it at a few moments. What began and ended
 * between two of them is not seen.
 */
#include "src/children.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"

enum {
	NAMED_MOST = 5,
	BUSY_SHARE = 10,	   /* one part in so many of the time */
	LEAST_NS = 30000000,	   /* /proc counts in parts of 10 ms */
	FIRST_WAIT_NS = 200000000, /* to the second look; then twice as long each time */
};

static bool is_known(const struct children *children, pid_t pid)
{
	for (size_t i = 0; i < children->count; i++)
		if (children->list[i].seen.pid == pid)
			return true;
	return false;
}

/* Another process may have got the number of one that has ended. */
static void look_again(struct child *child)
{
	struct target_other now;
	if (target_other_read(child->seen.pid, &now) && now.start_time == child->seen.start_time)
		child->seen = now;
}

/* `since_start`: it has been there before the recording. */
static void add_new(struct children *children, pid_t pid, bool since_start)
{
	pid_t found[CHILDREN_MOST];
	const size_t count = target_descendants(pid, found, CHILDREN_MOST);
	for (size_t i = 0; i < count && children->count < CHILDREN_MOST; i++) {
		struct child *child = &children->list[children->count];
		if (is_known(children, found[i]) || !target_other_read(found[i], &child->seen))
			continue;
		child->cpu_before = since_start ? child->seen.cpu_ns : 0;
		children->count++;
	}
}

void children_begin(struct children *children, pid_t pid)
{
	children->begun_ns = clock_now_ns();
	children->wait_ns = FIRST_WAIT_NS;
	children->next_ns = children->begun_ns + children->wait_ns;
	add_new(children, pid, true);
}

void children_look(struct children *children, pid_t pid)
{
	for (size_t i = 0; i < children->count; i++)
		look_again(&children->list[i]);
	add_new(children, pid, false);
	children->looked_ns = clock_now_ns();
}

void children_look_if_due(struct children *children, pid_t pid)
{
	if (clock_now_ns() < children->next_ns)
		return;
	children_look(children, pid);
	children->wait_ns *= 2;
	children->next_ns = children->looked_ns + children->wait_ns;
}

static uint64_t used_ns(const struct child *child)
{
	return child->seen.cpu_ns > child->cpu_before ? child->seen.cpu_ns - child->cpu_before : 0;
}

static int busiest_first(const void *left, const void *right)
{
	const uint64_t a = used_ns(left), b = used_ns(right);
	return a > b ? -1 : a < b;
}

void children_report(struct children *children)
{
	const uint64_t elapsed_ns = children->looked_ns - children->begun_ns;
	const uint64_t share_ns = elapsed_ns / BUSY_SHARE;
	const uint64_t least = share_ns > LEAST_NS ? share_ns : LEAST_NS;
	qsort(children->list, children->count, sizeof(*children->list), busiest_first);
	for (size_t i = 0; i < children->count && used_ns(&children->list[i]) >= least; i++) {
		const struct child *child = &children->list[i];
		if (i == NAMED_MOST) {
			log_warning("... and others that it has started");
			return;
		}
		log_warning(
			"process %d (%s), started by it, ran %.0f %% of a CPU and is not recorded",
			(int)child->seen.pid, child->seen.command,
			100.0 * (double)used_ns(child) / (double)elapsed_ns);
	}
}
