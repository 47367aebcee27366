/* SPDX-License-Identifier: MIT */
/* The command lines of pdump and precord as one plain struct. */
#ifndef SRC_OPTIONS_H
#define SRC_OPTIONS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/log.h"
#include "copy/options.h"
#include "output/output.h"
#include "profile/profile.h"
#include "target/core.h"

enum {
	OPTIONS_MAX_OUTPUTS = 16,
	OPTIONS_MAX_THREADS = 256,
	OPTIONS_MAX_AREAS = 16,
	OPTIONS_MAX_PROCESSES = 4096,
	OPTIONS_MAX_FILES = 4096,
};

/* One -o, with the format that -f or the suffix gives it. */
struct options_output {
	const char *path; /* "-": stdout */
	enum output_format format;
};

/* What is said on stderr, and other means of finding errors. */
struct options_log {
	enum log_level level;
	const char *areas[OPTIONS_MAX_AREAS];
	size_t area_count;
	bool no_sandbox; /* parse with all rights */
};

/* Processes beside those that are given by their numbers. */
struct options_others {
	const char *cgroup;    /* instead: all of that control group; NULL: of none */
	bool native_processes; /* with subprocesses: also what is not Python */
};

/* Which threads and frames. */
struct options_stacks {
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
};

/* precord: what to write. output_count 0: see options_add_default_output. */
struct options_writing {
	struct options_output outputs[OPTIONS_MAX_OUTPUTS];
	size_t output_count;
	enum output_format format; /* -f; OUTPUT_UNKNOWN: by the suffix */
	const char *title;	   /* NULL: made from the command line */
	bool icicle;
	double min_width; /* per cent */
	size_t top;	  /* rows of tables in text; 0: as many as are useful */
	const char *focus, *ignore, *include, *exclude; /* regular expressions; NULL: none */
	enum source_choice source;
	const char *capture; /* --capture: file for raw samples; NULL: none */
};

/* All strings are those of argv (or of the program): nothing needs release. */
struct options {
	/* which process */
	struct target_core_options core; /* pdump --core: instead; path NULL: none */
	char **command; /* precord -- CMD ARG...: NULL-terminated; NULL: attach to pid */
	pid_t pids[OPTIONS_MAX_PROCESSES]; /* all of them, each once; none: start command, or core
					    */
	size_t pid_count;
	bool subprocesses; /* what they have started, too; with a cgroup set */
	struct options_others others;
	bool merge;			      /* pdump: equal stacks once */
	const char *files[OPTIONS_MAX_FILES]; /* with merge: saved dumps; "-": stdin */
	size_t file_count;

	struct options_stacks stacks;

	/* how it is shown */
	bool full_filenames;
	bool color; /* --color, NO_COLOR and the terminal already taken into account */
	bool json;  /* pdump */

	/* precord: when to sample, and what to count */
	enum sample_mode mode; /* -i is MODE_WALL */
	enum stop_choice stop;
	double rate;	 /* Hz */
	double snapshot; /* seconds between two times that all is written meanwhile; 0: never */
	bool open;	 /* what is written, in a browser */
	double duration; /* seconds of wall time; 0: until the target ends or a signal */
	enum root_choice thread_roots; /* -t */
	bool lines;		       /* false with -F; pdump, too */

	struct options_writing writing;

	/* messages */
	struct options_log log;
};

/*
 * Parse a command line into *options, defaults filled in. They return only when all is well:
 * a usage error ends the program with status 2, --help and --version with 0.
 */
void options_parse_pdump(int argc, char **argv, struct options *options);
void options_parse_precord(int argc, char **argv, struct options *options);

/* Turns on what -q, -v and --debug ask for. */
void options_apply_log(const struct options *options, const char *program);

/* Takes the process for a thread that was given in its place, and says so; each is there once. */
void options_find_processes(struct options *options);

/* The first output that a browser shows; NULL: there is none. */
const struct options_output *options_browsable(const struct options *options);

/* True when no --thread was given, or one names this thread. */
bool options_thread_wanted(const struct options *options, pid_t tid);

/*
 * When there is no -o: adds "python3-812-20240131-235959.svg", made of the first word of the
 * target's command line, its pid and `seconds` since 1970. text must live as long as options.
 */
void options_add_default_output(struct options *options, const char *command_line, pid_t pid,
				uint64_t seconds, char *text, size_t size);

#endif
