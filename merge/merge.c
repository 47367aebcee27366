/* SPDX-License-Identifier: MIT */
/*
 * One true stack out of two: native activations and runs of Python frames, tied together by
 * addresses. The record of each eval activation lies in the native frame [SP, CFA) that is this
 * activation, so that frame is replaced by the Python frames that it executes. Nothing is
 * counted from the leaf: a thread stopped between entering eval and linking its frame merely has
 * an activation without frames. No mismatch loses a sample: a run without a native frame goes to
 * its place by order between its neighbours and the sample is marked as salvaged. Where the native
 * stack ends before all Python frames have their place, those follow by their own chain, and a gap
 * between says that native frames are missing.
 */
#include "merge/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

struct merge {
	const struct merge_input *input;
	struct merged_stack *out;
	size_t next;	     /* the innermost Python activation not yet placed */
	enum wait_kind wait; /* frames inside of this wait are being left out */
	bool python_seen;
	bool idle_eval; /* see is_idle_eval */
	/* Since Python frames took a native frame's place last: */
	size_t believed; /* how many merged frames there are up to a guess; NOT_GUESSED: none was */
	size_t open;	 /* ... up to an activation whose frame object is not known; or that */
	bool led_astray; /* by that guess, to such an activation as idle_eval's */
	remote_addr outermost_sp; /* of the native stack */
	size_t looks_left;
	uint32_t learned; /* see struct merge_step */
	bool reused;	  /* the rest was there in the last merge */
};

/* Looks at activations for each frame of either stack: a hostile process has its way no longer. */
enum { LOOKS = 16 };

#define NOT_GUESSED SIZE_MAX

static void add(struct merged_stack *out, struct merged_frame frame)
{
	out->frames = alloc_room(out->frames, &out->capacity, out->count + 1, sizeof(*out->frames));
	out->frames[out->count++] = frame;
}

static void add_activation(struct merge *merge, const struct python_activation *activation)
{
	const struct python_stack *python = merge->input->python;
	struct merged_stack *out = merge->out;
	out->frames = alloc_room(out->frames, &out->capacity, out->count + activation->count + 1,
				 sizeof(*out->frames));
	for (uint32_t i = 0; i < activation->count; i++) {
		const struct python_frame *frame = &python->frames[activation->first + i];
		out->frames[out->count++] =
			(struct merged_frame){.kind = MERGED_PYTHON,
					      .code = frame->code,
					      .line = frame->line,
					      .instruction = frame->instruction};
		merge->python_seen = true;
	}
}

/* Places the activations before `end` that no native frame owns: they lie between neighbours. */
static void place_until(struct merge *merge, size_t end)
{
	const struct python_stack *python = merge->input->python;
	for (; merge->next < end; merge->next++) {
		const struct python_activation *activation = &python->activations[merge->next];
		if (activation->count > 0)
			merge->out->salvaged = true;
		add_activation(merge, activation);
	}
}

/* Whether Python frames are left to place. */
static bool has_frames_left(const struct merge *merge)
{
	const struct python_stack *python = merge->input->python;
	for (size_t i = merge->next; python && i < python->activation_count; i++)
		if (python->activations[i].count > 0)
			return true;
	return false;
}

static bool inside(const struct unwind_frame *frame, remote_addr record)
{
	return record >= frame->sp && frame->cfa && record < frame->cfa;
}

/* The lowest SP from each frame on outwards: no record below it will find its frame any more. */
static void prepare(struct merge *merge)
{
	const struct unwind_stack *native = merge->input->native;
	struct merged_stack *out = merge->out;
	size_t activations = merge->input->python ? merge->input->python->activation_count : 0;
	out->lowest = alloc_room(out->lowest, &out->lowest_capacity, native->count + 1,
				 sizeof(*out->lowest));
	out->skip = alloc_room(out->skip, &out->skip_capacity, activations + 1, sizeof(*out->skip));
	out->lowest[native->count] = UINT64_MAX;
	out->end = 0;
	for (size_t i = native->count; i-- > 0;) {
		const struct unwind_frame *frame = &native->frames[i];
		out->lowest[i] = frame->sp < out->lowest[i + 1] ? frame->sp : out->lowest[i + 1];
		out->end = frame->cfa > out->end ? frame->cfa : out->end;
	}
	for (size_t i = 0; i <= activations; i++)
		out->skip[i] = (uint32_t)i;
	if (native->count > 0)
		merge->outermost_sp = native->frames[native->count - 1].sp;
	merge->looks_left = LOOKS * (native->count + activations);
}

/*
 * The first activation from `start` on that this frame or one outside of it may own. There may be
 * as many that none owns as frames (another stack's, or nothing says where they are): each is
 * looked at once.
 */
static size_t next_open(struct merge *merge, size_t start, size_t native)
{
	const struct python_stack *python = merge->input->python;
	uint32_t *skip = merge->out->skip;
	size_t i = start;
	for (; i < python->activation_count; i = skip[i]) {
		remote_addr record = python->activations[i].record;
		merge->out->looks++;
		if (skip[i] != i)
			continue;
		if (record && record >= merge->out->lowest[native] && record < merge->out->end)
			break;
		skip[i] = (uint32_t)i + 1;
	}
	if (skip[start] != start)
		skip[start] = (uint32_t)i;
	return i;
}

/* Places the activations whose records lie in this native frame; true when there were some. */
static bool place_owned(struct merge *merge, size_t native)
{
	const struct python_stack *python = merge->input->python;
	const struct unwind_frame *frame = &merge->input->native->frames[native];
	bool owned = false;
	if (!python)
		return false;
	for (size_t i = next_open(merge, merge->next, native);
	     i < python->activation_count && merge->looks_left > 0;
	     i = next_open(merge, i + 1, native)) {
		remote_addr record = python->activations[i].record;
		merge->looks_left--;
		/* Records lie further out the older they are: none of this frame can follow. */
		if (record >= frame->cfa && record <= merge->outermost_sp)
			break;
		if (!inside(frame, record))
			continue;
		place_until(merge, i);
		add_activation(merge, &python->activations[i]);
		if (python->activations[i].count > 0) {
			eval_code_learn(merge->input->code, frame);
			merge->learned++;
		}
		merge->next = i + 1;
		owned = true;
	}
	return owned;
}

static bool is_interpreter(const struct merge *merge, const struct unwind_frame *frame)
{
	const struct python_runtime *runtime = merge->input->runtime;
	remote_addr pc = unwind_frame_site(frame);
	return runtime && python_runtime_owns(runtime, pc);
}

static void add_wait(struct merged_stack *out, enum wait_kind wait)
{
	if (wait != WAIT_NONE)
		add(out, (struct merged_frame){.kind = wait == WAIT_GIL ? MERGED_GIL_WAIT
									: MERGED_IMPORT_WAIT});
}

/*
 * A thread that waits for the GIL or an import lock is in the C library, called by the interpreter:
 * these frames become the one mark. What called into the interpreter (an extension) stands.
 */
static bool swallow_wait(struct merge *merge, bool interpreter)
{
	if (merge->wait == WAIT_NONE)
		return false;
	if (interpreter) {
		add_wait(merge->out, merge->wait);
		merge->wait = WAIT_NONE;
	}
	return !interpreter;
}

/*
 * The collector's own frames, known by their addresses; what they run may have let go of the GIL.
 * In a stripped interpreter nothing shows them: that it collects does not, as what it frees runs
 * Python code meanwhile.
 */
static bool is_collector(const struct merge *merge, const struct unwind_frame *frame)
{
	const struct merge_input *input = merge->input;
	if (!input->collecting)
		return false;
	remote_addr pc = unwind_frame_site(frame);
	return python_runtime_collects(input->runtime, pc);
}

static void add_mark_once(struct merged_stack *out, enum merged_kind kind)
{
	if (out->count == 0 || out->frames[out->count - 1].kind != kind)
		add(out, (struct merged_frame){.kind = kind});
}

/* Code made at run time, by CPython for all we know: no file has it. 3.15 gives its memory a name
 * ("[anon:cpython:jit]"). */
static bool is_fileless(const struct merge *merge, const struct unwind_frame *frame)
{
	remote_addr pc = unwind_frame_site(frame);
	const struct mapping *mapping = module_table_find(merge->input->modules, pc);
	if (mapping && mapping->module)
		return mapping->module->origin == MODULE_OF_PYTHON;
	return mapping && (mapping->path[0] != '[' || strncmp(mapping->path, "[anon:", 6) == 0);
}

static bool has_jit(const struct merge_input *input)
{
	struct eval_code *code = input->code;
	if (code->jit == JIT_UNKNOWN)
		code->jit = python_runtime_has_jit(input->runtime) ? JIT_PRESENT : JIT_ABSENT;
	return code->jit == JIT_PRESENT;
}

/* Its memory was given back before anybody looked. */
static bool is_gone(const struct merge *merge, const struct unwind_frame *frame)
{
	return !module_table_find(merge->input->modules, unwind_frame_site(frame));
}

static bool may_be_jit(const struct merge *merge, const struct unwind_frame *frame)
{
	return is_fileless(merge, frame) || (is_gone(merge, frame) && has_jit(merge->input));
}

/* Code made at run time that the eval function calls itself, or through other code of the
 * interpreter, is a part of it: CPython's JIT (3.13+). `count`: the frames inside of it. */
static void hide_jit(struct merge *merge, size_t count)
{
	struct merged_frame *frames = merge->out->frames;
	while (count-- > 0 && frames[count].kind == MERGED_NATIVE) {
		if (!frames[count].hidden &&
		    !may_be_jit(merge, &merge->input->native->frames[frames[count].native]))
			break;
		frames[count].hidden = true;
	}
}

/*
 * The native stack has ended with its first frame, in code of which nothing is known: its memory
 * was given back before anybody looked, or it is made at run time, and the interpreter is one that
 * may do so. The gap outside of it says as much.
 */
static void hide_gone_code(struct merge *merge)
{
	const struct merge_input *input = merge->input;
	struct merged_frame *only = merge->out->frames;
	if (merge->out->count != 1 || only->kind != MERGED_NATIVE)
		return;
	const struct unwind_frame *frame = &input->native->frames[only->native];
	only->hidden |= is_gone(merge, frame) || (is_fileless(merge, frame) && has_jit(input));
}

/* Code made at run time directly outside of the eval function, or that only leads there: a
 * trampoline for perf (3.12+). */
static bool is_trampoline(const struct merge *merge, const struct unwind_frame *frame)
{
	const struct merged_stack *out = merge->out;
	return (merge->input->python && frame->trampoline) ||
	       (out->count > 0 && out->frames[out->count - 1].kind == MERGED_PYTHON &&
		is_fileless(merge, frame));
}

/* It calls nothing between being entered and linking its frame, nor after it has unlinked it; but
 * its code may be in several functions (tail calls, the JIT). */
static bool enters_or_leaves(const struct merge *merge, size_t native)
{
	const struct unwind_frame *frames = merge->input->native->frames;
	for (size_t i = native, inside = 0; i-- > 0; inside++) {
		if (frames[i].signal_frame)
			return true; /* a handler may have interrupted it there */
		if (inside == EVAL_PARTS ||
		    (!is_interpreter(merge, &frames[i]) && !is_fileless(merge, &frames[i])))
			return false;
	}
	return true;
}

/*
 * An activation of the eval function that runs nothing, by what the Python stack says, must be the
 * innermost one. Otherwise the Python frames and the native ones are of different moments, as when
 * greenlets are being switched; if there is one outside that runs something: the rest may belong to
 * greenlets that do not run. (Frame objects, up to 3.10: activations.c has compared them.)
 */
static bool runs_nothing(const struct merge *merge, size_t native)
{
	const struct unwind_frame *frame = &merge->input->native->frames[native];
	return merge->input->python && !frame->guessed &&
	       eval_code_contains(merge->input->code, merge->input->runtime, frame) &&
	       !enters_or_leaves(merge, native);
}

static bool is_idle_eval(const struct merge *merge, size_t native)
{
	return runs_nothing(merge, native) && !merge->input->python->of_objects;
}

/*
 * What is reached through a guess is as doubtful as the guess: leads it to an activation that runs
 * nothing, it was wrong. Of frame objects it may be that one was not found.
 */
static void note_idle(struct merge *merge, size_t native)
{
	if (!runs_nothing(merge, native))
		return;
	if (!is_idle_eval(merge, native)) {
		if (merge->open == NOT_GUESSED)
			merge->open = merge->out->count;
	} else if (merge->believed != NOT_GUESSED) {
		merge->led_astray = true;
	} else {
		merge->idle_eval = true;
	}
}

/* The same, once Python frames further out have shown which function it is that runs them: one that
 * nothing was known of when its idle frames were passed. */
static bool has_idle_inside(const struct merge *merge)
{
	const struct merged_stack *out = merge->out;
	size_t end = out->count;
	while (end > 0 && out->frames[end - 1].kind != MERGED_PYTHON)
		end--;
	for (size_t i = 0; i < end; i++)
		if (out->frames[i].kind == MERGED_NATIVE &&
		    is_idle_eval(merge, out->frames[i].native))
			return true;
	return false;
}

/* Python frames have taken this native frame's place: what is outside of it may be known. */
static void note_step(struct merge *merge, size_t native)
{
	const struct merge_input *input = merge->input;
	struct merged_stack *out = merge->out;
	if (!input->cache || merge->learned == 0)
		return;
	out->steps = alloc_room(out->steps, &out->step_capacity, out->step_count + 1,
				sizeof(*out->steps));
	out->steps[out->step_count++] = (struct merge_step){.native = (uint32_t)native + 1,
							    .activation = (uint32_t)merge->next,
							    .count = (uint32_t)out->count,
							    .learned = merge->learned};
	if (merge->idle_eval || !merge_cache_rest(input->cache, input, out))
		return;
	merge->next = input->python->activation_count;
	merge->reused = true;
}

static void add_gap(struct merge *merge)
{
	add_mark_once(merge->out, MERGED_GAP);
	merge->out->truncated = merge->out->salvaged = true;
}

/* A guess led astray; Python frames have been placed since, from `inside` on: what is between was
 * never there. */
static void bridge(struct merge *merge, size_t inside)
{
	struct merged_stack *out = merge->out;
	const size_t placed = out->count - inside;
	struct merged_frame *gap = &out->frames[merge->believed];
	memmove(gap + 1, &out->frames[inside], placed * sizeof(*gap));
	*gap = (struct merged_frame){.kind = MERGED_GAP};
	out->count = merge->believed + 1 + placed;
	out->truncated = out->salvaged = true;
}

/* Python frames have taken a native frame's place, which proves the way that led to it. */
static void note_owned(struct merge *merge, size_t native, size_t inside)
{
	if (merge->led_astray)
		bridge(merge, inside);
	else
		hide_jit(merge, inside);
	merge->out->broken |= merge->idle_eval;
	merge->led_astray = false;
	merge->open = NOT_GUESSED;
	merge->believed =
		merge->input->native->frames[native].guessed ? merge->out->count : NOT_GUESSED;
	note_step(merge, native);
}

static void add_native(struct merge *merge, size_t i)
{
	const struct unwind_frame *frame = &merge->input->native->frames[i];
	bool interpreter = is_interpreter(merge, frame);
	if (swallow_wait(merge, interpreter))
		return;
	size_t inside = merge->out->count;
	merge->learned = 0;
	if (place_owned(merge, i)) {
		note_owned(merge, i, inside);
		return; /* the eval function itself: replaced */
	}
	if (frame->signal_frame) {
		add(merge->out, (struct merged_frame){.kind = MERGED_SIGNAL});
		return;
	}
	note_idle(merge, i);
	if (interpreter && is_collector(merge, frame)) {
		add_mark_once(merge->out, MERGED_GC);
		return;
	}
	add(merge->out,
	    (struct merged_frame){.kind = MERGED_NATIVE,
				  .native = (uint32_t)i,
				  .hidden = interpreter || is_trampoline(merge, frame)});
	if (frame->guessed && merge->believed == NOT_GUESSED)
		merge->believed = merge->out->count;
}

/*
 * The native stack has ended, and Python frames are left: those that it does not reach. They are
 * outside of all that it has shown for certain, which is not what a guess led to that did not reach
 * them, nor what is outside of an activation that may run one of them.
 */
static void place_rest(struct merge *merge)
{
	struct merged_stack *out = merge->out;
	out->broken |= merge->idle_eval;
	out->unreached = true;
	if (merge->believed < out->count)
		out->count = merge->believed;
	if (merge->open < out->count)
		out->count = merge->open;
	hide_gone_code(merge);
	add_wait(out, merge->wait);
	add_gap(merge);
	place_until(merge, merge->input->python->activation_count);
}

/* Of what is shown, the outermost frames are missing: not where they would be outside of the
 * outermost Python frame, unless a host's begin there. */
static bool ends_early(const struct merge *merge)
{
	const struct merge_input *input = merge->input;
	const struct merged_stack *out = merge->out;
	if (input->python && input->python->cut)
		return true;
	if (!input->native || input->native->end == UNWIND_END_OUTERMOST)
		return false;
	return !merge->python_seen ||
	       (out->count > 0 && out->frames[out->count - 1].kind == MERGED_NATIVE &&
		!out->frames[out->count - 1].hidden);
}

/* Without native frames order is the only way. */
static void merge_by_order(struct merge *merge, size_t activations)
{
	struct merged_stack *const out = merge->out;
	add_wait(out, merge->input->wait);
	place_until(merge, activations);
	out->salvaged = false;
	if (ends_early(merge))
		add_gap(merge);
}

static void merge_by_address(struct merge *merge)
{
	const struct merge_input *const input = merge->input;
	prepare(merge);
	const bool settled = !input->python || eval_code_settled(input->code);
	if (input->cache)
		merge_cache_begin(input->cache, input);
	for (size_t i = 0; i < input->native->count && !merge->reused; i++)
		add_native(merge, i);
	if (has_frames_left(merge))
		place_rest(merge);
	merge->out->broken |= !settled && has_idle_inside(merge);
}

void merge_stacks(const struct merge_input *input, struct merged_stack *merged)
{
	merged->count = 0;
	merged->salvaged = merged->truncated = merged->unreached = merged->broken = false;
	merged->looks = merged->step_count = merged->reused = 0;
	merged->plain = false;
	struct merge merge = {.input = input,
			      .out = merged,
			      .wait = input->wait,
			      .believed = NOT_GUESSED,
			      .open = NOT_GUESSED};
	size_t activations = input->python ? input->python->activation_count : 0;
	if (!input->native) {
		merge_by_order(&merge, activations);
		return;
	}
	merge_by_address(&merge);
	bool cut = input->python && input->python->cut;
	start_up_hide(input, merged);
	if (ends_early(&merge))
		add_gap(&merge);
	merged->plain = !merged->salvaged && !merged->broken && !merge.idle_eval && !cut &&
			merge.python_seen && merge.looks_left > 0;
}
