/* SPDX-License-Identifier: MIT */
/*
 * Stacks that end at a native code address, as (node of the caller, address). A program that
 * computes is met at an instruction that it was never met at before for as long as it is recorded;
 * as frames and nodes of the call tree those would take some 70 bytes each. Here they take four to
 * six: what is new is gathered, sorted, and merged into one sequence in order of address and node,
 * each written as what it differs by from the one before. There are some such sequences, so that
 * none takes long to be written anew. All of it goes to the call tree in the end.
 */
#include "frames/frames.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/table.h"

/* A key: the module's number, the ELF address, what else tells frames apart; above all: 0. */
enum {
	FLAG_BITS = 4,
	OFFSET_BITS = 40,
	MODULE_BITS = 16,
};

enum {
	BLOCK_BYTES = 4 << 10,
	ENTRY_BYTES = 10 + 5 + 10, /* of the longest one */
	FRESH_LEAST = 64,
	FRESH_SHARE = 64, /* so many times that are in blocks when those are written anew */
	NEAR_BITS = 8,	  /* addresses that differ in these alone are kept in one sequence */
};

struct leaf {
	uint64_t key;
	uint64_t count;
	uint32_t parent;
};

struct fresh_leaf {
	uint64_t key;
	uint32_t parent, count;
};

struct leaf_block {
	struct leaf_block *next;
	uint32_t size;
	uint8_t bytes[BLOCK_BYTES];
};

bool leaf_pack(const struct raw_frame *frame, uint64_t *key)
{
	/* A key has no room for where a function begins; its FDE or symbol tell it again. */
	if (frame->kind != RAW_NATIVE || frame->idle || !frame->module || frame->analysed)
		return false;
	const uint64_t offset = frame->offset - frame->module->base;
	if (frame->module->id >> MODULE_BITS || offset >> OFFSET_BITS)
		return false;
	const uint64_t flags = (uint64_t)frame->exact << 3 | (uint64_t)frame->guessed << 2 |
			       (uint64_t)frame->interpreter << 1 | (uint64_t)frame->hidden;
	const uint64_t address = (uint64_t)frame->module->id << OFFSET_BITS | offset;
	*key = address << FLAG_BITS | flags;
	return true;
}

static struct raw_frame unpack(uint64_t key, const struct module_table *modules)
{
	const uint64_t address = key >> FLAG_BITS;
	struct module *module = modules->modules[address >> OFFSET_BITS];
	return (struct raw_frame){
		.kind = RAW_NATIVE,
		.exact = key >> 3 & 1,
		.guessed = key >> 2 & 1,
		.interpreter = key >> 1 & 1,
		.hidden = key & 1,
		.module = module,
		.offset = module->base + (address & ((UINT64_C(1) << OFFSET_BITS) - 1)),
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

static int compare(uint64_t key, uint32_t parent, const struct fresh_leaf *fresh)
{
	if (key != fresh->key)
		return key < fresh->key ? -1 : 1;
	return parent < fresh->parent ? -1 : parent > fresh->parent;
}

static int by_key(const void *left, const void *right)
{
	const struct fresh_leaf *leaf = left;
	return compare(leaf->key, leaf->parent, right);
}

/* The next one of those that are new and those in blocks; equal ones are one. */
static bool take_least(struct leaf_run *run, struct reader *reader, bool *more, size_t *next,
		       struct leaf *leaf)
{
	const bool has_fresh = *next < run->fresh_count;
	if (!has_fresh && !*more)
		return false;
	const struct fresh_leaf *first = has_fresh ? &run->fresh[*next] : NULL;
	if (*more && (!first || compare(reader->leaf.key, reader->leaf.parent, first) <= 0)) {
		*leaf = reader->leaf;
		*more = read_leaf(reader);
	} else {
		*leaf = (struct leaf){.key = first->key, .parent = first->parent};
	}
	for (;
	     *next < run->fresh_count && compare(leaf->key, leaf->parent, &run->fresh[*next]) == 0;
	     ++*next)
		leaf->count += run->fresh[*next].count;
	return true;
}

static void merge_fresh(struct leaf_run *run)
{
	struct reader reader = {.block = run->blocks};
	struct writer writer = {0};
	struct leaf leaf;
	size_t next = 0;
	if (run->fresh_count > 1)
		qsort(run->fresh, run->fresh_count, sizeof(*run->fresh), by_key);
	bool more = read_leaf(&reader);
	while (take_least(run, &reader, &more, &next, &leaf))
		write_leaf(&writer, &leaf);
	run->blocks = writer.first;
	run->block_count = writer.count;
	run->fresh_count = 0;
}

static void add(struct leaf_run *run, const struct fresh_leaf *leaf)
{
	const size_t most = run->block_count / FRESH_SHARE;
	if (run->fresh_count >= (most > FRESH_LEAST ? most : FRESH_LEAST))
		merge_fresh(run);
	run->fresh = alloc_room(run->fresh, &run->fresh_capacity, run->fresh_count + 1,
				sizeof(*run->fresh));
	run->fresh[run->fresh_count++] = *leaf;
}

void leaves_add(struct leaves *leaves, uint32_t parent, uint64_t key, uint64_t samples)
{
	const uint64_t near = key >> (FLAG_BITS + NEAR_BITS);
	struct leaf_run *run = &leaves->runs[hash_pair(near, 0) % LEAF_RUNS];
	while (samples > 0) {
		const uint32_t count = samples < UINT32_MAX ? (uint32_t)samples : UINT32_MAX;
		add(run, &(struct fresh_leaf){key, parent, count});
		samples -= count;
	}
}

void leaves_settle(struct leaves *leaves, struct frame_table *frames,
		   const struct module_table *modules, struct profile *tree)
{
	for (size_t i = 0; i < LEAF_RUNS; i++) {
		struct leaf_run *run = &leaves->runs[i];
		merge_fresh(run);
		struct reader reader = {.block = run->blocks};
		while (read_leaf(&reader)) {
			const struct raw_frame frame = unpack(reader.leaf.key, modules);
			profile_add_to(tree, reader.leaf.parent, frame_table_native(frames, &frame),
				       reader.leaf.count);
		}
		free(run->fresh);
		*run = (struct leaf_run){0};
	}
}

size_t leaves_footprint(const struct leaves *leaves)
{
	size_t bytes = 0;
	for (size_t i = 0; i < LEAF_RUNS; i++) {
		const struct leaf_run *run = &leaves->runs[i];
		bytes += run->fresh_capacity * sizeof(*run->fresh);
		for (const struct leaf_block *block = run->blocks; block; block = block->next)
			bytes += sizeof(*block);
	}
	return bytes;
}

void leaves_release(struct leaves *leaves)
{
	for (size_t i = 0; i < LEAF_RUNS; i++) {
		struct leaf_run *run = &leaves->runs[i];
		while (run->blocks) {
			struct leaf_block *block = run->blocks;
			run->blocks = block->next;
			free(block);
		}
		free(run->fresh);
	}
	*leaves = (struct leaves){0};
}
