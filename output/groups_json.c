/* SPDX-License-Identifier: MIT */
/*
 * Many dumps as one line of JSON, described by pdump-merge.schema.json: the processes, then each
 * stack once, with the threads that have it:
 * {"schema":"pdump-merge/1",...,"processes":[{"pid":4711,
 * ...}],"stacks":[{"threads":[{"process":0,...}],"frames":[...]}]}.
 */
#include "output/internal.h"

static json_t *make_places(const struct dump_groups *groups)
{
	json_t *places = json_array();
	for (size_t i = 0; i < groups->place_count; i++)
		json_array_append_new(places, json_pack("{s:o, s:I}", "name",
							view_json_text(groups->places[i].name),
							"process_count",
							(json_int_t)groups->places[i].processes));
	return places;
}

static json_t *make_process(const struct dump *dump)
{
	return json_pack(
		"{s:o, s:i, s:o, s:o, s:o, s:o, s:o}", "host", view_json_text(dump->host), "pid",
		(int)dump->pid, "rank", dump->has_rank ? json_integer(dump->rank) : json_null(),
		"command_line", view_json_text(dump->command_line), "executable",
		view_json_text(dump->executable), "python", view_json_text(dump->python_version),
		"problem", view_json_text(dump->python_problem));
}

static json_t *make_member(const struct dump_member *member, const struct dump_thread *thread)
{
	return json_pack("{s:i, s:i, s:o, s:s, s:b, s:b}", "process", (int)member->dump,
			 "os_thread_id", (int)thread->tid, "thread_name",
			 view_json_text(thread->name), "activity",
			 output_activity(thread->activity), "owns_gil", thread->holds_gil,
			 "known_to_python", thread->known_to_python);
}

static json_t *make_stack(const struct dump_groups *groups, const struct dump_group *group)
{
	const struct dump *dumps = groups->list->dumps;
	const struct dump_thread *first =
		&dumps[group->members->dump].threads[group->members->thread];
	json_t *threads = json_array(), *frames = json_array();
	for (size_t i = 0; i < group->count; i++) {
		const struct dump_member *member = &group->members[i];
		json_array_append_new(
			threads, make_member(member, &dumps[member->dump].threads[member->thread]));
	}
	for (size_t i = 0; i < first->frame_count; i++)
		json_array_append_new(frames, output_json_dump_frame(&first->frames[i]));
	return json_pack("{s:I, s:o, s:o, s:o}", "process_count", (json_int_t)group->processes,
			 "threads", threads, "frames", frames, "problem",
			 view_json_text(first->problem));
}

bool output_groups_json(const struct dump_groups *groups, struct strbuf *out, struct error *error)
{
	json_t *processes = json_array(), *stacks = json_array();
	for (size_t i = 0; i < groups->list->count; i++)
		json_array_append_new(processes, make_process(&groups->list->dumps[i]));
	for (size_t i = 0; i < groups->count; i++)
		json_array_append_new(stacks, make_stack(groups, &groups->groups[i]));
	json_t *top =
		json_pack("{s:s, s:s, s:I, s:o, s:o, s:o}", "schema", "pdump-merge/1", "version",
			  VERSION, "process_count", (json_int_t)groups->processes, "places",
			  make_places(groups), "processes", processes, "stacks", stacks);
	if (!view_json_add(out, top, error))
		return false;
	strbuf_add_char(out, '\n');
	return true;
}
