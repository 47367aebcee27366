/* SPDX-License-Identifier: MIT */
/* A recording: recorder_*. What comes out stands in profile/profile.h. */
#ifndef RECORD_RECORD_H
#define RECORD_RECORD_H

#include <stdbool.h>

#include "base/error.h"
#include "base/intern.h"
#include "profile/profile.h"
#include "record/session.h"
#include "target/target.h"

struct recorder;

/* A snapshot of how it is going; any thread. */
struct recorder_status {
	struct profile_counts counts;
	bool ended;	 /* the target has ended, or all traced threads are gone */
	int wait_status; /* of the target, when has_wait_status */
	bool has_wait_status;
	bool withheld;	    /* a page of its memory did not come */
	bool never_stopped; /* a thread was uninterruptible whenever a sample of it was wanted */
	bool failed;	    /* sampling cannot go on: see recorder_finish */
	bool python_found;  /* in some process */
	uint64_t processes; /* of which some sample was kept */
	uint64_t unread;    /* that could not be looked into */
};

/* What is to be recorded: one process or several, or a command that waits until it is traced before
 * it executes; one byte is written to `release_fd` then. */
struct target_cgroup;
struct recorder_targets {
	const pid_t *pids;
	size_t count;
	int release_fd; /* -1: it is no command */
	/* Not NULL: those are the ones that it has, others will be looked for, and that some of
	 * them cannot be read is no failure. Lives as long as the recorder. */
	const struct target_cgroup *cgroup;
};

/*
 * Starts to sample. DENIED, GONE, UNSUPPORTED (not Python and no --native; with
 * options->python_only that is no failure); *failed: which process it is because of. SIGCHLD must
 * be blocked in all threads by the caller before.
 */
bool MUST_CHECK recorder_start(const struct recorder_targets *targets,
			       const struct session_options *options, struct interner *strings,
			       struct recorder **recorder, pid_t *failed, struct error *error);

/* A descriptor that becomes readable when the target ends or sampling fails (eventfd). */
int recorder_event_fd(const struct recorder *recorder);
void recorder_status(const struct recorder *recorder, struct recorder_status *status);

/*
 * fork(2) at a moment at which the child's copy is whole: the child may ask for the profile, and
 * must then _exit. That takes nothing from the recording: to name frames takes a while, and the
 * worker waits for it. Whose files may be read is as it is now. From the thread that started the
 * recorder; -1 with errno.
 */
pid_t recorder_fork(struct recorder *recorder);

/* Builds the profile of what was sampled so far into *profile (initialised here). Sampling goes
 * on. `lines` false: frames differ by function, not by line. */
bool MUST_CHECK recorder_profile(struct recorder *recorder, struct profile *profile,
				 struct error *error);

/* Stops sampling and detaches: the target runs on. Safe to call twice. */
bool MUST_CHECK recorder_stop(struct recorder *recorder, struct error *error);
void recorder_free(struct recorder *recorder); /* NULL accepted */

/* Where the target's files are, for names of files that it has; until recorder_free. */
struct foreign_root recorder_files(const struct recorder *recorder);

/* Writes the distribution of pauses to the log (--debug=pause). */
void recorder_log_pauses(const struct recorder *recorder);

#endif
