/* SPDX-License-Identifier: MIT */
/*
 * From debug information that is there but cannot be used to one line that says so: each file
 * counts once for each cause, the first few are named.
 */
#include <string.h>

#include "symbolize/internal.h"

static const char *const words[] = {
	[DEBUG_PROBLEM_ZSTD] = "compressed by zstd, which this libelf cannot read",
	[DEBUG_PROBLEM_COMPRESSION] = "compressed in an unknown way",
	[DEBUG_PROBLEM_DAMAGED] = "damaged",
	[DEBUG_PROBLEM_ALTERNATE] = "the file that dwz moved parts of it to is not here",
	[DEBUG_PROBLEM_DWO] = "a .dwo file is not here",
	[DEBUG_PROBLEM_DWP] = "in a .dwp file, which this libdw cannot read",
	[DEBUG_PROBLEM_LZMA] = "compressed by LZMA, built without liblzma",
	[DEBUG_PROBLEM_FETCHED] = "debuginfod's is not the file that was asked for",
};
_Static_assert(sizeof(words) / sizeof(*words) == DEBUG_PROBLEM_COUNT, "one for each");

void debug_problems_init(struct debug_problems *problems)
{
	*problems = (struct debug_problems){.files = 0};
	table_init(&problems->seen);
}

void debug_problems_release(struct debug_problems *problems)
{
	table_release(&problems->seen);
}

void debug_problems_add(struct debug_problems *problems, struct interner *interner,
			enum debug_problem problem, const char *path)
{
	struct debug_cause *cause = &problems->causes[problem];
	const char *slash = strrchr(path, '/');
	uint32_t ignored;

	path = intern_clean(interner, path, strlen(path));
	if (table_find(&problems->seen, (uint64_t)(uintptr_t)path, problem, &ignored))
		return;
	table_put(&problems->seen, (uint64_t)(uintptr_t)path, problem, 0);
	if (cause->files < DEBUG_PROBLEM_NAMED)
		cause->names[cause->files] =
			slash ? intern_clean(interner, slash + 1, strlen(slash + 1)) : path;
	cause->files++;
	problems->files++;
}

static void describe(const struct debug_cause *cause, const char *why, struct strbuf *text)
{
	strbuf_printf(text, "%s (", why);
	for (size_t i = 0; i < cause->files && i < DEBUG_PROBLEM_NAMED; i++)
		strbuf_printf(text, "%s%s", i ? ", " : "", cause->names[i]);
	if (cause->files > DEBUG_PROBLEM_NAMED)
		strbuf_printf(text, " and %zu more", cause->files - DEBUG_PROBLEM_NAMED);
	strbuf_add_text(text, ")");
}

void debug_problems_describe(const struct debug_problems *problems, struct strbuf *text)
{
	const char *before = "";

	if (!problems->files)
		return;
	strbuf_printf(text, "debug information of %zu file%s could not be used: ", problems->files,
		      problems->files > 1 ? "s" : "");
	for (size_t i = 0; i < DEBUG_PROBLEM_COUNT; i++) {
		if (!problems->causes[i].files)
			continue;
		strbuf_add_text(text, before);
		describe(&problems->causes[i], words[i], text);
		before = "; ";
	}
}
