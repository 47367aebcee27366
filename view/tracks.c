/* SPDX-License-Identifier: MIT */
/*
 * What formats with a time axis draw: a track for each thread, its runs of equal samples from left
 * to right, with gaps where it has no samples. A run is as long as its samples are periods, so that
 * lengths and counts say the same: what starts little before or after the end of the one before
 * starts there.
 *
 * Samples without a time (those past a timeline's limit; all, in a profile that has none) are a
 * track of their own, in the order of the call tree. So in every format every sample is there.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "view/view.h"

/* A time that readers with floating-point numbers have exactly. */
#define MOST_NS (UINT64_C(1) << 53)

uint64_t view_period_ns(const struct profile *profile)
{
	if (profile->timed)
		return profile->timeline.period_ns;
	const double rate = profile->rate;
	return isfinite(rate) && rate >= 1e-3 && rate <= 1e9 ? (uint64_t)llround(1e9 / rate)
							     : 1000000;
}

static void add_run(struct track *track, size_t *capacity, const struct track_run *run)
{
	track->runs = alloc_room(track->runs, capacity, track->count + 1, sizeof(*track->runs));
	track->runs[track->count++] = *run;
}

/* "MainThread (4242)", with the process where there are several. */
static char *thread_label(const struct profile *profile, const struct profile_thread *thread)
{
	struct strbuf label;
	strbuf_init(&label);
	if (profile->timeline.process_count > 1)
		strbuf_printf(&label, "process %d, ",
			      (int)profile->timeline.processes[thread->process].pid);
	strbuf_printf(&label, "%s (%d)", thread->name && *thread->name ? thread->name : "thread",
		      (int)thread->tid);
	return label.text;
}

static void make_timed(struct track *track, const struct profile *profile,
		       const struct timeline_order *order, uint32_t thread)
{
	const struct timeline *timeline = &profile->timeline;
	const struct profile_thread *at = &timeline->threads[thread];
	const uint64_t period = timeline->period_ns;
	const struct profile_process *process = &timeline->processes[at->process];
	*track = (struct track){
		.label = thread_label(profile, at),
		.name = at->name && *at->name ? at->name : "thread",
		.process = process->command_line,
		.pid = process->pid,
		.tid = at->tid,
		.timed = true,
	};
	/* Whole microseconds stay whole: readers with floating-point numbers add them up. */
	const uint64_t step = period % 1000 ? 1 : 1000;
	size_t capacity = 0;
	uint64_t cursor = 0;
	for (size_t i = order->first[thread]; i < order->first[thread + 1]; i++) {
		const struct profile_sample *run = &timeline->samples[order->runs[i]];
		const bool joined = track->count && run->time_ns < cursor + period / 8 * 5;
		const uint64_t start = joined ? cursor : run->time_ns - run->time_ns % step;
		cursor = start + run->count * period;
		add_run(track, &capacity,
			&(struct track_run){start, cursor, run->count, run->node, run->flags});
	}
}

static uint32_t *make_order(const struct profile *profile)
{
	return view_tree_order(&profile->nodes->parent, sizeof(*profile->nodes),
			       profile->node_count);
}

static void make_untimed(struct track *track, const struct profile *profile)
{
	uint64_t _cleanup_free_ *left = alloc_zeroed(profile->node_count, sizeof(*left));
	uint32_t _cleanup_free_ *order = make_order(profile);
	uint64_t period = view_period_ns(profile), whole = 0;
	for (size_t i = 0; i < profile->node_count; i++) {
		left[i] = profile->nodes[i].self;
		whole = left[i] <= MOST_NS - whole ? whole + left[i] : MOST_NS;
	}
	/* What was read from a file can have any counts. */
	if (whole > MOST_NS / period)
		period = MOST_NS / whole;
	for (size_t i = 0; i < profile->timeline.sample_count; i++) {
		const struct profile_sample *run = &profile->timeline.samples[i];
		left[run->node] -= run->count < left[run->node] ? run->count : left[run->node];
	}
	*track = (struct track){
		.label = alloc_string(profile->timed ? "samples without a time" : "all threads"),
		.name = "samples without a time",
		.process = profile->command_line,
		.pid = profile->pid,
		.tid = profile->pid,
	};
	size_t capacity = 0;
	uint64_t cursor = 0;
	for (size_t i = 0; i < profile->node_count; i++) {
		const uint32_t node = order[i];
		if (!left[node])
			continue;
		const uint64_t end = cursor + left[node] * period;
		add_run(track, &capacity, &(struct track_run){cursor, end, left[node], node, 0});
		cursor = end;
	}
}

void view_tracks_init(struct tracks *tracks, const struct profile *profile)
{
	const size_t threads = profile->timed ? profile->timeline.thread_count : 0;
	*tracks = (struct tracks){.list = alloc_zeroed(threads + 1, sizeof(*tracks->list))};
	if (threads) {
		struct timeline_order order;
		timeline_order_init(&order, &profile->timeline);
		for (uint32_t i = 0; i < threads; i++)
			if (order.first[i] < order.first[i + 1])
				make_timed(&tracks->list[tracks->count++], profile, &order, i);
		timeline_order_release(&order);
	}
	struct track *rest = &tracks->list[tracks->count];
	make_untimed(rest, profile);
	if (rest->count || !tracks->count)
		tracks->count++;
	else
		free(rest->label);
}

size_t view_busiest_track(const struct tracks *tracks)
{
	size_t best = 0;
	uint64_t most = 0;
	for (size_t i = 0; i < tracks->count; i++) {
		uint64_t samples = 0;
		for (size_t j = 0; j < tracks->list[i].count; j++)
			samples += tracks->list[i].runs[j].count;
		if (samples > most) {
			most = samples;
			best = i;
		}
	}
	return best;
}

void view_tracks_release(struct tracks *tracks)
{
	for (size_t i = 0; i < tracks->count; i++) {
		free(tracks->list[i].label);
		free(tracks->list[i].runs);
	}
	free(tracks->list);
	memset(tracks, 0, sizeof(*tracks));
}
