/* SPDX-License-Identifier: MIT */
/*
 * Asks by elfutils' client library, which is loaded when the first file is asked for. What it and
 * curl open, and who they talk to, is theirs to choose: nothing else is in this process.
 */
#include "symbolize/fetcher.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/sandbox.h"
#include "files/cache_folder.h"
#include "files/fd_message.h"
#include "symbolize/symbolize.h"

static const char cache_variable[] = "DEBUGINFOD_CACHE_PATH";

struct question {
	uint32_t program;
	struct build_id id;
};

static int asked = -1; /* our end */
static pid_t process;

/* ---- who asks ---- */

pid_t symbolize_fetcher_process(void)
{
	return process;
}

int fetcher_ask(const struct build_id *id, bool program)
{
	const struct question question = {.program = program, .id = *id};
	const struct iovec part = {(void *)(uintptr_t)&question, sizeof(question)};
	int ends[2];
	if (asked < 0 || !fd_message_pair(ends))
		return -1;
	_cleanup_close_ int theirs = ends[1];
	if (fd_message_send(asked, &part, 1, &theirs, 1, 0))
		return ends[0];
	close(ends[0]);
	return -1;
}

bool fetcher_hear(int end, uint64_t limit_ns, struct fetcher_news *news, int *fd)
{
	const uint64_t NS_PER_MS = 1000000;
	const struct iovec part = {news, sizeof(*news)};
	struct pollfd readable = {.fd = end, .events = POLLIN};
	*fd = -1;
	const int ready = poll(&readable, 1, (int)((limit_ns + NS_PER_MS - 1) / NS_PER_MS));
	if (ready == 0)
		errno = ETIMEDOUT;
	if (ready <= 0)
		return false;
	if (fd_message_receive(end, &part, 1, fd, 1) == sizeof(*news))
		return true;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = EPIPE;
	return false;
}

/* ---- who is asked ---- */

struct debuginfod_client;

/* As elfutils/debuginfod.h declares them. */
typedef int debuginfod_find(struct debuginfod_client *client, const unsigned char *id, int id_size,
			    char **path);

struct functions {
	struct debuginfod_client *(*begin)(void);
	debuginfod_find *find_debug, *find_program;
	void (*set_progress)(struct debuginfod_client *client,
			     int (*progress)(struct debuginfod_client *, long, long));
};

static struct fetcher {
	struct functions functions;
	struct debuginfod_client *client;
	enum fetcher_state state; /* FETCHER_GOES_ON: it is ready */
	int answer;		  /* where it is told how the present file goes on */
} fetcher;

static bool load(struct functions *functions)
{
	static const char *const names[] = {"debuginfod_begin", "debuginfod_find_debuginfo",
					    "debuginfod_find_executable",
					    "debuginfod_set_progressfn"};
	void *symbols[sizeof(names) / sizeof(*names)];
	/* Never unloaded: what it is made of (curl) keeps state for the whole process. */
	void *library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);

	_Static_assert(sizeof(symbols) == sizeof(*functions), "one for each");
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!library || !(symbols[i] = dlsym(library, names[i])))
			return false;
	memcpy(functions, symbols, sizeof(symbols));
	return true;
}

static bool tell(const struct fetcher_news *news, int fd, int flags)
{
	const struct iovec part = {(void *)(uintptr_t)news, sizeof(*news)};
	return fd_message_send(fetcher.answer, &part, 1, &fd, fd >= 0, flags);
}

/* Called by the library about once a second, also while nothing comes. Not zero: stop. */
static int on_progress(struct debuginfod_client *client, long bytes, long size)
{
	(void)client;
	const struct fetcher_news news = {.state = FETCHER_GOES_ON,
					  .user = geteuid(),
					  .bytes = bytes > 0 ? (uint64_t)bytes : 0,
					  .size = size > 0 ? (uint64_t)size : 0};
	/* Who does not listen now hears the next one. */
	return !tell(&news, -1, MSG_DONTWAIT) && errno != EAGAIN;
}

/*
 * The library writes to its cache by path, through any link on the way. So the folder is opened and
 * judged here, and the library told of the descriptor; the dot makes a folder of the link.
 */
static bool set_cache(void)
{
	const char *given = secure_getenv(cache_variable);
	char path[40];
	const int cache =
		given && *given ? cache_folder_at(given) : cache_folder_open("debuginfod_client");

	snprintf(path, sizeof(path), "/proc/self/fd/%d/.", cache);
	return cache >= 0 && !setenv(cache_variable, path, 1);
}

static enum fetcher_state get_ready(void)
{
	if (!set_cache())
		return FETCHER_NO_CACHE;
	if (!load(&fetcher.functions))
		return FETCHER_NO_LIBRARY;
	fetcher.client = fetcher.functions.begin();
	if (!fetcher.client)
		return FETCHER_NO_CLIENT;
	fetcher.functions.set_progress(fetcher.client, on_progress);
	return FETCHER_GOES_ON;
}

static void fetch(const struct question *question)
{
	struct fetcher_news news = {.state = fetcher.state, .user = geteuid()};
	_cleanup_close_ int fd = -1;
	if (fetcher.state == FETCHER_GOES_ON) {
		debuginfod_find *const find = question->program ? fetcher.functions.find_program
								: fetcher.functions.find_debug;
		const int found = find(fetcher.client, question->id.bytes, question->id.size, NULL);
		fd = found < 0 ? -1 : found;
		news.state = FETCHER_DONE;
		news.os_errno = found < 0 ? -found : 0;
	}
	(void)tell(&news, fd, 0);
}

/* Nothing is kept open that others wait for: who reads what we write, who asks the broker. */
static void keep_only(int socket)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	const bool speaks = getenv("DEBUGINFOD_VERBOSE") != NULL;
	for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++)
		if (fd != STDERR_FILENO || !speaks)
			dup2(null, fd);
	for (int fd = STDERR_FILENO + 1; fd < socket; fd++)
		close(fd);
	close_range((unsigned)socket + 1, ~0u, 0);
}

static void __attribute__((noreturn)) serve(int socket)
{
	struct question question;
	const struct iovec part = {&question, sizeof(question)};
	ssize_t got;
	bool ready = false;
	keep_only(socket);
	while ((got = fd_message_receive(socket, &part, 1, &fetcher.answer, 1)) > 0) {
		if (!ready)
			fetcher.state = get_ready();
		ready = true;
		if (got == sizeof(question) && question.id.size <= sizeof(question.id.bytes) &&
		    fetcher.answer >= 0)
			fetch(&question);
		if (fetcher.answer >= 0)
			close(fetcher.answer);
	}
	_exit(0);
}

bool symbolize_fetcher_start(bool sandboxed)
{
	int end;
	process = fd_message_fork(&end);
	if (process == 0) {
		if (sandboxed)
			sandbox_enter(SANDBOX_FETCHES, (struct sandbox_user){0});
		serve(end);
	}
	if (process < 0) {
		process = 0;
		return false;
	}
	asked = end;
	return true;
}
