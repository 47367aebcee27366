/* SPDX-License-Identifier: MIT */
/*
 * Sampling: one look at all threads (dump_process), a recording (recorder_*), a replay of
 * captured raw samples. What comes out stands in sample/profile.h.
 */
#ifndef SAMPLE_SAMPLE_H
#define SAMPLE_SAMPLE_H

#include <stdbool.h>

#include "base/error.h"
#include "base/intern.h"
#include "sample/options.h"
#include "sample/profile.h"
#include "target/target.h"

struct symbolize_fetch;

struct session_options {
	bool native;	     /* native frames merged with the Python frames */
	bool wall;	     /* threads that are not running, too */
	bool gil_only;	     /* only the thread that holds the GIL */
	bool internals;	     /* keep the interpreter's own frames */
	bool native_threads; /* threads that Python does not know */
	bool nonblocking;    /* never stop a thread, trace nothing; Python frames only */
	bool by_thread;	     /* a root frame for each thread */
	bool kernel;	     /* what a blocked thread waits in */
	enum join_method join;
	enum unwinder_choice unwinder;
	enum stop_choice stop;
	const pid_t *threads; /* only these OS threads; count 0: all */
	size_t thread_count;
	double rate;			     /* Hz */
	const char *capture;		     /* file for raw samples; NULL: none */
	const struct symbolize_fetch *fetch; /* from debuginfod's servers, once sampling is over */
};

/* ---- pdump: dump.c ----------------------------------------------------------------------------
 */

/*
 * One look at all threads of a process. Fills *dump (strings interned in `strings`, which must
 * outlive it). Running threads are stopped together for a moment (unless nonblocking), blocked ones
 * are not touched.
 * Fails with GONE, DENIED or SYSTEM; a process that is not Python, or of an unknown version, is no
 * failure (see dump.python_problem). *partial: some thread could not be read.
 */
bool MUST_CHECK dump_process(pid_t pid, const struct session_options *options,
			     struct interner *strings, struct dump *dump, bool *partial,
			     struct error *error);
void dump_release(struct dump *dump);

/* ---- precord: recorder.c -------------------------------------------------------------------- */

struct recorder;

/* A snapshot of how it is going; any thread. */
struct recorder_status {
	struct profile_counts counts;
	bool ended;	 /* the target has ended, or all traced threads are gone */
	int wait_status; /* of the target, when has_wait_status */
	bool has_wait_status;
	bool failed; /* sampling cannot go on: see recorder_finish */
	bool python_found;
};

/*
 * Starts to sample a process: `release_fd` >= 0: one byte is written to it once the process is
 * traced (a command that waits for us before it executes). DENIED, GONE, UNSUPPORTED (not Python
 * and no --native). SIGCHLD must be blocked in all threads by the caller before.
 */
bool MUST_CHECK recorder_start(pid_t pid, const struct session_options *options,
			       struct interner *strings, int release_fd, struct recorder **recorder,
			       struct error *error);

/* A descriptor that becomes readable when the target ends or sampling fails (eventfd). */
int recorder_event_fd(const struct recorder *recorder);
void recorder_status(const struct recorder *recorder, struct recorder_status *status);

/*
 * fork(2) at a moment at which the child's copy is whole: the child may ask for the profile, and
 * must then _exit. That takes nothing from the recording: to name frames takes a while, and the
 * worker waits for it. From the thread that started the recorder; -1 with errno.
 */
pid_t recorder_fork(struct recorder *recorder);

/* Builds the profile of what was sampled so far into *profile (initialised here). Sampling goes
 * on. `lines` false: frames are told apart by function, not by line. */
bool MUST_CHECK recorder_profile(struct recorder *recorder, struct profile *profile,
				 struct error *error);

/* Stops sampling and detaches: the target runs on. Safe to call twice. */
bool MUST_CHECK recorder_stop(struct recorder *recorder, struct error *error);
void recorder_free(struct recorder *recorder); /* NULL accepted */

/* Writes the distribution of pauses to the log (--debug=pause). */
void recorder_log_pauses(const struct recorder *recorder);

/* ---- replay.c ----------------------------------------------------------------------------------
 */

/* Decodes a file of raw samples without the process. ABSENT: a module is not on this machine. */
bool MUST_CHECK replay_file(const char *path, const struct session_options *options,
			    struct interner *strings, struct profile *profile, struct error *error);

#endif
