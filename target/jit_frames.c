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
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/table.h"
#include "target/jit.h"

enum {
	DATA_LIMIT = 16 << 10,
	OBJECTS_LIMIT = 16384,
	ENTRIES_LIMIT = 65536,
	CIE_LIMIT = 512,
	FDE_HEAD = 32, /* distance to the CIE, start, length */
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
	remote_addr cie; /* the last one read, and how its FDEs write addresses */
	uint8_t encoding;
	bool cie_known;
};

void jit_frames_release(struct jit_frames *frames)
{
	code_list_release(&frames->ranges);
}

/* ---- entries ---- */

static bool read_uleb(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
	*value = 0;
	for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
		const uint8_t byte = *(*at)++;
		*value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

/* Bytes of an encoded pointer; 0: not one that assemblers use. */
static size_t encoded_size(uint8_t encoding)
{
	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		return 8;
	case DW_EH_PE_udata4:
	case DW_EH_PE_sdata4:
		return 4;
	default:
		return 0;
	}
}

/* The letters of the augmentation, whose data is at `at`. */
static bool find_encoding(const char *letters, const uint8_t *at, const uint8_t *end,
			  uint8_t *encoding)
{
	*encoding = DW_EH_PE_absptr;
	for (; *letters; letters++) {
		if (*letters == 'S' || *letters == 'B')
			continue;
		if (at >= end)
			return false;
		const uint8_t value = *at++;
		if (*letters == 'R')
			*encoding = value;
		else if (*letters == 'P')
			at += encoded_size(value);
		else if (*letters != 'L')
			return false;
	}
	return true;
}

/* From the id on: 0, version, "zR", code and data alignment, return address, length of the rest. */
static bool parse_cie(const uint8_t *bytes, size_t size, uint8_t *encoding)
{
	const uint8_t *at = bytes + 5, *const end = bytes + size;
	uint64_t number;
	if (size < 8 || memcmp(bytes, "\0\0\0", 4) != 0 || (bytes[4] != 1 && bytes[4] != 3))
		return false;
	const char *const letters = (const char *)at;
	const uint8_t *const after = memchr(at, '\0', size - 5);
	if (!after || (*letters && *letters != 'z'))
		return false;
	at = after + 1;
	*encoding = DW_EH_PE_absptr;
	/* Alignments and register are numbers whose first byte has the highest bit clear if last.
	 */
	for (int i = 0; i < 3; i++)
		if (!read_uleb(&at, end, &number))
			return false;
	return !*letters ||
	       (read_uleb(&at, end, &number) && find_encoding(letters + 1, at, end, encoding));
}

/* Reads the first bytes of an entry, without its length, and zeros behind them; false: there is no
 * entry. *size: of all of it. */
static bool read_head(const struct memory_reader *memory, remote_addr address, uint8_t *bytes,
		      size_t room, uint32_t *size)
{
	if (!memory_read_u32(memory, address, size, NULL) || *size < 4 || *size > JIT_FDE_LIMIT)
		return false;
	memset(bytes, 0, room);
	return memory_read(memory, address + 4, bytes, *size < room ? *size : room, NULL);
}

/* All of it; NULL: there is none. */
static uint8_t *read_entry(const struct memory_reader *memory, remote_addr address, uint32_t *size)
{
	uint8_t *bytes = alloc_zeroed(1, JIT_FDE_LIMIT);
	if (read_head(memory, address, bytes, JIT_FDE_LIMIT, size))
		return bytes;
	free(bytes);
	return NULL;
}

static bool know_cie(struct scan *scan, remote_addr address)
{
	uint32_t size;
	uint8_t bytes[CIE_LIMIT];
	if (scan->cie == address)
		return scan->cie_known;
	scan->cie = address;
	scan->cie_known = read_head(scan->memory, address, bytes, sizeof(bytes), &size) &&
			  size <= CIE_LIMIT && parse_cie(bytes, size, &scan->encoding);
	return scan->cie_known;
}

static uint64_t decode(const uint8_t *at, uint8_t encoding)
{
	uint64_t wide;
	int32_t narrow;
	memcpy(&wide, at, sizeof(wide));
	memcpy(&narrow, at, sizeof(narrow));
	if (encoded_size(encoding) == 8)
		return wide;
	return encoding & DW_EH_PE_signed ? (uint64_t)(int64_t)narrow : (uint32_t)narrow;
}

/* bytes: from the CIE's distance on. */
static void add_fde(struct scan *scan, remote_addr address, const uint8_t *bytes, size_t size)
{
	const size_t width = encoded_size(scan->encoding);
	if (!width || (scan->encoding & 0x70 & ~DW_EH_PE_pcrel) || size < 4 + 2 * width)
		return;
	uint64_t start = decode(bytes + 4, scan->encoding);
	if (scan->encoding & DW_EH_PE_pcrel)
		start += address + 8;
	const uint64_t length = decode(bytes + 4 + width, scan->encoding & 0x0f & ~DW_EH_PE_signed);
	const struct code_range range = {
		.start = start, .end = start + length, .order = scan->entries, .value = address};
	code_list_add(scan->ranges, &range);
}

/* True when it begins with a CIE, as a table does. */
static bool read_table(struct scan *scan, remote_addr table)
{
	uint32_t size, known, distance;
	uint8_t bytes[FDE_HEAD];
	if (!table || table_find(&scan->seen, table, 0, &known) || !know_cie(scan, table))
		return false;
	table_put(&scan->seen, table, 0, 0);
	for (remote_addr at = table; scan->entries < ENTRIES_LIMIT; at += 4 + (uint64_t)size) {
		if (!read_head(scan->memory, at, bytes, sizeof(bytes), &size))
			break;
		scan->entries++;
		memcpy(&distance, bytes, sizeof(distance));
		if (distance && know_cie(scan, at + 4 - distance))
			add_fde(scan, at, bytes, size);
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

void jit_frames_find_keeper(struct jit_frames *frames, const struct module *module)
{
	static const char *const name = "__register_frame";
	struct module_place place;
	if (module->origin != MODULE_OF_FILE || !module_find_exported(module, &name, 1, &place))
		return;
	for (size_t i = 0; i < module->segment_count; i++) {
		const struct module_segment *segment = &module->segments[i];
		if (!(segment->flags & PF_W) || segment->memory_size > DATA_LIMIT ||
		    frames->keeper_count == JIT_KEEPERS)
			continue;
		frames->keepers[frames->keeper_count++] =
			(struct jit_span){module->load_bias + segment->vaddr, segment->memory_size};
	}
}

/* The words of a keeper's data; NULL: it is not there any more. */
static uint64_t *read_words(const struct memory_reader *memory, const struct jit_span *keeper,
			    size_t *count)
{
	const remote_addr start = (keeper->start + 7) & ~(uint64_t)7;
	*count = (keeper->start + keeper->size - start) / 8;
	uint64_t *words = alloc_zeroed(*count + 1, sizeof(*words));
	if (memory_read(memory, start, words, *count * sizeof(*words), NULL))
		return words;
	free(words);
	return NULL;
}

static uint64_t hash_words(const struct jit_frames *frames, const struct memory_reader *memory)
{
	uint64_t hash = 0;
	for (size_t i = 0; i < frames->keeper_count; i++) {
		size_t count;
		_cleanup_free_ uint64_t *words = read_words(memory, &frames->keepers[i], &count);
		for (size_t n = 0; words && n < count; n++)
			hash = hash_pair(hash, words[n]);
	}
	return hash;
}

static void scan_keeper(struct scan *scan, const struct jit_span *keeper)
{
	size_t count;
	_cleanup_free_ uint64_t *words = read_words(scan->memory, keeper, &count);
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
	const uint64_t hash = frames->keeper_count ? hash_words(frames, memory) : 0;
	if (!frames->keeper_count || (!thorough && hash == frames->hash))
		return false;
	struct code_list ranges = {0};
	struct scan scan = {.memory = memory, .ranges = &ranges};
	table_init(&scan.seen);
	for (size_t i = 0; i < frames->keeper_count; i++)
		scan_keeper(&scan, &frames->keepers[i]);
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
	uint32_t size, cie_size, distance;
	_cleanup_free_ uint8_t *bytes = read_entry(memory, fde, &size);
	if (!bytes)
		return false;
	memcpy(&distance, bytes, sizeof(distance));
	_cleanup_free_ uint8_t *cie = read_entry(memory, fde + 4 - distance, &cie_size);
	if (!cie || cie_size > CIE_LIMIT)
		return false;
	/* The FDE stays at its address, which it counts from; its CIE comes right before it. */
	distance = 4 + cie_size + 4;
	memcpy(bytes, &distance, sizeof(distance));
	table->address = fde - 4 - cie_size;
	table->size = 4 + cie_size + 4 + size + 4; /* the terminator */
	table->bytes = alloc_zeroed(1, table->size);
	memcpy(table->bytes, &cie_size, 4);
	memcpy(table->bytes + 4, cie, cie_size);
	memcpy(table->bytes + 4 + cie_size, &size, 4);
	memcpy(table->bytes + 8 + cie_size, bytes, size);
	return true;
}
