/* SPDX-License-Identifier: MIT */
/*
 * The formats: what each is called, which file names mean it, and its writer. To add one is a file
 * with a writer, its declaration in the header of its folder, a value in enum output_format, and a
 * row here.
 */
#include <string.h>
#include <strings.h>

#include "output/internal.h"
#include "pictures/pictures.h"
#include "viewers/viewers.h"

struct format_row {
	enum output_format format;
	const char *name;
	const char *aliases;  /* other names of it, with commas between; NULL: none */
	const char *suffixes; /* likewise; the first one is what a default file name ends in */
	bool timed;	      /* it shows times: the profile needs a timeline */
	bool binary;	      /* nothing for a terminal */
	profile_writer *write;
};

static const struct format_row rows[] = {
	{OUTPUT_SVG, "svg", NULL, ".svg", false, false, picture_svg},
	{OUTPUT_HTML, "html", NULL, ".html", true, false, picture_html},
	/* What other profilers call the folded form. */
	{OUTPUT_FOLDED, "folded", "collapsed,raw", ".folded,.txt", false, false, output_folded},
	{OUTPUT_JSON, "json", NULL, ".json", false, false, output_profile_json},
	{OUTPUT_JSONL, "jsonl", NULL, ".jsonl", true, false, output_jsonl},
	{OUTPUT_SPEEDSCOPE, "speedscope", NULL, ".speedscope.json", true, false, viewer_speedscope},
	{OUTPUT_PPROF, "pprof", NULL, ".pb.gz,.pb", true, true, viewer_pprof},
	{OUTPUT_FIREFOX, "firefox", "gecko", ".firefox.json", true, false, viewer_firefox},
	{OUTPUT_TRACE, "trace", "chrome,chrometrace", ".trace.json", true, false, viewer_trace},
	{OUTPUT_CPUPROFILE, "cpuprofile", NULL, ".cpuprofile", true, false, viewer_cpuprofile},
	{OUTPUT_MARKDOWN, "markdown", "md", ".md", true, false, output_markdown},
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

/* Other programs' formats: a file of ours under their name would only mislead. */
static const char reserved[] = ".profile.json";

static const struct format_row *find(enum output_format format)
{
	for (size_t i = 0; i < ROWS; i++)
		if (rows[i].format == format)
			return &rows[i];
	return NULL;
}

/* The next item of a list with commas, which moves on; false: that was all. */
static bool next_item(const char **list, const char **item, size_t *size)
{
	if (!*list || !**list)
		return false;
	*item = *list;
	*size = strcspn(*list, ",");
	*list += *size + ((*list)[*size] == ',');
	return true;
}

static bool has_item(const char *list, const char *text)
{
	const char *item;
	size_t size;
	while (next_item(&list, &item, &size))
		if (strlen(text) == size && strncmp(item, text, size) == 0)
			return true;
	return false;
}

enum output_format output_format_by_name(const char *name)
{
	for (size_t i = 0; i < ROWS; i++)
		if (strcmp(name, rows[i].name) == 0 || has_item(rows[i].aliases, name))
			return rows[i].format;
	return OUTPUT_UNKNOWN;
}

/* The length of the longest suffix in the list that the name ends in; 0: none. */
static size_t longest_suffix(const char *list, const char *file, size_t file_size)
{
	size_t longest = 0, size;
	const char *item;
	while (next_item(&list, &item, &size))
		if (size > longest && file_size >= size &&
		    strncasecmp(file + file_size - size, item, size) == 0)
			longest = size;
	return longest;
}

enum output_format output_format_by_file(const char *file)
{
	size_t size = strlen(file);
	if (size > 3 && strcasecmp(file + size - 3, ".gz") == 0)
		size -= 3;
	size_t longest = longest_suffix(reserved, file, size);
	enum output_format format = OUTPUT_UNKNOWN;
	for (size_t i = 0; i < ROWS; i++) {
		const size_t length = longest_suffix(rows[i].suffixes, file, size);
		if (length <= longest)
			continue;
		longest = length;
		format = rows[i].format;
	}
	return format;
}

static void append(char *text, size_t room, const char *separator, const char *item, size_t size)
{
	const size_t used = strlen(text);
	snprintf(text + used, room - used, "%s%.*s", used ? separator : "", (int)size, item);
}

const char *output_format_list(void)
{
	static char text[256];
	text[0] = '\0';
	for (size_t i = 0; i < ROWS; i++)
		append(text, sizeof(text), ", ", rows[i].name, strlen(rows[i].name));
	return text;
}

const char *output_suffix_list(void)
{
	static char text[256];
	text[0] = '\0';
	for (size_t i = 0; i < ROWS; i++) {
		const char *list = rows[i].suffixes, *item;
		size_t size;
		while (next_item(&list, &item, &size))
			append(text, sizeof(text), ", ", item, size);
	}
	append(text, sizeof(text), " ", "(each also with .gz)", sizeof(text));
	return text;
}

void output_format_suffix(enum output_format format, char *text, size_t size)
{
	const struct format_row *row = find(format);
	const char *suffixes = row ? row->suffixes : ".svg";
	snprintf(text, size, "%.*s", (int)strcspn(suffixes, ","), suffixes);
}

const char *output_format_missing(enum output_format format)
{
#ifndef HAVE_PROTOBUF_C
	if (format == OUTPUT_PPROF)
		return "protobuf-c";
#endif
	(void)format;
	return NULL;
}

bool output_format_is_timed(enum output_format format)
{
	const struct format_row *row = find(format);
	return row && row->timed;
}

bool output_format_is_binary(enum output_format format)
{
	const struct format_row *row = find(format);
	return row && row->binary;
}

bool output_profile(const struct profile *profile, enum output_format format,
		    const struct view_options *options, struct strbuf *out, struct error *error)
{
	const struct format_row *row = find(format);
	if (!row)
		return error_set(error, ERROR_UNSUPPORTED, "no such output format");
	return row->write(profile, options, out, error);
}
