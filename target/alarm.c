/* SPDX-License-Identifier: MIT */
/*
 * Timers that wake a thread of ours from its wait for SIGCHLD. The kernel keeps a timer on the CPU
 * where it was set, and that CPU is the one that is interrupted when it goes off.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "target/internal.h"

struct alarm_ring {
	struct alarm alarms[ALARMS_AHEAD];
	size_t count; /* all of them, or none is ever set */
};

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
	struct alarm_ring *ring = alloc_zeroed(1, sizeof(*ring));
	while (ring->count < ALARMS_AHEAD && alarm_make(&ring->alarms[ring->count]))
		ring->count++;
	return ring;
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
	if (ring->count == ALARMS_AHEAD)
		alarm_set(&ring->alarms[number % ALARMS_AHEAD], at);
}

bool alarm_ring_has(const struct alarm_ring *ring, uint64_t number, uint64_t at)
{
	return atomic_load(&ring->alarms[number % ALARMS_AHEAD].at) == at;
}
