/* SPDX-License-Identifier: MIT */
/*
 * From a build ID to its debug file by the servers in $DEBUGINFOD_URLS, which another process asks
 * (symbolize/fetcher.c). A server that is silent, slow or sends without end costs no more than the
 * limits for all files together; one that fails twice is left alone. What comes is not believed
 * before its build ID is compared.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "symbolize/fetcher.h"
#include "symbolize/internal.h"

enum { MIN_BUILD_ID = 8, MAX_FAILURES = 2 };

static const uint64_t SECOND_NS = UINT64_C(1000000000);

struct debuginfod {
	struct symbolize_fetch limits;
	struct table asked; /* build IDs */
	const char *path;   /* of the module that is being fetched for */
	uint64_t spent_ns, begin_ns, bytes_left;
	unsigned failures;
	bool over, programs;
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

/* What is waited for next; 0: nothing more. */
static uint64_t judge(struct debuginfod *debuginfod, const struct fetcher_news *news)
{
	const uint64_t limit = debuginfod->limits.seconds * SECOND_NS;
	const uint64_t spent = debuginfod->spent_ns + clock_now_ns() - debuginfod->begin_ns;

	if (spent >= limit)
		give_up(debuginfod, "given up after %u s", debuginfod->limits.seconds);
	else if ((news->size > news->bytes ? news->size : news->bytes) > debuginfod->bytes_left)
		give_up(debuginfod, "given up: more than %u MB",
			(unsigned)(debuginfod->limits.bytes >> 20));
	else if (!report(debuginfod, SYMBOLIZE_FETCH_GOES_ON, news->bytes, news->size))
		give_up(debuginfod, "ended by a signal");
	if (debuginfod->over)
		return 0;
	return limit - spent < SECOND_NS ? limit - spent : SECOND_NS;
}

/* Until it is over, or enough. */
static int hear(struct debuginfod *debuginfod, int end, struct fetcher_news *news)
{
	const uint64_t limit_ns = debuginfod->limits.seconds * SECOND_NS;
	uint64_t wait_ns = limit_ns < SECOND_NS ? limit_ns : SECOND_NS;

	while (wait_ns > 0) {
		struct fetcher_news more;
		int fd;
		if (fetcher_hear(end, wait_ns, &more, &fd)) {
			*news = more;
			if (more.state != FETCHER_GOES_ON)
				return fd;
			if (fd >= 0)
				close(fd);
		} else if (errno == EPIPE) {
			give_up(debuginfod, "who asks the servers has ended");
			break;
		}
		wait_ns = judge(debuginfod, news);
	}
	return -1;
}

struct debuginfod *debuginfod_new(const struct symbolize_fetch *limits)
{
	struct debuginfod *debuginfod = alloc_zeroed(1, sizeof(*debuginfod));

	debuginfod->limits = *limits;
	debuginfod->bytes_left = limits->bytes;
	table_init(&debuginfod->asked);
	return debuginfod;
}

void debuginfod_free(struct debuginfod *debuginfod)
{
	if (!debuginfod)
		return;
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

static void note_answer(struct debuginfod *debuginfod, const struct fetcher_news *news)
{
	switch ((enum fetcher_state)news->state) {
	case FETCHER_NO_CACHE:
		give_up(debuginfod,
			"nobody was asked: there is no cache folder that user %u alone "
			"may write to (DEBUGINFOD_CACHE_PATH)",
			(unsigned)news->user);
		break;
	case FETCHER_NO_LIBRARY:
		give_up(debuginfod, "DEBUGINFOD_URLS is set, but libdebuginfod.so.1 is not here");
		break;
	case FETCHER_NO_CLIENT:
		give_up(debuginfod, "libdebuginfod does not start");
		break;
	case FETCHER_GOES_ON:
	case FETCHER_DONE:
		if (!news->os_errno || news->os_errno == ENOENT || debuginfod->over)
			break;
		/* Once: may be about this file alone. */
		give_up(debuginfod, "no answer: %s", strerror(news->os_errno));
		debuginfod->over = ++debuginfod->failures == MAX_FAILURES;
	}
}

static int ask(struct debuginfod *debuginfod, const struct build_id *id)
{
	struct fetcher_news news = {0};
	struct stat status;
	_cleanup_close_ int end = fetcher_ask(id, debuginfod->programs);

	if (end < 0) {
		give_up(debuginfod, "nobody is here who could ask");
		return -1;
	}
	report(debuginfod, SYMBOLIZE_FETCH_BEGINS, 0, 0);
	debuginfod->begin_ns = clock_now_ns();
	const int fd = hear(debuginfod, end, &news);
	debuginfod->spent_ns += clock_now_ns() - debuginfod->begin_ns;
	report(debuginfod, SYMBOLIZE_FETCH_ENDS, 0, 0);
	note_answer(debuginfod, &news);
	if (fd >= 0 && !fstat(fd, &status)) {
		const uint64_t size = (uint64_t)status.st_size;
		debuginfod->bytes_left -=
			size < debuginfod->bytes_left ? size : debuginfod->bytes_left;
	}
	return fd;
}

int debuginfod_fetch(struct debuginfod *debuginfod, const struct build_id *id, const char *path)
{
	if (!debuginfod || debuginfod->over || id->size < MIN_BUILD_ID ||
	    id->size > sizeof(id->bytes) || path[0] != '/' || !is_new(debuginfod, id))
		return -1;
	debuginfod->path = path;
	return ask(debuginfod, id);
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
