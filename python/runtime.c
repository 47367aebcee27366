/* SPDX-License-Identifier: MIT */
/*
 * Finds the interpreter among a target's modules, and what is needed to read it: the address of
 * _PyRuntime, the version, the layout. Never takes a version for another: wrong offsets give
 * plausible nonsense.
 */
#include <ctype.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "python/internal.h"

enum { SCAN_LIMIT = 64 << 20, SCAN_PIECE = 256 << 10, VERSION_TEXT = 32 };

struct version {
	unsigned major, minor, micro;
	uint32_t hex; /* 0: not known */
	char text[VERSION_TEXT];
};

/* ---- which module ---- */

static bool has_python_name(const struct module *module)
{
	return strncmp(module->name, "libpython", 9) == 0 ||
	       strncmp(module->name, "python", 6) == 0;
}

/* The symbols that are needed of an interpreter. */
enum { SYMBOL_RUNTIME, SYMBOL_CODE_TYPE, SYMBOL_VERSION, SYMBOL_COUNT };

/* CPython 3.10+ keeps _PyRuntime at the start of a section of its own; stripped files too. */
static bool find_runtime(const struct module *module, struct module_place places[SYMBOL_COUNT])
{
	static const char *const names[SYMBOL_COUNT] = {"_PyRuntime", "PyCode_Type", "Py_Version"};
	const struct module_section *section = module_section(module, ".PyRuntime");
	module_find_symbols(module, names, SYMBOL_COUNT, places);
	if (!places[SYMBOL_RUNTIME].found && section)
		places[SYMBOL_RUNTIME] = (struct module_place){section->vaddr, section->size, true};
	return places[SYMBOL_RUNTIME].found;
}

static bool is_mapped(const struct module_table *table, const struct module *module)
{
	for (size_t i = 0; i < table->mapping_count; i++)
		if (table->mappings[i].module == module)
			return true;
	return false;
}

/* Libraries and executables named after Python first: a look for a symbol costs. */
static const struct module *find_module(const struct module_table *table,
					struct module_place places[SYMBOL_COUNT])
{
	for (int named = 1; named >= 0; named--)
		for (size_t i = 0; i < table->module_count; i++) {
			const struct module *module = table->modules[i];
			if (has_python_name(module) == (named == 1) && is_mapped(table, module) &&
			    find_runtime(module, places))
				return module;
		}
	return NULL;
}

/* CPython before 3.7 has no _PyRuntime: known only to be refused by name. */
static const struct module *find_old_module(const struct module_table *table)
{
	for (size_t i = 0; i < table->module_count; i++) {
		const struct module *module = table->modules[i];
		if (has_python_name(module) && is_mapped(table, module) &&
		    module_symbol(module, "_PyThreadState_Current", &(uint64_t){0}, NULL, NULL))
			return module;
	}
	return NULL;
}

/* ---- which version ---- */

static void version_from_hex(struct version *version, uint32_t hex)
{
	/* Include/patchlevel.h: 0x030b07f0 is 3.11.7 final. */
	static const struct {
		unsigned level;
		const char *mark;
	} levels[] = {{0xa, "a"}, {0xb, "b"}, {0xc, "rc"}};
	const char *mark = "";
	version->hex = hex;
	version->major = hex >> 24;
	version->minor = hex >> 16 & 0xff;
	version->micro = hex >> 8 & 0xff;
	for (size_t i = 0; i < sizeof(levels) / sizeof(*levels); i++)
		if ((hex >> 4 & 0xf) == levels[i].level)
			mark = levels[i].mark;
	snprintf(version->text, sizeof(version->text), "%u.%u.%u%s", version->major, version->minor,
		 version->micro, mark);
	if (*mark)
		snprintf(version->text + strlen(version->text), 4, "%u", hex & 0xf);
}

/* "libpython3.10.so.1.0", "python3.10": the numbers behind "python". */
static bool version_from_name(const char *name, struct version *version)
{
	const char *digits = strstr(name, "python");
	unsigned major, minor;
	if (!digits || sscanf(digits + 6, "%2u.%3u", &major, &minor) != 2)
		return false;
	version->major = major;
	version->minor = minor;
	snprintf(version->text, sizeof(version->text), "%u.%u", major, minor);
	return true;
}

static size_t digits_at(const char *text, size_t size, unsigned *value)
{
	size_t i = 0;
	for (*value = 0; i < size && i < 3 && isdigit((unsigned char)text[i]); i++)
		*value = *value * 10 + (unsigned)(text[i] - '0');
	return i;
}

/*
 * Py_GetVersion's text, "3.10.13 (main, Jan  1 2026, 00:00:00) [GCC 12.2.0]": digits, a mark of a
 * pre-release or a '+', and " (".
 */
static bool parse_version_text(const char *text, size_t size, struct version *version)
{
	size_t at = digits_at(text, size, &version->major), used = at;
	if (!used || at >= size || text[at] != '.')
		return false;
	used = digits_at(text + at + 1, size - at - 1, &version->minor);
	at += 1 + used;
	if (!used || at >= size || text[at] != '.')
		return false;
	used = digits_at(text + at + 1, size - at - 1, &version->micro);
	at += 1 + used;
	while (used && at < size && strchr("+abrc0123456789", text[at]) && text[at])
		at++;
	if (!used || at + 2 > size || at >= VERSION_TEXT || memcmp(text + at, " (", 2) != 0)
		return false;
	memcpy(version->text, text, at);
	version->text[at] = '\0';
	if (version->text[at - 1] == '+')
		version->text[at - 1] = '\0';
	return true;
}

static bool scan_piece(const char *bytes, size_t size, struct version *version)
{
	for (size_t i = 0; i + 8 < size; i++) {
		struct version found = {0};
		if ((bytes[i] == '2' || bytes[i] == '3') && bytes[i + 1] == '.' &&
		    (i == 0 || bytes[i - 1] == '\0') &&
		    parse_version_text(bytes + i, size - i, &found)) {
			*version = found;
			return true;
		}
	}
	return false;
}

/* Looks for Py_GetVersion's buffer in the module's writable memory. */
static bool version_from_memory(const struct module *module, const struct memory_reader *memory,
				struct version *version)
{
	_cleanup_free_ char *bytes = alloc_zeroed(SCAN_PIECE + VERSION_TEXT, 1);
	for (size_t i = 0; i < module->segment_count; i++) {
		const struct module_segment *segment = &module->segments[i];
		if (!(segment->flags & PF_W) || segment->memory_size > SCAN_LIMIT)
			continue;
		for (uint64_t at = 0; at < segment->memory_size; at += SCAN_PIECE) {
			uint64_t left = segment->memory_size - at;
			size_t size =
				left < SCAN_PIECE + VERSION_TEXT ? left : SCAN_PIECE + VERSION_TEXT;
			if (memory_read(memory, module->load_bias + segment->vaddr + at, bytes,
					size, NULL) &&
			    scan_piece(bytes, size, version))
				return true;
		}
	}
	return false;
}

static bool find_version(const struct module *module, const struct memory_reader *memory,
			 const struct module_place places[SYMBOL_COUNT], struct version *version,
			 struct error *error)
{
	const struct module_place *place = &places[SYMBOL_VERSION];
	const remote_addr runtime = module->load_bias + places[SYMBOL_RUNTIME].vaddr;
	uint64_t words[2];
	uint32_t hex;
	if (place->found && module_read(module, place->vaddr, &hex, sizeof(hex), NULL)) {
		version_from_hex(version, hex);
		return true;
	}
	if (memory_read(memory, runtime, words, sizeof(words), NULL) &&
	    memcmp(words, "xdebugpy", 8) == 0) {
		version_from_hex(version, (uint32_t)words[1]);
		return true;
	}
	if (version_from_memory(module, memory, version))
		return true;
	return version_from_name(module->name, version) ||
	       error_set(error, ERROR_UNSUPPORTED, "cannot tell the version of the interpreter %s",
			 module->name);
}

static bool choose_layout(struct python_runtime *runtime, const struct version *version,
			  const struct memory_reader *memory, struct error *error)
{
	const struct python_layout *row = python_layout_find(version->major, version->minor, false);
	if (!row)
		return error_set(error, ERROR_UNSUPPORTED, "CPython %s is not supported yet",
				 version->text);
	runtime->layout = *row;
	memcpy(runtime->version, version->text, sizeof(version->text));
	return !row->debug_offsets ||
	       python_debug_offsets_apply(&runtime->layout, memory, runtime->address, version->hex,
					  error);
}

/* ---- is it to be believed ---- */

static bool check_runtime(const struct python_runtime *runtime, const struct memory_reader *memory,
			  struct error *error)
{
	const struct python_layout *layout = &runtime->layout;
	struct python_thread *threads;
	size_t count;
	uint64_t finalizing, head;
	if (!memory_read_u64(memory, runtime->address + layout->runtime_finalizing, &finalizing,
			     error) ||
	    !memory_read_u64(memory, runtime->head, &head, error))
		return false;
	if (finalizing != 0)
		return error_set(error, ERROR_TORN, "the interpreter is finalizing");
	if (head == 0)
		return error_set(error, ERROR_TORN, "the interpreter is not initialised");
	if (!python_threads(runtime, memory, &threads, &count, error))
		return false;
	free(threads);
	return count > 0 || error_set(error, ERROR_TORN, "the interpreter has no thread");
}

static bool refuse(const struct module_table *table, const struct memory_reader *memory,
		   struct error *error)
{
	struct version version = {0};
	const struct module *old = find_old_module(table);
	if (!old)
		return error_set(error, ERROR_ABSENT, "no CPython interpreter in this process");
	if (!version_from_memory(old, memory, &version) && !version_from_name(old->name, &version))
		return error_set(error, ERROR_UNSUPPORTED,
				 "CPython before 3.7 is not supported yet");
	return error_set(error, ERROR_UNSUPPORTED, "CPython %s is not supported yet", version.text);
}

bool python_runtime_open(struct module_table *table, const struct memory_reader *memory,
			 struct python_runtime **runtime, struct error *error)
{
	struct python_runtime found = {0};
	struct version version = {0};
	struct module_place places[SYMBOL_COUNT];
	found.module = find_module(table, places);
	if (!found.module)
		return refuse(table, memory, error);
	found.address = found.module->load_bias + places[SYMBOL_RUNTIME].vaddr;
	if (!find_version(found.module, memory, places, &version, error) ||
	    !choose_layout(&found, &version, memory, error))
		return false;
	if (!places[SYMBOL_CODE_TYPE].found)
		return error_set(error, ERROR_ABSENT, "%s has no symbol PyCode_Type",
				 found.module->path);
	found.code_type = found.module->load_bias + places[SYMBOL_CODE_TYPE].vaddr;
	found.head = found.address + found.layout.runtime_interpreters_head;
	found.current = found.address + found.layout.runtime_tstate_current;
	python_runtime_plan(&found);
	if (!check_runtime(&found, memory, error))
		return false;
	log_debug("python", "CPython %s in %s, _PyRuntime at %#llx", found.version,
		  found.module->name, (unsigned long long)found.address);
	*runtime = alloc_zeroed(1, sizeof(found));
	**runtime = found;
	(*runtime)->last_active = alloc_zeroed(1, sizeof(struct python_active));
	return true;
}

void python_runtime_free(struct python_runtime *runtime)
{
	if (!runtime)
		return;
	free(runtime->last_active);
	free(runtime);
}

const char *python_runtime_version(const struct python_runtime *runtime)
{
	return runtime->version;
}

const struct module *python_runtime_module(const struct python_runtime *runtime)
{
	return runtime->module;
}

bool python_runtime_owns(const struct python_runtime *runtime, remote_addr pc)
{
	const struct module *module = runtime->module;
	uint64_t vaddr = pc - module->load_bias;
	for (size_t i = 0; i < module->segment_count; i++) {
		const struct module_segment *segment = &module->segments[i];
		if ((segment->flags & PF_X) && vaddr >= segment->vaddr &&
		    vaddr - segment->vaddr < segment->memory_size)
			return true;
	}
	return false;
}
