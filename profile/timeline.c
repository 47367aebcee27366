/* SPDX-License-Identifier: MIT */
/*
 * Timed samples, as runs. Ticks lie a period apart, each up to a quarter of one early or late
 * (record/schedule.c): so the next sample of a run is at most one and a half periods after the one
 * before, and what comes later than GAP_EIGHTHS is behind a gap.
 */
#include "profile/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { GAP_EIGHTHS = 13 };

/* 146 years: what does not end until then is no time. */
static const uint64_t LATEST_NS = UINT64_C(1) << 62;

const char *sample_flag_name(enum sample_flag flag)
{
	switch (flag) {
	case SAMPLE_HOLDS_GIL:
		return "holds-gil";
	case SAMPLE_WAITS_FOR_GIL:
		return "waits-for-gil";
	case SAMPLE_IDLE:
		return "idle";
	case SAMPLE_GC:
		return "gc";
	case SAMPLE_SALVAGED:
		return "salvaged";
	case SAMPLE_GUESSED:
		return "guessed";
	case SAMPLE_FLAGS:
		break;
	}
	return "?";
}

void timeline_init(struct timeline *timeline, double rate)
{
	const double usable = rate > 0 && rate <= 1e9 ? rate : 100;
	const double period = 1e9 / usable;
	*timeline = (struct timeline){
		.period_ns = period < 1e15 ? (uint64_t)period : UINT64_C(1000000000000000),
		.most = TIMELINE_MOST,
	};
}

void timeline_release(struct timeline *timeline)
{
	free(timeline->processes);
	free(timeline->threads);
	free(timeline->samples);
	free(timeline->ends);
	memset(timeline, 0, sizeof(*timeline));
}

uint32_t timeline_process(struct timeline *timeline, const struct profile_process *process)
{
	timeline->processes = alloc_room(timeline->processes, &timeline->process_capacity,
					 timeline->process_count + 1, sizeof(*timeline->processes));
	timeline->processes[timeline->process_count] = *process;
	return (uint32_t)timeline->process_count++;
}

uint32_t timeline_thread(struct timeline *timeline, const struct profile_thread *thread)
{
	const size_t count = timeline->thread_count + 1;
	timeline->threads = alloc_room(timeline->threads, &timeline->thread_capacity, count,
				       sizeof(*timeline->threads));
	timeline->ends =
		alloc_room(timeline->ends, &timeline->end_capacity, count, sizeof(*timeline->ends));
	timeline->threads[timeline->thread_count] = *thread;
	timeline->ends[timeline->thread_count] = (struct timeline_end){.sample = TIMELINE_NONE};
	return (uint32_t)timeline->thread_count++;
}

uint64_t timeline_last_ns(const struct timeline *timeline, const struct profile_sample *run)
{
	return run->time_ns + (run->count - UINT64_C(1)) * timeline->period_ns;
}

uint64_t timeline_end_ns(const struct timeline *timeline, const struct profile_sample *run,
			 const struct profile_sample *next)
{
	const uint64_t end = timeline_last_ns(timeline, run) + timeline->period_ns;
	return next && next->time_ns < end ? next->time_ns : end;
}

static struct profile_sample *last_run(const struct timeline *timeline, uint32_t thread)
{
	const uint32_t sample = timeline->ends[thread].sample;
	return sample == TIMELINE_NONE ? NULL : &timeline->samples[sample];
}

static bool is_behind_gap(const struct timeline *timeline, const struct profile_sample *last,
			  uint64_t time_ns)
{
	const uint64_t end = timeline_last_ns(timeline, last);
	return time_ns > end && time_ns - end > timeline->period_ns * GAP_EIGHTHS / 8;
}

static bool fits(const struct timeline *timeline, uint64_t time_ns, uint64_t count)
{
	return time_ns <= LATEST_NS && count <= (LATEST_NS - time_ns) / timeline->period_ns;
}

static bool goes_on(const struct timeline *timeline, const struct profile_sample *last,
		    const struct profile_sample *run)
{
	return last->node == run->node && last->flags == run->flags &&
	       last->count <= UINT32_MAX - run->count &&
	       fits(timeline, last->time_ns, (uint64_t)last->count + run->count) &&
	       !is_behind_gap(timeline, last, run->time_ns);
}

static void append(struct timeline *timeline, const struct profile_sample *run)
{
	struct timeline_end *const end = &timeline->ends[run->thread];
	const struct profile_sample *const last = last_run(timeline, run->thread);
	const uint64_t before_ns = last ? timeline_last_ns(timeline, last) : end->before_ns;
	struct profile_sample kept = *run;
	/* Repeats are moved to where they can be: a thread's times never go back. */
	if (kept.time_ns < before_ns)
		kept.time_ns = before_ns;
	if (timeline->sample_count >= timeline->most || !fits(timeline, kept.time_ns, kept.count)) {
		timeline->lost += run->count;
		/* What repeats it is lost, too. */
		*end = (struct timeline_end){TIMELINE_NONE, before_ns};
		return;
	}
	timeline->samples = alloc_room(timeline->samples, &timeline->sample_capacity,
				       timeline->sample_count + 1, sizeof(*timeline->samples));
	*end = (struct timeline_end){(uint32_t)timeline->sample_count, before_ns};
	timeline->samples[timeline->sample_count++] = kept;
}

void timeline_add(struct timeline *timeline, const struct profile_sample *run)
{
	struct profile_sample *const last = last_run(timeline, run->thread);
	if (last && goes_on(timeline, last, run))
		last->count += run->count;
	else
		append(timeline, run);
}

/* The run has got longer: it started earlier, if it cannot have that many samples otherwise. */
static void move_start(struct profile_sample *run, uint64_t start_ns, uint64_t least_ns,
		       uint64_t period_ns)
{
	const uint64_t start = start_ns > least_ns ? start_ns : least_ns;
	if (start < run->time_ns && run->time_ns - start > period_ns / 2)
		run->time_ns = start;
}

void timeline_repeat(struct timeline *timeline, uint32_t thread, uint64_t ticks, uint64_t last_ns)
{
	struct profile_sample *const run = last_run(timeline, thread);
	if (!run || ticks > UINT32_MAX - run->count ||
	    !fits(timeline, run->time_ns, run->count + ticks)) {
		timeline->lost += ticks;
		return;
	}
	const uint64_t length = (ticks - 1) * timeline->period_ns;
	const uint64_t first = last_ns > length ? last_ns - length : 0;
	if (is_behind_gap(timeline, run, first)) {
		append(timeline, &(struct profile_sample){first, run->node, thread, (uint32_t)ticks,
							  run->flags});
		return;
	}
	const uint64_t end = timeline_last_ns(timeline, run);
	const uint64_t last = last_ns > end ? last_ns : end;
	run->count += (uint32_t)ticks;
	const uint64_t whole = (run->count - UINT64_C(1)) * timeline->period_ns;
	move_start(run, last > whole ? last - whole : 0, timeline->ends[thread].before_ns,
		   timeline->period_ns);
}

void timeline_order_init(struct timeline_order *order, const struct timeline *timeline)
{
	const size_t threads = timeline->thread_count, runs = timeline->sample_count;
	order->first = alloc_zeroed(threads + 2, sizeof(*order->first));
	order->runs = alloc_zeroed(runs + 1, sizeof(*order->runs));
	size_t *const next =
		order->first + 1; /* while it is filled: where the thread's next goes */
	for (size_t i = 0; i < runs; i++)
		next[timeline->samples[i].thread + 1]++;
	for (size_t i = 1; i < threads; i++)
		next[i] += next[i - 1];
	for (size_t i = 0; i < runs; i++)
		order->runs[next[timeline->samples[i].thread]++] = (uint32_t)i;
}

void timeline_order_release(struct timeline_order *order)
{
	free(order->runs);
	free(order->first);
	memset(order, 0, sizeof(*order));
}

void timeline_map(struct timeline *timeline, const struct timeline *from, const uint32_t *nodes)
{
	memset(timeline, 0, sizeof(*timeline));
	timeline->period_ns = from->period_ns;
	timeline->most = from->most;
	for (size_t i = 0; i < from->process_count; i++)
		timeline_process(timeline, &from->processes[i]);
	for (size_t i = 0; i < from->thread_count; i++)
		timeline_thread(timeline, &from->threads[i]);
	timeline->lost += from->lost;
	for (size_t i = 0; i < from->sample_count; i++) {
		struct profile_sample run = from->samples[i];
		run.node = nodes[run.node];
		if (run.node != TIMELINE_NONE)
			timeline_add(timeline, &run);
	}
}
