/* SPDX-License-Identifier: MIT */
/* argv of preport into struct preport_options, by argp. */
#include "src/preport_options.h"

#include <string.h>

#include "base/alloc.h"
#include "src/options_internal.h"

/* clang-format off */
enum { KEY_MERGE = 0x200, KEY_INTERNALS, KEY_TOP, KEY_DIFF, KEY_MAP, KEY_FAIL_ABOVE,
       KEY_SYMBOLS };

static const struct argp_option options_table[] = {
	{ "merge", KEY_MERGE, NULL, 0, "Add up several profiles, which must be of the same mode,"
	  " event and rate", 2 },
	{ "diff", KEY_DIFF, NULL, 0, "Of two profiles, how the second one differs from the first,"
	  " as shares of all samples: .svg, .html, .md or .folded", 2 },
	{ "fail-above", KEY_FAIL_ABOVE, "PCT", 0, "With --diff: exit with 1 when the share of a"
	  " function, without what it calls, has grown by more points, and by more than chance explains", 2 },
	{ "map", KEY_MAP, "FROM=TO", 0, "Sources in the folder FROM are in TO (repeatable)", 2 },
	{ "internals", KEY_INTERNALS, NULL, 0, "Of raw samples, keep the interpreter's own frames", 2 },
	{ "symbols", KEY_SYMBOLS, "DIR", 0, "Of raw samples, look programs, libraries and debug files"
	  " up in DIR and below, by build ID", 2 },
	{ "top", KEY_TOP, "N", 0, "Rows of each table of a Markdown report", 4 },
	{ 0 },
};
/* clang-format on */

struct preport_parse {
	struct options_parse common; /* first: what the other parsers are given */
	struct preport_options *options;
};

static void add_input(const struct argp_state *state, struct preport_options *options,
		      const char *path)
{
	if (options->input_count == PREPORT_MAX_INPUTS)
		argp_error(state, "at most %d files", PREPORT_MAX_INPUTS);
	options->inputs = alloc_room(options->inputs, &options->input_capacity,
				     options->input_count + 1, sizeof(*options->inputs));
	options->inputs[options->input_count++] = path;
}

static void add_map(const struct argp_state *state, struct preport_options *options, char *text)
{
	char *equals = strchr(text, '=');
	if (!equals || equals == text)
		argp_error(state, "--map=%s: say FROM=TO", text);
	if (options->map_count == PREPORT_MAX_MAPS)
		argp_error(state, "at most %d --map", PREPORT_MAX_MAPS);
	*equals = '\0';
	options->maps[options->map_count++] = (struct preport_map){text, equals + 1};
}

static void check_inputs(const struct argp_state *state, const struct preport_options *options)
{
	if (options->input_count == 0)
		argp_error(state, "what to read? give a file that precord has written");
	if (options->diff && options->merge)
		argp_error(state, "--diff and --merge: leave out one of them");
	if (options->diff && options->input_count != 2)
		argp_error(state, "--diff is of two files: before, after");
	if (!options->diff && options->fail_above >= 0)
		argp_error(state, "--fail-above is for --diff");
	if (options->input_count > 1 && !options->merge && !options->diff)
		argp_error(state, "several files: say --merge to add them up, or --diff");
}

static void check_outputs(const struct argp_state *state, struct preport_options *options)
{
	if (options->general.writing.output_count == 0 && options->fail_above < 0)
		argp_error(state, "what to write? give -o FILE");
	options_choose_formats(state, &options->general);
	options_check_open(state, &options->general);
	for (size_t i = 0; options->diff && i < options->general.writing.output_count; i++)
		if (!output_diff_has(options->general.writing.outputs[i].format))
			argp_error(state,
				   "-o %s: a difference is written as svg, html, markdown or"
				   " folded",
				   options->general.writing.outputs[i].path);
}

static error_t parse_one(int key, char *value, struct argp_state *state)
{
	static const struct options_unit none[] = {{0}}, percents[] = {{"%", 1}, {0}};
	struct preport_parse *parse = state->input;
	struct preport_options *options = parse->options;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = state->child_inputs[1] = &parse->common;
		return 0;
	case KEY_MERGE:
		options->merge = true;
		return 0;
	case KEY_DIFF:
		options->diff = true;
		return 0;
	case KEY_MAP:
		add_map(state, options, value);
		return 0;
	case KEY_FAIL_ABOVE:
		options->fail_above = options_number(state, "fail-above", value, percents, 0, 100);
		return 0;
	case KEY_INTERNALS:
		options->general.stacks.internals = true;
		return 0;
	case KEY_SYMBOLS:
		options->symbols = value;
		return 0;
	case KEY_TOP:
		options->general.writing.top =
			(size_t)options_number(state, "top", value, none, 1, 1000);
		return 0;
	case ARGP_KEY_ARG:
		add_input(state, options, value);
		return 0;
	case ARGP_KEY_END:
		check_inputs(state, options);
		check_outputs(state, options);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = {
	{&options_profile_argp, 0, NULL, 0},
	{&options_general_argp, 0, NULL, 0},
	{0},
};

static const struct argp argp = {
	.options = options_table,
	.parser = parse_one,
	.args_doc = "FILE... -o OUT\n--diff BEFORE AFTER -o OUT",
	.doc = "Turn a recorded profile into another format: what precord wrote as JSON Lines, "
	       "JSON,"
	       " folded stacks, pprof or raw samples, and other programs' folded stacks and pprof "
	       "profiles."
	       "\vExit status: 0 done, 1 a file cannot be read or written, or what --fail-above "
	       "says, 2 usage, 6 partial: the"
	       " file ended early.",
	.children = children,
};

void preport_options_parse(int argc, char **argv, struct preport_options *options)
{
	*options = (struct preport_options){.fail_above = -1};
	struct preport_parse parse = {.common = {.options = &options->general}, .options = options};
	options_run(&argp, argc, argv, &parse.common);
}
