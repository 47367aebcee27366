/* SPDX-License-Identifier: MIT */
/*
 * Which native frame runs which Python frame, in versions without entry records (CPython up to
 * 3.9) and where records do not fit the frames. Each activation of the eval function runs one frame
 * object and holds its address: in a callee-saved register or in its part of the stack. The
 * function links the frame after it has been entered and unlinks it before it returns, so that
 * counted from the outermost end both lists agree, and activations may be left over at the
 * innermost end only. The addresses prove it; where they do not (another greenlet's activations
 * outside of ours, a part of the eval function that has no name), they alone decide.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "python/internal.h"

enum {
	MAX_HELD = 16,	     /* frames whose addresses one activation holds, stale ones too */
	MAX_PART = 64 << 10, /* bytes of an activation that are looked at */
	MAX_CANDIDATES = 1 << 20,
};

/* A native frame that may be an activation of the eval function. */
struct candidate {
	remote_addr record;		 /* an address that lies in it */
	uint32_t held_first, held_count; /* in matcher.held */
};

/* Frames by address, to be found by bisection. */
struct place {
	remote_addr address;
	uint32_t index;
};

struct matcher {
	const struct walk_room *room;
	const struct memory_reader *memory;
	struct place *places;
	struct candidate *candidates; /* innermost first */
	size_t candidate_count, candidate_capacity;
	uint32_t *held; /* indices of frames, innermost first in each candidate */
	size_t held_count, held_capacity;
	uint32_t *owner; /* of each frame: candidate + 1; 0: none */
};

static int by_address(const void *left, const void *right)
{
	const struct place *a = left, *b = right;
	return a->address < b->address ? -1 : a->address > b->address;
}

static bool find_frame(const struct matcher *matcher, uint64_t word, uint32_t *index)
{
	const struct place key = {word, 0};
	const struct place *found =
		word ? bsearch(&key, matcher->places, matcher->room->frame_count, sizeof(key),
			       by_address)
		     : NULL;
	if (found)
		*index = found->index;
	return found != NULL;
}

static void hold(struct matcher *matcher, struct candidate *candidate, uint64_t word)
{
	uint32_t index;
	if (candidate->held_count >= MAX_HELD || !find_frame(matcher, word, &index))
		return;
	for (uint32_t i = 0; i < candidate->held_count; i++)
		if (matcher->held[candidate->held_first + i] == index)
			return;
	matcher->held = alloc_room(matcher->held, &matcher->held_capacity, matcher->held_count + 1,
				   sizeof(*matcher->held));
	matcher->held[matcher->held_count++] = index;
	candidate->held_count++;
}

/* Notes whose addresses the native frame holds: in registers, then on the stack. */
static void add_candidate(struct matcher *matcher, const struct python_slice *slice,
			  remote_addr record)
{
	struct candidate candidate = {record, (uint32_t)matcher->held_count, 0};
	if (matcher->candidate_count >= MAX_CANDIDATES)
		return;
	for (int i = 0; i < PYTHON_SAVED_COUNT; i++)
		if (slice->saved_known & 1u << i)
			hold(matcher, &candidate, slice->saved[i]);
	remote_addr start = (slice->sp + 7) & ~(remote_addr)7;
	size_t size = slice->cfa > start ? slice->cfa - start : 0;
	uint64_t words[512];
	for (size_t at = 0; at < size && at < MAX_PART; at += sizeof(words)) {
		size_t piece = size - at < sizeof(words) ? size - at : sizeof(words);
		if (!memory_read(matcher->memory, start + at, words, piece, NULL))
			break;
		for (size_t i = 0; i < piece / sizeof(*words); i++)
			hold(matcher, &candidate, words[i]);
	}
	matcher->candidates = alloc_room(matcher->candidates, &matcher->candidate_capacity,
					 matcher->candidate_count + 1, sizeof(candidate));
	matcher->candidates[matcher->candidate_count++] = candidate;
}

static bool holds(const struct matcher *matcher, size_t candidate, uint32_t frame)
{
	const struct candidate *one = &matcher->candidates[candidate];
	for (uint32_t i = 0; i < one->held_count; i++)
		if (matcher->held[one->held_first + i] == frame)
			return true;
	return false;
}

/* All frames, one candidate each, with `outside` candidates left over at the outermost end. */
static bool fits(const struct matcher *matcher, size_t outside)
{
	size_t frames = matcher->room->frame_count;
	size_t first = matcher->candidate_count - outside - frames;
	for (size_t i = frames; i-- > 0;)
		if (!holds(matcher, first + i, (uint32_t)i))
			return false;
	return true;
}

static bool match_by_count(struct matcher *matcher)
{
	size_t frames = matcher->room->frame_count;
	if (matcher->candidate_count < frames)
		return false;
	size_t left_over = matcher->candidate_count - frames;
	for (size_t outside = 0; outside <= left_over; outside++) {
		if (!fits(matcher, outside))
			continue;
		for (size_t i = 0; i < frames; i++)
			matcher->owner[i] = (uint32_t)(left_over - outside + i) + 1;
		return true;
	}
	return false;
}

/* A step of the longest chain of pairs (frame, candidate) that goes inwards in both. */
struct pair {
	uint32_t frame, candidate;
	uint32_t before; /* the next outer pair of the chain + 1; 0: none */
};

static struct pair *list_pairs(const struct matcher *matcher, size_t *count)
{
	struct pair *pairs = alloc_zeroed(matcher->held_count + 1, sizeof(*pairs));
	size_t n = 0;
	for (size_t c = matcher->candidate_count; c-- > 0;) {
		const struct candidate *one = &matcher->candidates[c];
		size_t first = n;
		for (uint32_t i = 0; i < one->held_count; i++) {
			uint32_t frame = matcher->held[one->held_first + i];
			/* Innermost frame first: so no chain takes two of one candidate. */
			size_t at = n++;
			for (; at > first && pairs[at - 1].frame > frame; at--)
				pairs[at] = pairs[at - 1];
			pairs[at] = (struct pair){frame, (uint32_t)c, 0};
		}
	}
	*count = n;
	return pairs;
}

/*
 * The order alone: the longest chain, by patience sorting. Of chains of the same length the one
 * that lies further out is taken: an activation also holds what it saved of its caller's registers.
 */
static void match_by_order(struct matcher *matcher)
{
	size_t count, length = 0;
	_cleanup_free_ struct pair *pairs = list_pairs(matcher, &count);
	_cleanup_free_ uint32_t *tails = alloc_zeroed(count + 1, sizeof(*tails));
	for (size_t p = 0; p < count; p++) {
		size_t low = 0, high = length;
		while (low < high) { /* tails[k]: frames go down (inwards) with k */
			size_t middle = low + (high - low) / 2;
			if (pairs[tails[middle]].frame > pairs[p].frame)
				low = middle + 1;
			else
				high = middle;
		}
		/* The same frame again, further in: the pair that is there stands. */
		if (low < length && pairs[tails[low]].frame == pairs[p].frame)
			continue;
		pairs[p].before = low ? tails[low - 1] + 1 : 0;
		tails[low] = (uint32_t)p;
		length += low == length;
	}
	for (uint32_t at = length ? tails[length - 1] + 1 : 0; at; at = pairs[at - 1].before)
		matcher->owner[pairs[at - 1].frame] = pairs[at - 1].candidate + 1;
}

static void prepare(struct matcher *matcher)
{
	const struct walk_room *room = matcher->room;
	matcher->places = alloc_zeroed(room->frame_count + 1, sizeof(*matcher->places));
	matcher->owner = alloc_zeroed(room->frame_count + 1, sizeof(*matcher->owner));
	for (size_t i = 0; i < room->frame_count; i++)
		matcher->places[i] = (struct place){room->frames[i].address, (uint32_t)i};
	qsort(matcher->places, room->frame_count, sizeof(*matcher->places), by_address);
}

static void push(struct walk_room *room, remote_addr record, uint32_t first)
{
	room->activations = alloc_room(room->activations, &room->activation_capacity,
				       room->activation_count + 1, sizeof(*room->activations));
	room->activations[room->activation_count++] = (struct python_activation){record, first, 1};
}

static void finish(struct matcher *matcher, struct walk_room *room)
{
	if (!match_by_count(matcher))
		match_by_order(matcher);
	for (size_t i = 0; i < room->frame_count; i++) {
		uint32_t owner = matcher->owner[i];
		push(room, owner ? matcher->candidates[owner - 1].record : 0, (uint32_t)i);
	}
	free(matcher->places);
	free(matcher->owner);
	free(matcher->candidates);
	free(matcher->held);
}

static bool is_eval(const struct python_runtime *runtime, remote_addr pc)
{
	for (size_t i = 0; i < runtime->eval_count; i++)
		if (pc >= runtime->eval[i].start && pc < runtime->eval[i].end)
			return true;
	return false;
}

void python_find_activations(const struct python_runtime *runtime,
			     const struct memory_reader *memory, const struct python_slice *slices,
			     size_t slice_count, struct walk_room *room)
{
	struct matcher matcher = {.room = room, .memory = memory};
	prepare(&matcher);
	for (size_t i = 0; i < slice_count; i++)
		if (slices[i].cfa && is_eval(runtime, slices[i].pc))
			add_candidate(&matcher, &slices[i], slices[i].sp);
	finish(&matcher, room);
}

void python_match_records(const struct memory_reader *memory, const struct python_slice *slices,
			  size_t slice_count, struct walk_room *room)
{
	struct matcher matcher = {.room = room, .memory = memory};
	size_t at = 0;
	prepare(&matcher);
	for (size_t i = 0; i < room->record_count; i++) {
		remote_addr record = room->records[i].address;
		/* Both lists go outwards. A record on another stack is in no slice of this one. */
		size_t from = at;
		while (from < slice_count && record >= slices[from].cfa)
			from++;
		if (from == slice_count || record < slices[from].sp)
			continue;
		at = from;
		add_candidate(&matcher, &slices[at], record);
	}
	finish(&matcher, room);
}
