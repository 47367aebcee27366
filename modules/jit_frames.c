/* SPDX-License-Identifier: MIT */
/*
 * Unwind tables of code made at run time that were registered with libgcc (__register_frame), as
 * LLVM's JITs do whether or not a debugger is told. libgcc keeps them behind variables that have no
 * symbol, in its few hundred bytes of writable data: each word there is tried as the head of
 *     GCC 12 and before: a list of struct object (unwind-dw2-fde.h)
 *         pc_begin, tbase, dbase, table, u64 bits, next
 *     GCC 13 and later: a B-tree of them (unwind-dw2-btree.h), nodes of
 *         u64 lock, u32 entries, u32 type, { separator, child }[15] or { base, size, object }[10]
 * and believed as far as what it leads to are tables. All of it is the target's: bounded in number.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/table.h"
#include "elf/eh.h"
#include "modules/jit.h"

enum {
	DATA_LIMIT = 16 << 10,
	OBJECTS_LIMIT = 16384,
	ENTRIES_LIMIT = 65536,
	CIE_LIMIT = 512,
	FDE_HEAD = 32, /* length, distance to the CIE, start, size of the code */
	TREE_DEPTH = 8,
	INNER_FANOUT = 15,
	LEAF_FANOUT = 10,
};

struct object {
	uint64_t pc_begin, tbase, dbase, table, bits, next;
};

enum { OBJECT_SORTED = 1, OBJECT_ARRAY = 2 };

struct node {
	uint64_t lock;
	uint32_t count, type; /* 0: inner, 1: leaf */
	uint64_t words[2 * INNER_FANOUT];
};

/* One reading of all tables. */
struct scan {
	const struct memory_reader *memory;
	struct code_list *ranges;
	struct table seen; /* tables and nodes */
	size_t objects, entries;
	remote_addr cie_address; /* of the last one read */
	struct eh_cie cie;
	bool cie_known;
};

void jit_frames_release(struct jit_frames *frames)
{
	code_list_release(&frames->ranges);
}

/*
 * Reads an entry from its length on, or what of it there is room for; false: there is none. *size:
 * of all of it.
 */
static bool read_entry(const struct memory_reader *memory, remote_addr address, uint8_t *bytes,
		       size_t room, size_t *size)
{
	uint32_t length;
	if (!memory_read_u32(memory, address, &length, NULL) || length < 4 ||
	    length > JIT_FDE_LIMIT)
		return false;
	*size = 4 + (size_t)length;
	return memory_read(memory, address, bytes, *size < room ? *size : room, NULL);
}

/* All of it; NULL: there is none. */
static uint8_t *copy_entry(const struct memory_reader *memory, remote_addr address, size_t *size)
{
	uint8_t *bytes = alloc_zeroed(1, 4 + JIT_FDE_LIMIT);
	if (read_entry(memory, address, bytes, 4 + JIT_FDE_LIMIT, size))
		return bytes;
	free(bytes);
	return NULL;
}

static bool know_cie(struct scan *scan, remote_addr address)
{
	uint8_t bytes[4 + CIE_LIMIT];
	struct eh_input in = {.bytes = bytes, .address = address};
	if (scan->cie_address == address)
		return scan->cie_known;
	scan->cie_address = address;
	scan->cie_known = read_entry(scan->memory, address, bytes, sizeof(bytes), &in.end) &&
			  in.end <= sizeof(bytes) && eh_take_cie(in, &scan->cie);
	return scan->cie_known;
}

static uint32_t word_at(const uint8_t *at)
{
	uint32_t word;
	memcpy(&word, at, sizeof(word));
	return word;
}

/* Its first bytes, and how many of them there are. */
static void add_fde(struct scan *scan, remote_addr address, const uint8_t *bytes, size_t size)
{
	struct eh_input in = {.bytes = bytes, .at = 8, .end = size, .address = address};
	struct code_range range = {.order = scan->entries, .value = address};
	if (eh_take_range(&in, &scan->cie, &range.start, &range.end))
		code_list_add(scan->ranges, &range);
}

/* True when it begins with a CIE, as a table does. */
static bool read_table(struct scan *scan, remote_addr table)
{
	uint32_t known;
	size_t size;
	uint8_t bytes[FDE_HEAD];
	if (!table || table_find(&scan->seen, table, 0, &known) || !know_cie(scan, table))
		return false;
	table_put(&scan->seen, table, 0, 0);
	for (remote_addr at = table; scan->entries < ENTRIES_LIMIT; at += size) {
		if (!read_entry(scan->memory, at, bytes, sizeof(bytes), &size))
			break;
		scan->entries++;
		const uint32_t distance = word_at(bytes + 4);
		if (distance && know_cie(scan, at + 4 - distance))
			add_fde(scan, at, bytes, size < sizeof(bytes) ? size : sizeof(bytes));
	}
	return true;
}

/* ---- what leads to them ---- */

static void read_object(struct scan *scan, const struct object *object)
{
	remote_addr table = object->table;
	if (object->bits & OBJECT_ARRAY) {
		for (size_t i = 0; i < OBJECTS_LIMIT; i++)
			if (!memory_read_u64(scan->memory, object->table + 8 * i, &table, NULL) ||
			    !read_table(scan, table))
				return;
	} else if (!(object->bits & OBJECT_SORTED) ||
		   memory_read_u64(scan->memory, object->table, &table, NULL)) {
		(void)read_table(scan, table); /* sorted: its first word is the table */
	}
}

static bool take_object(struct scan *scan, remote_addr address, struct object *object)
{
	if (scan->objects >= OBJECTS_LIMIT || (address & 7) ||
	    !memory_read(scan->memory, address, object, sizeof(*object), NULL) || object->tbase ||
	    object->dbase || !object->table)
		return false;
	scan->objects++;
	read_object(scan, object);
	return true;
}

static void try_list(struct scan *scan, remote_addr address)
{
	struct object object;
	uint32_t known;
	while (address && !table_find(&scan->seen, address, 1, &known) &&
	       take_object(scan, address, &object)) {
		table_put(&scan->seen, address, 1, 0);
		address = object.next;
	}
}

static void try_tree(struct scan *scan, remote_addr address, unsigned depth)
{
	struct node node;
	struct object object;
	uint32_t known;
	if (!address || (address & 7) || depth > TREE_DEPTH ||
	    table_find(&scan->seen, address, 2, &known) ||
	    !memory_read(scan->memory, address, &node, sizeof(node), NULL) || node.type > 1 ||
	    node.count > (node.type ? LEAF_FANOUT : INNER_FANOUT))
		return;
	table_put(&scan->seen, address, 2, 0);
	for (size_t i = 0; i < node.count && scan->objects < OBJECTS_LIMIT; i++) {
		if (node.type)
			(void)take_object(scan, node.words[3 * i + 2], &object);
		else
			try_tree(scan, node.words[2 * i + 1], depth + 1);
	}
}

/* ---- libgcc ---- */

void jit_frames_find_registry(struct jit_frames *frames, const struct module *module)
{
	static const char *const name = "__register_frame";
	struct module_place place;
	if (module->origin != MODULE_OF_FILE || !module_find_exported(module, &name, 1, &place))
		return;
	for (size_t i = 0; i < module->segment_count; i++) {
		const struct module_segment *segment = &module->segments[i];
		if (!(segment->flags & PF_W) || segment->memory_size > DATA_LIMIT ||
		    frames->libgcc_registry_count == JIT_LIBGCC_REGISTRIES)
			continue;
		frames->libgcc_registries[frames->libgcc_registry_count++] =
			(struct jit_span){module->load_bias + segment->vaddr, segment->memory_size};
	}
}

/* The words of a registry's data; NULL: it is not there any more. */
static uint64_t *read_words(const struct memory_reader *memory, const struct jit_span *registry,
			    size_t *count)
{
	const remote_addr start = (registry->start + 7) & ~(uint64_t)7;
	*count = (registry->start + registry->size - start) / 8;
	uint64_t *words = alloc_zeroed(*count + 1, sizeof(*words));
	if (memory_read(memory, start, words, *count * sizeof(*words), NULL))
		return words;
	free(words);
	return NULL;
}

static uint64_t hash_words(const struct jit_frames *frames, const struct memory_reader *memory)
{
	uint64_t hash = 0;
	for (size_t i = 0; i < frames->libgcc_registry_count; i++) {
		size_t count;
		_cleanup_free_ uint64_t *words =
			read_words(memory, &frames->libgcc_registries[i], &count);
		for (size_t n = 0; words && n < count; n++)
			hash = hash_pair(hash, words[n]);
	}
	return hash;
}

static void scan_registry(struct scan *scan, const struct jit_span *registry)
{
	size_t count;
	_cleanup_free_ uint64_t *words = read_words(scan->memory, registry, &count);
	for (size_t i = 0; words && i < count; i++) {
		if (!words[i])
			continue;
		try_tree(scan, words[i], 0);
		try_list(scan, words[i]);
	}
}

static bool same_ranges(const struct code_list *a, const struct code_list *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (a->ranges[i].start != b->ranges[i].start ||
		    a->ranges[i].end != b->ranges[i].end ||
		    a->ranges[i].value != b->ranges[i].value)
			return false;
	return true;
}

bool jit_frames_read(struct jit_frames *frames, const struct memory_reader *memory, bool thorough)
{
	const uint64_t hash = frames->libgcc_registry_count ? hash_words(frames, memory) : 0;
	if (!frames->libgcc_registry_count || (!thorough && hash == frames->hash))
		return false;
	struct code_list ranges = {0};
	struct scan scan = {.memory = memory, .ranges = &ranges};
	table_init(&scan.seen);
	for (size_t i = 0; i < frames->libgcc_registry_count; i++)
		scan_registry(&scan, &frames->libgcc_registries[i]);
	table_release(&scan.seen);
	code_list_sort(&ranges);
	const bool changed = !same_ranges(&ranges, &frames->ranges);
	code_list_release(&frames->ranges);
	frames->ranges = ranges;
	frames->hash = hash;
	return changed;
}

/* ---- one function's table ---- */

bool jit_frames_copy(const struct memory_reader *memory, remote_addr fde, struct jit_table *table)
{
	size_t size, cie_size;
	_cleanup_free_ uint8_t *bytes = copy_entry(memory, fde, &size);
	if (!bytes)
		return false;
	_cleanup_free_ uint8_t *cie = copy_entry(memory, fde + 4 - word_at(bytes + 4), &cie_size);
	if (!cie || cie_size > 4 + CIE_LIMIT)
		return false;
	/* The FDE stays at its address, which it counts from; its CIE comes right before it. */
	const uint32_t distance = cie_size + 4;
	memcpy(bytes + 4, &distance, sizeof(distance));
	table->address = fde - cie_size;
	table->size = cie_size + size + 4; /* the terminator */
	table->bytes = alloc_zeroed(1, table->size);
	memcpy(table->bytes, cie, cie_size);
	memcpy(table->bytes + cie_size, bytes, size);
	return true;
}
