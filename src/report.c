/* SPDX-License-Identifier: MIT */
/* Errors in words, and exit statuses (docs/pdump.1, EXIT STATUS). */
#include "src/report.h"

#include <stdio.h>

#include "base/log.h"
#include "target/target.h"

static int status_of(enum error_kind kind)
{
	switch (kind) {
	case ERROR_GONE:
		return EXIT_NO_PROCESS;
	case ERROR_DENIED:
		return EXIT_DENIED;
	case ERROR_UNSUPPORTED:
		return EXIT_NOT_PYTHON;
	case ERROR_NONE:
	case ERROR_TORN:
	case ERROR_ABSENT:
	case ERROR_CORRUPT:
	case ERROR_BUSY:
	case ERROR_SYSTEM:
		break;
	}
	return EXIT_IO;
}

int report_error(const struct error *error, pid_t pid)
{
	log_error("%s", error->message);
	if (error->kind == ERROR_DENIED && pid > 0) {
		char text[2048];
		target_explain_denial(pid, error->os_errno, text, sizeof(text));
		fputs(text, stderr);
	}
	return status_of(error->kind);
}

struct session_options report_session_options(const struct options *options)
{
	return (struct session_options){
		.native = options->native,
		.wall = options->mode == MODE_WALL,
		.gil_only = options->gil,
		.internals = options->internals,
		.native_threads = options->native_threads,
		.nonblocking = options->nonblocking,
		.kernel = options->kernel,
		.by_thread = options->thread_roots,
		.join = options->join,
		.unwinder = options->unwinder,
		.stop = options->stop,
		.threads = options->threads,
		.thread_count = options->thread_count,
		.rate = options->rate,
		.capture = options->capture,
	};
}

struct output_options report_output_options(const struct options *options)
{
	return (struct output_options){
		.title = options->title,
		.icicle = options->icicle,
		.min_width = options->min_width,
		.lines = options->lines,
		.full_filenames = options->full_filenames,
		.color = options->color,
	};
}

void report_raise_file_limit(struct rlimit *before)
{
	if (getrlimit(RLIMIT_NOFILE, before) != 0) {
		*before = (struct rlimit){1024, RLIM_INFINITY};
		return;
	}
	struct rlimit raised = *before;
	raised.rlim_cur = raised.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &raised) != 0)
		log_verbose("the limit of open files stays as it is");
}
