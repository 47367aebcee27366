/* SPDX-License-Identifier: MIT */
/*
 * Code objects of the target into names, files and line tables: decoded once, then found by
 * address and identity. An address alone does not tell: a freed object's memory is used again, and
 * that of its strings, too. Of two objects at an address the older one is no more. Those that are
 * made from the same source again (exec, eval) are the same to us.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/cache_table.h"
#include "base/cleanup.h"
#include "python/internal.h"
#include "python/walk.h"

enum { FRAME_CACHES = 4 };

struct place {
	uint64_t identity; /* of the object that was there last */
	const struct python_code *code;
};

struct python_code_cache {
	struct interner *interner;
	struct arena arena;	 /* codes and line tables */
	struct table by_address; /* -> index in places */
	struct place *places;
	size_t place_count, place_capacity;
	struct table by_content;  /* (name and file, lines) -> index in codes */
	struct cache_table lines; /* (index, instruction) -> line */
	struct python_code **codes;
	size_t count, capacity;
	struct walk_room room;
	bool keeps_frames;
	struct frame_cache *frame_caches[FRAME_CACHES];
};

struct python_code_cache *python_code_cache_new(struct interner *interner)
{
	struct python_code_cache *cache = alloc_zeroed(1, sizeof(*cache));
	cache->interner = interner;
	arena_init(&cache->arena);
	table_init(&cache->by_address);
	table_init(&cache->by_content);
	return cache;
}

void python_code_cache_free(struct python_code_cache *cache)
{
	if (!cache)
		return;
	arena_release(&cache->arena);
	table_release(&cache->by_address);
	table_release(&cache->by_content);
	free(cache->places);
	cache_table_release(&cache->lines);
	walk_room_release(&cache->room);
	for (size_t i = 0; i < FRAME_CACHES; i++)
		frame_cache_free(cache->frame_caches[i]);
	free(cache->codes);
	free(cache);
}

void python_code_cache_forget_places(struct python_code_cache *cache)
{
	table_clear(&cache->by_address);
	cache->place_count = 0;
	for (size_t i = 0; i < FRAME_CACHES; i++) {
		frame_cache_free(cache->frame_caches[i]);
		cache->frame_caches[i] = NULL;
	}
}

const struct python_code *python_code_cache_get(const struct python_code_cache *cache, uint32_t id)
{
	return id < cache->count ? cache->codes[id] : NULL;
}

struct walk_room *python_code_cache_room(struct python_code_cache *cache)
{
	return &cache->room;
}

void python_code_cache_keep_frames(struct python_code_cache *cache, bool frame_cache)
{
	cache->keeps_frames = frame_cache;
}

struct frame_cache *python_code_cache_frames(struct python_code_cache *cache, remote_addr tstate)
{
	if (!cache->keeps_frames)
		return NULL;
	struct frame_cache **frame_cache =
		&cache->frame_caches[hash_pair(tstate, 0) % FRAME_CACHES];
	if (!*frame_cache)
		*frame_cache = frame_cache_new();
	return *frame_cache;
}

/* Reads a bytes object into *bytes, malloc'ed. */
static bool read_bytes(const struct python_layout *layout, const struct memory_reader *memory,
		       remote_addr object, uint8_t **bytes, size_t *size, struct error *error)
{
	uint8_t header[MAX_RECORD];
	if (!memory_read(memory, object, header, layout->bytes_data, error))
		return false;
	uint64_t length = field_u64(header, layout->object_var_size);
	if (length > MAX_LINE_TABLE)
		return error_set(error, ERROR_CORRUPT, "line table of %llu bytes",
				 (unsigned long long)length);
	_cleanup_free_ uint8_t *copy = alloc_zeroed(length + 1, 1);
	if (length && !memory_read(memory, object + layout->bytes_data, copy, length, error))
		return false;
	*bytes = copy;
	*size = length;
	copy = NULL;
	return true;
}

bool python_code_touch(const struct python_runtime *runtime, const struct memory_reader *memory,
		       const struct python_code_header *header, struct strbuf *scratch,
		       struct error *error)
{
	const struct python_layout *layout = &runtime->layout;
	_cleanup_free_ uint8_t *table = NULL;
	size_t size;
	strbuf_reset(scratch);
	return python_string_read(layout, memory, header->name, scratch, error) &&
	       python_string_read(layout, memory, header->filename, scratch, error) &&
	       read_bytes(layout, memory, header->line_table, &table, &size, error);
}

/* *table, malloc'ed, is the code's line table until that is copied. */
static bool decode(struct python_code_cache *cache, const struct python_runtime *runtime,
		   const struct memory_reader *memory, const struct python_code_header *header,
		   struct python_code *code, uint8_t **table, struct error *error)
{
	const struct python_layout *layout = &runtime->layout;
	_cleanup_strbuf_ struct strbuf text;
	strbuf_init(&text);
	size_t size;
	if (!python_string_read(layout, memory, header->name, &text, error))
		return false;
	code->name = intern_bytes(cache->interner, text.text, text.size);
	strbuf_reset(&text);
	if (!python_string_read(layout, memory, header->filename, &text, error))
		return false;
	code->file = intern_bytes(cache->interner, text.text, text.size);
	if (!read_bytes(layout, memory, header->line_table, table, &size, error))
		return false;
	code->first_line = header->first_line;
	code->line_table = *table;
	code->line_table_size = (uint32_t)size;
	return true;
}

static bool same_content(const struct python_code *a, const struct python_code *b)
{
	return a->name == b->name && a->file == b->file && a->first_line == b->first_line &&
	       a->line_table_size == b->line_table_size &&
	       memcmp(a->line_table, b->line_table, b->line_table_size) == 0;
}

/* The one of that content; a copy of `fresh`, if there is none yet. */
static const struct python_code *unique_code(struct python_code_cache *cache,
					     const struct python_code *fresh)
{
	const uint64_t names = hash_pair((uintptr_t)fresh->name, (uintptr_t)fresh->file);
	const uint64_t lines = hash_pair((uint32_t)fresh->first_line,
					 hash_bytes(fresh->line_table, fresh->line_table_size));
	uint32_t index;
	if (table_find(&cache->by_content, names, lines, &index) &&
	    same_content(cache->codes[index], fresh))
		return cache->codes[index];
	struct python_code *code = arena_copy(&cache->arena, fresh, sizeof(*fresh));
	code->id = (uint32_t)cache->count;
	code->line_table = arena_copy(&cache->arena, fresh->line_table, fresh->line_table_size);
	cache->codes = alloc_room(cache->codes, &cache->capacity, cache->count + 1,
				  sizeof(struct python_code *));
	cache->codes[cache->count++] = code;
	table_put(&cache->by_content, names, lines, code->id);
	return code;
}

/* Of the object at the address; the one that was there before it is no more. */
static void put_place(struct python_code_cache *cache, const struct python_code_header *header,
		      const struct python_code *code)
{
	uint32_t index;
	if (!table_find(&cache->by_address, header->address, 0, &index)) {
		index = (uint32_t)cache->place_count++;
		cache->places = alloc_room(cache->places, &cache->place_capacity,
					   cache->place_count, sizeof(*cache->places));
		table_put(&cache->by_address, header->address, 0, index);
	}
	cache->places[index] = (struct place){header->identity, code};
}

/* CPython Lib/importlib/_bootstrap.py: a module's lock waits in _ModuleLock.acquire; where that is
 * looked up, the lock of all imports is held for a moment. Up to 3.10 names are not qualified. */
bool python_code_locks_imports(const struct python_code *code)
{
	static const char *const names[] = {"acquire", "_ModuleLock.acquire", "_get_module_lock",
					    "_get_module_lock.<locals>.cb", "cb"};
	bool locks = false;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		locks |= strcmp(code->name, names[i]) == 0;
	return locks && strcmp(code->file, "<frozen importlib._bootstrap>") == 0;
}

bool python_code_resolve(struct python_code_cache *cache, const struct python_runtime *runtime,
			 const struct memory_reader *memory,
			 const struct python_code_header *header, const struct python_code **code,
			 struct error *error)
{
	uint32_t index;
	if (table_find(&cache->by_address, header->address, 0, &index) &&
	    cache->places[index].identity == header->identity) {
		*code = cache->places[index].code;
		return true;
	}
	struct python_code fresh;
	_cleanup_free_ uint8_t *table = NULL;
	struct error cause;
	if (!decode(cache, runtime, memory, header, &fresh, &table, &cause))
		return error_set(error, cause.kind == ERROR_CORRUPT ? ERROR_CORRUPT : ERROR_TORN,
				 "code object %#llx: %.150s", (unsigned long long)header->address,
				 cause.message);
	*code = unique_code(cache, &fresh);
	put_place(cache, header, *code);
	return true;
}

int32_t python_code_line(struct python_code_cache *cache, const struct python_code *code,
			 enum python_line_format format, int32_t instruction)
{
	const uint32_t place = (uint32_t)(instruction + 1); /* -1: before the first one */
	uint32_t line;
	if (!cache_table_find(&cache->lines, code->id, place, &line)) {
		line = (uint32_t)python_line_of(format, code->line_table, code->line_table_size,
						code->first_line, instruction);
		cache_table_put(&cache->lines, code->id, place, line);
	}
	return (int32_t)line;
}
