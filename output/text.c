/* SPDX-License-Identifier: MIT */
/*
 * A dump as people read it: the process, its Python, then each thread with its stack, innermost
 * frame first. Colours only when asked for, and only around what is printed without them too.
 */
#include <string.h>

#include "base/utf8.h"
#include "output/internal.h"
#include "profile/dump_signal.h"

#define BOLD "\033[1m"
#define DIM "\033[2m"
#define PLAIN "\033[0m"

static const char *const kind_colors[FRAME_KIND_COUNT] = {
	[FRAME_PYTHON] = "\033[94m",  [FRAME_PYTHON_LIBRARY] = "\033[36m",
	[FRAME_BUILTIN] = "\033[34m", [FRAME_CYTHON] = "\033[33m",
	[FRAME_NATIVE] = "\033[91m",  [FRAME_INTERPRETER] = "\033[35m",
	[FRAME_KERNEL] = "\033[32m",  [FRAME_IDLE] = "\033[2m",
	[FRAME_GUESSED] = "\033[35m", [FRAME_THREAD] = "\033[1m",
	[FRAME_GAP] = "\033[35m",
};

/* Names come from the target: no byte of theirs may reach the terminal as a control sequence. */
static void put_clean(struct strbuf *out, const char *text, size_t size)
{
	utf8_add_clean(out, text, size);
}

static void put_text(struct strbuf *out, const char *text)
{
	put_clean(out, text, strlen(text));
}

static void put_python(struct strbuf *out, const struct dump *dump)
{
	if (dump->python_problem) {
		put_text(out, dump->python_problem);
	} else if (dump->python_version) {
		strbuf_add_text(out, "Python ");
		put_text(out, dump->python_version);
		if (dump->python_executable) {
			strbuf_add_text(out, " (");
			put_text(out, dump->python_executable);
			strbuf_add_char(out, ')');
		}
	} else {
		return;
	}
	strbuf_add_char(out, '\n');
}

/* What is not Python and was not looked at. */
static bool is_line(const struct dump *dump)
{
	return dump->no_python && dump->thread_count == 0;
}

void output_put_bold(struct strbuf *out, bool color)
{
	strbuf_add_text(out, color ? BOLD : "");
}

void output_put_plain(struct strbuf *out, bool color)
{
	strbuf_add_text(out, color ? PLAIN : "");
}

void output_put_thread(struct strbuf *out, const struct dump_thread *thread, bool color)
{
	output_put_bold(out, color);
	strbuf_printf(out, "Thread %d (%s", (int)thread->tid,
		      thread->crash ? "crashed: " : output_activity(thread->activity));
	if (thread->crash)
		dump_signal_text(out, thread->crash);
	strbuf_printf(out, "%s%s%s)", thread->holds_gil ? ", gil" : "",
		      thread->known_to_python ? "" : ", native", thread->gc_running ? ", gc" : "");
	if (thread->name && *thread->name) {
		strbuf_add_text(out, ": \"");
		put_text(out, thread->name);
		strbuf_add_char(out, '"');
	}
	output_put_plain(out, color);
	strbuf_add_char(out, '\n');
}

static void put_frame(struct strbuf *out, const struct frame *frame,
		      const struct view_options *options, struct strbuf *scratch)
{
	strbuf_reset(scratch);
	frame_text(scratch, frame, options->lines, options->full_filenames);
	size_t name = view_name_size(frame, scratch->text);
	strbuf_add_text(out, "    ");
	if (!options->color) {
		put_clean(out, scratch->text, scratch->size);
	} else {
		const char *paint =
			(unsigned)frame->kind < FRAME_KIND_COUNT ? kind_colors[frame->kind] : "";
		strbuf_add_text(out, paint);
		put_clean(out, scratch->text, name);
		strbuf_add_text(out, PLAIN);
		if (scratch->size > name) {
			strbuf_add_text(out, DIM);
			put_clean(out, scratch->text + name, scratch->size - name);
			strbuf_add_text(out, PLAIN);
		}
	}
	strbuf_add_char(out, '\n');
}

/* What keeps this from being the whole stack, if anything. */
static void put_problem(struct strbuf *out, const struct dump_thread *thread)
{
	if (!thread->problem)
		return;
	strbuf_add_text(out,
			thread->frame_count ? "    [stack incomplete: " : "    [stack not read: ");
	put_text(out, thread->problem);
	strbuf_add_text(out, "]\n");
}

void output_put_stack(struct strbuf *out, const struct dump_thread *thread,
		      const struct view_options *options)
{
	struct strbuf _cleanup_strbuf_ scratch;
	strbuf_init(&scratch);
	for (size_t i = 0; i < thread->frame_count; i++)
		put_frame(out, &thread->frames[i], options, &scratch);
	put_problem(out, thread);
}

/* "Process 7: sh run.sh (not Python)" */
static void put_process(struct strbuf *out, const struct dump *dump)
{
	strbuf_printf(out, "Process %d", (int)dump->pid);
	const char *command =
		dump->command_line && *dump->command_line ? dump->command_line : dump->executable;
	if (command) {
		strbuf_add_text(out, ": ");
		put_text(out, command);
	}
	strbuf_add_text(out, is_line(dump) ? " (not Python)\n" : "\n");
}

void output_dump_text(const struct dump *dump, const struct view_options *options,
		      struct strbuf *out)
{
	put_process(out, dump);
	if (is_line(dump))
		return;
	put_python(out, dump);
	strbuf_add_char(out, '\n');
	for (size_t i = 0; i < dump->thread_count; i++) {
		output_put_thread(out, &dump->threads[i], options->color);
		output_put_stack(out, &dump->threads[i], options);
	}
}
