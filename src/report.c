/* SPDX-License-Identifier: MIT */
/* Errors in words, and exit statuses (docs/pdump.1, EXIT STATUS). */
#include "src/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/errand.h"
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
	case ERROR_BUSY:
		return EXIT_PARTIAL;
	case ERROR_NONE:
	case ERROR_TORN:
	case ERROR_ABSENT:
	case ERROR_CORRUPT:
	case ERROR_SYSTEM:
		break;
	}
	return EXIT_IO;
}

struct denial {
	pid_t pid;
	int os_errno;
	char text[2048];
};

static void explain(void *context)
{
	struct denial *denial = context;
	target_explain_denial(denial->pid, denial->os_errno, denial->text, sizeof(denial->text));
}

int report_error(const struct error *error, pid_t pid)
{
	log_error("%s", error->message);
	if (error->kind == ERROR_DENIED && pid > 0) {
		struct denial denial = {.pid = pid, .os_errno = error->os_errno};
		errand_run(explain, &denial);
		fputs(denial.text, stderr);
	}
	return status_of(error->kind);
}

bool report_is_timed(const struct options *options)
{
	for (size_t i = 0; i < options->writing.output_count; i++)
		if (output_format_is_timed(options->writing.outputs[i].format))
			return true;
	return options->writing.output_count == 0 &&
	       output_format_is_timed(options->writing.format);
}

struct session_options report_session_options(const struct options *options)
{
	return (struct session_options){
		.native = options->stacks.native,
		.wall = options->mode == MODE_WALL,
		.gil_only = options->stacks.gil,
		.cpu = options->mode == MODE_CPU,
		.internals = options->stacks.internals,
		.native_threads = options->stacks.native_threads,
		.nonblocking = options->stacks.nonblocking,
		.kernel = options->stacks.kernel,
		.subprocesses = options->subprocesses,
		.python_only = options->subprocesses && !options->others.native_processes,
		.by_thread = options->thread_roots,
		.join = options->stacks.join,
		.unwinder = options->stacks.unwinder,
		.stop = options->stop,
		.threads = options->stacks.threads,
		.thread_count = options->stacks.thread_count,
		.timed = report_is_timed(options),
		.rate = options->rate,
		.duration = options->duration,
		.capture = options->writing.capture,
	};
}

struct view_options report_view_options(const struct options *options)
{
	return (struct view_options){
		.title = options->writing.title,
		.icicle = options->writing.icicle,
		.min_width = options->writing.min_width,
		.source = options->writing.source,
		.source_root = {.fd = FOREIGN_NOWHERE},
		.lines = options->lines,
		.full_filenames = options->full_filenames,
		.color = options->color,
		.top = options->writing.top,
	};
}

void report_hold_standard_files(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			(void)open("/dev/null",
				   (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

const char *report_path(const struct options_output *output)
{
	return strcmp(output->path, "-") == 0 ? "standard output" : output->path;
}

bool report_write(const struct options *options, const struct profile *profile,
		  struct foreign_root sources, const struct options_output *output,
		  struct error *error)
{
	struct view_options form = report_view_options(options);
	form.source_root = sources;
	struct strbuf _cleanup_strbuf_ bytes;
	strbuf_init(&bytes);
	if (strcmp(output->path, "-") == 0 && output_format_is_binary(output->format) &&
	    isatty(STDOUT_FILENO))
		return error_set(error, ERROR_UNSUPPORTED,
				 "this format is nothing for a terminal: say -o FILE");
	return output_profile(profile, output->format, &form, &bytes, error) &&
	       output_file_write(output->path, bytes.text, bytes.size, error);
}
