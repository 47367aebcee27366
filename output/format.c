/* SPDX-License-Identifier: MIT */
/* Which format a name or a file name means, and the writer for each. */
#include <string.h>
#include <strings.h>

#include "output/internal.h"

static const struct {
	const char *name;
	enum output_format format;
} names[] = {
	{"svg", OUTPUT_SVG},
	{"folded", OUTPUT_FOLDED},
	{"json", OUTPUT_JSON},
	/* What other profilers call the folded form. */
	{"collapsed", OUTPUT_FOLDED},
	{"raw", OUTPUT_FOLDED},
};

/* The first that fits counts, so longer ones stand first. */
static const struct {
	const char *suffix;
	enum output_format format;
} suffixes[] = {
	/* Other programs' formats: a file of ours under their name would only mislead. */
	{".speedscope.json", OUTPUT_UNKNOWN},
	{".firefox.json", OUTPUT_UNKNOWN},
	{".profile.json", OUTPUT_UNKNOWN},
	{".trace.json", OUTPUT_UNKNOWN},
	{".svg", OUTPUT_SVG},
	{".folded", OUTPUT_FOLDED},
	{".txt", OUTPUT_FOLDED},
	{".json", OUTPUT_JSON},
};

enum output_format output_format_by_name(const char *name)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i].name) == 0)
			return names[i].format;
	return OUTPUT_UNKNOWN;
}

enum output_format output_format_by_file(const char *file)
{
	size_t size = strlen(file);
	if (size > 3 && strcasecmp(file + size - 3, ".gz") == 0)
		size -= 3;
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		size_t length = strlen(suffixes[i].suffix);
		if (size >= length &&
		    strncasecmp(file + size - length, suffixes[i].suffix, length) == 0)
			return suffixes[i].format;
	}
	return OUTPUT_UNKNOWN;
}

const char *output_format_list(void)
{
	return "svg, folded, json";
}

const char *output_suffix_list(void)
{
	return ".svg, .folded, .txt, .json (each also with .gz)";
}

bool output_profile(const struct profile *profile, enum output_format format,
		    const struct output_options *options, struct strbuf *out, struct error *error)
{
	switch (format) {
	case OUTPUT_SVG:
		output_svg(profile, options, out);
		return true;
	case OUTPUT_FOLDED:
		output_folded(profile, options, out);
		return true;
	case OUTPUT_JSON:
		return output_profile_json(profile, out, error);
	case OUTPUT_UNKNOWN:
		break;
	}
	return error_set(error, ERROR_UNSUPPORTED, "no such output format");
}
