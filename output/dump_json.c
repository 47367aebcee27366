/* SPDX-License-Identifier: MIT */
/*
 * A dump as one line of JSON, described by pdump.schema.json: {"schema":"pdump/1",...,"pid":4242,
 * ...,"threads":[{"os_thread_id":4242,...,"frames":[...]}]}. Innermost frame first.
 */
#include "output/internal.h"
#include "profile/dump_signal.h"

const char *output_activity(enum thread_activity activity)
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
json_t *output_json_dump_frame(const struct frame *frame)
{
	json_t *object = view_json_frame(frame);
	json_object_set_new(object, "end_line",
			    frame->end_line > 0 ? json_integer(frame->end_line) : json_null());
	json_object_set_new(object, "column", column(frame, frame->column));
	json_object_set_new(object, "end_column", column(frame, frame->end_column));
	return object;
}

static json_t *make_crash(const struct dump_signal *crash)
{
	char name[DUMP_SIGNAL_SIZE], address[32];
	dump_signal_name(crash, name);
	snprintf(address, sizeof(address), "0x%llx", (unsigned long long)crash->address);
	return json_pack("{s:s, s:i, s:i, s:o, s:o}", "signal", name, "number", crash->number,
			 "code", crash->code, "address",
			 dump_signal_is_fault(crash) ? json_string(address) : json_null(), "sender",
			 dump_signal_is_sent(crash) ? json_integer(crash->sender) : json_null());
}

static json_t *make_thread(const struct dump *dump, const struct dump_thread *thread)
{
	json_t *frames = json_array();
	for (size_t i = 0; i < thread->frame_count; i++)
		json_array_append_new(frames, output_json_dump_frame(&thread->frames[i]));
	const char state[2] = {thread->state >= 'A' && thread->state <= 'z' ? thread->state : '?'};
	json_t *object = json_pack(
		"{s:i, s:I, s:o, s:i, s:b, s:b, s:o, s:s, s:s, s:b, s:b, s:b, s:o}", "pid",
		(int)dump->pid, "thread_id", (json_int_t)thread->python_id, "thread_name",
		view_json_text(thread->name), "os_thread_id", (int)thread->tid, "active",
		thread->activity == THREAD_ACTIVE, "owns_gil", thread->holds_gil, "frames", frames,
		"state", state, "activity", output_activity(thread->activity), "known_to_python",
		thread->known_to_python, "gc_running", thread->gc_running, "truncated",
		thread->truncated, "problem", view_json_text(thread->problem));
	if (thread->crash)
		json_object_set_new(object, "crash", make_crash(thread->crash));
	return object;
}

static json_t *make_python(const struct dump *dump)
{
	if (!dump->python_version && !dump->python_executable && !dump->python_problem)
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:b}", "version", view_json_text(dump->python_version),
			 "exe", view_json_text(dump->python_executable), "problem",
			 view_json_text(dump->python_problem), "has_gil", dump->has_gil);
}

bool output_dump_json(const struct dump *dump, struct strbuf *out, struct error *error)
{
	json_t *threads = json_array();
	for (size_t i = 0; i < dump->thread_count; i++)
		json_array_append_new(threads, make_thread(dump, &dump->threads[i]));
	struct strbuf _cleanup_strbuf_ time;
	strbuf_init(&time);
	view_put_time(&time, dump->time);
	json_t *top = json_pack(
		"{s:s, s:s, s:o, s:i, s:o, s:o, s:o, s:o, s:s, s:s, s:o}", "schema", "pdump/1",
		"version", VERSION, "host", view_json_text(dump->host), "pid", (int)dump->pid,
		"rank", dump->has_rank ? json_integer(dump->rank) : json_null(), "command_line",
		view_json_text(dump->command_line), "executable", view_json_text(dump->executable),
		"python", make_python(dump), "mode", dump->native ? "native" : "python", "time",
		time.text, "threads", threads);
	if (!view_json_add(out, top, error))
		return false;
	strbuf_add_char(out, '\n');
	return true;
}
