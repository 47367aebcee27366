/* SPDX-License-Identifier: MIT */
/*
 * From the copied records of a thread's Python states to one Python stack: several states
 * (sub-interpreters) in stack order, those of other threads left out.
 */
#include "merge/decoder.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "copy/innermost.h"

_Static_assert((int)PYTHON_SAVED_COUNT == (int)UNWIND_SAVED_COUNT, "callee-saved registers");

/* How many of the outermost slices are there from the walk that its frames are of. */
static size_t count_kept_slices(const struct decoder *decoder, const struct unwind_stack *native)
{
	if (!decoder->native_frames.walk)
		return 0;
	if (decoder->native_frames.walk == native->walk)
		return native->count;
	return decoder->native_frames.walk == native->reused_from ? native->reused : 0;
}

static const struct python_native_frame *make_slices(struct decoder *decoder,
						     const struct unwind_stack *native)
{
	if (!native)
		return NULL;
	const size_t kept = count_kept_slices(decoder, native);
	decoder->native_frames.items =
		alloc_room_in_front(decoder->native_frames.items, &decoder->native_frames.capacity,
				    kept, native->count + 1, sizeof(*decoder->native_frames.items));
	struct python_native_frame *native_frames =
		decoder->native_frames.items + (decoder->native_frames.capacity - native->count);
	for (size_t i = 0; i < native->count - kept; i++) {
		const struct unwind_frame *frame = &native->frames[i];
		struct python_native_frame *native_frame = &native_frames[i];
		native_frame->sp = frame->sp;
		native_frame->cfa = frame->cfa;
		native_frame->pc = unwind_frame_site(frame);
		native_frame->saved_known = frame->saved_known;
		native_frame->guessed = frame->guessed;
		memcpy(native_frame->saved, frame->saved, sizeof(native_frame->saved));
	}
	decoder->native_frames.walk = native->walk;
	return native_frames;
}

/* The sort key of an activation: one whose place is not known stays with its inner neighbour. */
static remote_addr place_of(const struct python_stack *stack, size_t i)
{
	while (i > 0 && !stack->activations[i].record)
		i--;
	return stack->activations[i].record;
}

/*
 * Adds another thread state's activations to those of the OS thread, in stack order (both are,
 * innermost first).
 */
static void merge_activations(struct decoder *decoder, struct python_stack *all,
			      const struct python_stack *part, size_t base)
{
	size_t count = all->activation_count + part->activation_count, a = 0, b = 0;
	decoder->part.activations = alloc_room(decoder->part.activations, &decoder->part.capacity,
					       count + 1, sizeof(*decoder->part.activations));
	for (size_t i = 0; i < count; i++) {
		bool own = a < all->activation_count &&
			   (b == part->activation_count || place_of(all, a) <= place_of(part, b));
		decoder->part.activations[i] = own ? all->activations[a++] : part->activations[b++];
		if (!own)
			decoder->part.activations[i].first += (uint32_t)base;
	}
	all->activations = alloc_room(all->activations, &all->activation_capacity, count + 1,
				      sizeof(*all->activations));
	memcpy(all->activations, decoder->part.activations, count * sizeof(*all->activations));
	all->activation_count = count;
}

/* Adds one thread state's stack to that of the OS thread. */
static void add_part(struct decoder *decoder, struct python_stack *all,
		     const struct python_stack *part)
{
	size_t base = all->count;
	all->frames = alloc_room(all->frames, &all->frame_capacity, base + part->count + 1,
				 sizeof(*all->frames));
	memcpy(all->frames + base, part->frames, part->count * sizeof(*part->frames));
	all->count += part->count;
	merge_activations(decoder, all, part, base);
	all->holds_gil |= part->holds_gil;
	all->gc_running |= part->gc_running;
	all->cut |= part->cut;
}

static struct python_code_cache *codes_of(const struct decoder *decoder,
					  const struct python_runtime *runtime)
{
	const struct interpreters *all = &decoder->interpreters;
	size_t i = 0;
	while (i < all->count - 1 && all->items[i].runtime != runtime)
		i++;
	return all->items[i].codes;
}

/*
 * A thread state is made by the thread that starts another one, with its own ids in it at first;
 * and the memory of one that ended serves the next. So what was joined may be another thread's by
 * now: the copy itself says.
 */
static bool belongs(const struct raw_sample *raw, uint32_t state, const struct python_stack *python)
{
	if (raw->who.claimed >> state & 1)
		return true;
	if (python->native_thread_id && raw->who.namespace_tid &&
	    python->native_thread_id != (uint64_t)raw->who.namespace_tid)
		return false;
	return !raw->who.thread_id || python->thread_id == raw->who.thread_id;
}

/* The frames that no guess led to. */
static size_t count_certain(const struct unwind_stack *native)
{
	size_t count = 0;
	while (count < native->count && !native->frames[count].guessed)
		count++;
	return count < native->count ? count + 1 : count;
}

/* Its ids are those of the thread that made it. */
static void adopt(const struct raw_sample *raw, struct python_stack *python)
{
	python->thread_id = raw->who.thread_id;
	python->native_thread_id = (uint64_t)raw->who.namespace_tid;
}

void decoder_learn_codes(struct decoder *decoder, const struct raw_sample *raw)
{
	struct python_native_frame innermost;
	struct python_native native;
	raw_sample_native(raw, &innermost, &native);
	for (uint32_t i = 0; i < raw->who.tstate_count; i++)
		python_codes_learn(raw->runtime, &raw->reader, raw->who.tstates[i], &native,
				   codes_of(decoder, raw->runtime));
}

/*
 * Several thread states on one OS thread (sub-interpreters) are put in stack order. Those that
 * belong to another thread are left out; *count: how many are left. `reach`: how many of the native
 * frames are believed.
 */
static bool read_within(struct decoder *decoder, const struct raw_sample *raw,
			const struct unwind_stack *native, size_t reach, uint32_t *count,
			struct error *error)
{
	const struct python_runtime *runtime = raw->runtime;
	struct python_code_cache *codes = codes_of(decoder, runtime);
	python_code_cache_keep_frames(codes, decoder->options.reuses &&
						     (raw->stopped || !raw->wait.running));
	const struct python_native_frame *native_frames = make_slices(decoder, native);
	*count = 0;
	for (uint32_t i = 0; i < raw->who.tstate_count; i++) {
		struct python_stack *into = *count == 0 ? &decoder->python : &decoder->part.stack;
		if (!python_stack_read(runtime, &raw->reader, raw->who.tstates[i], native_frames,
				       reach, codes, into, error)) {
			if (belongs(raw, i, into))
				return false;
			continue; /* whose it is runs on while it is read */
		}
		if (!belongs(raw, i, into))
			continue;
		if (raw->who.claimed >> i & 1)
			adopt(raw, into);
		if (*count > 0)
			add_part(decoder, &decoder->python, into);
		++*count;
	}
	return true;
}

/* A native stack that a guess has made does not fit any Python stack: then as far as it is certain.
 */
bool decoder_read_python(struct decoder *decoder, const struct raw_sample *raw,
			 const struct unwind_stack *native, uint32_t *count, struct error *error)
{
	const size_t all = native ? native->count : 0, certain = native ? count_certain(native) : 0;
	return read_within(decoder, raw, native, all, count, error) ||
	       (certain < all && read_within(decoder, raw, native, certain, count, error));
}
