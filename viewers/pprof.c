/* SPDX-License-Identifier: MIT */
/*
 * A profile for pprof (profile/pprof.proto): samples counted, and as time, of each stack and
 * thread. A location is one address of a file with all functions that are there, the innermost
 * inlined one first. Files have no place in memory here, but addresses as they are in ELF: a
 * mapping of all memory is what says that, and pprof finds the code to disassemble by its build ID.
 *
 * Written as many small Profile messages, one after the other: that is what one large message is.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/table.h"
#include "viewers/viewers.h"

#ifdef HAVE_PROTOBUF_C

#include "profile/pprof.pb-c.h"

/* Where the lines of a location are, in `lines`. */
struct location {
	uint32_t mapping, first_line, line_count;
	uint64_t address;
};

struct line {
	uint64_t function;
	int64_t line;
};

struct writer {
	const struct profile *profile;
	const struct view_options *options;
	struct strbuf *out;
	struct interner *texts;
	struct table string_ids, function_ids, mapping_ids, location_ids;
	const char **strings;
	size_t string_count, string_capacity;
	struct location *locations;
	size_t location_count, location_capacity;
	struct line *lines;
	size_t line_count, line_capacity;
	uint64_t *frame_functions; /* of each frame */
	uint32_t *node_locations;  /* of each node, counted from 1 */
	uint64_t *stack;
	size_t stack_capacity;
};

static void put(struct writer *writer, const Pprof__Profile *message)
{
	const size_t size = pprof__profile__get_packed_size(message);
	uint8_t _cleanup_free_ *bytes = alloc_zeroed(size + 1, 1);
	pprof__profile__pack(message, bytes);
	strbuf_add(writer->out, bytes, size);
}

/* The string's index. */
static int64_t string_id(struct writer *writer, const char *text)
{
	struct strbuf _cleanup_strbuf_ clean;
	strbuf_init(&clean);
	view_put_clean(&clean, text ? text : "");
	text = intern_text(writer->texts, clean.text);
	uint32_t id;
	if (table_find(&writer->string_ids, (uint64_t)(uintptr_t)text, 0, &id))
		return id;
	id = (uint32_t)writer->string_count;
	writer->strings = alloc_room(writer->strings, &writer->string_capacity,
				     writer->string_count + 1, sizeof(*writer->strings));
	writer->strings[writer->string_count++] = text;
	table_put(&writer->string_ids, (uint64_t)(uintptr_t)text, 0, id);
	return id;
}

static void put_strings(struct writer *writer)
{
	for (size_t i = 0; i < writer->string_count; i++) {
		Pprof__Profile part = PPROF__PROFILE__INIT;
		ProtobufCBinaryData text = {strlen(writer->strings[i]),
					    (uint8_t *)writer->strings[i]};
		part.n_string_table = 1;
		part.string_table = &text;
		put(writer, &part);
	}
}

/* ---- functions, mappings, locations -------------------------------------------------------- */

static uint64_t function_id(struct writer *writer, int64_t name, int64_t file)
{
	uint32_t id;
	if (table_find(&writer->function_ids, (uint64_t)name, (uint64_t)file, &id))
		return id;
	id = (uint32_t)writer->function_ids.count + 1;
	table_put(&writer->function_ids, (uint64_t)name, (uint64_t)file, id);
	/* No system_name: it would be demangled, and "<module>" would become nothing. */
	Pprof__Function function = PPROF__FUNCTION__INIT, *functions = &function;
	function.id = id;
	function.name = name;
	function.filename = file;
	Pprof__Profile part = PPROF__PROFILE__INIT;
	part.n_function = 1;
	part.function = &functions;
	put(writer, &part);
	return id;
}

static uint32_t mapping_id(struct writer *writer, const struct frame *frame)
{
	const char *path = frame->module_path ? frame->module_path : frame->module;
	if (!path)
		return 0;
	const int64_t file = string_id(writer, path), build = string_id(writer, frame->build_id);
	uint32_t id;
	if (table_find(&writer->mapping_ids, (uint64_t)file, (uint64_t)build, &id))
		return id;
	id = (uint32_t)writer->mapping_ids.count + 1;
	table_put(&writer->mapping_ids, (uint64_t)file, (uint64_t)build, id);
	Pprof__Mapping mapping = PPROF__MAPPING__INIT, *mappings = &mapping;
	mapping.id = id;
	mapping.memory_limit = UINT64_MAX;
	mapping.filename = file;
	mapping.build_id = build;
	mapping.has_functions = mapping.has_filenames = true;
	mapping.has_line_numbers = mapping.has_inline_frames = true;
	Pprof__Profile part = PPROF__PROFILE__INIT;
	part.n_mapping = 1;
	part.mapping = &mappings;
	put(writer, &part);
	return id;
}

static struct line line_of(struct writer *writer, const struct frame *frame)
{
	struct strbuf _cleanup_strbuf_ name;
	strbuf_init(&name);
	const char *file;
	int line;
	view_frame_words(&name, &file, &line, frame, writer->options);
	return (struct line){
		function_id(writer, string_id(writer, name.text), string_id(writer, file)), line};
}

/* The frame's location; into: that of the frame it is inlined into, or 0. */
static uint32_t location_id(struct writer *writer, uint32_t frame_id, uint32_t into)
{
	uint32_t id;
	if (table_find(&writer->location_ids, frame_id, into, &id))
		return id;
	const struct frame *frame = &writer->profile->frames[frame_id];
	const uint32_t outer_count = into ? writer->locations[into - 1].line_count : 0;
	struct location location = {
		.mapping = mapping_id(writer, frame),
		.first_line = (uint32_t)writer->line_count,
		.line_count = 1 + outer_count,
		.address = frame->offset,
	};
	writer->lines =
		alloc_room(writer->lines, &writer->line_capacity,
			   writer->line_count + location.line_count, sizeof(*writer->lines));
	writer->lines[writer->line_count++] = line_of(writer, frame);
	for (uint32_t i = 0; i < outer_count; i++)
		writer->lines[writer->line_count++] =
			writer->lines[writer->locations[into - 1].first_line + i];
	writer->locations = alloc_room(writer->locations, &writer->location_capacity,
				       writer->location_count + 1, sizeof(*writer->locations));
	writer->locations[writer->location_count++] = location;
	id = (uint32_t)writer->location_count;
	table_put(&writer->location_ids, frame_id, into, id);
	return id;
}

static void find_locations(struct writer *writer)
{
	const struct profile *profile = writer->profile;
	writer->node_locations = alloc_zeroed(profile->node_count, sizeof(*writer->node_locations));
	for (uint32_t i = 1; i < profile->node_count; i++) {
		const struct profile_node *node = &profile->nodes[i];
		const bool inlined = view_is_inlined(profile, i);
		writer->node_locations[i] = location_id(
			writer, node->frame, inlined ? writer->node_locations[node->parent] : 0);
	}
}

/* Only those that a stack names: others are the first frames of longer ones. */
static void put_location(struct writer *writer, uint32_t id)
{
	const struct location *location = &writer->locations[id - 1];
	Pprof__Line _cleanup_free_ *lines = alloc_zeroed(location->line_count, sizeof(*lines));
	Pprof__Line _cleanup_free_ **list = alloc_zeroed(location->line_count, sizeof(*list));
	for (uint32_t i = 0; i < location->line_count; i++) {
		const struct line *line = &writer->lines[location->first_line + i];
		pprof__line__init(&lines[i]);
		lines[i].function_id = line->function;
		lines[i].line = line->line;
		list[i] = &lines[i];
	}
	Pprof__Location message = PPROF__LOCATION__INIT, *messages = &message;
	message.id = id;
	message.mapping_id = location->mapping;
	message.address = location->address;
	message.n_line = location->line_count;
	message.line = list;
	Pprof__Profile part = PPROF__PROFILE__INIT;
	part.n_location = 1;
	part.location = &messages;
	put(writer, &part);
}

/* ---- samples -------------------------------------------------------------------------------- */

/* Innermost first; inlined functions are in the location of the one that they are inlined into. */
static size_t make_stack(struct writer *writer, uint32_t node)
{
	const struct profile *profile = writer->profile;
	size_t count = 0;
	while (node != PROFILE_ROOT) {
		const uint32_t id = writer->node_locations[node];
		writer->stack = alloc_room(writer->stack, &writer->stack_capacity, count + 1,
					   sizeof(*writer->stack));
		writer->stack[count++] = id;
		for (uint32_t i = 0; i < writer->locations[id - 1].line_count; i++)
			node = profile->nodes[node].parent;
	}
	return count;
}

struct labels {
	Pprof__Label list[4], *pointers[4];
	size_t count;
};

static void add_label(struct writer *writer, struct labels *labels, const char *key,
		      const char *text, int64_t number)
{
	Pprof__Label *label = &labels->list[labels->count];
	pprof__label__init(label);
	label->key = string_id(writer, key);
	if (text)
		label->str = string_id(writer, text);
	else
		label->num = number;
	labels->pointers[labels->count++] = label;
}

static void put_sample(struct writer *writer, uint32_t node, uint64_t count, struct labels *labels)
{
	const uint64_t period = view_period_ns(writer->profile);
	int64_t values[] = {count < INT64_MAX ? (int64_t)count : INT64_MAX,
			    count < INT64_MAX / period ? (int64_t)(count * period) : INT64_MAX};
	Pprof__Sample sample = PPROF__SAMPLE__INIT, *samples = &sample;
	sample.n_location_id = make_stack(writer, node);
	sample.location_id = writer->stack;
	sample.n_value = writer->profile->rate > 0 ? 2 : 1;
	sample.value = values;
	sample.n_label = labels->count;
	Pprof__Label *pointers[4];
	for (size_t i = 0; i < labels->count; i++)
		pointers[i] = &labels->list[i];
	sample.label = pointers;
	Pprof__Profile part = PPROF__PROFILE__INIT;
	part.n_sample = 1;
	part.sample = &samples;
	put(writer, &part);
}

static int by_node(const void *a, const void *b)
{
	const struct track_run *one = a, *two = b;
	return (one->node > two->node) - (one->node < two->node);
}

static void put_track(struct writer *writer, struct track *track)
{
	struct labels labels = {0};
	if (track->timed) {
		add_label(writer, &labels, "thread", track->name, 0);
		if (track->tid)
			add_label(writer, &labels, "tid", NULL, track->tid);
		if (track->pid)
			add_label(writer, &labels, "pid", NULL, track->pid);
		if (track->process && *track->process)
			add_label(writer, &labels, "process", track->process, 0);
	}
	if (track->count)
		qsort(track->runs, track->count, sizeof(*track->runs), by_node);
	for (size_t i = 0; i < track->count;) {
		const uint32_t node = track->runs[i].node;
		uint64_t count = 0;
		for (; i < track->count && track->runs[i].node == node; i++)
			count += track->runs[i].count;
		put_sample(writer, node, count, &labels);
	}
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void put_head(struct writer *writer)
{
	const struct profile *profile = writer->profile;
	Pprof__ValueType samples = PPROF__VALUE_TYPE__INIT, time = PPROF__VALUE_TYPE__INIT;
	Pprof__ValueType *types[] = {&samples, &time};
	samples.type = string_id(writer, "samples");
	samples.unit = string_id(writer, "count");
	time.type = string_id(writer, profile_is_of_cpu_time(profile) ? "cpu" : "wall");
	time.unit = string_id(writer, "nanoseconds");
	Pprof__Profile head = PPROF__PROFILE__INIT;
	const bool paced = profile->rate > 0;
	head.n_sample_type = paced ? 2 : 1;
	head.sample_type = types;
	head.default_sample_type = paced ? time.type : samples.type;
	if (paced) {
		head.period_type = &time;
		head.period = (int64_t)view_period_ns(profile);
	}
	head.time_nanos = (int64_t)profile->start_time_ns;
	head.duration_nanos = (int64_t)profile->counts.elapsed_ns;
	int64_t comments[VIEW_MOST_FACTS];
	struct view_facts facts;
	view_facts_init(&facts, profile);
	for (size_t i = 0; i < facts.count; i++) {
		struct strbuf _cleanup_strbuf_ line;
		strbuf_init(&line);
		strbuf_printf(&line, "%s: %s", facts.list[i].name, facts.list[i].text);
		comments[i] = string_id(writer, line.text);
	}
	head.n_comment = facts.count;
	head.comment = comments;
	put(writer, &head);
	view_facts_release(&facts);
}

static void put_all(struct writer *writer)
{
	struct tracks tracks;
	view_tracks_init(&tracks, writer->profile);
	(void)string_id(writer, ""); /* is 0 */
	put_head(writer);
	find_locations(writer);
	for (size_t i = 0; i < tracks.count; i++)
		put_track(writer, &tracks.list[i]);
	for (uint32_t id = 1; id <= writer->location_count; id++)
		put_location(writer, id);
	put_strings(writer);
	view_tracks_release(&tracks);
}

bool viewer_pprof(const struct profile *profile, const struct view_options *options,
		  struct strbuf *out, struct error *error)
{
	(void)error;
	struct writer writer = {.profile = profile, .options = options, .out = out};
	writer.texts = interner_new();
	table_init(&writer.string_ids);
	table_init(&writer.function_ids);
	table_init(&writer.mapping_ids);
	table_init(&writer.location_ids);
	put_all(&writer);
	table_release(&writer.string_ids);
	table_release(&writer.function_ids);
	table_release(&writer.mapping_ids);
	table_release(&writer.location_ids);
	interner_free(writer.texts);
	free(writer.strings);
	free(writer.locations);
	free(writer.lines);
	free(writer.node_locations);
	free(writer.stack);
	return true;
}

#else

bool viewer_pprof(const struct profile *profile, const struct view_options *options,
		  struct strbuf *out, struct error *error)
{
	(void)profile, (void)options, (void)out;
	return error_set(error, ERROR_UNSUPPORTED,
			 "this was built without protobuf-c: no pprof format");
}

#endif
