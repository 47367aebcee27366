/* SPDX-License-Identifier: MIT */
/*
 * JSON Lines as output/jsonl.c writes them, docs/jsonl.md. Lines of an unknown type are passed
 * over, as are unknown members: a later version may have more. A file that ends early is read up
 * to there: its last line may be cut off.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "read/internal.h"

enum { MOST_THREADS = 1 << 22 };

struct jsonl {
	struct reading *reading;
	struct table frames, nodes, threads, processes; /* id in the file -> ours */
	bool ended;
	struct error *error;
};

static bool fail(const struct jsonl *jsonl, const char *what)
{
	return input_fail(jsonl->reading->input, jsonl->error, "%s", what);
}

/* The line's id, which is new. */
static bool new_id(const struct jsonl *jsonl, const json_t *line, const struct table *known,
		   uint64_t *id)
{
	uint32_t before;
	*id = UINT64_MAX;
	if (!json_get_number(line, "id", UINT32_MAX - 1, id) || *id == UINT64_MAX)
		return fail(jsonl, "\"id\" is none");
	return !table_find(known, *id, 0, &before) || fail(jsonl, "\"id\" is used twice");
}

/* What an id in the line refers to, which is above it. */
static bool refer(const struct jsonl *jsonl, const json_t *line, const char *key,
		  const struct table *known, uint32_t *ours)
{
	uint64_t id = UINT64_MAX;
	if (json_get_number(line, key, UINT32_MAX - 1, &id) && id != UINT64_MAX &&
	    table_find(known, id, 0, ours))
		return true;
	return input_fail(jsonl->reading->input, jsonl->error,
			  "\"%s\" refers to nothing above this line", key);
}

static bool check_schema(struct jsonl *jsonl, const json_t *line)
{
	struct reading *const reading = jsonl->reading;
	const char *schema = NULL;
	if (!json_get_text(reading, line, "schema", &schema) || !schema ||
	    strncmp(schema, "precord-jsonl/", 14) != 0)
		return fail(jsonl, "no \"schema\" of ours");
	if (strcmp(schema + 14, "1") != 0)
		return error_set(jsonl->error, ERROR_UNSUPPORTED,
				 "%.120s: of a later version of precord", reading->input->name);
	return true;
}

static bool read_meta(struct jsonl *jsonl, const json_t *line)
{
	struct reading *const reading = jsonl->reading;
	struct profile *const profile = reading->profile;
	uint64_t pid = 0, period = 0;
	if (!check_schema(jsonl, line))
		return false;
	if (!json_get_text(reading, line, "version", &profile->version) ||
	    !json_get_text(reading, line, "command_line", &profile->command_line) ||
	    !json_get_text(reading, line, "python_version", &profile->python_version) ||
	    !json_get_text(reading, line, "mode", &profile->mode) ||
	    !json_get_text(reading, line, "event", &profile->event) ||
	    !json_get_text(reading, line, "host", &profile->host) ||
	    !json_get_number(line, "pid", INT_MAX, &pid) ||
	    !json_get_bool(line, "native", &profile->native) ||
	    !json_get_real(line, "rate", 1e9, &profile->rate) ||
	    !json_get_number(line, "start_time_ns", INT64_MAX, &profile->start_time_ns) ||
	    !json_get_number(line, "period_ns", UINT64_C(1000000000000000), &period))
		return fail(jsonl, "a member is of a wrong type or out of range");
	profile->pid = (pid_t)pid;
	if (period) {
		profile_time(profile);
		profile->timeline.period_ns = period;
	}
	return true;
}

static bool read_process(struct jsonl *jsonl, const json_t *line)
{
	struct reading *const reading = jsonl->reading;
	struct profile_process process = {.command_line = ""};
	uint64_t id, pid = 0;
	if (!new_id(jsonl, line, &jsonl->processes, &id))
		return false;
	if (!json_get_number(line, "pid", INT_MAX, &pid) ||
	    !json_get_text(reading, line, "command_line", &process.command_line) ||
	    !json_get_text(reading, line, "python_version", &process.python_version) ||
	    reading->profile->timeline.process_count == MOST_THREADS)
		return fail(jsonl, "a member is of a wrong type or out of range");
	process.pid = (pid_t)pid;
	table_put(&jsonl->processes, id, 0,
		  timeline_process(&reading->profile->timeline, &process));
	return true;
}

static bool read_thread(struct jsonl *jsonl, const json_t *line)
{
	struct reading *const reading = jsonl->reading;
	struct profile_thread thread = {0};
	uint64_t id, tid = 0;
	if (!new_id(jsonl, line, &jsonl->threads, &id) ||
	    !refer(jsonl, line, "process", &jsonl->processes, &thread.process))
		return false;
	if (!json_get_number(line, "tid", INT_MAX, &tid) ||
	    !json_get_text(reading, line, "name", &thread.name) ||
	    !json_get_bool(line, "known_to_python", &thread.known_to_python) ||
	    reading->profile->timeline.thread_count == MOST_THREADS)
		return fail(jsonl, "a member is of a wrong type or out of range");
	thread.tid = (pid_t)tid;
	table_put(&jsonl->threads, id, 0, timeline_thread(&reading->profile->timeline, &thread));
	return true;
}

static bool read_frame(struct jsonl *jsonl, const json_t *line)
{
	struct reading *const reading = jsonl->reading;
	struct frame frame = {.column = -1, .end_column = -1};
	uint64_t id, number = 0;
	if (!new_id(jsonl, line, &jsonl->frames, &id))
		return false;
	if (!json_get_kind(reading, line, &frame.kind) ||
	    !json_get_text(reading, line, "name", &frame.name) ||
	    !json_get_text(reading, line, "file", &frame.file) ||
	    !json_get_text(reading, line, "short_file", &frame.short_file) ||
	    !json_get_number(line, "line", INT_MAX, &number) ||
	    !json_get_place(reading, line, &frame) || !json_get_facts(line, &frame))
		return fail(jsonl, "a member is of a wrong type or out of range");
	frame.line = (int)number;
	table_put(&jsonl->frames, id, 0, profile_frame(reading->profile, &frame));
	return true;
}

static bool read_node(struct jsonl *jsonl, const json_t *line)
{
	uint64_t id;
	uint32_t parent, frame;
	if (!new_id(jsonl, line, &jsonl->nodes, &id) ||
	    !refer(jsonl, line, "parent", &jsonl->nodes, &parent) ||
	    !refer(jsonl, line, "frame", &jsonl->frames, &frame))
		return false;
	table_put(&jsonl->nodes, id, 0, profile_add_to(jsonl->reading->profile, parent, frame, 0));
	return true;
}

static bool read_flags(const json_t *line, uint32_t *flags)
{
	const json_t *list = json_object_get(line, "flags"), *one;
	size_t i;
	*flags = 0;
	if (!list)
		return true;
	json_array_foreach(list, i, one)
	{
		const char *name = json_string_value(one);
		for (uint32_t flag = 1; name && flag & SAMPLE_FLAGS; flag <<= 1)
			if (strcmp(name, sample_flag_name((enum sample_flag)flag)) == 0)
				*flags |= flag;
	}
	return json_is_array(list);
}

static bool read_sample(struct jsonl *jsonl, const json_t *line)
{
	struct profile *const profile = jsonl->reading->profile;
	struct profile_sample run = {0};
	uint64_t count = 1, time_ns = UINT64_MAX;
	if (!refer(jsonl, line, "node", &jsonl->nodes, &run.node))
		return false;
	if (!json_get_number(line, "count", INT64_MAX, &count) ||
	    !json_get_number(line, "time_ns", INT64_MAX, &time_ns) || !read_flags(line, &run.flags))
		return fail(jsonl, "a member is of a wrong type or out of range");
	if (!reading_count(jsonl->reading, run.node, count, jsonl->error))
		return false;
	if (time_ns == UINT64_MAX) {
		profile->timeline.lost += profile->timed ? count : 0;
		return true;
	}
	if (!refer(jsonl, line, "thread", &jsonl->threads, &run.thread))
		return false;
	if (!profile->timed || count == 0 || count > UINT32_MAX)
		return fail(jsonl, "no such sample can have a time");
	run.time_ns = time_ns;
	run.count = (uint32_t)count;
	timeline_add(&profile->timeline, &run);
	return true;
}

static bool read_end(struct jsonl *jsonl, const json_t *line)
{
	struct profile *const profile = jsonl->reading->profile;
	const json_t *counts = json_object_get(line, "counts");
	jsonl->ended = true;
	if ((counts && !json_get_counts(counts, &profile->counts)) ||
	    !json_get_text(jsonl->reading, line, "debug_problems", &profile->debug_problems))
		return fail(jsonl, "a member is of a wrong type or out of range");
	return true;
}

static bool read_record(struct jsonl *jsonl, const json_t *line)
{
	static const struct {
		const char *type;
		bool (*read)(struct jsonl *jsonl, const json_t *line);
	} types[] = {
		{"process", read_process}, {"thread", read_thread}, {"frame", read_frame},
		{"node", read_node},	   {"sample", read_sample}, {"end", read_end},
	};
	const char *type = json_string_value(json_object_get(line, "type"));
	if (!type)
		return fail(jsonl, "no \"type\"");
	if ((jsonl->reading->input->line == 1) != (strcmp(type, "meta") == 0))
		return fail(jsonl, "the first line, and no other, is \"meta\"");
	if (jsonl->ended)
		return fail(jsonl, "behind the end");
	if (jsonl->reading->input->line == 1)
		return read_meta(jsonl, line);
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (strcmp(type, types[i].type) == 0)
			return types[i].read(jsonl, line);
	return true;
}

static bool read_lines(struct jsonl *jsonl)
{
	struct input *const input = jsonl->reading->input;
	const char *text;
	size_t size;
	bool whole;
	while (input_line(input, &text, &size, &whole, jsonl->error)) {
		json_error_t problem;
		json_t *line = json_loadb(text, size, 0, &problem);
		if (!line && !whole)
			return true;
		if (!line)
			return input_fail(input, jsonl->error, "no JSON: %.80s", problem.text);
		const bool well = read_record(jsonl, line);
		json_decref(line);
		if (!well)
			return false;
	}
	return jsonl->error->kind == ERROR_NONE;
}

bool read_jsonl(struct reading *reading, struct error *error)
{
	struct error ignored;
	struct jsonl jsonl = {.reading = reading, .error = error ? error : &ignored};
	table_put(&jsonl.nodes, PROFILE_ROOT, 0, PROFILE_ROOT);
	bool well = read_lines(&jsonl);
	table_release(&jsonl.frames);
	table_release(&jsonl.nodes);
	table_release(&jsonl.threads);
	table_release(&jsonl.processes);
	if (well && !jsonl.ended) {
		char text[120];
		snprintf(text, sizeof(text),
			 "the file ends early, at line %llu: samples may be missing",
			 (unsigned long long)reading->input->line);
		reading->note = intern_text(reading->strings, text);
	}
	return well;
}
