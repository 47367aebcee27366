/* SPDX-License-Identifier: MIT */
/*
 * The taker thread: the only one that traces. At each tick it looks at every thread of the
 * target, takes those that count, and sleeps until the next tick or until a traced thread
 * reports a signal, which it passes on at once (among a thousand threads, within some milliseconds:
 * tracer.c). When this thread ends, the kernel detaches all.
 * With a watcher instead of a tracer (--nonblocking) nothing is traced: the end of the target is
 * heard of, its exec is looked for.
 */
#include "sample/recording.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "sample/placement.h"

static const uint64_t JOIN_NS = 20000000;  /* between two looks for threads that nobody knows */
static const uint64_t WATCH_NS = 20000000; /* between two looks for exec ... */
static const uint64_t EXEC_NS = 2000000;   /* ... and before there is Python */

static void notify(struct recorder *recorder)
{
	uint64_t one = 1;
	if (write(recorder->event_fd, &one, sizeof(one)) < 0)
		log_debug("sample", "cannot wake the main thread");
}

static void end(struct recorder *recorder)
{
	atomic_store(&recorder->ended, true);
	atomic_store(&recorder->stop, true);
	notify(recorder);
}

static void fail(struct recorder *recorder, const struct error *error)
{
	recorder->error = *error;
	atomic_store(&recorder->failed, true);
	atomic_store(&recorder->stop, true);
	notify(recorder);
}

/* Seizing does not stop a thread; it makes us hear of its signals, of exec and of the end. */
static bool seize_all(struct recorder *recorder)
{
	for (size_t i = 0; i < recorder->slots.count; i++) {
		struct thread_slot *slot = recorder->slots.slots[i];
		struct error error;
		if (slot->gone || slot->seized)
			continue;
		if (tracer_seize(recorder->taker.tracer, slot->tid, &error)) {
			slot->seized = true;
		} else if (error.kind == ERROR_GONE) {
			slots_end(&recorder->slots, slot->tid);
		} else {
			fail(recorder, &error);
			return false;
		}
	}
	return true;
}

static void join_threads(struct recorder *recorder)
{
	struct taker *taker = &recorder->taker;
	struct error error;
	if (!taker->runtime)
		return;
	if (!join_refresh(&taker->join, taker->runtime, taker->target, &error))
		log_debug("join", "%s", error.message);
	slots_join(&recorder->slots, &taker->join);
}

/*
 * A thread's state is listed before it has the thread's own ids (the parent makes it): a thread
 * that nobody knows is looked up each JOIN_NS while it is young, then now and then.
 */
static bool has_unjoined(struct recorder *recorder)
{
	bool found = false;
	for (size_t i = 0; i < recorder->slots.count; i++) {
		struct thread_slot *slot = recorder->slots.slots[i];
		if (slot->gone || slot->tstate_count > 0)
			continue;
		found |= slot->unjoined_scans < YOUNG_SCANS ||
			 slot->unjoined_scans % YOUNG_SCANS == 0;
		slot->unjoined_scans++;
	}
	return found;
}

/* Another program runs now: the only thread left has the process's id. */
static void follow_exec(struct recorder *recorder)
{
	slots_forget(&recorder->slots);
	atomic_fetch_add(&recorder->epoch, 1);
	recorder->taker.runtime = NULL;
	recorder->taker.join.valid = false;
	recorder->joined_ns = 0;
}

/* What a tracer would be told. */
static void watch(struct recorder *recorder)
{
	recorder->watched_ns = clock_now_ns();
	switch (watcher_poll(recorder->watcher)) {
	case TRACER_NOTHING:
	case TRACER_THREAD_ENDED:
		break;
	case TRACER_EXEC:
		follow_exec(recorder);
		break;
	case TRACER_PROCESS_ENDED:
		end(recorder);
		break;
	}
}

static bool watch_is_due(const struct recorder *recorder, uint64_t now)
{
	uint64_t interval = recorder->taker.runtime ? WATCH_NS : EXEC_NS;
	return recorder->watcher && now - recorder->watched_ns > interval;
}

/* False: the process has ended, or may not be traced. */
static bool list_threads(struct recorder *recorder, uint64_t now)
{
	struct slots *slots = &recorder->slots;
	struct error error;
	if (!slots_refresh(slots, recorder->target, &recorder->options, &error)) {
		end(recorder);
		return false;
	}
	const bool listed = slots->looked_ns != recorder->listed_ns;
	recorder->listed_ns = slots->looked_ns;
	if (listed || now - recorder->joined_ns > JOIN_NS) {
		recorder->joined_ns = now;
		recorder_tell_of_ended(recorder);
		if (has_unjoined(recorder))
			join_threads(recorder);
	}
	return !listed || recorder->watcher || seize_all(recorder);
}

/* The worker opened another interpreter (start, exec): nothing known of the old one holds. */
static void follow_runtime(struct recorder *recorder)
{
	struct taker *taker = &recorder->taker;
	const struct python_runtime *runtime = atomic_load(&recorder->runtime);
	if (atomic_load(&recorder->runtime_epoch) != atomic_load(&recorder->epoch))
		runtime = NULL;
	taker->main_stack_end = atomic_load(&recorder->main_stack_end);
	if (runtime == taker->runtime)
		return;
	taker->runtime = runtime;
	python_known_codes_free(taker->known);
	taker->known = python_known_codes_new();
	for (size_t i = 0; i < recorder->slots.count; i++) {
		recorder->slots.slots[i]->tstate_count = 0;
		/* What a sleeping thread was last seen in was seen without this interpreter. */
		recorder->slots.slots[i]->blocked = false;
	}
	join_threads(recorder);
}

static void follow_threads(struct recorder *recorder, uint64_t now)
{
	const struct taker *taker = &recorder->taker;
	if (watch_is_due(recorder, now))
		watch(recorder);
	if (!list_threads(recorder, now))
		return;
	follow_runtime(recorder);
	if (atomic_exchange(&recorder->forget_codes, false))
		python_known_codes_clear(taker->known);
	if (taker->runtime && (!taker->join.valid || atomic_exchange(&recorder->join_again, false)))
		join_threads(recorder);
	else if (taker->runtime && taker->join.method == JOIN_RBX)
		slots_join(&recorder->slots, &taker->join);
}

static void forget(struct recorder *recorder, pid_t tid)
{
	tracer_forget(recorder->taker.tracer, tid);
	slots_end(&recorder->slots, tid);
}

static void poll_events(struct recorder *recorder)
{
	pid_t tid;
	int status;
	for (;;) {
		switch (tracer_poll(recorder->taker.tracer, &tid, &status)) {
		case TRACER_NOTHING:
			return;
		case TRACER_THREAD_ENDED:
			forget(recorder, tid);
			break;
		case TRACER_EXEC:
			follow_exec(recorder);
			break;
		case TRACER_PROCESS_ENDED:
			atomic_store(&recorder->wait_status, status);
			atomic_store(&recorder->has_wait_status, true);
			end(recorder);
			return;
		}
	}
}

static void sleep_until(struct recorder *recorder, uint64_t deadline)
{
	if (recorder->watcher) {
		while (!atomic_load(&recorder->stop) && watcher_sleep(recorder->watcher, deadline))
			watch(recorder);
		return;
	}
	uint64_t following = schedule_following(&recorder->schedule);
	while (!atomic_load(&recorder->stop) &&
	       tracer_sleep(recorder->taker.tracer, deadline, following))
		poll_events(recorder);
	if (atomic_load(&recorder->stop))
		poll_events(recorder);
}

static void tick(struct recorder *recorder, uint64_t deadline)
{
	struct holder *holder = &recorder->taker.holder;
	uint64_t now = clock_now_ns();
	recorder->taker.next_ns = schedule_following(&recorder->schedule);
	holder_begin(holder, now, deadline, recorder->schedule.period_ns,
		     recorder_looks_ns(recorder));
	atomic_store(&recorder->queue.taking, holder_follows(holder));
	atomic_store(&recorder->taker_cpu, sched_getcpu());
	follow_threads(recorder, now);
	recorder_sweep(recorder, now);
	atomic_store(&recorder->taker_follows, holder_follows(holder));
	atomic_fetch_add(&recorder->ticks, 1);
	atomic_store(&recorder->queue.taking, false);
	holder_end(holder, clock_now_ns());
}

static void answer_start(struct recorder *recorder, bool well, const struct error *error)
{
	pthread_mutex_lock(&recorder->start_lock);
	recorder->start_done = true;
	recorder->start_failed = !well;
	if (!well)
		recorder->start_error = *error;
	pthread_cond_signal(&recorder->started);
	pthread_mutex_unlock(&recorder->start_lock);
}

static bool begin(struct recorder *recorder)
{
	struct error error;
	if (recorder->options.nonblocking)
		recorder->watcher = watcher_new(recorder->target);
	else
		recorder->taker.tracer = tracer_new(recorder->target);
	bool well =
		(recorder->watcher ||
		 tracer_seize(recorder->taker.tracer, target_pid(recorder->target), &error)) &&
		slots_refresh(&recorder->slots, recorder->target, &recorder->options, &error) &&
		slots_check_wanted(&recorder->slots, recorder->target, &recorder->options, &error);
	answer_start(recorder, well, &error);
	if (!well)
		return false;
	if (recorder->release_fd >= 0 && write(recorder->release_fd, "x", 1) < 0)
		log_debug("sample", "the command could not be released");
	return true;
}

void *recorder_take(void *argument)
{
	struct recorder *recorder = argument;
	placement_run_soon();
	const struct session_options *options = &recorder->options;
	recorder->taker_tid = gettid();
	holder_init(&recorder->taker.holder, recorder->target,
		    !options->nonblocking && options->stop != STOP_PTRACE &&
			    options->unwinder != UNWINDER_PTRACE);
	if (recorder->taker.holder.wanted)
		copies_init(&recorder->taker);
	if (begin(recorder)) {
		schedule_init(&recorder->schedule, recorder->options.rate, clock_now_ns());
		while (!atomic_load(&recorder->stop)) {
			uint64_t late = 0;
			uint64_t deadline =
				schedule_next(&recorder->schedule, clock_now_ns(), &late);
			atomic_fetch_add(&recorder->late, late);
			sleep_until(recorder, deadline);
			if (!atomic_load(&recorder->stop))
				tick(recorder, deadline);
		}
		recorder_sweep_end(recorder);
	}
	for (size_t i = 0; i < recorder->slots.count; i++)
		hold_release(&recorder->slots.slots[i]->hold);
	holder_release(&recorder->taker.holder);
	copier_free(recorder->taker.copier);
	tracer_free(recorder->taker.tracer);
	return NULL;
}
