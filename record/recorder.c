/* SPDX-License-Identifier: MIT */
/* A recording from start to profile: the two threads, and what comes of their work. */
#include "record/recording.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/parser_thread.h"
#include "base/reserve.h"
#include "copy/placement.h"

static struct recorder *allocate(const struct session_options *options, struct interner *strings)
{
	struct recorder *recorder = alloc_zeroed(1, sizeof(*recorder));
	recorder->decoding = (struct decode_options){
		.native = options->native,
		.internals = options->internals,
		.rbx = options->join == JOIN_RBX,
		.marks_idle = true,
		.packs_leaf = !options->timed, /* a time belongs to a node */
		.reuses = true,
	};
	memcpy((void *)(uintptr_t)&recorder->options, options, sizeof(*options));
	recorder->strings = strings;
	pthread_mutex_init(&recorder->lock, NULL);
	pthread_mutex_init(&recorder->start.lock, NULL);
	pthread_cond_init(&recorder->start.answered, NULL);
	guard_init(&recorder->keeping.guard);
	queue_init(&recorder->queue);
	process_set_init(&recorder->processes);
	recorder->front_pid = getppid();
	return recorder;
}

/* Attaching to a process: it must be Python by now, unless native stacks are asked for, or it may
 * have children that are. */
static bool open_process(struct recorder *recorder, struct process *process, struct error *error)
{
	if (worker_open(recorder, process, error))
		return true;
	switch (error->kind) {
	case ERROR_TORN: /* starting up: the worker will find it ... */
	case ERROR_BUSY: /* ... once it is there */
		return true;
	case ERROR_ABSENT:
	case ERROR_UNSUPPORTED:
		if (recorder->options.python_only)
			return true;
		if (recorder->options.native) {
			log_warning("%s; native stacks only", error->message);
			return true;
		}
		error->kind = ERROR_UNSUPPORTED;
		return false;
	case ERROR_GONE: /* the others of its cgroup are there */
		return recorder->processes.cgroup != NULL;
	default:
		return false;
	}
}

/* The first that can be opened is the one that the recording is said to be of; the taker finds the
 * others. Why one that is there could not says more than that others have ended. */
static bool open_grouped(struct recorder *recorder, const struct recorder_targets *targets,
			 pid_t *failed, struct error *error)
{
	const struct process_making making = {&recorder->options, &recorder->means};
	struct process *process;
	struct error first = {.kind = ERROR_NONE};
	pid_t refused = 0;
	for (size_t i = 0; i < targets->count; i++) {
		*failed = targets->pids[i];
		if (process_set_add(&recorder->processes, *failed, &making, &process, error)) {
			process->given = true;
			return true;
		}
		if (error->kind != ERROR_GONE && !refused) {
			first = *error;
			refused = *failed;
		}
	}
	if (refused) {
		*error = first;
		*failed = refused;
	}
	return false;
}

/* Those that were given; a command has executed nothing yet. */
static bool open_given(struct recorder *recorder, const struct recorder_targets *targets,
		       pid_t *failed, struct error *error)
{
	const struct process_making making = {&recorder->options, &recorder->means};
	struct process *process;
	if (targets->cgroup)
		return open_grouped(recorder, targets, failed, error);
	for (size_t i = 0; i < targets->count; i++) {
		*failed = targets->pids[i];
		if (!process_set_add(&recorder->processes, targets->pids[i], &making, &process,
				     error))
			return false;
		process->given = true;
	}
	return true;
}

static bool open_here(struct recorder *recorder, pid_t *failed, struct error *error)
{
	for (size_t i = 0; i < process_set_count(&recorder->processes); i++) {
		struct process *process = recorder->processes.places[i];
		*failed = target_pid(process->target);
		if (!open_process(recorder, process, error))
			return false;
	}
	return true;
}

/* What parses, for main. */
struct parsing {
	struct recorder *recorder;
	pid_t *failed;
	struct profile *profile;
	struct error *error;
	bool well;
};

static void open_them(void *context)
{
	struct parsing *parsing = context;
	parsing->well = open_here(parsing->recorder, parsing->failed, parsing->error);
}

static bool open_pythons(struct recorder *recorder, pid_t *failed, struct error *error)
{
	struct parsing parsing = {.recorder = recorder, .failed = failed, .error = error};
	parser_thread_run(open_them, &parsing);
	return parsing.well;
}

static bool start_taker(struct recorder *recorder, pid_t *failed, struct error *error)
{
	recorder->span.start_ns = clock_now_ns();
	int failure = pthread_create(&recorder->threads.taker, NULL, recorder_take, recorder);
	if (failure)
		return error_set_errno(error, failure, "cannot start a thread");
	pthread_setname_np(recorder->threads.taker, "precord guard");
	recorder->threads.taker_started = true;
	pthread_mutex_lock(&recorder->start.lock);
	while (!recorder->start.done)
		pthread_cond_wait(&recorder->start.answered, &recorder->start.lock);
	const bool well = !recorder->start.failed;
	if (!well) {
		*error = recorder->start.error;
		*failed = recorder->start.process;
	}
	pthread_mutex_unlock(&recorder->start.lock);
	return well;
}

static bool start_worker(struct recorder *recorder, struct error *error)
{
	int failure = pthread_create(&recorder->threads.worker, NULL, recorder_work, recorder);
	if (failure)
		return error_set_errno(error, failure, "cannot start a thread");
	pthread_setname_np(recorder->threads.worker, "precord worker");
	recorder->threads.worker_started = true;
	return true;
}

/* By which main hears of the end. */
static bool make_event_fd(struct recorder *recorder, struct error *error)
{
	recorder->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return recorder->event_fd >= 0 ||
	       error_set_errno(error, errno, "cannot make an event descriptor");
}

static const char *mode_name(const struct session_options *options)
{
	return options->gil_only ? "gil"
	       : options->cpu	 ? "cpu"
	       : options->wall	 ? "wall"
				 : "running";
}

static bool start_capture(struct recorder *recorder, struct error *error)
{
	struct capture *capture;
	if (!recorder->options.capture)
		return true;
	const struct capture_pace pace = {(uint64_t)(1e9 / recorder->options.rate),
					  mode_name(&recorder->options)};
	if (!capture_open(recorder->options.capture, &pace, &capture, error))
		return false;
	process_set_capture(recorder->processes.places[0], capture);
	return true;
}

/* From any of our threads. What was recorded is written with the reserve. */
enum { RESERVE = 64 << 20 };
static void end_early(void *context)
{
	struct recorder *recorder = context;
	const uint64_t one = 1;
	atomic_store(&recorder->ending.out_of_memory, true);
	atomic_store(&recorder->stop, true);
	(void)!write(recorder->event_fd, &one, sizeof(one));
}

static uint64_t real_time_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool recorder_start(const struct recorder_targets *targets, const struct session_options *options,
		    struct interner *strings, struct recorder **result, pid_t *failed,
		    struct error *error)
{
	struct recorder *recorder = allocate(options, strings);
	const bool command = targets->release_fd >= 0;
	reserve_keep(RESERVE, end_early, recorder);
	recorder->processes.cgroup = targets->cgroup;
	recorder->processes.rooted = options->subprocesses || targets->count > 1;
	recorder->command =
		(struct recorded_command){command ? targets->pids[0] : 0, targets->release_fd};
	recorder->span.start_time_ns = real_time_ns();
	recorder->place.cpu = -1;
	recorder->processes.asked_tick = 1; /* before the first tick */
	const bool well = make_event_fd(recorder, error) &&
			  open_given(recorder, targets, failed, error) &&
			  start_capture(recorder, error) &&
			  (command || open_pythons(recorder, failed, error)) &&
			  start_worker(recorder, error) && start_taker(recorder, failed, error);
	if (!well) {
		recorder_free(recorder);
		return false;
	}
	*result = recorder;
	return true;
}

int recorder_event_fd(const struct recorder *recorder)
{
	return recorder->event_fd;
}

struct foreign_root recorder_files(const struct recorder *recorder)
{
	return target_files(recorder->processes.places[0]->target);
}

static void gather_counts(struct recorder *recorder, struct profile_counts *counts)
{
	*counts = recorder->counted.counts;
	counts->ticks = atomic_load(&recorder->taken.ticks);
	counts->late_ticks = atomic_load(&recorder->taken.late_ticks);
	counts->asked = atomic_load(&recorder->taken.asked) - recorder->counted.left_out;
	counts->late += atomic_load(&recorder->taken.late);
	counts->gone += atomic_load(&recorder->taken.gone);
	counts->torn += atomic_load(&recorder->taken.torn);
	counts->uninterruptible += atomic_load(&recorder->taken.uninterruptible);
	counts->dropped += atomic_load(&recorder->taken.dropped);
	uint64_t end = recorder->span.end_ns ? recorder->span.end_ns : clock_now_ns();
	counts->elapsed_ns = end - recorder->span.start_ns;
}

void recorder_status(const struct recorder *constant, struct recorder_status *status)
{
	struct recorder *recorder = (struct recorder *)(uintptr_t)constant; /* its locks */
	memset(status, 0, sizeof(*status));
	pthread_mutex_lock(&recorder->lock);
	gather_counts(recorder, &status->counts);
	status->processes = recorder->counted.processes;
	pthread_mutex_unlock(&recorder->lock);
	status->ended = atomic_load(&recorder->ending.ended);
	status->has_wait_status = atomic_load(&recorder->ending.has_wait_status);
	status->wait_status = atomic_load(&recorder->ending.wait_status);
	status->withheld = false;
	for (size_t i = 0; i < process_set_count(&recorder->processes); i++)
		status->withheld |=
			target_withheld_reads(recorder->processes.places[i]->target) > 0;
	status->never_stopped = atomic_load(&recorder->taken.never_stopped) > 0;
	status->failed = atomic_load(&recorder->ending.failed);
	status->python_found = atomic_load(&recorder->processes.python_found);
	status->unread = atomic_load(&recorder->processes.unread);
}

static const char *host_name(struct interner *strings)
{
	char name[HOST_NAME_MAX + 1] = "";
	if (gethostname(name, sizeof(name) - 1) != 0 || !name[0])
		return NULL;
	return intern_text(strings, name);
}

/* Of the first process; where that is no Python, of another one that is. */
static const char *python_version(struct recorder *recorder)
{
	const struct python_runtime *runtime = NULL;
	for (size_t i = 0; !runtime && i < process_set_count(&recorder->processes); i++) {
		const struct process *process = recorder->processes.places[i];
		runtime = process->decoder ? decoder_runtime(process->decoder) : NULL;
	}
	return runtime ? intern_text(recorder->strings, python_runtime_version(runtime)) : NULL;
}

static void describe(struct recorder *recorder, struct profile *profile)
{
	const struct target *first = recorder->processes.places[0]->target;
	gather_counts(recorder, &profile->counts);
	profile->command_line = intern_text(recorder->strings, target_command_line(first));
	profile->python_version = python_version(recorder);
	profile->mode = mode_name(&recorder->options);
	profile->event = "clock";
	profile->host = host_name(recorder->strings);
	profile->version = VERSION;
	profile->pid = target_pid(first);
	profile->rate = recorder->options.rate;
	profile->start_time_ns = recorder->span.start_time_ns;
	profile->native = recorder->options.native;
}

/*
 * In mid-recording (SIGUSR1) a forked process names, or this one where that cannot be had: without
 * debug files from servers. All is named anew when sampling is over.
 */
static void need_resolver(struct recorder *recorder, struct process *process)
{
	struct findings *found = &process->found;
	const bool fetching = recorder->options.fetch && !recorder->threads.taker_started;
	if (found->resolver && found->fetching == fetching)
		return;
	resolver_free(found->resolver);
	found->resolver =
		resolver_new(process->target, recorder->strings, recorder->options.internals);
	found->fetching = fetching;
	if (fetching)
		resolver_set_fetch(found->resolver, recorder->options.fetch);
}

pid_t recorder_fork(struct recorder *recorder)
{
	const struct process_set *set = &recorder->processes;
	pthread_mutex_lock(&recorder->lock);
	pthread_mutex_lock(&recorder->processes.lock);
	/* Whose files may be read: the child may not ask. */
	for (size_t i = 0; i < process_set_count(set); i++)
		(void)target_user(set->places[i]->target);
	pid_t pid = fork();
	if (pid == 0 && recorder->threads.taker_started)
		recorder->span.end_ns = clock_now_ns();
	pthread_mutex_unlock(&recorder->processes.lock);
	pthread_mutex_unlock(&recorder->lock);
	return pid;
}

/* What was sampled in one place. */
static void make_part(struct recorder *recorder, struct process *process, struct profile *part)
{
	struct findings *found = &process->found;
	struct frame_table *frames = decoder_frames(process->decoder);
	need_resolver(recorder, process);
	leaves_settle(&found->leaves, frames, decoder_modules(process->decoder), &found->raw);
	thread_roots_show(&found->roots, frames, recorder->strings, recorder->options.by_thread);
	resolver_run(found->resolver, frames);
	profile_init(part, recorder->strings);
	part->rate = recorder->options.rate;
	resolver_profile(found->resolver, frames, &found->raw, part);
	part->debug_problems = resolver_problems(found->resolver);
}

static bool join_parts(struct profile *parts, size_t count, struct profile *profile,
		       struct error *error)
{
	const char *problems = NULL;
	for (size_t i = count; i-- > 0;)
		problems = parts[i].debug_problems ? parts[i].debug_problems : problems;
	if (count == 1) {
		*profile = parts[0];
		return true;
	}
	const bool well = profile_merge(profile, parts, count, error);
	for (size_t i = 0; i < count; i++)
		profile_release(&parts[i]);
	profile->debug_problems = problems;
	return well;
}

static bool make_profile(struct recorder *recorder, struct profile *profile, struct error *error)
{
	const struct process_set *set = &recorder->processes;
	size_t count = 0;
	pthread_mutex_lock(&recorder->lock);
	pthread_mutex_lock(&recorder->processes.lock);
	struct profile *parts = alloc_zeroed(process_set_count(set) + 1, sizeof(*parts));
	for (size_t i = 0; i < process_set_count(set); i++) {
		struct process *process = set->places[i];
		worker_prepare(recorder, process);
		if (count == 0 || process->found.raw.node_count > 1)
			make_part(recorder, process, &parts[count++]);
	}
	const bool well = join_parts(parts, count, profile, error);
	if (well)
		describe(recorder, profile);
	free(parts);
	pthread_mutex_unlock(&recorder->processes.lock);
	pthread_mutex_unlock(&recorder->lock);
	return well;
}

static void make_it(void *context)
{
	struct parsing *parsing = context;
	parsing->well = make_profile(parsing->recorder, parsing->profile, parsing->error);
}

bool recorder_profile(struct recorder *recorder, struct profile *profile, struct error *error)
{
	struct parsing parsing = {.recorder = recorder, .profile = profile, .error = error};
	parser_thread_run(make_it, &parsing);
	return parsing.well;
}

static void stop_sampling(struct recorder *recorder)
{
	const struct process_set *set = &recorder->processes;
	atomic_store(&recorder->stop, true);
	if (recorder->threads.taker_started) {
		/* A real-time thread may keep it from its CPU for ever. */
		placement_let_go(recorder->place.tid);
		/* Wakes it: one that sleeps until the next tick of 0.1 Hz must not. */
		guard_wake(&recorder->keeping.guard);
		if (set->places[0]->watcher)
			watcher_wake(set->places[0]->watcher);
		pthread_join(recorder->threads.taker, NULL);
		/* What the worker still has to do is not a part of it. */
		recorder->span.end_ns = clock_now_ns();
	}
	recorder->threads.taker_started = false;
	for (size_t i = 0; i < process_set_count(set); i++)
		atomic_store(&set->places[i]->ending, true);
}

/* Of the first process. */
static void close_capture(void *context)
{
	struct parsing *closing = context;
	struct process *first = closing->recorder->processes.places[0];
	struct capture *capture = first->capture;
	stated_names_note(decoder_modules(first->decoder), first->target,
			  closing->recorder->strings);
	process_set_capture(first, NULL);
	closing->well = capture_close(capture, closing->error);
}

bool recorder_stop(struct recorder *recorder, struct error *error)
{
	stop_sampling(recorder);
	queue_close(&recorder->queue);
	if (recorder->threads.worker_started)
		pthread_join(recorder->threads.worker, NULL);
	if (recorder->threads.worker_started && recorder->options.cpu)
		worker_settle_cpu_time(recorder);
	recorder->threads.worker_started = false;
	struct process *first =
		process_set_count(&recorder->processes) ? recorder->processes.places[0] : NULL;
	struct capture *capture = first ? first->capture : NULL;
	struct parsing closing = {.recorder = recorder, .error = error, .well = true};
	if (capture)
		parser_thread_run(close_capture, &closing);
	if (!closing.well)
		return false;
	const bool failed = atomic_load(&recorder->ending.failed);
	const bool out = atomic_exchange(&recorder->ending.out_of_memory, false);
	/* It may be a library that was refused it first, such as libc for a folder. */
	if (failed ? recorder->ending.error.os_errno == ENOMEM : out)
		return error_set(error, ERROR_SYSTEM, "out of memory: the recording ends early");
	if (!failed)
		return true;
	if (error)
		*error = recorder->ending.error;
	return false;
}

void recorder_free(struct recorder *recorder)
{
	if (!recorder)
		return;
	struct error ignored;
	reserve_keep(0, NULL, NULL);
	if (!recorder_stop(recorder, &ignored))
		log_debug("sample", "%s", ignored.message);
	queue_release(&recorder->queue);
	process_set_release(&recorder->processes);
	close(recorder->event_fd);
	pthread_mutex_destroy(&recorder->lock);
	pthread_mutex_destroy(&recorder->start.lock);
	pthread_cond_destroy(&recorder->start.answered);
	guard_release(&recorder->keeping.guard);
	free(recorder);
}

void recorder_log_pauses(const struct recorder *recorder)
{
	const struct pauses *pauses = &recorder->counted.pauses;
	const struct copy_means *means = &recorder->means;
	log_debug("pause",
		  "n=%llu p50=%.1fus p90=%.1fus p99=%.1fus max=%.1fus allocating=%llu held=%llu "
		  "lost=%llu copied=%llu interrupted=%llu missed=%llu left=%llu stopped=%llu",
		  (unsigned long long)pauses->count, pauses_percentile_us(pauses, 0.5),
		  pauses_percentile_us(pauses, 0.9), pauses_percentile_us(pauses, 0.99),
		  (double)pauses->max_ns / 1000, (unsigned long long)pauses->allocating,
		  (unsigned long long)means->holder.held, (unsigned long long)means->holder.lost,
		  (unsigned long long)means->copied, (unsigned long long)means->interrupted,
		  (unsigned long long)means->missed, (unsigned long long)means->holder.left,
		  (unsigned long long)means->stopped);
}
