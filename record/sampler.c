/* SPDX-License-Identifier: MIT */
/*
 * One tick of a recording: which threads are looked at, which of them are taken, and what becomes
 * of that. A thread that sleeps on is not looked at each time: see "asleep" below. Runs in the
 * taker.
 */
#include "record/unsampled.h"

#include <time.h>

#include "base/log.h"
#include "record/cpu_time.h"

static const uint64_t GONE_NS = 20000000;	     /* until the end of the thread is reported */
static const uint64_t UNINTERRUPTIBLE_NS = 50000000; /* until such a thread is tried again */

/*
 * Asleep is a thread that has not run for some looks. Those are looked at by turns, each once in
 * WAKE_NS; or more often while that takes no more than one part in LOOKS_SHARE of the time.
 */
static const uint64_t WAKE_NS = 40000000;
enum {
	STILL_LOOKS = 4,
	LOOK_NS = 1000, /* what a look costs: one read of /proc/TID/schedstat */
	LOOKS_SHARE = 32,
	HELD_LOOKS = 2, /* more than have their turn are not made while a thread is held */
};

static const uint64_t LAST_NS = 2000000000; /* at the end, until the worker has made room */

/* A thread state was added since the list was read: by what this sample has copied. */
static void check_join(struct process *process, const struct raw_sample *raw)
{
	const struct taker *taker = &process->taker;
	uint64_t stamp;
	if (raw->runtime && raw->who.tstate_count > 0 && raw->runtime == taker->runtime &&
	    python_threads_stamp(raw->runtime, &raw->reader, &stamp, NULL) &&
	    stamp != taker->join.stamp)
		atomic_store(&process->news.join_again, true);
}

/* Does this thread count at all, by what is known without a look at it? */
static bool counts(const struct recorder *recorder, const struct watched_thread *watched,
		   uint64_t now)
{
	const struct session_options *options = &recorder->options;
	const struct taker *taker = &watched->process->taker;
	if (watched->gone || watched->skip_until_ns > now)
		return false;
	if (watched->copy.tstate_count > 0)
		return true;
	if (options->python_only && !taker->runtime)
		return false;
	if (taker->join.method == JOIN_FS_BASE || taker->join.method == JOIN_RBX)
		return true; /* who it is is known only after a look */
	if (options->gil_only)
		return false;
	return options->native && (options->native_threads || !taker->runtime);
}

/* Once there is a sample of it, that it was asleep on a device for a moment says nothing. */
static void note_never_stopped(struct recorder *recorder, struct watched_thread *watched)
{
	if (watched->tried != UNTRIED)
		return;
	watched->tried = NEVER_STOPPED;
	atomic_fetch_add(&recorder->taken.never_stopped, 1);
}

static void note_sampled(struct recorder *recorder, struct watched_thread *watched)
{
	if (watched->tried == NEVER_STOPPED)
		atomic_fetch_sub(&recorder->taken.never_stopped, 1);
	watched->tried = SAMPLED;
}

static void deliver(struct recorder *recorder, struct watched_thread *watched,
		    struct raw_sample *raw, enum copy_result result)
{
	struct process *process = watched->process;
	raw->epoch = atomic_load(&process->news.epoch);
	switch (result) {
	case COPY_OK:
		note_sampled(recorder, watched);
		take_name(&process->taker, &watched->copy, raw);
		check_join(process, raw);
		if (recorder->options.cpu)
			raw->cpu_ns = cpu_time_since(watched);
		copy_learn(&process->taker, &watched->copy, raw);
		raw_sample_rewind(raw);
		atomic_store(&watched->copy.advice.last_bad, false); /* until the worker says so */
		recorder->keeping.taking.raw = NULL;
		queue_push(&recorder->queue, raw, watched);
		return;
	case COPY_GONE:
	case COPY_FAILED:
		atomic_fetch_add(&recorder->taken.gone, 1);
		break;
	case COPY_UNINTERRUPTIBLE:
		note_never_stopped(recorder, watched);
		atomic_fetch_add(&recorder->taken.uninterruptible, 1);
		watched->skip_until_ns = clock_now_ns() + UNINTERRUPTIBLE_NS;
		break;
	case COPY_LATE:
		atomic_fetch_add(&recorder->taken.late, 1);
		break;
	case COPY_TORN:
	case COPY_MOVED:
	case COPY_NEXT: /* it is no last word */
		atomic_fetch_add(&recorder->taken.torn, 1);
		break;
	}
	recorder->keeping.taking.raw = NULL;
	queue_give_back(&recorder->queue, raw);
}

static enum copy_result take_idle(struct watched_thread *watched, const struct target_wait *wait,
				  struct raw_sample *raw)
{
	struct taker *taker = &watched->process->taker;
	const bool wants_stop =
		atomic_load(&watched->copy.advice.wants_stop) && !watched->process->watcher;
	struct target_wait now = *wait;
	enum copy_result result = COPY_MOVED;
	if (!wants_stop || take_knows_call(&watched->copy, wait))
		result = take_blocked(taker, &watched->copy, &now, raw);
	if (result != COPY_MOVED || (!wants_stop && !now.running && !taker->unstopped))
		return result;
	result = copy_running(taker, &watched->copy, raw);
	watched->still = 0; /* to get back into its call it runs */
	if (result == COPY_OK && wants_stop)
		take_note_call(&watched->copy, wait, raw);
	return result;
}

/* What a thread is seen to do without being stopped cannot be used with these. */
static bool must_stop_all(const struct session_options *options)
{
	return options->unwinder == UNWINDER_PTRACE || options->join == JOIN_FS_BASE;
}

/* False: the worker lags behind, and the sample was dropped. */
static bool take(struct recorder *recorder, struct watched_thread *watched,
		 const struct target_wait *wait, uint64_t now)
{
	struct taker *taker = &watched->process->taker;
	bool must_stop = wait->running || must_stop_all(&recorder->options);
	uint64_t runs = watched->copy.blocked_runs;
	if (!watched->deferred && !unsampled_flush(recorder, watched))
		return false;
	struct raw_sample *raw = queue_empty(&recorder->queue);
	if (!raw)
		return recorder->options.wall && !must_stop && unsampled_defer(watched);
	watched->copy.sampled.by = STILL_UNKNOWN;
	take_note_wait(taker, &watched->copy, wait);
	take_name_early(taker, &watched->copy, now);
	recorder->keeping.taking = (struct queue_entry){.raw = raw, .watched = watched};
	enum copy_result result = must_stop ? copy_running(taker, &watched->copy, raw)
					    : take_idle(watched, wait, raw);
	unsampled_settle(recorder, watched, wait, raw, result == COPY_OK, runs);
	deliver(recorder, watched, raw, result);
	return true;
}

void sampler_drop(struct recorder *recorder)
{
	struct queue_entry *taking = &recorder->keeping.taking;
	if (!taking->raw)
		return;
	atomic_fetch_add(&recorder->taken.torn, 1);
	queue_give_back(&recorder->queue, taking->raw);
	taking->raw = NULL;
}

/* It waits for a CPU, as it did when its last sample was taken, or is about to go on after that. */
static bool waits_on(struct watched_thread *watched)
{
	if (unsampled_is_pending(watched) || !copy_state_is_as_sampled(&watched->copy))
		return false;
	copy_leave(&watched->process->taker, &watched->copy);
	return true;
}

/*
 * With --mode=cpu: it had no CPU when the tick was due. Where it waits is no measure of where it
 * runs: a thread is made to give way at a system call far more often than elsewhere (thread_time()
 * has the kernel see that its turn is over), and a sample there would have all of its CPU time
 * since the last one. The next sample that is taken on a CPU has it.
 */
static bool waited(const struct recorder *recorder, struct watched_thread *watched)
{
	if (!recorder->options.cpu || !copy_waited(&watched->process->taker, &watched->copy))
		return false;
	copy_leave(&watched->process->taker, &watched->copy);
	watched->asked = false;
	return true;
}

/* Looks at a thread for `ticks` ticks, the last of which is now. Returns how many samples were
 * dropped because the worker lags behind. */
static uint64_t look(struct recorder *recorder, struct watched_thread *watched, uint64_t ticks,
		     uint64_t now)
{
	bool wall = recorder->options.wall;
	bool slept = copy_state_sleeps_on(&watched->copy);
	uint64_t after = 0;
	watched->still = slept ? watched->still + (watched->still < STILL_LOOKS) : 0;
	if (!slept)
		watched->process->tick.ran_ns = now;
	if (slept && !wall) {
		watched->asked = false;
		return 0;
	}
	if (slept ? !unsampled_is_pending(watched) : waits_on(watched)) {
		unsampled_repeat(recorder, watched, ticks, now, now);
		return 0;
	}
	watched->copy.blocked = false;
	const uint64_t position = copy_state_position(&watched->copy);
	if (slept) {
		/* There is no last sample that could be decoded: it was as in this one. */
		watched->deferred = true;
		watched->repeats += ticks - 1;
		unsampled_ask(recorder, ticks - 1);
	} else {
		/* When it woke is not known, unless its log has it: what it did meanwhile is not
		 * counted. Asleep, it does not hold the GIL. */
		if (!recorder->options.gil_only)
			after = unsampled_look_back(recorder, watched, ticks - 1, now);
		if (watched->deferred)
			unsampled_flush(recorder, watched);
	}
	struct target_wait wait = {.running = true};
	if (!copy_runs(&watched->process->taker, &watched->copy) &&
	    !target_thread_wait(watched->copy.files, &wait, NULL)) {
		watched->skip_until_ns = clock_now_ns() + GONE_NS;
		return 0;
	}
	watched->asked = wait.running || wall;
	if (!watched->asked) {
		copy_state_note_blocked(&watched->copy);
		return 0;
	}
	unsampled_ask(recorder, 1);
	const bool room = take(recorder, watched, &wait, now);
	unsampled_settle_after(recorder, watched, position, after);
	return room ? 0 : 1;
}

/* When there is no room for all, the next tick begins with those that went short. */
static uint64_t tick_awake(struct recorder *recorder, struct process *process, uint64_t now,
			   uint64_t ticks)
{
	struct watched_threads *threads = &process->threads;
	size_t count = threads->awake_count, first = process->tick.first_awake;
	uint64_t dropped = 0;
	for (size_t n = 0; n < count && !atomic_load(&recorder->stop); n++) {
		size_t i = (first + n) % count;
		struct watched_thread *watched = threads->threads[i];
		const bool looked_at = counts(recorder, watched, now) && !waited(recorder, watched);
		uint64_t lost = looked_at ? look(recorder, watched, ticks, now) : 0;
		if (lost && dropped == 0)
			process->tick.first_awake = i;
		dropped += lost;
	}
	return dropped;
}

static size_t count_asleep_of(const struct process *process)
{
	return process->threads.count - process->threads.awake_count;
}

static size_t count_asleep(const struct process_set *set)
{
	size_t asleep = 0;
	for (size_t i = 0; i < process_set_count(set); i++) {
		const struct process *process = process_set_at(set, i, PROCESS_LIVE);
		asleep += process ? count_asleep_of(process) : 0;
	}
	return asleep;
}

/* The first one behind that place, in turn, that has some; NULL: none has. */
static struct process *next_with_sleepers(struct process_set *set)
{
	const size_t count = process_set_count(set);
	for (size_t n = 0; n < count; n++) {
		const size_t place = (set->next_asleep + n) % count;
		struct process *process = process_set_at(set, place, PROCESS_LIVE);
		if (process && count_asleep_of(process) > 0) {
			set->next_asleep = place;
			return process;
		}
	}
	return NULL;
}

/* Each of them has its turn in WAKE_NS. */
uint64_t sampler_looks_ns(const struct recorder *recorder)
{
	return count_asleep(&recorder->processes) * LOOK_NS * recorder->schedule.period_ns /
	       WAKE_NS;
}

static void mark_asleep(struct watched_threads *threads, uint64_t tick)
{
	for (size_t i = threads->awake_count; i-- > 0;) {
		struct watched_thread *watched = threads->threads[i];
		/* One with a switch log costs nothing to check. */
		if (watched->still < STILL_LOOKS || copy_state_is_followed(&watched->copy))
			continue;
		watched->looked_tick = tick;
		threads_mark_asleep(threads, watched);
	}
}

/* How many of them have their turn; more if no thread waits for our CPU meanwhile. */
static size_t looks_due(struct recorder *recorder)
{
	struct process_set *set = &recorder->processes;
	uint64_t asleep = count_asleep(set), period = recorder->schedule.period_ns;
	set->owed_ns += asleep * period;
	uint64_t due = set->owed_ns / WAKE_NS, cheap = period / LOOK_NS / LOOKS_SHARE;
	set->owed_ns %= WAKE_NS;
	if (cpu_holder_follows(&recorder->means.holder) && cheap > HELD_LOOKS)
		cheap = HELD_LOOKS;
	uint64_t looks = due > cheap ? due : cheap;
	return looks < asleep ? looks : asleep;
}

/* One of the process's has its turn; behind the last one, another process. */
static uint64_t look_at_sleeper(struct recorder *recorder, struct process *process, uint64_t now,
				uint64_t tick)
{
	struct watched_threads *threads = &process->threads;
	uint64_t dropped = 0;
	if (process->tick.next_asleep < threads->awake_count ||
	    process->tick.next_asleep >= threads->count)
		process->tick.next_asleep = threads->awake_count;
	struct watched_thread *watched = threads->threads[process->tick.next_asleep];
	uint64_t ticks = tick - watched->looked_tick;
	watched->looked_tick = tick;
	/* 0: another one woke, and this one has come to its place from before it. */
	if (ticks > 0 && counts(recorder, watched, now))
		dropped = look(recorder, watched, ticks, now);
	if (watched->still == STILL_LOOKS)
		process->tick.next_asleep++;
	else
		threads_mark_awake(threads, watched); /* the next one has come to its place */
	if (process->tick.next_asleep >= threads->count)
		recorder->processes.next_asleep++;
	return dropped;
}

static uint64_t tick_asleep(struct recorder *recorder, uint64_t now, uint64_t tick)
{
	uint64_t dropped = 0;
	for (size_t looks = looks_due(recorder); looks-- > 0 && !atomic_load(&recorder->stop);) {
		struct process *process = next_with_sleepers(&recorder->processes);
		if (!process)
			break;
		dropped += look_at_sleeper(recorder, process, now, tick);
	}
	return dropped;
}

/* What is not known of single threads: that they would have asked for as much as the last tick. It
 * is so before the first one, and where who holds the GIL is not known. Returns the other ticks. */
static uint64_t settle_missed(struct recorder *recorder)
{
	const uint64_t missed = recorder->missed.count;
	const bool first = atomic_load(&recorder->taken.ticks) == 0;
	if (!first && !recorder->options.gil_only)
		return missed;
	unsampled_ask_late(recorder, missed * recorder->processes.asked_tick);
	return 0;
}

/* Those of the process that are awake. What it would have asked for at a tick is added to *asked.
 */
static uint64_t tick_process(struct recorder *recorder, struct process *process, uint64_t now,
			     uint64_t ticks, uint64_t *asked)
{
	const uint64_t before = atomic_load(&recorder->taken.asked);
	const uint64_t dropped = tick_awake(recorder, process, now, ticks);
	uint64_t count = atomic_load(&recorder->taken.asked) - before +
			 (recorder->options.wall ? count_asleep_of(process) : 0);
	if (recorder->options.gil_only && count > 1)
		count = 1; /* who of them holds it is not known yet */
	*asked += count;
	return dropped;
}

void sampler_tick(struct recorder *recorder, uint64_t now)
{
	struct process_set *set = &recorder->processes;
	const uint64_t missed = settle_missed(recorder);
	const uint64_t tick = recorder->counted_ticks += missed;
	const size_t count = process_set_count(set), first = set->first_awake;
	uint64_t dropped = 0, asked = 0;
	for (size_t n = 0; n < count; n++) {
		const size_t place = (first + n) % count;
		struct process *process = process_set_at(set, place, PROCESS_LIVE);
		const uint64_t lost =
			process ? tick_process(recorder, process, now, missed + 1, &asked) : 0;
		if (lost && dropped == 0)
			set->first_awake = place;
		dropped += lost;
	}
	set->asked_tick = asked;
	dropped += tick_asleep(recorder, now, tick);
	for (size_t i = 0; i < count; i++) {
		struct process *process = process_set_at(set, i, PROCESS_LIVE);
		if (process)
			mark_asleep(&process->threads, tick);
	}
	recorder->counted_ticks++;
	recorder->missed.count = 0;
	atomic_fetch_add(&recorder->taken.dropped, dropped);
}

void sampler_miss(struct recorder *recorder, uint64_t first_ns, uint64_t ticks)
{
	struct missed_ticks *const missed = &recorder->missed;
	atomic_fetch_add(&recorder->taken.late_ticks, ticks);
	if (missed->count == 0)
		*missed = (struct missed_ticks){first_ns, recorder->schedule.period_ns, 0};
	missed->count += ticks;
}

void sampler_flush_ended(struct recorder *recorder, struct process *process)
{
	for (size_t i = 0; i < process->threads.gone_count; i++)
		if (!unsampled_flush(recorder, process->threads.gone[i]))
			return;
}

/* What those that are awake did since the last sweep. */
static void look_at_last(struct recorder *recorder, const struct watched_threads *threads,
			 uint64_t missed)
{
	for (size_t i = 0; i < threads->awake_count && missed; i++) {
		struct watched_thread *watched = threads->threads[i];
		if (watched->gone || !watched->asked)
			continue;
		unsampled_ask(recorder, missed);
		if (!watched->deferred && (copy_state_sleeps_on(&watched->copy) ||
					   copy_state_is_as_sampled(&watched->copy)))
			watched->repeats += missed;
		else
			atomic_fetch_add(&recorder->taken.late, missed);
	}
}

/* What those that are still asleep did since their last looks. */
static void look_once_more(struct recorder *recorder, const struct watched_threads *threads)
{
	uint64_t end = recorder->counted_ticks;
	for (size_t i = threads->awake_count; i < threads->count; i++) {
		struct watched_thread *watched = threads->threads[i];
		uint64_t ticks = end - 1 - watched->looked_tick;
		if (ticks == 0)
			continue;
		if (!watched->gone && copy_state_sleeps_on(&watched->copy)) {
			unsampled_ask(recorder, ticks);
			watched->repeats += ticks;
		} else if (!recorder->options.gil_only) {
			unsampled_ask_late(recorder, ticks);
		}
	}
}

static void flush_at_last(struct recorder *recorder, struct watched_thread *watched,
			  uint64_t deadline)
{
	struct timespec rest = {.tv_nsec = 1000000};
	while (!unsampled_flush(recorder, watched)) {
		if (clock_now_ns() >= deadline) {
			atomic_fetch_add(&recorder->taken.dropped, watched->repeats);
			return;
		}
		nanosleep(&rest, NULL);
	}
}

static void finish(struct recorder *recorder, struct process *process, uint64_t missed,
		   uint64_t deadline)
{
	const struct watched_threads *threads = &process->threads;
	if (atomic_load(&process->state) == PROCESS_LIVE) {
		look_at_last(recorder, threads, missed);
		if (recorder->options.wall)
			look_once_more(recorder, threads);
	}
	for (size_t i = 0; i < threads->gone_count; i++)
		flush_at_last(recorder, threads->gone[i], deadline);
	for (size_t i = 0; i < threads->count; i++)
		flush_at_last(recorder, threads->threads[i], deadline);
	for (size_t i = 0; i < threads->count && recorder->options.cpu; i++)
		threads->threads[i]->cpu_left_ns = cpu_time_since(threads->threads[i]);
}

void sampler_finish(struct recorder *recorder)
{
	uint64_t deadline = clock_now_ns() + LAST_NS;
	const uint64_t missed = settle_missed(recorder);
	recorder->counted_ticks += missed;
	for (size_t i = 0; i < process_set_count(&recorder->processes); i++)
		finish(recorder, recorder->processes.places[i], missed, deadline);
}
