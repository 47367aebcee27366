/* SPDX-License-Identifier: MIT */
/* What the command lines of several commands share, for argp: options.c has it. */
#ifndef SRC_OPTIONS_INTERNAL_H
#define SRC_OPTIONS_INTERNAL_H

#include <argp.h>

#include "src/options.h"

/* What is known only while parsing: the input of each parser. */
struct options_parse {
	struct options *options;
	const char *color;
	bool native_threads_given;
};

/* What all commands know (messages, help), and what those do that write profiles. */
extern const struct argp options_general_argp, options_profile_argp;
/* ... and what those do that look at processes. */
extern const struct argp options_common_argp;

struct options_unit {
	const char *name;
	double factor;
};

/* A number between two bounds, with at most a unit of `units` ({"khz", 1000}, ..., {0}) behind it;
 * else a usage error. */
double options_number(const struct argp_state *state, const char *option, const char *text,
		      const struct options_unit *units, double lowest, double highest);

/* The place of `value` in `names` (NULL-terminated); a usage error that lists them if it is none.
 */
int options_choose(const struct argp_state *state, const char *option, const char *value,
		   const char *const names[]);

/* The number of a `what` ("process", "thread"); else a usage error. */
pid_t options_id(const struct argp_state *state, const char *what, const char *text);

/* One more process, unless it has been named before; a usage error if it is none. */
void options_add_pid(const struct argp_state *state, struct options *options, const char *text);

/* False: no process, group or command is named. A usage error when there are both. */
bool options_check_processes(const struct argp_state *state, const struct options *options);

/* By enum stop_choice; NULL-terminated. */
extern const char *const options_stop_names[];

/* Which format each output is written in; a usage error where none is known. */
void options_choose_formats(const struct argp_state *state, struct options *options);

/* --open needs an output that can be shown; else a usage error. */
void options_check_open(const struct argp_state *state, const struct options *options);

/* In order, so that "--" is seen for what it is; returns only when all is well. */
void options_run(const struct argp *argp, int argc, char **argv, struct options_parse *parse);

#endif
