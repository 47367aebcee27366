/* SPDX-License-Identifier: MIT */
/*
 * Names for sampled frames: each distinct code address once, module by module (libdw keeps much
 * memory for an open one), inlined levels as frames of their own, Cython names and lines as
 * their author wrote them.
 */
#include "sample/internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/utf8.h"
#include "cython/cython.h"
#include "sample/short_file.h"
#include "symbolize/symbolize.h"

struct named {
	struct frame frame;
	struct cython_name cython; /* kind CYTHON_NOT: another frame; numba's have base and layer */
	bool hidden;
};

struct resolver {
	const struct target *target;
	struct interner *strings;
	bool internals;
	struct symbolizer *symbolizer;
	struct cython_sources *sources;
	struct cython_symbols *symbols; /* of the open module, once a Cython name was met in it */
	bool typed;			/* with the types of fused functions */
	const struct module *ahead;	/* whose functions are being read meanwhile */
	struct table short_files;	/* interned path -> index in short_texts */
	const char **short_texts;
	size_t short_count, short_capacity;
	struct named *named; /* of frame i: named[first[i]] .. + counts[i], innermost first */
	size_t named_count, named_capacity;
	uint32_t *first, *counts;
	size_t frame_count;
};

static int open_source(void *context, const char *path)
{
	const struct resolver *resolver = context;
	if (resolver->target)
		return target_open_file(resolver->target, path, NULL);
	return open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

struct resolver *resolver_new(const struct target *target, struct interner *strings, bool internals)
{
	struct resolver *resolver = alloc_zeroed(1, sizeof(*resolver));
	resolver->target = target;
	resolver->strings = strings;
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
	cython_sources_free(resolver->sources);
	cython_symbols_free(resolver->symbols);
	table_release(&resolver->short_files);
	free(resolver->short_texts);
	free(resolver->named);
	free(resolver->first);
	free(resolver->counts);
	free(resolver);
}

/* Looked up in the target's file system once a path. */
static const char *shorten(struct resolver *resolver, const char *path)
{
	uint32_t index;
	if (table_find(&resolver->short_files, (uint64_t)(uintptr_t)path, 0, &index))
		return resolver->short_texts[index];
	resolver->short_texts =
		alloc_room(resolver->short_texts, &resolver->short_capacity,
			   resolver->short_count + 1, sizeof(*resolver->short_texts));
	index = (uint32_t)resolver->short_count++;
	resolver->short_texts[index] =
		intern_text(resolver->strings, short_file(resolver->target, path));
	table_put(&resolver->short_files, (uint64_t)(uintptr_t)path, 0, index);
	return resolver->short_texts[index];
}

static const char *clean(struct resolver *resolver, const char *text)
{
	_cleanup_strbuf_ struct strbuf buffer;
	strbuf_init(&buffer);
	utf8_add_clean(&buffer, text, strlen(text));
	return intern_text(resolver->strings, buffer.text);
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
					      : short_file_is_library(code->file)
						      ? FRAME_PYTHON_LIBRARY
						      : FRAME_PYTHON,
				      .name = code->name,
				      .file = code->file,
				      .short_file = shorten(resolver, code->file),
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
	bool thread = strncmp(raw->shown, "thread ", 7) == 0;
	struct named named = {
		.frame = {.kind = thread ? FRAME_THREAD : FRAME_INTERPRETER, .name = raw->shown}};
	add_named(resolver, id, &named);
}

static void name_kernel(struct resolver *resolver, uint32_t id, const struct raw_frame *raw)
{
	struct named named = {.frame = {.kind = FRAME_KERNEL,
					.name = clean(resolver, raw->shown),
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
	frame.module = clean(resolver, raw->module->name);
	frame.module_path = clean(resolver, raw->module->path);
	frame.build_id = hex[0] ? intern_text(resolver->strings, hex) : NULL;
	return frame;
}

static void add_symbol(void *context, const char *name)
{
	cython_symbols_add(context, name);
}

/* One name alone can be read in several ways; the names beside it decide. */
static const struct cython_symbols *cython_names(struct resolver *resolver)
{
	if (!resolver->symbols) {
		resolver->symbols = cython_symbols_new();
		symbolizer_each_symbol(resolver->symbolizer, add_symbol, resolver->symbols);
	}
	return resolver->symbols;
}

static void add_variable(void *context, const char *function, const char *variable,
			 const char *type)
{
	cython_symbols_add_variable(context, function, variable, type);
}

/* The name among those of its module; with the types of fused functions, once there is one. */
static struct cython_name cython_name_of(struct resolver *resolver, const char *linkage,
					 const char *module)
{
	struct cython_name name =
		cython_demangle_in(resolver->strings, cython_names(resolver), linkage, module);
	if (resolver->typed || !name.fused)
		return name;
	resolver->typed = true;
	cython_symbols_show_types(resolver->symbols);
	symbolizer_each_variable(resolver->symbolizer, "__pyx_", add_variable, resolver->symbols);
	return cython_demangle_in(resolver->strings, resolver->symbols, linkage, module);
}

static void set_cython_line(struct resolver *resolver, const struct cython_line *line,
			    bool estimated, struct named *named)
{
	named->frame.file = clean(resolver, line->path ? line->path : line->file);
	named->frame.short_file = shorten(resolver, named->frame.file);
	named->frame.line = line->line;
	named->frame.estimated = estimated;
}

/* Makes a Cython frame of a native one; false: it is none. `alone`: nothing is inlined there. */
static bool name_cython(struct resolver *resolver, const struct raw_frame *raw,
			const struct symbolize_frame *symbol, bool alone, struct named *named)
{
	const char *linkage = symbol->linkage ? symbol->linkage : symbol->name;
	if (!linkage || !raw->module)
		return false;
	const char *module = cython_module_of_path(resolver->strings, raw->module->path);
	struct cython_name name = cython_demangle(resolver->strings, linkage, module);
	if (name.kind == CYTHON_NOT)
		return false;
	name = cython_name_of(resolver, linkage, module);
	if (name.kind == CYTHON_HELPER) {
		named->hidden = !resolver->internals;
		return true;
	}
	named->cython = name;
	named->frame.name = name.name;
	if (named->frame.kind == FRAME_NATIVE)
		named->frame.kind = FRAME_CYTHON;
	named->frame.file = named->frame.short_file = NULL;
	named->frame.line = 0;
	struct cython_place place = {
		.symbol = linkage,
		.c_file = symbol->file,
		.directory = symbol->directory,
		.extension = raw->module->path,
		.c_line = symbol->line,
		.declared = symbol->declared,
	};
	struct cython_line line;
	if (cython_map_line(resolver->sources, &name, &place, &line))
		set_cython_line(resolver, &line, false, named);
	else if (alone && !raw->exact &&
		 symbolize_estimated_line(resolver->symbolizer, raw->offset, &place.c_file,
					  &place.c_line) &&
		 cython_map_line(resolver->sources, &name, &place, &line))
		set_cython_line(resolver, &line, true, named);
	return true;
}

/* What tells the functions of one module from those of others. */
static const char *text_in(struct resolver *resolver, const char *text, size_t size,
			   const struct raw_frame *raw)
{
	_cleanup_strbuf_ struct strbuf buffer;
	strbuf_init(&buffer);
	strbuf_printf(&buffer, "%.*s in %s", (int)size, text, raw->module->path);
	return intern_text(resolver->strings, buffer.text);
}

/* The same for a name that the module's tables state. */
static void name_stated(struct resolver *resolver, const struct raw_frame *raw,
			const struct symbolize_stated *stated, struct named *named)
{
	named->frame.uncertain = stated->uncertain;
	named->frame.estimated = named->frame.line > 0;
	if (named->frame.file)
		named->frame.short_file = shorten(resolver, named->frame.file);
	if (!stated->cython)
		return;
	if (named->frame.kind == FRAME_NATIVE)
		named->frame.kind = FRAME_CYTHON;
	named->hidden = stated->helper && !resolver->internals;
	if (stated->uncertain)
		return;
	const char *leaf = strrchr(stated->name, '.');
	const bool special = leaf && (stated->slot || strncmp(leaf, ".__", 3) == 0);
	named->cython = (struct cython_name){
		.kind = CYTHON_FUNCTION,
		.name = stated->name,
		.base = text_in(resolver, stated->name, strlen(stated->name), raw),
		.owner = special ? text_in(resolver, stated->name, (size_t)(leaf - stated->name),
					   raw)
				 : NULL,
		.layer = stated->layer,
		.slot = stated->slot,
	};
}

/* Makes a frame of a Python function of one that numba has compiled. The wrapper that it is called
 * through goes the way of Cython's. */
static void name_numba(struct resolver *resolver, const struct raw_frame *raw,
		       const struct symbolize_frame *symbol, struct named *named)
{
	struct symbolize_numba numba;
	if (!raw->module || raw->module->origin != MODULE_OF_JIT || !symbol->linkage ||
	    !symbolize_numba(resolver->strings, symbol->linkage, symbol->file, &numba))
		return;
	named->frame.name = numba.name;
	named->cython = (struct cython_name){.kind = CYTHON_FUNCTION,
					     .name = numba.name,
					     .base = numba.function,
					     .layer = !numba.wrapper};
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
			    struct symbolize_stated *stated)
{
	return symbolize_stated_name(resolver->symbolizer, raw->offset - !raw->exact, stated) &&
	       c_function_is_shown(stated);
}

/* The name that a program has for it; NULL: none. */
static const char *c_function_at(struct resolver *resolver, const struct raw_frame *raw,
				 struct symbolize_stated *stated)
{
	_cleanup_strbuf_ struct strbuf name;
	strbuf_init(&name);
	if (!find_c_function(resolver, raw, stated))
		return NULL;
	c_function_name(stated, &name);
	return intern_text(resolver->strings, name.text);
}

/* A module of the standard library has the same names in a file of its own as in the interpreter.
 */
static void name_library_function(struct resolver *resolver, const struct raw_frame *raw,
				  struct named *outermost)
{
	struct symbolize_stated stated;
	const char *name = raw->module && strstr(raw->module->path, "/lib-dynload/")
				   ? c_function_at(resolver, raw, &stated)
				   : NULL;
	if (name)
		outermost->frame.name = name;
}

/* One box a function: where it stands in the interpreter's source is of no use to most, and takes
 * long to find out. */
static void name_builtin(struct resolver *resolver, uint32_t id, const struct raw_frame *raw)
{
	struct symbolize_stated stated;
	struct named named = {.frame = native_frame(resolver, raw)};
	named.frame.name = c_function_at(resolver, raw, &stated);
	if (named.frame.name) {
		named.frame.has_function = true;
		named.frame.function_offset = stated.start;
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

static void name_native(struct resolver *resolver, uint32_t id, const struct raw_frame *raw,
			const struct symbolize_result *result)
{
	struct named named = {.frame = native_frame(resolver, raw)};
	named.frame.has_function = result->has_function;
	named.frame.function_offset =
		result->function_start - (raw->module ? raw->module->base : 0);
	/* Where it lies in its own module would say nothing: each image of made code is one. */
	if (result->count == 0 && raw->module && raw->module->origin != MODULE_OF_FILE)
		named.frame.name = intern_text(resolver->strings, "[unknown]");
	if (result->count == 0)
		add_named(resolver, id, &named);
	for (size_t i = 0; i < result->count; i++) {
		const struct symbolize_frame *symbol = &result->frames[i];
		struct named level = named;
		level.hidden = !resolver->internals && is_header_code(symbol);
		level.frame.name = symbol->name;
		level.frame.inlined = symbol->inlined;
		level.frame.line = symbol->line > 0 ? symbol->line : 0;
		if (symbol->file) {
			level.frame.file = clean(resolver, symbol->file);
			level.frame.short_file = last_component(level.frame.file);
		}
		if (symbol->stated)
			name_stated(resolver, raw, symbol->stated, &level);
		else if (!name_cython(resolver, raw, symbol, result->count == 1, &level))
			name_numba(resolver, raw, symbol, &level);
		if (i == result->count - 1)
			name_library_function(resolver, raw, &level);
		if (level.cython.kind != CYTHON_NOT && is_split_head(result, i))
			level.hidden = !resolver->internals;
		add_named(resolver, id, &level);
	}
}

struct symbolize_module module_to_symbolize(const struct module *module, int root)
{
	return (struct symbolize_module){
		.path = module->path,
		.fd = module->fd,
		.bytes = module->bytes,
		.bytes_size = module->bytes_size,
		.build_id = module->build_id,
		.root_fd = root,
	};
}

static struct symbolize_module source_of(const struct resolver *resolver,
					 const struct module *module)
{
	return module_to_symbolize(module, resolver->target ? target_root(resolver->target) : -1);
}

void resolver_read_ahead(struct resolver *resolver, const struct module *module)
{
	const struct symbolize_module source = source_of(resolver, module);
	symbolizer_read_ahead(resolver->symbolizer, &source);
	resolver->ahead = module;
}

static bool open_module(struct resolver *resolver, const struct module *module)
{
	const struct symbolize_module source = source_of(resolver, module);
	struct error error;
	cython_symbols_free(resolver->symbols);
	resolver->symbols = NULL;
	resolver->typed = false;
	if (symbolizer_open(resolver->symbolizer, &source, &error))
		return true;
	log_debug("symbolize", "%s: %s", module->path, error.message);
	return false;
}

static bool is_builtin(struct resolver *resolver, const struct raw_frame *raw)
{
	struct symbolize_stated stated;
	if (raw->undecided)
		return find_c_function(resolver, raw, &stated);
	return raw->interpreter && !raw->hidden;
}

static void name_one(struct resolver *resolver, uint32_t id, const struct raw_frame *raw,
		     bool opened, struct unwinder *unwinder)
{
	struct symbolize_result result = {0};
	if (opened && is_builtin(resolver, raw)) {
		name_builtin(resolver, id, raw);
		return;
	}
	if (raw->undecided && !resolver->internals)
		return;
	if (opened)
		symbolize_pc(resolver->symbolizer, raw->offset, raw->exact, &result);
	else if (raw->module)
		result.has_function =
			unwind_function_start(unwinder, raw->module, raw->offset - !raw->exact,
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
			 struct order *order, size_t count, struct unwinder *unwinder)
{
	const struct module *open = NULL;
	bool opened = false;
	qsort(order, count, sizeof(*order), by_module);
	for (size_t i = 0; i < count; i++) {
		const struct raw_frame *raw = &table->frames[order[i].id];
		if (raw->module != open || !raw->module)
			opened = raw->module && open_module(resolver, raw->module);
		open = raw->module;
		name_one(resolver, order[i].id, raw, opened, unwinder);
	}
}

/* What is read ahead comes last. */
static uint32_t place_of(const struct resolver *resolver, const struct module *module)
{
	if (!module)
		return 0;
	return module == resolver->ahead ? UINT32_MAX : module->id + 1;
}

void resolver_run(struct resolver *resolver, struct frame_table *table, struct unwinder *unwinder)
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
	name_natives(resolver, table, order, natives, unwinder);
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
		profile_add(profile, shown, count, raw->nodes[node].self);
	}
	free(ids);
	free(shown);
	free(frames);
}
