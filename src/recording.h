/* SPDX-License-Identifier: MIT */
/* One run of precord, and what is said of it on stderr. */
#ifndef SRC_RECORDING_H
#define SRC_RECORDING_H

#include <signal.h>
#include <sys/resource.h>

#include "record/record.h"
#include "src/apart.h"
#include "src/browser.h"
#include "src/children.h"
#include "src/command.h"
#include "src/download.h"
#include "src/options.h"

struct recording {
	struct options options;
	struct session_options session;
	struct download download;
	struct interner *strings;
	struct apart apart;
	struct recorder *recorder;
	struct command command;
	struct target_cgroup *cgroup; /* NULL: it is of none ... */
	bool whole_cgroup;	      /* ... and all that it had could be listed */
	struct children children;     /* of the process, which are not recorded */
	sigset_t waiting_mask;	  /* while main waits: the signals that it handles get through */
	sigset_t mask;		  /* the signals as they were before ... */
	struct rlimit file_limit; /* ... and the limit of open files: the command gets them back */
	bool progress_shown;
	double next_snapshot;	   /* seconds since it began */
	struct file_server server; /* --open: of what a page fetches */
	pid_t writer;	 /* a process of ours that writes what there is, after SIGUSR1; 0: none */
	bool unanswered; /* a file system did not answer, us or who wrote at the end */
	char default_output[512];
};

/* The line of counts, over itself, where somebody sees it; and its end, before anything else is
 * printed. */
void recording_show_progress(struct recording *recording);
void recording_end_progress(struct recording *recording);

/* What the outputs that were written have, "out.svg, out.html", and what became of all samples that
 * were asked for. */
void recording_report_written(const struct recording *recording, const char *outputs,
			      const struct profile_counts *counts);

/* There are none: what has become of them, and what may help. */
void recording_report_no_samples(const struct recording *recording,
				 const struct profile_counts *counts);

/* What is not in the profile. */
void recording_report_processes(struct recording *recording, const struct recorder_status *status);

/* Nothing was to be recorded but Python processes, and there was none. */
bool recording_has_no_python(const struct recording *recording,
			     const struct recorder_status *status);

#endif
