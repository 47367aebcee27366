/* SPDX-License-Identifier: MIT */
/*
 * replay [-n] [-t] [--internals] [--json] [--hide-files] FILE: decodes a file of raw samples
 * (precord --capture) without its process and prints the stacks as folded lines, or as JSON.
 * --hide-files: as on a machine that has none of the program's files.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output/output.h"
#include "replay/replay.h"

static bool print_profile(const struct profile *profile, enum output_format format)
{
	const struct view_options options = {.lines = true, .min_width = 0};
	struct strbuf out;
	struct error error;
	strbuf_init(&out);
	bool well = output_profile(profile, format, &options, &out, &error);
	if (well)
		fwrite(out.text, 1, out.size, stdout);
	else
		fprintf(stderr, "replay: %s\n", error.message);
	strbuf_release(&out);
	return well;
}

int main(int argc, char **argv)
{
	struct session_options options = {0};
	enum output_format format = OUTPUT_FOLDED;
	const char *file = NULL;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "-n") == 0)
			options.native = options.native_threads = true;
		else if (strcmp(argv[i], "-t") == 0)
			options.by_thread = ROOTS_NAME;
		else if (strcmp(argv[i], "--internals") == 0)
			options.internals = true;
		else if (strcmp(argv[i], "--hide-files") == 0)
			options.hide_files = true;
		else if (strcmp(argv[i], "--json") == 0)
			format = OUTPUT_JSON;
		else
			file = argv[i];
	}
	if (!file) {
		fputs("usage: replay [-n] [-t] [--internals] [--json] [--hide-files] FILE\n",
		      stderr);
		return 2;
	}
	struct interner *strings = interner_new();
	struct profile profile;
	struct error error;
	if (!replay_file(file, &options, strings, &profile, &error)) {
		fprintf(stderr, "replay: %s\n", error.message);
		interner_free(strings);
		return 1;
	}
	fprintf(stderr, "%llu samples, %llu torn, %llu salvaged, %llu guessed, %llu truncated\n",
		(unsigned long long)profile.counts.samples, (unsigned long long)profile.counts.torn,
		(unsigned long long)profile.counts.salvaged,
		(unsigned long long)profile.counts.guessed,
		(unsigned long long)profile.counts.truncated);
	bool well = print_profile(&profile, format);
	profile_release(&profile);
	interner_free(strings);
	return well ? 0 : 1;
}
