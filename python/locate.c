/* SPDX-License-Identifier: MIT */
/*
 * Where an interpreter keeps what a reader starts from: the list of interpreters, the holder of the
 * GIL, whether the collector runs, the type of code objects, the code of the eval function.
 * Relies on symbols, and where those are stripped on what exported functions do.
 */
#include <elf.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "python/locate.h"

static const char *const symbol_names[SYMBOL_COUNT] = {
	[SYMBOL_RUNTIME] = "_PyRuntime",
	[SYMBOL_CODE_TYPE] = "PyCode_Type",
	[SYMBOL_CURRENT] = "_PyThreadState_Current",
	[SYMBOL_VERSION] = "Py_Version",
	[SYMBOL_HEAD_FUNCTION] = "PyInterpreterState_Head",
	[SYMBOL_CURRENT_FUNCTION] = "_PyThreadState_UncheckedGet",
	[SYMBOL_HEAD] = "interp_head",
	[SYMBOL_COLLECTING] = "collecting",
	[SYMBOL_UCS4] = "PyUnicodeUCS4_AsUTF8String",
	[SYMBOL_UCS2] = "PyUnicodeUCS2_AsUTF8String",
	[SYMBOL_TRACE_REFS] = "_Py_PrintReferences",
};

/* CPython 3.10+ keeps _PyRuntime at the start of a section of its own; stripped files too. */
bool python_candidate_init(struct python_candidate *candidate, const struct module *module)
{
	const struct module_section *section = module_section(module, ".PyRuntime");
	struct module_place *places = candidate->places;
	memset(candidate, 0, sizeof(*candidate));
	candidate->module = module;
	module_find_symbols(module, symbol_names, SYMBOL_COUNT, places);
	if (!places[SYMBOL_RUNTIME].found && section)
		places[SYMBOL_RUNTIME] =
			(struct module_place){section->vaddr, section->size, true, 0};
	return places[SYMBOL_RUNTIME].found || places[SYMBOL_CURRENT].found;
}

void python_candidate_take_over(struct python_candidate *candidate, const struct module *executable)
{
	struct module_place *places = candidate->data_places;
	if (!executable || executable == candidate->module)
		return;
	module_find_exported(executable, symbol_names, SYMBOL_COUNT, places);
	/* One with an interpreter of its own has all of it for itself. */
	if (!places[SYMBOL_HEAD_FUNCTION].found)
		candidate->data_module = executable;
}

remote_addr python_candidate_address(const struct python_candidate *candidate,
				     enum python_symbol symbol)
{
	if (candidate->data_module && candidate->data_places[symbol].found)
		return candidate->data_module->load_bias + candidate->data_places[symbol].vaddr;
	if (candidate->places[symbol].found)
		return candidate->module->load_bias + candidate->places[symbol].vaddr;
	return 0;
}

/* ---- what a function returns ---- */

remote_addr python_returned_variable(const struct module *module, uint64_t function,
				     const struct memory_reader *memory, struct error *error)
{
	struct elf_returned returned;
	uint64_t base;
	if (!module_returned_variable(module, function, &returned))
		return 0;
	if (!returned.is_member)
		return module->load_bias + returned.variable;
	if (!memory_read_u64(memory, module->load_bias + returned.variable, &base, error))
		return 0;
	return base ? base + (uint64_t)returned.offset : 0;
}

static remote_addr returned_by(const struct python_candidate *candidate, enum python_symbol symbol,
			       const struct memory_reader *memory, struct error *error)
{
	const struct module_place *function = &candidate->places[symbol];
	if (!function->found)
		return 0;
	return python_returned_variable(candidate->module, function->vaddr, memory, error);
}

/* ---- variables ---- */

static bool locate_variables(const struct python_candidate *candidate,
			     const struct memory_reader *memory, struct python_runtime *runtime,
			     struct error *error)
{
	const struct module_place *head = &candidate->places[SYMBOL_HEAD];
	const struct module_place *collecting = &candidate->places[SYMBOL_COLLECTING];
	/* Static variables: stripped files have no symbols of them. */
	if (collecting->found && collecting->size == sizeof(int))
		runtime->collecting = candidate->module->load_bias + collecting->vaddr;
	runtime->head = returned_by(candidate, SYMBOL_HEAD_FUNCTION, memory, error);
	if (!runtime->head && head->found && head->size == 8)
		runtime->head = candidate->module->load_bias + head->vaddr;
	runtime->current = returned_by(candidate, SYMBOL_CURRENT_FUNCTION, memory, error);
	if (!runtime->current)
		runtime->current = python_candidate_address(candidate, SYMBOL_CURRENT);
	/* Without symbols nobody knows who holds the GIL. */
	return runtime->head ||
	       error_set(error, ERROR_ABSENT, "cannot find the list of interpreters in %s",
			 candidate->module->path);
}

/* ---- members of _PyRuntime ---- */

/* The member that a function returns, else where the row has it: within 3.7 there are two. */
static remote_addr member(const struct python_candidate *candidate, enum python_symbol function,
			  const struct memory_reader *memory, remote_addr runtime, uint16_t offset,
			  struct error *error)
{
	remote_addr returned = returned_by(candidate, function, memory, error);
	if (returned > runtime && returned - runtime < candidate->places[SYMBOL_RUNTIME].size)
		return returned;
	return runtime + offset;
}

static bool locate_runtime(const struct python_candidate *candidate,
			   const struct memory_reader *memory, struct python_runtime *runtime,
			   struct error *error)
{
	const struct python_layout *layout = &runtime->layout;
	remote_addr address = python_candidate_address(candidate, SYMBOL_RUNTIME);
	if (!address)
		return error_set(error, ERROR_ABSENT, "%s has no symbol _PyRuntime",
				 candidate->module->path);
	runtime->address = address;
	runtime->head = member(candidate, SYMBOL_HEAD_FUNCTION, memory, address,
			       layout->runtime_interpreters_head, error);
	if (layout->runtime_tstate_current != LAYOUT_ABSENT)
		runtime->current = member(candidate, SYMBOL_CURRENT_FUNCTION, memory, address,
					  layout->runtime_tstate_current, error);
	if (layout->gc_place == GC_IN_RUNTIME)
		runtime->collecting = address + layout->runtime_gc_collecting;
	return true;
}

/* ---- the type of code objects ---- */

/* A type that the interpreter has made ready. */
static bool is_ready(const struct python_runtime *runtime, const struct memory_reader *memory,
		     remote_addr type)
{
	enum { TPFLAGS_READY = 1 << 12 }; /* Include/object.h, the same in all versions */
	uint64_t flags;
	return type && memory_read_u64(memory, type + runtime->layout.type_flags, &flags, NULL) &&
	       (flags & TPFLAGS_READY);
}

static bool is_named_code(const struct python_layout *layout, const struct memory_reader *memory,
			  remote_addr type)
{
	char text[5];
	uint64_t name; /* tp_name is the first member behind the object's header */
	return memory_read_u64(memory, type + layout->object_var_size + 8, &name, NULL) &&
	       memory_read(memory, name, text, sizeof(text), NULL) &&
	       memcmp(text, "code", sizeof(text)) == 0;
}

/*
 * In one segment's memory, the static type called "code": an object whose type is an object of
 * that same segment that is its own type.
 */
static remote_addr scan_for_type(const struct python_runtime *runtime,
				 const struct memory_reader *memory, remote_addr start,
				 const uint8_t *bytes, size_t size)
{
	const struct python_layout *layout = &runtime->layout;
	for (size_t at = 0; at + layout->type_flags + 8 <= size; at += 8) {
		uint64_t type = field_u64(bytes + at, layout->object_type);
		uint64_t place = type - start;
		if (place % 8 != 0 || size < layout->type_flags ||
		    place > size - layout->type_flags ||
		    field_u64(bytes + place, layout->object_type) != type)
			continue;
		if (is_named_code(layout, memory, start + at) &&
		    is_ready(runtime, memory, start + at))
			return start + at;
	}
	return 0;
}

/* For executables that have an interpreter inside and no symbols. */
static remote_addr search_code_type(const struct python_runtime *runtime,
				    const struct memory_reader *memory)
{
	enum { LIMIT = 64 << 20 };
	const struct module *module = runtime->module;
	remote_addr found = 0;
	for (size_t i = 0; i < module->segment_count && !found; i++) {
		const struct module_segment *segment = &module->segments[i];
		/* Static types have values: they are in the file. */
		if (!(segment->flags & PF_W) || segment->file_size > LIMIT)
			continue;
		remote_addr start = module->load_bias + segment->vaddr;
		_cleanup_free_ uint8_t *bytes = alloc_zeroed(1, segment->file_size + 8);
		if (start % 8 == 0 && memory_read(memory, start, bytes, segment->file_size, NULL))
			found = scan_for_type(runtime, memory, start, bytes, segment->file_size);
	}
	return found;
}

/* A program that refers to PyCode_Type may have taken the variable over (a copy relocation): then
 * the library's own is not in use. */
static bool locate_code_type(const struct python_candidate *candidate,
			     const struct memory_reader *memory, struct python_runtime *runtime,
			     struct error *error)
{
	struct python_candidate own = *candidate;
	own.data_module = NULL;
	remote_addr types[] = {python_candidate_address(&own, SYMBOL_CODE_TYPE),
			       python_candidate_address(candidate, SYMBOL_CODE_TYPE)};
	for (size_t i = 0; i < 2 && !runtime->code_type; i++)
		if (is_ready(runtime, memory, types[i]))
			runtime->code_type = types[i];
	if (!types[0] && !types[1])
		runtime->code_type = search_code_type(runtime, memory);
	return runtime->code_type ||
	       error_set(error, ERROR_TORN, "the interpreter in %s is not initialised (any more)",
			 candidate->module->name);
}

/* ---- the eval function and the collector ---- */

void python_locate_code(struct python_runtime *runtime)
{
	enum { OLD_EVAL = 1, OF_EVAL = 2, OF_IMPORTS = 3, OF_COLLECTOR = 10, PARTS = 64 };
	static const char *const names[] = {"_PyEval_EvalFrameDefault",
					    "PyEval_EvalFrameEx",
					    "_PyImport_AcquireLock",
					    "gc_collect_main",
					    "gc_collect_generations",
					    "gc_collect_with_callback",
					    "gc_collect_young",
					    "gc_collect_increment",
					    "collect",
					    "_PyGC_CollectNoFail",
					    "take_gil",
					    "drop_gil",
					    "drop_gil_impl",
					    "PyEval_RestoreThread",
					    "PyEval_SaveThread",
					    "PyEval_AcquireThread",
					    "PyEval_ReleaseThread",
					    "_PyThreadState_Attach",
					    "_PyThreadState_Detach",
					    "_PyEval_AcquireLock",
					    "_PyEval_ReleaseLock"};
	const struct module *module = runtime->module;
	struct module_place parts[PARTS];
	size_t count =
		module_find_parts(module, names, sizeof(names) / sizeof(*names), parts, PARTS);
	bool has_default = false;
	runtime->eval.count = runtime->import_lock.count = runtime->collector.count = 0;
	runtime->gil.count = 0;
	for (size_t i = 0; i < count; i++)
		has_default |= parts[i].name == 0;
	for (size_t i = 0; i < count; i++) {
		struct python_ranges *ranges = parts[i].name < OF_EVAL	    ? &runtime->eval
					       : parts[i].name < OF_IMPORTS ? &runtime->import_lock
					       : parts[i].name < OF_COLLECTOR ? &runtime->collector
									      : &runtime->gil;
		remote_addr start = module->load_bias + parts[i].vaddr;
		if (has_default && parts[i].name == OLD_EVAL)
			continue; /* a mere wrapper since 3.6 */
		if (module_contains(module, PF_X, parts[i].vaddr, parts[i].size) &&
		    ranges->count < CODE_RANGES)
			ranges->list[ranges->count++] =
				(struct python_range){start, start + parts[i].size};
	}
	log_debug("python", "the eval function has %zu parts", runtime->eval.count);
}

bool python_locate(const struct python_candidate *candidate, const struct memory_reader *memory,
		   struct python_runtime *runtime, struct error *error)
{
	const struct python_layout *layout = &runtime->layout;
	struct error problem = {0};
	bool found = layout->root == ROOT_VARIABLES
			     ? locate_variables(candidate, memory, runtime, &problem)
			     : locate_runtime(candidate, memory, runtime, &problem);
	/* What is taken in place of what could not be read would stay. */
	if (!found || (problem.kind != ERROR_NONE && problem.kind != ERROR_ABSENT)) {
		*error = problem;
		return false;
	}
	return locate_code_type(candidate, memory, runtime, error);
}
