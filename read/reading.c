/* SPDX-License-Identifier: MIT */
/* What is common to the profiles that the readers make. */
#include "read/internal.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "base/utf8.h"

/* As many as a writer can add up (output/internal.h: struct view_node). */
static const uint64_t MOST_SAMPLES = UINT64_C(1) << 43;

const char *reading_text(struct reading *reading, const char *bytes, size_t size)
{
	struct strbuf _cleanup_strbuf_ clean;
	strbuf_init(&clean);
	utf8_add_clean(&clean, bytes, size);
	return intern_bytes(reading->strings, clean.text, clean.size);
}

bool reading_count(struct reading *reading, uint32_t node, uint64_t samples, struct error *error)
{
	if (samples > MOST_SAMPLES - reading->samples)
		return input_fail(reading->input, error, "more samples than there can be");
	reading->samples += samples;
	profile_add_again(reading->profile, node, samples);
	return true;
}

static bool ends_with(const char *text, const char *end)
{
	const size_t size = strlen(text), end_size = strlen(end);
	return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

static bool begins_with(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* By what is known of the file. "/usr/lib/python3.11/json/decoder.py" is a library's. */
static enum frame_kind kind_of_file(const char *file)
{
	if (ends_with(file, ".pyx") || ends_with(file, ".pxd") || ends_with(file, ".pxi"))
		return FRAME_CYTHON;
	/* "<stdin>", "<string>", too. */
	if (!ends_with(file, ".py") && file[0] != '<')
		return FRAME_NATIVE;
	return short_path_is_library(file) ? FRAME_PYTHON_LIBRARY : FRAME_PYTHON;
}

bool reading_is_source(const char *file)
{
	return kind_of_file(file) != FRAME_NATIVE;
}

/* What precord calls them. */
static enum frame_kind kind_of_name(const char *name)
{
	static const char *const marks[] = {"<gc>", "<gil wait>", "<import lock wait>"};
	if (begins_with(name, "thread ") || begins_with(name, "process "))
		return FRAME_THREAD;
	if (strcmp(name, "[gap]") == 0)
		return FRAME_GAP;
	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++)
		if (strcmp(name, marks[i]) == 0)
			return FRAME_INTERPRETER;
	return ends_with(name, "_[k]") ? FRAME_KERNEL : FRAME_NATIVE;
}

enum frame_kind reading_kind(const struct frame *frame)
{
	enum frame_kind kind = FRAME_NATIVE;
	if (frame->file)
		kind = kind_of_file(frame->file);
	else if (frame->module && begins_with(frame->module, "[kernel"))
		kind = FRAME_KERNEL;
	else if (frame->name && !frame->module)
		kind = kind_of_name(frame->name);
	return frame->guessed && kind == FRAME_NATIVE ? FRAME_GUESSED : kind;
}

static uint64_t end_of(const struct timeline *timeline)
{
	uint64_t end = 0;
	for (size_t i = 0; i < timeline->sample_count; i++) {
		const uint64_t this = timeline_end_ns(timeline, &timeline->samples[i], NULL);
		end = this > end ? this : end;
	}
	return end;
}

void reading_finish(struct reading *reading)
{
	struct profile *const profile = reading->profile;
	struct profile_counts *const counts = &profile->counts;
	counts->samples = reading->samples;
	if (profile->timed && !counts->threads)
		counts->threads = profile->timeline.thread_count;
	if (profile->timed && !counts->elapsed_ns)
		counts->elapsed_ns = end_of(&profile->timeline);
	if (!profile->mode)
		profile->mode = "unknown";
	if (!profile->command_line)
		profile->command_line = "";
}

/* The writer's name for a frame that has none: "libx.so+0x1a2b0", "libx.so", or, of code in no
 * file, "[unknown]+0x0". */
static bool is_made_name(const struct frame *frame)
{
	struct frame plain = *frame;
	struct strbuf _cleanup_strbuf_ text;
	strbuf_init(&text);
	if (!frame->name)
		return true;
	plain.name = NULL;
	plain.guessed = false;
	if (frame->has_function || !frame->module) {
		plain.has_function = true;
		frame_text(&text, &plain, false, false);
		return strcmp(text.text, frame->name) == 0;
	}
	return strcmp(frame->module, frame->name) == 0;
}

void reading_forget_made(struct frame *frame)
{
	const char *const file = frame->file;
	if (file && (!*file || (frame->module_path && strcmp(file, frame->module_path) == 0)))
		frame->file = NULL;
	if (frame->short_file && frame->module && strcmp(frame->short_file, frame->module) == 0)
		frame->short_file = NULL;
	if (is_made_name(frame))
		frame->name = NULL;
}
