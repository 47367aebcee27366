/* SPDX-License-Identifier: MIT */
/*
 * What looks after the taker, a thread of our own process: when a page of a target does not come,
 * the process that takes is killed (base/guard.h), and another one goes on without that page, if it
 * does not happen over and over. It traces nothing itself.
 */
#include "record/taker.h"

#include <errno.h>

#include "base/log.h"
#include "copy/placement.h"

static const uint64_t STUCK_NS = 15000000; /* that a page is waited for: a thread may stand still */

/* True: it was just late. Nobody is traced meanwhile. */
static bool memory_comes(const struct process_set *set)
{
	bool comes = true;
	for (size_t i = 0; i < process_set_count(set); i++)
		comes &= target_await_memory(set->places[i]->target);
	return comes;
}

static void begin_anew(struct recorder *recorder)
{
	const struct process_set *set = &recorder->processes;
	sampler_drop(recorder);
	for (size_t i = 0; i < process_set_count(set); i++) {
		struct process *process = set->places[i];
		if (recorder->keeping.distrust)
			target_distrust_memory(process->target);
		atomic_store(&process->news.forget_codes, true);
		for (size_t k = 0; k < process->threads.count; k++)
			process->threads.threads[k]->seized = false;
	}
	taker_release(&recorder->means);
}

/* False: not again. */
static bool note_stuck(struct recorder *recorder)
{
	enum { MOST_STUCK = 4, MOST_LATE = 16 };
	struct taker_keeping *keeping = &recorder->keeping;
	const bool late = memory_comes(&recorder->processes);
	log_debug("sample", "a page of the target %s: the taker begins anew",
		  late ? "comes late" : "does not come");
	if (late)
		keeping->late++;
	else
		keeping->stuck++;
	/* It swaps all the time: what is there is taken. */
	keeping->distrust |= !late || keeping->late >= MOST_LATE;
	begin_anew(recorder);
	return keeping->stuck < MOST_STUCK;
}

static void fail_to_take(struct recorder *recorder, enum guard_end how)
{
	struct error error;
	if (how == GUARD_STUCK)
		error_set(&error, ERROR_BUSY, "process %d has memory that does not come",
			  (int)target_pid(recorder->processes.places[0]->target));
	else
		error_set_errno(&error, errno, "the process that samples has ended");
	taker_report_failure(recorder, &error);
	if (!recorder->start.done)
		taker_report_start(recorder, false,
				   target_pid(recorder->processes.places[0]->target), &error);
}

void *recorder_take(void *argument)
{
	struct recorder *recorder = argument;
	struct guard *guard = &recorder->keeping.guard;
	struct promptness promptness;
	enum guard_end how;
	placement_run_soon(&promptness);
	do
		how = guard_run(guard, STUCK_NS, taker_take, recorder);
	while (how == GUARD_STUCK && !guard_is_lost(guard) && note_stuck(recorder));
	if (how != GUARD_DONE)
		fail_to_take(recorder, how);
	return NULL;
}
