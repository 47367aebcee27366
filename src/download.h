/* SPDX-License-Identifier: MIT */
/* What a person sees and can do while debug files are fetched from debuginfod's servers. */
#ifndef SRC_DOWNLOAD_H
#define SRC_DOWNLOAD_H

#include <signal.h>

#include "symbolize/symbolize.h"

struct download {
	struct symbolize_fetch fetch;
	bool quiet, shown;
	sigset_t mask;		     /* as it is when nothing is fetched, */
	struct sigaction actions[2]; /* and what SIGINT and SIGTERM do then */
};

/* True when $DEBUGINFOD_URLS names servers. */
bool download_wanted(void);

/*
 * Limits for all files together. On a terminal progress is shown; SIGINT or SIGTERM while a file is
 * fetched ends the fetching alone. One at a time; from the thread that takes the signals.
 */
void download_init(struct download *download, unsigned seconds, unsigned megabytes, bool quiet);

#endif
