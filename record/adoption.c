/* SPDX-License-Identifier: MIT */
/*
 * Which processes are recorded: those that were given, the children that the tracer reports, and
 * those of whose birth nobody reports, which are looked for. Each is seized, refused, or has ended.
 * All of it is the taker's.
 */
#include "record/taker.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "target/descendants.h"
#include "target/tracer.h"

static const uint64_t CHILDREN_NS = 40000000; /* between two looks for children */
enum {
	CHILDREN_SHARE = 32, /* those take no more than that part of the time */
	CHILDREN_ALL = 25,   /* so many looks, the last of which is at quiet processes, too */
	TREE_ROUNDS = 100,
};

bool adoption_seize_threads(struct recorder *recorder, struct process *process, struct error *error)
{
	struct watched_threads *threads = &process->threads;
	for (size_t i = 0; i < threads->count; i++) {
		struct watched_thread *watched = threads->threads[i];
		if (watched->gone || watched->seized)
			continue;
		watched->seized =
			tracer_seize_of(recorder->means.tracer, target_pid(process->target),
					watched->copy.tid, error);
		if (watched->seized)
			continue;
		if (error->kind != ERROR_GONE)
			return false;
		threads_end(threads, watched->copy.tid);
	}
	return true;
}

void adoption_end(struct recorder *recorder, struct process *process)
{
	if (!recorder->options.subprocesses && recorder->processes.live == 1) {
		taker_report_end(recorder);
		return;
	}
	process_set_end(&recorder->processes, process);
	log_debug("sample", "process %d has ended: %zu are left", (int)target_pid(process->target),
		  recorder->processes.live);
}

static struct process *add_process(struct recorder *recorder, pid_t pid, struct error *error)
{
	const struct process_making making = {&recorder->options, &recorder->means};
	struct process *process;
	if (!process_set_add(&recorder->processes, pid, &making, &process, error))
		return NULL;
	if (recorder->keeping.distrust)
		target_distrust_memory(process->target);
	process->tick.ran_ns = clock_now_ns();
	taker_call_worker(recorder);
	return process;
}

/* It stays traced, and its children are reported, but it is not sampled. */
static void note_unread(struct recorder *recorder, pid_t pid, const struct error *error)
{
	log_debug("sample", "process %d: %s", (int)pid, error->message);
	if (error->kind != ERROR_GONE)
		atomic_fetch_add(&recorder->processes.unread, 1);
}

void adoption_add_child(struct recorder *recorder, pid_t pid)
{
	struct error error;
	if (!process_set_find(&recorder->processes, pid) && !add_process(recorder, pid, &error))
		note_unread(recorder, pid, &error);
}

void adoption_refuse(struct recorder *recorder, struct process *process, const struct error *error)
{
	if (process->given && !recorder->processes.cgroup) {
		taker_report_failure(recorder, error);
		return;
	}
	table_put(&recorder->processes.refused, (uint64_t)target_pid(process->target), 0, 1);
	note_unread(recorder, target_pid(process->target), error);
	process_set_end(&recorder->processes, process);
}

bool adoption_seize(struct recorder *recorder, struct process *process, struct error *error)
{
	const pid_t pid = target_pid(process->target);
	if (recorder->options.nonblocking && !process->watcher)
		process->watcher = watcher_new(process->target);
	bool each = recorder->options.subprocesses;
	if (recorder->means.tracer && !tracer_seize_of(recorder->means.tracer, pid, pid, error)) {
		/* The main thread may have ended before the others. */
		each = error->kind == ERROR_GONE && target_find_living_thread(process->target);
		if (!each)
			return false;
	}
	return threads_refresh(&process->threads, process->target, &recorder->options, error) &&
	       threads_check_wanted(&process->threads, process->target, &recorder->options,
				    error) &&
	       (!each || adoption_seize_threads(recorder, process, error));
}

/* A child of whose birth nobody has reported. One that is traced by us will be reported. */
static void adopt(struct recorder *recorder, pid_t pid)
{
	struct process_set *set = &recorder->processes;
	struct error error;
	uint32_t ignored;
	if (table_find(&set->refused, (uint64_t)pid, 0, &ignored))
		return;
	struct process *process = add_process(recorder, pid, &error);
	if (process && adoption_seize(recorder, process, &error))
		return;
	const bool ours = process && target_thread_tracer(process->target, pid) == gettid();
	if (process)
		process_set_end(set, process);
	if (ours)
		return;
	if (set->refused.count > PROCESSES_MOST)
		table_clear(&set->refused);
	table_put(&set->refused, (uint64_t)pid, 0, 1);
	note_unread(recorder, pid, &error);
}

static bool is_ours(const struct recorder *recorder, pid_t pid)
{
	return pid == guard_outer_process() ||
	       (!recorder->command.pid && pid == recorder->front_pid);
}

/* Children of the process that are not known; ours are none. True: there was one. */
static bool adopt_children(struct recorder *recorder, pid_t pid)
{
	pid_t *found = alloc_zeroed(PROCESSES_MOST, sizeof(*found));
	const size_t count = target_children(pid, found, PROCESSES_MOST);
	bool some = false;
	for (size_t i = 0; i < count; i++) {
		if (is_ours(recorder, found[i]) || process_set_find(&recorder->processes, found[i]))
			continue;
		adopt(recorder, found[i]);
		some |= process_set_find(&recorder->processes, found[i]) != NULL;
	}
	free(found);
	return some;
}

/* Those of the cgroup that have come there. True: there was one. */
static bool adopt_group(struct recorder *recorder)
{
	const struct process_set *set = &recorder->processes;
	if (!set->cgroup)
		return false;
	pid_t *found = alloc_zeroed(PROCESSES_MOST, sizeof(*found));
	const size_t count = process_set_newcomers(set, found, PROCESSES_MOST);
	bool some = false;
	for (size_t i = 0; i < count; i++) {
		adopt(recorder, found[i]);
		some |= process_set_find(set, found[i]) != NULL;
	}
	free(found);
	return some;
}

void adoption_end_if_empty(struct recorder *recorder)
{
	static const uint64_t UNBORN_NS = 20000000;
	const struct process_set *set = &recorder->processes;
	if (set->live == 0 &&
	    (!recorder->options.subprocesses || clock_now_ns() - set->empty_ns > UNBORN_NS) &&
	    !adopt_group(recorder))
		taker_report_end(recorder);
}

/*
 * Children that the tracer has not heard of: of threads that were made just now and are not seized
 * yet, or made by a clone(2) that is no fork.
 */
void adoption_look(struct recorder *recorder, uint64_t now)
{
	struct process_set *set = &recorder->processes;
	if (!recorder->options.subprocesses || now < set->children_ns)
		return;
	const bool all = ++set->children_looks % CHILDREN_ALL == 0;
	const bool born = !target_no_births(set->places[0]->target, &set->births);
	if (born || all)
		adopt_group(recorder);
	for (size_t i = 0; (born || all) && !set->cgroup && i < process_set_count(set); i++) {
		const struct process *process = process_set_at(set, i, PROCESS_LIVE);
		if (process && (all || process->tick.ran_ns + QUIET_NS > set->children_looked_ns))
			adopt_children(recorder, target_pid(process->target));
	}
	const uint64_t end = clock_now_ns();
	set->children_looked_ns = now;
	set->children_ns = end + CHILDREN_NS + (CHILDREN_SHARE - 1) * (end - now);
}

/* All that there are of the tree, or of the cgroup: those that are added stand behind the others.
 */
void adoption_take_trees(struct recorder *recorder)
{
	unsigned round = 0;
	bool some = !recorder->processes.cgroup;
	while (!some && round++ < TREE_ROUNDS && adopt_group(recorder))
		;
	for (; some && round < TREE_ROUNDS; round++) {
		some = false;
		for (size_t i = 0; i < process_set_count(&recorder->processes); i++) {
			const struct process *process =
				process_set_at(&recorder->processes, i, PROCESS_LIVE);
			if (process)
				some |= adopt_children(recorder, target_pid(process->target));
		}
	}
}
