/* SPDX-License-Identifier: MIT */
/* Starts a command that executes only once it is traced, so that nothing of it is missed. */
#include "src/command.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/signals.h"

enum { STATUS_CANNOT_EXECUTE = 126, STATUS_NOT_FOUND = 127 };

/* What was given to us for looking at processes (systemd's AmbientCapabilities=). Capabilities of
 * our program file end with it. */
static void drop_rights(void)
{
	static const int ours[] = {CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_PERFMON, CAP_BPF};
	for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++)
		prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_LOWER, ours[i], 0, 0);
}

static void run_child(char *const *argv, const struct command_place *place, int release_fd,
		      int error_fd)
{
	char byte;
	/* Yama: it is traced by a child of our parent (base/guard.h). */
	prctl(PR_SET_PTRACER, getppid());
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	if (!signals_ignored(SIGHUP)) /* nohup(1) */
		signal(SIGHUP, SIG_DFL);
	signal(SIGUSR1, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	setpgid(0, place->group);
	sigprocmask(SIG_SETMASK, place->mask, NULL);
	if (setrlimit(RLIMIT_NOFILE, place->file_limit) != 0)
		_exit(STATUS_CANNOT_EXECUTE);
	if (read(release_fd, &byte, 1) != 1)
		_exit(STATUS_NOT_FOUND); /* precord gave up */
	drop_rights();
	execvp(argv[0], argv);
	int failure = errno;
	if (write(error_fd, &failure, sizeof(failure)) < 0)
		_exit(STATUS_CANNOT_EXECUTE);
	_exit(failure == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_EXECUTE);
}

bool command_start(char *const *argv, const struct command_place *place, struct command *command,
		   struct error *error)
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
		run_child(argv, place, release[0], failure[1]);
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
