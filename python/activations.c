/* SPDX-License-Identifier: MIT */
/*
 * Which native frame runs which Python frame, in versions whose frames are objects (CPython up to
 * 3.10). Each activation of the eval function runs one frame object and holds its address: in a
 * callee-saved register or in its part of the stack. The function links the frame after it has
 * been entered and unlinks it before it returns, so that counted from the outermost end both lists
 * agree, and activations may be left over at the innermost end only. The addresses prove it; where
 * they do not (another greenlet's activations outside of ours, a part of the eval function that has
 * no name, a generator that throw() goes through, linked but not run), they alone decide.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "python/internal.h"
#include "python/walk.h"

enum {
	MAX_HELD = 32,	     /* addresses of frames that one activation holds, stale ones too */
	MAX_PART = 64 << 10, /* bytes of an activation that are looked at */
	PLACES = PYTHON_SAVED_COUNT + MAX_PART / 8, /* registers, then words below the CFA */
	FILTER_BITS = 4096,
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

/* The address of a frame, and where in the activation it stands. */
struct held {
	uint32_t frame, place;
};

struct matcher {
	struct walk_room *room;
	const struct memory_reader *memory;
	struct place *places;
	uint64_t filter[FILTER_BITS / 64]; /* most words are no frame: told without a search */
	struct candidate *candidates;	   /* innermost first */
	size_t candidate_count, candidate_capacity;
	struct held *held;
	size_t held_count, held_capacity;
	uint32_t *owner; /* of each frame: candidate + 1; 0: none */
};

static int by_address(const void *left, const void *right)
{
	const struct place *a = left, *b = right;
	return a->address < b->address ? -1 : a->address > b->address;
}

/* Objects are 16 bytes apart. */
static size_t filter_bit(uint64_t word)
{
	return (word >> 4 ^ word >> 16) % FILTER_BITS;
}

static bool find_frame(const struct matcher *matcher, uint64_t word, uint32_t *index)
{
	const size_t bit = filter_bit(word);
	if (!(matcher->filter[bit / 64] >> bit % 64 & 1))
		return false;
	const struct place key = {word, 0};
	const struct place *found =
		word ? bsearch(&key, matcher->places, matcher->room->frame_count, sizeof(key),
			       by_address)
		     : NULL;
	if (found)
		*index = found->index;
	return found != NULL;
}

static void hold(struct matcher *matcher, struct candidate *candidate, size_t place, uint64_t word)
{
	uint32_t index;
	if (candidate->held_count >= MAX_HELD || place >= PLACES ||
	    !find_frame(matcher, word, &index))
		return;
	matcher->held = alloc_room(matcher->held, &matcher->held_capacity, matcher->held_count + 1,
				   sizeof(*matcher->held));
	matcher->held[matcher->held_count++] = (struct held){index, (uint32_t)place};
	candidate->held_count++;
}

/* Notes whose addresses the native frame holds: in registers, then on the stack. */
static void add_candidate(struct matcher *matcher, const struct python_native_frame *native_frame,
			  remote_addr record)
{
	struct candidate candidate = {record, (uint32_t)matcher->held_count, 0};
	if (matcher->candidate_count >= MAX_CANDIDATES)
		return;
	for (int i = 0; i < PYTHON_SAVED_COUNT; i++)
		if (native_frame->saved_known & 1u << i)
			hold(matcher, &candidate, (size_t)i, native_frame->saved[i]);
	remote_addr start = (native_frame->sp + 7) & ~(remote_addr)7;
	size_t size = native_frame->cfa > start ? native_frame->cfa - start : 0;
	uint64_t words[512];
	for (size_t at = 0; at < size && at < MAX_PART; at += sizeof(words)) {
		size_t piece = size - at < sizeof(words) ? size - at : sizeof(words);
		if (!memory_read(matcher->memory, start + at, words, piece, NULL))
			break;
		for (size_t i = 0; i < piece / sizeof(*words); i++)
			hold(matcher, &candidate, PYTHON_SAVED_COUNT + (size - at) / 8 - i,
			     words[i]);
	}
	matcher->candidates = alloc_room(matcher->candidates, &matcher->candidate_capacity,
					 matcher->candidate_count + 1, sizeof(candidate));
	matcher->candidates[matcher->candidate_count++] = candidate;
}

/*
 * Where the compiler keeps the frame's address does not change: stacks in which all fits teach it.
 * False: this place has hardly ever had an activation's own frame; what is there was left by
 * others.
 */
static bool is_kept_at(const struct matcher *matcher, uint32_t place)
{
	enum { SELDOM = 16 };
	const struct walk_room *room = matcher->room;
	return room->kept_most == 0 || room->kept[place] > room->kept_most / SELDOM;
}

static bool holds(const struct matcher *matcher, size_t candidate, uint32_t frame, bool learned)
{
	const struct candidate *one = &matcher->candidates[candidate];
	for (uint32_t i = 0; i < one->held_count; i++) {
		const struct held *held = &matcher->held[one->held_first + i];
		if (held->frame == frame && (!learned || is_kept_at(matcher, held->place)))
			return true;
	}
	return false;
}

/* All frames, one candidate each, with `outside` candidates left over at the outermost end. */
static bool fits(const struct matcher *matcher, size_t outside)
{
	size_t frames = matcher->room->frame_count;
	size_t first = matcher->candidate_count - outside - frames;
	for (size_t i = frames; i-- > 0;)
		/* Where the chain is broken, the outermost one is not run by what is left over. */
		if (!holds(matcher, first + i, (uint32_t)i, outside > 0 || i + 1 == frames))
			return false;
	return true;
}

/* From a stack whose frames have found their activations; deep enough not to do so by chance. */
static void learn_places(struct matcher *matcher)
{
	enum { ENOUGH = 4, MOST = 1 << 20 };
	struct walk_room *room = matcher->room;
	if (room->frame_count < ENOUGH)
		return;
	for (size_t f = 0; f < room->frame_count; f++) {
		if (!matcher->owner[f])
			continue;
		const struct candidate *one = &matcher->candidates[matcher->owner[f] - 1];
		for (uint32_t i = 0; i < one->held_count; i++) {
			const struct held *held = &matcher->held[one->held_first + i];
			if (held->frame == f && ++room->kept[held->place] > room->kept_most)
				room->kept_most = room->kept[held->place];
		}
	}
	if (room->kept_most < MOST)
		return;
	room->kept_most /= 2;
	for (size_t i = 0; i < PLACES; i++)
		room->kept[i] /= 2;
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
		if (outside == 0)
			learn_places(matcher);
		return true;
	}
	return false;
}

/*
 * A step of a chain of pairs (frame, activation) that goes inwards in both. An activation keeps its
 * own frame where all others keep theirs; so an address counts as much as there are activations
 * that have one in the same place, and what is left there from earlier calls counts little.
 */
struct pair {
	uint32_t frame, candidate;
	uint32_t before; /* the next outer pair of the chain + 1; 0: none */
	uint64_t weight; /* of the chain that ends here */
};

static struct pair *list_pairs(const struct matcher *matcher, size_t *count)
{
	struct pair *pairs = alloc_zeroed(matcher->held_count + 1, sizeof(*pairs));
	/* Of each place: how many candidates have a frame's address there. */
	_cleanup_free_ uint32_t *votes = alloc_zeroed(PLACES, sizeof(*votes));
	size_t n = 0;
	for (size_t i = 0; i < matcher->held_count; i++)
		votes[matcher->held[i].place]++;
	for (size_t c = matcher->candidate_count; c-- > 0;) {
		const struct candidate *one = &matcher->candidates[c];
		size_t first = n;
		for (uint32_t i = 0; i < one->held_count; i++) {
			const struct held *held = &matcher->held[one->held_first + i];
			if (!is_kept_at(matcher, held->place))
				continue;
			/* Innermost frame first: so no chain takes two of one candidate. */
			size_t at = n++;
			for (; at > first && pairs[at - 1].frame > held->frame; at--)
				pairs[at] = pairs[at - 1];
			pairs[at] = (struct pair){held->frame, (uint32_t)c, 0, votes[held->place]};
		}
	}
	*count = n;
	return pairs;
}

/*
 * The heaviest chains by the frame that they end with, as a Fenwick tree over the frames, outermost
 * first: an entry is a pair + 1, 0 for none.
 */
static uint32_t heaviest_outside(const uint32_t *tree, const struct pair *pairs, size_t place)
{
	uint32_t best = 0;
	for (; place > 0; place -= place & -place)
		if (tree[place] &&
		    (!best || pairs[tree[place] - 1].weight > pairs[best - 1].weight))
			best = tree[place];
	return best;
}

static void note_chain(uint32_t *tree, size_t size, const struct pair *pairs, size_t place,
		       uint32_t pair)
{
	for (; place <= size; place += place & -place)
		if (!tree[place] || pairs[tree[place] - 1].weight < pairs[pair - 1].weight)
			tree[place] = pair;
}

/*
 * The order alone: the heaviest chain. Of several the one that lies further out is taken: an
 * activation also holds what it saved of its caller's registers.
 */
static void match_by_order(struct matcher *matcher)
{
	size_t frames = matcher->room->frame_count;
	size_t count;
	_cleanup_free_ struct pair *pairs = list_pairs(matcher, &count);
	_cleanup_free_ uint32_t *tree = alloc_zeroed(frames + 1, sizeof(*tree));
	for (size_t p = 0; p < count; p++) {
		size_t place = frames - pairs[p].frame;
		pairs[p].before = heaviest_outside(tree, pairs, place - 1);
		if (pairs[p].before)
			pairs[p].weight += pairs[pairs[p].before - 1].weight;
		note_chain(tree, frames, pairs, place, (uint32_t)p + 1);
	}
	for (uint32_t at = heaviest_outside(tree, pairs, frames); at; at = pairs[at - 1].before)
		matcher->owner[pairs[at - 1].frame] = pairs[at - 1].candidate + 1;
}

static void prepare(struct matcher *matcher)
{
	struct walk_room *room = matcher->room;
	if (!room->kept)
		room->kept = alloc_zeroed(PLACES, sizeof(*room->kept));
	matcher->places = alloc_zeroed(room->frame_count + 1, sizeof(*matcher->places));
	matcher->owner = alloc_zeroed(room->frame_count + 1, sizeof(*matcher->owner));
	for (size_t i = 0; i < room->frame_count; i++) {
		const size_t bit = filter_bit(room->frames[i].address);
		matcher->places[i] = (struct place){room->frames[i].address, (uint32_t)i};
		matcher->filter[bit / 64] |= UINT64_C(1) << bit % 64;
	}
	qsort(matcher->places, room->frame_count, sizeof(*matcher->places), by_address);
}

static void push(struct walk_room *room, remote_addr record, uint32_t first)
{
	room->activations = alloc_room(room->activations, &room->activation_capacity,
				       room->activation_count + 1, sizeof(*room->activations));
	room->activations[room->activation_count++] = (struct python_activation){record, first, 1};
}

/* True when the candidate has none of our frames where frames are kept. */
static bool is_foreign(const struct matcher *matcher, size_t candidate)
{
	const struct candidate *one = &matcher->candidates[candidate];
	for (uint32_t i = 0; i < one->held_count; i++)
		if (is_kept_at(matcher, matcher->held[one->held_first + i].place))
			return false;
	return true;
}

/* How many frames there are up to the outermost one that has an activation. */
static size_t count_owned_end(const struct matcher *matcher)
{
	size_t end = matcher->room->frame_count;
	while (end > 0 && !matcher->owner[end - 1])
		end--;
	return end;
}

/*
 * Up to 3.9 a generator that throw() goes through is linked to nothing meanwhile, so that the chain
 * of frames ends there, and activations are left over outside. What it throws into is directly
 * inside of it: both are told to be the inner one's.
 */
static void join_broken_end(const struct matcher *matcher, struct walk_room *room)
{
	size_t end = count_owned_end(matcher);
	size_t inside = end ? matcher->owner[end - 1] : 0;
	if (room->kept_most == 0 || end + 1 != room->frame_count ||
	    inside == matcher->candidate_count)
		return;
	/* It has called nothing yet, or no more: it is in what the innermost activation calls. */
	if (end == 0)
		room->activations[end++] =
			(struct python_activation){matcher->candidates[0].record, 0, 1};
	else
		room->activations[end - 1].count++;
	room->activation_count = end;
	room->cut = true;
}

/*
 * Frames without an activation, and activations that run frames which are not ours: the thread is
 * switching stacks, as greenlets do by copying them. Activations outside of all of ours are no sign
 * of it: those belong to greenlets that do not run. The innermost may not have its frame yet.
 */
static bool is_mixed(const struct matcher *matcher)
{
	size_t end = count_owned_end(matcher);
	size_t last = end + 1 >= matcher->room->frame_count && end ? matcher->owner[end - 1]
								   : matcher->candidate_count;
	bool open = false, foreign = false;
	if (matcher->room->kept_most == 0)
		return false;
	for (size_t i = 0; i < matcher->room->frame_count; i++)
		open |= !matcher->owner[i];
	for (size_t i = 1; i < last; i++)
		foreign |= is_foreign(matcher, i);
	return open && foreign;
}

static void finish(struct matcher *matcher, struct walk_room *room)
{
	if (!match_by_count(matcher)) {
		match_by_order(matcher);
		/* Nothing has been learned yet: from most of these, then, and the rest by that. */
		if (room->kept_most == 0) {
			learn_places(matcher);
			memset(matcher->owner, 0, room->frame_count * sizeof(*matcher->owner));
			match_by_order(matcher);
		}
	}
	for (size_t i = 0; i < room->frame_count; i++) {
		uint32_t owner = matcher->owner[i];
		push(room, owner ? matcher->candidates[owner - 1].record : 0, (uint32_t)i);
	}
	room->mixed = is_mixed(matcher);
	join_broken_end(matcher, room);
	free(matcher->places);
	free(matcher->owner);
	free(matcher->candidates);
	free(matcher->held);
}

bool python_find_slice(const struct python_native_frame *native_frames, size_t native_frame_count,
		       remote_addr record, size_t *at)
{
	size_t from = *at;
	while (from < native_frame_count && record >= native_frames[from].cfa)
		from++;
	if (from == native_frame_count || record < native_frames[from].sp)
		return false;
	*at = from;
	return true;
}

/* The record in each native frame, 0: none. */
static void spread_records(const struct walk_room *room,
			   const struct python_native_frame *native_frames,
			   size_t native_frame_count, remote_addr *records)
{
	for (size_t i = 0, at = 0; i < room->record_count; i++)
		if (python_find_slice(native_frames, native_frame_count, room->records[i].address,
				      &at))
			records[at] = room->records[i].address;
}

/* Stripped, any of the interpreter's functions may be the one: what it holds decides. */
static bool may_evaluate(const struct python_runtime *runtime, bool known, remote_addr pc)
{
	return known ? python_runtime_evaluates(runtime, pc) : python_runtime_owns(runtime, pc);
}

void python_find_activations(const struct python_runtime *runtime,
			     const struct memory_reader *memory,
			     const struct python_native_frame *native_frames,
			     size_t native_frame_count, struct walk_room *room)
{
	struct matcher matcher = {.room = room, .memory = memory};
	const bool known = python_runtime_knows_eval(runtime);
	_cleanup_free_ remote_addr *records =
		alloc_zeroed(native_frame_count + 1, sizeof(*records));
	prepare(&matcher);
	spread_records(room, native_frames, native_frame_count, records);
	for (size_t i = 0; i < native_frame_count; i++)
		if (native_frames[i].cfa &&
		    (records[i] || may_evaluate(runtime, known, native_frames[i].pc)))
			add_candidate(&matcher, &native_frames[i],
				      records[i] ? records[i] : native_frames[i].sp);
	finish(&matcher, room);
}
