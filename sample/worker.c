/* SPDX-License-Identifier: MIT */
/*
 * The worker thread: decodes raw samples and counts them, and opens the interpreter when there
 * is a new one. The only thread that calls libunwind and libdw while a recording runs (whoever
 * asks for a profile does so under the same lock).
 */
#include "sample/recording.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "sample/placement.h"

static const uint64_t REOPEN_NS = 10000000;  /* between two tries to find an interpreter */
static const uint64_t RENAME_NS = 500000000; /* between two looks for a thread's name */
enum {
	PATIENCE_MS = 20,	 /* the taker waits to hear what is known of the first samples */
	PATIENCE_LATER_MS = 200, /* to wake takes as long as to decode three samples */
	CALM_DRAINS = 50,	 /* times that nothing was left to do, some 20 ms apart */
};

/* Through a recording reader when raw samples are captured: replay reads the same memory. */
static bool open_python(struct recorder *recorder, struct error *error)
{
	if (!recorder->capture)
		return decoder_open_python(&recorder->decoder, target_memory(recorder->target),
					   error);
	struct raw_sample *memory = raw_sample_new();
	memory->live = recorder->target;
	bool well = decoder_open_python(&recorder->decoder, &memory->reader, error);
	if (well)
		capture_runtime(recorder->capture, memory);
	raw_sample_free(memory);
	return well;
}

bool worker_open(struct recorder *recorder, struct error *error)
{
	struct decoder *decoder = &recorder->decoder;
	uint64_t epoch = atomic_load(&recorder->epoch);
	recorder->opened_ns = clock_now_ns();
	if (epoch != recorder->worker_epoch) {
		target_follow_exec(recorder->target);
		module_table_forget_jit(&decoder->modules);
	}
	recorder->worker_epoch = epoch;
	if (!module_table_refresh(&decoder->modules, recorder->target, NULL, error))
		return false;
	decoder->refreshed_ns = recorder->opened_ns;
	if (recorder->capture && decoder->modules.generation != decoder->captured_generation) {
		capture_modules(recorder->capture, &decoder->modules);
		decoder->captured_generation = decoder->modules.generation;
	}
	atomic_store(&recorder->main_stack_end, decoder_main_stack_end(decoder));
	if (!open_python(recorder, error))
		return false;
	atomic_store(&recorder->runtime, decoder_runtime(decoder));
	atomic_store(&recorder->runtime_epoch, epoch);
	return true;
}

static bool python_is_open(struct recorder *recorder)
{
	return atomic_load(&recorder->runtime) &&
	       atomic_load(&recorder->runtime_epoch) == atomic_load(&recorder->epoch);
}

/* A command that has just started has no interpreter yet, one that executed has another. */
static void try_open(struct recorder *recorder)
{
	struct error error;
	if (python_is_open(recorder) || clock_now_ns() - recorder->opened_ns < REOPEN_NS)
		return;
	if (!worker_open(recorder, &error))
		log_debug("python", "%s", error.message);
}

static void name_thread(struct recorder *recorder, struct thread_slot *slot,
			const struct raw_sample *raw, const struct decode_facts *facts)
{
	const struct python_thread *found = NULL;
	if (facts->known_to_python)
		found = join_by_tstate(&recorder->decoder.join, raw->tstates[0]);
	if (found) {
		/* What the list says of a thread state may be of the one that made it, or that had
		 * its memory before. */
		struct python_thread own = *found;
		own.thread_id = facts->thread_id;
		/* After a fork the main thread's Thread object has its parent's. */
		bool main = raw->tid == target_pid(recorder->target);
		own.native_thread_id = main ? 0 : (uint64_t)raw->namespace_tid;
		slot->name = python_thread_name(raw->runtime, target_memory(recorder->target), &own,
						recorder->strings);
	}
	/* pthread_self() may be the next thread's once this one has ended. */
	struct target_thread thread;
	if (slot->name && !target_thread_read(recorder->target, slot->tid, &thread))
		slot->name = NULL;
	slot->name_known = slot->name != NULL;
	slot->name_tried_ns = raw->time_ns;
	const char *name = slot->name ? slot->name : slot->comm;
	char id[40], text[300];
	snprintf(id, sizeof(id), "thread %d", slot->tid);
	snprintf(text, sizeof(text), "thread %d \"%s\"", slot->tid, name);
	const char *mark = intern_text(recorder->strings, text);
	struct frame_table *frames = &recorder->decoder.frames;
	slot->root_frame = frame_table_mark(frames, intern_text(recorder->strings, id));
	/* The name known best, for all its samples. */
	frames->frames[slot->root_frame].shown = mark;
	if (recorder->capture)
		capture_thread(recorder->capture, slot->tid, text);
}

/* Puts the thread's own root frame before the others. */
static void add_root(struct decoder *decoder, const struct thread_slot *slot)
{
	decoder->stack = alloc_room(decoder->stack, &decoder->stack_capacity,
				    decoder->stack_count + 1, sizeof(*decoder->stack));
	memmove(decoder->stack + 1, decoder->stack, decoder->stack_count * sizeof(*decoder->stack));
	decoder->stack[0] = slot->root_frame;
	decoder->stack_count++;
}

/* The inverse of recorder.c's end_of_bucket. */
static size_t bucket_of(uint64_t pause_ns)
{
	const uint64_t even_ns = (uint64_t)PAUSE_EVEN * PAUSE_BUCKET_NS;
	if (pause_ns < even_ns)
		return pause_ns / PAUSE_BUCKET_NS;
	size_t bucket = PAUSE_EVEN;
	uint64_t start = even_ns;
	for (; pause_ns >= 2 * start && bucket < PAUSE_BUCKETS; start *= 2)
		bucket += PAUSE_OCTAVE;
	bucket += (pause_ns - start) * PAUSE_OCTAVE / start;
	return bucket < PAUSE_BUCKETS ? bucket : PAUSE_BUCKETS;
}

static void count_pause(struct recorder *recorder, uint64_t pause_ns, uint32_t allocations)
{
	recorder->pauses[bucket_of(pause_ns)]++;
	recorder->allocating_pauses += allocations && recorder->pause_count >= PAUSE_WARM_UP;
	recorder->pause_count++;
	recorder->counts.stopped_ns += pause_ns;
	if (pause_ns > recorder->pause_max_ns)
		recorder->pause_max_ns = pause_ns;
}

/* Where the thread's last sample ended. */
static void count_last(struct recorder *recorder, const struct thread_slot *slot, uint64_t samples)
{
	if (slot->last_leaf != NO_LEAF)
		leaves_add(&recorder->leaves, slot->last_node, slot->last_leaf, samples);
	else
		profile_add_again(&recorder->raw, slot->last_node, samples);
}

static void count_sample(struct recorder *recorder, struct thread_slot *slot,
			 const struct decode_facts *facts)
{
	struct profile_counts *counts = &recorder->counts;
	const struct decoder *decoder = &recorder->decoder;
	counts->samples++;
	counts->salvaged += facts->salvaged;
	counts->truncated += facts->truncated;
	counts->guessed += facts->guessed;
	counts->contradictions += facts->contradiction;
	counts->native_samples += facts->native_leaf;
	slot->last_node = profile_add(&recorder->raw, decoder->stack, decoder->stack_count, 0);
	slot->last_leaf = decoder->leaf;
	count_last(recorder, slot, 1);
}

static bool left_out(const struct recorder *recorder, const struct decode_facts *facts)
{
	const struct session_options *options = &recorder->options;
	if (options->gil_only && !facts->holds_gil)
		return true;
	return !facts->known_to_python && python_is_open((struct recorder *)(uintptr_t)recorder) &&
	       (!options->native || !options->native_threads);
}

/* Until a good one has been counted, the thread has no place in the call tree to count again. */
static void note_last(struct thread_slot *slot, bool good)
{
	atomic_store(&slot->last_bad, !good);
	slot->last_torn = !good;
	slot->last_node = PROFILE_NONE;
}

static void decode_and_count(struct recorder *recorder, const struct raw_sample *raw)
{
	struct thread_slot *slot = raw->slot;
	struct decode_facts facts;
	enum decode_result result = decode_sample(&recorder->decoder, raw, &facts);
	if (raw->stopped && raw->pause_ns > 0)
		count_pause(recorder, raw->pause_ns, raw->allocations);
	if (facts.needs_register && !raw->stopped)
		atomic_store(&slot->wants_stop, true);
	if (facts.stale_join)
		atomic_store(&recorder->join_again, true);
	bool good = result == DECODE_OK && !(facts.needs_register && !raw->stopped);
	note_last(slot, good);
	if (!good) {
		recorder->counts.torn += result == DECODE_TORN;
		atomic_store(&recorder->forget_codes, true);
		return;
	}
	if (left_out(recorder, &facts))
		return;
	if (!slot->seen)
		recorder->counts.threads++;
	if (!slot->name_known && raw->time_ns - slot->name_tried_ns > RENAME_NS)
		name_thread(recorder, slot, raw, &facts);
	slot->seen = true;
	if (recorder->options.by_thread)
		add_root(&recorder->decoder, slot);
	count_sample(recorder, slot, &facts);
}

static void work_on(struct recorder *recorder, const struct raw_sample *raw)
{
	if (raw->epoch != recorder->worker_epoch) {
		recorder->counts.gone++; /* of a program that is no more */
		note_last(raw->slot, false);
		return;
	}
	decode_and_count(recorder, raw);
	/* Behind the modules and the thread's name that decoding it may have brought up. */
	if (recorder->capture) {
		capture_jit(recorder->capture, &recorder->decoder.modules);
		capture_sample(recorder->capture, raw);
	}
}

/* The thread has not run since its last sample, if that was one. */
static void repeat(struct recorder *recorder, const struct thread_slot *slot, uint64_t ticks)
{
	if (slot->last_node == PROFILE_NONE) {
		/* last_bad may be of a later one by now. */
		recorder->counts.torn += slot->last_torn ? ticks : 0;
		return;
	}
	for (uint64_t i = 0; i < ticks && recorder->capture; i++)
		capture_repeat(recorder->capture, slot->tid);
	recorder->counts.samples += ticks;
	count_last(recorder, slot, ticks);
}

static unsigned patience(struct recorder *recorder, unsigned calm)
{
	return calm < CALM_DRAINS || !python_is_open(recorder) ? PATIENCE_MS : PATIENCE_LATER_MS;
}

/*
 * On the CPU of a taker that stops threads; off that of one that holds a thread. While it lags
 * behind, and some time after that, wherever it gets a CPU: one may not be enough for both, and the
 * others may not be ours alone.
 */
static void follow_taker(struct recorder *recorder, size_t waiting, struct placement *placement,
			 unsigned *calm)
{
	if (waiting == 0 && *calm < CALM_DRAINS)
		++*calm;
	if (waiting >= QUEUE_LAG)
		*calm = 0;
	int cpu = atomic_load(&recorder->taker_cpu);
	if (*calm < CALM_DRAINS)
		placement_stay_on(placement, -1);
	else if (!atomic_load(&recorder->taker_follows))
		placement_stay_on(placement, cpu);
	else if (!placement_stay_off(placement, cpu))
		placement_stay_on(placement, -1);
}

void *recorder_work(void *argument)
{
	struct recorder *recorder = argument;
	struct placement placement;
	unsigned calm = 0;
	placement_init(&placement);
	for (;;) {
		bool closed;
		size_t waiting;
		struct queue_entry entry;
		bool found = queue_pop(&recorder->queue, patience(recorder, calm), &entry, &waiting,
				       &closed);
		if (closed)
			return NULL;
		follow_taker(recorder, waiting, &placement, &calm);
		pthread_mutex_lock(&recorder->lock);
		try_open(recorder);
		if (found && entry.raw)
			work_on(recorder, entry.raw);
		else if (found)
			repeat(recorder, entry.slot, entry.ticks);
		pthread_mutex_unlock(&recorder->lock);
		if (found)
			queue_done(&recorder->queue, &entry);
	}
}
