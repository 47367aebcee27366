/* SPDX-License-Identifier: MIT */
/*
 * Folded stacks: "<module> (app.py:9);fit (als.py:159);saxpy_ (libmkl.so) 37". Ours, and those of
 * others who write the same form (stackcollapse-*.pl, py-spy, austin, inferno): what a frame's text
 * says of file, line, library and kind is taken from it, if the frame then has just this text.
 * Lines without anything and those that begin with '#' are passed over.
 */
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "read/internal.h"

enum { MOST_FRAMES = 1 << 20 }; /* of a stack */

struct folded {
	struct reading *reading;
	struct table frames; /* interned text -> frame */
	uint32_t *stack;
	size_t count, capacity;
};

/* "app.py:9", "app.py:~9": the digits' number; *size: of what is before the colon. 0: no line. */
static int line_of(const char *place, size_t *size, bool *estimated)
{
	size_t digits = *size;
	while (digits > 0 && isdigit((unsigned char)place[digits - 1]))
		digits--;
	const size_t colon = digits > 0 && place[digits - 1] == '~' ? digits - 1 : digits;
	if (digits == *size || colon < 2 || place[colon - 1] != ':')
		return 0;
	const long line = strtol(place + digits, NULL, 10);
	if (line <= 0 || line > INT_MAX)
		return 0;
	*estimated = colon != digits;
	*size = colon - 1;
	return (int)line;
}

static void split_place(struct reading *reading, const char *place, size_t size,
			struct frame *frame)
{
	frame->line = line_of(place, &size, &frame->estimated);
	const char *text = reading_text(reading, place, size);
	if (frame->line > 0 || reading_is_source(text))
		frame->short_file = frame->file = text;
	else
		frame->module = text;
}

/* "libfoo.so+0x1a2b0" */
static bool split_nameless(struct reading *reading, const char *text, size_t size,
			   struct frame *frame)
{
	const char *plus = memrchr(text, '+', size);
	if (!plus || plus == text || strncmp(plus, "+0x", 3) != 0)
		return false;
	char *end;
	frame->function_offset = frame->offset = strtoull(plus + 3, &end, 16);
	frame->has_function = end == text + size;
	frame->module = reading_text(reading, text, (size_t)(plus - text));
	return frame->has_function;
}

static void split_text(struct reading *reading, const char *text, struct frame *frame)
{
	static const char guessed[] = " [guessed]";
	size_t size = strlen(text);
	frame->guessed = size >= sizeof(guessed) - 1 &&
			 strcmp(text + size - (sizeof(guessed) - 1), guessed) == 0;
	size -= frame->guessed ? sizeof(guessed) - 1 : 0;
	const bool closed = size > 0 && text[size - 1] == ')';
	const char *open = NULL;
	for (size_t i = size; closed && i-- > 2 && !open;)
		if (text[i] == '(' && text[i - 1] == ' ')
			open = text + i;
	if (open) {
		frame->name = reading_text(reading, text, (size_t)(open - 1 - text));
		split_place(reading, open + 1, (size_t)(text + size - 1 - (open + 1)), frame);
	} else if (!split_nameless(reading, text, size, frame)) {
		frame->name = reading_text(reading, text, size);
	}
}

static uint32_t make_frame(struct reading *reading, const char *text)
{
	struct frame frame = {.kind = FRAME_NATIVE, .column = -1, .end_column = -1};
	struct strbuf _cleanup_strbuf_ again;
	strbuf_init(&again);
	split_text(reading, text, &frame);
	frame_text(&again, &frame, true, false);
	if (strcmp(again.text, text) != 0)
		frame = (struct frame){
			.kind = FRAME_NATIVE, .name = text, .column = -1, .end_column = -1};
	frame.kind = reading_kind(&frame);
	return profile_frame(reading->profile, &frame);
}

static uint32_t frame_of(struct folded *folded, const char *bytes, size_t size)
{
	const char *text = reading_text(folded->reading, bytes, size);
	const uint64_t key = (uint64_t)(uintptr_t)text;
	uint32_t id;
	if (table_find(&folded->frames, key, 0, &id))
		return id;
	id = make_frame(folded->reading, text);
	table_put(&folded->frames, key, 0, id);
	return id;
}

/* The number at the line's end, less which and the blank before it *size is. */
static bool read_count(const char *line, size_t *size, uint64_t *count)
{
	size_t end = *size, start;
	while (end > 0 && (line[end - 1] == ' ' || line[end - 1] == '\t'))
		end--;
	start = end;
	while (start > 0 && isdigit((unsigned char)line[start - 1]))
		start--;
	if (start == end || end - start > 18 || (start > 0 && line[start - 1] != ' '))
		return false;
	*count = 0;
	for (size_t i = start; i < end; i++)
		*count = *count * 10 + (uint64_t)(line[i] - '0');
	*size = start > 0 ? start - 1 : 0;
	return true;
}

static bool read_stack(struct folded *folded, const char *line, size_t size, struct error *error)
{
	folded->count = 0;
	for (size_t at = 0; at < size;) {
		const char *semicolon = memchr(line + at, ';', size - at);
		const size_t end = semicolon ? (size_t)(semicolon - line) : size;
		if (folded->count == MOST_FRAMES)
			return input_fail(folded->reading->input, error,
					  "a stack of more than a million frames");
		folded->stack = alloc_room(folded->stack, &folded->capacity, folded->count + 1,
					   sizeof(*folded->stack));
		if (end > at)
			folded->stack[folded->count++] = frame_of(folded, line + at, end - at);
		at = end + 1;
	}
	return true;
}

static bool read_line(struct folded *folded, const char *line, size_t size, struct error *error)
{
	static const char none[] = "[no frames]";
	struct reading *const reading = folded->reading;
	uint64_t count;
	if (size == 0 || line[0] == '#')
		return true;
	if (!read_count(line, &size, &count))
		return input_fail(reading->input, error,
				  "no folded stack: it does not end in a blank and a number");
	if (size == sizeof(none) - 1 && memcmp(line, none, size) == 0)
		return reading_count(reading, PROFILE_ROOT, count, error);
	if (!read_stack(folded, line, size, error))
		return false;
	const uint32_t node = profile_add(reading->profile, folded->stack, folded->count, 0);
	return reading_count(reading, node, count, error);
}

bool read_folded(struct reading *reading, struct error *error)
{
	struct folded folded = {.reading = reading};
	struct error local;
	const char *line;
	size_t size;
	bool whole = true, well = true;
	error = error ? error : &local;
	while (well && input_line(reading->input, &line, &size, &whole, error))
		well = read_line(&folded, line, size, error);
	well = well && error->kind == ERROR_NONE;
	if (well && reading->input->damaged)
		well = input_fail(reading->input, error, "cut off, or damaged, behind it");
	table_release(&folded.frames);
	free(folded.stack);
	reading->profile->event = NULL;
	return well;
}
