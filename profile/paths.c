/* SPDX-License-Identifier: MIT */
/* Sources that have moved: a folder's name in paths is replaced. */
#include <string.h>

#include "base/strbuf.h"
#include "profile/internal.h"

static size_t components(const char *path)
{
	size_t count = 1;
	for (; *path; path++)
		count += *path == '/';
	return count;
}

/* The last so many components of a path. */
static const char *last_components(const char *path, size_t count)
{
	const char *at = path + strlen(path);
	while (at > path && (count -= at[-1] == '/') > 0)
		at--;
	return at;
}

/* False: it is in another folder. */
static bool move(struct profile *profile, const char *path, const char *from, const char *to,
		 const char **moved)
{
	struct strbuf _cleanup_strbuf_ text;
	strbuf_init(&text);
	const size_t size = strlen(from);
	if (!path || strncmp(path, from, size) != 0 ||
	    (path[size] && path[size] != '/' && (!size || from[size - 1] != '/')))
		return false;
	strbuf_add_text(&text, to);
	strbuf_add_text(&text, path + size);
	*moved = intern_text(profile->strings, text.text);
	return true;
}

/* What is shown of a path that was moved is as much of it as before. */
static void move_frame(struct profile *profile, struct frame *frame, const char *from,
		       const char *to)
{
	const char *file;
	if (!move(profile, frame->file, from, to, &file))
		return;
	const char *shown = frame->short_file;
	if (shown && strcmp(shown, frame->file) == 0)
		frame->short_file = file;
	else if (shown)
		frame->short_file =
			intern_text(profile->strings, last_components(file, components(shown)));
	frame->file = file;
}

void profile_move_sources(struct profile *profile, const char *from, const char *to)
{
	for (size_t i = 0; i < profile->frame_count; i++)
		move_frame(profile, &profile->frames[i], from, to);
	profile_index_frames(profile);
}
