/* SPDX-License-Identifier: MIT */
/* The command line of preport as one plain struct. */
#ifndef SRC_PREPORT_OPTIONS_H
#define SRC_PREPORT_OPTIONS_H

#include "src/options.h"

enum { PREPORT_MAX_INPUTS = 4096, PREPORT_MAX_MAPS = 64 };

/* All strings are those of argv, which --map takes apart: nothing needs release, but `inputs`. */
struct preport_options {
	struct options general; /* outputs and how they are shown, messages, frames of captures */
	const char **inputs;	/* "-": stdin */
	size_t input_count, input_capacity;
	const char *symbols; /* a folder of files by build ID; NULL: none */
	bool merge;
	bool diff;	   /* two inputs: before, after */
	double fail_above; /* of that, points: the status is 1 where a function's share has grown by
			      more; negative: never */
	struct preport_map {
		char *from;
		const char *to;
	} maps[PREPORT_MAX_MAPS]; /* where sources have moved */
	size_t map_count;
};

/* Returns only when all is well: a usage error ends the program with status 2, --help and --version
 * with 0. */
void preport_options_parse(int argc, char **argv, struct preport_options *options);

#endif
