/* SPDX-License-Identifier: MIT */
/*
 * Stacks that end at a native code address, as (node of the caller, address). A program that
 * computes is met at an instruction that it was never met at before for as long as it is recorded;
 * as frames and nodes of the call tree those would take some 70 bytes each. Here they take four or
 * five: what is new is gathered, sorted, and merged into one sequence in order of address and node,
 * each written as what it differs by from the one before. All of it goes to the call tree in the
 * end.
 */
#include "sample/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* A key: the module's number, the ELF address, what else tells frames apart; above all: 0. */
enum {
	FLAG_BITS = 4,
	OFFSET_BITS = 40,
	MODULE_BITS = 16,
};

enum {
	BLOCK_BYTES = 16 << 10,
	ENTRY_BYTES = 10 + 5 + 10, /* of the longest one */
	FRESH_LEAST = 2048,
	FRESH_SHARE = 16, /* so many times that are in blocks when those are written anew */
};

struct leaf {
	uint64_t key;
	uint64_t count;
	uint32_t parent;
};

struct leaf_block {
	struct leaf_block *next;
	uint32_t size;
	uint8_t bytes[BLOCK_BYTES];
};

bool leaf_pack(const struct raw_frame *frame, uint64_t *key)
{
	if (frame->kind != RAW_NATIVE || frame->idle || !frame->module ||
	    frame->module->id >> MODULE_BITS || frame->offset >> OFFSET_BITS)
		return false;
	const uint64_t flags = (uint64_t)frame->exact << 3 | (uint64_t)frame->guessed << 2 |
			       (uint64_t)frame->interpreter << 1 | (uint64_t)frame->hidden;
	const uint64_t address = (uint64_t)frame->module->id << OFFSET_BITS | frame->offset;
	*key = address << FLAG_BITS | flags;
	return true;
}

static struct raw_frame unpack(uint64_t key, const struct module_table *modules)
{
	const uint64_t address = key >> FLAG_BITS;
	return (struct raw_frame){
		.kind = RAW_NATIVE,
		.exact = key >> 3 & 1,
		.guessed = key >> 2 & 1,
		.interpreter = key >> 1 & 1,
		.hidden = key & 1,
		.module = modules->modules[address >> OFFSET_BITS],
		.offset = address & ((UINT64_C(1) << OFFSET_BITS) - 1),
	};
}

/* Reads entries from blocks, which it frees as it leaves them. */
struct reader {
	struct leaf_block *block;
	uint32_t at;
	struct leaf leaf;
};

static uint64_t read_number(struct reader *reader)
{
	uint64_t value = 0;
	uint8_t byte;
	unsigned shift = 0;
	do {
		byte = reader->block->bytes[reader->at++];
		value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	return value;
}

static int64_t signed_of(uint64_t number)
{
	return (int64_t)(number >> 1 ^ -(number & 1));
}

static uint64_t number_of(int64_t value)
{
	return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

static bool read_leaf(struct reader *reader)
{
	while (reader->block && reader->at == reader->block->size) {
		struct leaf_block *left = reader->block;
		reader->block = left->next;
		reader->at = 0;
		free(left);
	}
	if (!reader->block)
		return false;
	const uint64_t step = read_number(reader);
	reader->leaf.key += step >> 1;
	reader->leaf.parent += (uint32_t)signed_of(read_number(reader));
	reader->leaf.count = step & 1 ? read_number(reader) : 1;
	return true;
}

struct writer {
	struct leaf_block *first, *block;
	struct leaf last;
	size_t count;
};

static void write_number(struct writer *writer, uint64_t value)
{
	struct leaf_block *block = writer->block;
	for (; value >= 0x80; value >>= 7)
		block->bytes[block->size++] = (uint8_t)(value | 0x80);
	block->bytes[block->size++] = (uint8_t)value;
}

static void write_leaf(struct writer *writer, const struct leaf *leaf)
{
	if (!writer->block || writer->block->size + ENTRY_BYTES > BLOCK_BYTES) {
		struct leaf_block *block = alloc_zeroed(1, sizeof(*block));
		*(writer->block ? &writer->block->next : &writer->first) = block;
		writer->block = block;
	}
	const bool many = leaf->count != 1;
	write_number(writer, (leaf->key - writer->last.key) << 1 | many);
	write_number(writer, number_of((int64_t)leaf->parent - (int64_t)writer->last.parent));
	if (many)
		write_number(writer, leaf->count);
	writer->last = *leaf;
	writer->count++;
}

static int compare(const struct leaf *a, const struct leaf *b)
{
	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	return a->parent < b->parent ? -1 : a->parent > b->parent;
}

static int by_key(const void *left, const void *right)
{
	return compare(left, right);
}

/* Sorts what is new; the same ones become one. */
static void sort_fresh(struct leaves *leaves)
{
	size_t kept = 0;
	if (leaves->fresh_count > 1)
		qsort(leaves->fresh, leaves->fresh_count, sizeof(*leaves->fresh), by_key);
	for (size_t i = 0; i < leaves->fresh_count; i++) {
		if (kept > 0 && compare(&leaves->fresh[kept - 1], &leaves->fresh[i]) == 0)
			leaves->fresh[kept - 1].count += leaves->fresh[i].count;
		else
			leaves->fresh[kept++] = leaves->fresh[i];
	}
	leaves->fresh_count = kept;
}

static void merge_fresh(struct leaves *leaves)
{
	struct reader reader = {.block = leaves->blocks};
	struct writer writer = {0};
	size_t next = 0;
	sort_fresh(leaves);
	bool more = read_leaf(&reader);
	while (more || next < leaves->fresh_count) {
		const struct leaf *fresh = &leaves->fresh[next];
		const int order = next == leaves->fresh_count ? -1
				  : !more		      ? 1
							      : compare(&reader.leaf, fresh);
		struct leaf leaf = order <= 0 ? reader.leaf : *fresh;
		if (order == 0)
			leaf.count += fresh->count;
		write_leaf(&writer, &leaf);
		next += order >= 0;
		if (order <= 0)
			more = read_leaf(&reader);
	}
	leaves->blocks = writer.first;
	leaves->block_count = writer.count;
	leaves->fresh_count = 0;
}

void leaves_add(struct leaves *leaves, uint32_t parent, uint64_t key, uint64_t samples)
{
	const size_t most = leaves->block_count / FRESH_SHARE;
	if (leaves->fresh_count >= (most > FRESH_LEAST ? most : FRESH_LEAST))
		merge_fresh(leaves);
	leaves->fresh = alloc_room(leaves->fresh, &leaves->fresh_capacity, leaves->fresh_count + 1,
				   sizeof(*leaves->fresh));
	leaves->fresh[leaves->fresh_count++] = (struct leaf){key, samples, parent};
}

void leaves_settle(struct leaves *leaves, struct frame_table *frames,
		   const struct module_table *modules, struct profile *tree)
{
	merge_fresh(leaves);
	struct reader reader = {.block = leaves->blocks};
	while (read_leaf(&reader)) {
		const struct raw_frame frame = unpack(reader.leaf.key, modules);
		profile_add_to(tree, reader.leaf.parent, frame_table_native(frames, &frame),
			       reader.leaf.count);
	}
	free(leaves->fresh);
	*leaves = (struct leaves){0};
}

size_t leaves_footprint(const struct leaves *leaves)
{
	size_t bytes = leaves->fresh_capacity * sizeof(*leaves->fresh);
	for (const struct leaf_block *block = leaves->blocks; block; block = block->next)
		bytes += sizeof(*block);
	return bytes;
}

void leaves_release(struct leaves *leaves)
{
	while (leaves->blocks) {
		struct leaf_block *block = leaves->blocks;
		leaves->blocks = block->next;
		free(block);
	}
	free(leaves->fresh);
	*leaves = (struct leaves){0};
}
