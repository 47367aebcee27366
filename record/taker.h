/* SPDX-License-Identifier: MIT */
/* What the files of the taker share: itself, what it reports, whom it takes in, who keeps it up. */
#ifndef RECORD_TAKER_H
#define RECORD_TAKER_H

#include "record/recording.h"

/* A process of which no thread has run for so long is quiet: it is looked at now and then. */
static const uint64_t QUIET_NS = 100000000;

/* ---- taker.c ---- */

/* One taker's work, from the beginning or after another one was killed, until the recording is to
 * stop. `recorder` is a struct recorder. */
void taker_take(void *recorder);

/* Frees what may not be used any more when the process that has made it has ended. */
void taker_release(struct copy_means *means);

/* ---- taker_reports.c: what it has to say to the command's thread and to the worker ---- */

/* It could begin, or process `failed` could not be traced; `error` is set then. Once. */
void taker_report_start(struct recorder *recorder, bool well, pid_t failed,
			const struct error *error);

/* All that was recorded has ended; or sampling has failed. The recording stops. */
void taker_report_end(struct recorder *recorder);
void taker_report_failure(struct recorder *recorder, const struct error *error);

/* The worker is to look into a new process, or program. */
void taker_call_worker(struct recorder *recorder);

/* ---- adoption.c: which processes are recorded ---- */

/*
 * Seizes those of the process's threads that are not seized yet. That does not stop a thread; we
 * hear of its signals, of exec and of its end. GONE does not count: the thread has ended then.
 */
bool MUST_CHECK adoption_seize_threads(struct recorder *recorder, struct process *process,
				       struct error *error);

/* Seizes a process that is there already, with all of its threads: what they make from now on is
 * reported. Without a tracer it is watched. */
bool MUST_CHECK adoption_seize(struct recorder *recorder, struct process *process,
			       struct error *error);

/* The tracer has reported a child that runs now; its first thread is seized. */
void adoption_add_child(struct recorder *recorder, pid_t pid);

/* It may not be traced (any more): the recording fails if the user gave it, but as one of a cgroup.
 */
void adoption_refuse(struct recorder *recorder, struct process *process, const struct error *error);

/* It has ended; the recording ends when all have. Of one that may still be born, see the next. */
void adoption_end(struct recorder *recorder, struct process *process);

/*
 * The recording ends if no process lives. The last one may have ended before the child that it made
 * has reported to us: as long as there is anybody to report, it is waited for, but not for ever.
 */
void adoption_end_if_empty(struct recorder *recorder);

/* Looks for children that the tracer has not heard of, when it is time for that. */
void adoption_look(struct recorder *recorder, uint64_t now_ns);

/* Takes in all that there are of the tree, or of the cgroup. */
void adoption_take_trees(struct recorder *recorder);

#endif
