/* SPDX-License-Identifier: MIT */
/*
 * One tick of a recording: which threads are looked at, which of them are taken, and what becomes
 * of that. A thread that sleeps on is not looked at each time: see "asleep" below. Runs in the
 * taker.
 */
#include "sample/recording.h"

#include <time.h>

#include "base/log.h"

static const uint64_t GONE_NS = 20000000;	     /* until it is told that the thread ended */
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

static const uint64_t TELL_NS = 200000000;  /* between two times that the worker is told of one */
static const uint64_t LAST_NS = 2000000000; /* at the end, until the worker has made room */

/* A thread state was added since the list was read: by what this sample has copied. */
static void check_join(struct recorder *recorder, const struct raw_sample *raw)
{
	const struct taker *taker = &recorder->taker;
	uint64_t stamp;
	if (raw->runtime && raw->tstate_count > 0 && raw->runtime == taker->runtime &&
	    python_threads_stamp(raw->runtime, &raw->reader, &stamp, NULL) &&
	    stamp != taker->join.stamp)
		atomic_store(&recorder->join_again, true);
}

/* Does this thread count at all, by what is known without a look at it? */
static bool counts(const struct recorder *recorder, const struct thread_slot *slot, uint64_t now)
{
	const struct session_options *options = &recorder->options;
	if (slot->gone || slot->skip_until_ns > now)
		return false;
	if (slot->tstate_count > 0)
		return true;
	if (recorder->taker.join.method == JOIN_FS_BASE || recorder->taker.join.method == JOIN_RBX)
		return true; /* who it is is known only after a look */
	if (options->gil_only)
		return false;
	return options->native && (options->native_threads || !recorder->taker.runtime);
}

static void deliver(struct recorder *recorder, struct thread_slot *slot, struct raw_sample *raw,
		    enum take_result result)
{
	raw->epoch = atomic_load(&recorder->epoch);
	switch (result) {
	case TAKE_OK:
		check_join(recorder, raw);
		take_learn(slot, raw);
		take_expect(&recorder->taker, slot);
		raw_sample_rewind(raw);
		atomic_store(&slot->last_bad, false); /* until the worker says so */
		queue_push(&recorder->queue, raw);
		return;
	case TAKE_GONE:
		atomic_fetch_add(&recorder->gone, 1);
		break;
	case TAKE_UNINTERRUPTIBLE:
		atomic_fetch_add(&recorder->uninterruptible, 1);
		slot->skip_until_ns = clock_now_ns() + UNINTERRUPTIBLE_NS;
		break;
	case TAKE_LATE:
		atomic_fetch_add(&recorder->late, 1);
		break;
	case TAKE_TORN:
		atomic_fetch_add(&recorder->torn, 1);
		break;
	case TAKE_MOVED:
		break;
	}
	queue_give_back(&recorder->queue, raw);
}

static enum take_result take_idle(struct recorder *recorder, struct thread_slot *slot,
				  const struct target_wait *wait, struct raw_sample *raw)
{
	struct taker *taker = &recorder->taker;
	const bool wants_stop = atomic_load(&slot->wants_stop) && !recorder->watcher;
	enum take_result result = TAKE_MOVED;
	if (!wants_stop || take_knows_call(slot, wait))
		result = take_blocked(taker, slot, wait, raw);
	if (result != TAKE_MOVED)
		return result;
	result = take_running(taker, slot, raw);
	slot->still = 0; /* to get back into its call it runs */
	if (result == TAKE_OK && wants_stop)
		take_note_call(slot, wait, raw);
	return result;
}

/* What a thread is seen to do without being stopped cannot be used with these. */
static bool must_stop_all(const struct session_options *options)
{
	return options->unwinder == UNWINDER_PTRACE || options->join == JOIN_FS_BASE;
}

/* It has not run since it was seen to be blocked: so it still is, in the same place. */
static bool sleeps_on(struct thread_slot *slot)
{
	uint64_t runs;
	if (!slot->blocked)
		return false;
	if (slot->hold.trusted)
		return hold_position(&slot->hold) == slot->blocked_position;
	return target_thread_runs(slot->files, &runs, NULL) && runs == slot->blocked_runs;
}

/* It was blocked just now: if it still is after its runs were counted, it was all the while. */
static void note_blocked(struct thread_slot *slot)
{
	struct target_wait wait;
	slot->blocked_position = hold_position(&slot->hold);
	slot->blocked = target_thread_runs(slot->files, &slot->blocked_runs, NULL) &&
			target_thread_wait(slot->files, &wait, NULL) && !wait.running;
}

/*
 * Tells the worker how long the thread was as in its last sample; what was to be as in a sample
 * that was not taken is dropped. False: there is no room for that, and nothing is lost.
 */
static bool tell_repeats(struct recorder *recorder, struct thread_slot *slot)
{
	if (slot->ahead)
		atomic_fetch_add(&recorder->dropped, slot->repeats);
	else if (slot->repeats && !queue_push_repeat(&recorder->queue, slot, slot->repeats))
		return false;
	slot->repeats = 0;
	slot->ahead = false;
	return true;
}

/* It was as in its last sample, which may still wait for the worker. */
static void note_repeats(struct recorder *recorder, struct thread_slot *slot, uint64_t ticks,
			 uint64_t now)
{
	slot->repeats += ticks;
	if (now - slot->told_ns >= TELL_NS && tell_repeats(recorder, slot))
		slot->told_ns = now;
}

/* There is no room for a sample of it: while it sleeps on, that can be taken later. */
static bool put_off(struct thread_slot *slot)
{
	if (slot->ahead)
		slot->blocked = true; /* as when it was put off first */
	else
		note_blocked(slot);
	slot->ahead = slot->blocked;
	slot->repeats += slot->blocked;
	return slot->blocked;
}

/* It has been taken: is that also what it was at the ticks before, which have no sample? Stopped in
 * the call that it was seen in, it is. */
static void settle_ahead(struct recorder *recorder, struct thread_slot *slot,
			 const struct target_wait *wait, const struct raw_sample *raw, bool taken,
			 uint64_t runs)
{
	bool same = raw->stopped ? take_knows_call(slot, wait)
				 : slot->blocked && slot->blocked_runs == runs;
	if (slot->ahead && !(taken && same))
		tell_repeats(recorder, slot);
	slot->ahead = false;
}

/* False: the worker lags behind, and the sample was dropped. */
static bool take(struct recorder *recorder, struct thread_slot *slot,
		 const struct target_wait *wait)
{
	bool must_stop = wait->running || must_stop_all(&recorder->options);
	uint64_t runs = slot->blocked_runs;
	if (!slot->ahead && !tell_repeats(recorder, slot))
		return false;
	struct raw_sample *raw = queue_empty(&recorder->queue);
	if (!raw)
		return recorder->options.wall && !must_stop && put_off(slot);
	take_note_wait(&recorder->taker, slot, wait);
	enum take_result result = must_stop ? take_running(&recorder->taker, slot, raw)
					    : take_idle(recorder, slot, wait, raw);
	settle_ahead(recorder, slot, wait, raw, result == TAKE_OK, runs);
	deliver(recorder, slot, raw, result);
	return true;
}

/* Looks at a thread for `ticks` ticks, the last of which is now. Returns how many samples were
 * dropped because the worker lags behind. */
static uint64_t look(struct recorder *recorder, struct thread_slot *slot, uint64_t ticks,
		     uint64_t now)
{
	bool wall = recorder->options.wall;
	bool slept = sleeps_on(slot);
	slot->still = slept ? slot->still + (slot->still < STILL_LOOKS) : 0;
	if (slept && (!wall || !(slot->ahead || atomic_load(&slot->last_bad)))) {
		if (wall)
			note_repeats(recorder, slot, ticks, now);
		return 0;
	}
	slot->blocked = false;
	if (slept) {
		/* There is no last sample that could be decoded: it was as in this one. */
		slot->ahead = true;
		slot->repeats += ticks - 1;
	} else {
		/* When it woke is not known: what it did meanwhile is not counted. */
		if (wall)
			atomic_fetch_add(&recorder->late, ticks - 1);
		if (slot->ahead)
			tell_repeats(recorder, slot);
	}
	struct target_wait wait = {.running = true};
	if (!hold_runs(&recorder->taker.holder, &slot->hold) &&
	    !target_thread_wait(slot->files, &wait, NULL)) {
		slot->skip_until_ns = clock_now_ns() + GONE_NS;
		return 0;
	}
	if (wait.running || wall)
		return take(recorder, slot, &wait) ? 0 : 1;
	note_blocked(slot);
	return 0;
}

/* When there is no room for all, the next tick begins with those that went short. */
static uint64_t sweep_awake(struct recorder *recorder, uint64_t now)
{
	struct slots *slots = &recorder->slots;
	size_t count = slots->awake_count, first = recorder->first_slot;
	uint64_t dropped = 0;
	for (size_t n = 0; n < count && !atomic_load(&recorder->stop); n++) {
		size_t i = (first + n) % count;
		struct thread_slot *slot = slots->slots[i];
		uint64_t lost = counts(recorder, slot, now) ? look(recorder, slot, 1, now) : 0;
		if (lost && dropped == 0)
			recorder->first_slot = i;
		dropped += lost;
	}
	return dropped;
}

static size_t count_asleep(const struct recorder *recorder)
{
	return recorder->slots.count - recorder->slots.awake_count;
}

/* Each of them has its turn in WAKE_NS. */
uint64_t recorder_looks_ns(const struct recorder *recorder)
{
	return count_asleep(recorder) * LOOK_NS * recorder->schedule.period_ns / WAKE_NS;
}

static void lay_down(struct recorder *recorder, uint64_t tick)
{
	struct slots *slots = &recorder->slots;
	for (size_t i = slots->awake_count; i-- > 0;) {
		struct thread_slot *slot = slots->slots[i];
		/* A look at one whose switches are told costs nothing. */
		if (slot->still < STILL_LOOKS || slot->hold.trusted)
			continue;
		slot->looked_tick = tick;
		slots_lay_down(slots, slot);
	}
}

/* How many of them have their turn; more if no thread waits for our CPU meanwhile. */
static size_t looks_due(struct recorder *recorder)
{
	uint64_t asleep = count_asleep(recorder), period = recorder->schedule.period_ns;
	recorder->owed_ns += asleep * period;
	uint64_t due = recorder->owed_ns / WAKE_NS, cheap = period / LOOK_NS / LOOKS_SHARE;
	recorder->owed_ns %= WAKE_NS;
	if (holder_follows(&recorder->taker.holder) && cheap > HELD_LOOKS)
		cheap = HELD_LOOKS;
	uint64_t looks = due > cheap ? due : cheap;
	return looks < asleep ? looks : asleep;
}

static uint64_t sweep_asleep(struct recorder *recorder, uint64_t now, uint64_t tick)
{
	struct slots *slots = &recorder->slots;
	uint64_t dropped = 0;
	for (size_t looks = looks_due(recorder); looks-- > 0 && !atomic_load(&recorder->stop);) {
		if (recorder->next_asleep < slots->awake_count ||
		    recorder->next_asleep >= slots->count)
			recorder->next_asleep = slots->awake_count;
		struct thread_slot *slot = slots->slots[recorder->next_asleep];
		uint64_t ticks = tick - slot->looked_tick;
		slot->looked_tick = tick;
		/* 0: another one woke, and this one has come to its place from before it. */
		if (ticks > 0 && counts(recorder, slot, now))
			dropped += look(recorder, slot, ticks, now);
		if (slot->still == STILL_LOOKS)
			recorder->next_asleep++;
		else
			slots_wake(slots, slot); /* the next one has come to its place */
	}
	return dropped;
}

void recorder_sweep(struct recorder *recorder, uint64_t now)
{
	uint64_t tick = atomic_load(&recorder->ticks);
	uint64_t dropped = sweep_awake(recorder, now);
	dropped += sweep_asleep(recorder, now, tick);
	lay_down(recorder, tick);
	atomic_fetch_add(&recorder->dropped, dropped);
}

void recorder_tell_of_ended(struct recorder *recorder)
{
	for (size_t i = 0; i < recorder->slots.gone_count; i++)
		if (!tell_repeats(recorder, recorder->slots.gone[i]))
			return;
}

/* What those that are still asleep did since their last looks. */
static void look_once_more(struct recorder *recorder)
{
	const struct slots *slots = &recorder->slots;
	uint64_t end = atomic_load(&recorder->ticks);
	for (size_t i = slots->awake_count; i < slots->count; i++) {
		struct thread_slot *slot = slots->slots[i];
		uint64_t ticks = end - 1 - slot->looked_tick;
		if (ticks == 0)
			continue;
		if (slot->gone || !sleeps_on(slot))
			atomic_fetch_add(&recorder->late, ticks);
		else
			slot->repeats += ticks;
	}
}

static void tell_at_last(struct recorder *recorder, struct thread_slot *slot, uint64_t deadline)
{
	struct timespec rest = {.tv_nsec = 1000000};
	while (!tell_repeats(recorder, slot)) {
		if (clock_now_ns() >= deadline) {
			atomic_fetch_add(&recorder->dropped, slot->repeats);
			return;
		}
		nanosleep(&rest, NULL);
	}
}

void recorder_sweep_end(struct recorder *recorder)
{
	const struct slots *slots = &recorder->slots;
	uint64_t deadline = clock_now_ns() + LAST_NS;
	if (!recorder->options.wall)
		return;
	look_once_more(recorder);
	for (size_t i = 0; i < slots->gone_count; i++)
		tell_at_last(recorder, slots->gone[i], deadline);
	for (size_t i = 0; i < slots->count; i++)
		tell_at_last(recorder, slots->slots[i], deadline);
}
