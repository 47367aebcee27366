/* SPDX-License-Identifier: MIT */
/*
 * A target and its decoder: what the decoder asks of the process is answered here, and kept where
 * raw samples are captured.
 */
#include "record/process.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "record/internal.h"
#include "target/core.h"

static const uint64_t REFRESH_NS = 1000000000; /* libraries come and go */
/* For the end of a stack; for unknown code twice as much after each look that did not help. */
static const uint64_t REFRESH_SOON_NS = 2000000;
enum {
	USELESS_MOST = 6, /* so many of them count */
	SHARE = 8,	  /* refreshes have the CPU one part in so many of the time ... */
};
static const uint64_t REFRESH_SAVED_NS = 400000000; /* ... of which so much may be saved up */

bool process_is_past(const struct process *process)
{
	return atomic_load(&process->news.epoch) != process->worker_epoch;
}

bool process_refresh_is_due(const struct process *process, enum refresh_reason reason, uint64_t now)
{
	uint64_t interval = REFRESH_NS;
	/* Samples that wait may still be of code that was made since the last one. */
	if (atomic_load(&process->ending) && process->refreshed_ns &&
	    reason != REFRESH_UNKNOWN_CODE)
		return false;
	if (reason == REFRESH_STACK_END)
		interval = REFRESH_SOON_NS;
	else if (reason == REFRESH_UNKNOWN_CODE)
		interval = process->useless ? REFRESH_SOON_NS << (process->useless - 1) : 0;
	return now - process->refreshed_ns >= interval && now >= process->refreshes_paid_ns;
}

void process_charge_refresh(struct process *process, uint64_t begin, uint64_t cost)
{
	const uint64_t saved = begin < REFRESH_SAVED_NS ? begin : REFRESH_SAVED_NS;
	process->refreshed_ns = begin;
	if (process->refreshes_paid_ns < begin - saved)
		process->refreshes_paid_ns = begin - saved;
	process->refreshes_paid_ns += SHARE * cost;
}

void process_note_refresh(struct process *process, enum refresh_reason reason, bool changed)
{
	if (changed)
		process->useless = 0;
	else if (reason == REFRESH_UNKNOWN_CODE && process->useless < USELESS_MOST)
		process->useless++;
}

/* *changed: the table is another one than before. */
static bool read_modules(struct process *process, bool *changed, struct error *error)
{
	struct module_table *modules = decoder_modules(process->decoder);
	const uint64_t begin = clock_now_ns(), used = clock_thread_cpu_ns();
	const bool well = module_table_refresh(modules, process->target, changed, error);
	process_charge_refresh(process, begin, clock_thread_cpu_ns() - used);
	if (!well)
		return false;
	if (process->capture)
		capture_modules(process->capture, modules);
	return true;
}

static bool refresh_modules(void *context, struct module_table *modules, enum refresh_reason reason)
{
	struct process *process = context;
	struct error error;
	bool changed = false;
	if (process_is_past(process))
		return false;
	if (!target_is_core(process->target) &&
	    process_refresh_is_due(process, reason, clock_now_ns())) {
		if (!read_modules(process, &changed, &error))
			log_debug("sample", "cannot read the mappings: %s", error.message);
		process_note_refresh(process, reason, changed);
	}
	if (reason == REFRESH_REGULAR)
		module_table_follow_jit(modules);
	return changed;
}

static bool refresh_threads(void *context, const struct python_runtime *runtime, struct join *join)
{
	const struct process *process = context;
	return !process_is_past(process) && join_refresh(join, runtime, process->target, NULL);
}

static void open_target(struct process *process, struct target *target)
{
	memset(process, 0, sizeof(*process));
	process->target = target;
	process->found.root = PROFILE_NONE;
	process->found.timeline = TIMELINE_NONE;
	pthread_mutex_init(&process->opening, NULL);
	process->source = (struct decoder_source){
		.context = process,
		.refresh_modules = refresh_modules,
		.refresh_threads = refresh_threads,
		.code = target_memory(process->target),
		.target = process->target,
	};
	threads_init(&process->threads, process);
	process->taker.target = process->target;
	process->taker.known = python_known_codes_new();
}

bool process_open_bare(struct process *process, pid_t pid, struct error *error)
{
	struct target *target;
	memset(process, 0, sizeof(*process));
	if (!target_open(pid, &target, error))
		return false;
	open_target(process, target);
	return true;
}

void process_need_decoder(struct process *process, const struct decode_options *options,
			  struct interner *strings)
{
	if (!process->decoder)
		process->decoder = decoder_new(options, &process->source, strings);
	decoder_modules(process->decoder)->hurry = &process->ending;
}

bool process_open(struct process *process, pid_t pid, const struct decode_options *options,
		  struct interner *strings, struct error *error)
{
	if (!process_open_bare(process, pid, error))
		return false;
	process_need_decoder(process, options, strings);
	return true;
}

void process_open_target(struct process *process, struct target *target,
			 const struct decode_options *options, struct interner *strings)
{
	open_target(process, target);
	process_need_decoder(process, options, strings);
}

bool process_open_again(struct process *process, pid_t pid, struct error *error)
{
	struct target *fresh;
	if (!target_open(pid, &fresh, error))
		return false;
	target_replace(process->target, fresh);
	threads_release(&process->threads);
	process->refreshed_ns = process->refreshes_paid_ns = process->useless = 0;
	process->opened_ns = process->met_ns = 0;
	process->found.root = PROFILE_NONE;
	process->found.timeline = TIMELINE_NONE;
	process->given = false;
	process->taker.runtime = NULL;
	process->taker.join.valid = false;
	process->taker.main_stack_end = 0;
	process->taker.early = (struct early_name){0};
	process->tick = (struct process_tick){0};
	atomic_store(&process->news.main_stack_end, 0);
	atomic_fetch_add(&process->news.epoch, 1);
	return true;
}

void process_set_options(struct process *process, const struct session_options *options,
			 struct copy_means *means)
{
	struct taker *taker = &process->taker;
	taker->means = means;
	taker->options = (struct copy_options){
		.stop = options->stop,
		.rate = options->rate,
		.kernel = options->kernel,
		.names = options->by_thread || options->timed || options->capture,
	};
	join_init(&taker->join, options->join);
	if (options->nonblocking)
		taker->unstopped = unstopped_new();
	if (options->native && options->unwinder == UNWINDER_PTRACE)
		taker->unwinder = unwinder_new_ptrace();
}

void process_release(struct process *process)
{
	threads_release(&process->threads);
	join_release(&process->taker.join);
	python_known_codes_free(process->taker.known);
	unstopped_free(process->taker.unstopped);
	unwinder_free(process->taker.unwinder);
	watcher_free(process->watcher);
	resolver_free(process->found.resolver);
	profile_release(&process->found.raw);
	leaves_release(&process->found.leaves);
	thread_roots_release(&process->found.roots);
	decoder_free(process->decoder);
	target_free(process->target);
	if (process->target)
		pthread_mutex_destroy(&process->opening);
}

void process_set_capture(struct process *process, struct capture *capture)
{
	const struct memory_reader *memory = target_memory(process->target);
	process->capture = capture;
	process->source.code = capture ? capture_code(capture, memory) : memory;
}

bool process_refresh(struct process *process, struct error *error)
{
	return read_modules(process, NULL, error);
}

bool process_refresh_near(struct process *process, struct error *error)
{
	struct module_table *modules = decoder_modules(process->decoder);
	modules->near_alone = true;
	const bool well = read_modules(process, NULL, error);
	modules->near_alone = false;
	if (modules->has_put_off)
		process->refreshed_ns = process->refreshes_paid_ns = 0;
	return well;
}

bool process_refresh_far(struct process *process)
{
	return decoder_modules(process->decoder)->has_put_off && read_modules(process, NULL, NULL);
}

/* Through a recording reader when raw samples are captured: replay reads the same memory. */
bool process_open_python(struct process *process, struct error *error)
{
	if (!process->capture)
		return decoder_open_python(process->decoder, target_memory(process->target), error);
	struct raw_sample *memory = raw_sample_new();
	memory->live = process->target;
	const bool well = decoder_open_python(process->decoder, &memory->reader, error);
	if (well)
		capture_runtime(process->capture, memory);
	raw_sample_free(memory);
	return well;
}

static const uint64_t REOPEN_NS = 10000000; /* between two tries to find an interpreter */
static const uint64_t REOPEN_LATEST_NS = 10000000000;
static const uint64_t READY_NS = 1000000; /* the same, of one that is not initialised yet */
static const uint64_t READY_WITHIN_NS = 1000000000; /* later it has its part of the time, too */
static const uint64_t SOON_NS = 100000000;
enum {
	OPEN_SHARE = 8,	  /* looking for an interpreter has one part in so many of the time */
	REOPEN_SHARE = 8, /* of a child: later, that part of the time that the program has run */
	READY_SHARE = 4,  /* the same of one that is not initialised */
};

bool process_opens_soon(const struct process *process, uint64_t now)
{
	return (process->unready || process->given) && now - process->met_ns < SOON_NS;
}

uint64_t process_reopen_interval(const struct process *process, uint64_t now)
{
	const uint64_t age = now - process->met_ns;
	const bool waits = !process->given && process->met_ns;
	const bool soon = process->unready || process_opens_soon(process, now);
	uint64_t interval = soon ? age / READY_SHARE : waits ? age / REOPEN_SHARE : 0;
	const uint64_t least = soon ? READY_NS : REOPEN_NS;
	const bool often = soon && age < READY_WITHIN_NS;
	const uint64_t cost = (often ? 1 : OPEN_SHARE) * process->open_cost_ns;

	interval = interval < least ? least : interval;
	interval = interval > REOPEN_LATEST_NS ? REOPEN_LATEST_NS : interval;
	return interval < cost ? cost : interval;
}

remote_addr process_main_stack_end(const struct process *process)
{
	enum { BEYOND = 128 }; /* bytes that an unwinder may look at above the outermost frame */
	const remote_addr end = target_start_stack(process->target) + BEYOND;
	const struct module_table *modules = decoder_modules(process->decoder);
	for (size_t i = 0; i < modules->mapping_count; i++) {
		const struct mapping *mapping = &modules->mappings[i];
		if (strcmp(mapping->path, "[stack]") == 0)
			return mapping->start < end && end < mapping->end ? end : mapping->end;
	}
	return 0;
}
