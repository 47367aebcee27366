/* SPDX-License-Identifier: MIT */
/*
 * A frame as people read it: "fit (als.py:159)", "dgemm_kernel (libopenblas.so.0)",
 * "libfoo.so+0x1a2b0", "libfoo.so [guessed]". Every string of a frame may be missing; a run-time
 * address never gets in, because struct frame has none.
 */
#include <inttypes.h>

#include "base/strbuf.h"
#include "profile/profile.h"

const char *frame_kind_name(enum frame_kind kind)
{
	static const char *const names[FRAME_KIND_COUNT] = {
		[FRAME_PYTHON] = "python",   [FRAME_PYTHON_LIBRARY] = "python-library",
		[FRAME_CYTHON] = "cython",   [FRAME_BUILTIN] = "builtin",
		[FRAME_NATIVE] = "native",   [FRAME_INTERPRETER] = "interpreter",
		[FRAME_KERNEL] = "kernel",   [FRAME_IDLE] = "idle",
		[FRAME_GUESSED] = "guessed", [FRAME_THREAD] = "thread",
		[FRAME_GAP] = "gap",
	};
	return (unsigned)kind < FRAME_KIND_COUNT ? names[kind] : "unknown";
}

/* An empty string is as good as none. */
static const char *first_of(const char *one, const char *two)
{
	if (one && *one)
		return one;
	return two && *two ? two : NULL;
}

/* " (als.py:159)", " (libopenblas.so.0)" or nothing. */
static void add_place(struct strbuf *out, const struct frame *frame, bool lines, bool full)
{
	const char *file = full ? first_of(frame->file, frame->short_file)
				: first_of(frame->short_file, frame->file);
	const char *module = full ? first_of(frame->module_path, frame->module)
				  : first_of(frame->module, frame->module_path);
	/* A native function's file without a line says less than its library does. */
	if (file && (frame->line > 0 || !module)) {
		strbuf_printf(out, " (%s", file);
		if (lines && frame->line > 0)
			strbuf_printf(out, frame->estimated ? ":~%d" : ":%d", frame->line);
		strbuf_add_char(out, ')');
	} else if (module) {
		strbuf_printf(out, " (%s)", module);
	}
}

void frame_name_text(struct strbuf *out, const struct frame *frame)
{
	short_name_add(out, frame->name);
	if (frame->uncertain)
		strbuf_add_char(out, '?');
}

void frame_text(struct strbuf *out, const struct frame *frame, bool lines, bool full)
{
	bool guessed = frame->guessed;
	if (frame->name && *frame->name) {
		frame_name_text(out, frame);
		add_place(out, frame, lines, full);
	} else {
		const char *module = full ? first_of(frame->module_path, frame->module)
					  : first_of(frame->module, frame->module_path);
		strbuf_add_text(out, module ? module : "[unknown]");
		if (frame->has_function)
			strbuf_printf(out, "+0x%" PRIx64, frame->function_offset);
		else
			guessed = true;
	}
	if (guessed)
		strbuf_add_text(out, " [guessed]");
}
