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
	BRIEF_NAME = 200,
	TIMES_SIZE = 64
};

/* A day. */
static const uint64_t MOST_STEP_NS = UINT64_C(86400000000000);

/* The frames that a thread is in, outermost first. */
struct open_frame {
	uint32_t node;	/* of the view */
	uint64_t start; /* since when */
	size_t event;	/* which of its thread's events it is */
};

struct stack {
	struct open_frame *frames; /* as many as the deepest stack has */
	size_t depth, events;	   /* events: begun so far, in all */
	uint64_t end;		   /* of what was added last */
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
	struct stack stack;    /* of the thread that is looked at */
};

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

static void put_args(struct strbuf *text, const struct frame *frame, const char *file, int line)
{
	strbuf_add_text(text, ",\"args\":{");
	const bool in_library = file && (file == frame->module_path || file == frame->module);
	if (file) {
		strbuf_add_text(text, in_library ? "\"module\":" : "\"file\":");
		view_put_json(text, file);
	}
	if (line)
		strbuf_printf(text, ",\"line\":%d", line);
	strbuf_add_char(text, '}');
}

/* All of an event that is behind its times. */
static const struct strbuf *frame_text_of(struct writer *writer, uint32_t id)
{
	struct strbuf *text = &writer->frames[id];
	if (text->text)
		return text;
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
	if (!writer->brief)
		put_args(text, frame, file, line);
	strbuf_add_char(text, '}');
	return text;
}

/* Microseconds, without rounding. */
static char *put_us(char *to, uint64_t ns)
{
	char digits[24];
	size_t at = sizeof(digits);
	uint64_t whole = ns / 1000;
	do {
		digits[--at] = (char)('0' + whole % 10);
		whole /= 10;
	} while (whole);
	memcpy(to, digits + at, sizeof(digits) - at);
	to += sizeof(digits) - at;
	if (ns % 1000) {
		*to++ = '.';
		for (unsigned rest = (unsigned)(ns % 1000), unit = 100; unit; unit /= 10)
			*to++ = (char)('0' + rest / unit % 10);
	}
	return to;
}

/* `2000,"dur":1000,`. Returns the size. */
static size_t put_times(char times[TIMES_SIZE], uint64_t start, uint64_t length)
{
	static const char between[] = ",\"dur\":";
	char *to = put_us(times, start);
	memcpy(to, between, sizeof(between) - 1);
	to = put_us(to + sizeof(between) - 1, length);
	*to++ = ',';
	return (size_t)(to - times);
}

/* What all events of a thread begin with; its names are before the first one. */
static void make_head(struct strbuf *head, const struct track *track, pid_t tid)
{
	strbuf_init(head);
	strbuf_printf(head, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":", (int)track->pid,
		      (int)tid);
}

/* ---- from samples to events -------------------------------------------------------------------
 */

/* What is done when a frame comes, and when it has gone: its stack's end is set then. */
struct visitor {
	void (*came)(struct writer *writer, const struct open_frame *frame, void *context);
	void (*went)(struct writer *writer, const struct open_frame *frame, void *context);
	void *context;
};

static void close_to(struct writer *writer, size_t depth, const struct visitor *visitor)
{
	struct stack *stack = &writer->stack;
	while (stack->depth > depth) {
		stack->depth--;
		if (visitor->went)
			visitor->went(writer, &stack->frames[stack->depth], visitor->context);
	}
}

/* The node that is there from `start` on: what is not in its stack ends, what is new begins. */
static void change_to(struct writer *writer, uint32_t node, uint64_t start,
		      const struct visitor *visitor)
{
	struct stack *stack = &writer->stack;
	const struct view_node *nodes = writer->view.nodes;
	const size_t depth = nodes[node].depth;
	if (start > stack->end)
		close_to(writer, 0, visitor);
	uint32_t same = node;
	while (same && (nodes[same].depth > stack->depth ||
			stack->frames[nodes[same].depth - 1].node != same))
		same = nodes[same].parent;
	close_to(writer, nodes[same].depth, visitor);
	for (uint32_t at = node; at != same; at = nodes[at].parent)
		stack->frames[nodes[at].depth - 1] = (struct open_frame){at, start, 0};
	while (stack->depth < depth) {
		struct open_frame *frame = &stack->frames[stack->depth++];
		frame->event = stack->events++;
		if (visitor->came)
			visitor->came(writer, frame, visitor->context);
	}
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

static void visit(struct writer *writer, const struct track *track, const struct visitor *visitor)
{
	writer->stack.end = writer->stack.events = 0;
	for (size_t i = 0; i < track->count; i++) {
		const struct track_run *run = &track->runs[i];
		const uint64_t start = coarse(run->start_ns, writer->step_ns);
		const uint64_t end = coarse(run->end_ns, writer->step_ns);
		if (start == end && run->start_ns < run->end_ns)
			continue;
		change_to(writer, writer->view.of_node[run->node], start, visitor);
		writer->stack.end = end;
	}
	close_to(writer, 0, visitor);
}

/* ---- how much it would be ---------------------------------------------------------------------
 */

struct measure {
	uint64_t *events; /* of each frame */
	uint64_t bytes;	  /* of all but frames */
	size_t head;	  /* of an event */
};

static void measure_event(struct writer *writer, const struct open_frame *frame, void *context)
{
	struct measure *measure = context;
	char times[TIMES_SIZE];
	measure->events[writer->view.nodes[frame->node].frame]++;
	measure->bytes += measure->head;
	measure->bytes += put_times(times, frame->start, writer->stack.end - frame->start);
}

static void forget_texts(struct writer *writer)
{
	for (size_t i = 0; i < writer->profile->frame_count; i++)
		strbuf_release(&writer->frames[i]);
}

static uint64_t bytes_with_frames(struct writer *writer, const struct measure *measure)
{
	uint64_t bytes = measure->bytes;
	forget_texts(writer);
	for (uint32_t i = 0; i < writer->profile->frame_count; i++)
		if (measure->events[i])
			bytes += measure->events[i] * (frame_text_of(writer, i)->size);
	return bytes;
}

static void measure_tracks(struct writer *writer, const struct tracks *tracks,
			   struct measure *measure)
{
	const struct visitor visitor = {.went = measure_event, .context = measure};
	measure->bytes = 0;
	memset(measure->events, 0, writer->profile->frame_count * sizeof(*measure->events));
	for (size_t i = 0; i < tracks->count; i++) {
		struct strbuf _cleanup_strbuf_ head;
		make_head(&head, &tracks->list[i], tid_of(&tracks->list[i], i));
		measure->head = head.size;
		visit(writer, &tracks->list[i], &visitor);
	}
}

static void choose_detail(struct writer *writer, const struct tracks *tracks)
{
	uint64_t _cleanup_free_ *events =
		alloc_zeroed(writer->profile->frame_count, sizeof(*events));
	struct measure measure = {.events = events};
	uint64_t step_ns = view_period_ns(writer->profile);
	measure_tracks(writer, tracks, &measure);
	writer->brief = bytes_with_frames(writer, &measure) > MOST_WHOLE_BYTES;
	if (!writer->brief)
		return;
	strbuf_add_text(writer->out,
			",\"frames\":\"without files, lines and kinds, long names cut, "
			"as there are too many\"");
	while (bytes_with_frames(writer, &measure) > MOST_BRIEF_BYTES && step_ns < MOST_STEP_NS) {
		writer->step_ns = step_ns *= 2;
		measure_tracks(writer, tracks, &measure);
	}
	if (writer->step_ns)
		strbuf_printf(writer->out, ",\"times\":\"to %g ms, as there are too many changes\"",
			      (double)writer->step_ns / 1e6);
}

/* ---- writing ----------------------------------------------------------------------------------
 */

/* Of one thread's events, in the order in which they begin: how long each is. */
struct lengths {
	uint64_t *list;
	size_t capacity;
};

static void make_room(struct writer *writer, const struct open_frame *frame, void *context)
{
	struct lengths *lengths = context;
	(void)frame;
	lengths->list = alloc_room(lengths->list, &lengths->capacity, writer->stack.events,
				   sizeof(*lengths->list));
}

static void set_length(struct writer *writer, const struct open_frame *frame, void *context)
{
	const struct lengths *lengths = context;
	lengths->list[frame->event] = writer->stack.end - frame->start;
}

struct put {
	const uint64_t *lengths;
	struct strbuf head;
};

static void put_event(struct writer *writer, const struct open_frame *frame, void *context)
{
	const struct put *put = context;
	struct strbuf *out = writer->out;
	char times[TIMES_SIZE];
	const size_t size = put_times(times, frame->start, put->lengths[frame->event]);
	const struct strbuf *text = frame_text_of(writer, writer->view.nodes[frame->node].frame);
	strbuf_add(out, put->head.text, put->head.size);
	strbuf_add(out, times, size);
	strbuf_add(out, text->text, text->size);
}

static void put_track(struct writer *writer, const struct track *track, pid_t tid)
{
	put_name(writer, "process_name", track, track->pid,
		 track->process ? track->process : "process");
	put_name(writer, "thread_name", track, tid, track->name);
	struct lengths lengths = {0};
	visit(writer, track, &(struct visitor){make_room, set_length, &lengths});
	struct put put = {.lengths = lengths.list};
	make_head(&put.head, track, tid);
	visit(writer, track, &(struct visitor){.came = put_event, .context = &put});
	strbuf_release(&put.head);
	free(lengths.list);
}

static void put_tracks(struct writer *writer, const struct tracks *tracks)
{
	writer->stack.frames =
		alloc_zeroed(view_depth(&writer->view), sizeof(*writer->stack.frames));
	choose_detail(writer, tracks);
	strbuf_add_text(writer->out, "},\n\"traceEvents\":[");
	for (size_t i = 0; i < tracks->count; i++)
		put_track(writer, &tracks->list[i], tid_of(&tracks->list[i], i));
	free(writer->stack.frames);
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
