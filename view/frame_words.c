/* SPDX-License-Identifier: MIT */
/*
 * A frame in words, for formats that want name and file apart: what the frame's text has before
 * " (file:line)", and what it has there. See profile/frame_text.c, whose rules these are.
 */
#include "view/view.h"

/* The first one that has any text; NULL: neither has. */
static const char *text_of(const char *first, const char *second)
{
	if (first && *first)
		return first;
	return second && *second ? second : NULL;
}

void view_frame_words(struct strbuf *name, const char **file, int *line, const struct frame *frame,
		      const struct view_options *options)
{
	struct frame bare = *frame;
	const char *source = text_of(frame->file, frame->short_file);
	const char *library = text_of(frame->module_path, frame->module);
	const bool in_source = source && (frame->line > 0 || !library);
	bare.file = bare.short_file = NULL;
	if (text_of(frame->name, NULL))
		bare.module = bare.module_path = NULL;
	frame_text(name, &bare, false, false);
	*file = in_source ? source : library;
	*line = in_source && options->lines && frame->line > 0 ? frame->line : 0;
}

/* Is the node's frame inlined into its parent's, at the same address? */
bool view_is_inlined(const struct profile *profile, uint32_t node)
{
	const uint32_t parent = profile->nodes[node].parent;
	if (node == PROFILE_ROOT || parent == PROFILE_ROOT)
		return false;
	const struct frame *inner = &profile->frames[profile->nodes[node].frame];
	const struct frame *outer = &profile->frames[profile->nodes[parent].frame];
	return inner->inlined && inner->module_path == outer->module_path &&
	       inner->module == outer->module && inner->offset == outer->offset;
}

const char *view_kind_title(enum frame_kind kind)
{
	static const char *const titles[FRAME_KIND_COUNT] = {
		[FRAME_PYTHON] = "Python",   [FRAME_PYTHON_LIBRARY] = "standard library & packages",
		[FRAME_CYTHON] = "Cython",   [FRAME_BUILTIN] = "built-in",
		[FRAME_NATIVE] = "native",   [FRAME_INTERPRETER] = "interpreter",
		[FRAME_KERNEL] = "kernel",   [FRAME_IDLE] = "idle",
		[FRAME_GUESSED] = "guessed", [FRAME_THREAD] = "thread",
		[FRAME_GAP] = "gap",
	};
	return (unsigned)kind < FRAME_KIND_COUNT ? titles[kind] : "unknown";
}
