/* SPDX-License-Identifier: MIT */
/* A file that is read as a profile; one that can be is changed in every way, and written. */
#ifndef TESTS_FUZZ_READ_H
#define TESTS_FUZZ_READ_H

#include <regex.h>
#include <stdio.h>

#include "base/strbuf.h"
#include "output/output.h"
#include "profile/diff.h"
#include "read/read.h"
#include "tests/fuzz/fuzz.h"

/* No more than memory and time have room for, whatever a file says: a few formats, small trees. */
static inline void fuzz_use(struct profile *profile)
{
	static const enum output_format formats[] = {OUTPUT_FOLDED, OUTPUT_JSONL, OUTPUT_JSON};
	const struct view_options options = {.lines = true};
	struct profile merged;
	struct profile_diff diff;
	struct error error;
	regex_t regex;

	if (regcomp(&regex, "a|[0-9]", REG_EXTENDED | REG_NOSUB) != 0)
		abort();
	profile_make_times(profile);
	profile_root(profile, ROOTS_NAME);
	if (profile_merge(&merged, profile, 1, &error)) {
		profile_move_sources(&merged, "/", "/moved/");
		if (profile_diff_init(&diff, profile, &merged, &error))
			profile_diff_release(&diff);
		profile_filter(&merged, &(struct profile_filter){.exclude = &regex});
		profile_release(&merged);
	}
	regfree(&regex);
	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
		struct strbuf out;
		strbuf_init(&out);
		if (!output_profile(profile, formats[i], &options, &out, &error))
			abort();
		strbuf_release(&out);
	}
}

/* The input behind what begins such a file. */
static inline int fuzz_read(const char *begin, const uint8_t *data, size_t size)
{
	const size_t before = strlen(begin);
	uint8_t *bytes = malloc(before + size + 1);
	memcpy(bytes, begin, before);
	if (size)
		memcpy(bytes + before, data, size);
	const int fd = fuzz_file((struct fuzz_input){bytes, before + size});
	struct interner *strings = interner_new();
	struct profile profile;
	struct error error;
	enum read_kind kind;
	const char *note;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (read_profile(path, strings, &profile, &kind, &note, &error)) {
		fuzz_use(&profile);
		profile_release(&profile);
	}
	interner_free(strings);
	close(fd);
	free(bytes);
	return 0;
}

#endif
