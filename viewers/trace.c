/* SPDX-License-Identifier: MIT */
/*
 * Chrome's trace events, in their object form, for Perfetto and chrome://tracing: a complete event
 * ("X") for each frame for as long as it is in a thread's stack, and none where the thread has no
 * samples. An event is before those inside of it and ends no earlier than they do. Times are
 * microseconds with three decimals, made of integers, so that none is rounded. Very long recordings
 * are written without files, lines and kinds, and if that is not enough, with coarser times, which
 * is said.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/table.h"
#include "viewers/viewers.h"

/*
 * What a browser still loads: some 200 MB. If frames' names, files and lines, which each event has
 * anew, come to more than that, there are no files, lines and kinds, and names are cut. If events
 * are too many even so, one of each two, four ... periods is shown for all of them.
 */
enum {
	MOST_WHOLE_BYTES = 100000000,
	MOST_BRIEF_BYTES = 150000000,
	EVENT_BYTES = 60,
	BRIEF_NAME = 200
};

/* A day. */
static const uint64_t MOST_STEP_NS = UINT64_C(86400000000000);

struct event {
	uint64_t start, end;
	uint32_t node; /* of the view */
};

struct writer {
	const struct profile *profile;
	const struct view_options *options;
	struct strbuf *out;
	struct view view;
	struct strbuf *frames; /* of each frame, made when it is needed: "cat", "name", "args" */
	bool any;	       /* event written */
	bool brief;	       /* without "cat" and "args" */
	uint64_t step_ns;      /* times are multiples of it; 0: as they are */
};

static void put_us(struct strbuf *out, uint64_t ns)
{
	strbuf_add_number(out, ns / 1000);
	if (ns % 1000)
		strbuf_printf(out, ".%03" PRIu64, ns % 1000);
}

static void next_event(struct writer *writer)
{
	strbuf_add_text(writer->out, writer->any ? ",\n" : "\n");
	writer->any = true;
}

/* "process_name", "thread_name" */
static void put_name(struct writer *writer, const char *what, const struct track *track, pid_t tid,
		     const char *name)
{
	next_event(writer);
	strbuf_printf(writer->out,
		      "{\"ph\":\"M\",\"cat\":\"__metadata\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,"
		      "\"ts\":0,\"args\":{\"name\":",
		      what, (int)track->pid, (int)tid);
	view_put_json(writer->out, name);
	strbuf_add_text(writer->out, "}}");
}

static const char *frame_text_of(struct writer *writer, uint32_t id)
{
	struct strbuf *text = &writer->frames[id];
	if (text->text)
		return text->text;
	const struct frame *frame = &writer->profile->frames[id];
	struct strbuf _cleanup_strbuf_ name;
	strbuf_init(&name);
	strbuf_init(text);
	const char *file;
	int line;
	view_frame_words(&name, &file, &line, frame, writer->options);
	if (!writer->brief)
		strbuf_printf(text, "\"cat\":\"%s\",", frame_kind_name(frame->kind));
	strbuf_add_text(text, "\"name\":");
	if (writer->brief && name.size > BRIEF_NAME) { /* what is left of a character is cleaned */
		name.text[BRIEF_NAME] = '\0';
		name.size = BRIEF_NAME;
	}
	view_put_json(text, name.text);
	if (writer->brief)
		return text->text;
	strbuf_add_text(text, ",\"args\":{");
	const bool in_library = file && (file == frame->module_path || file == frame->module);
	if (file) {
		strbuf_add_text(text, in_library ? "\"module\":" : "\"file\":");
		view_put_json(text, file);
	}
	if (line)
		strbuf_printf(text, ",\"line\":%d", line);
	strbuf_add_char(text, '}');
	return text->text;
}

/* head: what all events of its thread begin with. */
static void put_event(struct writer *writer, const struct strbuf *head, const struct event *event)
{
	struct strbuf *out = writer->out;
	next_event(writer);
	strbuf_add(out, head->text, head->size);
	put_us(out, event->start);
	strbuf_add_text(out, ",\"dur\":");
	put_us(out, event->end - event->start);
	strbuf_add_char(out, ',');
	strbuf_add_text(out, frame_text_of(writer, writer->view.nodes[event->node].frame));
	strbuf_add_char(out, '}');
}

/* ---- from samples to events -------------------------------------------------------------------
 */

struct events {
	struct event *list;
	size_t count, capacity;
	size_t *open; /* those that go on, by depth */
	size_t open_count, open_capacity;
	uint64_t end; /* of what was added last */
};

static void add_event(struct events *events, uint64_t start, uint32_t node)
{
	events->list = alloc_room(events->list, &events->capacity, events->count + 1,
				  sizeof(*events->list));
	events->open = alloc_room(events->open, &events->open_capacity, events->open_count + 1,
				  sizeof(*events->open));
	events->open[events->open_count++] = events->count;
	events->list[events->count++] = (struct event){start, start, node};
}

static void close_to(struct events *events, size_t depth)
{
	while (events->open_count > depth)
		events->list[events->open[--events->open_count]].end = events->end;
}

/* The node that is there from `start` on: what is not in its stack ends, what is new begins. */
static void change_to(struct events *events, const struct view *view, uint32_t node, uint64_t start,
		      uint32_t *path)
{
	size_t count = 0, depth = view->nodes[node].depth, same = 0;
	if (start > events->end)
		close_to(events, 0);
	for (uint32_t at = node; at; at = view->nodes[at].parent)
		path[depth - ++count] = at;
	while (same < events->open_count && same < count &&
	       events->list[events->open[same]].node == path[same])
		same++;
	close_to(events, same);
	for (size_t i = same; i < count; i++)
		add_event(events, start, path[i]);
}

/* Threads without a number must not share one with another. */
static pid_t tid_of(const struct track *track, size_t index)
{
	return track->timed ? track->tid : (pid_t)(0x40000000 + index);
}

/* What one moment of each step shows is shown for all of it: a random one, since programs do things
 * by turns. So a time becomes the begin of its own step, or of the next. */
static uint64_t coarse(uint64_t ns, uint64_t step_ns)
{
	if (!step_ns)
		return ns;
	const uint64_t step = ns / step_ns;
	const uint64_t moment = hash_bytes(&step, sizeof(step)) % step_ns;
	return (step + (ns % step_ns > moment)) * step_ns;
}

static struct events make_events(const struct writer *writer, const struct track *track,
				 uint32_t *path)
{
	const struct view *view = &writer->view;
	struct events events = {0};
	for (size_t i = 0; i < track->count; i++) {
		const struct track_run *run = &track->runs[i];
		const uint64_t start = coarse(run->start_ns, writer->step_ns);
		const uint64_t end = coarse(run->end_ns, writer->step_ns);
		if (start == end && run->start_ns < run->end_ns)
			continue;
		change_to(&events, view, view->of_node[run->node], start, path);
		events.end = end;
	}
	close_to(&events, 0);
	free(events.open);
	return events;
}

static void put_track(struct writer *writer, const struct track *track, pid_t tid,
		      const struct events *events)
{
	put_name(writer, "process_name", track, track->pid,
		 track->process ? track->process : "process");
	put_name(writer, "thread_name", track, tid, track->name);
	struct strbuf _cleanup_strbuf_ head;
	strbuf_init(&head);
	strbuf_printf(&head, "{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":", (int)track->pid,
		      (int)tid);
	for (size_t i = 0; i < events->count; i++)
		put_event(writer, &head, &events->list[i]);
}

/* Of the events of one thread at a time: all of them take as much memory as they have bytes. */
static uint64_t count_of_track(struct writer *writer, const struct track *track, uint32_t *path)
{
	struct events events = make_events(writer, track, path);
	uint64_t bytes = 0;
	for (size_t i = 0; i < events.count; i++) {
		const uint32_t frame = writer->view.nodes[events.list[i].node].frame;
		(void)frame_text_of(writer, frame);
		bytes += EVENT_BYTES + writer->frames[frame].size;
	}
	free(events.list);
	return bytes;
}

static void forget_texts(struct writer *writer)
{
	for (size_t i = 0; i < writer->profile->frame_count; i++)
		strbuf_release(&writer->frames[i]);
}

static uint64_t count_bytes(struct writer *writer, const struct tracks *tracks, uint32_t *path)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < tracks->count; i++)
		bytes += count_of_track(writer, &tracks->list[i], path);
	return bytes;
}

static void choose_detail(struct writer *writer, const struct tracks *tracks, uint32_t *path)
{
	uint64_t step_ns = view_period_ns(writer->profile);
	writer->brief = count_bytes(writer, tracks, path) > MOST_WHOLE_BYTES;
	if (!writer->brief)
		return;
	forget_texts(writer);
	strbuf_add_text(writer->out,
			",\"frames\":\"without files, lines and kinds, long names cut, "
			"as there are too many\"");
	while (count_bytes(writer, tracks, path) > MOST_BRIEF_BYTES && step_ns < MOST_STEP_NS)
		writer->step_ns = step_ns *= 2;
	if (writer->step_ns)
		strbuf_printf(writer->out, ",\"times\":\"to %g ms, as there are too many changes\"",
			      (double)writer->step_ns / 1e6);
}

static void put_tracks(struct writer *writer, const struct tracks *tracks)
{
	uint32_t _cleanup_free_ *path = alloc_zeroed(view_depth(&writer->view) + 1, sizeof(*path));
	choose_detail(writer, tracks, path);
	strbuf_add_text(writer->out, "},\n\"traceEvents\":[");
	for (size_t i = 0; i < tracks->count; i++) {
		struct events events = make_events(writer, &tracks->list[i], path);
		put_track(writer, &tracks->list[i], tid_of(&tracks->list[i], i), &events);
		free(events.list);
	}
}

static void put_facts(struct writer *writer)
{
	struct view_facts facts;
	view_facts_init(&facts, writer->profile);
	for (size_t i = 0; i < facts.count; i++) {
		strbuf_add_text(writer->out, i ? "," : "");
		view_put_json(writer->out, facts.list[i].name);
		strbuf_add_char(writer->out, ':');
		view_put_json(writer->out, facts.list[i].text);
	}
	view_facts_release(&facts);
}

bool viewer_trace(const struct profile *profile, const struct view_options *options,
		  struct strbuf *out, struct error *error)
{
	(void)error;
	struct writer writer = {.profile = profile, .options = options, .out = out};
	struct view_options full = *options;
	full.full_filenames = true;
	struct tracks tracks;
	view_tracks_init(&tracks, profile);
	view_init(&writer.view, profile, &full, VIEW_BOXES);
	writer.frames = alloc_zeroed(profile->frame_count + 1, sizeof(*writer.frames));
	strbuf_add_text(out, "{\"displayTimeUnit\":\"ms\",\"otherData\":{");
	put_facts(&writer);
	put_tracks(&writer, &tracks);
	strbuf_add_text(out, "]}\n");
	forget_texts(&writer);
	free(writer.frames);
	view_release(&writer.view);
	view_tracks_release(&tracks);
	return true;
}
