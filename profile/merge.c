/* SPDX-License-Identifier: MIT */
/* Several profiles as one, if what they count is the same. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "profile/internal.h"

void profile_copy_facts(struct profile *to, const struct profile *from)
{
	to->command_line = from->command_line;
	to->python_version = from->python_version;
	to->mode = from->mode;
	to->event = from->event;
	to->host = from->host;
	to->version = from->version;
	to->pid = from->pid;
	to->rate = from->rate;
	to->start_time_ns = from->start_time_ns;
	to->debug_problems = from->debug_problems;
	to->native = from->native;
	to->times_made = from->times_made;
}

uint32_t *profile_copy_frames(struct profile *to, const struct profile *from)
{
	uint32_t *frames = alloc_zeroed(from->frame_count + 1, sizeof(*frames));
	for (size_t i = 0; i < from->frame_count; i++)
		frames[i] = profile_frame(to, &from->frames[i]);
	return frames;
}

void profile_replace(struct profile *profile, struct profile *to)
{
	profile_release(profile);
	*profile = *to;
}

static bool is_known(const char *fact)
{
	return fact && *fact && strcmp(fact, "unknown") != 0 && strcmp(fact, "replay") != 0;
}

static bool differ(const char *one, const char *other)
{
	return is_known(one) && is_known(other) && strcmp(one, other) != 0;
}

bool profile_compare(const struct profile *one, const struct profile *other, struct error *error)
{
	if (differ(one->mode, other->mode))
		return error_set(error, ERROR_UNSUPPORTED,
				 "not the same threads were counted: one is of mode %s, another %s",
				 one->mode, other->mode);
	if (differ(one->event, other->event))
		return error_set(error, ERROR_UNSUPPORTED,
				 "not the same was sampled: one is of event %s, another %s",
				 one->event, other->event);
	if (one->rate > 0 && other->rate > 0 &&
	    fabs(one->rate - other->rate) > 0.01 * fmax(one->rate, other->rate))
		return error_set(error, ERROR_UNSUPPORTED,
				 "a sample is not the same time: one is of %g Hz, another %g",
				 one->rate, other->rate);
	if (is_known(one->mode) && is_known(other->mode) && one->native != other->native)
		return error_set(error, ERROR_UNSUPPORTED,
				 "one has native frames, another has not");
	return true;
}

static void add_counts(struct profile_counts *to, const struct profile_counts *from)
{
	for (size_t i = 0; i < PROFILE_COUNT_FIELDS; i++)
		profile_set_count(to, i, profile_count(to, i) + profile_count(from, i));
}

static void append_times(struct profile *to, const struct profile *from, const uint32_t *nodes,
			 uint64_t later_ns)
{
	struct timeline *const timeline = &to->timeline;
	const uint32_t processes = (uint32_t)timeline->process_count;
	const uint32_t threads = (uint32_t)timeline->thread_count;
	for (size_t i = 0; i < from->timeline.process_count; i++)
		timeline_process(timeline, &from->timeline.processes[i]);
	for (size_t i = 0; i < from->timeline.thread_count; i++) {
		struct profile_thread thread = from->timeline.threads[i];
		thread.process += processes;
		timeline_thread(timeline, &thread);
	}
	timeline->lost += from->timeline.lost;
	for (size_t i = 0; i < from->timeline.sample_count; i++) {
		struct profile_sample run = from->timeline.samples[i];
		run.node = nodes[run.node];
		run.thread += threads;
		run.time_ns += later_ns;
		timeline_add(timeline, &run);
	}
}

static void append(struct profile *to, const struct profile *from)
{
	uint32_t *frames = profile_copy_frames(to, from);
	uint32_t *nodes = alloc_zeroed(from->node_count, sizeof(*nodes));
	const uint64_t later_ns = from->start_time_ns > to->start_time_ns && to->start_time_ns
					  ? from->start_time_ns - to->start_time_ns
					  : 0;
	profile_add_again(to, PROFILE_ROOT, from->nodes[PROFILE_ROOT].self);
	for (uint32_t i = 1; i < from->node_count; i++) {
		const struct profile_node *node = &from->nodes[i];
		nodes[i] = profile_add_to(to, nodes[node->parent], frames[node->frame], node->self);
	}
	if (to->timed)
		append_times(to, from, nodes, later_ns);
	add_counts(&to->counts, &from->counts);
	free(frames);
	free(nodes);
}

/* The one that began first; its facts are those of all. */
static const struct profile *first_of(const struct profile *from, size_t count)
{
	const struct profile *first = &from[0];
	for (size_t i = 1; i < count; i++)
		if (from[i].start_time_ns < first->start_time_ns)
			first = &from[i];
	return first;
}

bool profile_merge(struct profile *profile, const struct profile *from, size_t count,
		   struct error *error)
{
	bool timed = true;
	for (size_t i = 0; i < count; i++) {
		timed = timed && from[i].timed;
		if (!profile_compare(&from[0], &from[i], error))
			return false;
	}
	const struct profile *const first = first_of(from, count);
	profile_init(profile, first->strings);
	profile_copy_facts(profile, first);
	if (timed) {
		profile_time(profile);
		profile->timeline.period_ns = first->timeline.period_ns;
	}
	for (size_t i = 0; i < count; i++)
		append(profile, &from[i]);
	return true;
}
