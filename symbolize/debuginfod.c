/* SPDX-License-Identifier: MIT */
/*
 * From a build ID to its debug file by the servers in $DEBUGINFOD_URLS, through elfutils' client
 * library, which is loaded only when that is set (it takes longer than all of pdump). A server that
 * is silent, slow or sends without end costs no more than the limits for all files together; one
 * that fails twice is left alone. What comes is not believed before its build ID is compared.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "files/cache_folder.h"
#include "symbolize/internal.h"

enum { MIN_BUILD_ID = 8, MAX_FAILURES = 2 };

static const char cache_variable[] = "DEBUGINFOD_CACHE_PATH";

struct debuginfod_client;

/* As elfutils/debuginfod.h declares them. */
typedef int debuginfod_find(struct debuginfod_client *client, const unsigned char *id, int id_size,
			    char **path);

struct functions {
	struct debuginfod_client *(*begin)(void);
	void (*end)(struct debuginfod_client *client);
	debuginfod_find *find_debug, *find_program;
	void (*set_progress)(struct debuginfod_client *client,
			     int (*progress)(struct debuginfod_client *, long, long));
	void (*set_user_data)(struct debuginfod_client *client, void *value);
	void *(*get_user_data)(struct debuginfod_client *client);
};

struct debuginfod {
	struct symbolize_fetch limits;
	struct functions functions;
	struct debuginfod_client *client;
	int cache;	    /* its folder; -1: none yet */
	char *given_cache;  /* the variable's value before; "": none */
	struct table asked; /* build IDs */
	const char *path;   /* of the module that is being fetched for */
	uint64_t spent_ns, begin_ns, bytes_left;
	unsigned failures;
	bool started, over, programs;
	char note[128]; /* why it is over */
};

static void give_up(struct debuginfod *debuginfod, const char *format, ...) PRINTF_LIKE(2, 3);
static void give_up(struct debuginfod *debuginfod, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	if (!debuginfod->over)
		vsnprintf(debuginfod->note, sizeof(debuginfod->note), format, arguments);
	va_end(arguments);
	debuginfod->over = true;
}

static bool report(struct debuginfod *debuginfod, enum symbolize_fetch_event event, uint64_t bytes,
		   uint64_t size)
{
	const struct symbolize_fetch *limits = &debuginfod->limits;

	return !limits->progress ||
	       limits->progress(limits->context, event, debuginfod->path, bytes, size);
}

static bool load(struct functions *functions)
{
	static const char *const names[] = {
		"debuginfod_begin",	     "debuginfod_end",
		"debuginfod_find_debuginfo", "debuginfod_find_executable",
		"debuginfod_set_progressfn", "debuginfod_set_user_data",
		"debuginfod_get_user_data"};
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

/* Called by the library about once a second, also while nothing comes. Not zero: stop. */
static int on_progress(struct debuginfod_client *client, long bytes, long size)
{
	struct functions functions;

	/* It was loaded before, so that this only looks its names up. */
	if (!load(&functions))
		return 1;
	struct debuginfod *debuginfod = functions.get_user_data(client);
	const uint64_t got = bytes > 0 ? (uint64_t)bytes : 0, all = size > 0 ? (uint64_t)size : 0;
	const uint64_t spent = debuginfod->spent_ns + clock_now_ns() - debuginfod->begin_ns;
	if (spent > debuginfod->limits.seconds * UINT64_C(1000000000))
		give_up(debuginfod, "given up after %u s", debuginfod->limits.seconds);
	else if ((all > got ? all : got) > debuginfod->bytes_left)
		give_up(debuginfod, "given up: more than %u MB",
			(unsigned)(debuginfod->limits.bytes >> 20));
	else if (!report(debuginfod, SYMBOLIZE_FETCH_GOES_ON, got, all))
		give_up(debuginfod, "ended by a signal");
	return debuginfod->over;
}

/*
 * The library writes to its cache by path, through any link on the way. So the folder is opened and
 * judged here, and the library told of the descriptor; the dot makes a folder of the link. Nobody
 * else of us sets variables, so that those who ask for one meanwhile find it as it was.
 */
static bool set_cache(struct debuginfod *debuginfod)
{
	const char *given = secure_getenv(cache_variable);
	char path[40];

	debuginfod->given_cache = alloc_string(given ? given : "");
	debuginfod->cache =
		given && *given ? cache_folder_at(given) : cache_folder_open("debuginfod_client");
	snprintf(path, sizeof(path), "/proc/self/fd/%d/.", debuginfod->cache);
	return debuginfod->cache >= 0 && !setenv(cache_variable, path, 1);
}

static void start(struct debuginfod *debuginfod)
{
	const struct functions *functions = &debuginfod->functions;

	debuginfod->started = true;
	if (!set_cache(debuginfod)) {
		give_up(debuginfod,
			"nobody was asked: there is no cache folder that user %u alone "
			"may write to (DEBUGINFOD_CACHE_PATH)",
			(unsigned)geteuid());
		return;
	}
	if (!load(&debuginfod->functions)) {
		give_up(debuginfod, "DEBUGINFOD_URLS is set, but libdebuginfod.so.1 is not here");
		return;
	}
	debuginfod->client = functions->begin();
	if (!debuginfod->client) {
		give_up(debuginfod, "libdebuginfod does not start");
		return;
	}
	functions->set_user_data(debuginfod->client, debuginfod);
	functions->set_progress(debuginfod->client, on_progress);
}

struct debuginfod *debuginfod_new(const struct symbolize_fetch *limits)
{
	struct debuginfod *debuginfod = alloc_zeroed(1, sizeof(*debuginfod));

	debuginfod->limits = *limits;
	debuginfod->bytes_left = limits->bytes;
	debuginfod->cache = -1;
	table_init(&debuginfod->asked);
	return debuginfod;
}

void debuginfod_free(struct debuginfod *debuginfod)
{
	if (!debuginfod)
		return;
	if (debuginfod->client)
		debuginfod->functions.end(debuginfod->client);
	if (debuginfod->given_cache)
		setenv(cache_variable, debuginfod->given_cache, 1);
	free(debuginfod->given_cache);
	if (debuginfod->cache >= 0)
		close(debuginfod->cache);
	table_release(&debuginfod->asked);
	free(debuginfod);
}

const char *debuginfod_note(const struct debuginfod *debuginfod)
{
	return debuginfod ? debuginfod->note : "";
}

/* True the first time alone. */
static bool is_new(struct debuginfod *debuginfod, const struct build_id *id)
{
	const uint64_t key = hash_bytes(id->bytes, id->size);
	uint32_t ignored;

	if (table_find(&debuginfod->asked, key, id->size, &ignored))
		return false;
	table_put(&debuginfod->asked, key, id->size, 0);
	return true;
}

static int ask(struct debuginfod *debuginfod, const struct build_id *id)
{
	struct stat status;

	report(debuginfod, SYMBOLIZE_FETCH_BEGINS, 0, 0);
	debuginfod->begin_ns = clock_now_ns();
	debuginfod_find *const find = debuginfod->programs ? debuginfod->functions.find_program
							   : debuginfod->functions.find_debug;
	const int fd = find(debuginfod->client, id->bytes, id->size, NULL);
	debuginfod->spent_ns += clock_now_ns() - debuginfod->begin_ns;
	report(debuginfod, SYMBOLIZE_FETCH_ENDS, 0, 0);
	if (fd >= 0 && !fstat(fd, &status)) {
		const uint64_t size = (uint64_t)status.st_size;
		debuginfod->bytes_left -=
			size < debuginfod->bytes_left ? size : debuginfod->bytes_left;
	} else if (fd < 0 && fd != -ENOENT && !debuginfod->over) {
		/* Once: may be about this file alone. */
		give_up(debuginfod, "no answer: %s", strerror(-fd));
		debuginfod->over = ++debuginfod->failures == MAX_FAILURES;
	}
	return fd < 0 ? -1 : fd;
}

int debuginfod_fetch(struct debuginfod *debuginfod, const struct build_id *id, const char *path)
{
	if (!debuginfod || debuginfod->over || id->size < MIN_BUILD_ID ||
	    id->size > sizeof(id->bytes) || path[0] != '/' || !is_new(debuginfod, id))
		return -1;
	if (!debuginfod->started)
		start(debuginfod);
	debuginfod->path = path;
	return debuginfod->over ? -1 : ask(debuginfod, id);
}

/* ---- programs and libraries ---- */

struct symbolize_programs {
	struct debuginfod *debuginfod;
};

struct symbolize_programs *symbolize_programs_new(const struct symbolize_fetch *fetch)
{
	struct symbolize_programs *programs = alloc_zeroed(1, sizeof(*programs));

	programs->debuginfod = debuginfod_new(fetch);
	programs->debuginfod->programs = true;
	return programs;
}

void symbolize_programs_free(struct symbolize_programs *programs)
{
	if (programs)
		debuginfod_free(programs->debuginfod);
	free(programs);
}

int symbolize_programs_fetch(struct symbolize_programs *programs, const struct build_id *id,
			     const char *path)
{
	return debuginfod_fetch(programs->debuginfod, id, path);
}
