/* SPDX-License-Identifier: MIT */
/* From a profile or a dump to bytes. Knows no process. */
#ifndef OUTPUT_OUTPUT_H
#define OUTPUT_OUTPUT_H

#include <stdio.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "sample/profile.h"

/* ---- formats: format.c --------------------------------------------------------------------- */

enum output_format { OUTPUT_UNKNOWN, OUTPUT_SVG, OUTPUT_FOLDED, OUTPUT_JSON };

/* From "-f svg", OUTPUT_UNKNOWN when there is no such format. */
enum output_format output_format_by_name(const char *name);

/* From a file name: ".svg", ".folded", ".txt", ".json", each also with ".gz". */
enum output_format output_format_by_file(const char *file);

/* "svg, folded, json" and the suffixes, for usage errors. */
const char *output_format_list(void);
const char *output_suffix_list(void);

struct output_options {
	const char *title; /* NULL: made from the command line */
	bool icicle;	   /* root at the top */
	double min_width;  /* per cent of all samples; boxes below are pruned */
	bool lines;	   /* false with -F: one box a function */
	bool full_filenames;
	bool color; /* text only */
};

/* Writes a profile in a format into a growing buffer. */
bool MUST_CHECK output_profile(const struct profile *profile, enum output_format format,
			       const struct output_options *options, struct strbuf *out,
			       struct error *error);

/* ---- files: file.c -------------------------------------------------------------------------- */

/*
 * Writes the bytes to `path` whole or not at all: a temporary file beside it, synced and renamed.
 * gzip when the name ends in ".gz". "-" is stdout. A path that is not a regular file (a pipe,
 * /dev/null) is written as it is.
 */
bool MUST_CHECK output_file_write(const char *path, const void *bytes, size_t size,
				  struct error *error);

/* Fails early when `path` could not be written later (no directory, no permission). */
bool MUST_CHECK output_file_check(const char *path, struct error *error);

/* ---- pdump: text.c, dump_json.c ------------------------------------------------------------ */

void output_dump_text(const struct dump *dump, const struct output_options *options,
		      struct strbuf *out);

/* The versioned envelope {"schema": "pdump/1", ...}; one line, ended by a newline. */
bool MUST_CHECK output_dump_json(const struct dump *dump, struct strbuf *out, struct error *error);

#endif
