/* SPDX-License-Identifier: MIT */
/*
 * The worker thread: decodes raw samples and counts them, and opens the interpreter when there
 * is a new one. The only thread that calls libunwind and libdw while a recording runs (whoever
 * asks for a profile does so under the same lock).
 */
#include "record/recording.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/parser_thread.h"
#include "base/strbuf.h"
#include "copy/placement.h"
#include "record/cpu_time.h"

static const uint64_t HURRY_NS = 50000000; /* of CPU time in one go */
static const uint64_t OPEN_NS = 2000000;   /* between two looks for processes without one */
enum {
	COMMAND_MOST = 96,	 /* bytes of a command line in a root frame */
	PATIENCE_MS = 20,	 /* the taker waits to hear what is known of the first samples */
	PATIENCE_LATER_MS = 200, /* to wake takes as long as to decode three samples */
	PATIENCE_READY_MS = 2,	 /* an interpreter is initialised within some 10 ms */
	CALM_DRAINS = 50,	 /* times that nothing was left to do, some 20 ms apart */
};

static bool python_is_open(const struct process *process)
{
	return atomic_load(&process->news.runtime) &&
	       atomic_load(&process->news.runtime_epoch) == atomic_load(&process->news.epoch);
}

/* process 14976 "python3 train.py"; a long command line is cut, where a character begins. */
static const char *process_text(struct recorder *recorder, const struct process *process)
{
	const char *command = target_command_line(process->target);
	size_t size = strlen(command), shown = size;
	_cleanup_strbuf_ struct strbuf text;
	strbuf_init(&text);
	if (size > COMMAND_MOST)
		for (shown = COMMAND_MOST; shown > 0 && (command[shown] & 0xc0) == 0x80; shown--)
			;
	strbuf_printf(&text, "process %d \"%.*s%s\"", (int)target_pid(process->target), (int)shown,
		      command, shown < size ? "..." : "");
	return intern_text(recorder->strings, text.text);
}

/* What is shown of the process, once something of it is: as it is called now. */
static void describe(struct recorder *recorder, struct process *process)
{
	struct findings *found = &process->found;
	const struct python_runtime *runtime =
		python_is_open(process) ? decoder_runtime(process->decoder) : NULL;
	if (found->root != PROFILE_NONE)
		decoder_frames(process->decoder)->frames[found->root].shown =
			process_text(recorder, process);
	if (found->timeline == TIMELINE_NONE)
		return;
	found->raw.timeline.processes[found->timeline] = (struct profile_process){
		.pid = target_pid(process->target),
		.command_line =
			intern_text(recorder->strings, target_command_line(process->target)),
		.python_version =
			runtime ? intern_text(recorder->strings, python_runtime_version(runtime))
				: NULL,
	};
}

/* The first sample of a process is about to be counted. */
static void root_process(struct recorder *recorder, struct process *process)
{
	struct findings *found = &process->found;
	char id[64];
	if (found->root != PROFILE_NONE)
		return;
	/* Numbers of processes are used again. */
	snprintf(id, sizeof(id), "process %d, the %lluth", (int)target_pid(process->target),
		 (unsigned long long)++recorder->counted.processes);
	found->root = frame_table_mark(decoder_frames(process->decoder),
				       intern_text(recorder->strings, id));
	if (found->raw.timed)
		found->timeline = timeline_process(
			&found->raw.timeline,
			&(struct profile_process){.pid = target_pid(process->target)});
	describe(recorder, process);
}

void worker_prepare(struct recorder *recorder, struct process *process)
{
	if (process->decoder)
		return;
	process_need_decoder(process, &recorder->decoding, recorder->strings);
	profile_init(&process->found.raw, recorder->strings);
	process->found.raw.rate = recorder->options.rate;
	if (recorder->options.timed)
		profile_time(&process->found.raw);
}

bool worker_open(struct recorder *recorder, struct process *process, struct error *error)
{
	uint64_t epoch = atomic_load(&process->news.epoch);
	worker_prepare(recorder, process);
	process->opened_ns = clock_now_ns();
	if (epoch != process->worker_epoch || process->met_ns == 0)
		process->met_ns = process->opened_ns;
	if (epoch != process->worker_epoch) {
		target_follow_exec(process->target);
		decoder_forget_program(process->decoder);
	}
	process->worker_epoch = epoch;
	process->unready = false;
	if (!process_refresh_near(process, error))
		return false;
	atomic_store(&process->news.main_stack_end, process_main_stack_end(process));
	if (!process_open_python(process, error) &&
	    !(process_refresh_far(process) && process_open_python(process, error))) {
		process->unready = error->kind == ERROR_TORN;
		describe(recorder, process);
		return false;
	}
	atomic_store(&process->news.runtime, decoder_runtime(process->decoder));
	atomic_store(&process->news.runtime_epoch, epoch);
	atomic_store(&recorder->processes.python_found, true);
	describe(recorder, process);
	return true;
}

/* A program may have none yet; a new one waits until what was taken of the last one is decoded. */
static bool is_to_be_opened(const struct queue *queue, const struct process *process, uint64_t now)
{
	if (python_is_open(process) || (atomic_load(&process->ending) && process->met_ns))
		return false;
	if (process_is_past(process))
		return queue->done >= atomic_load(&process->news.epoch_from);
	return now - process->opened_ns >= process_reopen_interval(process, now);
}

/* The taker may give the place of a process that has ended away meanwhile: not while it is held. */
static void try_open(struct recorder *recorder, struct process *process, uint64_t now)
{
	struct error error;
	if (atomic_load(&process->state) != PROCESS_LIVE ||
	    pthread_mutex_trylock(&process->opening) != 0)
		return;
	if (atomic_load(&process->state) == PROCESS_LIVE &&
	    is_to_be_opened(&recorder->queue, process, now)) {
		if (!worker_open(recorder, process, &error))
			log_debug("python", "%s", error.message);
		process->open_cost_ns = clock_now_ns() - process->opened_ns;
	}
	pthread_mutex_unlock(&process->opening);
}

/* For how many milliseconds to wait for samples before the next look: few while there are some
 * without an interpreter, still fewer while one is about to be initialised. 0: any number. */
static unsigned try_open_all(struct recorder *recorder, uint64_t now)
{
	struct process_set *set = &recorder->processes;
	unsigned patience_ms = 0;
	for (size_t i = 0; i < process_set_count(set); i++) {
		struct process *process = process_set_at(set, i, PROCESS_LIVE);
		if (!process || python_is_open(process))
			continue;
		try_open(recorder, process, now);
		if (python_is_open(process))
			continue;
		if (process_opens_soon(process, now))
			patience_ms = PATIENCE_READY_MS;
		else if (!patience_ms)
			patience_ms = PATIENCE_MS;
	}
	return patience_ms;
}

static uint32_t timeline_thread_of(struct watched_thread *watched)
{
	struct findings *const found = &watched->process->found;
	if (watched->tally.timeline == TIMELINE_NONE)
		watched->tally.timeline = timeline_thread(
			&found->raw.timeline, &(struct profile_thread){.process = found->timeline,
								       .tid = watched->copy.tid});
	return watched->tally.timeline;
}

/* The name known best, for all its samples. */
static void name_thread(struct recorder *recorder, struct watched_thread *watched)
{
	struct process *const process = watched->process;
	const char *name = watched->tally.name ? watched->tally.name : watched->comm;
	/* A root for each of millions of threads is kept to the end. */
	if (!process->taker.options.names || name == watched->tally.shown_name)
		return;
	watched->tally.shown_name = name;
	watched->tally.root_frame = thread_roots_name(
		&process->found.roots, decoder_frames(process->decoder), recorder->strings,
		&watched->tally.root, watched->copy.tid, intern_text(recorder->strings, name));
	process->found.roots.roots[watched->tally.root].process = process->found.root;
	if (process->found.raw.timed) {
		const uint32_t thread = timeline_thread_of(watched);
		process->found.raw.timeline.threads[thread].name =
			intern_text(recorder->strings, name);
	}
	if (process->capture)
		capture_thread(process->capture, watched->copy.tid, name);
}

/* A clock reading as the timeline has it. */
static uint64_t since_start(const struct recorder *recorder, uint64_t time_ns)
{
	const uint64_t start_ns = recorder->span.start_ns;
	return time_ns > start_ns ? time_ns - start_ns : 0;
}

/* As many samples, the last one then. */
static void time_samples(struct watched_thread *watched, uint64_t count, uint64_t last_ns,
			 uint32_t flags)
{
	struct timeline *const timeline = &watched->process->found.raw.timeline;
	const uint64_t before_ns = (count - 1) * timeline->period_ns;
	const struct profile_sample run = {
		.time_ns = last_ns > before_ns ? last_ns - before_ns : 0,
		.node = watched->tally.last_node,
		.thread = timeline_thread_of(watched),
		.count = (uint32_t)count,
		.flags = flags,
	};
	timeline_add(timeline, &run);
}

static void time_sample(struct recorder *recorder, struct watched_thread *watched,
			const struct raw_sample *raw, const struct decoded *decoded, uint64_t count)
{
	const uint32_t thread = timeline_thread_of(watched);
	watched->process->found.raw.timeline.threads[thread].known_to_python |=
		decoded->known_to_python;
	if (count)
		time_samples(watched, count, since_start(recorder, raw->time_ns),
			     merge_sample_flags(raw, decoded));
}

/* Where the thread's last sample ended. */
static void count_last(struct recorder *recorder, const struct watched_thread *watched,
		       uint64_t samples)
{
	struct profile_counts *counts = &recorder->counted.counts;
	struct findings *found = &watched->process->found;
	if (samples == 0)
		return;
	counts->samples += samples;
	counts->native_samples += watched->tally.last_native ? samples : 0;
	if (watched->tally.last_leaf != NO_LEAF)
		leaves_add(&found->leaves, watched->tally.last_node, watched->tally.last_leaf,
			   samples);
	else
		profile_add_again(&found->raw, watched->tally.last_node, samples);
}

static void count_sample(struct recorder *recorder, struct watched_thread *watched,
			 const struct decoded *decoded, uint64_t count)
{
	struct profile_counts *counts = &recorder->counted.counts;
	struct findings *found = &watched->process->found;
	uint32_t *stack = decoded->stack;
	size_t roots = 0;
	counts->salvaged += decoded->salvaged ? count : 0;
	counts->truncated += decoded->truncated ? count : 0;
	counts->guessed += decoded->guessed ? count : 0;
	counts->contradictions += decoded->contradiction ? count : 0;
	if (recorder->options.by_thread)
		*(stack - ++roots) = watched->tally.root_frame;
	if (recorder->processes.rooted)
		*(stack - ++roots) = found->root;
	watched->tally.last_node =
		profile_add(&found->raw, stack - roots, decoded->stack_count + roots, 0);
	watched->tally.last_leaf = decoded->leaf;
	watched->tally.last_native = decoded->native_leaf;
	count_last(recorder, watched, count);
}

/* How many samples this one counts as. One was asked for: whatever it is, the sums agree. */
static uint64_t weight_of(struct recorder *recorder, struct watched_thread *watched)
{
	if (!recorder->options.cpu)
		return 1;
	const uint64_t periods = cpu_time_periods(&watched->tally, recorder->options.rate);
	recorder->counted.left_out += 1 - periods;
	recorder->counted.counts.squares += periods * periods;
	return periods;
}

static bool left_out(const struct recorder *recorder, const struct process *process,
		     const struct decoded *decoded)
{
	const struct session_options *options = &recorder->options;
	if (options->gil_only && !decoded->holds_gil)
		return true;
	return !decoded->known_to_python && python_is_open(process) &&
	       (!options->native || !options->native_threads);
}

/* `whole`: that holds as long as it sleeps on. */
static void note_last(struct watched_thread *watched, enum last_sample last, bool whole)
{
	atomic_store(&watched->copy.advice.last_bad, !whole);
	watched->tally.last = last;
}

/* What a thread that does not count has used does not, either. */
static void forget_left_out(struct watched_thread *watched)
{
	if (watched->tally.last == LAST_LEFT_OUT)
		watched->tally.owed_ns = 0;
}

/* Samples that are not kept, for the same reason. */
static void count_lost(struct recorder *recorder, enum last_sample reason, uint64_t samples)
{
	switch (reason) {
	case LAST_LEFT_OUT:
		recorder->counted.left_out += samples;
		break;
	case LAST_TORN:
		recorder->counted.counts.torn += samples;
		break;
	case LAST_GONE:
		recorder->counted.counts.gone += samples;
		break;
	case LAST_KEPT:
		break;
	}
}

/* What has no frames to show is a thread that runs no Python code, or the interpreter's start and
 * end; but if it ran on while it was read, its stack was not seen. */
static enum last_sample reason_of(const struct raw_sample *raw, enum decode_result result)
{
	const bool seen = raw->stopped || !raw->wait.running;
	return result == DECODE_EMPTY && seen ? LAST_LEFT_OUT : LAST_TORN;
}

static void decode_and_count(struct recorder *recorder, const struct raw_sample *raw,
			     struct watched_thread *watched)
{
	struct process *const process = watched->process;
	struct decoded decoded;
	if (raw->name[0])
		watched->tally.name = intern_text(recorder->strings, raw->name);
	watched->tally.owed_ns += raw->cpu_ns;
	merge_decode(process->decoder, raw, &decoded);
	if (raw->stopped && raw->pause_ns > 0) {
		pauses_add(&recorder->counted.pauses, raw->pause_ns, raw->allocations);
		recorder->counted.counts.stopped_ns += raw->pause_ns;
	}
	watched_thread_learn(watched, recorder->options.join, &decoded);
	/* Stopped, it will have a stack without a gap; but its system call may be interrupted. */
	const bool wants_stop =
		decoded.needs_register && !raw->stopped && recorder->options.stop == STOP_PTRACE;
	if (wants_stop)
		atomic_store(&watched->copy.advice.wants_stop, true);
	if (decoded.stale_join)
		atomic_store(&process->news.join_again, true);
	if (decoded.result != DECODE_OK) {
		note_last(watched, reason_of(raw, decoded.result), false);
		forget_left_out(watched);
		count_lost(recorder, watched->tally.last, 1);
		atomic_store(&process->news.forget_codes, true);
		return;
	}
	if (left_out(recorder, watched->process, &decoded)) {
		note_last(watched, LAST_LEFT_OUT, !wants_stop);
		forget_left_out(watched);
		count_lost(recorder, LAST_LEFT_OUT, 1);
		return;
	}
	note_last(watched, LAST_KEPT, !wants_stop);
	if (!watched->tally.seen)
		recorder->counted.counts.threads++;
	root_process(recorder, process);
	name_thread(recorder, watched);
	const uint64_t weight = weight_of(recorder, watched);
	watched->tally.seen = true;
	count_sample(recorder, watched, &decoded, weight);
	if (process->found.raw.timed)
		time_sample(recorder, watched, raw, &decoded, weight);
}

static void work_on(struct recorder *recorder, const struct queue_entry *entry)
{
	const struct raw_sample *raw = entry->raw;
	struct process *const process = entry->watched->process;
	worker_prepare(recorder, process);
	if (raw->epoch != process->worker_epoch) {
		note_last(entry->watched, LAST_GONE, false); /* of a program that is no more */
		count_lost(recorder, LAST_GONE, 1);
		return;
	}
	process->source.code = process_is_past(process) ? NULL : target_memory(process->target);
	decode_and_count(recorder, raw, entry->watched);
	/* Behind the modules and the thread's name that decoding it may have brought up. */
	if (process->capture) {
		capture_jit(process->capture, decoder_modules(process->decoder));
		capture_sample(process->capture, raw);
	}
}

/* The thread has not run since its last sample, if that was one. */
static void repeat(struct recorder *recorder, const struct watched_thread *watched, uint64_t ticks,
		   uint64_t last_ns)
{
	struct process *const process = watched->process;
	if (watched->tally.last != LAST_KEPT) {
		count_lost(recorder, watched->tally.last, ticks);
		return;
	}
	for (uint64_t i = ticks; i-- > 0 && process->capture;)
		capture_repeat(process->capture, watched->copy.tid,
			       last_ns - (uint64_t)((double)i * 1e9 / recorder->options.rate));
	if (recorder->options.cpu) { /* it has used nothing */
		count_lost(recorder, LAST_LEFT_OUT, ticks);
		return;
	}
	recorder->counted.counts.repeats += ticks;
	count_last(recorder, watched, ticks);
	if (process->found.raw.timed)
		timeline_repeat(&process->found.raw.timeline, watched->tally.timeline, ticks,
				since_start(recorder, last_ns));
}

static void settle_cpu_time(struct recorder *recorder, struct watched_thread *watched)
{
	struct thread_tally *const tally = &watched->tally;
	tally->owed_ns += watched->cpu_left_ns;
	watched->cpu_left_ns = 0;
	if (!tally->seen || tally->last == LAST_LEFT_OUT)
		return;
	const uint64_t periods = cpu_time_periods(tally, recorder->options.rate);
	if (periods == 0)
		return;
	recorder->counted.left_out -= periods;
	recorder->counted.counts.squares += periods * periods;
	count_last(recorder, watched, periods);
	if (watched->process->found.raw.timed)
		time_samples(watched, periods, since_start(recorder, recorder->span.end_ns), 0);
}

void worker_settle_cpu_time(struct recorder *recorder)
{
	pthread_mutex_lock(&recorder->lock);
	for (size_t p = 0; p < process_set_count(&recorder->processes); p++) {
		const struct watched_threads *threads = &recorder->processes.places[p]->threads;
		for (size_t i = 0; i < threads->gone_count; i++)
			settle_cpu_time(recorder, threads->gone[i]);
		for (size_t i = 0; i < threads->count; i++)
			settle_cpu_time(recorder, threads->threads[i]);
	}
	pthread_mutex_unlock(&recorder->lock);
}

static unsigned patience(unsigned unopened_ms, unsigned calm)
{
	return unopened_ms ? unopened_ms : calm < CALM_DRAINS ? PATIENCE_MS : PATIENCE_LATER_MS;
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
	int cpu = atomic_load(&recorder->place.cpu);
	if (*calm < CALM_DRAINS)
		placement_stay_on(placement, -1);
	else if (!atomic_load(&recorder->place.follows))
		placement_stay_on(placement, cpu);
	else if (!placement_stay_off(placement, cpu))
		placement_stay_on(placement, -1);
}

/* A process or program that has not been looked into at all. */
static bool has_untried(const struct process_set *set)
{
	for (size_t i = 0; i < process_set_count(set); i++) {
		const struct process *process = process_set_at(set, i, PROCESS_LIVE);
		if (process && (process->opened_ns == 0 || process_is_past(process)))
			return true;
	}
	return false;
}

/* Three quarters of the time it is not in a hurry, whatever is to be done. */
static void end_hurry(struct recorder *recorder)
{
	enum { RESTS = 3 };
	struct worker_hurry *hurry = &recorder->hurry;
	if (!atomic_load(&hurry->on)) {
		hurry->cpu_ns = clock_thread_cpu_ns();
		return;
	}
	const uint64_t used_ns = clock_thread_cpu_ns() - hurry->cpu_ns;
	if (used_ns < HURRY_NS && has_untried(&recorder->processes))
		return;
	placement_hurry(atomic_load(&hurry->tid), false);
	atomic_store(&hurry->rest_until_ns, clock_now_ns() + RESTS * used_ns);
	atomic_store(&hurry->on, false);
	hurry->cpu_ns += used_ns;
}

/* Of the entry's process before it is decoded, of the others now and then. */
static unsigned open_some(struct recorder *recorder, const struct queue_entry *entry,
			  unsigned unopened_ms, uint64_t *looked_ns)
{
	const uint64_t now = clock_now_ns();
	if (entry && !python_is_open(entry->watched->process))
		try_open(recorder, entry->watched->process, now);
	if (entry && now - *looked_ns < OPEN_NS)
		return unopened_ms;
	*looked_ns = now;
	return try_open_all(recorder, now);
}

void *recorder_work(void *argument)
{
	struct recorder *recorder = argument;
	struct placement placement;
	unsigned calm = 0;
	unsigned unopened_ms = PATIENCE_READY_MS;
	uint64_t looked_ns = 0;
	parser_thread_enter();
	placement_init(&placement);
	atomic_store(&recorder->hurry.tid, gettid());
	for (;;) {
		bool closed;
		size_t waiting;
		struct queue_entry entry;
		bool found = queue_pop(&recorder->queue, patience(unopened_ms, calm), &entry,
				       &waiting, &closed);
		if (closed)
			return NULL;
		follow_taker(recorder, waiting, &placement, &calm);
		pthread_mutex_lock(&recorder->lock);
		unopened_ms = open_some(recorder, found ? &entry : NULL, unopened_ms, &looked_ns);
		if (found && entry.raw)
			work_on(recorder, &entry);
		else if (found)
			repeat(recorder, entry.watched, entry.ticks, entry.last_ns);
		pthread_mutex_unlock(&recorder->lock);
		end_hurry(recorder);
		if (found)
			queue_done(&recorder->queue, &entry);
	}
}
