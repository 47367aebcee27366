/* SPDX-License-Identifier: MIT */
/*
 * What the taker has to say to the threads that do not trace: how it began and ended, and that the
 * worker is wanted. It waits for none of them.
 */
#include "record/taker.h"

#include <unistd.h>

#include "base/log.h"
#include "copy/placement.h"

static void notify(struct recorder *recorder)
{
	uint64_t one = 1;
	if (write(recorder->event_fd, &one, sizeof(one)) < 0)
		log_debug("sample", "cannot wake the main thread");
}

void taker_report_end(struct recorder *recorder)
{
	atomic_store(&recorder->ending.ended, true);
	atomic_store(&recorder->stop, true);
	notify(recorder);
}

void taker_report_failure(struct recorder *recorder, const struct error *error)
{
	recorder->ending.error = *error;
	atomic_store(&recorder->ending.failed, true);
	atomic_store(&recorder->stop, true);
	notify(recorder);
}

void taker_call_worker(struct recorder *recorder)
{
	struct worker_hurry *hurry = &recorder->hurry;
	const pid_t tid = atomic_load(&hurry->tid);
	if (tid && clock_now_ns() >= atomic_load(&hurry->rest_until_ns) &&
	    !atomic_exchange(&hurry->on, true))
		placement_hurry(tid, true);
	queue_wake(&recorder->queue);
}

void taker_report_start(struct recorder *recorder, bool well, pid_t failed,
			const struct error *error)
{
	pthread_mutex_lock(&recorder->start.lock);
	recorder->start.process = failed;
	recorder->start.done = true;
	recorder->start.failed = !well;
	if (!well)
		recorder->start.error = *error;
	pthread_cond_signal(&recorder->start.answered);
	pthread_mutex_unlock(&recorder->start.lock);
}
