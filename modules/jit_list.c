/* SPDX-License-Identifier: MIT */
/*
 * GDB's JIT interface ("JIT Compilation Interface" in GDB's manual): a JIT keeps a list of ELF
 * images, which begins at the variable __jit_debug_descriptor,
 *     u32 version (1), u32 action, entry *relevant, entry *first
 * with entries of
 *     entry *next, entry *previous, image *, u64 size.
 * Several modules may have one. The list may change while it is read, and may be anything: each
 * entry is visited once, their number is bounded, a list that cannot be read ends there.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/table.h"
#include "modules/jit.h"

enum { LIST_VERSION = 1, LIST_REGISTERED = 1, CONTENT_LIMIT = 64 << 10 };

void jit_list_release(struct jit_list *list)
{
	free(list->entries);
	code_list_release(&list->ranges);
	*list = (struct jit_list){0};
}

void jit_list_find_descriptor(struct jit_list *list, const struct module *module)
{
	static const char *const name = "__jit_debug_descriptor";
	uint64_t vaddr;
	if (module->origin == MODULE_OF_FILE && list->descriptor_count < JIT_DESCRIPTORS &&
	    symbol_scan(module, name, &vaddr))
		list->descriptors[list->descriptor_count++] =
			(struct jit_descriptor){.at = module->load_bias + vaddr};
}

/* Of so much of it that it costs some ten microseconds. */
static uint64_t hash_content(const struct memory_reader *memory, const struct jit_entry *entry)
{
	const uint64_t size = entry->size < CONTENT_LIMIT ? entry->size : CONTENT_LIMIT;
	uint64_t hash = size;
	_cleanup_free_ uint64_t *words = alloc_zeroed(size / sizeof(*words) + 1, sizeof(*words));
	if (!memory_read(memory, entry->image, words, size, NULL))
		return 0;
	for (size_t i = 0; i <= size / sizeof(*words); i++)
		hash = hash_pair(hash, words[i]);
	return hash;
}

/* Other code may have taken the very memory of what was registered before it, list entry and image:
 * then the descriptor is as it was, but not what it leads to first. 0: there is none. */
static uint64_t hash_first(const struct memory_reader *memory, remote_addr first)
{
	uint64_t words[4]; /* next, previous, image, size */
	if (!first || !memory_read(memory, first, words, sizeof(words), NULL))
		return 0;
	const struct jit_entry entry = {.image = words[2], .size = words[3]};
	return hash_pair(hash_bytes(words, sizeof(words)), hash_content(memory, &entry));
}

bool jit_list_is_stale(const struct jit_list *list, const struct memory_reader *memory)
{
	for (size_t i = 0; i < list->descriptor_count; i++) {
		const struct jit_descriptor *descriptor = &list->descriptors[i];
		uint64_t now[3] = {0};
		if (!memory_read(memory, descriptor->at, now, sizeof(now), NULL))
			memset(now, 0, sizeof(now)); /* unloaded */
		if (memcmp(now, descriptor->state, sizeof(now)) != 0 ||
		    hash_first(memory, now[2]) != descriptor->first)
			return true;
	}
	return false;
}

/* ---- one reading ---- */

struct reading {
	struct jit_list *old;
	const struct memory_reader *memory;
	bool thorough;
	struct table seen;  /* addresses of entries */
	struct table known; /* address -> index in the old list */
	struct jit_entry *entries;
	size_t count, capacity;
	struct code_list ranges;
	remote_addr relevant; /* the entry registered last; 0: not told, it may be any */
	bool changed;
};

/* The entry of the old list that this one is; NULL: it is new. */
static const struct jit_entry *find_old(const struct reading *reading,
					const struct jit_entry *entry)
{
	uint32_t index;
	if (!table_find(&reading->known, entry->at, 0, &index))
		return NULL;
	const struct jit_entry *old = &reading->old->entries[index];
	return old->image == entry->image && old->size == entry->size ? old : NULL;
}

/* True when it is as it was: by its headers, and by all of it once its code has been met. */
static bool is_unchanged(const struct reading *reading, const struct jit_entry *old,
			 const struct jit_entry *now)
{
	return old->hash == now->hash &&
	       (!old->module || old->content == hash_content(reading->memory, old));
}

static void look_at_image(struct reading *reading, struct jit_entry *entry)
{
	const struct jit_entry *old = find_old(reading, entry);
	if (old && !reading->thorough && reading->relevant && entry->at != reading->relevant) {
		*entry = *old;
		return;
	}
	entry->span_count = jit_image_spans(reading->memory, entry->image, entry->size,
					    entry->spans, &entry->hash);
	if (old && is_unchanged(reading, old, entry))
		*entry = *old;
	else
		reading->changed = true;
}

static void add_entry(struct reading *reading, const struct jit_entry *entry)
{
	/* JITs put new entries first: the earlier in the list, the more it counts. */
	const uint64_t order = JIT_ENTRIES - reading->count;
	for (size_t i = 0; i < entry->span_count; i++) {
		const struct jit_span *span = &entry->spans[i];
		const struct code_range range = {.start = span->start,
						 .end = span->start + span->size,
						 .order = order,
						 .value = reading->count};
		code_list_add(&reading->ranges, &range);
	}
	reading->entries = alloc_room(reading->entries, &reading->capacity, reading->count + 1,
				      sizeof(*reading->entries));
	reading->entries[reading->count++] = *entry;
}

static void follow(struct reading *reading, remote_addr at)
{
	uint32_t known;
	while (at && reading->count < JIT_ENTRIES && !table_find(&reading->seen, at, 0, &known)) {
		uint64_t words[4];
		if (!memory_read(reading->memory, at, words, sizeof(words), NULL))
			return;
		table_put(&reading->seen, at, 0, 0);
		struct jit_entry entry = {.at = at, .image = words[2], .size = words[3]};
		look_at_image(reading, &entry);
		add_entry(reading, &entry);
		at = words[0];
	}
}

static void read_descriptor(struct reading *reading, struct jit_descriptor *descriptor)
{
	uint64_t state[3] = {0}; /* version and action, relevant entry, first entry */
	if (!memory_read(reading->memory, descriptor->at, state, sizeof(state), NULL))
		memset(state, 0, sizeof(state));
	memcpy(descriptor->state, state, sizeof(state));
	descriptor->first = hash_first(reading->memory, state[2]);
	if ((uint32_t)state[0] != LIST_VERSION)
		return;
	reading->relevant = state[0] >> 32 == LIST_REGISTERED ? state[1] : 0;
	follow(reading, state[2]);
}

bool jit_list_read(struct jit_list *list, const struct memory_reader *memory, bool thorough)
{
	struct reading reading = {.old = list, .memory = memory, .thorough = thorough};
	table_init(&reading.seen);
	table_init(&reading.known);
	for (size_t i = 0; i < list->count; i++)
		table_put(&reading.known, list->entries[i].at, 0, (uint32_t)i);
	for (size_t i = 0; i < list->descriptor_count; i++)
		read_descriptor(&reading, &list->descriptors[i]);
	reading.changed |= reading.count != list->count;
	code_list_sort(&reading.ranges);
	free(list->entries);
	code_list_release(&list->ranges);
	list->entries = reading.entries;
	list->count = reading.count;
	list->ranges = reading.ranges;
	table_release(&reading.seen);
	table_release(&reading.known);
	return reading.changed;
}

void jit_list_note_module(const struct memory_reader *memory, struct jit_entry *entry,
			  struct module *module)
{
	entry->module = module;
	entry->refused = !module;
	entry->content = module ? hash_content(memory, entry) : 0;
}
