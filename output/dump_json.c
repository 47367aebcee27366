/* SPDX-License-Identifier: MIT */
/*
 * A dump as one line of JSON, described by pdump.schema.json: {"schema":"pdump/1","pid":4242,...,
 * "threads":[{"os_thread_id":4242,...,"frames":[...]}]}. Innermost frame first.
 */
#include "output/internal.h"

static const char *activity_name(enum thread_activity activity)
{
	static const char *const names[] = {
		[THREAD_ACTIVE] = "active",
		[THREAD_IDLE] = "idle",
		[THREAD_UNINTERRUPTIBLE] = "uninterruptible",
		[THREAD_GONE] = "gone",
	};
	return (unsigned)activity < sizeof(names) / sizeof(names[0]) ? names[activity] : "gone";
}

static json_t *column(const struct frame *frame, int value)
{
	return frame->end_line > 0 && value >= 0 ? json_integer(value) : json_null();
}

/* A recording tells frames apart by their lines; only a dump knows more of each. */
static json_t *make_frame(const struct frame *frame)
{
	json_t *object = output_json_frame(frame);
	json_object_set_new(object, "end_line",
			    frame->end_line > 0 ? json_integer(frame->end_line) : json_null());
	json_object_set_new(object, "column", column(frame, frame->column));
	json_object_set_new(object, "end_column", column(frame, frame->end_column));
	return object;
}

static json_t *make_thread(const struct dump *dump, const struct dump_thread *thread)
{
	json_t *frames = json_array();
	for (size_t i = 0; i < thread->frame_count; i++)
		json_array_append_new(frames, make_frame(&thread->frames[i]));
	const char state[2] = {thread->state >= 'A' && thread->state <= 'z' ? thread->state : '?'};
	return json_pack("{s:i, s:I, s:o, s:i, s:b, s:b, s:o, s:s, s:s, s:b, s:b, s:b, s:o}", "pid",
			 (int)dump->pid, "thread_id", (json_int_t)thread->python_id, "thread_name",
			 output_json_text(thread->name), "os_thread_id", (int)thread->tid, "active",
			 thread->activity == THREAD_ACTIVE, "owns_gil", thread->holds_gil, "frames",
			 frames, "state", state, "activity", activity_name(thread->activity),
			 "known_to_python", thread->known_to_python, "gc_running",
			 thread->gc_running, "truncated", thread->truncated, "problem",
			 output_json_text(thread->problem));
}

static json_t *make_python(const struct dump *dump)
{
	if (!dump->python_version && !dump->python_executable && !dump->python_problem)
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:b}", "version", output_json_text(dump->python_version),
			 "exe", output_json_text(dump->python_executable), "problem",
			 output_json_text(dump->python_problem), "has_gil", dump->has_gil);
}

bool output_dump_json(const struct dump *dump, struct strbuf *out, struct error *error)
{
	json_t *threads = json_array();
	for (size_t i = 0; i < dump->thread_count; i++)
		json_array_append_new(threads, make_thread(dump, &dump->threads[i]));
	struct strbuf _cleanup_strbuf_ time;
	strbuf_init(&time);
	output_put_time(&time, dump->time);
	json_t *top = json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:s, s:s, s:o}", "schema",
				"pdump/1", "version", VERSION, "pid", (int)dump->pid,
				"command_line", output_json_text(dump->command_line), "executable",
				output_json_text(dump->executable), "python", make_python(dump),
				"mode", dump->native ? "native" : "python", "time", time.text,
				"threads", threads);
	if (!output_json_add(out, top, error))
		return false;
	strbuf_add_char(out, '\n');
	return true;
}
