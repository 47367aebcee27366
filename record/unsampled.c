/* SPDX-License-Identifier: MIT */
/*
 * What a thread did at ticks that have no sample of it: by its switch log, by what its stop waited
 * for, or not known. Repeats of its last sample are reported to the worker now and then.
 */
#include "record/unsampled.h"

static const uint64_t REPORT_NS = 200000000; /* between two reports of a thread's repeats */

bool unsampled_flush(struct recorder *recorder, struct watched_thread *watched)
{
	if (watched->deferred)
		atomic_fetch_add(&recorder->taken.dropped, watched->repeats);
	else if (watched->repeats && !queue_push_repeat(&recorder->queue, watched, watched->repeats,
							watched->repeats_ns))
		return false;
	watched->repeats = 0;
	watched->deferred = false;
	return true;
}

void unsampled_ask(struct recorder *recorder, uint64_t ticks)
{
	atomic_fetch_add(&recorder->taken.asked, ticks);
}

void unsampled_ask_late(struct recorder *recorder, uint64_t ticks)
{
	unsampled_ask(recorder, ticks);
	atomic_fetch_add(&recorder->taken.late, ticks);
}

void unsampled_repeat(struct recorder *recorder, struct watched_thread *watched, uint64_t ticks,
		      uint64_t last_ns, uint64_t now)
{
	unsampled_ask(recorder, ticks);
	watched->repeats += ticks;
	watched->repeats_ns = last_ns;
	if (now - watched->reported_ns >= REPORT_NS && unsampled_flush(recorder, watched))
		watched->reported_ns = now;
}

bool unsampled_is_pending(const struct watched_thread *watched)
{
	return watched->deferred || atomic_load(&watched->copy.advice.last_bad);
}

/*
 * Nothing reports its switches. But while it was waited for to get a CPU to stop on, it was in the
 * place in which it stopped. On a CPU it would have stopped before START_NS was over.
 */
static void look_back_at_stop(struct recorder *recorder, struct watched_thread *watched,
			      uint64_t ticks, uint64_t now)
{
	static const uint64_t START_NS = 200000;
	const struct copy_state *state = &watched->copy;
	uint64_t still = missed_between(&recorder->missed, state->asked_to_stop_ns + START_NS,
					state->stopped_ns);
	if (unsampled_is_pending(watched))
		still = 0;
	still = still < ticks ? still : ticks;
	if (still)
		unsampled_repeat(recorder, watched, still, state->stopped_ns, now);
	unsampled_ask_late(recorder, watched->asked ? ticks - still : 0);
}

uint64_t unsampled_look_back(struct recorder *recorder, struct watched_thread *watched,
			     uint64_t ticks, uint64_t now)
{
	enum { MOST = 32 };
	struct thread_change changes[MOST];
	struct missed_split split;
	const struct stillness *const sampled = &watched->copy.sampled;
	const bool known = sampled->by == STILL_BY_LOG && !unsampled_is_pending(watched);
	bool all;
	if (ticks == 0)
		return 0;
	if (!copy_state_is_followed(&watched->copy)) {
		look_back_at_stop(recorder, watched, ticks, now);
		return 0;
	}
	const size_t count =
		copy_state_switches(&watched->copy, sampled->value, changes, MOST, &all);
	missed_split(&recorder->missed, changes, count, all && known, &split);
	if (split.before) {
		const uint64_t since = ticks - split.before + 1;
		unsampled_repeat(recorder, watched, split.before,
				 now - since * recorder->schedule.period_ns, now);
	}
	unsampled_ask_late(recorder, split.ran + (recorder->options.wall ? split.slept : 0));
	/* When a blocked thread woke that waits for a CPU is not known. */
	return recorder->options.wall || (count && changes[0].runnable) ? split.after : 0;
}

void unsampled_settle_after(struct recorder *recorder, struct watched_thread *watched,
			    uint64_t position, uint64_t ticks)
{
	const struct stillness *const sampled = &watched->copy.sampled;
	if (sampled->by != STILL_BY_LOG || sampled->value != position) {
		unsampled_ask_late(recorder, ticks);
		return;
	}
	unsampled_ask(recorder, ticks);
	watched->repeats += ticks;
}

bool unsampled_defer(struct watched_thread *watched)
{
	if (watched->deferred)
		watched->copy.blocked = true; /* as when it was put off first */
	else
		copy_state_note_blocked(&watched->copy);
	watched->deferred = watched->copy.blocked;
	watched->repeats += watched->copy.blocked;
	return watched->copy.blocked;
}

void unsampled_settle(struct recorder *recorder, struct watched_thread *watched,
		      const struct target_wait *wait, const struct raw_sample *raw, bool taken,
		      uint64_t runs)
{
	bool same = raw->stopped ? take_knows_call(&watched->copy, wait)
				 : watched->copy.blocked && watched->copy.blocked_runs == runs;
	if (watched->deferred && !(taken && same))
		unsampled_flush(recorder, watched);
	watched->deferred = false;
}
