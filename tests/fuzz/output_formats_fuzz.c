/* SPDX-License-Identifier: MIT */
/*
 * Names and files that strangers chose, in every format: JSON stays JSON, a page's script ends
 * where it should. The input: a byte for the format, one for the view, then lines: the name, file
 * and module of a frame by turns.
 */
#include <jansson.h>

#include "base/utf8.h"
#include "output/output.h"
#include "tests/fuzz/fuzz.h"

enum { MOST_FRAMES = 32, STACK = 5, FORMATS = OUTPUT_MARKDOWN };

static const char *next_text(struct interner *strings, char **rest)
{
	const char *line = *rest ? strsep(rest, "\n") : NULL;
	struct strbuf clean;
	if (!line || !*line)
		return NULL;
	strbuf_init(&clean);
	utf8_add_clean(&clean, line, strlen(line));
	const char *text = intern_bytes(strings, clean.text, clean.size);
	strbuf_release(&clean);
	return text;
}

static void add_stacks(struct profile *profile, char *rest)
{
	uint32_t frames[MOST_FRAMES];
	size_t count = 0;
	while (rest && count < MOST_FRAMES) {
		struct frame frame = {.kind = (enum frame_kind)(count % FRAME_KIND_COUNT)};
		frame.name = next_text(profile->strings, &rest);
		frame.file = frame.short_file = next_text(profile->strings, &rest);
		frame.module = frame.module_path = next_text(profile->strings, &rest);
		frame.line = (int)count;
		frame.column = frame.end_column = -1;
		if (!frame.name && !frame.module)
			frame.name = "?";
		frames[count++] = profile_frame(profile, &frame);
		const size_t depth = count < STACK ? count : STACK;
		profile_add(profile, frames + count - depth, depth, count);
		profile->counts.samples += count;
		profile->counts.asked += count;
	}
}

static bool is_json(enum output_format format)
{
	return format == OUTPUT_JSON || format == OUTPUT_SPEEDSCOPE || format == OUTPUT_FIREFOX ||
	       format == OUTPUT_TRACE || format == OUTPUT_CPUPROFILE;
}

static void check_json(const char *text, size_t size)
{
	json_error_t error;
	json_t *value = json_loadb(text, size, 0, &error);
	if (!value)
		abort();
	json_decref(value);
}

static void check_lines(const char *text)
{
	for (const char *end; *text; text = end + 1) {
		end = strchr(text, '\n');
		if (!end)
			abort();
		check_json(text, (size_t)(end - text));
	}
}

static size_t count_of(const char *text, const char *part)
{
	size_t count = 0;
	while ((text = strcasestr(text, part))) {
		count++;
		text += strlen(part);
	}
	return count;
}

static void init(struct profile *profile, struct interner *strings, const char *text)
{
	char *lines = fuzz_text((struct fuzz_input){(const uint8_t *)text, strlen(text)});
	profile_init(profile, strings);
	profile->rate = 100;
	add_stacks(profile, lines);
	profile->command_line = profile->frames[0].name;
	profile_make_times(profile);
	free(lines);
}

/* A page with other names has as many. */
static void check_page(const struct profile *profile, enum output_format format,
		       const struct view_options *options, const char *text)
{
	static const char *const parts[] = {"<script", "</script", "<style", "<!", "]]>"};
	/* In HTML the last one is text. */
	const size_t count = sizeof(parts) / sizeof(*parts) - (format == OUTPUT_HTML);
	struct profile plain;
	struct strbuf out;
	strbuf_init(&out);
	init(&plain, profile->strings, "f\n/x.py\nlib.so\ng\n/y.py\nlib.so\n");
	if (!output_profile(&plain, format, options, &out, NULL))
		abort();
	for (size_t i = 0; i < count; i++)
		if (count_of(text, parts[i]) != count_of(out.text, parts[i]))
			abort();
	profile_release(&plain);
	strbuf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	const enum output_format format =
		(enum output_format)(OUTPUT_SVG + fuzz_number(&input, 1) % FORMATS);
	const uint64_t view = fuzz_number(&input, 1);
	const struct view_options options = {.lines = view & 1, .full_filenames = view & 2};
	struct interner *strings = interner_new();
	char *text = fuzz_text(input);
	struct profile profile;
	struct strbuf out;
	struct error error;
	init(&profile, strings, text);
	strbuf_init(&out);
	if (!output_format_missing(format) &&
	    !output_profile(&profile, format, &options, &out, &error))
		abort();
	if (is_json(format))
		check_json(out.text, out.size);
	else if (format == OUTPUT_JSONL)
		check_lines(out.text);
	else if (format == OUTPUT_SVG || format == OUTPUT_HTML)
		check_page(&profile, format, &options, out.text);
	strbuf_release(&out);
	profile_release(&profile);
	interner_free(strings);
	free(text);
	return 0;
}
