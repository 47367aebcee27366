/* SPDX-License-Identifier: MIT */
/* argv of pdump into struct options, by argp. */
#include "src/options_internal.h"

#include <string.h>

/* clang-format off */
enum { KEY_MERGE = 0x200, KEY_CORE, KEY_SYSROOT, KEY_SYMBOLS };

static const struct argp_option pdump_options[] = {
	{ "core", KEY_CORE, "FILE", 0, "A core file instead of a process, also one packed by gzip or"
	  " zstd; EXE is its program where that is not where it was", 1 },
	{ "sysroot", KEY_SYSROOT, "DIR", 0, "With --core: look its programs and libraries up below DIR",
	  1 },
	{ "symbols", KEY_SYMBOLS, "DIR", 0, "With --core: look them, and debug files, up in DIR, by"
	  " build ID (DIR/.build-id) or name", 1 },
	{ "merge", KEY_MERGE, NULL, 0, "Equal stacks once, with the processes and threads that have"
	  " them, the odd one first; also of files that pdump --json has written (- is stdin)", 3 },
	{ "function", 'F', NULL, 0, "No line numbers; with --merge, stacks are told apart by function",
	  3 },
	{ "json", 'j', NULL, 0, "JSON instead of text, one object a process", 3 },
	{ "idle", 'i', NULL, 0, "Accepted; idle threads are always shown", 2 },
	{ 0 },
};
/* clang-format on */

static const struct argp_child pdump_children[] = {
	{&options_common_argp, 0, NULL, 0},
	{&options_general_argp, 0, NULL, 0},
	{0},
};

/* A number is a process; what else there is can only be a file. */
static void add_argument(const struct argp_state *state, struct options *options, const char *text)
{
	if (text[strspn(text, "0123456789")] == '\0') {
		options_add_pid(state, options, text);
		return;
	}
	if (options->file_count == OPTIONS_MAX_FILES)
		argp_error(state, "at most %d files", OPTIONS_MAX_FILES);
	options->files[options->file_count++] = text;
}

/* Its only argument is its program. */
static void finish_core(const struct argp_state *state, struct options *options)
{
	if (options->pid_count || options->subprocesses || options->merge)
		argp_error(state, "--core is of one process that has ended: leave out PIDs, -s,"
				  " --cgroup and --merge");
	if (options->file_count > 1)
		argp_error(state, "--core FILE: which is its program, %s or %s?", options->files[0],
			   options->files[1]);
	if (options->stacks.nonblocking || options->stacks.kernel)
		argp_error(state, "--core and --%s: there is no process; leave out one of them",
			   options->stacks.kernel ? "kernel" : "nonblocking");
	if (options->stacks.unwinder == UNWINDER_PTRACE)
		argp_error(state, "--core and --unwinder=ptrace: that one unwinds stopped threads");
	options->core.program = options->file_count ? options->files[0] : NULL;
	options->file_count = 0;
}

static void finish_pdump(const struct argp_state *state, struct options *options)
{
	if (options->core.path) {
		finish_core(state, options);
		return;
	}
	if (options->core.sysroot || options->core.symbols)
		argp_error(state, "--%s is for --core FILE",
			   options->core.sysroot ? "sysroot" : "symbols");
	if (options->file_count && !options->merge)
		(void)options_id(state, "process", options->files[0]);
	if (!options_check_processes(state, options) && !options->file_count)
		argp_error(state, options->merge ? "which processes? give PIDs or files of dumps"
						 : "which process? give its PID");
	if (options->stacks.thread_count && (options->subprocesses || options->pid_count > 1))
		argp_error(state, "--thread: a thread is of one process; give that one alone");
	if (options->stacks.nonblocking && options->others.native_processes)
		argp_error(state, "--nonblocking and --native-processes=yes: the native stack of a"
				  " thread that runs on cannot be read; leave out one of them");
}

static error_t parse_pdump(int key, char *value, struct argp_state *state)
{
	struct options_parse *parse = state->input;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = state->child_inputs[1] = parse;
		return 0;
	case KEY_MERGE:
		parse->options->merge = true;
		return 0;
	case 'F':
		parse->options->lines = false;
		return 0;
	case 'j':
		parse->options->json = true;
		return 0;
	case 'i':
		return 0;
	case KEY_CORE:
		if (strcmp(value, "-") == 0)
			argp_error(state, "--core=-: a core file must have a name");
		parse->options->core.path = value;
		return 0;
	case KEY_SYSROOT:
		parse->options->core.sysroot = value;
		return 0;
	case KEY_SYMBOLS:
		parse->options->core.symbols = value;
		return 0;
	case ARGP_KEY_ARG:
		add_argument(state, parse->options, value);
		return 0;
	case ARGP_KEY_END:
		finish_pdump(state, parse->options);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp pdump_argp = {
	.options = pdump_options,
	.parser = parse_pdump,
	.args_doc = "PID...\n--cgroup PATH|self\n--merge [PID...] [FILE...]\n--core FILE [EXE]",
	.doc = "One look at running Python processes: the stack of every thread, Python and native"
	       " frames merged, innermost frame first."
	       "\vExit status: 0 done, 1 input/output error, 2 usage, 3 no such process,"
	       " 4 permission denied, 5 not Python or a version not supported, 6 partial.",
	.children = pdump_children,
};

void options_parse_pdump(int argc, char **argv, struct options *options)
{
	options_run(&pdump_argp, argc, argv, &(struct options_parse){.options = options});
}
