/* SPDX-License-Identifier: MIT */
/* Starts a command that executes only once it is traced, so that nothing of it is missed. */
#include "src/command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STATUS_CANNOT_EXECUTE = 126, STATUS_NOT_FOUND = 127 };

static void run_child(char *const *argv, const sigset_t *mask, const struct rlimit *file_limit,
		      int release_fd, int error_fd)
{
	char byte;
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGUSR1, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	sigprocmask(SIG_SETMASK, mask, NULL);
	if (setrlimit(RLIMIT_NOFILE, file_limit) != 0)
		_exit(STATUS_CANNOT_EXECUTE);
	if (read(release_fd, &byte, 1) != 1)
		_exit(STATUS_NOT_FOUND); /* precord gave up */
	execvp(argv[0], argv);
	int failure = errno;
	if (write(error_fd, &failure, sizeof(failure)) < 0)
		_exit(STATUS_CANNOT_EXECUTE);
	_exit(failure == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_EXECUTE);
}

bool command_start(char *const *argv, const sigset_t *mask, const struct rlimit *file_limit,
		   struct command *command, struct error *error)
{
	int release[2], failure[2];
	if (pipe2(release, O_CLOEXEC) != 0 || pipe2(failure, O_CLOEXEC) != 0)
		return error_set_errno(error, errno, "cannot make a pipe");
	pid_t pid = fork();
	if (pid < 0)
		return error_set_errno(error, errno, "cannot start %s", argv[0]);
	if (pid == 0) {
		close(release[1]);
		close(failure[0]);
		run_child(argv, mask, file_limit, release[0], failure[1]);
	}
	close(release[0]);
	close(failure[1]);
	*command = (struct command){.pid = pid, .release_fd = release[1], .error_fd = failure[0]};
	return true;
}

int command_exec_error(const struct command *command)
{
	int failure = 0;
	if (read(command->error_fd, &failure, sizeof(failure)) != sizeof(failure))
		return 0;
	return failure;
}

int command_exit_status(int wait_status)
{
	if (WIFSIGNALED(wait_status))
		return 128 + WTERMSIG(wait_status);
	return WEXITSTATUS(wait_status);
}
