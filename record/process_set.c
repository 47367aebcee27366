/* SPDX-License-Identifier: MIT */
/* Places for processes that come and go: see enum process_state. */
#include "record/process_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"

void process_set_init(struct process_set *set)
{
	memset(set, 0, sizeof(*set));
	pthread_mutex_init(&set->lock, NULL);
	table_init(&set->refused);
}

void process_set_release(struct process_set *set)
{
	for (size_t i = 0; i < process_set_count(set); i++) {
		process_release(set->places[i]);
		free(set->places[i]);
	}
	table_release(&set->refused);
	pthread_mutex_destroy(&set->lock);
}

struct process *process_set_at(const struct process_set *set, size_t place,
			       enum process_state state)
{
	struct process *process = set->places[place];
	return atomic_load(&process->state) == (int)state ? process : NULL;
}

struct process *process_set_find(const struct process_set *set, pid_t pid)
{
	for (size_t i = 0; i < process_set_count(set); i++) {
		struct process *process = process_set_at(set, i, PROCESS_LIVE);
		if (process && target_pid(process->target) == pid)
			return process;
	}
	return NULL;
}

/* A free place that the worker does not look into, which is held then; or one more than there are.
 */
static size_t choose(const struct process_set *set)
{
	const size_t count = process_set_count(set);
	for (size_t i = 0; i < count; i++) {
		struct process *process = process_set_at(set, i, PROCESS_FREE);
		/* Those that were given are what the profile says that it is of. */
		if (process && !process->given && pthread_mutex_trylock(&process->opening) == 0)
			return i;
	}
	return count;
}

static bool reopen(struct process_set *set, struct process *process, pid_t pid, struct error *error)
{
	pthread_mutex_lock(&set->lock);
	const bool well = process_open_again(process, pid, error);
	pthread_mutex_unlock(&set->lock);
	pthread_mutex_unlock(&process->opening);
	return well;
}

static bool add_place(struct process_set *set, pid_t pid, const struct process_making *making,
		      struct error *error)
{
	const size_t count = process_set_count(set);
	if (count == PROCESSES_MOST)
		return error_set(error, ERROR_SYSTEM, "more than %d processes at a time",
				 PROCESSES_MOST);
	struct process *process = alloc_zeroed(1, sizeof(*process));
	if (!process_open_bare(process, pid, error)) {
		free(process);
		return false;
	}
	process_set_options(process, making->options, making->means);
	/* A stack that changes at every look is worth no more than the tick it belongs to. */
	process->taker.patience = (struct patience){.tries = 4, .for_whole = 1, .ns = 20000000};
	set->places[count] = process;
	atomic_store(&set->count, count + 1);
	return true;
}

bool process_set_add(struct process_set *set, pid_t pid, const struct process_making *making,
		     struct process **process, struct error *error)
{
	const size_t place = choose(set);
	if (place < process_set_count(set) ? !reopen(set, set->places[place], pid, error)
					   : !add_place(set, pid, making, error))
		return false;
	*process = set->places[place];
	atomic_store(&(*process)->state, PROCESS_LIVE);
	set->live++;
	return true;
}

size_t process_set_newcomers(const struct process_set *set, pid_t *found, size_t most)
{
	struct target_cgroup_rest rest;
	struct error error;
	size_t count, kept = 0;
	if (!target_cgroup_processes(set->cgroup, found, most, &count, &rest, &error)) {
		log_debug("sample", "%s", error.message);
		return 0;
	}
	for (size_t i = 0; i < count; i++) {
		uint32_t ignored;
		if (!process_set_find(set, found[i]) &&
		    !table_find(&set->refused, (uint64_t)found[i], 0, &ignored) &&
		    target_is_foreign(found[i]))
			found[kept++] = found[i];
	}
	return kept;
}

void process_set_end(struct process_set *set, struct process *process)
{
	atomic_store(&process->state, PROCESS_ENDED);
	set->ended++;
	if (--set->live == 0)
		set->empty_ns = clock_now_ns();
}

void process_set_settle(struct process_set *set)
{
	for (size_t i = 0; set->ended && i < process_set_count(set); i++) {
		struct process *process = process_set_at(set, i, PROCESS_ENDED);
		if (!process || !threads_end_all(&process->threads))
			continue;
		set->ended--;
		atomic_store(&process->state, PROCESS_FREE);
	}
}
