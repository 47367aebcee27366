/* SPDX-License-Identifier: MIT */
/*
 * Finds the interpreter among a target's modules, and what is needed to read it: its version, the
 * layout of that version, the addresses it starts from. A library or executable may be mapped and
 * not be in use (a launcher beside its library, an extension that brought a second libpython): one
 * that runs is preferred to whatever its name is.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "python/locate.h"

/* ---- which version ---- */

static bool choose_layout(struct python_runtime *runtime, const struct python_candidate *candidate,
			  const struct python_version *version, const struct memory_reader *memory,
			  struct error *error)
{
	const struct python_layout *row =
		python_layout_find(version->major, version->minor, version->free_threaded);
	/* Members move until the last beta, "3.12.0b3": rows are of what came after. */
	if (!row || strpbrk(version->text, "ab"))
		return error_set(error, ERROR_UNSUPPORTED, "%sCPython %s is not supported",
				 version->free_threaded ? "free-threaded " : "", version->text);
	runtime->layout = *row;
	python_layout_set_micro(&runtime->layout, version->micro);
	memcpy(runtime->version, version->text, sizeof(version->text));
	if (candidate->places[SYMBOL_UCS2].found)
		runtime->layout.unicode_width = 2;
	else if (candidate->places[SYMBOL_UCS4].found)
		runtime->layout.unicode_width = 4;
	if (candidate->places[SYMBOL_TRACE_REFS].found)
		python_layout_add_header(&runtime->layout, row->trace_refs);
	return !row->debug_offsets ||
	       python_debug_offsets_apply(&runtime->layout, memory,
					  python_candidate_address(candidate, SYMBOL_RUNTIME),
					  version->hex, error);
}

/* ---- is it to be believed ---- */

static bool is_finalizing(const struct python_runtime *runtime, const struct memory_reader *memory)
{
	uint64_t state;
	uint16_t offset = runtime->layout.runtime_finalizing;
	return runtime->address && offset != LAYOUT_ABSENT &&
	       memory_read_u64(memory, runtime->address + offset, &state, NULL) && state != 0;
}

/* The lists may change while they are read. */
static bool has_threads(const struct python_runtime *runtime, const struct memory_reader *memory,
			size_t *count, struct error *error)
{
	enum { TRIES = 4 };
	struct python_thread *threads;
	for (int i = 1; !python_threads(runtime, memory, &threads, count, error); i++)
		if (i == TRIES)
			return false;
	free(threads);
	return true;
}

/* An interpreter that finalizes is read as long as it has threads: it may hang there. */
static bool check_runtime(const struct python_runtime *runtime, const struct memory_reader *memory,
			  struct error *error)
{
	uint64_t head;
	size_t count = 0;
	if (!memory_read_u64(memory, runtime->head, &head, error) ||
	    (head && !has_threads(runtime, memory, &count, error)))
		return false;
	return count > 0 ||
	       error_set(error, ERROR_TORN, "the interpreter in %s %s", runtime->module->name,
			 is_finalizing(runtime, memory) ? "has been finalized"
							: "is not initialised (any more)");
}

static bool try_places(const struct python_candidate *candidate, const struct memory_reader *memory,
		       struct python_runtime *found, struct error *error)
{
	struct python_version version;
	memset(found, 0, sizeof(*found));
	found->module = candidate->module;
	if (!python_version_find(candidate->module, memory, &candidate->places[SYMBOL_VERSION],
				 python_candidate_address(candidate, SYMBOL_RUNTIME), &version))
		return error_set(error, ERROR_TORN,
				 "the interpreter in %s is not initialised: no version yet",
				 candidate->module->name);
	if (!choose_layout(found, candidate, &version, memory, error) ||
	    !python_locate(candidate, memory, found, error))
		return false;
	python_runtime_plan(found);
	return check_runtime(found, memory, error);
}

/* ---- which module ---- */

static bool has_python_name(const struct module *module)
{
	return strncmp(module->name, "libpython", 9) == 0 ||
	       strncmp(module->name, "python", 6) == 0;
}

static bool is_mapped(const struct module_table *table, const struct module *module)
{
	for (size_t i = 0; i < table->mapping_count; i++)
		if (table->mappings[i].module == module)
			return true;
	return false;
}

/* The executable as the loader places it: lowest. */
static struct module *executable_of(const struct module_table *table)
{
	for (size_t i = 0; i < table->mapping_count; i++)
		if (table->mappings[i].module)
			return table->mappings[i].module;
	return NULL;
}

static bool try_module(const struct module_table *table, struct module *module,
		       const struct memory_reader *memory, struct python_runtime *found,
		       struct error *error)
{
	struct python_candidate candidate;
	/* Only what the file says holds for good: memory that is not there may come. */
	module->no_python = !python_candidate_init(&candidate, module);
	if (module->no_python)
		return error_set(error, ERROR_ABSENT, "no CPython interpreter in this process");
	python_candidate_take_over(&candidate, executable_of(table));
	return try_places(&candidate, memory, found, error);
}

/* Only the executable: the dynamic symbols of a library cannot be stripped. */
static bool search_executable(struct module *executable, const struct memory_reader *memory,
			      struct python_runtime *found, struct error *error)
{
	struct python_candidate candidate;
	if (executable && !executable->no_python_text)
		executable->no_python_text = !python_search_is_worth(executable);
	if (executable && !executable->no_python_text)
		return python_candidate_search(&candidate, executable, memory, error) &&
		       try_places(&candidate, memory, found, error);
	return error_set(error, ERROR_ABSENT, "no CPython interpreter in this process");
}

/* What to say when several candidates fail: the reason that says most. */
static int weight(enum error_kind kind)
{
	switch (kind) {
	case ERROR_GONE:
	case ERROR_DENIED:
		return 4;
	case ERROR_TORN:
		return 3;
	case ERROR_UNSUPPORTED:
		return 2;
	case ERROR_ABSENT:
		return 0;
	default:
		return 1;
	}
}

static void keep_weightier(struct error *best, struct error *problem, const struct module *module)
{
	/* A hole where something will be: not that the process has gone. */
	if (problem->kind == ERROR_GONE && problem->os_errno == EFAULT)
		error_set(problem, ERROR_TORN, "the interpreter in %s is not initialised",
			  module->name);
	if (best->kind == ERROR_NONE || weight(problem->kind) > weight(best->kind))
		*best = *problem;
}

/* Libraries and executables named after Python first: a look for symbols costs. */
static bool find_runtime(const struct module_table *table, const struct memory_reader *memory,
			 struct python_runtime *found, struct error *error)
{
	struct module *const executable = executable_of(table);
	bool absent = !executable || executable->no_python;
	struct error best = {0}, problem;
	for (int named = 1; named >= 0; named--)
		for (size_t i = 0; i < table->module_count; i++) {
			struct module *module = table->modules[i];
			if (module->no_python || has_python_name(module) != (named == 1) ||
			    !is_mapped(table, module))
				continue;
			if (try_module(table, module, memory, found, &problem))
				return true;
			absent |= module == executable && problem.kind == ERROR_ABSENT;
			keep_weightier(&best, &problem, module);
		}
	/* Where it is not the library that runs, it may be the executable after all. */
	if (absent && search_executable(executable, memory, found, &problem))
		return true;
	keep_weightier(&best, &problem, executable);
	if (error)
		*error = best;
	return false;
}

bool python_runtime_open(struct module_table *table, const struct memory_reader *memory,
			 struct python_runtime **runtime, struct error *error)
{
	struct python_runtime found;
	if (!find_runtime(table, memory, &found, error))
		return false;
	log_debug("python", "CPython %s in %s, list of interpreters at %#llx", found.version,
		  found.module->name, (unsigned long long)found.head);
	*runtime = alloc_zeroed(1, sizeof(found));
	**runtime = found;
	(*runtime)->last_active = alloc_zeroed(1, sizeof(struct python_active));
	python_locate_code(*runtime);
	python_host_locate(*runtime);
	return true;
}

void python_runtime_free(struct python_runtime *runtime)
{
	if (!runtime)
		return;
	object_index_release(&runtime->last_active->threads);
	free(runtime->api);
	free(runtime->last_active);
	free(runtime);
}

const struct module *python_runtime_module(const struct python_runtime *runtime)
{
	return runtime->module;
}

const char *python_runtime_version(const struct python_runtime *runtime)
{
	return runtime->version;
}

static bool hold(const struct python_ranges *ranges, remote_addr pc)
{
	for (size_t i = 0; i < ranges->count; i++)
		if (pc >= ranges->list[i].start && pc < ranges->list[i].end)
			return true;
	return false;
}

bool python_runtime_knows_eval(const struct python_runtime *runtime)
{
	/* The smallest whole one known has 29,040 bytes (2.7), the largest mere entry of one that
	 * is split or made of tail calls 2,384 (Debian's 3.13). */
	enum { WHOLE = 8192 };
	uint64_t size = 0;
	for (size_t i = 0; i < runtime->eval.count; i++)
		size += runtime->eval.list[i].end - runtime->eval.list[i].start;
	return size >= WHOLE;
}

bool python_runtime_evaluates(const struct python_runtime *runtime, remote_addr pc)
{
	return hold(&runtime->eval, pc);
}

bool python_runtime_locks_imports(const struct python_runtime *runtime, remote_addr pc)
{
	return hold(&runtime->import_lock, pc);
}

bool python_runtime_passes_gil(const struct python_runtime *runtime, remote_addr pc)
{
	return hold(&runtime->gil, pc);
}

bool python_runtime_knows_collector(const struct python_runtime *runtime)
{
	return runtime->collector.count > 0;
}

bool python_runtime_collects(const struct python_runtime *runtime, remote_addr pc)
{
	return hold(&runtime->collector, pc);
}
