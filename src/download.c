/* SPDX-License-Identifier: MIT */
/* Progress of downloads on the terminal, and their end by Ctrl-C: what there is gets shown without.
 */
#include "src/download.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/guardian.h"
#include "base/log.h"
#include "base/utf8.h"

enum { NAME_MOST = 60 };

static const int signals[] = {SIGINT, SIGTERM};

static volatile sig_atomic_t ended;

static void note_end(int number)
{
	(void)number;
	ended = 1;
}

/* The two signals get through, and are noted alone. */
static void take_signals(struct download *download)
{
	const struct sigaction action = {.sa_handler = note_end};
	sigset_t set;
	sigemptyset(&set);
	for (int i = 0; i < 2; i++) {
		sigaction(signals[i], &action, &download->actions[i]);
		sigaddset(&set, signals[i]);
	}
	pthread_sigmask(SIG_UNBLOCK, &set, &download->mask);
}

static void give_signals_back(struct download *download)
{
	pthread_sigmask(SIG_SETMASK, &download->mask, NULL);
	for (int i = 0; i < 2; i++)
		sigaction(signals[i], &download->actions[i], NULL);
	if (download->shown)
		fputs("\r\033[K", stderr);
	download->shown = false;
}

static void show(struct download *download, const char *path, uint64_t bytes, uint64_t size)
{
	const char *slash = strrchr(path, '/');
	if (download->quiet || !isatty(STDERR_FILENO) || !guardian_in_foreground())
		return;
	const char *name = slash ? slash + 1 : path;
	_cleanup_strbuf_ struct strbuf clean;
	strbuf_init(&clean);
	utf8_add_clean(&clean, name, strnlen(name, NAME_MOST));
	fprintf(stderr, "\rdebug information of %s", clean.text);
	if (size > 0)
		fprintf(stderr, ": %.1f of %.1f MB", (double)bytes / 1e6, (double)size / 1e6);
	fputs("\033[K", stderr);
	fflush(stderr);
	download->shown = true;
}

static bool on_progress(void *context, enum symbolize_fetch_event event, const char *path,
			uint64_t bytes, uint64_t size)
{
	struct download *download = context;
	switch (event) {
	case SYMBOLIZE_FETCH_BEGINS:
		take_signals(download);
		break;
	case SYMBOLIZE_FETCH_GOES_ON:
		show(download, path, bytes, size);
		break;
	case SYMBOLIZE_FETCH_ENDS:
		give_signals_back(download);
		break;
	}
	return !ended;
}

bool download_wanted(void)
{
	const char *servers = getenv("DEBUGINFOD_URLS");
	if (!servers || !servers[strspn(servers, " ")])
		return false;
	if (secure_getenv("DEBUGINFOD_URLS"))
		return true;
	log_info("DEBUGINFOD_URLS is ignored: the program file gives rights that its user has not");
	return false;
}

void download_init(struct download *download, unsigned seconds, unsigned megabytes, bool quiet)
{
	*download = (struct download){
		.quiet = quiet,
		.fetch = {.progress = on_progress,
			  .context = download,
			  .seconds = seconds,
			  .bytes = (uint64_t)megabytes << 20},
	};
}
