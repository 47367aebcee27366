/* SPDX-License-Identifier: MIT */
/* The command lines of pdump and precord as one plain struct. */
#ifndef SRC_OPTIONS_H
#define SRC_OPTIONS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/log.h"
#include "output/output.h"
#include "sample/options.h"

enum { OPTIONS_MAX_OUTPUTS = 16, OPTIONS_MAX_THREADS = 256, OPTIONS_MAX_AREAS = 16 };

/* One -o, with the format that -f or the suffix gives it. */
struct options_output {
	const char *path; /* "-": stdout */
	enum output_format format;
};

/* All strings are those of argv (or of the program): nothing needs release. */
struct options {
	/* which process */
	pid_t pid;	/* 0: none given, start command instead */
	char **command; /* precord -- CMD ARG...: NULL-terminated; NULL: attach to pid */

	/* which threads and frames */
	bool native;
	bool native_threads; /* threads that Python does not know; native unless said otherwise */
	bool internals;
	bool nonblocking;		    /* never stop the process */
	bool kernel;			    /* what a blocked thread waits in */
	bool gil;			    /* only the thread that holds the GIL */
	pid_t threads[OPTIONS_MAX_THREADS]; /* --thread; none: all */
	size_t thread_count;
	enum join_method join;
	enum unwinder_choice unwinder;

	/* how it is shown */
	bool full_filenames;
	bool color; /* --color, NO_COLOR and the terminal already taken into account */
	bool json;  /* pdump */

	/* precord: when to sample, and what to count */
	enum sample_mode mode; /* -i is MODE_WALL */
	enum stop_choice stop;
	double rate;	   /* Hz */
	double duration;   /* seconds of wall time; 0: until the target ends or a signal */
	bool thread_roots; /* -t: a root frame for each thread */
	bool lines;	   /* false with -F */

	/* precord: what to write. output_count 0: see options_add_default_output */
	struct options_output outputs[OPTIONS_MAX_OUTPUTS];
	size_t output_count;
	enum output_format format; /* -f; OUTPUT_UNKNOWN: by the suffix */
	const char *title;	   /* NULL: made from the command line */
	bool icicle;
	double min_width;    /* per cent */
	const char *capture; /* --capture: file for raw samples; NULL: none */

	/* messages */
	enum log_level level;
	const char *areas[OPTIONS_MAX_AREAS];
	size_t area_count;
};

/*
 * Parse a command line into *options, defaults filled in. They return only when all is well:
 * a usage error ends the program with status 2, --help and --version with 0.
 */
void options_parse_pdump(int argc, char **argv, struct options *options);
void options_parse_precord(int argc, char **argv, struct options *options);

/* Turns on what -q, -v and --debug ask for. */
void options_apply_log(const struct options *options, const char *program);

/* True when no --thread was given, or one names this thread. */
bool options_thread_wanted(const struct options *options, pid_t tid);

/*
 * When there is no -o: adds "python3-812-20240131-235959.svg", made of the first word of the
 * target's command line, its pid and `seconds` since 1970. text must live as long as options.
 */
void options_add_default_output(struct options *options, const char *command_line, pid_t pid,
				uint64_t seconds, char *text, size_t size);

#endif
