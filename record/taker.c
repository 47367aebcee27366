/* SPDX-License-Identifier: MIT */
/*
 * The taker: the only one that traces. At each tick it looks at every thread of the
 * target, takes those that count, and sleeps until the next tick or until a traced thread
 * reports a signal, which it passes on at once (among a thousand threads, within some milliseconds:
 * tracer.c). It works in a process of its own (base/guard.h): when that ends, the kernel detaches
 * all. Where a page of the target does not come, it is killed, and another one goes on without
 * that (taker_keeping.c). Whom it takes in is adoption.c's.
 * With a watcher instead of a tracer (--nonblocking) nothing is traced: the end of the target is
 * heard of, its exec is looked for.
 */
#include "record/taker.h"

#include <errno.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "copy/placement.h"
#include "target/tracer.h"

static const uint64_t JOIN_NS = 20000000;  /* between two looks for threads that nobody knows */
static const uint64_t WATCH_NS = 20000000; /* between two looks for exec ... */
static const uint64_t EXEC_NS = 2000000;   /* ... and before there is Python */
static const uint64_t QUIET_LOOK_NS = 1000000000; /* then its list of threads is read so often */

static void join_threads(struct process *process)
{
	struct taker *taker = &process->taker;
	struct error error;
	if (!taker->runtime)
		return;
	if (!join_refresh(&taker->join, taker->runtime, taker->target, &error))
		log_debug("join", "%s", error.message);
	threads_join(&process->threads, &taker->join);
}

/*
 * A thread's state is listed before it has the thread's own ids (the parent makes it): a thread
 * that nobody knows is looked up each JOIN_NS while it is young, then now and then.
 */
static bool has_unjoined(struct process *process)
{
	bool found = false;
	for (size_t i = 0; i < process->threads.count; i++) {
		struct watched_thread *watched = process->threads.threads[i];
		if (watched->gone || watched->copy.tstate_count > 0)
			continue;
		found |= watched->copy.unjoined_scans < YOUNG_SCANS ||
			 watched->copy.unjoined_scans % YOUNG_SCANS == 0;
		watched->copy.unjoined_scans++;
	}
	return found;
}

/* Another program runs now: the only thread left has the process's id. */
static void follow_exec(struct recorder *recorder, struct process *process)
{
	threads_forget(&process->threads);
	atomic_store(&process->news.epoch_from, recorder->queue.pushed);
	atomic_fetch_add(&process->news.epoch, 1);
	process->taker.runtime = NULL;
	process->taker.join.valid = false;
	process->tick.joined_ns = 0;
	process->tick.ran_ns = clock_now_ns();
}

/* ---- what becomes of their threads ---- */

/* What a tracer would hear of. */
static void watch(struct recorder *recorder, struct process *process)
{
	process->tick.watched_ns = clock_now_ns();
	switch (watcher_poll(process->watcher)) {
	case TRACER_NOTHING:
	case TRACER_THREAD_ENDED:
	case TRACER_CHILD:
		break;
	case TRACER_EXEC:
		follow_exec(recorder, process);
		break;
	case TRACER_PROCESS_ENDED:
		adoption_end(recorder, process);
		break;
	}
}

static bool watch_is_due(const struct process *process, uint64_t now)
{
	uint64_t interval = process->taker.runtime ? WATCH_NS : EXEC_NS;
	return process->watcher && now - process->tick.watched_ns > interval;
}

/* False: the process has ended, or may not be traced. */
static bool list_threads(struct recorder *recorder, struct process *process, uint64_t now)
{
	struct watched_threads *threads = &process->threads;
	struct error error;
	if (!threads_refresh(threads, process->target, &recorder->options, &error)) {
		if (error.kind == ERROR_SYSTEM)
			taker_report_failure(recorder, &error); /* of descriptors, of memory */
		else
			adoption_end(recorder, process);
		return false;
	}
	const bool listed = threads->looked_ns != process->tick.listed_ns;
	process->tick.listed_ns = threads->looked_ns;
	if (listed || now - process->tick.joined_ns > JOIN_NS) {
		process->tick.joined_ns = now;
		sampler_flush_ended(recorder, process);
		if (has_unjoined(process))
			join_threads(process);
	}
	if (!listed || process->watcher || adoption_seize_threads(recorder, process, &error))
		return true;
	adoption_refuse(recorder, process, &error);
	return false;
}

/* NULL: none that the worker has found in the program that runs now. */
static const struct python_runtime *runtime_of(const struct process *process)
{
	const struct python_runtime *runtime = atomic_load(&process->news.runtime);
	const bool current =
		atomic_load(&process->news.runtime_epoch) == atomic_load(&process->news.epoch);
	return current ? runtime : NULL;
}

/* The worker opened another interpreter (start, exec): nothing known of the old one holds. */
static void follow_runtime(struct process *process)
{
	struct taker *taker = &process->taker;
	const struct python_runtime *runtime = runtime_of(process);
	taker->main_stack_end = atomic_load(&process->news.main_stack_end);
	if (runtime == taker->runtime)
		return;
	taker->runtime = runtime;
	python_known_codes_free(taker->known);
	taker->known = python_known_codes_new();
	for (size_t i = 0; i < process->threads.count; i++) {
		process->threads.threads[i]->copy.tstate_count = 0;
		/* What a sleeping thread was last seen in was seen without this interpreter. */
		process->threads.threads[i]->copy.blocked = false;
		process->threads.threads[i]->copy.sampled.by = STILL_UNKNOWN;
	}
	join_threads(process);
}

static void follow_threads(struct recorder *recorder, struct process *process, uint64_t now)
{
	const struct taker *taker = &process->taker;
	if (watch_is_due(process, now))
		watch(recorder, process);
	if (!list_threads(recorder, process, now))
		return;
	follow_runtime(process);
	if (atomic_exchange(&process->news.forget_codes, false))
		python_known_codes_clear(taker->known);
	if (taker->runtime &&
	    (!taker->join.valid || atomic_exchange(&process->news.join_again, false)))
		join_threads(process);
	else if (taker->runtime && taker->join.method == JOIN_RBX)
		threads_join(&process->threads, &taker->join);
}

/* Threads are made, and states of them, by threads that run. */
static bool is_quiet(const struct process *process, uint64_t now)
{
	return now - process->tick.ran_ns > QUIET_NS &&
	       now - process->threads.looked_ns < QUIET_LOOK_NS &&
	       process->taker.runtime == runtime_of(process) &&
	       !atomic_load(&process->news.join_again);
}

static void follow_processes(struct recorder *recorder, uint64_t now)
{
	struct process_set *set = &recorder->processes;
	for (size_t i = 0; i < process_set_count(set) && !atomic_load(&recorder->stop); i++) {
		struct process *process = process_set_at(set, i, PROCESS_LIVE);
		if (process && !is_quiet(process, now))
			follow_threads(recorder, process, now);
		process = process_set_at(set, i, PROCESS_ENDED);
		if (process)
			sampler_flush_ended(recorder, process);
	}
	process_set_settle(set);
	if (set->live == 0)
		adoption_end_if_empty(recorder);
}

/* Numbers of threads are given once a namespace. */
static void forget(struct recorder *recorder, pid_t tid)
{
	struct process_set *set = &recorder->processes;
	tracer_forget(recorder->means.tracer, tid);
	for (size_t i = 0; i < process_set_count(set); i++) {
		struct process *process = process_set_at(set, i, PROCESS_LIVE);
		if (process && threads_find(&process->threads, tid))
			threads_end(&process->threads, tid);
	}
}

static void note_end(struct recorder *recorder, pid_t pid, int status)
{
	struct process *process = process_set_find(&recorder->processes, pid);
	if (pid == recorder->command.pid) {
		atomic_store(&recorder->ending.wait_status, status);
		atomic_store(&recorder->ending.has_wait_status, true);
	}
	if (process)
		adoption_end(recorder, process);
}

static void poll_events(struct recorder *recorder)
{
	struct process *process;
	pid_t tid;
	int status;
	for (;;) {
		switch (tracer_poll(recorder->means.tracer, &tid, &status)) {
		case TRACER_NOTHING:
			if (recorder->processes.live == 0)
				adoption_end_if_empty(recorder);
			return;
		case TRACER_THREAD_ENDED:
			forget(recorder, tid);
			break;
		case TRACER_CHILD:
			adoption_add_child(recorder, tid);
			break;
		case TRACER_EXEC:
			process = process_set_find(&recorder->processes, tid);
			if (process)
				follow_exec(recorder, process);
			taker_call_worker(recorder);
			break;
		case TRACER_PROCESS_ENDED:
			note_end(recorder, tid, status);
			break;
		}
	}
}

static void sleep_until(struct recorder *recorder, uint64_t deadline)
{
	struct process *watched = recorder->processes.places[0];
	guard_rest_until(deadline);
	if (watched->watcher) {
		while (!atomic_load(&recorder->stop) && watcher_sleep(watched->watcher, deadline))
			watch(recorder, watched);
		return;
	}
	uint64_t following = schedule_following(&recorder->schedule);
	while (!atomic_load(&recorder->stop) &&
	       tracer_sleep(recorder->means.tracer, deadline, following))
		poll_events(recorder);
	if (atomic_load(&recorder->stop))
		poll_events(recorder);
}

/* ---- ticks ---- */

/* Ticks whose time has passed: the next one sees what the threads did then. */
static void skip_ticks(struct recorder *recorder, uint64_t now)
{
	uint64_t first_ns;
	const uint64_t ticks = schedule_skip(&recorder->schedule, now, &first_ns);
	if (ticks)
		sampler_miss(recorder, first_ns, ticks);
}

static void tick(struct recorder *recorder, uint64_t deadline)
{
	struct cpu_holder *holder = &recorder->means.holder;
	uint64_t now = clock_now_ns();
	skip_ticks(recorder, now);
	recorder->means.next_ns = schedule_following(&recorder->schedule);
	cpu_holder_begin(holder, now, deadline, recorder->schedule.period_ns,
			 sampler_looks_ns(recorder));
	atomic_store(&recorder->queue.taking, cpu_holder_follows(holder));
	atomic_store(&recorder->place.cpu, clock_cpu());
	adoption_look(recorder, now);
	follow_processes(recorder, now);
	sampler_tick(recorder, now);
	atomic_store(&recorder->place.follows, cpu_holder_follows(holder));
	atomic_fetch_add(&recorder->taken.ticks, 1);
	atomic_store(&recorder->queue.taking, false);
	now = clock_now_ns();
	cpu_holder_end(holder, now);
	recorder->rest_until_ns = placement_rest_until(&recorder->means.promptness, now);
}

static uint64_t next_deadline(struct recorder *recorder)
{
	uint64_t now = clock_now_ns(), late = 0;
	if (now < recorder->rest_until_ns)
		now = recorder->rest_until_ns;
	skip_ticks(recorder, now);
	return schedule_next(&recorder->schedule, now, &late);
}

static void await_and_tick(struct recorder *recorder)
{
	const uint64_t deadline = next_deadline(recorder);
	sleep_until(recorder, deadline);
	if (schedule_is_over(&recorder->schedule, deadline))
		return;
	if (!atomic_load(&recorder->stop))
		tick(recorder, deadline);
	else if (clock_now_ns() >= deadline)
		sampler_miss(recorder, deadline, 1);
}

/* The time counts from now on. */
static void start_clock(struct recorder *recorder)
{
	const struct session_options *options = &recorder->options;
	recorder->span.start_ns = clock_now_ns();
	schedule_init(&recorder->schedule, options->rate, recorder->span.start_ns);
	if (options->duration > 0)
		schedule_end_after(&recorder->schedule, (uint64_t)(options->duration * 1e9));
}

static bool release_command(struct recorder *recorder, struct error *error)
{
	return recorder->command.release_fd < 0 ||
	       write(recorder->command.release_fd, "x", 1) == 1 ||
	       error_set_errno(error, errno, "cannot let the command begin");
}

/* ---- the beginning ---- */

static void start_tracing(struct recorder *recorder)
{
	if (!recorder->options.nonblocking)
		recorder->means.tracer = tracer_new(recorder->processes.places[0]->target);
	if (recorder->options.subprocesses)
		tracer_follow_children(recorder->means.tracer);
}

static bool seize_given(struct recorder *recorder, pid_t *failed, struct error *error)
{
	const struct process_set *set = &recorder->processes;
	for (size_t i = 0; i < process_set_count(set); i++) {
		*failed = target_pid(set->places[i]->target);
		if (adoption_seize(recorder, set->places[i], error))
			continue;
		if (!set->cgroup)
			return false;
		adoption_refuse(recorder, set->places[i], error);
	}
	return true;
}

static bool begin(struct recorder *recorder)
{
	struct error error;
	pid_t failed = 0;
	start_tracing(recorder);
	bool well = seize_given(recorder, &failed, &error);
	if (well && recorder->options.subprocesses && !recorder->command.pid)
		adoption_take_trees(recorder);
	/* Of a cgroup: then the error is that of the first one. */
	well = well && recorder->processes.live > 0;
	start_clock(recorder);
	well = well && release_command(recorder, &error);
	taker_report_start(recorder, well, failed, &error);
	return well;
}

void taker_release(struct copy_means *means)
{
	cpu_holder_release(&means->holder);
	copier_free(means->copier);
	tracer_free(means->tracer);
	means->copier = NULL;
	means->tracer = NULL;
}

static void let_go(struct recorder *recorder)
{
	for (size_t i = 0; i < process_set_count(&recorder->processes); i++) {
		const struct watched_threads *threads = &recorder->processes.places[i]->threads;
		for (size_t k = 0; k < threads->count; k++)
			copy_state_end(&threads->threads[k]->copy);
	}
	taker_release(&recorder->means);
}

/* After another one was killed: nothing is traced any more. */
static bool go_on(struct recorder *recorder)
{
	const struct process_set *set = &recorder->processes;
	struct error error;
	start_tracing(recorder);
	for (size_t i = 0; i < process_set_count(set); i++) {
		struct process *process = process_set_at(set, i, PROCESS_LIVE);
		if (!process)
			continue;
		process->tick.listed_ns = 0;
		if (process->watcher || adoption_seize(recorder, process, &error))
			continue;
		if (error.kind == ERROR_GONE)
			adoption_end(recorder, process);
		else
			adoption_refuse(recorder, process, &error);
	}
	if (recorder->options.subprocesses)
		adoption_take_trees(recorder); /* what was born meanwhile */
	return !atomic_load(&recorder->stop);
}

void taker_take(void *argument)
{
	struct recorder *recorder = argument;
	const struct process *first = recorder->processes.places[0];
	const struct session_options *options = &recorder->options;
	struct copy_means *const means = &recorder->means;
	prctl(PR_SET_NAME, "precord taker");
	placement_run_soon(&means->promptness);
	recorder->place.tid = gettid();
	cpu_holder_init(&means->holder, first->target,
			!options->nonblocking && options->stop != STOP_PTRACE &&
				options->unwinder != UNWINDER_PTRACE);
	if (means->holder.wanted)
		copies_init(means, &first->taker.options);
	if (recorder->start.done ? go_on(recorder) : begin(recorder)) {
		while (!atomic_load(&recorder->stop))
			await_and_tick(recorder);
		next_deadline(recorder); /* those that passed during the last tick */
		sampler_finish(recorder);
	}
	let_go(recorder);
}
