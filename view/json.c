/* SPDX-License-Identifier: MIT */
/*
 * What both JSON writers share. A frame has py-spy's keys, which people have parsers for, and
 * then ours. Offsets are hex text: JavaScript loses numbers past 2^53. No run-time address.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "view/view.h"

static void *allocate(size_t size)
{
	return alloc_resized(NULL, 1, size);
}

void view_json_begin(void)
{
	json_set_alloc_funcs(allocate, free);
}

json_t *view_json_text(const char *text)
{
	if (!text)
		return json_null();
	struct strbuf _cleanup_strbuf_ clean;
	strbuf_init(&clean);
	utf8_add_clean(&clean, text, strlen(text));
	return json_stringn(clean.text, clean.size);
}

static json_t *hex(bool known, uint64_t value)
{
	char text[24];
	snprintf(text, sizeof(text), "0x%" PRIx64, value);
	return known ? json_string(text) : json_null();
}

/* Never null: a frame without a name is called by its place in the library. */
static json_t *name_of(const struct frame *frame)
{
	if (frame->name && *frame->name)
		return view_json_text(frame->name);
	struct frame plain = *frame;
	plain.name = NULL;
	plain.guessed = false;
	plain.has_function = true;
	struct strbuf _cleanup_strbuf_ text;
	strbuf_init(&text);
	if (frame->has_function || !frame->module)
		frame_text(&text, &plain, false, false);
	else
		strbuf_add_text(&text, frame->module);
	return view_json_text(text.text);
}

json_t *view_json_frame(const struct frame *frame)
{
	/* py-spy: a native frame without source has its library there, and line 0. */
	const char *file = frame->file ? frame->file : frame->module_path;
	const char *short_file = frame->short_file ? frame->short_file : frame->module;
	bool in_module = frame->module || frame->module_path;
	return json_pack(
		"{s:o, s:o, s:o, s:o, s:i, s:n, s:s, s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:b}",
		"name", name_of(frame), "filename", view_json_text(file ? file : ""),
		"short_filename", view_json_text(short_file), "module",
		view_json_text(frame->module ? frame->module : frame->module_path), "line",
		frame->line > 0 ? frame->line : 0, "locals", "kind", frame_kind_name(frame->kind),
		"module_path", view_json_text(frame->module_path), "offset",
		hex(in_module, frame->offset), "function_offset",
		hex(in_module && frame->has_function, frame->function_offset), "build_id",
		view_json_text(frame->build_id), "inlined", frame->inlined, "guessed",
		frame->guessed, "uncertain", frame->uncertain, "estimated", frame->estimated);
}

json_t *view_json_counts(const struct profile_counts *counts)
{
	json_t *object = json_object();
	for (size_t i = 0; i < PROFILE_COUNT_FIELDS; i++)
		json_object_set_new(object, profile_count_name(i),
				    json_integer((json_int_t)profile_count(counts, i)));
	return object;
}

static int append(const char *bytes, size_t size, void *out)
{
	strbuf_add(out, bytes, size);
	return 0;
}

bool view_json_add(struct strbuf *out, json_t *value, struct error *error)
{
	int failed =
		!value || json_dump_callback(value, append, out, JSON_COMPACT | JSON_ENCODE_ANY);
	json_decref(value);
	if (failed)
		return error_set(error, ERROR_SYSTEM, "cannot make the JSON text");
	return true;
}
