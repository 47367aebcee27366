/* SPDX-License-Identifier: MIT */
/*
 * From a file to a browser that shows it. A browser must not run as root, which has another
 * profile, and no session: under sudo it is the invoking user's (src/user.c).
 */
#include "src/browser.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/user.h"

static void run(const char *address)
{
	static const char *const programs[] = {"xdg-open", "sensible-browser", "x-www-browser"};
	sigset_t none;
	const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		dup2(nowhere, fd);
	setsid();
	if (!user_become())
		return;
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++)
		execlp(programs[i], programs[i], address, (char *)NULL);
}

/* A path or a URL; what: for the message. */
static bool start(const char *address, const char *what, struct error *error)
{
	int ends[2], failure = 0;
	/* The descriptor goes with a program that is executed: what comes through it is an error.
	 */
	if (pipe2(ends, O_CLOEXEC) != 0)
		return error_set_errno(error, errno, "cannot open %.120s in a browser", what);
	const pid_t child = fork();
	if (child == 0) {
		/* Nobody waits for the browser itself. */
		if (fork() != 0)
			_exit(0);
		run(address);
		failure = errno ? errno : ENOENT;
		_exit(write(ends[1], &failure, sizeof(failure)) < 0);
	}
	close(ends[1]);
	if (child > 0)
		waitpid(child, NULL, 0);
	const bool failed = child < 0 || read(ends[0], &failure, sizeof(failure)) > 0;
	close(ends[0]);
	return !failed || error_set(error, ERROR_ABSENT,
				    "no browser can be started (xdg-open): open %.100s", what);
}

static bool show_at_page(const char *path, struct file_server *server, struct error *error)
{
	char address[FILE_SERVER_URL_SIZE];
	if (!file_server_start(server, path, address, error))
		return false;
	if (start(address, path, error))
		return true;
	file_server_end(server);
	return error_set(error, ERROR_ABSENT,
			 "no browser can be started (xdg-open): load %.80s at " FILE_SERVER_VIEWER,
			 path);
}

bool browser_show(const struct options_output *output, struct file_server *server,
		  struct error *error)
{
	char absolute[PATH_MAX];
	*server = (struct file_server){0};
	if (output->format == OUTPUT_FIREFOX)
		return show_at_page(output->path, server, error);
	return realpath(output->path, absolute)
		       ? start(absolute, output->path, error)
		       : error_set_errno(error, errno, "cannot open %.120s in a browser",
					 output->path);
}
