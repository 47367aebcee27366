/* SPDX-License-Identifier: MIT */
/*
 * The process that the user started, and the one that does the work. A target whose tracer is
 * stopped waits with its next signal until that runs again. So all work is done by a child in a
 * process group of its own, which Ctrl-Z and SIGSTOP do not reach; should it be stopped all the
 * same, it is let go on at once.
 */
#ifndef BASE_GUARDIAN_H
#define BASE_GUARDIAN_H

#include <signal.h>
#include <stdbool.h>

#include "base/error.h"

struct guardian_options {
	/* Should the child be killed, or crash: */
	int status;	  /* of the outer process then */
	const char *lost; /* what becomes of the work, for the message */
	/* What the outer process does while the child begins; NULL: nothing. */
	void (*meanwhile)(void);
	/* What is passed on stays blocked in the child: one that comes before its handlers waits.
	 */
	bool holds_signals;
};

/*
 * Before any thread is started. Returns in the child alone, with *mask as the signal mask was: what
 * is started for the user gets it back. SIGINT, SIGTERM, SIGHUP and SIGUSR1 are passed on to the
 * child, as guardian_passed_on knows; the outer process ends as the child does (by a signal only if
 * by one of the first three, or SIGPIPE), and the child with the outer one. False: there is no
 * second process.
 */
bool MUST_CHECK guardian_begin(const struct guardian_options *options, sigset_t *mask,
			       struct error *error);

/* False: it was sent to this process alone. Async-signal-safe. */
bool guardian_passed_on(const siginfo_t *info);

/* The process group that the user's shell knows, for what is started for him. */
pid_t guardian_group(void);

/* False: the terminal at stderr is someone else's at the moment. */
bool guardian_in_foreground(void);

#endif
