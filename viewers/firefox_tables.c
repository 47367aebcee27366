/* SPDX-License-Identifier: MIT */
/*
 * The tables that all threads of a profile share in the Firefox Profiler's format. They are written
 * column by column. Frames are ours by number, stacks the nodes of the call tree without the root:
 * so a stack comes behind the one that it goes on from. What is named several times is in its table
 * once, the strings last.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "viewers/firefox.h"

/* The categories of viewers/firefox.c. */
static const uint8_t kind_categories[FRAME_KIND_COUNT] = {
	[FRAME_PYTHON] = 1,  [FRAME_PYTHON_LIBRARY] = 2, [FRAME_CYTHON] = 3,
	[FRAME_BUILTIN] = 4, [FRAME_NATIVE] = 5,	 [FRAME_INTERPRETER] = 6,
	[FRAME_KERNEL] = 7,  [FRAME_IDLE] = 8,		 [FRAME_GUESSED] = 9,
};

/* What functions and symbols are known by. */
struct firefox_function {
	uint32_t name, source, library; /* FIREFOX_NONE: no such */
};

struct firefox_symbol {
	uint64_t address;
	uint32_t name, library;
};

struct firefox_frame {
	uint32_t function, symbol, library, inline_depth, category, line;
};

void firefox_writer_init(struct firefox_writer *writer, const struct profile *profile,
			 const struct view_options *options, struct strbuf *out)
{
	*writer = (struct firefox_writer){.profile = profile, .options = options, .out = out};
	writer->texts = interner_new();
	table_init(&writer->ids);
}

void firefox_writer_release(struct firefox_writer *writer)
{
	table_release(&writer->ids);
	interner_free(writer->texts);
	free(writer->strings);
	free(writer->functions);
	free(writer->symbols);
	free(writer->libraries);
	free(writer->sources);
	free(writer->frames);
}

/* ---- things, each once ---------------------------------------------------------------------- */

enum thing { STRING, FUNCTION, FUNCTION_PLACE, SYMBOL, SYMBOL_PLACE, LIBRARY, SOURCE };

/* True: it is known, by *index; else it has that index from now on. */
static bool known(struct firefox_writer *writer, enum thing thing, uint64_t one, uint64_t two,
		  size_t count, uint32_t *index)
{
	const uint64_t second = two << 3 | thing;
	if (table_find(&writer->ids, one, second, index))
		return true;
	*index = (uint32_t)count;
	table_put(&writer->ids, one, second, *index);
	return false;
}

uint32_t firefox_string(struct firefox_writer *writer, const char *text)
{
	struct strbuf _cleanup_strbuf_ clean;
	strbuf_init(&clean);
	view_put_clean(&clean, text ? text : "");
	text = intern_text(writer->texts, clean.text);
	uint32_t index;
	if (known(writer, STRING, (uint64_t)(uintptr_t)text, 0, writer->string_count, &index))
		return index;
	writer->strings = alloc_room(writer->strings, &writer->string_capacity,
				     writer->string_count + 1, sizeof(*writer->strings));
	writer->strings[writer->string_count++] = text;
	return index;
}

static uint32_t source_index(struct firefox_writer *writer, const char *file)
{
	const uint32_t name = firefox_string(writer, file);
	uint32_t index;
	if (known(writer, SOURCE, name, 0, writer->source_count, &index))
		return index;
	writer->sources = alloc_room(writer->sources, &writer->source_capacity,
				     writer->source_count + 1, sizeof(*writer->sources));
	writer->sources[writer->source_count++] = name;
	return index;
}

static uint32_t library_index(struct firefox_writer *writer, const struct frame *frame)
{
	const char *path = frame->module_path ? frame->module_path : frame->module;
	uint32_t index;
	if (!path)
		return FIREFOX_NONE;
	if (known(writer, LIBRARY, firefox_string(writer, path),
		  firefox_string(writer, frame->build_id), writer->library_count, &index))
		return index;
	writer->libraries = alloc_room(writer->libraries, &writer->library_capacity,
				       writer->library_count + 1, sizeof(*writer->libraries));
	writer->libraries[writer->library_count++] = (struct firefox_library){
		.name = frame->module ? frame->module : path,
		.path = path,
		.build_id = frame->build_id,
		.text = firefox_string(writer, frame->module ? frame->module : path),
	};
	return index;
}

static uint32_t function_index(struct firefox_writer *writer,
			       const struct firefox_function *function)
{
	uint32_t place, index;
	known(writer, FUNCTION_PLACE, function->source, function->library, writer->ids.count,
	      &place);
	if (known(writer, FUNCTION, function->name, place, writer->function_count, &index))
		return index;
	writer->functions = alloc_room(writer->functions, &writer->function_capacity,
				       writer->function_count + 1, sizeof(*writer->functions));
	writer->functions[writer->function_count++] = *function;
	return index;
}

static uint32_t symbol_index(struct firefox_writer *writer, const struct firefox_symbol *symbol)
{
	uint32_t place, index;
	known(writer, SYMBOL_PLACE, symbol->address, symbol->library, writer->ids.count, &place);
	if (known(writer, SYMBOL, symbol->name, place, writer->symbol_count, &index))
		return index;
	writer->symbols = alloc_room(writer->symbols, &writer->symbol_capacity,
				     writer->symbol_count + 1, sizeof(*writer->symbols));
	writer->symbols[writer->symbol_count++] = *symbol;
	return index;
}

void firefox_look_at_frames(struct firefox_writer *writer)
{
	const struct profile *profile = writer->profile;
	writer->frames = alloc_zeroed(profile->frame_count + 1, sizeof(*writer->frames));
	for (size_t i = 0; i < profile->frame_count; i++) {
		const struct frame *frame = &profile->frames[i];
		struct firefox_frame *entry = &writer->frames[i];
		struct strbuf _cleanup_strbuf_ name;
		strbuf_init(&name);
		const char *file;
		int line;
		view_frame_words(&name, &file, &line, frame, writer->options);
		entry->line = line ? (uint32_t)line : FIREFOX_NONE;
		entry->category = kind_categories[frame->kind];
		const uint32_t text = firefox_string(writer, name.text);
		entry->library = library_index(writer, frame);
		const bool in_source = file && file != frame->module_path && file != frame->module;
		entry->function = function_index(
			writer, &(struct firefox_function){
					text, in_source ? source_index(writer, file) : FIREFOX_NONE,
					entry->library});
		entry->symbol = FIREFOX_NONE;
		if (entry->library != FIREFOX_NONE && frame->has_function && !frame->inlined)
			entry->symbol = symbol_index(
				writer, &(struct firefox_symbol){frame->function_offset, text,
								 entry->library});
	}
	uint32_t _cleanup_free_ *depths = alloc_zeroed(profile->node_count, sizeof(*depths));
	for (uint32_t i = 1; i < profile->node_count; i++) {
		const struct profile_node *node = &profile->nodes[i];
		struct firefox_frame *entry = &writer->frames[node->frame];
		if (view_is_inlined(profile, i))
			depths[i] = depths[node->parent] + 1;
		if (entry->inline_depth < depths[i])
			entry->inline_depth = depths[i];
	}
}

/* ---- columns -------------------------------------------------------------------------------- */

void firefox_begin_column(struct strbuf *out, const char *name)
{
	strbuf_printf(out, ",\"%s\":[", name);
}

void firefox_put_same(struct strbuf *out, const char *name, size_t count, const char *value)
{
	firefox_begin_column(out, name);
	for (size_t i = 0; i < count; i++) {
		strbuf_add_text(out, i ? "," : "");
		strbuf_add_text(out, value);
	}
	strbuf_add_char(out, ']');
}

void firefox_put_column(struct strbuf *out, const char *name, struct firefox_column column,
			const char *none)
{
	firefox_begin_column(out, name);
	for (size_t i = 0; i < column.count; i++) {
		uint32_t value;
		memcpy(&value, (const char *)column.items + i * column.size + column.offset,
		       sizeof(value));
		strbuf_add_text(out, i ? "," : "");
		if (value == FIREFOX_NONE)
			strbuf_add_text(out, none);
		else
			strbuf_printf(out, "%" PRIu32, value);
	}
	strbuf_add_char(out, ']');
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void put_strings(struct firefox_writer *writer)
{
	strbuf_add_text(writer->out, "\"stringArray\":[");
	for (size_t i = 0; i < writer->string_count; i++) {
		strbuf_add_text(writer->out, i ? ",\n" : "\n");
		view_put_json(writer->out, writer->strings[i]);
	}
	strbuf_add_char(writer->out, ']');
}

struct stack {
	uint32_t frame, offset; /* back to the one that it goes on from; 0: none */
};

static void put_stacks(struct firefox_writer *writer)
{
	const struct profile *profile = writer->profile;
	const size_t count = profile->node_count - 1;
	struct stack _cleanup_free_ *stacks = alloc_zeroed(count + 1, sizeof(*stacks));
	for (uint32_t i = 0; i < count; i++) {
		const struct profile_node *node = &profile->nodes[i + 1];
		stacks[i].frame = node->frame;
		stacks[i].offset = node->parent == PROFILE_ROOT ? 0 : i + 1 - node->parent;
	}
	strbuf_printf(writer->out, "\n\"stackTable\":{\"length\":%zu", count);
	firefox_put_column(writer->out, "frame", FIREFOX_COLUMN(stacks, count, struct stack, frame),
			   "");
	firefox_put_column(writer->out, "prefixOffset",
			   FIREFOX_COLUMN(stacks, count, struct stack, offset), "");
	strbuf_add_char(writer->out, '}');
}

static void put_frames(struct firefox_writer *writer)
{
	struct strbuf *out = writer->out;
	const struct frame *frames = writer->profile->frames;
	const struct firefox_frame *entries = writer->frames;
	const size_t count = writer->profile->frame_count;
	strbuf_printf(out, ",\n\"frameTable\":{\"length\":%zu", count);
	firefox_begin_column(out, "address");
	for (size_t i = 0; i < count; i++) {
		strbuf_add_text(out, i ? "," : "");
		if (entries[i].library == FIREFOX_NONE)
			strbuf_add_text(out, "-1");
		else
			strbuf_printf(out, "%" PRIu64, frames[i].offset & (UINT64_MAX >> 11));
	}
	strbuf_add_char(out, ']');
	firefox_put_column(out, "lib",
			   FIREFOX_COLUMN(entries, count, struct firefox_frame, library), "-1");
	firefox_put_column(out, "inlineDepth",
			   FIREFOX_COLUMN(entries, count, struct firefox_frame, inline_depth), "");
	firefox_put_column(out, "category",
			   FIREFOX_COLUMN(entries, count, struct firefox_frame, category), "");
	firefox_put_same(out, "subcategory", count, "0");
	firefox_put_column(out, "func",
			   FIREFOX_COLUMN(entries, count, struct firefox_frame, function), "");
	firefox_put_column(out, "nativeSymbol",
			   FIREFOX_COLUMN(entries, count, struct firefox_frame, symbol), "null");
	firefox_put_same(out, "innerWindowID", count, "0");
	firefox_put_column(out, "line", FIREFOX_COLUMN(entries, count, struct firefox_frame, line),
			   "null");
	firefox_put_same(out, "column", count, "null");
	firefox_put_same(out, "originalLocation", count, "null");
	strbuf_add_char(out, '}');
}

static void put_functions(struct firefox_writer *writer)
{
	struct strbuf *out = writer->out;
	const struct firefox_function *functions = writer->functions;
	const size_t count = writer->function_count;
	strbuf_printf(out, ",\n\"funcTable\":{\"length\":%zu", count);
	firefox_put_column(out, "name",
			   FIREFOX_COLUMN(functions, count, struct firefox_function, name), "");
	firefox_put_same(out, "isJS", count, "false");
	firefox_put_same(out, "relevantForJS", count, "false");
	firefox_put_column(out, "resource",
			   FIREFOX_COLUMN(functions, count, struct firefox_function, library),
			   "-1");
	firefox_put_column(out, "source",
			   FIREFOX_COLUMN(functions, count, struct firefox_function, source),
			   "null");
	firefox_put_same(out, "lineNumber", count, "null");
	firefox_put_same(out, "columnNumber", count, "null");
	firefox_put_same(out, "originalLocation", count, "null");
	strbuf_add_char(out, '}');
}

/* A resource for each library, of the same number. */
static void put_small_tables(struct firefox_writer *writer)
{
	struct strbuf *out = writer->out;
	const size_t libraries = writer->library_count, symbols = writer->symbol_count;
	const struct firefox_symbol *list = writer->symbols;
	strbuf_printf(out, ",\n\"resourceTable\":{\"length\":%zu", libraries);
	firefox_put_column(
		out, "name",
		FIREFOX_COLUMN(writer->libraries, libraries, struct firefox_library, text), "");
	firefox_put_same(out, "host", libraries, "null");
	firefox_put_same(out, "type", libraries, "1");
	strbuf_printf(out, "},\n\"nativeSymbols\":{\"length\":%zu", symbols);
	firefox_put_column(out, "libIndex",
			   FIREFOX_COLUMN(list, symbols, struct firefox_symbol, library), "");
	firefox_begin_column(out, "address");
	for (size_t i = 0; i < symbols; i++)
		strbuf_printf(out, i ? ",%" PRIu64 : "%" PRIu64,
			      list[i].address & (UINT64_MAX >> 11));
	strbuf_add_char(out, ']');
	firefox_put_column(out, "name", FIREFOX_COLUMN(list, symbols, struct firefox_symbol, name),
			   "");
	firefox_put_same(out, "functionSize", symbols, "null");
	strbuf_printf(out, "},\n\"sources\":{\"length\":%zu", writer->source_count);
	firefox_put_same(out, "id", writer->source_count, "null");
	firefox_put_column(
		out, "filename",
		(struct firefox_column){writer->sources, writer->source_count, sizeof(uint32_t), 0},
		"");
	firefox_put_same(out, "startLine", writer->source_count, "1");
	firefox_put_same(out, "startColumn", writer->source_count, "1");
	firefox_put_same(out, "sourceMapURL", writer->source_count, "null");
	firefox_put_same(out, "content", writer->source_count, "null");
	strbuf_add_text(out, "},\n\"sourceLocationTable\":{\"length\":0,\"source\":[],\"line\":[],"
			     "\"column\":[]}");
}

void firefox_put_shared(struct firefox_writer *writer)
{
	put_stacks(writer);
	put_frames(writer);
	put_functions(writer);
	put_small_tables(writer);
	strbuf_add_text(writer->out, ",\n");
	put_strings(writer);
}
