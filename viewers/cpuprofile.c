/* SPDX-License-Identifier: MIT */
/*
 * V8's CPU profiles, for Chromium's DevTools and VS Code: a tree of nodes with the samples that
 * ended in each (hitCount), and the order and lengths of these. A profile is of one thread; where
 * there are more, each is a node below the root, and its time is behind the one before it.
 * Where a thread has no samples, it is "(idle)". Lines are counted from 0 here.
 *
 * Readers differ in how long a sample is. VS Code's last one ends at endTime (buildModel),
 * DevTools' is of average length (CPUProfileDataModel.normalizeTimestamps): so the last one is
 * "(idle)", of no length. And where DevTools has hits alone, it makes all of them the whole time:
 * so "(idle)" has as many as would have been samples.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/table.h"
#include "viewers/viewers.h"

/* Small: there can be as many as the profile has nodes, for each thread. */
struct node {
	uint32_t parent; /* PROFILE_NONE: the root */
	uint32_t frame;	 /* from FIRST_NAME on: a name instead */
	uint64_t hits;
};

#define FIRST_NAME UINT32_C(0x80000000)

/* A sample, for so long. */
struct step {
	uint32_t node;
	uint64_t length;
};

/* Where a node of the view is, under the thread looked at last. */
struct place {
	uint32_t thread, node;
};

struct writer {
	const struct profile *profile;
	const struct view_options *options;
	struct strbuf *out;
	struct view view;
	struct node *nodes;
	size_t count, capacity;
	struct step *steps;
	size_t step_count, step_capacity;
	const char **names; /* of nodes without a frame: (root), (idle), threads */
	size_t name_count, name_capacity;
	struct place *places; /* of each node of the view */
	struct table scripts; /* (file, 0) -> its number */
	struct interner *texts;
	struct strbuf *frames; /* of each frame, made when it is needed: its "callFrame" */
};

static uint32_t add_node(struct writer *writer, uint32_t parent, uint32_t frame)
{
	writer->nodes = alloc_room(writer->nodes, &writer->capacity, writer->count + 1,
				   sizeof(*writer->nodes));
	writer->nodes[writer->count] = (struct node){parent, frame, 0};
	return (uint32_t)writer->count++;
}

static uint32_t add_named(struct writer *writer, uint32_t parent, const char *name)
{
	writer->names = alloc_room(writer->names, &writer->name_capacity, writer->name_count + 1,
				   sizeof(*writer->names));
	writer->names[writer->name_count] = name;
	return add_node(writer, parent, FIRST_NAME + (uint32_t)writer->name_count++);
}

/* The node for one of the view's, under a thread's. Missing ones are made, outermost first. */
static uint32_t node_of(struct writer *writer, uint32_t thread, uint32_t shown, uint32_t *path)
{
	size_t missing = 0;
	uint32_t id = thread;
	while (shown && writer->places[shown].thread != thread) {
		path[missing++] = shown;
		shown = writer->view.nodes[shown].parent;
	}
	if (shown)
		id = writer->places[shown].node;
	while (missing) {
		shown = path[--missing];
		id = add_node(writer, id, writer->view.nodes[shown].frame);
		writer->places[shown] = (struct place){thread, id};
	}
	return id;
}

static void add_step(struct writer *writer, uint32_t node, uint64_t length)
{
	if (writer->step_count && writer->steps[writer->step_count - 1].node == node) {
		writer->steps[writer->step_count - 1].length += length;
		return;
	}
	writer->steps = alloc_room(writer->steps, &writer->step_capacity, writer->step_count + 1,
				   sizeof(*writer->steps));
	writer->steps[writer->step_count++] = (struct step){node, length};
}

/* Returns how long it is idle. */
static uint64_t add_track(struct writer *writer, const struct track *track, uint32_t thread,
			  uint32_t idle, uint32_t *path)
{
	uint64_t cursor = 0, gaps = 0;
	for (size_t i = 0; i < track->count; i++) {
		const struct track_run *run = &track->runs[i];
		if (run->start_ns > cursor) {
			add_step(writer, idle, run->start_ns - cursor);
			gaps += run->start_ns - cursor;
		}
		const uint32_t node =
			node_of(writer, thread, writer->view.of_node[run->node], path);
		writer->nodes[node].hits += run->count;
		add_step(writer, node, run->end_ns - run->start_ns);
		cursor = run->end_ns;
	}
	return gaps;
}

/* ---- writing ------------------------------------------------------------------------------------
 */

static uint32_t script_of(struct writer *writer, const char *file)
{
	const uint64_t key = (uint64_t)(uintptr_t)intern_text(writer->texts, file ? file : "");
	uint32_t id;
	if (table_find(&writer->scripts, key, 0, &id))
		return id;
	id = (uint32_t)writer->scripts.count + 1;
	table_put(&writer->scripts, key, 0, id);
	return id;
}

/* VS Code opens a file by its path alone, DevTools shows whatever it is. */
static void put_call_frame(struct writer *writer, struct strbuf *out, const struct node *node)
{
	struct strbuf _cleanup_strbuf_ name;
	strbuf_init(&name);
	const char *file = NULL;
	int line = 0;
	if (node->frame >= FIRST_NAME)
		strbuf_add_text(&name, writer->names[node->frame - FIRST_NAME]);
	else
		view_frame_words(&name, &file, &line, &writer->profile->frames[node->frame],
				 writer->options);
	strbuf_add_text(out, "\"callFrame\":{\"functionName\":");
	view_put_json(out, name.text);
	strbuf_printf(out,
		      ",\"scriptId\":\"%" PRIu32 "\",\"url\":", file ? script_of(writer, file) : 0);
	view_put_json(out, file ? file : "");
	strbuf_printf(out, ",\"lineNumber\":%d,\"columnNumber\":%d}", line - 1, line ? 0 : -1);
}

static void put_cached(struct writer *writer, const struct node *node)
{
	struct strbuf *text = node->frame >= FIRST_NAME ? NULL : &writer->frames[node->frame];
	if (text && !text->text) {
		strbuf_init(text);
		put_call_frame(writer, text, node);
	}
	if (text)
		strbuf_add(writer->out, text->text, text->size);
	else
		put_call_frame(writer, writer->out, node);
}

struct children {
	uint32_t *list;
	uint32_t *first; /* of node i: list[first[i]] to list[first[i + 1]] */
};

static struct children find_children(const struct writer *writer)
{
	struct children found = {
		.list = alloc_zeroed(writer->count + 1, sizeof(*found.list)),
		.first = alloc_zeroed(writer->count + 2, sizeof(*found.first)),
	};
	/* first[i + 1] is where the next child of i goes, until all are there: then the end of i's.
	 */
	for (size_t i = 1; i < writer->count; i++)
		found.first[writer->nodes[i].parent + 2]++;
	for (size_t i = 2; i <= writer->count; i++)
		found.first[i] += found.first[i - 1];
	for (uint32_t i = 1; i < writer->count; i++)
		found.list[found.first[writer->nodes[i].parent + 1]++] = i;
	return found;
}

static void put_nodes(struct writer *writer)
{
	struct strbuf *out = writer->out;
	struct children children = find_children(writer);
	for (size_t i = 0; i < writer->count; i++) {
		const struct node *node = &writer->nodes[i];
		strbuf_printf(out, "%s\n{\"id\":%zu,", i ? "," : "", i + 1);
		put_cached(writer, node);
		strbuf_printf(out, ",\"hitCount\":%" PRIu64, node->hits);
		if (children.first[i] < children.first[i + 1])
			strbuf_add_text(out, ",\"children\":[");
		for (uint32_t j = children.first[i]; j < children.first[i + 1]; j++)
			strbuf_printf(out, "%" PRIu32 "%s", children.list[j] + 1,
				      j + 1 < children.first[i + 1] ? "," : "]");
		strbuf_add_char(out, '}');
	}
	free(children.list);
	free(children.first);
}

/* Each sample's delta is the length of the one before it. Microseconds: no rest is lost. */
static void put_steps(struct writer *writer)
{
	struct strbuf *out = writer->out;
	uint64_t time = 0, said = 0;
	const uint64_t start = writer->profile->start_time_ns / 1000;
	strbuf_add_text(out, "],\n\"samples\":[");
	for (size_t i = 0; i < writer->step_count; i++)
		strbuf_printf(out, i ? ",%" PRIu32 : "%" PRIu32, writer->steps[i].node + 1);
	strbuf_add_text(out, "],\n\"timeDeltas\":[");
	for (size_t i = 0; i < writer->step_count; i++) {
		strbuf_printf(out, i ? ",%" PRIu64 : "%" PRIu64, time / 1000 - said);
		said = time / 1000;
		time += writer->steps[i].length;
	}
	strbuf_printf(out, "],\n\"startTime\":%" PRIu64 ",\"endTime\":%" PRIu64 "}\n", start,
		      start + time / 1000);
}

static void add_tracks(struct writer *writer, const struct tracks *tracks)
{
	uint32_t _cleanup_free_ *path = alloc_zeroed(view_depth(&writer->view) + 1, sizeof(*path));
	const uint32_t root = add_named(writer, PROFILE_NONE, "(root)");
	const uint32_t idle = add_named(writer, root, "(idle)");
	const uint64_t period = view_period_ns(writer->profile);
	uint64_t gaps = 0;
	for (size_t i = 0; i < tracks->count; i++) {
		uint32_t thread = root;
		if (tracks->count > 1)
			thread = add_named(writer, root, tracks->list[i].label);
		gaps += add_track(writer, &tracks->list[i], thread, idle, path);
	}
	writer->nodes[idle].hits = gaps / period + (gaps % period >= period - period / 2);
	if (writer->step_count)
		add_step(writer, idle, 0);
}

bool viewer_cpuprofile(const struct profile *profile, const struct view_options *options,
		       struct strbuf *out, struct error *error)
{
	(void)error;
	struct writer writer = {.profile = profile, .options = options, .out = out};
	struct view_options full = *options;
	full.full_filenames = true;
	struct tracks tracks;
	view_tracks_init(&tracks, profile);
	view_init(&writer.view, profile, &full, VIEW_BOXES);
	writer.places = alloc_zeroed(writer.view.count, sizeof(*writer.places));
	for (size_t i = 0; i < writer.view.count; i++)
		writer.places[i].thread = PROFILE_NONE;
	writer.frames = alloc_zeroed(profile->frame_count + 1, sizeof(*writer.frames));
	table_init(&writer.scripts);
	writer.texts = interner_new();
	add_tracks(&writer, &tracks);
	strbuf_add_text(out, "{\"nodes\":[");
	put_nodes(&writer);
	put_steps(&writer);
	for (size_t i = 0; i < profile->frame_count; i++)
		strbuf_release(&writer.frames[i]);
	free(writer.frames);
	free(writer.places);
	table_release(&writer.scripts);
	interner_free(writer.texts);
	free(writer.nodes);
	free(writer.steps);
	free(writer.names);
	view_release(&writer.view);
	view_tracks_release(&tracks);
	return true;
}
