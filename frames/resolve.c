/* SPDX-License-Identifier: MIT */
/*
 * Names for sampled frames: each distinct code address once, module by module (libdw keeps much
 * memory for an open one), inlined levels as frames of their own, Cython names and lines as
 * their author wrote them.
 */
#include "frames/resolve.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/utf8.h"
#include "cfi/cfi.h"
#include "cython/cython.h"
#include "frames/short_file.h"

static int open_source(void *context, const char *path)
{
	const struct resolver *resolver = context;
	if (resolver->target)
		return target_open_file(resolver->target, path, NULL);
	return foreign_file_open((struct foreign_root){.fd = FOREIGN_OUR_ROOT}, path);
}

struct resolver *resolver_new(const struct target *target, struct interner *strings, bool internals)
{
	struct resolver *resolver = alloc_zeroed(1, sizeof(*resolver));
	resolver->target = target;
	resolver->strings = strings;
	resolver->place.fd = -1;
	resolver->internals = internals;
	resolver->symbolizer = symbolizer_new(strings);
	resolver->sources = cython_sources_new(strings, open_source, resolver);
	table_init(&resolver->short_files);
	return resolver;
}

void resolver_free(struct resolver *resolver)
{
	if (!resolver)
		return;
	symbolizer_free(resolver->symbolizer);
	if (resolver->place.fd >= 0)
		close(resolver->place.fd);
	cython_sources_free(resolver->sources);
	cython_symbols_free(resolver->symbols);
	names_mypyc_free(resolver->mypyc);
	table_release(&resolver->short_files);
	free(resolver->short_texts);
	free(resolver->named);
	free(resolver->first);
	free(resolver->counts);
	free(resolver);
}

static void add_named(struct resolver *resolver, uint32_t id, const struct named *named)
{
	resolver->named = alloc_room(resolver->named, &resolver->named_capacity,
				     resolver->named_count + 1, sizeof(*resolver->named));
	if (resolver->counts[id]++ == 0)
		resolver->first[id] = (uint32_t)resolver->named_count;
	resolver->named[resolver->named_count++] = *named;
}

static void name_python(struct resolver *resolver, uint32_t id, const struct raw_frame *raw)
{
	const struct python_code *code = raw->code;
	const struct python_position *at = &raw->position;
	struct named named = {.frame = {
				      .kind = raw->idle ? FRAME_IDLE
					      : short_path_is_library(code->file)
						      ? FRAME_PYTHON_LIBRARY
						      : FRAME_PYTHON,
				      .name = code->name,
				      .file = code->file,
				      .short_file = resolver_shorten(resolver, code->file),
				      .line = at->line > 0 ? at->line : 0,
			      }};
	if (at->line > 0 && at->end_line >= at->line) {
		named.frame.end_line = at->end_line;
		named.frame.column = at->column;
		named.frame.end_column = at->end_column;
	}
	add_named(resolver, id, &named);
}

static void name_mark(struct resolver *resolver, uint32_t id, const struct raw_frame *raw)
{
	const bool thread =
		strncmp(raw->shown, "thread ", 7) == 0 || strncmp(raw->shown, "process ", 8) == 0;
	const bool gap = strcmp(raw->shown, "[gap]") == 0;
	const bool signal = strncmp(raw->shown, "<signal ", 8) == 0;
	struct named named = {.frame = {.kind = thread	 ? FRAME_THREAD
						: gap	 ? FRAME_GAP
						: signal ? FRAME_NATIVE
							 : FRAME_INTERPRETER,
					.name = raw->shown}};
	add_named(resolver, id, &named);
}

static void name_kernel(struct resolver *resolver, uint32_t id, const struct raw_frame *raw)
{
	struct named named = {.frame = {.kind = FRAME_KERNEL,
					.name = resolver_clean(resolver, raw->shown),
					.module = intern_text(resolver->strings, "kernel")}};
	named.frame.module_path = named.frame.module;
	add_named(resolver, id, &named);
}

/* What every frame of a module has, whatever its name. */
static struct frame native_frame(struct resolver *resolver, const struct raw_frame *raw)
{
	struct frame frame = {.kind = raw->idle		 ? FRAME_IDLE
				      : raw->guessed	 ? FRAME_GUESSED
				      : raw->interpreter ? FRAME_INTERPRETER
							 : FRAME_NATIVE,
			      .guessed = raw->guessed,
			      .offset = raw->offset - (raw->module ? raw->module->base : 0)};
	if (!raw->module) {
		frame.module = frame.module_path = intern_text(resolver->strings, "[unknown]");
		return frame;
	}
	char hex[65];
	build_id_hex(&raw->module->build_id, hex);
	frame.module = resolver_clean(resolver, raw->module->name);
	frame.module_path = resolver_clean(resolver, raw->module->path);
	frame.build_id = hex[0] ? intern_text(resolver->strings, hex) : NULL;
	return frame;
}

static const char *last_component(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}

/* Py_DECREF and its like: code of Python's headers within the functions of an extension. */
static bool is_header_code(const struct symbolize_frame *symbol)
{
	const char *name = symbol->name;
	if (!symbol->inlined || !name)
		return false;
	name += *name == '_';
	return strncmp(name, "Py", 2) == 0 &&
	       (name[2] == '_' || (name[2] >= 'A' && name[2] <= 'Z'));
}

/* The function, if it is one that a program can name. */
static bool find_c_function(struct resolver *resolver, const struct raw_frame *raw,
			    struct recovered_name *recovered)
{
	/* Where it is decided while sampling, `hidden` says how it was reached. */
	return symbolize_recovered_name(resolver->symbolizer, raw->offset - !raw->exact,
					recovered) &&
	       c_function_is_shown(recovered) &&
	       (!recovered->tail || raw->by_pointer || (raw->interpreter && !raw->undecided));
}

/* The name that a program has for it; NULL: none. */
static const char *c_function_at(struct resolver *resolver, const struct raw_frame *raw,
				 struct recovered_name *recovered)
{
	_cleanup_strbuf_ struct strbuf name;
	strbuf_init(&name);
	if (!find_c_function(resolver, raw, recovered))
		return NULL;
	c_function_name(recovered, &name);
	return intern_text(resolver->strings, name.text);
}

/* A module of the standard library has the same names in a file of its own as in the interpreter.
 */
static void name_library_function(struct resolver *resolver, const struct raw_frame *raw,
				  struct named *outermost)
{
	struct recovered_name recovered;
	const char *name = raw->module && strstr(raw->module->path, "/lib-dynload/")
				   ? c_function_at(resolver, raw, &recovered)
				   : NULL;
	if (name)
		outermost->frame.name = name;
}

/* One box a function: where it is in the interpreter's source is of no use to most, and takes
 * long to find out. */
static void name_builtin(struct resolver *resolver, uint32_t id, const struct raw_frame *raw)
{
	struct recovered_name recovered;
	struct named named = {.frame = native_frame(resolver, raw)};
	named.frame.name = c_function_at(resolver, raw, &recovered);
	if (named.frame.name) {
		named.frame.has_function = true;
		named.frame.function_offset = recovered.start;
		named.cython = (struct cython_name){.kind = CYTHON_FUNCTION,
						    .name = named.frame.name,
						    .base = named.frame.name,
						    .layer = recovered.layer};
	}
	if (named.frame.kind == FRAME_INTERPRETER)
		named.frame.kind = FRAME_BUILTIN;
	add_named(resolver, id, &named);
}

/*
 * GCC splits the head off a function and inlines the rest into it again (-fpartial-inlining),
 * mostly of generators, which seem to call themselves from the line of their definition then.
 */
static bool is_split_head(const struct symbolize_result *result, size_t level)
{
	const struct symbolize_frame *outer = &result->frames[level];
	return level > 0 && result->frames[level - 1].name == outer->name && outer->line > 0 &&
	       outer->line == outer->declared;
}

/* Code that neither a symbol nor an FDE covers begins where the unwinder's analysis found that. */
static void set_function(const struct raw_frame *raw, const struct symbolize_result *result,
			 struct frame *frame)
{
	const bool analysed = raw->module && !result->has_function && raw->function;
	const uint64_t start = analysed ? raw->function : result->function_start;

	frame->has_function = result->has_function || analysed;
	frame->function_offset = start - (raw->module ? raw->module->base : 0);
}

/* Kernels made at run time have no name of their own: who calls one says what it is for. */
static void name_made(struct resolver *resolver, uint32_t id, const struct raw_frame *raw)
{
	static const char made[] = "[jit]";
	struct named named = {.frame = native_frame(resolver, raw)};
	const uint32_t caller = (uint32_t)(raw->offset - 1);
	_cleanup_strbuf_ struct strbuf text;
	strbuf_init(&text);
	strbuf_add_text(&text, made);
	if (raw->offset && resolver->counts[caller]) {
		const struct frame *const by = &resolver->named[resolver->first[caller]].frame;
		if (by->name && strncmp(by->name, made, strlen(made)) == 0) {
			strbuf_reset(&text);
			strbuf_add_text(&text, by->name);
		} else {
			strbuf_add_text(&text, " (called by ");
			if (by->name)
				frame_name_text(&text, by);
			else
				frame_text(&text, by, false, false);
			strbuf_add_text(&text, ")");
		}
	}
	named.frame.name = intern_text(resolver->strings, text.text);
	named.frame.module = named.frame.module_path = NULL;
	named.frame.offset = 0;
	add_named(resolver, id, &named);
}

/* One of the functions inlined into one another, `named` being where they are. */
static void name_level(struct resolver *resolver, const struct raw_frame *raw,
		       const struct symbolize_result *result, size_t i, const struct named *named,
		       struct named *level)
{
	const struct symbolize_frame *symbol = &result->frames[i];
	bool author = false;
	*level = *named;
	level->hidden = !resolver->internals && is_header_code(symbol);
	level->frame.name = symbol->name;
	level->frame.inlined = symbol->inlined;
	level->frame.line = symbol->line > 0 ? symbol->line : 0;
	if (symbol->file) {
		level->frame.file = resolver_clean(resolver, symbol->file);
		level->frame.short_file = last_component(level->frame.file);
	}
	if (symbol->recovered)
		author_recovered(resolver, raw, symbol->recovered, level);
	else if (!author_cython(resolver, raw, symbol, result->count == 1, level) &&
		 !author_numba(resolver, raw, symbol, level) &&
		 !author_nuitka(resolver, symbol, level))
		author = author_of_tools(resolver, raw, symbol, level);
	if (i == result->count - 1)
		name_library_function(resolver, raw, level);
	if (level->cython.kind != CYTHON_NOT && !author && is_split_head(result, i))
		level->hidden = !resolver->internals;
}

static void name_native(struct resolver *resolver, uint32_t id, const struct raw_frame *raw,
			const struct symbolize_result *result)
{
	struct named named = {.frame = native_frame(resolver, raw)}, level;
	set_function(raw, result, &named.frame);
	/* Where it lies in its own module would say nothing: each image of made code is one. */
	if (result->count == 0 && raw->module && raw->module->origin != MODULE_OF_FILE)
		named.frame.name = intern_text(resolver->strings, "[unknown]");
	if (result->count == 0)
		add_named(resolver, id, &named);
	for (size_t i = 0; i < result->count; i++) {
		name_level(resolver, raw, result, i, &named, &level);
		add_named(resolver, id, &level);
	}
}

static bool find_function(const void *context, uint64_t address, uint64_t *start, uint64_t *size)
{
	const struct open_place *place = context;
	return frame_index_function(place->module, address, start, size);
}

static int find_debug(const void *context, const struct build_id *id)
{
	const struct open_place *place = context;
	const int fd = symbol_folder_find(place->symbols, id, false);
	return fd >= 0 ? fd : symbol_folder_find(place->symbols, id, true);
}

void resolver_hide_files(struct resolver *resolver)
{
	resolver->place.hidden = true;
}

void resolver_set_symbols(struct resolver *resolver, const struct symbol_folder *symbols)
{
	resolver->place.symbols = symbols;
}

static struct symbolize_module source_of(const struct resolver *resolver,
					 const struct module *module)
{
	struct symbolize_module source = module_to_symbolize(module, resolver->target);
	source.context = &resolver->place;
	source.find_function = find_function;
	if (resolver->place.symbols) {
		source.symbols = symbol_folder_root(resolver->place.symbols);
		source.find_debug = find_debug;
	}
	if (resolver->place.hidden)
		source.build_id.size = 0;
	else if (source.fd < 0 && module == resolver->place.module)
		source.fd = resolver->place.fd;
	return source;
}

void resolver_read_ahead(struct resolver *resolver, const struct module *module)
{
	const struct symbolize_module source = source_of(resolver, module);
	symbolizer_read_ahead(resolver->symbolizer, &source);
	resolver->ahead = module;
}

static void find_file(struct resolver *resolver, const struct module *module)
{
	struct open_place *const place = &resolver->place;
	if (place->fd >= 0)
		close(place->fd);
	place->fd = place->symbols && module->record && module->record->replayed
			    ? symbol_folder_find(place->symbols, &module->build_id, true)
			    : -1;
}

static bool open_module(struct resolver *resolver, struct module *module)
{
	resolver->place.module = module;
	find_file(resolver, module);
	const struct symbolize_module source = source_of(resolver, module);
	struct error error;
	cython_symbols_free(resolver->symbols);
	names_mypyc_free(resolver->mypyc);
	resolver->symbols = NULL;
	resolver->mypyc = NULL;
	resolver->typed = false;
	if (symbolizer_open(resolver->symbolizer, &source, &error))
		return true;
	log_debug("symbolize", "%s: %s", module->path, error.message);
	return false;
}

static bool is_builtin(struct resolver *resolver, const struct raw_frame *raw)
{
	struct recovered_name recovered;
	if (raw->undecided)
		return find_c_function(resolver, raw, &recovered);
	return raw->interpreter && !raw->hidden;
}

static void name_one(struct resolver *resolver, uint32_t id, const struct raw_frame *raw,
		     bool opened)
{
	struct symbolize_result result = {0};
	if (opened && is_builtin(resolver, raw)) {
		name_builtin(resolver, id, raw);
		return;
	}
	if (raw->undecided && !resolver->internals)
		return;
	if (raw->made) {
		name_made(resolver, id, raw);
		return;
	}
	if (opened)
		symbolize_pc(resolver->symbolizer, raw->offset, raw->exact, raw->function, &result);
	else if (raw->module)
		result.has_function = frame_index_function(raw->module, raw->offset - !raw->exact,
							   &result.function_start, NULL);
	name_native(resolver, id, raw, &result);
}

struct order {
	uint64_t offset;
	uint32_t id, module;
};

static int by_module(const void *left, const void *right)
{
	const struct order *a = left, *b = right;
	if (a->module != b->module)
		return a->module < b->module ? -1 : 1;
	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

/* Native frames in the order of their modules, so that each is opened once. */
static void name_natives(struct resolver *resolver, const struct frame_table *table,
			 struct order *order, size_t count)
{
	const struct module *open = NULL;
	bool opened = false;
	qsort(order, count, sizeof(*order), by_module);
	for (size_t i = 0; i < count; i++) {
		const struct raw_frame *raw = &table->frames[order[i].id];
		if (raw->module != open || !raw->module)
			opened = raw->module && open_module(resolver, raw->module);
		open = raw->module;
		name_one(resolver, order[i].id, raw, opened);
	}
}

/* What is read ahead comes late; last what is named by its caller. */
static uint32_t place_of(const struct resolver *resolver, const struct module *module)
{
	if (!module)
		return UINT32_MAX;
	return module == resolver->ahead ? UINT32_MAX - 1 : module->id;
}

void resolver_run(struct resolver *resolver, struct frame_table *table)
{
	/* Frames named by an earlier run keep their names. */
	size_t old = resolver->frame_count;
	resolver->first = alloc_resized(resolver->first, table->count + 1, sizeof(uint32_t));
	resolver->counts = alloc_resized(resolver->counts, table->count + 1, sizeof(uint32_t));
	memset(resolver->counts + old, 0, (table->count - old) * sizeof(uint32_t));
	struct order *order = alloc_zeroed(table->count - old + 1, sizeof(*order));
	size_t natives = 0;
	for (size_t id = old; id < table->count; id++) {
		const struct raw_frame *raw = &table->frames[id];
		if (raw->kind == RAW_PYTHON)
			name_python(resolver, (uint32_t)id, raw);
		else if (raw->kind == RAW_MARK)
			name_mark(resolver, (uint32_t)id, raw);
		else if (raw->kind == RAW_KERNEL)
			name_kernel(resolver, (uint32_t)id, raw);
		else
			order[natives++] = (struct order){raw->offset, (uint32_t)id,
							  place_of(resolver, raw->module)};
	}
	name_natives(resolver, table, order, natives);
	free(order);
	resolver->frame_count = table->count;
}

void resolver_stack(struct resolver *resolver, const struct frame_table *table, const uint32_t *ids,
		    size_t count, struct frame **frames, size_t *frame_count,
		    size_t *frame_capacity)
{
	(void)table;
	const struct named *outer = NULL; /* the last frame given out */
	for (size_t i = 0; i < count; i++) {
		uint32_t id = ids[i];
		for (uint32_t level = resolver->counts[id]; level-- > 0;) {
			const struct named *named = &resolver->named[resolver->first[id] + level];
			if (named->hidden)
				continue;
			if (outer && cython_same_call(&outer->cython, &named->cython))
				--*frame_count;
			*frames = alloc_room(*frames, frame_capacity, *frame_count + 1,
					     sizeof(**frames));
			(*frames)[(*frame_count)++] = named->frame;
			outer = named;
		}
	}
}

/* The stack of a node of the raw tree, outermost first. */
static size_t path_of(const struct profile *raw, uint32_t node, uint32_t **ids, size_t *capacity)
{
	size_t depth = 0;
	for (uint32_t at = node; at != PROFILE_ROOT; at = raw->nodes[at].parent)
		depth++;
	*ids = alloc_room(*ids, capacity, depth + 1, sizeof(**ids));
	size_t i = depth;
	for (uint32_t at = node; at != PROFILE_ROOT; at = raw->nodes[at].parent)
		(*ids)[--i] = raw->nodes[at].frame;
	return depth;
}

void resolver_set_fetch(struct resolver *resolver, const struct symbolize_fetch *fetch)
{
	if (fetch)
		symbolizer_set_fetch(resolver->symbolizer, fetch);
}

const char *resolver_problems(const struct resolver *resolver)
{
	_cleanup_strbuf_ struct strbuf text;
	strbuf_init(&text);
	symbolizer_add_problems(resolver->symbolizer, &text);
	return text.size ? intern_text(resolver->strings, text.text) : NULL;
}

void resolver_profile(struct resolver *resolver, const struct frame_table *table,
		      const struct profile *raw, struct profile *profile)
{
	uint32_t *ids = NULL, *shown = NULL;
	struct frame *frames = NULL;
	/* Which node a stack ends in, by where it did in the raw tree. */
	uint32_t *nodes = raw->timed ? alloc_zeroed(raw->node_count, sizeof(*nodes)) : NULL;
	size_t id_capacity = 0, shown_capacity = 0, frame_capacity = 0;
	for (uint32_t node = 1; node < raw->node_count; node++) {
		if (raw->nodes[node].self == 0)
			continue;
		size_t count = 0;
		size_t depth = path_of(raw, node, &ids, &id_capacity);
		resolver_stack(resolver, table, ids, depth, &frames, &count, &frame_capacity);
		shown = alloc_room(shown, &shown_capacity, count + 1, sizeof(*shown));
		for (size_t i = 0; i < count; i++)
			shown[i] = profile_frame(profile, &frames[i]);
		const uint32_t end = profile_add(profile, shown, count, raw->nodes[node].self);
		if (nodes)
			nodes[node] = end;
	}
	if (nodes) {
		timeline_map(&profile->timeline, &raw->timeline, nodes);
		profile->timed = true;
	}
	free(nodes);
	free(ids);
	free(shown);
	free(frames);
}
