/* SPDX-License-Identifier: MIT */
/*
 * speedscope's own format (https://www.speedscope.app/file-format-schema.json): one "sampled"
 * profile for each thread, its stacks in the order of their times with their lengths as weights,
 * and empty stacks where it had no samples. Frames are told apart by name, file and line, as
 * speedscope does. A recording too long for that (the stacks are written out, each whole) has each
 * stack once, which its profile's name says.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/table.h"
#include "viewers/viewers.h"

/* Numbers in all stacks together: some 150 MB of text, what a browser still loads. */
enum { MOST_NUMBERS = 25000000 };

struct writer {
	const struct profile *profile;
	const struct view_options *options;
	struct strbuf *out;
	struct view view;
	uint32_t *frame_ids; /* of each frame of the profile: its number in the file */
	uint32_t *path;	     /* room for the deepest stack */
};

static void put_frame(struct writer *writer, uint32_t id, const struct frame *frame)
{
	struct strbuf _cleanup_strbuf_ name;
	strbuf_init(&name);
	const char *file;
	int line;
	view_frame_words(&name, &file, &line, frame, writer->options);
	strbuf_add_text(writer->out, id ? ",\n{\"name\":" : "\n{\"name\":");
	view_put_json(writer->out, name.text);
	if (file) {
		strbuf_add_text(writer->out, ",\"file\":");
		view_put_json(writer->out, file);
	}
	if (line)
		strbuf_printf(writer->out, ",\"line\":%d", line);
	strbuf_add_char(writer->out, '}');
}

/* Frames of one text and kind are one here: their texts are interned. */
static void put_frames(struct writer *writer)
{
	const struct profile *profile = writer->profile;
	struct table ids;
	table_init(&ids);
	uint32_t count = 0;
	writer->frame_ids = alloc_zeroed(profile->frame_count + 1, sizeof(*writer->frame_ids));
	for (size_t i = 0; i < profile->frame_count; i++) {
		const uint64_t text = (uint64_t)(uintptr_t)writer->view.texts[i];
		const struct frame *frame = &profile->frames[i];
		if (!table_find(&ids, text, frame->kind, &writer->frame_ids[i])) {
			put_frame(writer, count, frame);
			table_put(&ids, text, frame->kind, count);
			writer->frame_ids[i] = count++;
		}
	}
	table_release(&ids);
}

/* The stack that ends in a node of the view. */
static void put_stack(struct writer *writer, uint32_t node)
{
	size_t depth = 0;
	for (; node; node = writer->view.nodes[node].parent)
		writer->path[depth++] = writer->frame_ids[writer->view.nodes[node].frame];
	strbuf_add_char(writer->out, '[');
	while (depth--)
		strbuf_printf(writer->out, depth ? "%" PRIu32 "," : "%" PRIu32,
			      writer->path[depth]);
	strbuf_add_char(writer->out, ']');
}

/* ---- one thread --------------------------------------------------------------------------- */

/* A stack, or none, for so long. */
struct part {
	uint32_t node; /* of the view; PROFILE_NONE: no sample */
	uint64_t length;
};

struct parts {
	struct part *list;
	size_t count, capacity;
	uint64_t numbers; /* in their stacks */
};

static void add_part(struct parts *parts, const struct view *view, uint32_t node, uint64_t length)
{
	if (parts->count && parts->list[parts->count - 1].node == node) {
		parts->list[parts->count - 1].length += length;
		return;
	}
	parts->list =
		alloc_room(parts->list, &parts->capacity, parts->count + 1, sizeof(*parts->list));
	parts->list[parts->count++] = (struct part){node, length};
	parts->numbers += node == PROFILE_NONE ? 0 : view->nodes[node].depth;
}

static struct parts make_parts(const struct writer *writer, const struct track *track)
{
	struct parts parts = {0};
	const struct view *view = &writer->view;
	for (size_t i = 0; i < track->count; i++) {
		const struct track_run *run = &track->runs[i];
		const uint64_t before = i ? track->runs[i - 1].end_ns : run->start_ns;
		if (run->start_ns > before)
			add_part(&parts, view, PROFILE_NONE, run->start_ns - before);
		add_part(&parts, view, view->of_node[run->node], run->end_ns - run->start_ns);
	}
	return parts;
}

static int by_node(const void *a, const void *b)
{
	const struct part *one = a, *two = b;
	return (one->node > two->node) - (one->node < two->node);
}

/* Each stack once, without the gaps. */
static void add_up(struct parts *parts)
{
	size_t kept = 0;
	qsort(parts->list, parts->count, sizeof(*parts->list), by_node);
	for (size_t i = 0; i < parts->count; i++) {
		const struct part *part = &parts->list[i];
		if (part->node == PROFILE_NONE)
			continue;
		if (kept && parts->list[kept - 1].node == part->node)
			parts->list[kept - 1].length += part->length;
		else
			parts->list[kept++] = *part;
	}
	parts->count = kept;
}

static void put_profile(struct writer *writer, const struct track *track, const struct parts *parts,
			bool in_order)
{
	struct strbuf *out = writer->out;
	struct strbuf _cleanup_strbuf_ name;
	strbuf_init(&name);
	strbuf_add_text(&name, track->label);
	if (track->timed && !in_order)
		strbuf_add_text(&name, ", stacks added up: too many to keep their order");
	uint64_t start = track->timed && in_order && track->count ? track->runs[0].start_ns : 0;
	uint64_t end = start;
	for (size_t i = 0; i < parts->count; i++)
		end += parts->list[i].length;
	strbuf_add_text(out, "\n{\"type\":\"sampled\",\"name\":");
	view_put_json(out, name.text);
	strbuf_printf(out,
		      ",\"unit\":\"nanoseconds\",\"startValue\":%" PRIu64 ",\"endValue\":%" PRIu64
		      ",\n\"samples\":[",
		      start, end);
	for (size_t i = 0; i < parts->count; i++) {
		if (i)
			strbuf_add_char(out, ',');
		if (parts->list[i].node == PROFILE_NONE)
			strbuf_add_text(out, "[]");
		else
			put_stack(writer, parts->list[i].node);
	}
	strbuf_add_text(out, "],\n\"weights\":[");
	for (size_t i = 0; i < parts->count; i++)
		strbuf_printf(out, i ? ",%" PRIu64 : "%" PRIu64, parts->list[i].length);
	strbuf_add_text(out, "]}");
}

static void put_profiles(struct writer *writer, const struct tracks *tracks)
{
	struct parts _cleanup_free_ *parts = alloc_zeroed(tracks->count, sizeof(*parts));
	uint64_t numbers = 0;
	for (size_t i = 0; i < tracks->count; i++) {
		parts[i] = make_parts(writer, &tracks->list[i]);
		numbers += parts[i].numbers;
	}
	for (size_t i = 0; i < tracks->count; i++) {
		const bool in_order = numbers <= MOST_NUMBERS;
		if (!in_order)
			add_up(&parts[i]);
		if (i)
			strbuf_add_char(writer->out, ',');
		put_profile(writer, &tracks->list[i], &parts[i], in_order);
		free(parts[i].list);
	}
}

bool viewer_speedscope(const struct profile *profile, const struct view_options *options,
		       struct strbuf *out, struct error *error)
{
	(void)error;
	struct writer writer = {.profile = profile, .options = options, .out = out};
	struct tracks tracks;
	view_tracks_init(&tracks, profile);
	struct view_options full = *options;
	full.full_filenames = true; /* what has another file is another frame */
	view_init(&writer.view, profile, &full, VIEW_BOXES);
	writer.path = alloc_zeroed(view_depth(&writer.view) + 1, sizeof(*writer.path));
	struct strbuf _cleanup_strbuf_ title;
	strbuf_init(&title);
	view_put_title(&title, profile, options);
	strbuf_add_text(out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
			     "\"exporter\":\"precord " VERSION "\",\n\"name\":");
	view_put_json(out, title.text);
	strbuf_printf(out, ",\"activeProfileIndex\":%zu,\n\"shared\":{\"frames\":[",
		      view_busiest_track(&tracks));
	put_frames(&writer);
	strbuf_add_text(out, "]},\n\"profiles\":[");
	put_profiles(&writer, &tracks);
	strbuf_add_text(out, "]}\n");
	free(writer.path);
	free(writer.frame_ids);
	view_release(&writer.view);
	view_tracks_release(&tracks);
	return true;
}
