/* SPDX-License-Identifier: MIT */
/*
 * From a raw sample to one stack of frame ids: unwind the copy, decode the Python frames in it,
 * merge both on addresses. A pure function of the raw sample and the module files, except that a
 * live decoder reads the module table anew when an address is in none.
 */
#include "sample/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"

static const uint64_t REFRESH_NS = 1000000000;	     /* libraries come and go */
static const uint64_t REFRESH_SOON_NS = 2000000;     /* an unknown address: look at once ... */
static const uint64_t REFRESH_USELESS_NS = 50000000; /* ... unless that did not help just now */

void decoder_init(struct decoder *decoder, const struct target *target,
		  const struct session_options *options, struct interner *strings)
{
	memset(decoder, 0, sizeof(*decoder));
	decoder->target = target;
	decoder->options = options;
	decoder->strings = strings;
	module_table_init(&decoder->modules);
	module_table_use_jit(&decoder->modules, target);
	decoder->unwinder = unwinder_new(&decoder->modules);
	if (target)
		unwinder_set_code(decoder->unwinder, target_memory(target));
	unwind_stack_init(&decoder->native);
	python_stack_init(&decoder->python);
	python_stack_init(&decoder->part);
	join_init(&decoder->join, JOIN_AUTO);
	decoder->c_functions = c_functions_new(target, strings);
	decoder->marks[MERGED_GC] = intern_text(strings, "<gc>");
	decoder->marks[MERGED_GIL_WAIT] = intern_text(strings, "<gil wait>");
	decoder->marks[MERGED_IMPORT_WAIT] = intern_text(strings, "<import lock wait>");
}

void decoder_release(struct decoder *decoder)
{
	unwinder_free(decoder->unwinder);
	for (size_t i = 0; i < DECODER_RECALLS; i++)
		unwind_recall_free(decoder->recalls[i]);
	for (size_t i = 0; i < DECODER_MERGE_RECALLS; i++)
		merge_recall_free(decoder->merge_recalls[i]);
	module_table_release(&decoder->modules);
	for (size_t i = 0; i < decoder->runtime_count; i++) {
		python_runtime_free(decoder->runtimes[i]);
		python_code_cache_free(decoder->code_caches[i]);
	}
	free(decoder->runtimes);
	free(decoder->code_caches);
	frame_table_release(&decoder->frames);
	c_functions_free(decoder->c_functions);
	unwind_stack_release(&decoder->native);
	python_stack_release(&decoder->python);
	python_stack_release(&decoder->part);
	merged_stack_release(&decoder->merged);
	join_release(&decoder->join);
	stack_switch_release(&decoder->stack_switch);
	free(decoder->slices);
	free(decoder->activations);
	free(decoder->anchors);
	free(decoder->stack);
}

const struct python_runtime *decoder_runtime(const struct decoder *decoder)
{
	return decoder->runtime_count ? decoder->runtimes[decoder->runtime_count - 1] : NULL;
}

remote_addr decoder_main_stack_end(const struct decoder *decoder)
{
	enum { BEYOND = 128 }; /* bytes that an unwinder may look at above the outermost frame */
	const remote_addr end = target_start_stack(decoder->target) + BEYOND;
	for (size_t i = 0; i < decoder->modules.mapping_count; i++) {
		const struct mapping *mapping = &decoder->modules.mappings[i];
		if (strcmp(mapping->path, "[stack]") == 0)
			return mapping->start < end && end < mapping->end ? end : mapping->end;
	}
	return 0;
}

bool decoder_open_python(struct decoder *decoder, const struct memory_reader *memory,
			 struct error *error)
{
	struct python_runtime *runtime;
	if (!python_runtime_open(&decoder->modules, memory, &runtime, error))
		return false;
	size_t capacity = decoder->runtime_capacity;
	size_t n = decoder->runtime_count;
	decoder->runtimes = alloc_room(decoder->runtimes, &decoder->runtime_capacity, n + 1,
				       sizeof(*decoder->runtimes));
	decoder->code_caches =
		alloc_room(decoder->code_caches, &capacity, n + 1, sizeof(*decoder->code_caches));
	decoder->runtimes[n] = runtime;
	decoder->code_caches[n] = python_code_cache_new(decoder->strings);
	decoder->runtime_count++;
	decoder->code = (struct eval_code){0};
	return true;
}

/* Reads the module table anew when that may help. */
static bool refresh(struct decoder *decoder, uint64_t interval_ns)
{
	uint64_t now = clock_now_ns();
	if (!decoder->target || now - decoder->refreshed_ns < interval_ns)
		return false;
	decoder->refreshed_ns = now;
	bool changed;
	struct error error;
	if (!module_table_refresh(&decoder->modules, decoder->target, &changed, &error)) {
		log_debug("sample", "cannot read the mappings: %s", error.message);
		return false;
	}
	if (decoder->capture && decoder->modules.generation != decoder->captured_generation) {
		capture_modules(decoder->capture, &decoder->modules);
		decoder->captured_generation = decoder->modules.generation;
	}
	return changed;
}

static void tell_stack_end(struct decoder *decoder, const struct raw_sample *raw)
{
	if (!raw->slot || atomic_load(&raw->slot->stack_end))
		return;
	remote_addr sp = raw->registers.value[REGISTER_RSP];
	const struct mapping *mapping = module_table_find(&decoder->modules, sp);
	if (mapping && !mapping->module)
		atomic_store(&raw->slot->stack_end, mapping->end);
}

/* Any will do: two threads that share one merely help each other seldom. */
static struct unwind_recall *recall_of(struct decoder *decoder, pid_t tid)
{
	struct unwind_recall **recall = &decoder->recalls[(unsigned)tid % DECODER_RECALLS];
	if (!*recall)
		*recall = unwind_recall_new();
	return *recall;
}

static struct merge_recall *merge_recall_of(struct decoder *decoder, pid_t tid)
{
	struct merge_recall **recall =
		&decoder->merge_recalls[(unsigned)tid % DECODER_MERGE_RECALLS];
	if (!*recall)
		*recall = merge_recall_new();
	return *recall;
}

static bool unwind(struct decoder *decoder, const struct raw_sample *raw)
{
	struct error error;
	if (decoder->distrust_leaf)
		unwinder_distrust_leaf(decoder->unwinder);
	if (decoder->recalling)
		unwinder_set_recall(decoder->unwinder, recall_of(decoder, raw->tid));
	if (!unwind_thread(decoder->unwinder, &raw->registers, &raw->reader, &decoder->native,
			   &error)) {
		log_debug("unwind", "thread %d: %s", raw->tid, error.message);
		return false;
	}
	return true;
}

/* Code where none was when the mappings were read: a library that was loaded since, or the JIT's.
 */
static bool leads_into_unknown(struct decoder *decoder)
{
	const struct unwind_stack *native = &decoder->native;
	return native->end == UNWIND_END_UNMAPPED || native->end == UNWIND_END_NO_INFO ||
	       (native->count > 0 && native->frames[0].guessed &&
		!module_table_find(&decoder->modules, native->frames[0].pc));
}

/* The native stack, from the pause or from the copy. NULL: none. */
static const struct unwind_stack *native_stack(struct decoder *decoder,
					       const struct raw_sample *raw)
{
	if (raw->has_native)
		return &raw->native;
	if (!unwind(decoder, raw))
		return NULL;
	if (leads_into_unknown(decoder)) {
		bool useless = decoder->refreshed_ns - decoder->useless_ns < REFRESH_USELESS_NS;
		if (!refresh(decoder, useless ? REFRESH_USELESS_NS : REFRESH_SOON_NS))
			decoder->useless_ns = decoder->refreshed_ns;
		else if (!unwind(decoder, raw))
			return NULL;
	}
	if (decoder->native.end == UNWIND_END_STACK_COPY) {
		refresh(decoder, REFRESH_SOON_NS);
		tell_stack_end(decoder, raw);
	}
	return &decoder->native;
}

_Static_assert((int)PYTHON_SAVED_COUNT == (int)UNWIND_SAVED_COUNT, "callee-saved registers");

/* How many of the outermost slices stand there from the walk that its frames are of. */
static size_t count_kept_slices(const struct decoder *decoder, const struct unwind_stack *native)
{
	if (!decoder->sliced_walk)
		return 0;
	if (decoder->sliced_walk == native->walk)
		return native->count;
	return decoder->sliced_walk == native->recalled_from ? native->recalled : 0;
}

static const struct python_slice *make_slices(struct decoder *decoder,
					      const struct unwind_stack *native)
{
	if (!native)
		return NULL;
	const size_t kept = count_kept_slices(decoder, native);
	decoder->slices = alloc_room_in_front(decoder->slices, &decoder->slice_capacity, kept,
					      native->count + 1, sizeof(*decoder->slices));
	struct python_slice *slices = decoder->slices + (decoder->slice_capacity - native->count);
	for (size_t i = 0; i < native->count - kept; i++) {
		const struct unwind_frame *frame = &native->frames[i];
		struct python_slice *slice = &slices[i];
		slice->sp = frame->sp;
		slice->cfa = frame->cfa;
		slice->pc = unwind_frame_site(frame);
		slice->saved_known = frame->saved_known;
		slice->guessed = frame->guessed;
		memcpy(slice->saved, frame->saved, sizeof(slice->saved));
	}
	decoder->sliced_walk = native->walk;
	return slices;
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
	decoder->activations = alloc_room(decoder->activations, &decoder->activation_capacity,
					  count + 1, sizeof(*decoder->activations));
	for (size_t i = 0; i < count; i++) {
		bool own = a < all->activation_count &&
			   (b == part->activation_count || place_of(all, a) <= place_of(part, b));
		decoder->activations[i] = own ? all->activations[a++] : part->activations[b++];
		if (!own)
			decoder->activations[i].first += (uint32_t)base;
	}
	all->activations = alloc_room(all->activations, &all->activation_capacity, count + 1,
				      sizeof(*all->activations));
	memcpy(all->activations, decoder->activations, count * sizeof(*all->activations));
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

static size_t cache_index(const struct decoder *decoder, const struct python_runtime *runtime)
{
	for (size_t i = 0; i < decoder->runtime_count; i++)
		if (decoder->runtimes[i] == runtime)
			return i;
	return decoder->runtime_count - 1;
}

/*
 * A thread state is made by the thread that starts another one, with its own ids in it at first;
 * and the memory of one that ended serves the next. So what was joined may be another thread's by
 * now: the copy itself tells.
 */
static bool belongs(const struct raw_sample *raw, const struct python_stack *python)
{
	if (python->native_thread_id && raw->namespace_tid &&
	    python->native_thread_id != (uint64_t)raw->namespace_tid)
		return false;
	return !raw->thread_id || python->thread_id == raw->thread_id;
}

/*
 * Several thread states on one OS thread (sub-interpreters) are put in stack order. Those that
 * belong to another thread are left out; *count: how many are left.
 */
static bool read_python(struct decoder *decoder, const struct raw_sample *raw,
			const struct unwind_stack *native, uint32_t *count, struct error *error)
{
	const struct python_runtime *runtime = raw->runtime;
	struct python_code_cache *codes = decoder->code_caches[cache_index(decoder, runtime)];
	python_code_cache_set_recall(codes,
				     decoder->recalling && (raw->stopped || !raw->wait.running));
	const struct python_slice *slices = make_slices(decoder, native);
	*count = 0;
	for (uint32_t i = 0; i < raw->tstate_count; i++) {
		struct python_stack *into = *count == 0 ? &decoder->python : &decoder->part;
		if (!python_stack_read(runtime, &raw->reader, raw->tstates[i], slices,
				       native ? native->count : 0, codes, into, error)) {
			if (belongs(raw, into))
				return false;
			continue; /* whose it is runs on while it is read */
		}
		if (!belongs(raw, into))
			continue;
		if (*count > 0)
			add_part(decoder, &decoder->python, into);
		++*count;
	}
	return true;
}

/*
 * Where the native stack had to be guessed, the entry records of the Python stack say through which
 * frames it leads: unwinds again, so that none of them is stepped over.
 */
static const struct unwind_stack *unwind_by_records(struct decoder *decoder,
						    const struct raw_sample *raw,
						    const struct unwind_stack *native)
{
	uint32_t states = 0;
	if (!native || raw->has_native || (!native->guessed && native->end != UNWIND_END_NO_INFO))
		return native;
	/* The innermost frame is right in any case: it has what the first may lack. */
	if (!read_python(decoder, raw, NULL, &states, NULL) &&
	    !read_python(decoder, raw, native, &states, NULL))
		return native;
	size_t count = states ? decoder->python.activation_count : 0;
	decoder->anchors = alloc_room(decoder->anchors, &decoder->anchor_capacity, count + 1,
				      sizeof(*decoder->anchors));
	for (size_t i = 0; i < count; i++)
		decoder->anchors[i] = decoder->python.activations[i].record;
	unwinder_set_anchors(decoder->unwinder, decoder->anchors, count);
	return unwind(decoder, raw) ? &decoder->native : native;
}

/* fs_base and native_thread_id agree by now; what the outermost frames say must, too. */
static bool contradicts(struct decoder *decoder, const struct unwind_stack *native)
{
	const struct python_stack *python = &decoder->python;
	uint64_t rbx = native ? join_rbx(&decoder->join, native) : 0;
	return rbx && rbx != python->thread_id;
}

/* A new thread state: read the list of thread ids again, for the comparison of evidence. */
static void follow_threads(struct decoder *decoder, const struct raw_sample *raw)
{
	uint64_t stamp;
	if (!decoder->target || !raw->runtime)
		return;
	if (decoder->join.valid &&
	    (!python_threads_stamp(raw->runtime, &raw->reader, &stamp, NULL) ||
	     decoder->join.stamp == stamp))
		return;
	if (!join_refresh(&decoder->join, raw->runtime, decoder->target, NULL))
		log_debug("join", "the list of Python threads could not be read");
}

static void fill_facts(struct decoder *decoder, const struct raw_sample *raw,
		       const struct unwind_stack *native, bool known, struct decode_facts *facts)
{
	const struct python_stack *python = &decoder->python;
	const struct merged_frame *leaf = decoder_leaf(decoder);
	facts->known_to_python = known;
	facts->salvaged = decoder->merged.salvaged || raw->shortened;
	facts->truncated = decoder->merged.truncated;
	facts->native_leaf = leaf && leaf->kind == MERGED_NATIVE && raw->stopped;
	if (native) {
		facts->guessed = native->guessed > 0;
		facts->end = native->end;
		facts->needs_register = native->end == UNWIND_END_REGISTER;
	}
	if (!facts->known_to_python)
		return;
	facts->thread_id = python->thread_id;
	facts->has_gil = python->has_gil;
	facts->holds_gil = python->holds_gil;
	facts->gc_running = python->gc_running && python->holds_gil;
	facts->contradiction = contradicts(decoder, native);
}

/* --join=rbx: what the outermost frames say decides which thread state is copied next time. */
static void learn_rbx(struct decoder *decoder, const struct raw_sample *raw,
		      const struct unwind_stack *native)
{
	if (decoder->options->join == JOIN_RBX && native && raw->slot)
		atomic_store(&raw->slot->learned, join_rbx(&decoder->join, native));
}

/* True when Python code may run in one of the frames. */
static bool may_run_python(const struct decoder *decoder, const struct python_runtime *runtime,
			   const struct unwind_stack *native)
{
	const bool known = python_runtime_knows_eval(runtime);
	for (size_t i = 0; i < native->count; i++) {
		const struct unwind_frame *frame = &native->frames[i];
		if (known ? eval_code_holds(&decoder->code, runtime, frame)
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
	return raw->unjoined && raw->runtime && raw->tstate_count == 0 && native &&
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
static bool may_distrust_leaf(const struct decoder *decoder, const struct raw_sample *raw,
			      const struct unwind_stack *native)
{
	return !decoder->distrust_leaf && !raw->has_native && native && native->count == 1 &&
	       python_runtime_owns(raw->runtime, native->frames[0].pc);
}

static bool is_being_replaced(struct decoder *decoder, const struct raw_sample *raw,
			      const struct unwind_stack *native)
{
	if (!native || !stack_switch_under_way(&decoder->stack_switch, &decoder->modules, native))
		return false;
	log_debug("sample", "thread %d: its stack is being replaced", raw->tid);
	return true;
}

enum decode_result decode_sample(struct decoder *decoder, const struct raw_sample *raw,
				 struct decode_facts *facts)
{
	memset(facts, 0, sizeof(*facts));
	refresh(decoder, REFRESH_NS);
	module_table_follow_jit(&decoder->modules);
	follow_threads(decoder, raw);
	bool python = raw->runtime && raw->tstate_count > 0;
	const struct unwind_stack *native = NULL;
	if (decoder->options->native || decoder->options->join == JOIN_RBX)
		native = native_stack(decoder, raw);
	if (is_being_replaced(decoder, raw, native))
		return DECODE_TORN;
	if (python)
		native = unwind_by_records(decoder, raw, native);
	learn_rbx(decoder, raw, native);
	if (lacks_python(decoder, raw, native)) {
		facts->stale_join = true;
		return DECODE_TORN;
	}
	struct error error = {0};
	uint32_t states = 0;
	if (python && !read_python(decoder, raw, native, &states, &error)) {
		/* Without native frames there was nothing to find a stale record again with. */
		bool possible = !native && raw->registers.known;
		const struct unwind_stack *help = possible ? native_stack(decoder, raw) : NULL;
		python = help && read_python(decoder, raw, help, &states, &error);
		if (!python && !runs_no_python(decoder, raw, help ? help : native)) {
			log_debug("python", "thread %d: %s", raw->tid, error.message);
			return DECODE_TORN;
		}
		facts->stale_join = !python;
	}
	facts->stale_join |= python && states < raw->tstate_count;
	if (python && states == 0 && runs_no_python(decoder, raw, native))
		python = false;
	if (python && states == 0) {
		log_debug("join", "thread %d: its thread state is another thread's", raw->tid);
		return DECODE_TORN;
	}
	struct merge_input input = {
		.native = decoder->options->native ? native : NULL,
		.python = python ? &decoder->python : NULL,
		.runtime = raw->runtime,
		.modules = &decoder->modules,
		.wait = python ? known_wait(raw, &decoder->python, native) : MERGED_NATIVE,
		.collecting = python && decoder->python.gc_running && decoder->python.holds_gil,
		.code = &decoder->code,
	};
	if (decoder->recalling && states == 1 && input.native == &decoder->native)
		input.recall = merge_recall_of(decoder, raw->tid);
	merge_stacks(&input, &decoder->merged);
	if (decoder->merged.broken && may_distrust_leaf(decoder, raw, native)) {
		decoder->distrust_leaf = true;
		enum decode_result again = decode_sample(decoder, raw, facts);
		decoder->distrust_leaf = false;
		return again;
	}
	if (decoder->merged.broken) {
		log_debug("sample", "thread %d: its native stack is not of this moment", raw->tid);
		facts->stale_join = true;
		return DECODE_TORN;
	}
	if (raw->runtime && native)
		decoder_show_c_functions(decoder, raw->runtime, native);
	decoder_number_frames(decoder, native, raw, input.recall);
	fill_facts(decoder, raw, native, python, facts);
	if (input.recall)
		merge_recall_keep(input.recall, &input, &decoder->native, &decoder->python,
				  &decoder->merged);
	const bool empty = decoder->stack_count == 0 && decoder->leaf == NO_LEAF;
	return empty ? DECODE_EMPTY : DECODE_OK;
}
