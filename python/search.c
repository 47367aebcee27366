/* SPDX-License-Identifier: MIT */
/*
 * The last resort: an executable that has an interpreter inside and neither symbols nor sections
 * that tell where. Its version is in its memory as text, or its debug offsets are; where the
 * list of interpreters starts is found by what only that list looks like. Relies on the checks
 * that every interpreter has to pass afterwards.
 */
#include <elf.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "python/locate.h"

enum { SEGMENT_LIMIT = 64 << 20, TEXT_LIMIT = 256 << 20, PIECE = 256 << 10 };

/* ---- texts that a file has ---- */

/* What every CPython says when it gives up, and what Python/jit.c (3.13+) does. */
static const char fatal[] = "Fatal Python error: ";
static const char jit_error[] = "JIT %s (%d)";

/* `unreadable`: what to say where the file cannot be read for now. */
static bool segment_has(const struct module *module, const struct module_segment *segment,
			const char *text, bool unreadable)
{
	const size_t overlap = strlen(text);
	_cleanup_free_ char *bytes = alloc_zeroed(1, PIECE + overlap);
	struct error why;
	for (uint64_t at = 0; at < segment->file_size && at < TEXT_LIMIT; at += PIECE) {
		const uint64_t left = segment->file_size - at;
		const size_t size = left < PIECE + overlap ? left : PIECE + overlap;
		if (!module_read_file(module, segment->file_offset + at, bytes, size, &why))
			return unreadable && why.kind != ERROR_CORRUPT && why.kind != ERROR_ABSENT;
		if (memmem(bytes, size, text, overlap))
			return true;
	}
	return false;
}

static bool has_text(const struct module *module, const char *text, bool unreadable)
{
	for (size_t i = 0; i < module->segment_count; i++)
		if (!(module->segments[i].flags & PF_W) &&
		    segment_has(module, &module->segments[i], text, unreadable))
			return true;
	return false;
}

bool python_search_is_worth(const struct module *module)
{
	return has_text(module, fatal, true);
}

bool python_runtime_has_jit(const struct python_runtime *runtime)
{
	return has_text(runtime->module, jit_error, false);
}

/* ---- memory that the executable may write to ---- */

struct area {
	remote_addr start;
	uint8_t *bytes; /* malloc'ed */
	size_t size;
};

static bool read_area(const struct module *module, const struct module_segment *segment,
		      const struct memory_reader *memory, struct area *area)
{
	uint64_t shift = -(module->load_bias + segment->vaddr) & 7;
	*area = (struct area){0};
	if (!(segment->flags & PF_W) || segment->memory_size > SEGMENT_LIMIT ||
	    segment->memory_size < shift + 8)
		return false;
	area->start = module->load_bias + segment->vaddr + shift;
	area->size = (segment->memory_size - shift) & ~UINT64_C(7);
	area->bytes = alloc_zeroed(1, area->size);
	if (memory_read(memory, area->start, area->bytes, area->size, NULL))
		return true;
	free(area->bytes);
	return false;
}

/* ---- debug offsets ---- */

static remote_addr find_cookie(const struct module *module, const struct memory_reader *memory)
{
	remote_addr found = 0;
	for (size_t i = 0; i < module->segment_count && !found; i++) {
		struct area area;
		if (!read_area(module, &module->segments[i], memory, &area))
			continue;
		for (size_t at = 0; at + 24 <= area.size && !found; at += 8)
			if (memcmp(area.bytes + at, "xdebugpy", 8) == 0)
				found = area.start + at;
		free(area.bytes);
	}
	return found;
}

/* ---- the list of interpreters ---- */

/* The number of interpreters if this word starts the list of them, else 0. */
static size_t count_interpreters(struct python_runtime *runtime, const struct memory_reader *memory,
				 remote_addr place, remote_addr *last)
{
	const struct python_layout *layout = &runtime->layout;
	struct python_thread *threads;
	size_t count, interpreters = 0;
	runtime->head = place;
	if (!python_threads(runtime, memory, &threads, &count, NULL))
		return 0;
	for (size_t i = 0; i < count; i++) {
		interpreters += i == 0 || threads[i].interpreter != threads[i - 1].interpreter;
		*last = threads[i].interpreter;
		if (!threads[i].thread_id && layout->root == ROOT_RUNTIME)
			interpreters = count = 0;
	}
	free(threads);
	return interpreters;
}

/* Cheap: the word points to something whose first thread state points back to it. */
static bool points_back(const struct python_layout *layout, const struct memory_reader *memory,
			uint64_t interpreter)
{
	uint64_t state, back;
	return interpreter && interpreter % 8 == 0 &&
	       memory_read_u64(memory, interpreter + layout->interp_threads_head, &state, NULL) &&
	       state && state % 8 == 0 &&
	       memory_read_u64(memory, state + layout->tstate_interp, &back, NULL) &&
	       back == interpreter;
}

/*
 * Each word that points back leads to reads of all thread states, if it is not the one before.
 * CPython 3.6 to 3.12 have 2 to 68 such words, the same one mostly; a hostile image may be full of
 * them.
 */
enum { FOLLOWED_MOST = 256 };

struct best {
	remote_addr place;
	size_t interpreters, followed; /* followed: words, so far ... */
	remote_addr word, last;	       /* ... the last one, and where it led */
	size_t count;
};

/*
 * Several words may point to an interpreter: the list's start has most of them behind it; and
 * where it is a member of _PyRuntime the next word has the first one made, the last of the list.
 */
static void search_area(struct python_runtime *runtime, const struct memory_reader *memory,
			const struct area *area, struct best *best)
{
	for (size_t at = 0; at + 16 <= area->size && best->followed < FOLLOWED_MOST; at += 8) {
		uint64_t word = field_u64(area->bytes + at, 0);
		if (!points_back(&runtime->layout, memory, word))
			continue;
		if (word != best->word) {
			best->followed++;
			best->word = word;
			best->count =
				count_interpreters(runtime, memory, area->start + at, &best->last);
		}
		if (best->count <= best->interpreters ||
		    (runtime->layout.root == ROOT_RUNTIME &&
		     field_u64(area->bytes + at + 8, 0) != best->last))
			continue;
		best->place = area->start + at;
		best->interpreters = best->count;
	}
}

static remote_addr find_list(const struct module *module, const struct memory_reader *memory,
			     const struct python_layout *row)
{
	struct best best = {0};
	struct python_runtime runtime = {.layout = *row, .module = module};
	python_runtime_plan(&runtime);
	for (size_t i = 0; i < module->segment_count; i++) {
		struct area area;
		if (!read_area(module, &module->segments[i], memory, &area))
			continue;
		search_area(&runtime, memory, &area, &best);
		free(area.bytes);
	}
	return best.place;
}

/* ---- both ---- */

bool python_candidate_search(struct python_candidate *candidate, const struct module *module,
			     const struct memory_reader *memory, struct error *error)
{
	struct python_version version;
	(void)!python_candidate_init(candidate, module); /* it may have some of the symbols */
	remote_addr runtime = find_cookie(module, memory), head = 0;
	if (!runtime) {
		if (!python_version_read(module, memory, &version))
			return error_set(error, ERROR_TORN,
					 "the interpreter in %s is not initialised: no version yet",
					 module->name);
		const struct python_layout *row =
			python_layout_find(version.major, version.minor, false);
		head = row ? find_list(module, memory, row) : 0;
		if (row && !head)
			return error_set(error, ERROR_TORN,
					 "the interpreter in %s is not initialised", module->name);
		if (row && row->root == ROOT_RUNTIME)
			runtime = head - row->runtime_interpreters_head;
	}
	log_debug("python", "searched %s: list of interpreters at %#llx, _PyRuntime at %#llx",
		  module->name, (unsigned long long)head, (unsigned long long)runtime);
	if (runtime)
		candidate->places[SYMBOL_RUNTIME] =
			(struct module_place){runtime - module->load_bias, 0, true, 0};
	else
		candidate->places[SYMBOL_HEAD] =
			(struct module_place){head - module->load_bias, 8, true, 0};
	return true;
}
