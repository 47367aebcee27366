/* SPDX-License-Identifier: MIT */
/* From a profile or a dump to bytes. Knows no process. */
#ifndef OUTPUT_OUTPUT_H
#define OUTPUT_OUTPUT_H

#include <stdio.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "profile/dump_groups.h"
#include "profile/profile.h"
#include "view/view.h"

/* ---- formats: format.c --------------------------------------------------------------------- */

enum output_format {
	OUTPUT_UNKNOWN,
	OUTPUT_SVG,
	OUTPUT_HTML,
	OUTPUT_FOLDED,
	OUTPUT_JSON,
	OUTPUT_JSONL,
	OUTPUT_SPEEDSCOPE,
	OUTPUT_PPROF,
	OUTPUT_FIREFOX,
	OUTPUT_TRACE,
	OUTPUT_CPUPROFILE,
	OUTPUT_MARKDOWN,
};

/* From "-f svg", OUTPUT_UNKNOWN when there is no such format. */
enum output_format output_format_by_name(const char *name);

/* From a file name: ".svg", ".folded", ".txt", ".json", ..., each also with ".gz". */
enum output_format output_format_by_file(const char *file);

/* "svg, folded, json" and the suffixes, for usage errors. */
const char *output_format_list(void);
const char *output_suffix_list(void);

/* ".svg": what names of its files end in. OUTPUT_UNKNOWN: those of what is written by default. */
void output_format_suffix(enum output_format format, char *text, size_t size);

/* The library that is missing, as it was built without it; NULL: it can be written. */
const char *output_format_missing(enum output_format format);

/* It shows times: a profile that is written in it needs a timeline. */
bool output_format_is_timed(enum output_format format);

/* Nothing that a terminal should show. */
bool output_format_is_binary(enum output_format format);

/* Writes a profile in a format into a growing buffer. */
bool MUST_CHECK output_profile(const struct profile *profile, enum output_format format,
			       const struct view_options *options, struct strbuf *out,
			       struct error *error);

/* The difference of two profiles; not every format has one: diff.c. */
struct profile_diff;
bool output_diff_has(enum output_format format);
bool MUST_CHECK output_diff(const struct profile_diff *diff, enum output_format format,
			    const struct view_options *options, struct strbuf *out,
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

void output_dump_text(const struct dump *dump, const struct view_options *options,
		      struct strbuf *out);

/* The versioned envelope {"schema": "pdump/1", ...}; one line, ended by a newline. */
bool MUST_CHECK output_dump_json(const struct dump *dump, struct strbuf *out, struct error *error);

/* ---- pdump --merge: groups_text.c, groups_json.c ----------------------------------------------
 */

/* A line that says where the processes are, then each stack once, with who is there. */
void output_groups_text(const struct dump_groups *groups, const struct view_options *options,
			struct strbuf *out);

/* {"schema": "pdump-merge/1", ...}; one line, ended by a newline. */
bool MUST_CHECK output_groups_json(const struct dump_groups *groups, struct strbuf *out,
				   struct error *error);

#endif
