/* SPDX-License-Identifier: MIT */
/*
 * The JSON of pdump --json -> struct dump, so that each frame's text is the one that it had:
 *
 *     {"schema":"pdump/1",...,"threads":[{"os_thread_id":4711,...,"frames":[{"name":"fit",...}]}]}
 *
 * Values may follow one another, each on any number of lines. Relies on jansson's own bound
 * of nesting. A small file can ask for much memory: how many values there are is bounded before
 * any is made.
 */
#include "read/dump_file.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/utf8.h"
#include "read/internal.h"

enum {
	MOST_VALUES = 8 << 20, /* in one dump */
	MOST_DUMPS = 1 << 16,  /* in one file */
	SHOWN_PATH = 80,
	NO_PLACE = -1,
};

struct parse {
	const char *path;
	size_t line;	    /* where the dump that is read begins */
	long thread, frame; /* NO_PLACE: none */
	struct interner *strings;
	struct error *error;
};

/* ---- errors ---- */

/* Of a long path its end. */
static const char *shown_path(const char *path)
{
	const size_t size = strlen(path);
	return size > SHOWN_PATH ? path + size - SHOWN_PATH : path;
}

static bool fail(const struct parse *parse, const char *what, const char *problem)
{
	char place[64] = "";
	if (parse->frame != NO_PLACE)
		snprintf(place, sizeof(place), "threads[%ld].frames[%ld]: ", parse->thread,
			 parse->frame);
	else if (parse->thread != NO_PLACE)
		snprintf(place, sizeof(place), "threads[%ld]: ", parse->thread);
	return error_set(parse->error, ERROR_CORRUPT, "%s:%zu: %s%s%s", shown_path(parse->path),
			 parse->line, place, what, problem);
}

static bool fail_key(const struct parse *parse, const char *key, const char *problem)
{
	char quoted[40];
	snprintf(quoted, sizeof(quoted), "'%s' ", key);
	return fail(parse, quoted, problem);
}

/* ---- members ---- */

enum need { OPTIONAL, REQUIRED };

/* The member; NULL: null, or not there. *well: false when it must be. */
static const json_t *member(const struct parse *parse, const json_t *object, const char *key,
			    enum need need, bool *well)
{
	const json_t *value = json_object_get(object, key);
	*well = true;
	if (value && !json_is_null(value))
		return value;
	if (need == REQUIRED)
		*well = fail_key(parse, key, "is missing");
	return NULL;
}

static bool get_text(const struct parse *parse, const json_t *object, const char *key,
		     enum need need, const char **text)
{
	bool well;
	const json_t *value = member(parse, object, key, need, &well);
	if (!value)
		return well;
	if (!json_is_string(value))
		return fail_key(parse, key, "is no text");
	_cleanup_strbuf_ struct strbuf clean;
	strbuf_init(&clean);
	utf8_add_clean(&clean, json_string_value(value), json_string_length(value));
	*text = intern_text(parse->strings, clean.text);
	return true;
}

static bool get_number(const struct parse *parse, const json_t *object, const char *key,
		       enum need need, uint64_t most, uint64_t *number)
{
	bool well;
	const json_t *value = member(parse, object, key, need, &well);
	if (!value)
		return well;
	if (!json_is_integer(value))
		return fail_key(parse, key, "is no whole number");
	if (json_integer_value(value) < 0 || (uint64_t)json_integer_value(value) > most)
		return fail_key(parse, key, "is out of range");
	*number = (uint64_t)json_integer_value(value);
	return true;
}

static bool get_int(const struct parse *parse, const json_t *object, const char *key,
		    enum need need, int *number)
{
	uint64_t value = (uint64_t)*number;
	const bool well = get_number(parse, object, key, need, INT_MAX, &value);
	if (well)
		*number = (int)value;
	return well;
}

static bool get_bool(const struct parse *parse, const json_t *object, const char *key, bool *truth)
{
	bool well;
	const json_t *value = member(parse, object, key, OPTIONAL, &well);
	if (!value)
		return true;
	*truth = json_is_true(value);
	return json_is_boolean(value) || fail_key(parse, key, "is neither true nor false");
}

/* "0x1a2b0" */
static bool get_hex(const struct parse *parse, const json_t *object, const char *key, bool *known,
		    uint64_t *number)
{
	const char *text = NULL;
	char *end;
	if (!get_text(parse, object, key, OPTIONAL, &text))
		return false;
	*known = text != NULL;
	if (!text)
		return true;
	if (strncmp(text, "0x", 2) != 0 || !strchr("0123456789abcdef", text[2]) || !text[2])
		return fail_key(parse, key, "is no address in a file");
	errno = 0;
	*number = strtoull(text + 2, &end, 16);
	return (!errno && !*end) || fail_key(parse, key, "is no address in a file");
}

/* The place of the text in names, which are `count`. */
static bool get_choice(const struct parse *parse, const json_t *object, const char *key,
		       const char *(*name)(unsigned), unsigned count, unsigned *choice)
{
	const char *text;
	if (!get_text(parse, object, key, REQUIRED, &text))
		return false;
	for (*choice = 0; *choice < count; (*choice)++)
		if (strcmp(text, name(*choice)) == 0)
			return true;
	return fail_key(parse, key, "is none that is known");
}

static const char *kind_name(unsigned kind)
{
	return frame_kind_name(kind);
}

static const char *activity_name(unsigned activity)
{
	static const char *const names[] = {
		[THREAD_ACTIVE] = "active",
		[THREAD_IDLE] = "idle",
		[THREAD_UNINTERRUPTIBLE] = "uninterruptible",
		[THREAD_GONE] = "gone",
	};
	return names[activity];
}

/* ---- frames ---- */

static bool get_columns(const struct parse *parse, const json_t *object, struct frame *frame)
{
	frame->column = frame->end_column = -1;
	if (!get_int(parse, object, "end_line", OPTIONAL, &frame->end_line))
		return false;
	uint64_t column = UINT64_MAX, end_column = UINT64_MAX;
	if (!get_number(parse, object, "column", OPTIONAL, INT_MAX, &column) ||
	    !get_number(parse, object, "end_column", OPTIONAL, INT_MAX, &end_column))
		return false;
	frame->column = column == UINT64_MAX ? -1 : (int)column;
	frame->end_column = end_column == UINT64_MAX ? -1 : (int)end_column;
	return true;
}

/* Long: a row for each member. */
static bool get_frame(const struct parse *parse, const json_t *object, struct frame *frame)
{
	unsigned kind = 0;
	bool has_offset;
	if (!json_is_object(object))
		return fail(parse, "", "is no frame");
	if (!get_text(parse, object, "name", REQUIRED, &frame->name) ||
	    !get_text(parse, object, "filename", OPTIONAL, &frame->file) ||
	    !get_text(parse, object, "short_filename", OPTIONAL, &frame->short_file) ||
	    !get_text(parse, object, "module", OPTIONAL, &frame->module) ||
	    !get_text(parse, object, "module_path", OPTIONAL, &frame->module_path) ||
	    !get_text(parse, object, "build_id", OPTIONAL, &frame->build_id) ||
	    !get_int(parse, object, "line", OPTIONAL, &frame->line) ||
	    !get_columns(parse, object, frame) ||
	    !get_choice(parse, object, "kind", kind_name, FRAME_KIND_COUNT, &kind) ||
	    !get_hex(parse, object, "offset", &has_offset, &frame->offset) ||
	    !get_hex(parse, object, "function_offset", &frame->has_function,
		     &frame->function_offset) ||
	    !get_bool(parse, object, "inlined", &frame->inlined) ||
	    !get_bool(parse, object, "guessed", &frame->guessed) ||
	    !get_bool(parse, object, "uncertain", &frame->uncertain) ||
	    !get_bool(parse, object, "estimated", &frame->estimated))
		return false;
	frame->kind = kind;
	if (!frame->module) /* as it is written */
		frame->module = frame->module_path;
	reading_forget_made(frame);
	return true;
}

/* ---- threads and dumps ---- */

static bool get_array(const struct parse *parse, const json_t *object, const char *key,
		      const json_t **array)
{
	bool well;
	*array = member(parse, object, key, REQUIRED, &well);
	return well && (json_is_array(*array) || fail_key(parse, key, "is no list"));
}

/* Long: a row for each member. */
static bool get_thread(struct parse *parse, const json_t *object, struct arena *arena,
		       struct dump_thread *thread)
{
	unsigned activity = 0;
	const char *state = NULL;
	const json_t *frames;
	if (!json_is_object(object))
		return fail(parse, "", "is no thread");
	if (!get_int(parse, object, "os_thread_id", REQUIRED, &thread->tid) ||
	    !get_number(parse, object, "thread_id", OPTIONAL, INT64_MAX, &thread->python_id) ||
	    !get_text(parse, object, "thread_name", OPTIONAL, &thread->name) ||
	    !get_text(parse, object, "problem", OPTIONAL, &thread->problem) ||
	    !get_text(parse, object, "state", OPTIONAL, &state) ||
	    !get_choice(parse, object, "activity", activity_name, THREAD_GONE + 1, &activity) ||
	    !get_bool(parse, object, "known_to_python", &thread->known_to_python) ||
	    !get_bool(parse, object, "owns_gil", &thread->holds_gil) ||
	    !get_bool(parse, object, "gc_running", &thread->gc_running) ||
	    !get_bool(parse, object, "truncated", &thread->truncated) ||
	    !get_array(parse, object, "frames", &frames))
		return false;
	thread->activity = activity;
	thread->state = state && *state ? *state : '?';
	const size_t count = json_array_size(frames);
	thread->frames = arena_alloc(arena, count * sizeof(*thread->frames));
	for (; thread->frame_count < count; thread->frame_count++) {
		parse->frame = (long)thread->frame_count;
		if (!get_frame(parse, json_array_get(frames, thread->frame_count),
			       &thread->frames[thread->frame_count]))
			return false;
	}
	parse->frame = NO_PLACE;
	return true;
}

static bool get_threads(struct parse *parse, const json_t *top, struct dump *dump)
{
	const json_t *threads;
	if (!get_array(parse, top, "threads", &threads))
		return false;
	const size_t count = json_array_size(threads);
	dump->threads = arena_alloc(&dump->arena, count * sizeof(*dump->threads));
	for (; dump->thread_count < count; dump->thread_count++) {
		parse->thread = (long)dump->thread_count;
		if (!get_thread(parse, json_array_get(threads, dump->thread_count), &dump->arena,
				&dump->threads[dump->thread_count]))
			return false;
	}
	parse->thread = NO_PLACE;
	return true;
}

static bool get_python(const struct parse *parse, const json_t *top, struct dump *dump)
{
	bool well;
	const json_t *python = member(parse, top, "python", OPTIONAL, &well);
	if (!python)
		return true;
	if (!json_is_object(python))
		return fail_key(parse, "python", "is no object");
	return get_text(parse, python, "version", OPTIONAL, &dump->python_version) &&
	       get_text(parse, python, "exe", OPTIONAL, &dump->python_executable) &&
	       get_text(parse, python, "problem", OPTIONAL, &dump->python_problem) &&
	       get_bool(parse, python, "has_gil", &dump->has_gil);
}

static bool check_schema(const struct parse *parse, const json_t *top)
{
	const char *schema = json_string_value(json_object_get(top, "schema"));
	if (schema && strcmp(schema, "pdump/1") == 0)
		return true;
	return fail(parse, "", "is not of pdump --json (\"schema\": \"pdump/1\")");
}

static bool get_dump(struct parse *parse, const json_t *top, struct dump *dump)
{
	uint64_t rank = UINT64_MAX;
	const char *mode = NULL;
	if (!check_schema(parse, top) || !get_int(parse, top, "pid", REQUIRED, &dump->pid) ||
	    !get_text(parse, top, "host", OPTIONAL, &dump->host) ||
	    !get_number(parse, top, "rank", OPTIONAL, UINT32_MAX, &rank) ||
	    !get_text(parse, top, "command_line", OPTIONAL, &dump->command_line) ||
	    !get_text(parse, top, "executable", OPTIONAL, &dump->executable) ||
	    !get_text(parse, top, "mode", OPTIONAL, &mode) || !get_python(parse, top, dump) ||
	    !get_threads(parse, top, dump))
		return false;
	dump->has_rank = rank != UINT64_MAX;
	dump->rank = dump->has_rank ? (uint32_t)rank : 0;
	dump->native = mode && strcmp(mode, "native") == 0;
	dump->no_python = dump->python_problem && !dump->thread_count;
	return true;
}

static bool add_dump(struct parse *parse, const json_t *top, struct dump_list *list)
{
	struct dump dump = {.strings = parse->strings};
	arena_init(&dump.arena);
	parse->thread = parse->frame = NO_PLACE;
	const bool well = get_dump(parse, top, &dump);
	if (well)
		dump_list_add(list, &dump);
	else
		arena_release(&dump.arena);
	return well;
}

/* ---- values of a file ---- */

struct extent {
	size_t size, lines, values; /* at least as many values as there are */
};

/* From "{" to the "}" that ends it, or to the end of the file. */
static struct extent measure(const char *bytes, size_t size)
{
	struct extent extent = {0};
	size_t depth = 0;
	bool quoted = false;
	for (; extent.size < size; extent.size++) {
		const char c = bytes[extent.size];
		extent.lines += c == '\n';
		if (quoted) {
			if (c == '\\')
				extent.size++;
			quoted = c != '"';
		} else if (c == '"') {
			quoted = true;
		} else if (c == '{' || c == '[') {
			depth++;
			extent.values++;
		} else if (c == ',' || c == ':') {
			extent.values++;
		} else if ((c == '}' || c == ']') && --depth == 0) {
			extent.size++;
			break;
		}
	}
	if (extent.size > size)
		extent.size = size;
	return extent;
}

static bool read_value(struct parse *parse, const char *bytes, const struct extent *extent,
		       struct dump_list *list)
{
	json_error_t problem;
	if (extent->values > MOST_VALUES)
		return fail(parse, "", "holds more values than any dump");
	json_t *top = json_loadb(bytes, extent->size, 0, &problem);
	if (!top) {
		parse->line += problem.line > 0 ? (size_t)problem.line - 1 : 0;
		return fail(parse, "is no JSON: ", problem.text);
	}
	const bool well = add_dump(parse, top, list);
	json_decref(top);
	return well;
}

static bool read_values(struct parse *parse, const char *bytes, size_t size, struct dump_list *list)
{
	size_t found = 0;
	parse->thread = parse->frame = NO_PLACE;
	for (size_t at = 0;;) {
		for (; at < size && strchr(" \t\r\n", bytes[at]) && bytes[at]; at++)
			parse->line += bytes[at] == '\n';
		if (at == size)
			return found > 0 || fail(parse, "", "is empty");
		if (bytes[at] != '{')
			return fail(parse, "", "is no JSON: '{' expected");
		if (found++ == MOST_DUMPS)
			return fail(parse, "", "holds more dumps than can be");
		const struct extent extent = measure(bytes + at, size - at);
		if (!read_value(parse, bytes + at, &extent, list))
			return false;
		parse->line += extent.lines;
		at += extent.size;
	}
}

bool read_dump_bytes(const char *name, const char *bytes, size_t size, struct interner *strings,
		     struct dump_list *list, struct error *error)
{
	struct parse parse = {.path = name, .line = 1, .strings = strings, .error = error};
	return read_values(&parse, bytes, size, list);
}

/* ---- files ---- */

bool read_dump_file(const char *path, struct interner *strings, struct dump_list *list,
		    struct error *error)
{
	struct input input;
	struct error damage;
	const char *bytes;
	size_t size;
	if (!input_open(&input, path, error))
		return false;
	const bool whole = input_all(&input, &bytes, &size, &damage);
	bool well = false;
	if (whole || damage.kind == ERROR_CORRUPT)
		well = read_dump_bytes(input.name, bytes, size, strings, list, error);
	if (!whole)
		*error = damage;
	input_close(&input);
	return well && whole;
}
