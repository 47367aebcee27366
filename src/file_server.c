/* SPDX-License-Identifier: MIT */
/*
 * The process that serves a file. It reads what comes from a network, so it has the rights of the
 * user alone, and none of our descriptors; it ends with the one that started it.
 */
#include "src/file_server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/signals.h"
#include "src/http_file.h"
#include "src/user.h"

enum { SECONDS = 60, NAME_MOST = 64, FETCHED = 0, NOT_FETCHED = 1, FIRST_FD = 3 };

/* What the process says when it listens, or cannot. */
struct greeting {
	bool well;
	struct error error;
	char url[HTTP_FILE_URL_SIZE];
};

/* ---- the process ---- */

/* The end of the path's last part, of characters that mean nothing in an address; without ".gz",
 * which the viewer does not get to see. */
static void name_file(const char *path, bool packed, char name[NAME_MOST + 1])
{
	const char *slash = strrchr(path, '/'), *from = slash ? slash + 1 : path;
	size_t size = strlen(from) - (packed ? 3 : 0), i = 0;
	if (size > NAME_MOST) {
		from += size - NAME_MOST;
		size = NAME_MOST;
	}
	for (; i < size; i++) {
		const char c = from[i];
		const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
				   (c >= 'a' && c <= 'z') || strchr("._-", c);
		name[i] = plain ? c : '_';
	}
	name[i] = '\0';
}

static bool open_file(const char *path, struct http_file *file, struct error *error)
{
	const size_t size = strlen(path);
	struct stat status;
	file->packed = size > 3 && strcasecmp(path + size - 3, ".gz") == 0;
	file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (file->fd < 0 || fstat(file->fd, &status) != 0)
		return error_set_errno(error, errno, "cannot read %.120s", path);
	if (!S_ISREG(status.st_mode))
		return error_set(error, ERROR_UNSUPPORTED, "%.120s is not a regular file", path);
	file->size = (uint64_t)status.st_size;
	return true;
}

static bool listen_for(const char *path, struct http_server **server, struct greeting *greeting)
{
	struct error *error = &greeting->error;
	struct http_file file = {.viewer = FILE_SERVER_VIEWER};
	char name[NAME_MOST + 1];
	if (!user_become())
		return error_set_errno(error, errno, "cannot become the user who called sudo");
	if (!open_file(path, &file, error))
		return false;
	name_file(path, file.packed, name);
	file.name = name;
	return http_file_open(&file, server, greeting->url, error);
}

/* Signals as at a program's start; and no descriptor but the pipe's. */
static int shed_all(int pipe_end)
{
	static const int ours[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD};
	sigset_t none;
	for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++)
		if (!signals_ignored(ours[i]))
			signal(ours[i], SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	const int end = pipe_end == FIRST_FD ? FIRST_FD : dup2(pipe_end, FIRST_FD);
	syscall(SYS_close_range, FIRST_FD + 1, ~0u, 0);
	return end;
}

static void __attribute__((noreturn)) serve(const char *path, int pipe_end, pid_t parent)
{
	struct greeting greeting = {0};
	struct http_server *server;
	const int end = shed_all(pipe_end);
	greeting.well = listen_for(path, &server, &greeting);
	/* Behind the change of user, which undoes it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || write(end, &greeting, sizeof(greeting)) < 0 || !greeting.well)
		_exit(NOT_FETCHED);
	close(end);
	_exit(http_file_serve(server, SECONDS) ? FETCHED : NOT_FETCHED);
}

/* ---- who started it ---- */

/* encodeURIComponent() of an address that has nothing else to be encoded. */
static void make_address(const char *url, char address[FILE_SERVER_URL_SIZE])
{
	size_t used =
		(size_t)snprintf(address, FILE_SERVER_URL_SIZE, FILE_SERVER_VIEWER "/from-url/");
	for (; *url && used + 4 < FILE_SERVER_URL_SIZE; url++)
		used += (size_t)snprintf(address + used, FILE_SERVER_URL_SIZE - used,
					 *url == ':' || *url == '/' ? "%%%02X" : "%c", *url);
}

bool file_server_start(struct file_server *server, const char *path,
		       char address[FILE_SERVER_URL_SIZE], struct error *error)
{
	struct greeting greeting = {0};
	const pid_t parent = getpid();
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0)
		return error_set_errno(error, errno, "cannot serve %.120s", path);
	const pid_t child = fork();
	if (child == 0)
		serve(path, ends[1], parent);
	close(ends[1]);
	const bool heard =
		child > 0 && read(ends[0], &greeting, sizeof(greeting)) == sizeof(greeting);
	close(ends[0]);
	*server = (struct file_server){child > 0 ? child : 0, path};
	if (heard && greeting.well) {
		make_address(greeting.url, address);
		return true;
	}
	file_server_end(server);
	if (heard)
		*error = greeting.error;
	return heard ? false : error_set(error, ERROR_SYSTEM, "cannot serve %.120s", path);
}

void file_server_wait(struct file_server *server)
{
	static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
	const struct timespec patience = {.tv_nsec = 250000000};
	sigset_t set, before;
	pid_t found;
	int status = 0;
	if (!server->pid)
		return;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (size_t i = 0; i < sizeof(ending) / sizeof(*ending); i++)
		if (!signals_ignored(ending[i]))
			sigaddset(&set, ending[i]);
	sigprocmask(SIG_BLOCK, &set, &before);
	/* The SIGCHLD may have been taken by somebody else: so with a limit. */
	while ((found = waitpid(server->pid, &status, WNOHANG)) == 0) {
		const int number = sigtimedwait(&set, NULL, &patience);
		if (number > 0 && number != SIGCHLD)
			kill(server->pid, SIGTERM);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (found > 0 && WIFEXITED(status) && WEXITSTATUS(status) == NOT_FETCHED)
		log_warning("nobody has fetched %s: load it at " FILE_SERVER_VIEWER, server->path);
	server->pid = 0;
}

void file_server_end(struct file_server *server)
{
	if (!server->pid)
		return;
	kill(server->pid, SIGKILL);
	while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
		;
	server->pid = 0;
}
