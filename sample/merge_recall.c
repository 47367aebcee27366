/* SPDX-License-Identifier: MIT */
/*
 * What a merge has made of the outer frames, for the next one. A merge goes outwards: once Python
 * frames have taken an eval activation's place, what comes follows from the native frames outside
 * of it and the activations not yet placed. Where these, compared one by one, are those of the last
 * merge, so is the outcome, and the numbers of its frames.
 */
#include "sample/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* Merged frames; about a MiB for a stack. A deeper one is merged anew each time. */
enum { RECALL_LIMIT = 8192 };

struct merge_recall {
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

struct merge_recall *merge_recall_new(void)
{
	struct merge_recall *recall = alloc_zeroed(1, sizeof(*recall));
	unwind_stack_init(&recall->native);
	python_stack_init(&recall->python);
	return recall;
}

void merge_recall_free(struct merge_recall *recall)
{
	if (!recall)
		return;
	unwind_stack_release(&recall->native);
	python_stack_release(&recall->python);
	merged_stack_release(&recall->merged);
	free(recall);
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
	size_t same = a->walk && a->walk == b->recalled_from ? b->recalled : 0;
	while (same < most &&
	       same_native(&a->frames[a->count - 1 - same], &b->frames[b->count - 1 - same]))
		same++;
	return same;
}

static size_t count_same_frames(const struct python_stack *a, const struct python_stack *b)
{
	const size_t most = a->count < b->count ? a->count : b->count;
	size_t same = a->walk && a->walk == b->recalled_from ? b->recalled : 0;
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

void merge_recall_begin(struct merge_recall *recall, const struct merge_input *input)
{
	recall->next = recall->natives = recall->frames = recall->activations = 0;
	recall->fresh_generation = input->modules->generation;
	if (!recall->valid || recall->generation != recall->fresh_generation ||
	    recall->runtime != input->runtime || recall->collecting != input->collecting)
		return;
	recall->natives = count_same_natives(&recall->native, input->native);
	recall->frames = count_same_frames(&recall->python, input->python);
	recall->activations =
		count_same_activations(&recall->python, input->python, recall->frames);
}

/* The last merge's step outside of which all is as it is outside of this one; NULL: none. */
static const struct merge_step *find_step(struct merge_recall *recall,
					  const struct merge_input *input,
					  const struct merge_step *step)
{
	const struct merged_stack *last = &recall->merged;
	const size_t natives = input->native->count - step->native;
	const size_t activations = input->python->activation_count - step->activation;
	/* Nearer to the leaf, what is inside counts, too: see enters_or_leaves in merge.c. */
	if (natives > recall->natives || activations > recall->activations ||
	    step->native <= EVAL_PARTS || recall->generation != input->modules->generation)
		return NULL;
	while (recall->next < last->step_count &&
	       recall->native.count - last->steps[recall->next].native > natives)
		recall->next++;
	if (recall->next == last->step_count)
		return NULL;
	const struct merge_step *found = &last->steps[recall->next];
	return recall->native.count - found->native == natives &&
			       recall->python.activation_count - found->activation == activations &&
			       found->native > EVAL_PARTS
		       ? found
		       : NULL;
}

/* As if they had been merged. */
static void add_steps(const struct merge_recall *recall, const struct merge_input *input,
		      const struct merge_step *found, struct merged_stack *merged)
{
	const struct merge_step from = merged->steps[merged->step_count - 1];
	const struct merge_step *end = recall->merged.steps + recall->merged.step_count;
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

/* Those that were recalled have as many more native frames inside of them. */
static void move_natives(struct merged_stack *merged, uint32_t more)
{
	for (size_t i = merged->count - merged->recalled; i < merged->count; i++)
		if (merged->frames[i].kind == MERGED_NATIVE)
			merged->frames[i].native += more;
}

bool merge_recall_rest(struct merge_recall *recall, const struct merge_input *input,
		       struct merged_stack *merged)
{
	const struct merge_step step = merged->steps[merged->step_count - 1];
	const struct merged_stack *last = &recall->merged;
	const struct merge_step *found = find_step(recall, input, &step);
	if (!found || merged->end != last->end)
		return false;
	merged->frames =
		alloc_room(merged->frames, &merged->capacity,
			   merged->count + last->count - found->count + 1, sizeof(*merged->frames));
	merged->recalled = last->count - found->count;
	memcpy(merged->frames + merged->count, last->frames + found->count,
	       merged->recalled * sizeof(*merged->frames));
	merged->count += merged->recalled;
	if (step.native != found->native)
		move_natives(merged, step.native - found->native);
	add_steps(recall, input, found, merged);
	return true;
}

uint32_t merge_recall_id(const struct merge_recall *recall, const struct merged_stack *merged,
			 size_t i)
{
	const struct merged_frame *frame = &merged->frames[i];
	const size_t outside = merged->count - i;
	if (!recall->valid || frame->kind != MERGED_PYTHON || outside > recall->merged.count)
		return NO_FRAME_ID;
	const struct merged_frame *last = &recall->merged.frames[recall->merged.count - outside];
	return last->kind == MERGED_PYTHON && last->code == frame->code &&
			       last->instruction == frame->instruction && last->line == frame->line
		       ? last->id
		       : NO_FRAME_ID;
}

void merge_recall_keep(struct merge_recall *recall, const struct merge_input *input,
		       struct unwind_stack *native, struct python_stack *python,
		       struct merged_stack *merged)
{
	recall->valid = merged->plain && merged->count <= RECALL_LIMIT &&
			native->count <= RECALL_LIMIT && python->count <= RECALL_LIMIT &&
			recall->fresh_generation == input->modules->generation;
	if (!recall->valid)
		return;
	const struct unwind_stack last_native = recall->native;
	const struct python_stack last_python = recall->python;
	const struct merged_stack last_merged = recall->merged;
	recall->native = *native;
	recall->python = *python;
	recall->merged = *merged;
	*native = last_native;
	*python = last_python;
	*merged = last_merged;
	recall->generation = recall->fresh_generation;
	recall->runtime = input->runtime;
	recall->collecting = input->collecting;
}
