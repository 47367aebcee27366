/* SPDX-License-Identifier: MIT */
/* precord -- CMD: the command, held back until it is traced. */
#ifndef SRC_COMMAND_H
#define SRC_COMMAND_H

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/error.h"

struct command {
	pid_t pid;
	int release_fd; /* one byte written to it lets the command execute */
	int error_fd;	/* gives the errno of a failed exec; end of file: it runs */
};

/* As the user's shell would have started it. */
struct command_place {
	const sigset_t *mask;
	const struct rlimit *file_limit; /* of open files */
	pid_t group;
};

/* Forks; the child waits for its release, then executes argv in that place. */
bool MUST_CHECK command_start(char *const *argv, const struct command_place *place,
			      struct command *command, struct error *error);

/* After its end: the errno that exec failed with, or 0. */
int command_exec_error(const struct command *command);

/* The exit status that env(1) would give: its own, 128+N on a signal. */
int command_exit_status(int wait_status);

#endif
