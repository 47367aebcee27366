/* SPDX-License-Identifier: MIT */
/*
 * From a raw sample to one stack of frame ids: unwind the copy, decode the Python frames in it,
 * merge both on addresses, number what is shown. A pure function of the raw sample, the module
 * table and the modules' files; what a live decoder asks of the process besides is in its struct
 * decoder_source, and what it found out for the next sample is in struct decoded.
 */
#include "merge/decoder.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "profile/timeline.h"

struct decoder *decoder_new(const struct decode_options *options,
			    const struct decoder_source *source, struct interner *strings)
{
	struct decoder *decoder = alloc_zeroed(1, sizeof(*decoder));
	decoder->options = *options;
	decoder->source = source;
	decoder->strings = strings;
	module_table_init(&decoder->modules);
	module_table_use_jit(&decoder->modules, source->target);
	decoder->unwinder = unwinder_new(&decoder->modules);
	unwind_stack_init(&decoder->native);
	python_stack_init(&decoder->python);
	python_stack_init(&decoder->part.stack);
	join_init(&decoder->join, JOIN_AUTO);
	decoder->c_functions = c_functions_new(source->target, strings);
	decoder->marks[MERGED_GC] = intern_text(strings, "<gc>");
	decoder->marks[MERGED_GIL_WAIT] = intern_text(strings, "<gil wait>");
	decoder->marks[MERGED_SIGNAL] = intern_text(strings, "<signal handler called>");
	decoder->marks[MERGED_IMPORT_WAIT] = intern_text(strings, "<import lock wait>");
	decoder->marks[MERGED_GAP] = intern_text(strings, "[gap]");
	return decoder;
}

/* The first `count`. */
static void forget_interpreters(struct interpreters *all, size_t count)
{
	for (size_t i = 0; i < count; i++)
		python_runtime_free(all->items[i].runtime);
	all->count -= count;
	if (all->count > 0)
		memmove(all->items, all->items + count, all->count * sizeof(*all->items));
}

static void release_interpreters(struct interpreters *all)
{
	forget_interpreters(all, all->count);
	for (size_t i = 0; i < all->codes_count; i++)
		python_code_cache_free(all->codes[i].cache);
	free(all->items);
	free(all->codes);
}

static void free_caches(struct decoder *decoder)
{
	for (size_t i = 0; i < DECODER_WALK_CACHES; i++)
		walk_cache_free(decoder->walk_caches[i]);
	for (size_t i = 0; i < DECODER_MERGE_CACHES; i++)
		merge_cache_free(decoder->merge_caches[i]);
	memset(decoder->walk_caches, 0, sizeof(decoder->walk_caches));
	memset(decoder->merge_caches, 0, sizeof(decoder->merge_caches));
}

void decoder_forget_program(struct decoder *decoder)
{
	struct interpreters *all = &decoder->interpreters;
	unwinder_forget(decoder->unwinder);
	free_caches(decoder);
	stack_switch_release(&decoder->stack_switch);
	module_table_forget_program(&decoder->modules);
	decoder->code = (struct eval_code){0};
	/* The taker may be in a tick yet that began with the last one. */
	if (all->former == all->count && all->former > 0)
		all->former--; /* nor was there another one since */
	forget_interpreters(all, all->former);
	all->former = all->count;
}

void decoder_free(struct decoder *decoder)
{
	if (!decoder)
		return;
	unwinder_free(decoder->unwinder);
	free_caches(decoder);
	module_table_release(&decoder->modules);
	release_interpreters(&decoder->interpreters);
	frame_table_release(&decoder->frames);
	c_functions_free(decoder->c_functions);
	unwind_stack_release(&decoder->native);
	python_stack_release(&decoder->python);
	python_stack_release(&decoder->part.stack);
	merged_stack_release(&decoder->merged);
	join_release(&decoder->join);
	stack_switch_release(&decoder->stack_switch);
	free(decoder->native_frames.items);
	free(decoder->part.activations);
	free(decoder->anchors.items);
	free(decoder->numbered.room);
	free(decoder->kept.room);
	free(decoder);
}

struct module_table *decoder_modules(struct decoder *decoder)
{
	return &decoder->modules;
}

struct frame_table *decoder_frames(struct decoder *decoder)
{
	return &decoder->frames;
}

struct unwinder *decoder_unwinder(struct decoder *decoder)
{
	return decoder->unwinder;
}

const struct python_runtime *decoder_runtime(const struct decoder *decoder)
{
	const struct interpreters *all = &decoder->interpreters;
	return all->count ? all->items[all->count - 1].runtime : NULL;
}

static struct python_code_cache *codes_of(struct interpreters *all, const char *version,
					  struct interner *strings)
{
	for (size_t i = 0; i < all->codes_count; i++) {
		if (all->codes[i].version != version)
			continue;
		python_code_cache_forget_places(all->codes[i].cache);
		return all->codes[i].cache;
	}
	all->codes = alloc_room(all->codes, &all->codes_capacity, all->codes_count + 1,
				sizeof(*all->codes));
	struct version_codes *codes = &all->codes[all->codes_count++];
	*codes = (struct version_codes){version, python_code_cache_new(strings)};
	return codes->cache;
}

bool decoder_open_python(struct decoder *decoder, const struct memory_reader *memory,
			 struct error *error)
{
	struct interpreters *all = &decoder->interpreters;
	struct python_runtime *runtime;
	if (!python_runtime_open(&decoder->modules, memory, &runtime, error))
		return false;
	const char *version = intern_text(decoder->strings, python_runtime_version(runtime));
	all->items = alloc_room(all->items, &all->capacity, all->count + 1, sizeof(*all->items));
	all->items[all->count++] =
		(struct interpreter){runtime, codes_of(all, version, decoder->strings)};
	decoder->code = (struct eval_code){0};
	return true;
}

static struct merge_cache *merge_cache_of(struct decoder *decoder, pid_t tid)
{
	struct merge_cache **cache = &decoder->merge_caches[(unsigned)tid % DECODER_MERGE_CACHES];
	if (!*cache)
		*cache = merge_cache_new();
	return *cache;
}

/* fs_base, where it is known, agrees by now; the kernel's id and what the outermost frames say
 * must, too. */
static bool contradicts(const struct python_stack *python, const struct decoding *decoding)
{
	const uint64_t rbx = decoding->out->rbx_thread_id;
	const uint64_t tid = (uint64_t)decoding->raw->who.kernel_tid;
	return (rbx && rbx != python->thread_id) ||
	       (tid && python->native_thread_id && python->native_thread_id != tid);
}

/* A new thread state: read the list of thread ids again, for the comparison of evidence. */
static void follow_threads(struct decoder *decoder, const struct raw_sample *raw)
{
	const struct decoder_source *source = decoder->source;
	uint64_t stamp;
	if (!source->refresh_threads || !raw->runtime)
		return;
	if (decoder->join.valid &&
	    (!python_threads_stamp(raw->runtime, &raw->reader, &stamp, NULL) ||
	     decoder->join.stamp == stamp))
		return;
	if (!source->refresh_threads(source->context, raw->runtime, &decoder->join))
		log_debug("join", "the list of Python threads could not be read");
}

/*
 * The interpreter says only that a collection is under way, and what runs in it may have let go of
 * the GIL: the collector's frames say whose it is. Where those are not known, it is the one that
 * has the GIL.
 */
static bool collects(const struct decoder *decoder, const struct decoding *decoding)
{
	const struct unwind_stack *native = decoding->native;
	const struct python_stack *python = &decoder->python;
	const struct merged_stack *merged = &decoder->merged;
	if (!python->gc_running)
		return false;
	for (size_t i = 0; i < merged->count; i++)
		if (merged->frames[i].kind == MERGED_GC)
			return true;
	const bool seen = python_runtime_knows_collector(decoding->raw->runtime) &&
			  (decoding->for_collector ||
			   (native && native->end == UNWIND_END_OUTERMOST && !native->guessed));
	return python->holds_gil && !seen;
}

/* What it waits in is the innermost frame but for those of the kernel. */
static bool waits_for_gil(const struct decoder *decoder)
{
	const struct numbered *numbered = &decoder->numbered;
	size_t i = numbered->count;
	while (i > 0 && decoder->frames.frames[numbered->ids[i - 1]].kind == RAW_KERNEL)
		i--;
	if (i == 0)
		return false;
	const struct raw_frame *frame = &decoder->frames.frames[numbered->ids[i - 1]];
	return frame->kind == RAW_MARK && frame->mark == decoder->marks[MERGED_GIL_WAIT];
}

static void fill_facts(struct decoder *decoder, const struct decoding *decoding)
{
	const struct python_stack *python = &decoder->python;
	const struct unwind_stack *native = decoding->native;
	const struct merged_frame *leaf = decoder_leaf(decoder);
	struct decoded *out = decoding->out;
	out->known_to_python = decoding->python;
	out->salvaged = decoder->merged.salvaged || decoding->raw->shortened;
	out->truncated = decoder->merged.truncated;
	out->native_leaf = leaf && leaf->kind == MERGED_NATIVE && decoding->raw->stopped;
	if (native) {
		out->guessed = native->guessed > 0;
		out->end = native->end;
		out->needs_register = native->end == UNWIND_END_REGISTER;
	}
	if (!out->known_to_python)
		return;
	out->thread_id = python->thread_id;
	out->has_gil = python->has_gil;
	out->holds_gil = python->holds_gil;
	out->waits_for_gil = waits_for_gil(decoder);
	out->gc_running = collects(decoder, decoding);
	out->contradiction = contradicts(python, decoding);
}

/* True when Python code may run in one of the frames. */
static bool may_run_python(const struct decoder *decoder, const struct python_runtime *runtime,
			   const struct unwind_stack *native)
{
	const bool known = python_runtime_knows_eval(runtime);
	for (size_t i = 0; i < native->count; i++) {
		const struct unwind_frame *frame = &native->frames[i];
		if (known ? eval_code_contains(&decoder->code, runtime, frame)
			  : python_runtime_owns(runtime, frame->pc - 1))
			return true;
	}
	return false;
}

/*
 * A young thread that runs Python code and whose thread state has not been found: it would be shown
 * without the Python frames that it has.
 */
static bool lacks_python(const struct decoder *decoder, const struct raw_sample *raw,
			 const struct unwind_stack *native)
{
	return raw->who.maybe_python && raw->runtime && raw->who.tstate_count == 0 && native &&
	       may_run_python(decoder, raw->runtime, native);
}

/*
 * A thread state that is being made or has been freed leads nowhere. A thread that is not inside of
 * the eval function has no Python frames, whatever it says.
 */
static bool runs_no_python(const struct decoder *decoder, const struct raw_sample *raw,
			   const struct unwind_stack *native)
{
	return native && native->end == UNWIND_END_OUTERMOST && !native->guessed &&
	       !may_run_python(decoder, raw->runtime, native);
}

/* The native stack ended at once, in the interpreter: the leaf's unwind information is wrong. */
static bool must_distrust_leaf(const struct decoder *decoder, const struct raw_sample *raw,
			       const struct unwind_stack *native)
{
	const struct merged_stack *merged = &decoder->merged;
	return (merged->broken || merged->unreached) && !raw->has_native && native &&
	       native->count == 1 && python_runtime_owns(raw->runtime, native->frames[0].pc);
}

static bool is_being_replaced(struct decoder *decoder, const struct raw_sample *raw,
			      const struct unwind_stack *native)
{
	if (!native || !stack_switch_under_way(&decoder->stack_switch, &decoder->modules, native))
		return false;
	log_debug("sample", "thread %d: its stack is being replaced", raw->tid);
	return true;
}

/*
 * The native stack and the Python stack are not of the same moment; or the former leads nowhere
 * from where stacks are replaced: those that follow by the chain of Python frames, whose records
 * lie on it, may be another greenlet's.
 */
static bool is_contradictory(struct decoder *decoder, const struct raw_sample *raw,
			     const struct unwind_stack *native)
{
	const struct merged_stack *merged = &decoder->merged;
	const bool nowhere = merged->unreached &&
			     (native->end == UNWIND_END_OUTERMOST ||
			      native->end == UNWIND_END_UNMAPPED || native->end == UNWIND_END_BAD);
	if (!merged->broken &&
	    !(nowhere && stack_switch_is_near(&decoder->stack_switch, &decoder->modules, native)))
		return false;
	log_debug("sample", "thread %d: its native stack is not of this moment", raw->tid);
	return true;
}

/* Merges for the place of <gc> alone; false: the native stack does not fit. */
static bool merge_collection(struct decoder *decoder, const struct merge_input *input,
			     const struct unwind_stack *native)
{
	struct merged_stack *merged = &decoder->merged;
	struct merge_input with = *input;
	size_t kept = 0;
	if (!native)
		return false;
	with.native = native;
	merge_stacks(&with, merged);
	if (merged->broken || merged->salvaged)
		return false;
	for (size_t i = 0; i < merged->count; i++)
		if (merged->frames[i].kind != MERGED_NATIVE &&
		    merged->frames[i].kind != MERGED_SIGNAL)
			merged->frames[kept++] = merged->frames[i];
	merged->count = kept;
	merged->truncated = false;
	return true;
}

/* ---- the passes: each takes the sample further, or says why it ends here ---- */

static enum decode_result unwind_pass(struct decoder *decoder, struct decoding *decoding)
{
	const struct raw_sample *raw = decoding->raw;
	decoding->python = raw->runtime && raw->who.tstate_count > 0;
	if (decoding->python && raw->store.brings_codes)
		decoder_learn_codes(decoder, raw);
	if (decoder->options.native || decoder->options.rbx)
		decoding->native = decoder_unwind(decoder, decoding);
	decoding->out->switches = decoder->stack_switch.code;
	if (is_being_replaced(decoder, raw, decoding->native))
		return DECODE_TORN;
	if (decoding->python)
		decoding->native = decoder_unwind_by_records(decoder, decoding, decoding->native);
	decoding->out->unwound = decoding->native != NULL;
	if (decoding->native)
		decoding->out->rbx_thread_id = join_rbx(&decoder->join, decoding->native);
	return DECODE_OK;
}

/* Without native frames there was nothing to find a stale record again with. */
static bool read_with_help(struct decoder *decoder, struct decoding *decoding,
			   const struct unwind_stack **help, struct error *error)
{
	const struct raw_sample *raw = decoding->raw;
	if (!decoding->native && raw->registers.known)
		*help = decoder_unwind(decoder, decoding);
	return *help && decoder_read_python(decoder, raw, *help, &decoding->states, error);
}

static enum decode_result read_pass(struct decoder *decoder, struct decoding *decoding)
{
	const struct raw_sample *raw = decoding->raw;
	const struct unwind_stack *native = decoding->native, *help = NULL;
	struct decoded *out = decoding->out;
	struct error error = {0};
	if (lacks_python(decoder, raw, native)) {
		out->stale_join = true;
		return DECODE_TORN;
	}
	if (!decoding->python)
		return DECODE_OK;
	/* What is found without it may begin anywhere. */
	if (raw->withheld) {
		log_debug("python", "thread %d: a page of its memory does not come", raw->tid);
		return DECODE_TORN;
	}
	if (!decoder_read_python(decoder, raw, native, &decoding->states, &error) &&
	    !read_with_help(decoder, decoding, &help, &error)) {
		if (!runs_no_python(decoder, raw, help ? help : native)) {
			log_debug("python", "thread %d: %s", raw->tid, error.message);
			return DECODE_TORN;
		}
		decoding->python = false;
		out->stale_join = true;
		return DECODE_OK;
	}
	out->stale_join = decoding->states < raw->who.tstate_count;
	if (decoding->states > 0)
		return DECODE_OK;
	decoding->python = false;
	if (runs_no_python(decoder, raw, native))
		return DECODE_OK;
	log_debug("join", "thread %d: its thread state is another thread's", raw->tid);
	return DECODE_TORN;
}

static enum decode_result merge_pass(struct decoder *decoder, struct decoding *decoding)
{
	const struct raw_sample *raw = decoding->raw;
	const struct unwind_stack *native = decoding->native;
	const bool python = decoding->python;
	const struct unwind_stack *collection =
		python && decoding->states == 1 ? decoder_unwind_collection(decoder, decoding)
						: NULL;
	struct merge_input *input = &decoding->input;
	*input = (struct merge_input){
		.native = decoder->options.native ? native : NULL,
		.python = python ? &decoder->python : NULL,
		.runtime = raw->runtime,
		.modules = &decoder->modules,
		.wait = python ? known_wait(raw, &decoder->python, native, &decoder->modules)
			       : WAIT_NONE,
		.collecting = python && decoder->python.gc_running,
		.code = &decoder->code,
	};
	if (decoder->options.reuses && decoding->states == 1 && input->native == &decoder->native)
		input->cache = merge_cache_of(decoder, raw->tid);
	decoding->for_collector = merge_collection(decoder, input, collection);
	if (!decoding->for_collector)
		merge_stacks(input, &decoder->merged);
	decoding->suspects_leaf = must_distrust_leaf(decoder, raw, native);
	if (!is_contradictory(decoder, raw, native))
		return DECODE_OK;
	decoding->out->stale_join = true;
	return DECODE_TORN;
}

static enum decode_result number_pass(struct decoder *decoder, struct decoding *decoding)
{
	const struct raw_sample *raw = decoding->raw;
	struct merge_input *input = &decoding->input;
	struct decoded *out = decoding->out;
	if (raw->runtime && decoding->native)
		decoder_show_c_functions(decoder, raw->runtime, decoding->native);
	decoder_number_frames(decoder, decoding->native, raw, input->cache);
	fill_facts(decoder, decoding);
	if (input->cache)
		merge_cache_keep(input->cache, input, &decoder->native, &decoder->python,
				 &decoder->merged);
	out->stack = decoder->numbered.ids;
	out->stack_count = decoder->numbered.count;
	out->leaf = decoder->numbered.leaf;
	return out->stack_count == 0 && out->leaf == NO_LEAF ? DECODE_EMPTY : DECODE_OK;
}

static void run_passes(struct decoder *decoder, struct decoding *decoding)
{
	static enum decode_result (*const passes[])(struct decoder *, struct decoding *) = {
		unwind_pass, read_pass, merge_pass, number_pass};
	struct decoded *out = decoding->out;
	*out = (struct decoded){.leaf = NO_LEAF};
	for (size_t i = 0; i < sizeof(passes) / sizeof(*passes); i++) {
		out->result = passes[i](decoder, decoding);
		if (out->result != DECODE_OK)
			return;
	}
}

/* What is known of the process may be old by now. */
static void catch_up(struct decoder *decoder, const struct raw_sample *raw)
{
	decoder_refresh(decoder, REFRESH_REGULAR);
	follow_threads(decoder, raw);
}

/*
 * Again, as the innermost frame's unwind information must be wrong. Where that leads nowhere
 * either, what was known before stands.
 */
static void retry_without_leaf(struct decoder *decoder, const struct raw_sample *raw,
			       struct decoded *decoded)
{
	struct decoded again;
	struct decoding retry = {.raw = raw, .out = &again, .distrust_leaf = true};
	const struct numbered first = decoder->numbered;
	decoder->numbered = decoder->kept;
	decoder->kept = first;
	run_passes(decoder, &retry);
	if (again.result == DECODE_OK)
		*decoded = again;
}

void merge_decode(struct decoder *decoder, const struct raw_sample *raw, struct decoded *decoded)
{
	struct decoding decoding = {.raw = raw, .out = decoded};
	catch_up(decoder, raw);
	run_passes(decoder, &decoding);
	if (decoding.suspects_leaf)
		retry_without_leaf(decoder, raw, decoded);
}

uint32_t merge_sample_flags(const struct raw_sample *raw, const struct decoded *decoded)
{
	return (decoded->holds_gil ? SAMPLE_HOLDS_GIL : 0) |
	       (decoded->waits_for_gil ? SAMPLE_WAITS_FOR_GIL : 0) |
	       (raw->stopped || raw->wait.running ? 0 : SAMPLE_IDLE) |
	       (decoded->gc_running ? SAMPLE_GC : 0) | (decoded->salvaged ? SAMPLE_SALVAGED : 0) |
	       (decoded->guessed ? SAMPLE_GUESSED : 0);
}
