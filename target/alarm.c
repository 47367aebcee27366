/* SPDX-License-Identifier: MIT */
/*
 * Timers that wake a thread of ours from its wait for SIGCHLD. The kernel keeps a timer on the CPU
 * where it was set, and that CPU is the one that is interrupted when it goes off.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "target/internal.h"

struct alarm_ring {
	struct alarm alarms[ALARMS_AHEAD];
	size_t count;
};

/* Of the signals that may wait for this user's processes (RLIMIT_SIGPENDING), which a timer counts
 * as: the others are for the target and whoever else. */
enum { SHARE = 4 };

bool alarm_make(struct alarm *alarm)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGCHLD};
	event._sigev_un._tid = gettid();
	atomic_store(&alarm->at, 0);
	return timer_create(CLOCK_MONOTONIC, &event, &alarm->timer) == 0;
}

void alarm_end(struct alarm *alarm)
{
	timer_delete(alarm->timer);
}

bool alarm_set(struct alarm *alarm, uint64_t at)
{
	const struct itimerspec when = {
		.it_value = {(time_t)(at / 1000000000u), (long)(at % 1000000000u)}};
	const bool set = timer_settime(alarm->timer, TIMER_ABSTIME, &when, NULL) == 0;
	atomic_store(&alarm->at, set ? at : 0);
	return set;
}

struct alarm_ring *alarm_ring_new(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_SIGPENDING, &limit) != 0 || limit.rlim_cur < SHARE * ALARMS_AHEAD)
		return NULL;
	struct alarm_ring *ring = alloc_zeroed(1, sizeof(*ring));
	while (ring->count < ALARMS_AHEAD && alarm_make(&ring->alarms[ring->count]))
		ring->count++;
	if (ring->count == ALARMS_AHEAD)
		return ring;
	alarm_ring_free(ring);
	return NULL;
}

void alarm_ring_free(struct alarm_ring *ring)
{
	if (!ring)
		return;
	for (size_t i = 0; i < ring->count; i++)
		alarm_end(&ring->alarms[i]);
	free(ring);
}

void alarm_ring_set(struct alarm_ring *ring, uint64_t number, uint64_t at)
{
	alarm_set(&ring->alarms[number % ALARMS_AHEAD], at);
}

bool alarm_ring_has(const struct alarm_ring *ring, uint64_t number, uint64_t at)
{
	return atomic_load(&ring->alarms[number % ALARMS_AHEAD].at) == at;
}
