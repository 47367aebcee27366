/* SPDX-License-Identifier: MIT */
/* A recording from start to profile: the two threads, and what comes of their work. */
#include "sample/recording.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "sample/placement.h"

static struct recorder *allocate(struct target *target, const struct session_options *options,
				 struct interner *strings)
{
	struct recorder *recorder = alloc_zeroed(1, sizeof(*recorder));
	memcpy((void *)(uintptr_t)&recorder->options, options, sizeof(*options));
	recorder->target = target;
	recorder->strings = strings;
	recorder->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&recorder->lock, NULL);
	pthread_mutex_init(&recorder->start_lock, NULL);
	pthread_cond_init(&recorder->started, NULL);
	queue_init(&recorder->queue);
	slots_init(&recorder->slots);
	decoder_init(&recorder->decoder, target, &recorder->options, strings);
	recorder->decoder.mark_idle = true;
	recorder->decoder.recalling = true;
	recorder->decoder.packs_leaf = true;
	profile_init(&recorder->raw, strings);
	recorder->taker.target = target;
	recorder->taker.options = &recorder->options;
	recorder->taker.known = python_known_codes_new();
	join_init(&recorder->taker.join, options->join);
	if (options->nonblocking)
		recorder->taker.unstopped = unstopped_new();
	/* A stack that changes at every look is worth no more than the tick it belongs to. */
	recorder->taker.patience = (struct patience){.tries = 4, .for_whole = 1, .ns = 20000000};
	return recorder;
}

/* Attaching to a process: it must be Python by now, unless native stacks are asked for. */
static bool open_process(struct recorder *recorder, struct error *error)
{
	if (worker_open(recorder, error))
		return true;
	switch (error->kind) {
	case ERROR_TORN: /* starting up: the worker will find it */
		return true;
	case ERROR_ABSENT:
	case ERROR_UNSUPPORTED:
		if (recorder->options.native) {
			log_warning("%s; native stacks only", error->message);
			return true;
		}
		error->kind = ERROR_UNSUPPORTED;
		return false;
	default:
		return false;
	}
}

static bool start_taker(struct recorder *recorder, struct error *error)
{
	recorder->start_ns = clock_now_ns();
	int failure = pthread_create(&recorder->taker_thread, NULL, recorder_take, recorder);
	if (failure)
		return error_set_errno(error, failure, "cannot start a thread");
	pthread_setname_np(recorder->taker_thread, "precord taker");
	recorder->taker_started = true;
	pthread_mutex_lock(&recorder->start_lock);
	while (!recorder->start_done)
		pthread_cond_wait(&recorder->started, &recorder->start_lock);
	bool failed = recorder->start_failed;
	if (failed)
		*error = recorder->start_error;
	pthread_mutex_unlock(&recorder->start_lock);
	return !failed;
}

static bool start_worker(struct recorder *recorder, struct error *error)
{
	int failure = pthread_create(&recorder->worker_thread, NULL, recorder_work, recorder);
	if (failure)
		return error_set_errno(error, failure, "cannot start a thread");
	pthread_setname_np(recorder->worker_thread, "precord worker");
	recorder->worker_started = true;
	return true;
}

bool recorder_start(pid_t pid, const struct session_options *options, struct interner *strings,
		    int release_fd, struct recorder **result, struct error *error)
{
	struct target *target;
	if (!target_open(pid, &target, error))
		return false;
	struct recorder *recorder = allocate(target, options, strings);
	recorder->release_fd = release_fd;
	recorder->start_time = time(NULL);
	recorder->taker_cpu = -1;
	bool well = !options->capture || capture_open(options->capture, &recorder->capture, error);
	recorder->decoder.capture = recorder->capture;
	if (release_fd < 0)
		well = well && open_process(recorder, error);
	well = well && start_worker(recorder, error) && start_taker(recorder, error);
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

static void gather_counts(struct recorder *recorder, struct profile_counts *counts)
{
	*counts = recorder->counts;
	counts->ticks = atomic_load(&recorder->ticks);
	counts->late += atomic_load(&recorder->late);
	counts->gone += atomic_load(&recorder->gone);
	counts->torn += atomic_load(&recorder->torn);
	counts->uninterruptible += atomic_load(&recorder->uninterruptible);
	counts->dropped += atomic_load(&recorder->dropped);
	uint64_t end = recorder->end_ns ? recorder->end_ns : clock_now_ns();
	counts->elapsed_ns = end - recorder->start_ns;
}

void recorder_status(const struct recorder *constant, struct recorder_status *status)
{
	struct recorder *recorder = (struct recorder *)(uintptr_t)constant; /* its locks */
	memset(status, 0, sizeof(*status));
	pthread_mutex_lock(&recorder->lock);
	gather_counts(recorder, &status->counts);
	pthread_mutex_unlock(&recorder->lock);
	status->ended = atomic_load(&recorder->ended);
	status->has_wait_status = atomic_load(&recorder->has_wait_status);
	status->wait_status = atomic_load(&recorder->wait_status);
	status->failed = atomic_load(&recorder->failed);
	status->python_found = atomic_load(&recorder->runtime) != NULL;
}

static void describe(struct recorder *recorder, struct profile *profile)
{
	const struct python_runtime *runtime = decoder_runtime(&recorder->decoder);
	gather_counts(recorder, &profile->counts);
	profile->command_line =
		intern_text(recorder->strings, target_command_line(recorder->target));
	profile->python_version =
		runtime ? intern_text(recorder->strings, python_runtime_version(runtime)) : NULL;
	profile->mode = recorder->options.gil_only ? "gil"
			: recorder->options.wall   ? "wall"
						   : "running";
	profile->pid = target_pid(recorder->target);
	profile->rate = recorder->options.rate;
	profile->start_time = (uint64_t)recorder->start_time;
	profile->native = recorder->options.native;
}

/*
 * In mid-recording (SIGUSR1) a forked process names, or this one where that cannot be had: without
 * debug files from servers. All is named anew when sampling is over.
 */
static void need_resolver(struct recorder *recorder)
{
	const bool fetching = recorder->options.fetch && !recorder->taker_started;
	if (recorder->resolver && recorder->fetching == fetching)
		return;
	resolver_free(recorder->resolver);
	recorder->resolver =
		resolver_new(recorder->target, recorder->strings, recorder->options.internals);
	recorder->fetching = fetching;
	if (fetching)
		resolver_set_fetch(recorder->resolver, recorder->options.fetch);
}

pid_t recorder_fork(struct recorder *recorder)
{
	pthread_mutex_lock(&recorder->lock);
	pid_t pid = fork();
	if (pid == 0)
		recorder->end_ns = clock_now_ns();
	pthread_mutex_unlock(&recorder->lock);
	return pid;
}

bool recorder_profile(struct recorder *recorder, struct profile *profile, struct error *error)
{
	(void)error;
	pthread_mutex_lock(&recorder->lock);
	need_resolver(recorder);
	leaves_settle(&recorder->leaves, &recorder->decoder.frames, &recorder->decoder.modules,
		      &recorder->raw);
	resolver_run(recorder->resolver, &recorder->decoder.frames, recorder->decoder.unwinder);
	profile_init(profile, recorder->strings);
	resolver_profile(recorder->resolver, &recorder->decoder.frames, &recorder->raw, profile);
	describe(recorder, profile);
	profile->debug_problems = resolver_problems(recorder->resolver);
	pthread_mutex_unlock(&recorder->lock);
	return true;
}

bool recorder_stop(struct recorder *recorder, struct error *error)
{
	atomic_store(&recorder->stop, true);
	if (recorder->taker_started) {
		/* A real-time thread may keep it from its CPU for ever. */
		placement_let_go(recorder->taker_tid);
		/* Wakes it: a thread that sleeps until the next tick of 0.1 Hz must not. */
		pthread_kill(recorder->taker_thread, SIGCHLD);
		if (recorder->watcher)
			watcher_wake(recorder->watcher);
		pthread_join(recorder->taker_thread, NULL);
		/* What the worker still has to do is not a part of it. */
		recorder->end_ns = clock_now_ns();
	}
	recorder->taker_started = false;
	queue_close(&recorder->queue);
	if (recorder->worker_started)
		pthread_join(recorder->worker_thread, NULL);
	recorder->worker_started = false;
	struct capture *capture = recorder->capture;
	recorder->capture = recorder->decoder.capture = NULL;
	if (capture && !capture_close(capture, error))
		return false;
	if (!atomic_load(&recorder->failed))
		return true;
	if (error)
		*error = recorder->error;
	return false;
}

void recorder_free(struct recorder *recorder)
{
	if (!recorder)
		return;
	struct error ignored;
	if (!recorder_stop(recorder, &ignored))
		log_debug("sample", "%s", ignored.message);
	resolver_free(recorder->resolver);
	profile_release(&recorder->raw);
	leaves_release(&recorder->leaves);
	decoder_release(&recorder->decoder);
	queue_release(&recorder->queue);
	slots_release(&recorder->slots);
	join_release(&recorder->taker.join);
	python_known_codes_free(recorder->taker.known);
	unstopped_free(recorder->taker.unstopped);
	watcher_free(recorder->watcher);
	target_free(recorder->target);
	close(recorder->event_fd);
	pthread_mutex_destroy(&recorder->lock);
	pthread_mutex_destroy(&recorder->start_lock);
	pthread_cond_destroy(&recorder->started);
	free(recorder);
}

static double end_of_bucket_ns(size_t bucket)
{
	if (bucket < PAUSE_EVEN)
		return (double)(bucket + 1) * PAUSE_BUCKET_NS;
	size_t octave = (bucket - PAUSE_EVEN) / PAUSE_OCTAVE;
	size_t part = (bucket - PAUSE_EVEN) % PAUSE_OCTAVE + 1;
	double start = (double)PAUSE_EVEN * PAUSE_BUCKET_NS * (double)(UINT64_C(1) << octave);
	return start + start * (double)part / PAUSE_OCTAVE;
}

static double percentile_us(const struct recorder *recorder, double share)
{
	uint64_t wanted = (uint64_t)((double)recorder->pause_count * share), seen = 0;
	for (size_t i = 0; i < PAUSE_BUCKETS; i++) {
		seen += recorder->pauses[i];
		if (seen > wanted)
			return end_of_bucket_ns(i) / 1000;
	}
	return (double)recorder->pause_max_ns / 1000;
}

void recorder_log_pauses(const struct recorder *recorder)
{
	log_debug("pause",
		  "n=%llu p50=%.1fus p90=%.1fus p99=%.1fus max=%.1fus allocating=%llu held=%llu "
		  "lost=%llu copied=%llu interrupted=%llu missed=%llu",
		  (unsigned long long)recorder->pause_count, percentile_us(recorder, 0.5),
		  percentile_us(recorder, 0.9), percentile_us(recorder, 0.99),
		  (double)recorder->pause_max_ns / 1000,
		  (unsigned long long)recorder->allocating_pauses,
		  (unsigned long long)recorder->taker.holder.held,
		  (unsigned long long)recorder->taker.holder.lost,
		  (unsigned long long)recorder->taker.copied,
		  (unsigned long long)recorder->taker.interrupted,
		  (unsigned long long)recorder->taker.missed);
}
