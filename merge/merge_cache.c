/* SPDX-License-Identifier: MIT */
/*
 * What a merge has made of the outer frames, for the next one. A merge goes outwards: once Python
 * frames have taken an eval activation's place, what comes follows from the native frames outside
 * of it and the activations not yet placed. Where these, compared one by one, are those of the last
 * merge, so is the outcome, and the numbers of its frames.
 */
#include "merge/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* Merged frames; about a MiB for a stack. A deeper one is merged anew each time. */
enum { CACHE_LIMIT = 8192 };

struct merge_cache {
	bool valid;
	uint64_t generation; /* of the module table */
	const struct python_runtime *runtime;
	bool collecting;
	/* what went in, and what came out */
	struct unwind_stack native;
	struct python_stack python;
	struct merged_stack merged;
	/* how much of it is the same in the merge under way, counted from the outermost end */
	uint64_t fresh_generation;
	size_t natives, frames, activations;
	size_t next; /* the step that may be met next */
};

struct merge_cache *merge_cache_new(void)
{
	struct merge_cache *cache = alloc_zeroed(1, sizeof(*cache));
	unwind_stack_init(&cache->native);
	python_stack_init(&cache->python);
	return cache;
}

void merge_cache_free(struct merge_cache *cache)
{
	if (!cache)
		return;
	unwind_stack_release(&cache->native);
	python_stack_release(&cache->python);
	merged_stack_release(&cache->merged);
	free(cache);
}

/* In all that merging and numbering look at. */
static bool same_native(const struct unwind_frame *a, const struct unwind_frame *b)
{
	return a->sp == b->sp && a->pc == b->pc && a->cfa == b->cfa && a->function == b->function &&
	       a->pc_kind == b->pc_kind && a->guessed == b->guessed &&
	       a->trampoline == b->trampoline;
}

/* `b` is the later one. */
static size_t count_same_natives(const struct unwind_stack *a, const struct unwind_stack *b)
{
	const size_t most = a->count < b->count ? a->count : b->count;
	size_t same = a->walk && a->walk == b->reused_from ? b->reused : 0;
	while (same < most &&
	       same_native(&a->frames[a->count - 1 - same], &b->frames[b->count - 1 - same]))
		same++;
	return same;
}

static size_t count_same_frames(const struct python_stack *a, const struct python_stack *b)
{
	const size_t most = a->count < b->count ? a->count : b->count;
	size_t same = a->walk && a->walk == b->reused_from ? b->reused : 0;
	for (; same < most; same++) {
		const struct python_frame *one = &a->frames[a->count - 1 - same];
		const struct python_frame *other = &b->frames[b->count - 1 - same];
		if (one->code != other->code || one->instruction != other->instruction ||
		    one->line != other->line)
			break;
	}
	return same;
}

/* Those whose frames are the same; `frames`: how many are. */
static size_t count_same_activations(const struct python_stack *a, const struct python_stack *b,
				     size_t frames)
{
	const size_t most = a->activation_count < b->activation_count ? a->activation_count
								      : b->activation_count;
	size_t same = 0;
	for (; same < most; same++) {
		const struct python_activation *one =
			&a->activations[a->activation_count - 1 - same];
		const struct python_activation *other =
			&b->activations[b->activation_count - 1 - same];
		if (one->record != other->record || one->count != other->count ||
		    a->count - one->first != b->count - other->first ||
		    a->count - one->first > frames)
			break;
	}
	return same;
}

void merge_cache_begin(struct merge_cache *cache, const struct merge_input *input)
{
	cache->next = cache->natives = cache->frames = cache->activations = 0;
	cache->fresh_generation = input->modules->generation;
	if (!cache->valid || cache->generation != cache->fresh_generation ||
	    cache->runtime != input->runtime || cache->collecting != input->collecting)
		return;
	cache->natives = count_same_natives(&cache->native, input->native);
	cache->frames = count_same_frames(&cache->python, input->python);
	cache->activations = count_same_activations(&cache->python, input->python, cache->frames);
}

/* The last merge's step outside of which all is as it is outside of this one; NULL: none. */
static const struct merge_step *
find_step(struct merge_cache *cache, const struct merge_input *input, const struct merge_step *step)
{
	const struct merged_stack *last = &cache->merged;
	const size_t natives = input->native->count - step->native;
	const size_t activations = input->python->activation_count - step->activation;
	/* Nearer to the leaf, what is inside counts, too: see enters_or_leaves in merge.c. */
	if (natives > cache->natives || activations > cache->activations ||
	    step->native <= EVAL_PARTS || cache->generation != input->modules->generation)
		return NULL;
	while (cache->next < last->step_count &&
	       cache->native.count - last->steps[cache->next].native > natives)
		cache->next++;
	if (cache->next == last->step_count)
		return NULL;
	const struct merge_step *found = &last->steps[cache->next];
	return cache->native.count - found->native == natives &&
			       cache->python.activation_count - found->activation == activations &&
			       found->native > EVAL_PARTS
		       ? found
		       : NULL;
}

/* As if they had been merged. */
static void add_steps(const struct merge_cache *cache, const struct merge_input *input,
		      const struct merge_step *found, struct merged_stack *merged)
{
	const struct merge_step from = merged->steps[merged->step_count - 1];
	const struct merge_step *end = cache->merged.steps + cache->merged.step_count;
	for (const struct merge_step *step = found + 1; step < end; step++) {
		const struct merge_step moved = {
			.native = step->native - found->native + from.native,
			.activation = step->activation - found->activation + from.activation,
			.count = step->count - found->count + from.count,
			.learned = step->learned,
		};
		for (uint32_t i = 0; i < step->learned; i++)
			eval_code_learn(input->code, &input->native->frames[moved.native - 1]);
		merged->steps = alloc_room(merged->steps, &merged->step_capacity,
					   merged->step_count + 1, sizeof(*merged->steps));
		merged->steps[merged->step_count++] = moved;
	}
}

/* Those that were cached have as many more native frames inside of them. */
static void move_natives(struct merged_stack *merged, uint32_t more)
{
	for (size_t i = merged->count - merged->reused; i < merged->count; i++)
		if (merged->frames[i].kind == MERGED_NATIVE)
			merged->frames[i].native += more;
}

bool merge_cache_rest(struct merge_cache *cache, const struct merge_input *input,
		      struct merged_stack *merged)
{
	const struct merge_step step = merged->steps[merged->step_count - 1];
	const struct merged_stack *last = &cache->merged;
	const struct merge_step *found = find_step(cache, input, &step);
	if (!found || merged->end != last->end)
		return false;
	merged->frames =
		alloc_room(merged->frames, &merged->capacity,
			   merged->count + last->count - found->count + 1, sizeof(*merged->frames));
	merged->reused = last->count - found->count;
	memcpy(merged->frames + merged->count, last->frames + found->count,
	       merged->reused * sizeof(*merged->frames));
	merged->count += merged->reused;
	if (step.native != found->native)
		move_natives(merged, step.native - found->native);
	add_steps(cache, input, found, merged);
	return true;
}

uint32_t merge_cache_id(const struct merge_cache *cache, const struct merged_stack *merged,
			size_t i)
{
	const struct merged_frame *frame = &merged->frames[i];
	const size_t outside = merged->count - i;
	if (!cache->valid || frame->kind != MERGED_PYTHON || outside > cache->merged.count)
		return NO_FRAME_ID;
	const struct merged_frame *last = &cache->merged.frames[cache->merged.count - outside];
	return last->kind == MERGED_PYTHON && last->code == frame->code &&
			       last->instruction == frame->instruction && last->line == frame->line
		       ? last->id
		       : NO_FRAME_ID;
}

void merge_cache_keep(struct merge_cache *cache, const struct merge_input *input,
		      struct unwind_stack *native, struct python_stack *python,
		      struct merged_stack *merged)
{
	cache->valid = merged->plain && merged->count <= CACHE_LIMIT &&
		       native->count <= CACHE_LIMIT && python->count <= CACHE_LIMIT &&
		       cache->fresh_generation == input->modules->generation;
	if (!cache->valid)
		return;
	const struct unwind_stack last_native = cache->native;
	const struct python_stack last_python = cache->python;
	const struct merged_stack last_merged = cache->merged;
	cache->native = *native;
	cache->python = *python;
	cache->merged = *merged;
	*native = last_native;
	*python = last_python;
	*merged = last_merged;
	cache->generation = cache->fresh_generation;
	cache->runtime = input->runtime;
	cache->collecting = input->collecting;
}

void merged_stack_release(struct merged_stack *merged)
{
	free(merged->frames);
	free(merged->skip);
	free(merged->lowest);
	free(merged->steps);
	memset(merged, 0, sizeof(*merged));
}
