/* SPDX-License-Identifier: MIT */
/*
 * argv into struct options, by argp: what several commands know, in tables that each command's own
 * one includes (pdump_options.c, precord_options.c). The only file below the mains that may end the
 * program.
 */
#include "src/options_internal.h"

#include <limits.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "src/file_server.h"

enum { USAGE_STATUS = 2 };

/* clang-format off */
/* Keys of options that have no letter; those of one command alone are in its own file. */
enum {
	KEY_INTERNALS = 0x100, KEY_NATIVE_THREADS, KEY_JOIN, KEY_UNWINDER, KEY_FULL_FILENAMES,
	KEY_THREAD, KEY_COLOR, KEY_DEBUG, KEY_USAGE, KEY_FLAME, KEY_ICICLE, KEY_TITLE,
	KEY_MIN_WIDTH, KEY_NONBLOCKING, KEY_KERNEL, KEY_THREADS, KEY_FOCUS, KEY_IGNORE,
	KEY_INCLUDE, KEY_EXCLUDE, KEY_SOURCE, KEY_OPEN, KEY_NATIVE_PROCESSES, KEY_CGROUP,
	KEY_NO_SANDBOX
};

static const struct argp_option common_options[] = {
	{ "pid", 'p', "PID", 0, "The process to look at; the same as PID alone", 1 },
	{ "subprocesses", 's', NULL, 0, "The processes that it has started, too, and those that they"
	  " have; a recording has those that start later as well", 1 },
	{ "cgroup", KEY_CGROUP, "PATH|self", 0, "All processes of a control group (of a container, a"
	  " service) and of those below it: its folder, or its name below the mount; self: our own"
	  " group, without us", 1 },
	{ "native-processes", KEY_NATIVE_PROCESSES, "yes|no", 0, "With -s or --cgroup, the native stacks"
	  " of those that are not Python; default: no", 2 },
	{ "native", 'n', NULL, 0, "Native frames (C, C++, Cython, Rust, Fortran) merged with the"
	  " Python frames; without it Python frames only", 2 },
	{ "gil", 'g', NULL, 0, "Only the thread that holds the GIL", 2 },
	{ "thread", KEY_THREAD, "TID", 0, "Only this OS thread (repeatable)", 2 },
	{ "native-threads", KEY_NATIVE_THREADS, "yes|no", 0, "Threads that Python does not know"
	  " (OpenMP, BLAS, Rust); default: yes with --native", 2 },
	{ "internals", KEY_INTERNALS, NULL, 0, "Keep the interpreter's own frames", 2 },
	{ "kernel", KEY_KERNEL, NULL, 0, "What a blocked thread waits in: the kernel's functions,"
	  " where they may be read, and the system call", 2 },
	{ "nonblocking", KEY_NONBLOCKING, NULL, 0, "Never stop the process, and trace nothing; Python"
	  " frames only, and a stack may be torn: what is seen to be is left out and counted", 2 },
	{ "color", KEY_COLOR, "WHEN", 0, "auto (default), always or never; NO_COLOR is respected",
	  3 },
	{ "join", KEY_JOIN, "METHOD", 0, "Evidence that ties OS threads to Python threads: auto"
	  " (default), native-id, fs-base, rbx or pthread-tid (debugging)", 8 },
	{ "unwinder", KEY_UNWINDER, "KIND", 0, "snapshot (default): unwind a copy; ptrace:"
	  " libunwind-ptrace on the stopped thread, for debugging", 8 },
	{ 0 },
};

/* Of all commands. */
static const struct argp_option general_options[] = {
	{ "full-filenames", KEY_FULL_FILENAMES, NULL, 0, "Do not shorten paths", 3 },
	{ "quiet", 'q', NULL, 0, "Errors only on stderr", 9 },
	{ "verbose", 'v', NULL, 0, "More on stderr", 9 },
	{ "debug", KEY_DEBUG, "AREA", 0, "Much more on stderr about one area: target, unwind,"
	  " python, join, sample, symbolize, pause or all (repeatable)", 9 },
	{ "no-sandbox", KEY_NO_SANDBOX, NULL, 0, "Parse files with all rights that there are"
	  " (debugging)", 9 },
	{ "help", 'h', NULL, 0, "Print this help and exit", 10 },
	{ "usage", KEY_USAGE, NULL, OPTION_HIDDEN, NULL, 10 },
	{ "version", 'V', NULL, 0, "Print the version and exit", 10 },
	{ 0 },
};

/* Of commands that write profiles. */
static const struct argp_option profile_options[] = {
	{ "output", 'o', "FILE", 0, "Write the profile there, the format by the suffix"
	  " (repeatable; - is stdout); precord's default: a flame graph named CMD-PID-TIME.svg", 1 },
	{ "format", 'f', "FORMAT", 0, "svg, html, folded, json, jsonl, speedscope, pprof, firefox, trace, cpuprofile or markdown, "
	  "whatever the suffix says", 1 },
	{ "open", KEY_OPEN, NULL, 0, "Show what was written in a browser: the first SVG, HTML, or"
	  " Firefox profile, which is kept ready for profiler.firefox.com until that has fetched it", 1 },
	{ "threads", KEY_THREADS, "name|each", OPTION_ARG_OPTIONAL, "A root frame for all threads"
	  " of one name (default), or for each thread", 3 },
	{ NULL, 't', NULL, 0, "The same as --threads=name", 3 },
	{ "function", 'F', NULL, 0, "No line numbers: one box a function", 3 },
	{ "flame", KEY_FLAME, NULL, 0, "SVG with the root at the bottom (default)", 4 },
	{ "icicle", KEY_ICICLE, NULL, 0, "SVG with the root at the top", 4 },
	{ "title", KEY_TITLE, "TEXT", 0, "Title of the SVG", 4 },
	{ "min-width", KEY_MIN_WIDTH, "PCT", 0, "Leave out boxes below this share of all samples;"
	  " default 0.1 per cent", 4 },
	{ "source", KEY_SOURCE, "none|auto", 0, "Source texts in HTML: none, or those of small files"
	  " that can be read (auto, the default)", 4 },
	{ "focus", KEY_FOCUS, "REGEX", 0, "Only stacks with a frame whose text matches", 5 },
	{ "ignore", KEY_IGNORE, "REGEX", 0, "No stacks with a frame whose text matches", 5 },
	{ "include", KEY_INCLUDE, "REGEX", 0, "Of each stack, only the frames whose text matches", 5 },
	{ "exclude", KEY_EXCLUDE, "REGEX", 0, "Of each stack, no frames whose text matches", 5 },
	{ 0 },
};

/* clang-format on */

int options_choose(const struct argp_state *state, const char *option, const char *value,
		   const char *const names[])
{
	char list[128] = "";
	for (int i = 0; names[i]; i++) {
		if (strcmp(value, names[i]) == 0)
			return i;
		size_t used = strlen(list);
		snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", names[i]);
	}
	argp_error(state, "--%s=%s: there is only: %s", option, value, list);
	return 0;
}

pid_t options_id(const struct argp_state *state, const char *what, const char *text)
{
	char *end;
	const long id = strtol(text, &end, 10);
	if (end == text || *end || id <= 0 || id > INT_MAX)
		argp_error(state, "'%s' is not a %s id", text, what);
	return (pid_t)id;
}

double options_number(const struct argp_state *state, const char *option, const char *text,
		      const struct options_unit *units, double lowest, double highest)
{
	char *end;
	double value = strtod(text, &end);
	bool known = end != text && *end == '\0';
	for (; end != text && units->name; units++) {
		if (strcasecmp(end, units->name) == 0) {
			value *= units->factor;
			known = true;
			break;
		}
	}
	/* Asked this way round so that "nan" is refused. */
	if (!known || !(value >= lowest && value <= highest))
		argp_error(state, "--%s=%s: must be a number from %g to %.0f", option, text, lowest,
			   highest);
	return value;
}

/* Unless it is there; false: there is no room for it. */
static bool add_process(struct options *options, pid_t pid)
{
	for (size_t i = 0; i < options->pid_count; i++)
		if (options->pids[i] == pid)
			return true;
	if (options->pid_count == OPTIONS_MAX_PROCESSES)
		return false;
	options->pids[options->pid_count++] = pid;
	return true;
}

void options_add_pid(const struct argp_state *state, struct options *options, const char *text)
{
	if (!add_process(options, options_id(state, "process", text)))
		argp_error(state, "at most %d processes", OPTIONS_MAX_PROCESSES);
}

static void add_thread(const struct argp_state *state, struct options *options, const char *text)
{
	if (options->stacks.thread_count == OPTIONS_MAX_THREADS)
		argp_error(state, "at most %d --thread", OPTIONS_MAX_THREADS);
	options->stacks.threads[options->stacks.thread_count++] = options_id(state, "thread", text);
}

static void add_area(const struct argp_state *state, struct options *options, const char *text)
{
	/* The first arguments of log_debug(). */
	static const char *const names[] = {"target",	 "unwind", "python", "join", "sample",
					    "symbolize", "pause",  "all",    NULL};
	if (options->log.area_count == OPTIONS_MAX_AREAS)
		argp_error(state, "at most %d --debug", OPTIONS_MAX_AREAS);
	const int chosen = options_choose(state, "debug", text, names);
	options->log.areas[options->log.area_count++] = names[chosen];
}

static bool choose_color(const struct argp_state *state, const char *value)
{
	static const char *const names[] = {"auto", "always", "never", NULL};
	const int chosen = value ? options_choose(state, "color", value, names) : 0;
	if (chosen)
		return chosen == 1;
	const char *no_color = getenv("NO_COLOR");
	const char *terminal = getenv("TERM");
	return isatty(STDOUT_FILENO) && !(no_color && *no_color) &&
	       !(terminal && strcmp(terminal, "dumb") == 0);
}

static enum join_method choose_join(const struct argp_state *state, const char *value)
{
	static const char *const names[] = {
		[JOIN_AUTO] = "auto",
		[JOIN_NATIVE_ID] = "native-id",
		[JOIN_FS_BASE] = "fs-base",
		[JOIN_RBX] = "rbx",
		[JOIN_PTHREAD_TID] = "pthread-tid",
		NULL,
	};
	return options_choose(state, "join", value, names);
}

static enum unwinder_choice choose_unwinder(const struct argp_state *state, const char *value)
{
	static const char *const names[] = {
		[UNWINDER_SNAPSHOT] = "snapshot",
		[UNWINDER_PTRACE] = "ptrace",
		NULL,
	};
	return options_choose(state, "unwinder", value, names);
}

const char *const options_stop_names[] = {
	[STOP_AUTO] = "auto",
	[STOP_INTERRUPT] = "interrupt",
	[STOP_CPU] = "cpu",
	[STOP_PTRACE] = "ptrace",
	NULL,
};

static enum root_choice choose_roots(const struct argp_state *state, const char *value)
{
	static const char *const names[] = {"name", "each", NULL};
	return value ? ROOTS_NAME + options_choose(state, "threads", value, names) : ROOTS_NAME;
}

static enum source_choice choose_source(const struct argp_state *state, const char *value)
{
	static const char *const names[] = {
		[SOURCE_NONE] = "none",
		[SOURCE_AUTO] = "auto",
		NULL,
	};
	return options_choose(state, "source", value, names);
}

static error_t parse_native_threads(const struct argp_state *state, struct options_parse *parse,
				    const char *value)
{
	static const char *const names[] = {"no", "yes", NULL};
	parse->options->stacks.native_threads =
		options_choose(state, "native-threads", value, names);
	parse->native_threads_given = true;
	return 0;
}

static error_t print_version(const struct argp_state *state)
{
	printf("%s %s\n", state->name, VERSION);
	exit(EXIT_SUCCESS);
}

/* What needs registers, or a stack that stands still, needs a thread that is stopped. */
static void check_nonblocking(const struct argp_state *state, const struct options_parse *parse)
{
	const struct options *options = parse->options;
	if (!options->stacks.nonblocking)
		return;
	if (options->stacks.native)
		argp_error(state, "--nonblocking and --native: the native stack of a thread that"
				  " runs on cannot be read; leave out one of them");
	if (parse->native_threads_given && options->stacks.native_threads)
		argp_error(state, "--nonblocking and --native-threads=yes: threads that Python does"
				  " not know have native frames only");
	if (options->stacks.unwinder == UNWINDER_PTRACE)
		argp_error(state, "--nonblocking and --unwinder=ptrace: that one unwinds stopped"
				  " threads");
	if (options->stop != STOP_AUTO)
		argp_error(state, "--nonblocking and --stop=%s: leave out one of them",
			   options_stop_names[options->stop]);
	if (options->stacks.join == JOIN_FS_BASE || options->stacks.join == JOIN_RBX)
		argp_error(state,
			   "--nonblocking and --join=%s: registers are those of stopped"
			   " threads; there is native-id and pthread-tid",
			   options->stacks.join == JOIN_RBX ? "rbx" : "fs-base");
}

static void finish_common(const struct argp_state *state, struct options_parse *parse)
{
	struct options *options = parse->options;
	options->color = choose_color(state, parse->color);
	if (!parse->native_threads_given)
		options->stacks.native_threads = options->stacks.native;
	check_nonblocking(state, parse);
}

/* clang-format off */
static error_t parse_general(int key, char *value, struct argp_state *state)
{
	struct options *options = ((struct options_parse *)state->input)->options;
	switch (key) {
	case KEY_FULL_FILENAMES: options->full_filenames = true; return 0;
	case 'q': options->log.level = LOG_QUIET; return 0;
	case 'v': options->log.level = LOG_VERBOSE; return 0;
	case KEY_DEBUG: add_area(state, options, value); return 0;
	case KEY_NO_SANDBOX: options->log.no_sandbox = true; return 0;
	case 'h': argp_state_help(state, stdout, ARGP_HELP_STD_HELP); return 0;
	case KEY_USAGE: argp_state_help(state, stdout, ARGP_HELP_USAGE | ARGP_HELP_EXIT_OK); return 0;
	case 'V': return print_version(state);
	default: return ARGP_ERR_UNKNOWN;
	}
}

static bool choose_native_processes(const struct argp_state *state, const char *value)
{
	static const char *const names[] = {"no", "yes", NULL};
	return options_choose(state, "native-processes", value, names);
}

static void set_cgroup(const struct argp_state *state, struct options *options, const char *path)
{
	if (options->others.cgroup)
		argp_error(state, "--cgroup: one; those below it are looked at, too");
	if (!path[0])
		argp_error(state, "--cgroup=: which? give its folder, its name, or self");
	options->others.cgroup = path;
	options->subprocesses = true;
}

static error_t parse_others(int key, const char *value, const struct argp_state *state)
{
	struct options *options = ((struct options_parse *)state->input)->options;
	switch (key) {
	case KEY_CGROUP: set_cgroup(state, options, value); return 0;
	case KEY_NATIVE_PROCESSES:
		options->others.native_processes = choose_native_processes(state, value);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_common(int key, char *value, struct argp_state *state)
{
	struct options_parse *parse = state->input;
	struct options *options = parse->options;
	switch (key) {
	case 'p': options_add_pid(state, options, value); return 0;
	case 's': options->subprocesses = true; return 0;
	case 'n': options->stacks.native = true; return 0;
	case 'g': options->stacks.gil = true; return 0;
	case KEY_THREAD: add_thread(state, options, value); return 0;
	case KEY_NATIVE_THREADS: return parse_native_threads(state, parse, value);
	case KEY_INTERNALS: options->stacks.internals = true; return 0;
	case KEY_KERNEL: options->stacks.kernel = true; return 0;
	case KEY_NONBLOCKING: options->stacks.nonblocking = true; return 0;
	case KEY_COLOR: parse->color = value; return 0;
	case KEY_JOIN: options->stacks.join = choose_join(state, value); return 0;
	case KEY_UNWINDER: options->stacks.unwinder = choose_unwinder(state, value); return 0;
	case ARGP_KEY_END: finish_common(state, parse); return 0;
	default: return parse_others(key, value, state);
	}
}
/* clang-format on */

const struct argp options_general_argp = {.options = general_options, .parser = parse_general};
const struct argp options_common_argp = {.options = common_options, .parser = parse_common};

bool options_check_processes(const struct argp_state *state, const struct options *options)
{
	if (options->others.cgroup && (options->pid_count || options->command))
		argp_error(state, "--cgroup says which processes: leave out %s",
			   options->pid_count ? "PIDs" : "-- CMD");
	return options->others.cgroup || options->pid_count || options->command;
}

static void add_output(const struct argp_state *state, struct options *options, const char *path)
{
	if (options->writing.output_count == OPTIONS_MAX_OUTPUTS)
		argp_error(state, "at most %d -o", OPTIONS_MAX_OUTPUTS);
	options->writing.outputs[options->writing.output_count++].path = path;
}

static void check_format(const struct argp_state *state, enum output_format format)
{
	const char *missing = output_format_missing(format);
	if (missing)
		argp_error(state, "this format cannot be written: %s was built without %s",
			   state->name, missing);
}

static enum output_format parse_format(const struct argp_state *state, const char *name)
{
	const enum output_format format = output_format_by_name(name);
	if (format == OUTPUT_UNKNOWN)
		argp_error(state, "-f %s: there is only: %s", name, output_format_list());
	check_format(state, format);
	return format;
}

/* Stdout has no suffix; what is piped on is most often folded stacks. */
void options_choose_formats(const struct argp_state *state, struct options *options)
{
	for (size_t i = 0; i < options->writing.output_count; i++) {
		struct options_output *output = &options->writing.outputs[i];
		output->format = options->writing.format;
		if (output->format == OUTPUT_UNKNOWN)
			output->format = strcmp(output->path, "-") == 0
						 ? OUTPUT_FOLDED
						 : output_format_by_file(output->path);
		if (output->format == OUTPUT_UNKNOWN)
			argp_error(state, "-o %s: unknown suffix; known are %s (or say -f FORMAT)",
				   output->path, output_suffix_list());
		check_format(state, output->format);
	}
}

static void check_regex(const struct argp_state *state, const char *option, const char *text)
{
	regex_t regex;
	char problem[120];
	const int failure = regcomp(&regex, text, REG_EXTENDED | REG_NOSUB);
	if (!failure) {
		regfree(&regex);
		return;
	}
	regerror(failure, &regex, problem, sizeof(problem));
	argp_error(state, "--%s=%s: %s", option, text, problem);
}

const struct options_output *options_browsable(const struct options *options)
{
	for (size_t i = 0; i < options->writing.output_count; i++) {
		const struct options_output *output = &options->writing.outputs[i];
		const size_t size = strlen(output->path);
		const bool packed = size > 3 && strcasecmp(output->path + size - 3, ".gz") == 0;
		const bool picture = output->format == OUTPUT_SVG || output->format == OUTPUT_HTML;
		if (((picture && !packed) || output->format == OUTPUT_FIREFOX) &&
		    strcmp(output->path, "-") != 0)
			return output;
	}
	return NULL;
}

void options_check_open(const struct argp_state *state, const struct options *options)
{
	const struct options_output *output = options_browsable(options);
	if (!options->open || !options->writing.output_count)
		return;
	if (!output)
		argp_error(state, "--open: a browser shows .svg, .html and .firefox.json, and none"
				  " is written");
	else if (output->format == OUTPUT_FIREFOX && file_server_missing())
		argp_error(state, "--open: %s cannot be shown: %s was built without %s",
			   output->path, state->name, file_server_missing());
}

/* clang-format off */
/* Long: a line an option. */
static error_t parse_profile(int key, char *value, struct argp_state *state)
{
	static const struct options_unit percents[] = { { "%", 1 }, { 0 } };
	struct options *options = ((struct options_parse *)state->input)->options;
	switch (key) {
	case 'o': add_output(state, options, value); return 0;
	case 'f': options->writing.format = parse_format(state, value); return 0;
	case 't': options->thread_roots = ROOTS_NAME; return 0;
	case KEY_THREADS: options->thread_roots = choose_roots(state, value); return 0;
	case 'F': options->lines = false; return 0;
	case KEY_OPEN: options->open = true; return 0;
	case KEY_FLAME: options->writing.icicle = false; return 0;
	case KEY_ICICLE: options->writing.icicle = true; return 0;
	case KEY_TITLE: options->writing.title = value; return 0;
	case KEY_MIN_WIDTH:
		options->writing.min_width = options_number(state, "min-width", value, percents, 0, 100);
		return 0;
	case KEY_SOURCE: options->writing.source = choose_source(state, value); return 0;
	case KEY_FOCUS: check_regex(state, "focus", options->writing.focus = value); return 0;
	case KEY_IGNORE: check_regex(state, "ignore", options->writing.ignore = value); return 0;
	case KEY_INCLUDE: check_regex(state, "include", options->writing.include = value); return 0;
	case KEY_EXCLUDE: check_regex(state, "exclude", options->writing.exclude = value); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}
/* clang-format on */

const struct argp options_profile_argp = {.options = profile_options, .parser = parse_profile};

void options_run(const struct argp *argp, int argc, char **argv, struct options_parse *parse)
{
	*parse->options = (struct options){
		.rate = 100, .lines = true, .writing = {.min_width = 0.1, .source = SOURCE_AUTO}};
	argp_err_exit_status = USAGE_STATUS;
	if (argp_parse(argp, argc, argv, ARGP_IN_ORDER | ARGP_NO_HELP, NULL, parse) != 0)
		exit(USAGE_STATUS);
}

void options_apply_log(const struct options *options, const char *program)
{
	log_set_program(program);
	log_set_level(options->log.level);
	for (size_t i = 0; i < options->log.area_count; i++)
		log_enable_area(options->log.areas[i]);
}

void options_find_processes(struct options *options)
{
	const size_t given = options->pid_count;
	options->pid_count = 0;
	for (size_t i = 0; i < given; i++) {
		const pid_t pid = options->pids[i], process = target_process_of(pid);
		if (process != pid)
			log_warning("%d is a thread of process %d: that is looked at", (int)pid,
				    (int)process);
		(void)add_process(options, process); /* there is room: there are no more */
	}
}

bool options_thread_wanted(const struct options *options, pid_t tid)
{
	for (size_t i = 0; i < options->stacks.thread_count; i++)
		if (options->stacks.threads[i] == tid)
			return true;
	return options->stacks.thread_count == 0;
}

/* The first word's last path component, of harmless characters only: it becomes a file name. */
static void command_name(const char *command_line, char *name, size_t size)
{
	const size_t word = strcspn(command_line, " ");
	size_t length = 0;
	for (size_t i = 0; i < word && length + 1 < size; i++) {
		const char c = command_line[i];
		if (c == '/')
			length = 0;
		else if (strchr("._+-", c) || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
			 (c >= 'a' && c <= 'z'))
			name[length++] = c;
	}
	name[length] = '\0';
	if (length == 0 || name[0] == '-' || name[0] == '.')
		snprintf(name, size, "python");
}

void options_add_default_output(struct options *options, const char *command_line, pid_t pid,
				uint64_t seconds, char *text, size_t size)
{
	if (options->writing.output_count)
		return;
	char name[64], when[32], suffix[32];
	const time_t now = (time_t)seconds;
	struct tm local;
	command_name(command_line, name, sizeof(name));
	strftime(when, sizeof(when), "%Y%m%d-%H%M%S", localtime_r(&now, &local));
	output_format_suffix(options->writing.format, suffix, sizeof(suffix));
	snprintf(text, size, "%s-%d-%s%s", name, pid, when, suffix);
	const enum output_format format = options->writing.format;
	options->writing.outputs[0].path = text;
	options->writing.outputs[0].format = format == OUTPUT_UNKNOWN ? OUTPUT_SVG : format;
	options->writing.output_count = 1;
}
