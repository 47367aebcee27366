/* SPDX-License-Identifier: MIT */
/*
 * A profile as JSON Lines, docs/jsonl.md: a record a line, what a line refers to above it, so that
 * a file which ends early is good up to there. Everything a profile has is in it: preport makes
 * any other format of it.
 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "output/internal.h"

static void set_text(json_t *object, const char *key, const char *text)
{
	if (text)
		json_object_set_new(object, key, view_json_text(text));
}

static void set_number(json_t *object, const char *key, uint64_t value)
{
	json_object_set_new(object, key, json_integer((json_int_t)value));
}

static void set_hex(json_t *object, const char *key, uint64_t value)
{
	char text[24];
	snprintf(text, sizeof(text), "0x%" PRIx64, value);
	json_object_set_new(object, key, json_string(text));
}

static void set_true(json_t *object, const char *key, bool value)
{
	if (value)
		json_object_set_new(object, key, json_true());
}

static json_t *record(const char *type)
{
	return json_pack("{s:s}", "type", type);
}

static bool add_line(struct strbuf *out, json_t *value, struct error *error)
{
	if (!view_json_add(out, value, error))
		return false;
	strbuf_add_char(out, '\n');
	return true;
}

static bool add_meta(const struct profile *profile, struct strbuf *out, struct error *error)
{
	json_t *meta = record("meta");
	const bool usable = profile->rate > 0 && profile->rate < 1e9;
	struct strbuf _cleanup_strbuf_ time;
	strbuf_init(&time);
	view_put_time(&time, profile->start_time_ns / 1000000000u);
	json_object_set_new(meta, "schema", json_string("precord-jsonl/1"));
	set_text(meta, "version", profile->version);
	set_text(meta, "command_line", profile->command_line);
	set_text(meta, "python_version", profile->python_version);
	set_number(meta, "pid", (uint64_t)profile->pid);
	set_text(meta, "mode", profile->mode);
	set_text(meta, "event", profile->event);
	set_text(meta, "host", profile->host);
	json_object_set_new(meta, "native", json_boolean(profile->native));
	json_object_set_new(meta, "rate", json_real(usable ? profile->rate : 0));
	json_object_set_new(meta, "start_time", json_string(time.text));
	set_number(meta, "start_time_ns", profile->start_time_ns);
	if (profile->timed)
		set_number(meta, "period_ns", profile->timeline.period_ns);
	return add_line(out, meta, error);
}

static bool add_processes(const struct timeline *timeline, struct strbuf *out, struct error *error)
{
	for (size_t i = 0; i < timeline->process_count; i++) {
		const struct profile_process *process = &timeline->processes[i];
		json_t *line = record("process");
		set_number(line, "id", i);
		set_number(line, "pid", (uint64_t)process->pid);
		set_text(line, "command_line", process->command_line);
		set_text(line, "python_version", process->python_version);
		if (!add_line(out, line, error))
			return false;
	}
	return true;
}

static bool add_threads(const struct timeline *timeline, struct strbuf *out, struct error *error)
{
	for (size_t i = 0; i < timeline->thread_count; i++) {
		const struct profile_thread *thread = &timeline->threads[i];
		json_t *line = record("thread");
		set_number(line, "id", i);
		set_number(line, "process", thread->process);
		set_number(line, "tid", (uint64_t)thread->tid);
		set_text(line, "name", thread->name);
		json_object_set_new(line, "known_to_python", json_boolean(thread->known_to_python));
		if (!add_line(out, line, error))
			return false;
	}
	return true;
}

static void set_module(json_t *line, const struct frame *frame)
{
	set_text(line, "module", frame->module);
	set_text(line, "module_path", frame->module_path);
	set_text(line, "build_id", frame->build_id);
	if (frame->offset)
		set_hex(line, "offset", frame->offset);
	if (frame->has_function)
		set_hex(line, "function_offset", frame->function_offset);
}

static bool add_frame(const struct frame *frame, size_t id, struct strbuf *out, struct error *error)
{
	struct strbuf _cleanup_strbuf_ text;
	strbuf_init(&text);
	frame_text(&text, frame, true, false);
	json_t *line = record("frame");
	set_number(line, "id", id);
	json_object_set_new(line, "kind", json_string(frame_kind_name(frame->kind)));
	set_text(line, "text", text.text);
	set_text(line, "name", frame->name);
	set_text(line, "file", frame->file);
	set_text(line, "short_file", frame->short_file);
	if (frame->line > 0)
		set_number(line, "line", (uint64_t)frame->line);
	set_module(line, frame);
	set_true(line, "inlined", frame->inlined);
	set_true(line, "guessed", frame->guessed);
	set_true(line, "uncertain", frame->uncertain);
	set_true(line, "estimated", frame->estimated);
	return add_line(out, line, error);
}

/* What is written of the tree so far, and how many samples of each node are in lines with times. */
struct tree_lines {
	bool *framed, *noded;
	uint64_t *timed;
	uint32_t *path;
	size_t path_capacity;
};

/* The node's line, those of the nodes around it, and of their frames, unless they are there. */
static bool add_node(const struct profile *profile, struct tree_lines *lines, uint32_t node,
		     struct strbuf *out, struct error *error)
{
	size_t depth = 0;
	for (uint32_t at = node; !lines->noded[at]; at = profile->nodes[at].parent) {
		lines->path = alloc_room(lines->path, &lines->path_capacity, depth + 1,
					 sizeof(*lines->path));
		lines->path[depth++] = at;
	}
	while (depth > 0) {
		const uint32_t at = lines->path[--depth];
		const struct profile_node *one = &profile->nodes[at];
		if (!lines->framed[one->frame] &&
		    !add_frame(&profile->frames[one->frame], one->frame, out, error))
			return false;
		lines->framed[one->frame] = lines->noded[at] = true;
		strbuf_printf(out,
			      "{\"type\":\"node\",\"id\":%" PRIu32 ",\"parent\":%" PRIu32
			      ",\"frame\":%" PRIu32 "}\n",
			      at, one->parent, one->frame);
	}
	return true;
}

static void put_flags(struct strbuf *out, uint32_t flags)
{
	const char *separator = ",\"flags\":[";
	for (uint32_t flag = 1; flag & SAMPLE_FLAGS; flag <<= 1) {
		if (!(flags & flag))
			continue;
		strbuf_printf(out, "%s\"%s\"", separator, sample_flag_name((enum sample_flag)flag));
		separator = ",";
	}
	if (flags & SAMPLE_FLAGS)
		strbuf_add_char(out, ']');
}

static bool add_timed(const struct profile *profile, struct tree_lines *lines, struct strbuf *out,
		      struct error *error)
{
	for (size_t i = 0; i < profile->timeline.sample_count; i++) {
		const struct profile_sample *run = &profile->timeline.samples[i];
		if (!add_node(profile, lines, run->node, out, error))
			return false;
		lines->timed[run->node] += run->count;
		strbuf_printf(out,
			      "{\"type\":\"sample\",\"time_ns\":%" PRIu64 ",\"thread\":%" PRIu32
			      ",\"node\":%" PRIu32 ",\"count\":%" PRIu32,
			      run->time_ns, run->thread, run->node, run->count);
		put_flags(out, run->flags);
		strbuf_add_text(out, "}\n");
	}
	return true;
}

/* Samples that have no time: all, if there is no timeline. */
static bool add_untimed(const struct profile *profile, struct tree_lines *lines, struct strbuf *out,
			struct error *error)
{
	for (uint32_t i = 0; i < profile->node_count; i++) {
		if (profile->nodes[i].self <= lines->timed[i])
			continue;
		if (!add_node(profile, lines, i, out, error))
			return false;
		strbuf_printf(out,
			      "{\"type\":\"sample\",\"node\":%" PRIu32 ",\"count\":%" PRIu64 "}\n",
			      i, profile->nodes[i].self - lines->timed[i]);
	}
	return true;
}

static bool add_samples(const struct profile *profile, struct strbuf *out, struct error *error)
{
	struct tree_lines lines = {
		.framed = alloc_zeroed(profile->frame_count + 1, sizeof(bool)),
		.noded = alloc_zeroed(profile->node_count, sizeof(bool)),
		.timed = alloc_zeroed(profile->node_count, sizeof(uint64_t)),
	};
	lines.noded[PROFILE_ROOT] = true;
	const bool well =
		add_timed(profile, &lines, out, error) && add_untimed(profile, &lines, out, error);
	free(lines.framed);
	free(lines.noded);
	free(lines.timed);
	free(lines.path);
	return well;
}

static bool add_end(const struct profile *profile, struct strbuf *out, struct error *error)
{
	json_t *end = record("end");
	json_object_set_new(end, "counts", view_json_counts(&profile->counts));
	set_text(end, "debug_problems", profile->debug_problems);
	return add_line(out, end, error);
}

bool output_jsonl(const struct profile *profile, const struct view_options *options,
		  struct strbuf *out, struct error *error)
{
	(void)options;
	return add_meta(profile, out, error) && add_processes(&profile->timeline, out, error) &&
	       add_threads(&profile->timeline, out, error) && add_samples(profile, out, error) &&
	       add_end(profile, out, error);
}
