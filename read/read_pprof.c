/* SPDX-License-Identifier: MIT */
/*
 * Profiles of pprof (profile/pprof.proto): those of precord, and others' (Go, gperftools, ...). Of
 * several values of a sample the number of samples is taken, or what is nearest to it. Functions
 * inlined into one another are lines of one location, the innermost first, as are the locations of
 * a stack. Labels are not kept.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "read/internal.h"

#ifdef HAVE_PROTOBUF_C
#include "profile/pprof.pb-c.h"

enum { MOST_FRAMES = 1 << 20 }; /* of a stack */

struct pprof {
	struct reading *reading;
	const Pprof__Profile *file;
	struct table locations, functions, mappings; /* id in the file -> index there */
	uint32_t *stack;
	size_t count, capacity;
	size_t value;	  /* which of a sample's values */
	uint64_t divisor; /* of it */
	struct error *error;
};

static bool fail(const struct pprof *pprof, const char *what, size_t index)
{
	return error_set(pprof->error, ERROR_CORRUPT, "%.60s: %s %zu: it refers to nothing there",
			 pprof->reading->input->name, what, index);
}

/* "" for 0, and for what is not there; never NULL. */
static const char *string_at(const struct pprof *pprof, int64_t index)
{
	if (index <= 0 || (uint64_t)index >= pprof->file->n_string_table)
		return "";
	const ProtobufCBinaryData *bytes = &pprof->file->string_table[index];
	return reading_text(pprof->reading, (const char *)bytes->data, bytes->len);
}

static const char *string_or_null(const struct pprof *pprof, int64_t index)
{
	const char *text = string_at(pprof, index);
	return *text ? text : NULL;
}

/* What is shown of the path of a library, or of its source: the last component. */
static const char *last_component(struct reading *reading, const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	return slash && slash[1] ? intern_text(reading->strings, slash + 1) : path;
}

/* The same of Python's; of what is installed as an import statement has it. */
static const char *short_path(struct reading *reading, const char *path)
{
	if (!path || path[0] != '/')
		return path;
	const char *installed = short_path_installed(path);
	return installed ? intern_text(reading->strings, installed) : last_component(reading, path);
}

/* ---- which value, and how it was made ----------------------------------------------------------
 */

static bool is(const char *text, const char *other)
{
	return strcmp(text, other) == 0;
}

static void choose_value(struct pprof *pprof)
{
	const Pprof__Profile *file = pprof->file;
	const size_t count = file->n_sample_type;
	pprof->divisor = 1;
	for (size_t i = 0; i < count; i++)
		if (is(string_at(pprof, file->sample_type[i]->type), "samples")) {
			pprof->value = i;
			return;
		}
	pprof->value = count ? count - 1 : 0;
	for (size_t i = 0; i < count; i++)
		if (file->default_sample_type &&
		    file->sample_type[i]->type == file->default_sample_type)
			pprof->value = i;
	if (count && file->period > 0 && file->period_type &&
	    file->sample_type[pprof->value]->unit == file->period_type->unit)
		pprof->divisor = (uint64_t)file->period;
}

/* precord says in comments how it was made: "mode: wall". */
static void read_comments(struct pprof *pprof)
{
	struct profile *const profile = pprof->reading->profile;
	const struct {
		const char *name;
		const char **to;
	} facts[] = {
		{"mode: ", &profile->mode},
		{"command: ", &profile->command_line},
		{"host: ", &profile->host},
		{"event: ", &profile->event},
		{"Python: ", &profile->python_version},
	};
	for (size_t i = 0; i < pprof->file->n_comment; i++) {
		const char *text = string_at(pprof, pprof->file->comment[i]);
		for (size_t n = 0; n < sizeof(facts) / sizeof(*facts); n++)
			if (strncmp(text, facts[n].name, strlen(facts[n].name)) == 0)
				*facts[n].to = intern_text(pprof->reading->strings,
							   text + strlen(facts[n].name));
	}
}

static void read_facts(struct pprof *pprof)
{
	const Pprof__Profile *file = pprof->file;
	struct profile *const profile = pprof->reading->profile;
	if (file->time_nanos > 0)
		profile->start_time_ns = (uint64_t)file->time_nanos;
	if (file->duration_nanos > 0)
		profile->counts.elapsed_ns = (uint64_t)file->duration_nanos;
	if (file->period > 0 && file->period_type &&
	    is(string_at(pprof, file->period_type->unit), "nanoseconds"))
		profile->rate = 1e9 / (double)file->period;
	read_comments(pprof);
	profile->native = file->n_mapping > 0;
}

/* ---- stacks -------------------------------------------------------------------------------------
 */

static void set_mapping(const struct pprof *pprof, const Pprof__Location *location,
			struct frame *frame)
{
	uint32_t index;
	if (!location->mapping_id || !table_find(&pprof->mappings, location->mapping_id, 0, &index))
		return;
	const Pprof__Mapping *mapping = pprof->file->mapping[index];
	frame->module_path = string_or_null(pprof, mapping->filename);
	frame->module = last_component(pprof->reading, frame->module_path);
	frame->build_id = string_or_null(pprof, mapping->build_id);
	/* Where the module is in memory says nothing of the code. */
	if (location->address >= mapping->memory_start)
		frame->offset = location->address - mapping->memory_start + mapping->file_offset;
}

static bool push(struct pprof *pprof, const struct frame *frame)
{
	if (pprof->count == MOST_FRAMES)
		return false;
	pprof->stack =
		alloc_room(pprof->stack, &pprof->capacity, pprof->count + 1, sizeof(*pprof->stack));
	pprof->stack[pprof->count++] = profile_frame(pprof->reading->profile, frame);
	return true;
}

/* precord's names for what has none: "libfoo.so+0x1a2b0", "libfoo.so [guessed]". */
static void set_marks(struct reading *reading, struct frame *frame)
{
	static const char guessed[] = " [guessed]";
	const size_t size = frame->name ? strlen(frame->name) : 0, end = sizeof(guessed) - 1;
	if (size > end && is(frame->name + size - end, guessed)) {
		frame->guessed = true;
		frame->name = intern_bytes(reading->strings, frame->name, size - end);
	}
	const size_t module = frame->module ? strlen(frame->module) : 0;
	if (!module || !frame->name || strncmp(frame->name, frame->module, module) != 0)
		return;
	const char *rest = frame->name + module;
	char *after = NULL;
	if (strncmp(rest, "+0x", 3) == 0)
		frame->function_offset = strtoull(rest + 3, &after, 16);
	frame->has_function = after && !*after;
	if (!*rest || frame->has_function)
		frame->name = NULL;
}

static bool push_line(struct pprof *pprof, const Pprof__Line *line, const struct frame *place,
		      bool inlined)
{
	struct frame frame = *place;
	uint32_t index;
	if (!table_find(&pprof->functions, line->function_id, 0, &index))
		return false;
	const Pprof__Function *function = pprof->file->function[index];
	frame.name = string_or_null(pprof, function->name);
	frame.file = string_or_null(pprof, function->filename);
	/* The library is named as the file where no source is known. */
	if (frame.file && frame.module_path &&
	    (is(frame.file, frame.module_path) || (frame.module && is(frame.file, frame.module))))
		frame.file = NULL;
	frame.short_file = frame.module_path ? last_component(pprof->reading, frame.file)
					     : short_path(pprof->reading, frame.file);
	set_marks(pprof->reading, &frame);
	frame.line = line->line > 0 && line->line <= INT_MAX ? (int)line->line : 0;
	frame.inlined = inlined;
	frame.kind = reading_kind(&frame);
	return push(pprof, &frame);
}

static bool push_location(struct pprof *pprof, uint64_t id)
{
	struct frame frame = {.kind = FRAME_NATIVE, .column = -1, .end_column = -1};
	uint32_t index;
	if (!table_find(&pprof->locations, id, 0, &index))
		return false;
	const Pprof__Location *location = pprof->file->location[index];
	set_mapping(pprof, location, &frame);
	for (size_t i = 0; i < location->n_line; i++)
		if (!push_line(pprof, location->line[i], &frame, i + 1 < location->n_line))
			return false;
	if (location->n_line > 0)
		return true;
	frame.has_function = frame.module != NULL;
	frame.function_offset = frame.offset;
	return push(pprof, &frame);
}

static void turn_round(uint32_t *stack, size_t count)
{
	for (size_t i = 0; i < count / 2; i++) {
		const uint32_t outer = stack[i];
		stack[i] = stack[count - 1 - i];
		stack[count - 1 - i] = outer;
	}
}

static bool read_sample(struct pprof *pprof, size_t index)
{
	const Pprof__Sample *sample = pprof->file->sample[index];
	if (pprof->value >= sample->n_value)
		return fail(pprof, "sample", index);
	const int64_t value = sample->value[pprof->value];
	if (value <= 0)
		return true; /* differences have such ones */
	pprof->count = 0;
	for (size_t i = 0; i < sample->n_location_id; i++)
		if (!push_location(pprof, sample->location_id[i]))
			return fail(pprof, "sample", index);
	turn_round(pprof->stack, pprof->count);
	const uint64_t count = ((uint64_t)value + pprof->divisor / 2) / pprof->divisor;
	const uint32_t node = profile_add(pprof->reading->profile, pprof->stack, pprof->count, 0);
	return reading_count(pprof->reading, node, count, pprof->error);
}

static bool read_all(struct pprof *pprof)
{
	const Pprof__Profile *file = pprof->file;
	for (size_t i = 0; i < file->n_location; i++)
		table_put(&pprof->locations, file->location[i]->id, 0, (uint32_t)i);
	for (size_t i = 0; i < file->n_function; i++)
		table_put(&pprof->functions, file->function[i]->id, 0, (uint32_t)i);
	for (size_t i = 0; i < file->n_mapping; i++)
		table_put(&pprof->mappings, file->mapping[i]->id, 0, (uint32_t)i);
	choose_value(pprof);
	read_facts(pprof);
	for (size_t i = 0; i < file->n_sample; i++)
		if (!read_sample(pprof, i))
			return false;
	return true;
}

bool read_pprof(struct reading *reading, struct error *error)
{
	struct pprof pprof = {.reading = reading, .error = error};
	const char *bytes;
	size_t size;
	if (!input_all(reading->input, &bytes, &size, error))
		return false;
	Pprof__Profile *file = pprof__profile__unpack(NULL, size, (const uint8_t *)bytes);
	if (!file)
		return error_set(error, ERROR_CORRUPT,
				 "%.120s: neither text nor a profile of pprof",
				 reading->input->name);
	pprof.file = file;
	const bool well = read_all(&pprof);
	table_release(&pprof.locations);
	table_release(&pprof.functions);
	table_release(&pprof.mappings);
	free(pprof.stack);
	pprof__profile__free_unpacked(file, NULL);
	return well;
}

#else

bool read_pprof(struct reading *reading, struct error *error)
{
	return error_set(error, ERROR_UNSUPPORTED,
			 "%.120s: this was built without protobuf-c: pprof cannot be read",
			 reading->input->name);
}

#endif
