/* SPDX-License-Identifier: MIT */
/* What is made of a timeline for formats without times, and the other way round. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "base/table.h"
#include "profile/internal.h"

struct rooting {
	const struct profile *from;
	enum root_choice choice;
	struct profile to;
	uint32_t *copies;   /* of each frame: its number in `to` */
	uint32_t *roots;    /* of each thread: the node of its root frame; PROFILE_ROOT: not yet */
	struct table nodes; /* (thread, node) -> node in `to` */
	uint32_t *path;
	size_t path_capacity;
};

/* Among those of its process. */
static bool is_shared(const struct timeline *timeline, const struct profile_thread *thread)
{
	size_t count = 0;
	for (size_t i = 0; i < timeline->thread_count && count < 2; i++)
		count += timeline->threads[i].name == thread->name &&
			 timeline->threads[i].process == thread->process;
	return count > 1;
}

/* A process's, a thread's, or a thread's inside of a process's. */
static bool is_root(const struct profile *profile, uint32_t node)
{
	while (node != PROFILE_ROOT &&
	       profile->frames[profile->nodes[node].frame].kind == FRAME_THREAD)
		node = profile->nodes[node].parent;
	return node == PROFILE_ROOT;
}

/* The frame of the process whose stack ends in that node; PROFILE_NONE: it has none. */
static uint32_t process_frame(const struct profile *profile, uint32_t node)
{
	uint32_t outermost = PROFILE_ROOT;
	for (uint32_t at = node; at != PROFILE_ROOT; at = profile->nodes[at].parent)
		outermost = at;
	if (outermost == PROFILE_ROOT || !is_root(profile, outermost))
		return PROFILE_NONE;
	const uint32_t frame = profile->nodes[outermost].frame;
	const char *name = profile->frames[frame].name;
	return name && strncmp(name, "process ", strlen("process ")) == 0 ? frame : PROFILE_NONE;
}

static uint32_t root_frame(struct rooting *rooting, const struct profile_thread *thread,
			   enum root_choice choice)
{
	struct strbuf _cleanup_strbuf_ text;
	strbuf_init(&text);
	strbuf_add_text(&text, "thread ");
	if (!thread->name || choice == ROOTS_EACH || !is_shared(&rooting->from->timeline, thread))
		strbuf_printf(&text, "%d%s", (int)thread->tid, thread->name ? " " : "");
	if (thread->name)
		strbuf_printf(&text, "\"%s\"", thread->name);
	const struct frame frame = {
		.kind = FRAME_THREAD,
		.name = intern_text(rooting->to.strings, text.text),
		.column = -1,
		.end_column = -1,
	};
	return profile_frame(&rooting->to, &frame);
}

/* Where a stack ends that is the thread's; the stack may have a root frame already. */
static uint32_t node_of(struct rooting *rooting, uint32_t thread, uint32_t node)
{
	const struct profile *from = rooting->from;
	uint32_t found = rooting->roots[thread];
	size_t depth = 0;
	for (uint32_t at = node; at != PROFILE_ROOT; at = from->nodes[at].parent) {
		if (table_find(&rooting->nodes, thread, at, &found))
			break;
		rooting->path = alloc_room(rooting->path, &rooting->path_capacity, depth + 1,
					   sizeof(*rooting->path));
		rooting->path[depth++] = at;
	}
	while (depth > 0) {
		const uint32_t at = rooting->path[--depth];
		const struct profile_node *one = &from->nodes[at];
		if (!is_root(from, at))
			found = profile_add_to(&rooting->to, found, rooting->copies[one->frame], 0);
		table_put(&rooting->nodes, thread, at, found);
	}
	return found;
}

/* The thread's root frame, inside of that of the process which the stack has. */
static void root_thread(struct rooting *rooting, const struct profile_sample *run)
{
	const uint32_t process = process_frame(rooting->from, run->node);
	const struct profile_thread *thread = &rooting->from->timeline.threads[run->thread];
	uint32_t *const root = &rooting->roots[run->thread];
	if (*root != PROFILE_ROOT)
		return;
	if (process != PROFILE_NONE)
		*root = profile_add_to(&rooting->to, *root, rooting->copies[process], 0);
	*root = profile_add_to(&rooting->to, *root, root_frame(rooting, thread, rooting->choice),
			       0);
}

static void root_times(struct rooting *rooting, uint64_t *left)
{
	const struct timeline *from = &rooting->from->timeline;
	struct timeline *to = &rooting->to.timeline;
	for (size_t i = 0; i < from->process_count; i++)
		timeline_process(to, &from->processes[i]);
	for (size_t i = 0; i < from->thread_count; i++)
		timeline_thread(to, &from->threads[i]);
	to->lost = from->lost;
	for (size_t i = 0; i < from->sample_count; i++) {
		struct profile_sample run = from->samples[i];
		left[run.node] -= run.count;
		root_thread(rooting, &run);
		run.node = node_of(rooting, run.thread, run.node);
		profile_add_again(&rooting->to, run.node, run.count);
		timeline_add(to, &run);
	}
}

/* What has no time has no thread that is known. */
static void copy_others(struct rooting *rooting, const uint64_t *left)
{
	const struct profile *from = rooting->from;
	uint32_t *nodes = alloc_zeroed(from->node_count, sizeof(*nodes));
	for (uint32_t i = 1; i < from->node_count; i++)
		nodes[i] = PROFILE_NONE;
	for (uint32_t i = 0; i < from->node_count; i++) {
		size_t depth = 0;
		uint32_t at = i;
		for (; left[i] && nodes[at] == PROFILE_NONE; at = from->nodes[at].parent) {
			rooting->path = alloc_room(rooting->path, &rooting->path_capacity,
						   depth + 1, sizeof(*rooting->path));
			rooting->path[depth++] = at;
		}
		while (depth > 0) {
			const struct profile_node *one = &from->nodes[rooting->path[--depth]];
			nodes[rooting->path[depth]] = profile_add_to(
				&rooting->to, nodes[one->parent], rooting->copies[one->frame], 0);
		}
		if (left[i])
			profile_add_again(&rooting->to, nodes[i], left[i]);
	}
	free(nodes);
}

void profile_root(struct profile *profile, enum root_choice choice)
{
	const struct timeline *timeline = &profile->timeline;
	if (choice == ROOTS_NONE || !profile->timed)
		return;
	struct rooting rooting = {
		.from = profile,
		.choice = choice,
		.roots = alloc_zeroed(timeline->thread_count + 1, sizeof(*rooting.roots)),
	};
	uint64_t *left = alloc_zeroed(profile->node_count, sizeof(*left));
	for (size_t i = 0; i < profile->node_count; i++)
		left[i] = profile->nodes[i].self;
	profile_init(&rooting.to, profile->strings);
	profile_copy_facts(&rooting.to, profile);
	rooting.to.counts = profile->counts;
	profile_time(&rooting.to);
	rooting.to.timeline.period_ns = timeline->period_ns;
	rooting.copies = profile_copy_frames(&rooting.to, profile);
	root_times(&rooting, left);
	copy_others(&rooting, left);
	table_release(&rooting.nodes);
	free(rooting.copies);
	free(rooting.roots);
	free(rooting.path);
	free(left);
	profile_replace(profile, &rooting.to);
}

void profile_make_times(struct profile *profile)
{
	struct profile_sample run = {0};
	if (profile->timed)
		return;
	timeline_release(&profile->timeline);
	profile_time(profile);
	profile->times_made = true;
	struct timeline *const timeline = &profile->timeline;
	run.thread = timeline_thread(
		timeline,
		&(struct profile_thread){
			.process = timeline_process(
				timeline,
				&(struct profile_process){profile->pid, profile->command_line,
							  profile->python_version}),
			.tid = profile->pid,
			.known_to_python = true});
	for (run.node = 0; run.node < profile->node_count; run.node++) {
		uint64_t left = profile->nodes[run.node].self;
		for (; left > 0; left -= run.count) {
			run.count = left < UINT32_MAX ? (uint32_t)left : UINT32_MAX;
			timeline_add(timeline, &run);
			/* What is past all times is counted as lost. */
			uint64_t length;
			if (__builtin_mul_overflow(run.count, timeline->period_ns, &length) ||
			    __builtin_add_overflow(run.time_ns, length, &run.time_ns))
				run.time_ns = UINT64_MAX;
		}
	}
}
