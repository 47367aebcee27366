/* SPDX-License-Identifier: MIT */
/*
 * argv into struct options, by argp. What both commands know stands in one table, which each
 * command's own table includes. The only file below the mains that may end the program.
 */
#include "src/options.h"

#include <argp.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

enum { USAGE_STATUS = 2 };

/* clang-format off */
/* Keys of options that have no letter. */
enum {
	KEY_INTERNALS = 0x100, KEY_NATIVE_THREADS, KEY_JOIN, KEY_UNWINDER, KEY_FULL_FILENAMES,
	KEY_THREAD, KEY_COLOR, KEY_DEBUG, KEY_USAGE, KEY_MODE, KEY_FLAME, KEY_ICICLE, KEY_TITLE,
	KEY_MIN_WIDTH, KEY_CAPTURE, KEY_NONBLOCKING, KEY_KERNEL,
	KEY_STOP
};

static const struct argp_option common_options[] = {
	{ "pid", 'p', "PID", 0, "The process to look at; the same as PID alone", 1 },
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
	{ "full-filenames", KEY_FULL_FILENAMES, NULL, 0, "Do not shorten paths", 3 },
	{ "color", KEY_COLOR, "WHEN", 0, "auto (default), always or never; NO_COLOR is respected",
	  3 },
	{ "join", KEY_JOIN, "METHOD", 0, "Evidence that ties OS threads to Python threads: auto"
	  " (default), native-id, fs-base, rbx or pthread-tid (debugging)", 8 },
	{ "unwinder", KEY_UNWINDER, "KIND", 0, "snapshot (default): unwind a copy; ptrace:"
	  " libunwind-ptrace on the stopped thread, for debugging", 8 },
	{ "quiet", 'q', NULL, 0, "Errors only on stderr", 9 },
	{ "verbose", 'v', NULL, 0, "More on stderr", 9 },
	{ "debug", KEY_DEBUG, "AREA", 0, "Much more on stderr about one area: target, unwind,"
	  " python, sample, symbolize, cython, pause, all ... (repeatable)", 9 },
	{ "help", 'h', NULL, 0, "Print this help and exit", 10 },
	{ "usage", KEY_USAGE, NULL, OPTION_HIDDEN, NULL, 10 },
	{ "version", 'V', NULL, 0, "Print the version and exit", 10 },
	{ 0 },
};

static const struct argp_option pdump_options[] = {
	{ "json", 'j', NULL, 0, "JSON instead of text", 3 },
	{ "idle", 'i', NULL, 0, "Accepted; idle threads are always shown", 2 },
	{ 0 },
};

static const struct argp_option precord_options[] = {
	{ "output", 'o', "FILE", 0, "Write the profile there, the format by the suffix"
	  " (repeatable; - is stdout); default: a flame graph named CMD-PID-TIME.svg", 1 },
	{ "format", 'f', "FORMAT", 0, "svg, folded or json, whatever the suffix says", 1 },
	{ "rate", 'r', "HZ", 0, "Samples a second of each thread: 0.1 to 100000, 10khz works;"
	  " default 100", 1 },
	{ "duration", 'd', "SECONDS", 0, "Stop after this time; default: when the process ends, or"
	  " at Ctrl-C", 1 },
	{ "idle", 'i', NULL, 0, "Count idle threads, too; the same as --mode=wall", 2 },
	{ "mode", KEY_MODE, "MODE", 0, "running (default): threads on a CPU or waiting for one;"
	  " wall: all threads", 2 },
	{ "threads", 't', NULL, 0, "A root frame for each thread", 3 },
	{ "function", 'F', NULL, 0, "No line numbers: one box a function", 3 },
	{ "flame", KEY_FLAME, NULL, 0, "SVG with the root at the bottom (default)", 4 },
	{ "icicle", KEY_ICICLE, NULL, 0, "SVG with the root at the top", 4 },
	{ "title", KEY_TITLE, "TEXT", 0, "Title of the SVG", 4 },
	{ "min-width", KEY_MIN_WIDTH, "PCT", 0, "Leave out boxes below this share of all samples;"
	  " default 0.1 per cent", 4 },
	{ "stop", KEY_STOP, "KIND", 0, "How a running thread is kept still while it is copied: by"
	  " an interrupt of its CPU; by taking that (cpu); or by ptrace; where one cannot be, by the next."
	  " Default: auto, as suits the rate", 8 },
	{ "capture", KEY_CAPTURE, "FILE", 0, "Write the raw samples, too, to be replayed without"
	  " the process (debugging)", 8 },
	{ 0 },
};

/* clang-format on */

/* The place of value in names (NULL-terminated); a usage error that lists them if it is none. */
static int choose(const struct argp_state *state, const char *option, const char *value,
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

static pid_t parse_id(const struct argp_state *state, const char *what, const char *text)
{
	char *end;
	const long id = strtol(text, &end, 10);
	if (end == text || *end || id <= 0 || id > INT_MAX)
		argp_error(state, "'%s' is not a %s id", text, what);
	return (pid_t)id;
}

/* A number between two bounds, with at most a unit of `units` ({"khz", 1000}, ...) behind it. */
struct unit {
	const char *name;
	double factor;
};

static double parse_number(const struct argp_state *state, const char *option, const char *text,
			   const struct unit *units, double lowest, double highest)
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

static void set_pid(const struct argp_state *state, struct options *options, const char *text)
{
	const pid_t pid = parse_id(state, "process", text);
	if (options->pid && options->pid != pid)
		argp_error(state, "only one process at a time: %d or %d", options->pid, pid);
	options->pid = pid;
}

static void add_thread(const struct argp_state *state, struct options *options, const char *text)
{
	if (options->thread_count == OPTIONS_MAX_THREADS)
		argp_error(state, "at most %d --thread", OPTIONS_MAX_THREADS);
	options->threads[options->thread_count++] = parse_id(state, "thread", text);
}

static void add_area(const struct argp_state *state, struct options *options, const char *text)
{
	if (options->area_count == OPTIONS_MAX_AREAS)
		argp_error(state, "at most %d --debug", OPTIONS_MAX_AREAS);
	options->areas[options->area_count++] = text;
}

static bool choose_color(const struct argp_state *state, const char *value)
{
	static const char *const names[] = {"auto", "always", "never", NULL};
	const int chosen = value ? choose(state, "color", value, names) : 0;
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
	return choose(state, "join", value, names);
}

static enum unwinder_choice choose_unwinder(const struct argp_state *state, const char *value)
{
	static const char *const names[] = {
		[UNWINDER_SNAPSHOT] = "snapshot",
		[UNWINDER_PTRACE] = "ptrace",
		NULL,
	};
	return choose(state, "unwinder", value, names);
}

static const char *const stop_names[] = {
	[STOP_AUTO] = "auto",
	[STOP_INTERRUPT] = "interrupt",
	[STOP_CPU] = "cpu",
	[STOP_PTRACE] = "ptrace",
	NULL,
};

static enum stop_choice choose_stop(const struct argp_state *state, const char *value)
{
	return choose(state, "stop", value, stop_names);
}

static enum sample_mode choose_mode(const struct argp_state *state, const char *value)
{
	static const char *const names[] = {
		[MODE_RUNNING] = "running",
		[MODE_WALL] = "wall",
		NULL,
	};
	return choose(state, "mode", value, names);
}

/* What is known only while parsing. */
struct parse {
	struct options *options;
	const char *color;
	bool native_threads_given;
};

static error_t parse_native_threads(const struct argp_state *state, struct parse *parse,
				    const char *value)
{
	static const char *const names[] = {"no", "yes", NULL};
	parse->options->native_threads = choose(state, "native-threads", value, names);
	parse->native_threads_given = true;
	return 0;
}

static error_t print_version(const struct argp_state *state)
{
	printf("%s %s\n", state->name, VERSION);
	exit(EXIT_SUCCESS);
}

/* What needs registers, or a stack that stands still, needs a thread that is stopped. */
static void check_nonblocking(const struct argp_state *state, const struct parse *parse)
{
	const struct options *options = parse->options;
	if (!options->nonblocking)
		return;
	if (options->native)
		argp_error(state, "--nonblocking and --native: the native stack of a thread that"
				  " runs on cannot be read; leave out one of them");
	if (parse->native_threads_given && options->native_threads)
		argp_error(state, "--nonblocking and --native-threads=yes: threads that Python does"
				  " not know have native frames only");
	if (options->unwinder == UNWINDER_PTRACE)
		argp_error(state, "--nonblocking and --unwinder=ptrace: that one unwinds stopped"
				  " threads");
	if (options->stop != STOP_AUTO)
		argp_error(state, "--nonblocking and --stop=%s: leave out one of them",
			   stop_names[options->stop]);
	if (options->join == JOIN_FS_BASE || options->join == JOIN_RBX)
		argp_error(state,
			   "--nonblocking and --join=%s: registers are those of stopped"
			   " threads; there is native-id and pthread-tid",
			   options->join == JOIN_RBX ? "rbx" : "fs-base");
}

static void finish_common(const struct argp_state *state, struct parse *parse)
{
	struct options *options = parse->options;
	options->color = choose_color(state, parse->color);
	if (!parse->native_threads_given)
		options->native_threads = options->native;
	check_nonblocking(state, parse);
}

/* clang-format off */
static error_t parse_common(int key, char *value, struct argp_state *state)
{
	struct parse *parse = state->input;
	struct options *options = parse->options;
	switch (key) {
	case 'p': set_pid(state, options, value); return 0;
	case 'n': options->native = true; return 0;
	case 'g': options->gil = true; return 0;
	case KEY_THREAD: add_thread(state, options, value); return 0;
	case KEY_NATIVE_THREADS: return parse_native_threads(state, parse, value);
	case KEY_INTERNALS: options->internals = true; return 0;
	case KEY_KERNEL: options->kernel = true; return 0;
	case KEY_NONBLOCKING: options->nonblocking = true; return 0;
	case KEY_FULL_FILENAMES: options->full_filenames = true; return 0;
	case KEY_COLOR: parse->color = value; return 0;
	case KEY_JOIN: options->join = choose_join(state, value); return 0;
	case KEY_UNWINDER: options->unwinder = choose_unwinder(state, value); return 0;
	case 'q': options->level = LOG_QUIET; return 0;
	case 'v': options->level = LOG_VERBOSE; return 0;
	case KEY_DEBUG: add_area(state, options, value); return 0;
	case 'h': argp_state_help(state, stdout, ARGP_HELP_STD_HELP); return 0;
	case KEY_USAGE: argp_state_help(state, stdout, ARGP_HELP_USAGE | ARGP_HELP_EXIT_OK); return 0;
	case 'V': return print_version(state);
	case ARGP_KEY_END: finish_common(state, parse); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}
/* clang-format on */

static error_t parse_pdump(int key, char *value, struct argp_state *state)
{
	struct parse *parse = state->input;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = parse;
		return 0;
	case 'j':
		parse->options->json = true;
		return 0;
	case 'i':
		return 0;
	case ARGP_KEY_ARG:
		set_pid(state, parse->options, value);
		return 0;
	case ARGP_KEY_END:
		if (!parse->options->pid)
			argp_error(state, "which process? give its PID");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void add_output(const struct argp_state *state, struct options *options, const char *path)
{
	if (options->output_count == OPTIONS_MAX_OUTPUTS)
		argp_error(state, "at most %d -o", OPTIONS_MAX_OUTPUTS);
	options->outputs[options->output_count++].path = path;
}

static enum output_format parse_format(const struct argp_state *state, const char *name)
{
	const enum output_format format = output_format_by_name(name);
	if (format == OUTPUT_UNKNOWN)
		argp_error(state, "-f %s: there is only: %s", name, output_format_list());
	return format;
}

/* Stdout has no suffix; what is piped on is most often folded stacks. */
static void choose_formats(const struct argp_state *state, struct options *options)
{
	for (size_t i = 0; i < options->output_count; i++) {
		struct options_output *output = &options->outputs[i];
		output->format = options->format;
		if (output->format == OUTPUT_UNKNOWN)
			output->format = strcmp(output->path, "-") == 0
						 ? OUTPUT_FOLDED
						 : output_format_by_file(output->path);
		if (output->format == OUTPUT_UNKNOWN)
			argp_error(state, "-o %s: unknown suffix; known are %s (or say -f FORMAT)",
				   output->path, output_suffix_list());
	}
}

/* A plain argument is the PID; everything behind "--" is the command. */
static void parse_precord_argument(struct argp_state *state, struct options *options, char *value)
{
	if (!state->quoted) {
		set_pid(state, options, value);
		return;
	}
	options->command = &state->argv[state->next - 1];
	state->next = state->argc;
}

static void finish_precord(const struct argp_state *state, struct options *options)
{
	if (options->command && options->pid)
		argp_error(state, "either a PID or -- CMD, not both");
	if (!options->command && !options->pid)
		argp_error(state, "what to record? give a PID, or a command after --");
	choose_formats(state, options);
}

/* clang-format off */
static error_t parse_precord(int key, char *value, struct argp_state *state)
{
	static const struct unit rates[] = { { "hz", 1 }, { "khz", 1000 }, { "k", 1000 }, { 0 } };
	static const struct unit seconds[] = { { "s", 1 }, { 0 } };
	static const struct unit percents[] = { { "%", 1 }, { 0 } };
	struct parse *parse = state->input;
	struct options *options = parse->options;
	switch (key) {
	case ARGP_KEY_INIT: state->child_inputs[0] = parse; return 0;
	case 'o': add_output(state, options, value); return 0;
	case 'f': options->format = parse_format(state, value); return 0;
	case 'r': options->rate = parse_number(state, "rate", value, rates, 0.1, 100000); return 0;
	case 'd':
		options->duration = parse_number(state, "duration", value, seconds, 0.001, 1e8);
		return 0;
	case 'i': options->mode = MODE_WALL; return 0;
	case KEY_MODE: options->mode = choose_mode(state, value); return 0;
	case 't': options->thread_roots = true; return 0;
	case 'F': options->lines = false; return 0;
	case KEY_FLAME: options->icicle = false; return 0;
	case KEY_ICICLE: options->icicle = true; return 0;
	case KEY_TITLE: options->title = value; return 0;
	case KEY_MIN_WIDTH:
		options->min_width = parse_number(state, "min-width", value, percents, 0, 100);
		return 0;
	case KEY_STOP: options->stop = choose_stop(state, value); return 0;
	case KEY_CAPTURE: options->capture = value; return 0;
	case ARGP_KEY_ARG: parse_precord_argument(state, options, value); return 0;
	case ARGP_KEY_END: finish_precord(state, options); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}
/* clang-format on */

static const struct argp common_argp = {.options = common_options, .parser = parse_common};
static const struct argp_child children[] = {{&common_argp, 0, NULL, 0}, {0}};

static const struct argp pdump_argp = {
	.options = pdump_options,
	.parser = parse_pdump,
	.args_doc = "PID",
	.doc = "One look at a running Python process: the stack of every thread, Python and native"
	       " frames merged, innermost frame first."
	       "\vExit status: 0 done, 1 input/output error, 2 usage, 3 no such process,"
	       " 4 permission denied, 5 not Python or a version not supported, 6 partial.",
	.children = children,
};

static const struct argp precord_argp = {
	.options = precord_options,
	.parser = parse_precord,
	.args_doc = "PID\n-- CMD [ARG...]",
	.doc = "Sample a Python process into a flame graph, Python and native frames merged."
	       "\vExit status: 0 done, 1 input/output error, 2 usage, 3 no such process,"
	       " 4 permission denied, 5 not Python or a version not supported, 6 partial. With"
	       " -- CMD: that of CMD; 125 when precord itself failed, 126 when CMD cannot be run,"
	       " 127 when it is not found.",
	.children = children,
};

/* In order, so that "--" is seen for what it is: it separates a PID from a command. */
static void parse(const struct argp *argp, int argc, char **argv, struct options *options)
{
	*options = (struct options){.rate = 100, .lines = true, .min_width = 0.1};
	struct parse input = {.options = options};
	argp_err_exit_status = USAGE_STATUS;
	if (argp_parse(argp, argc, argv, ARGP_IN_ORDER | ARGP_NO_HELP, NULL, &input) != 0)
		exit(USAGE_STATUS);
}

void options_parse_pdump(int argc, char **argv, struct options *options)
{
	parse(&pdump_argp, argc, argv, options);
}

void options_parse_precord(int argc, char **argv, struct options *options)
{
	parse(&precord_argp, argc, argv, options);
}

void options_apply_log(const struct options *options, const char *program)
{
	log_set_program(program);
	log_set_level(options->level);
	for (size_t i = 0; i < options->area_count; i++)
		log_enable_area(options->areas[i]);
}

bool options_thread_wanted(const struct options *options, pid_t tid)
{
	for (size_t i = 0; i < options->thread_count; i++)
		if (options->threads[i] == tid)
			return true;
	return options->thread_count == 0;
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
	static const char *const suffixes[] = {
		[OUTPUT_UNKNOWN] = ".svg",
		[OUTPUT_SVG] = ".svg",
		[OUTPUT_FOLDED] = ".folded",
		[OUTPUT_JSON] = ".json",
	};
	if (options->output_count)
		return;
	char name[64], when[32];
	const time_t now = (time_t)seconds;
	struct tm local;
	command_name(command_line, name, sizeof(name));
	strftime(when, sizeof(when), "%Y%m%d-%H%M%S", localtime_r(&now, &local));
	snprintf(text, size, "%s-%d-%s%s", name, pid, when, suffixes[options->format]);
	const enum output_format format = options->format;
	options->outputs[0].path = text;
	options->outputs[0].format = format == OUTPUT_UNKNOWN ? OUTPUT_SVG : format;
	options->output_count = 1;
}
