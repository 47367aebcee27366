/* SPDX-License-Identifier: MIT */
/* The threads under watch: found when they start, let go when they end. */
#include "record/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "record/cpu_time.h"

/* A look at the list of threads may take that part of the time: it costs a microsecond a thread. */
enum { LOOK_SHARE = 32 };
static const uint64_t LOOK_NS = 1000000000; /* and without any sign of a change, after that time */
static const uint64_t SIGN_NS = 4000000;    /* between two looks for such signs */
static const uint64_t PAIR_NS = 20000000;   /* as many as before, but some of them may be others */

void threads_init(struct watched_threads *threads, struct process *process)
{
	memset(threads, 0, sizeof(*threads));
	threads->process = process;
	table_init(&threads->by_tid);
}

static void slot_free(struct watched_thread *watched)
{
	copy_state_release(&watched->copy);
	free(watched);
}

void threads_release(struct watched_threads *threads)
{
	for (size_t i = 0; i < threads->count; i++)
		slot_free(threads->threads[i]);
	for (size_t i = 0; i < threads->gone_count; i++)
		slot_free(threads->gone[i]);
	free(threads->threads);
	free(threads->gone);
	table_release(&threads->by_tid);
	threads_init(threads, threads->process);
}

static bool wanted(const struct session_options *options, pid_t tid)
{
	for (size_t i = 0; i < options->thread_count; i++)
		if (options->threads[i] == tid)
			return true;
	return options->thread_count == 0;
}

static void put(struct watched_threads *threads, size_t index, struct watched_thread *watched)
{
	threads->threads[index] = watched;
	watched->index = (uint32_t)index;
	table_put(&threads->by_tid, (uint64_t)watched->copy.tid, 0, watched->index);
}

static void swap(struct watched_threads *threads, size_t a, size_t b)
{
	struct watched_thread *watched = threads->threads[a];
	put(threads, a, threads->threads[b]);
	put(threads, b, watched);
}

void threads_mark_awake(struct watched_threads *threads, struct watched_thread *watched)
{
	if (watched->index >= threads->awake_count)
		swap(threads, watched->index, threads->awake_count++);
}

void threads_mark_asleep(struct watched_threads *threads, struct watched_thread *watched)
{
	if (watched->index < threads->awake_count)
		swap(threads, watched->index, --threads->awake_count);
}

/* One that ended just now is left out; false: it cannot be looked at. */
static bool add(struct watched_threads *threads, const struct target *target, pid_t tid,
		struct error *error)
{
	struct target_thread thread;
	struct target_thread_files *files;
	if (!target_thread_read(target, tid, &thread, error) ||
	    !target_thread_files_open(target, tid, &files, error)) {
		log_debug("sample", "%s", error->message);
		return error->kind != ERROR_SYSTEM;
	}
	struct watched_thread *watched = alloc_zeroed(1, sizeof(*watched));
	watched->process = threads->process;
	copy_state_init(&watched->copy, tid, thread.namespace_tid, files);
	watched->tally.root_frame = watched->tally.last_node = PROFILE_NONE;
	watched->tally.root = NO_ROOT;
	watched->tally.timeline = TIMELINE_NONE;
	watched->listed = true;
	watched->state = thread.state;
	snprintf(watched->comm, sizeof(watched->comm), "%s", thread.name);
	threads->threads = alloc_room(threads->threads, &threads->capacity, threads->count + 1,
				      sizeof(*threads->threads));
	put(threads, threads->count++, watched);
	threads_mark_awake(threads, watched);
	return true;
}

struct watched_thread *threads_find(const struct watched_threads *threads, pid_t tid)
{
	uint32_t index;
	if (!table_find(&threads->by_tid, (uint64_t)tid, 0, &index) ||
	    threads->threads[index]->gone)
		return NULL;
	return threads->threads[index];
}

static void free_gone(struct watched_threads *threads)
{
	size_t kept = 0;
	for (size_t i = 0; i < threads->gone_count; i++) {
		if (threads->gone[i]->repeats || atomic_load(&threads->gone[i]->in_use))
			threads->gone[kept++] = threads->gone[i];
		else
			slot_free(threads->gone[i]);
	}
	threads->gone_count = kept;
}

static void set_aside(struct watched_threads *threads, struct watched_thread *watched)
{
	watched->gone = true;
	copy_state_end(&watched->copy);
	threads->gone = alloc_room(threads->gone, &threads->gone_capacity, threads->gone_count + 1,
				   sizeof(*threads->gone));
	threads->gone[threads->gone_count++] = watched;
}

static void let_go(struct watched_threads *threads)
{
	size_t kept = 0, awake = 0;
	for (size_t i = 0; i < threads->count; i++) {
		struct watched_thread *watched = threads->threads[i];
		if (!watched->listed || watched->gone) {
			set_aside(threads, watched);
			continue;
		}
		awake += i < threads->awake_count;
		threads->threads[kept++] = watched;
	}
	if (kept < threads->count) {
		threads->count = kept;
		threads->awake_count = awake;
		table_clear(&threads->by_tid);
		for (size_t i = 0; i < kept; i++)
			put(threads, i, threads->threads[i]);
	}
	free_gone(threads);
}

bool threads_check_wanted(const struct watched_threads *threads, const struct target *target,
			  const struct session_options *options, struct error *error)
{
	for (size_t i = 0; i < options->thread_count; i++)
		if (!threads_find(threads, options->threads[i]))
			return error_set(error, ERROR_GONE, "process %d has no thread %d",
					 (int)target_pid(target), (int)options->threads[i]);
	return true;
}

/* Threads may have been made since, or ended without a report to us. */
static bool shows_change(struct watched_threads *threads, const struct target *target,
			 bool ends_are_told, uint64_t now)
{
	if (now - threads->signs_ns < SIGN_NS)
		return false;
	threads->signs_ns = now;
	if (!target_no_births(target, &threads->births))
		threads->born = true;
	else if (!threads->born && ends_are_told)
		return false;
	return target_thread_count(target) != threads->thread_count ||
	       (threads->born && now - threads->looked_ns >= PAIR_NS);
}

static bool is_due(struct watched_threads *threads, const struct target *target,
		   const struct session_options *options, uint64_t now)
{
	if (now < threads->next_look_ns)
		return false;
	return now - threads->looked_ns >= LOOK_NS ||
	       shows_change(threads, target, !options->nonblocking, now);
}

void threads_end(struct watched_threads *threads, pid_t tid)
{
	struct watched_thread *watched = threads_find(threads, tid);
	threads->thread_count -= threads->thread_count > 0;
	if (watched)
		watched->gone = true;
}

bool threads_refresh(struct watched_threads *threads, const struct target *target,
		     const struct session_options *options, struct error *error)
{
	pid_t *tids;
	size_t count;
	const bool first = threads->looked_ns == 0;
	uint64_t start = clock_now_ns();
	if (!first && !is_due(threads, target, options, start))
		return true;
	threads->looked_ns = start;
	threads->born = false;
	threads->thread_count = target_thread_count(target);
	if (!target_thread_list(target, &tids, &count, error))
		return false;
	for (size_t i = 0; i < threads->count; i++)
		threads->threads[i]->listed = false;
	bool well = true;
	for (size_t i = 0; i < count && well; i++) {
		if (!wanted(options, tids[i]))
			continue;
		struct watched_thread *watched = threads_find(threads, tids[i]);
		if (watched)
			watched->listed = true;
		else
			well = add(threads, target, tids[i], error);
	}
	/* Threads that are found later were made since: all that they have used counts. */
	for (size_t i = 0; i < threads->count && first && options->cpu; i++)
		(void)cpu_time_since(threads->threads[i]);
	free(tids);
	if (!well)
		return false;
	let_go(threads);
	uint64_t end = clock_now_ns();
	threads->next_look_ns = end + (LOOK_SHARE - 1) * (end - start);
	return true;
}

void threads_forget(struct watched_threads *threads)
{
	for (size_t i = 0; i < threads->count; i++)
		threads->threads[i]->gone = true;
	threads->next_look_ns = threads->looked_ns = 0;
}

bool threads_end_all(struct watched_threads *threads)
{
	for (size_t i = 0; i < threads->count; i++)
		threads->threads[i]->gone = true;
	let_go(threads);
	return threads->gone_count == 0;
}

void threads_join(struct watched_threads *threads, const struct join *join)
{
	for (size_t i = 0; i < threads->count; i++)
		if (!threads->threads[i]->gone)
			join_thread(join, &threads->threads[i]->copy);
}

void watched_thread_learn(struct watched_thread *watched, enum join_method method,
			  const struct decoded *decoded)
{
	if (decoded->stack_end && !atomic_load(&watched->copy.advice.stack_end))
		atomic_store(&watched->copy.advice.stack_end, decoded->stack_end);
	for (size_t i = 0; i < COPY_SWITCHES && decoded->switches; i++) {
		const remote_addr begin = decoded->switches[i].address,
				  end = begin + decoded->switches[i].size;
		if (atomic_load(&watched->copy.advice.switches[i].begin) == begin &&
		    atomic_load(&watched->copy.advice.switches[i].end) == end)
			continue;
		atomic_store(&watched->copy.advice.switches[i].begin, begin);
		atomic_store(&watched->copy.advice.switches[i].end, end);
	}
	/* What the outermost frames say decides which thread state is copied next time. */
	if (method == JOIN_RBX && decoded->unwound)
		atomic_store(&watched->copy.advice.learned, decoded->rbx_thread_id);
}
