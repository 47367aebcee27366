/* SPDX-License-Identifier: MIT */
/* What both commands do when something goes wrong: say it, and pick the exit status. */
#ifndef SRC_REPORT_H
#define SRC_REPORT_H

#include <sys/types.h>

#include "base/error.h"
#include "record/record.h"
#include "src/options.h"

enum exit_status {
	EXIT_DONE = 0,
	EXIT_IO = 1,
	EXIT_USAGE = 2,
	EXIT_NO_PROCESS = 3,
	EXIT_DENIED = 4,
	EXIT_NOT_PYTHON = 5,
	EXIT_PARTIAL = 6,
	EXIT_OWN_FAILURE = 125, /* precord -- CMD: precord itself failed */
};

/* Prints the error, and for a denied process the cause and what to do. Returns the status. */
int report_error(const struct error *error, pid_t pid);

/* What is opened from then on is not taken for stdin, stdout or stderr where those are closed: to
 * read or write these still fails. */
void report_hold_standard_files(void);

/* The sampling options that are on the command line. */
struct session_options report_session_options(const struct options *options);

/* ... and those of the output. */
struct view_options report_view_options(const struct options *options);

/* Some output needs to know when each sample was. */
bool report_is_timed(const struct options *options);

/* Writes the profile to the output's file; which that is, for messages. sources: where the files
 * of its frames are. */
bool MUST_CHECK report_write(const struct options *options, const struct profile *profile,
			     struct foreign_root sources, const struct options_output *output,
			     struct error *error);
const char *report_path(const struct options_output *output);

#define FILES_UNANSWERED "a file system does not answer: code that is in its files has fewer names"

#endif
