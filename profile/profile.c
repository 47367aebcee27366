/* SPDX-License-Identifier: MIT */
/*
 * Stacks become a call tree: one node for each distinct path of frames, with the samples that
 * ended in it. Relies on interned strings: equal strings have equal pointers. profile->counts
 * belongs to the caller; nothing here changes it.
 *
 * Nodes that one stack brings are numbered one after the other, so most nodes are the one behind
 * their parent, and only the others are in the table: of a million distinct stacks of 30 frames
 * about every twentieth node.
 */
#include "profile/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/table.h"

/* Node numbers are 32 bits; a tree that large is past any memory, but must not wrap round. */
enum { MAX_NODES = 0x7ffffff0 };

static uint32_t add_node(struct profile *profile, uint32_t parent, uint32_t frame)
{
	profile->nodes = alloc_room(profile->nodes, &profile->node_capacity,
				    profile->node_count + 1, sizeof(*profile->nodes));
	uint32_t id = (uint32_t)profile->node_count++;
	profile->nodes[id] = (struct profile_node){
		.parent = parent,
		.frame = frame,
	};
	if (id != parent + 1)
		id_table_add(&profile->children, hash_pair(parent, frame), id);
	return id;
}

void profile_init(struct profile *profile, struct interner *strings)
{
	memset(profile, 0, sizeof(*profile));
	profile->strings = strings;
	add_node(profile, PROFILE_NONE, PROFILE_NONE); /* PROFILE_ROOT */
}

void profile_release(struct profile *profile)
{
	free(profile->frames);
	free(profile->nodes);
	free(profile->last.steps);
	timeline_release(&profile->timeline);
	id_table_release(&profile->children);
	id_table_release(&profile->frame_ids);
	memset(profile, 0, sizeof(*profile));
}

void profile_time(struct profile *profile)
{
	profile->timed = true;
	timeline_init(&profile->timeline, profile->rate);
}

static uint64_t mix(uint64_t hash, const void *pointer)
{
	return hash_pair(hash, (uint64_t)(uintptr_t)pointer);
}

static uint64_t frame_hash(const struct frame *frame)
{
	uint64_t flags = (uint64_t)frame->kind << 8 | (uint64_t)frame->estimated << 4 |
			 (uint64_t)frame->has_function << 3 | (uint64_t)frame->inlined << 2 |
			 (uint64_t)frame->guessed << 1 | (uint64_t)frame->uncertain;
	uint64_t hash = hash_pair(flags, (uint64_t)(int64_t)frame->line);
	hash = mix(mix(mix(hash, frame->name), frame->file), frame->short_file);
	hash = mix(mix(mix(hash, frame->module), frame->module_path), frame->build_id);
	return hash_pair(hash_pair(hash, frame->offset), frame->function_offset);
}

static bool equal(const struct frame *a, const struct frame *b)
{
	return a->kind == b->kind && a->name == b->name && a->file == b->file &&
	       a->short_file == b->short_file && a->line == b->line && a->module == b->module &&
	       a->module_path == b->module_path && a->offset == b->offset &&
	       a->function_offset == b->function_offset && a->has_function == b->has_function &&
	       a->build_id == b->build_id && a->inlined == b->inlined && a->guessed == b->guessed &&
	       a->uncertain == b->uncertain && a->estimated == b->estimated;
}

uint32_t profile_frame(struct profile *profile, const struct frame *frame)
{
	const uint64_t hash = frame_hash(frame);
	struct id_search search = id_table_search(&profile->frame_ids, hash);
	uint32_t id;
	while (id_table_next(&profile->frame_ids, &search, &id))
		if (equal(&profile->frames[id], frame))
			return id;
	profile->frames = alloc_room(profile->frames, &profile->frame_capacity,
				     profile->frame_count + 1, sizeof(*profile->frames));
	id = (uint32_t)profile->frame_count++;
	profile->frames[id] = *frame;
	id_table_add(&profile->frame_ids, hash, id);
	return id;
}

void profile_index_frames(struct profile *profile)
{
	id_table_clear(&profile->frame_ids);
	for (size_t i = 0; i < profile->frame_count; i++)
		id_table_add(&profile->frame_ids, frame_hash(&profile->frames[i]), (uint32_t)i);
}

static bool find_child(const struct profile *profile, uint32_t parent, uint32_t frame,
		       uint32_t *child)
{
	const uint32_t next = parent + 1;
	if (next == profile->node_count)
		return false; /* children come after their parent */
	if (profile->nodes[next].parent == parent && profile->nodes[next].frame == frame) {
		*child = next;
		return true;
	}
	struct id_search search = id_table_search(&profile->children, hash_pair(parent, frame));
	while (id_table_next(&profile->children, &search, child))
		if (profile->nodes[*child].parent == parent &&
		    profile->nodes[*child].frame == frame)
			return true;
	return false;
}

/* The node of the frame inside of that node; PROFILE_NONE: there is no room for one. */
static uint32_t enter(struct profile *profile, uint32_t node, uint32_t frame)
{
	uint32_t child;
	if (find_child(profile, node, frame, &child))
		return child;
	return profile->node_count < MAX_NODES ? add_node(profile, node, frame) : PROFILE_NONE;
}

/* How many of the outermost frames the stack added last had, too. */
static size_t count_same(const struct profile *profile, const uint32_t *frames, size_t count)
{
	const struct profile_path *last = &profile->last;
	const size_t most = count < last->count ? count : last->count;
	size_t same = 0;
	while (same < most && last->steps[same].frame == frames[same])
		same++;
	return same;
}

uint32_t profile_add(struct profile *profile, const uint32_t *frames, size_t count,
		     uint64_t samples)
{
	struct profile_path *last = &profile->last;
	size_t i = count_same(profile, frames, count);
	uint32_t node = i > 0 ? last->steps[i - 1].node : PROFILE_ROOT;
	last->steps = alloc_room(last->steps, &last->capacity, count + 1, sizeof(*last->steps));
	for (; i < count; i++) {
		const uint32_t child = enter(profile, node, frames[i]);
		if (child == PROFILE_NONE)
			break;
		node = child;
		last->steps[i] = (struct profile_step){frames[i], node};
	}
	last->count = i;
	profile->nodes[node].self += samples;
	return node;
}

uint32_t profile_add_to(struct profile *profile, uint32_t node, uint32_t frame, uint64_t samples)
{
	const uint32_t child = enter(profile, node, frame);
	const uint32_t end = child == PROFILE_NONE ? node : child;
	profile->nodes[end].self += samples;
	return end;
}

void profile_add_again(struct profile *profile, uint32_t node, uint64_t samples)
{
	profile->nodes[node].self += samples;
}

uint64_t *profile_totals(const struct profile *profile)
{
	uint64_t *totals = alloc_zeroed(profile->node_count, sizeof(*totals));
	for (size_t i = profile->node_count; i-- > 0;) {
		totals[i] += profile->nodes[i].self;
		if (i != PROFILE_ROOT)
			totals[profile->nodes[i].parent] += totals[i];
	}
	return totals;
}

bool profile_is_of_cpu_time(const struct profile *profile)
{
	return profile->mode && strcmp(profile->mode, "cpu") == 0;
}

struct profile_pacing profile_pacing(const struct profile_counts *counts, double rate)
{
	if (!counts->elapsed_ns)
		return (struct profile_pacing){0};
	const double ticks = (double)counts->ticks, wanted = ticks + (double)counts->late_ticks;
	const double asked = (double)counts->asked;
	return (struct profile_pacing){
		.rate = wanted > 0 ? rate * ticks / wanted : 0,
		.late_share = asked > 0 ? (double)counts->late / asked : 0,
		.stopped_share = (double)counts->stopped_ns / (double)counts->elapsed_ns,
	};
}

uint64_t profile_pending(const struct profile_counts *counts)
{
	const uint64_t known = counts->samples + counts->late + counts->torn + counts->gone +
			       counts->uninterruptible + counts->dropped;
	return counts->asked > known ? counts->asked - known : 0;
}
