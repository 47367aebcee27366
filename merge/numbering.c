/* SPDX-License-Identifier: MIT */
/*
 * From the merged stack to the numbers of the frames that are shown, outermost first: what is
 * hidden is left out, what a thread waits in within the kernel goes to the end.
 */
#include "merge/decoder.h"

#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"

/* Code of no file, or no code: such frames differ by who called them, the frame that was
 * numbered last. */
static void set_caller(const struct decoder *decoder, const struct mapping *mapping,
		       struct raw_frame *raw)
{
	raw->made = mapping && mapping->protection & PROT_EXEC;
	if (raw->made && decoder->numbered.count > 0)
		raw->offset = decoder->numbered.ids[decoder->numbered.count - 1] + UINT64_C(1);
}

/* Where the frame returns to within the interpreter; 0: elsewhere. */
static uint64_t site_of_call(const struct python_runtime *runtime,
			     const struct unwind_stack *native, size_t index)
{
	const struct unwind_frame *caller =
		index + 1 < native->count ? &native->frames[index + 1] : NULL;
	if (!caller || caller->pc_kind != UNWIND_PC_RETURN ||
	    !python_runtime_owns(runtime, caller->pc - 1))
		return 0;
	return caller->pc - python_runtime_module(runtime)->load_bias;
}

static struct raw_frame native_frame(struct decoder *decoder, const struct unwind_stack *native,
				     const struct python_runtime *runtime,
				     const struct merged_frame *merged, bool idle)
{
	const struct unwind_frame *frame = &native->frames[merged->native];
	const bool interpreter =
		!merged->host && runtime && python_runtime_owns(runtime, frame->pc - 1);
	const struct mapping *mapping =
		module_table_find(&decoder->modules, unwind_frame_site(frame));
	struct raw_frame raw = {.kind = RAW_NATIVE,
				.exact = frame->pc_kind == UNWIND_PC_EXACT,
				.guessed = frame->guessed,
				.analysed = frame->analysed,
				.certain = native->unread == 0,
				.interpreter = interpreter,
				.hidden = merged->hidden,
				.undecided = merged->undecided,
				.idle = idle};
	if (merged->undecided)
		raw.by_pointer =
			c_functions_by_pointer(decoder->c_functions, python_runtime_module(runtime),
					       site_of_call(runtime, native, merged->native));
	if (mapping && mapping->module) {
		raw.module = mapping->module;
		raw.offset = frame->pc - mapping->module->load_bias;
		if (frame->function)
			raw.function = frame->function - mapping->module->load_bias;
	} else {
		set_caller(decoder, mapping, &raw);
	}
	return raw;
}

static uint32_t python_id(struct decoder *decoder, const struct python_runtime *runtime,
			  const struct merged_frame *frame, bool idle)
{
	const struct python_frame at = {.code = frame->code, .instruction = frame->instruction};
	struct raw_frame raw = {.kind = RAW_PYTHON,
				.exact = decoder->options.columns,
				.idle = idle,
				.code = frame->code,
				.instruction = frame->instruction,
				.position = {.line = frame->line, .column = -1, .end_column = -1}};
	if (decoder->options.columns)
		raw.position = python_frame_position(runtime, &at);
	return frame_table_python(&decoder->frames, &raw);
}

static uint32_t merged_id(struct decoder *decoder, const struct unwind_stack *native,
			  const struct python_runtime *runtime, const struct merged_frame *frame,
			  bool idle)
{
	if (frame->kind == MERGED_PYTHON)
		return python_id(decoder, runtime, frame, idle);
	if (frame->kind != MERGED_NATIVE)
		return frame_table_mark(&decoder->frames, decoder->marks[frame->kind]);
	const struct raw_frame raw = native_frame(decoder, native, runtime, frame, idle);
	return frame_table_native(&decoder->frames, &raw);
}

/* Keeps the innermost frame as a key, if it is such a one; false: it has to be numbered. */
static bool pack_leaf(struct decoder *decoder, const struct unwind_stack *native,
		      const struct raw_sample *raw, const struct merged_frame *frame)
{
	if (!decoder->options.packs_leaf || frame->kind != MERGED_NATIVE || raw->kernel[0])
		return false;
	const struct raw_frame leaf = native_frame(decoder, native, raw->runtime, frame, false);
	return leaf_pack(&leaf, &decoder->numbered.leaf);
}

/* Whether it stays hidden. */
static void decide(const struct decoder *decoder, const struct python_runtime *runtime,
		   const struct unwind_stack *native, struct merged_frame *merged)
{
	const struct module *interpreter = python_runtime_module(runtime);
	const remote_addr pc = unwind_frame_site(&native->frames[merged->native]);
	if (!python_runtime_owns(runtime, pc))
		return;
	merged->undecided = decoder->options.decides_later;
	merged->hidden =
		!merged->undecided &&
		!c_functions_hold(decoder->c_functions, interpreter, pc - interpreter->load_bias,
				  site_of_call(runtime, native, merged->native));
}

/* What a program can name of the interpreter is in its stack, save outside of the outermost
 * Python frame. */
void decoder_show_c_functions(struct decoder *decoder, const struct python_runtime *runtime,
			      const struct unwind_stack *native)
{
	struct merged_stack *merged = &decoder->merged;
	size_t end = merged->count;
	while (end > 0 && merged->frames[end - 1].kind != MERGED_PYTHON)
		end--;
	end = end ? end : merged->count;
	/* Of what was cached it is known. */
	if (end > merged->count - merged->reused)
		end = merged->count - merged->reused;
	for (size_t i = 0; i < end; i++) {
		struct merged_frame *frame = &merged->frames[i];
		if (frame->hidden && frame->kind == MERGED_NATIVE)
			decide(decoder, runtime, native, frame);
	}
}

static bool is_shown(const struct decoder *decoder, const struct merged_frame *frame)
{
	return !frame->hidden || decoder->options.internals;
}

/* The innermost frame that is shown; NULL: none. */
const struct merged_frame *decoder_leaf(const struct decoder *decoder)
{
	const struct merged_stack *merged = &decoder->merged;
	for (size_t i = 0; i < merged->count; i++)
		if (is_shown(decoder, &merged->frames[i]))
			return &merged->frames[i];
	return NULL;
}

/* For so many ids, and one in front of them. */
static void make_room(struct numbered *numbered, size_t count)
{
	numbered->room = alloc_room(numbered->room, &numbered->capacity, count + NUMBERED_ROOTS,
				    sizeof(*numbered->room));
	numbered->ids = numbered->room + NUMBERED_ROOTS;
}

/* What the thread waits in, the system call first. */
static void number_kernel(struct decoder *decoder, const struct raw_sample *raw)
{
	size_t end = decoder->numbered.count > 0 ? strlen(raw->kernel) : 0;
	while (end > 0) {
		size_t start = --end; /* the newline behind a name */
		while (start > 0 && raw->kernel[start - 1] != '\n')
			start--;
		const char *name = intern_bytes(decoder->strings, raw->kernel + start, end - start);
		make_room(&decoder->numbered, decoder->numbered.count + 1);
		decoder->numbered.ids[decoder->numbered.count++] =
			frame_table_kernel(&decoder->frames, name);
		end = start;
	}
}

/* What the frame was numbered last, if it is the same one; NO_FRAME_ID: not known. */
static uint32_t reused_id(const struct merged_stack *merged, size_t i,
			  const struct merge_cache *cache)
{
	if (i >= merged->count - merged->reused)
		return merged->frames[i].id;
	return cache ? merge_cache_id(cache, merged, i) : NO_FRAME_ID;
}

/* Those outside of the leaf whose numbers are known from the last merge; where they end. */
static size_t add_reused(struct decoder *decoder, const struct merged_frame *leaf)
{
	const struct merged_stack *merged = &decoder->merged;
	size_t i = merged->count, end = i - merged->reused;
	if (leaf && end <= (size_t)(leaf - merged->frames))
		end = (size_t)(leaf - merged->frames) + 1;
	for (; i > end; i--) {
		const struct merged_frame *frame = &merged->frames[i - 1];
		if (!is_shown(decoder, frame))
			continue;
		if (frame->id == NO_FRAME_ID)
			break;
		decoder->numbered.ids[decoder->numbered.count++] = frame->id;
	}
	return i;
}

/* Turns the merged frames round (outermost first) and numbers them. */
void decoder_number_frames(struct decoder *decoder, const struct unwind_stack *native,
			   const struct raw_sample *raw, const struct merge_cache *cache)
{
	const struct merged_frame *leaf = decoder_leaf(decoder);
	const struct merged_stack *merged = &decoder->merged;
	make_room(&decoder->numbered, merged->count + 2);
	decoder->numbered.count = 0;
	decoder->numbered.leaf = NO_LEAF;
	for (size_t i = add_reused(decoder, leaf); i-- > 0;) {
		struct merged_frame *frame = &merged->frames[i];
		if (!is_shown(decoder, frame))
			continue;
		bool idle = decoder->options.marks_idle && frame == leaf && !raw->stopped &&
			    !raw->wait.running && !raw->kernel[0];
		uint32_t id = idle ? NO_FRAME_ID : reused_id(merged, i, cache);
		frame->id = NO_FRAME_ID;
		if (frame == leaf && !idle && pack_leaf(decoder, native, raw, frame))
			break;
		if (id == NO_FRAME_ID)
			id = merged_id(decoder, native, raw->runtime, frame, idle);
		if (!idle)
			frame->id = id;
		decoder->numbered.ids[decoder->numbered.count++] = id;
	}
	number_kernel(decoder, raw);
}
