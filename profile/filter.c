/* SPDX-License-Identifier: MIT */
/* Which stacks of a profile count, and which frames of them. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "profile/internal.h"

/* What a frame does to the stacks that it is in. */
struct verdict {
	bool shown, focused, ignored;
};

struct filtering {
	const struct profile *from;
	struct profile to;
	struct verdict *frames;
	uint32_t *copies; /* of each frame: its number in `to` */
	bool *counts;	  /* of each node: samples that end in it count */
	bool *wanted;	  /* ... or some inside of it do */
	uint32_t *nodes;  /* where it is in `to` */
};

static bool matches(const regex_t *regex, const char *text, const char *full_text)
{
	return regexec(regex, text, 0, NULL, 0) == 0 || regexec(regex, full_text, 0, NULL, 0) == 0;
}

static struct verdict judge(const struct profile_filter *filter, const struct frame *frame)
{
	struct strbuf _cleanup_strbuf_ text, _cleanup_strbuf_ full;
	strbuf_init(&text);
	strbuf_init(&full);
	frame_text(&text, frame, true, false);
	frame_text(&full, frame, true, true);
	/* Who reads a profile by threads wants to do so whatever is looked for. */
	const bool root = frame->kind == FRAME_THREAD;
	return (struct verdict){
		.shown = root ||
			 ((!filter->include || matches(filter->include, text.text, full.text)) &&
			  (!filter->exclude || !matches(filter->exclude, text.text, full.text))),
		.focused = filter->focus && matches(filter->focus, text.text, full.text),
		.ignored = filter->ignore && matches(filter->ignore, text.text, full.text),
	};
}

/* Which stacks count: bit by bit from the root on. */
static void choose_stacks(struct filtering *filtering, const struct profile_filter *filter)
{
	const struct profile *from = filtering->from;
	bool *focused = alloc_zeroed(from->node_count, sizeof(*focused));
	bool *ignored = alloc_zeroed(from->node_count, sizeof(*ignored));
	for (size_t i = 0; i < from->node_count; i++) {
		const struct profile_node *node = &from->nodes[i];
		if (i != PROFILE_ROOT) {
			focused[i] =
				focused[node->parent] || filtering->frames[node->frame].focused;
			ignored[i] =
				ignored[node->parent] || filtering->frames[node->frame].ignored;
		}
		filtering->counts[i] = (focused[i] || !filter->focus) && !ignored[i];
		filtering->wanted[i] = filtering->counts[i] && node->self > 0;
	}
	for (size_t i = from->node_count; i-- > 1;)
		if (filtering->wanted[i])
			filtering->wanted[from->nodes[i].parent] = true;
	free(focused);
	free(ignored);
}

static bool is_native(const struct profile *profile, const struct profile_node *node)
{
	const enum frame_kind kind = profile->frames[node->frame].kind;
	return kind == FRAME_NATIVE || kind == FRAME_CYTHON || kind == FRAME_GUESSED;
}

static void copy_stacks(struct filtering *filtering)
{
	const struct profile *from = filtering->from;
	struct profile *to = &filtering->to;
	uint64_t native = 0;
	for (uint32_t i = 0; i < from->node_count; i++) {
		const struct profile_node *node = &from->nodes[i];
		const uint64_t self = filtering->counts[i] ? node->self : 0;
		if (i == PROFILE_ROOT) {
			profile_add_again(to, PROFILE_ROOT, self);
		} else if (filtering->wanted[i]) {
			const uint32_t parent = filtering->nodes[node->parent];
			filtering->nodes[i] = parent;
			if (filtering->frames[node->frame].shown)
				filtering->nodes[i] = profile_add_to(
					to, parent, filtering->copies[node->frame], 0);
			profile_add_again(to, filtering->nodes[i], self);
			native += is_native(from, node) ? self : 0;
		}
		to->counts.samples += self;
	}
	to->counts.native_samples = native;
}

static void copy_times(struct filtering *filtering)
{
	const struct profile *from = filtering->from;
	if (!from->timed)
		return;
	for (size_t i = 0; i < from->node_count; i++)
		if (!filtering->counts[i])
			filtering->nodes[i] = TIMELINE_NONE;
	timeline_map(&filtering->to.timeline, &from->timeline, filtering->nodes);
	filtering->to.timed = true;
}

/* How many of the samples that are left are repeats, ... nobody knows: as many as of all, of what
 * is seldom no more than there are. */
static void count_parts(struct profile_counts *counts, uint64_t all)
{
	uint64_t *const parts[] = {&counts->salvaged, &counts->guessed, &counts->truncated};
	if (all)
		counts->repeats =
			(uint64_t)((double)counts->repeats * (double)counts->samples / (double)all);
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (*parts[i] > counts->samples)
			*parts[i] = counts->samples;
}

void profile_filter(struct profile *profile, const struct profile_filter *filter)
{
	const size_t nodes = profile->node_count, frames = profile->frame_count;
	struct filtering filtering = {
		.from = profile,
		.frames = alloc_zeroed(frames + 1, sizeof(*filtering.frames)),
		.counts = alloc_zeroed(nodes, sizeof(*filtering.counts)),
		.wanted = alloc_zeroed(nodes, sizeof(*filtering.wanted)),
		.nodes = alloc_zeroed(nodes, sizeof(*filtering.nodes)),
	};
	for (size_t i = 0; i < frames; i++)
		filtering.frames[i] = judge(filter, &profile->frames[i]);
	profile_init(&filtering.to, profile->strings);
	profile_copy_facts(&filtering.to, profile);
	filtering.to.counts = profile->counts;
	filtering.to.counts.samples = 0;
	filtering.copies = profile_copy_frames(&filtering.to, profile);
	choose_stacks(&filtering, filter);
	copy_stacks(&filtering);
	copy_times(&filtering);
	const uint64_t left_out = profile->counts.samples - filtering.to.counts.samples;
	filtering.to.counts.asked -= left_out <= profile->counts.asked ? left_out : 0;
	count_parts(&filtering.to.counts, profile->counts.samples);
	free(filtering.frames);
	free(filtering.copies);
	free(filtering.counts);
	free(filtering.wanted);
	free(filtering.nodes);
	profile_replace(profile, &filtering.to);
}
