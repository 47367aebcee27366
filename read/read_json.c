/* SPDX-License-Identifier: MIT */
/*
 * JSON as output/profile_json.c writes it (docs: precord.1, precord.schema.json), in one piece. It
 * has no times. A frame's filename is its library's path where no source is known, and its name
 * tells its place there where it has none: both are taken back.
 */
#include <limits.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "read/internal.h"

static bool fail(const struct reading *reading, struct error *error, const char *list, size_t index,
		 const char *what)
{
	return error_set(error, ERROR_CORRUPT, "%.60s: %s %zu: %s", reading->input->name, list,
			 index, what);
}

/* "2026-11-21T01:02:03Z"; 0: it is none. */
static uint64_t time_of(const char *text)
{
	struct tm parts = {0};
	const char *end = text ? strptime(text, "%Y-%m-%dT%H:%M:%SZ", &parts) : NULL;
	const time_t seconds = end && !*end ? timegm(&parts) : 0;
	return seconds > 0 && seconds < INT64_MAX / 1000000000
		       ? (uint64_t)seconds * UINT64_C(1000000000)
		       : 0;
}

static bool read_envelope(struct reading *reading, const json_t *whole, struct error *error)
{
	struct profile *const profile = reading->profile;
	const char *schema = json_string_value(json_object_get(whole, "schema"));
	const json_t *counts = json_object_get(whole, "counts");
	const char *start = NULL;
	uint64_t pid = 0;
	if (!schema || strcmp(schema, "precord/1") != 0)
		return error_set(error, ERROR_UNSUPPORTED,
				 "%.120s: JSON, but no profile of precord", reading->input->name);
	if (!json_get_text(reading, whole, "version", &profile->version) ||
	    !json_get_text(reading, whole, "command_line", &profile->command_line) ||
	    !json_get_text(reading, whole, "python_version", &profile->python_version) ||
	    !json_get_text(reading, whole, "mode", &profile->mode) ||
	    !json_get_text(reading, whole, "event", &profile->event) ||
	    !json_get_text(reading, whole, "host", &profile->host) ||
	    !json_get_text(reading, whole, "start_time", &start) ||
	    !json_get_bool(whole, "native", &profile->native) ||
	    !json_get_real(whole, "rate", 1e9, &profile->rate) ||
	    !json_get_number(whole, "pid", INT_MAX, &pid) ||
	    (counts && !json_get_counts(counts, &profile->counts)))
		return error_set(error, ERROR_CORRUPT,
				 "%.120s: a member is of a wrong type or out of range",
				 reading->input->name);
	profile->pid = (pid_t)pid;
	profile->start_time_ns = time_of(start);
	return true;
}

static bool read_frame(struct reading *reading, const json_t *value, uint32_t *id)
{
	struct frame frame = {.column = -1, .end_column = -1};
	uint64_t line = 0;
	if (!json_get_kind(reading, value, &frame.kind) ||
	    !json_get_text(reading, value, "name", &frame.name) ||
	    !json_get_text(reading, value, "filename", &frame.file) ||
	    !json_get_text(reading, value, "short_filename", &frame.short_file) ||
	    !json_get_number(value, "line", INT_MAX, &line) ||
	    !json_get_place(reading, value, &frame) || !json_get_facts(value, &frame))
		return false;
	frame.line = (int)line;
	reading_forget_made(&frame);
	*id = profile_frame(reading->profile, &frame);
	return true;
}

static bool read_frames(struct reading *reading, const json_t *list, uint32_t *ids,
			struct error *error)
{
	const json_t *value;
	size_t i;
	json_array_foreach(list, i, value) if (!read_frame(reading, value, &ids[i])) return fail(
		reading, error, "frame", i, "a member is of a wrong type or out of range");
	return true;
}

/* Node `index` of the file becomes nodes[index]; parents come before their children. */
static bool read_node(struct reading *reading, const json_t *value, size_t index,
		      const uint32_t *frames, size_t frame_count, uint32_t *nodes,
		      struct error *error)
{
	uint64_t parent = UINT64_MAX, frame = UINT64_MAX, self = 0;
	if (!json_get_number(value, "parent", UINT32_MAX, &parent) ||
	    !json_get_number(value, "frame", UINT32_MAX, &frame) ||
	    !json_get_number(value, "self", INT64_MAX, &self))
		return fail(reading, error, "node", index, "a number is none, or out of range");
	if (index == 0) {
		nodes[0] = PROFILE_ROOT;
	} else {
		if (parent >= index || frame >= frame_count)
			return fail(reading, error, "node", index,
				    "it refers to nothing before it");
		nodes[index] = profile_add_to(reading->profile, nodes[parent], frames[frame], 0);
	}
	return reading_count(reading, nodes[index], self, error);
}

static bool read_lists(struct reading *reading, const json_t *whole, struct error *error)
{
	const json_t *frames = json_object_get(whole, "frames");
	const json_t *nodes = json_object_get(whole, "nodes"), *value;
	const size_t frame_count = json_array_size(frames), node_count = json_array_size(nodes);
	if (!json_is_array(frames) || !json_is_array(nodes))
		return error_set(error, ERROR_CORRUPT, "%.120s: no lists of frames and nodes",
				 reading->input->name);
	uint32_t _cleanup_free_ *frame_ids = alloc_zeroed(frame_count + 1, sizeof(*frame_ids));
	uint32_t _cleanup_free_ *node_ids = alloc_zeroed(node_count + 1, sizeof(*node_ids));
	if (!read_frames(reading, frames, frame_ids, error))
		return false;
	size_t i;
	json_array_foreach(nodes, i,
			   value) if (!read_node(reading, value, i, frame_ids, frame_count,
						 node_ids, error)) return false;
	return true;
}

bool read_json(struct reading *reading, struct error *error)
{
	const char *bytes;
	size_t size;
	json_error_t problem;
	if (!input_all(reading->input, &bytes, &size, error))
		return false;
	json_t *whole = json_loadb(bytes, size, 0, &problem);
	if (!whole)
		return error_set(error, ERROR_CORRUPT, "%.60s, line %d, byte %d: no JSON: %.80s",
				 reading->input->name, problem.line, problem.position,
				 problem.text);
	const bool well = read_envelope(reading, whole, error) && read_lists(reading, whole, error);
	json_decref(whole);
	return well;
}
