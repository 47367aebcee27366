/* SPDX-License-Identifier: MIT */
/* argv of precord into struct options, by argp. */
#include "src/options_internal.h"

/* clang-format off */
enum { KEY_MODE = 0x200, KEY_CAPTURE, KEY_STOP, KEY_SNAPSHOT };

static const struct argp_option precord_options[] = {
	{ "rate", 'r', "HZ", 0, "Samples a second of each thread: 0.1 to 100000, 10khz works;"
	  " default 100", 1 },
	{ "duration", 'd', "SECONDS", 0, "Stop after this time; default: when the process ends, or"
	  " at Ctrl-C", 1 },
	{ "idle", 'i', NULL, 0, "Count idle threads, too; the same as --mode=wall", 2 },
	{ "mode", KEY_MODE, "MODE", 0, "running (default): threads on a CPU or waiting for one;"
	  " wall: all threads; cpu: as running, weighted by the CPU time used;"
	  " gil: the thread that holds the GIL", 2 },
	{ "snapshot", KEY_SNAPSHOT, "SECONDS", 0, "Write what there is so far each time so many seconds"
	  " have passed, and go on", 1 },
	{ "stop", KEY_STOP, "KIND", 0, "How a running thread is kept still while it is copied: by"
	  " an interrupt of its CPU; by taking that (cpu); or by ptrace; where one cannot be, by the next."
	  " Default: auto, as suits the rate", 8 },
	{ "capture", KEY_CAPTURE, "FILE", 0, "Write the raw samples, too, to be replayed without"
	  " the process (debugging)", 8 },
	{ 0 },
};
/* clang-format on */

static const struct argp_child precord_children[] = {
	{&options_common_argp, 0, NULL, 0},
	{&options_profile_argp, 0, NULL, 0},
	{&options_general_argp, 0, NULL, 0},
	{0},
};

static enum stop_choice choose_stop(const struct argp_state *state, const char *value)
{
	return options_choose(state, "stop", value, options_stop_names);
}

static void set_mode(const struct argp_state *state, struct options *options, const char *value)
{
	enum { RUNNING, WALL, CPU, GIL };
	static const char *const names[] = {"running", "wall", "cpu", "gil", NULL};
	const int mode = options_choose(state, "mode", value, names);
	options->mode = mode == WALL ? MODE_WALL : mode == CPU ? MODE_CPU : MODE_RUNNING;
	options->stacks.gil |= mode == GIL;
}

/* A plain argument is the PID; everything behind "--" is the command. */
static void parse_precord_argument(struct argp_state *state, struct options *options, char *value)
{
	if (!state->quoted) {
		options_add_pid(state, options, value);
		return;
	}
	options->command = &state->argv[state->next - 1];
	state->next = state->argc;
}

static void check_mode(const struct argp_state *state, const struct options *options)
{
	if (options->mode == MODE_CPU && (options->stacks.gil || options->writing.capture))
		argp_error(state, "--mode=cpu and --%s: %s; leave out one of them",
			   options->stacks.gil ? "gil" : "capture",
			   options->stacks.gil ? "the time without the GIL would count with it"
					       : "a raw sample has no CPU time");
}

/* What only a recording of one process can do. */
static void finish_many(const struct argp_state *state, struct options *options)
{
	const char *many = options->others.cgroup  ? "--cgroup"
			   : options->subprocesses ? "-s"
						   : "the others";
	if (!options->subprocesses && options->pid_count <= 1)
		return;
	if (options->stacks.thread_count)
		argp_error(state, "--thread: a thread is of one process; give that one alone");
	if (options->stacks.nonblocking)
		argp_error(state, "--nonblocking: of one process; give that one alone, without %s",
			   many);
	if (options->writing.capture)
		argp_error(state, "--capture: of one process; give that one alone, without %s",
			   many);
	if (options->others.native_processes && !options->stacks.native)
		argp_error(state, "--native-processes=yes: what is not Python has native frames"
				  " alone; give --native, too");
}

static void finish_precord(const struct argp_state *state, struct options *options)
{
	if (options->command && options->pid_count)
		argp_error(state, "either a PID or -- CMD, not both");
	if (!options_check_processes(state, options))
		argp_error(state, "what to record? give a PID, or a command after --");
	finish_many(state, options);
	options_choose_formats(state, options);
	options_check_open(state, options);
	check_mode(state, options);
	if (options->snapshot > 0 && options->writing.capture && !options->writing.output_count)
		argp_error(state, "--snapshot: nothing is written meanwhile; give -o FILE");
}

/* clang-format off */
static error_t parse_precord(int key, char *value, struct argp_state *state)
{
	static const struct options_unit rates[] = { { "hz", 1 }, { "khz", 1000 }, { "k", 1000 }, { 0 } };
	static const struct options_unit seconds[] = { { "s", 1 }, { 0 } };
	struct options_parse *parse = state->input;
	struct options *options = parse->options;
	switch (key) {
	case ARGP_KEY_INIT:
		for (size_t i = 0; precord_children[i].argp; i++)
			state->child_inputs[i] = parse;
		return 0;
	case 'r': options->rate = options_number(state, "rate", value, rates, 0.1, 100000); return 0;
	case 'd':
		options->duration = options_number(state, "duration", value, seconds, 0.001, 1e8);
		return 0;
	case 'i': options->mode = MODE_WALL; return 0;
	case KEY_MODE: set_mode(state, options, value); return 0;
	case KEY_SNAPSHOT:
		options->snapshot = options_number(state, "snapshot", value, seconds, 0.5, 1e8);
		return 0;
	case KEY_STOP: options->stop = choose_stop(state, value); return 0;
	case KEY_CAPTURE: options->writing.capture = value; return 0;
	case ARGP_KEY_ARG: parse_precord_argument(state, options, value); return 0;
	case ARGP_KEY_END: finish_precord(state, options); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}
/* clang-format on */

static const struct argp precord_argp = {
	.options = precord_options,
	.parser = parse_precord,
	.args_doc = "PID...\n--cgroup PATH|self\n-- CMD [ARG...]",
	.doc = "Sample a Python process into a flame graph, Python and native frames merged."
	       "\vExit status: 0 done, 1 input/output error, 2 usage, 3 no such process,"
	       " 4 permission denied, 5 not Python or a version not supported, 6 partial. With"
	       " -- CMD: that of CMD; 125 when precord itself failed, 126 when CMD cannot be run,"
	       " 127 when it is not found.",
	.children = precord_children,
};

void options_parse_precord(int argc, char **argv, struct options *options)
{
	options_run(&precord_argp, argc, argv, &(struct options_parse){.options = options});
}
