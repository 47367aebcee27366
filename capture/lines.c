/* SPDX-License-Identifier: MIT */
/*
 * The bytes of a sample against those of the samples before: stacks of one program are mostly what
 * they were, and what has changed was so some time before. By lines of 64 bytes at multiples of 64:
 * a line is as it was last at its address, or as it was once there, or new.
 *
 * What of a line no range has is zeros. Both sides forget everything at the same moment.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "capture/capture.h"

enum { LINE = 64, LINES_LIMIT = 1 << 17 };

/* All that was seen at one address. */
struct line_block {
	uint32_t *versions; /* numbers of lines */
	size_t count, capacity, current;
};

/* Part of a range that is in one line. */
struct piece {
	remote_addr block;
	size_t skip, size;
};

void line_memory_init(struct line_memory *memory)
{
	*memory = (struct line_memory){0};
}

static void forget(struct line_memory *memory)
{
	for (size_t i = 0; i < memory->block_count; i++)
		free(memory->blocks[i].versions);
	memory->block_count = memory->line_count = 0;
	table_clear(&memory->by_address);
	table_clear(&memory->by_content);
}

void line_memory_release(struct line_memory *memory)
{
	forget(memory);
	table_release(&memory->by_address);
	table_release(&memory->by_content);
	free(memory->blocks);
	free(memory->bytes);
}

static struct piece piece_at(remote_addr address, size_t left)
{
	const size_t skip = address % LINE, room = LINE - skip;
	return (struct piece){address - skip, skip, left < room ? left : room};
}

static struct line_block *block_at(struct line_memory *memory, remote_addr address)
{
	uint32_t index;
	if (table_find(&memory->by_address, address, 0, &index))
		return &memory->blocks[index];
	memory->blocks = alloc_room(memory->blocks, &memory->block_capacity,
				    memory->block_count + 1, sizeof(*memory->blocks));
	table_put(&memory->by_address, address, 0, (uint32_t)memory->block_count);
	memory->blocks[memory->block_count] = (struct line_block){0};
	return &memory->blocks[memory->block_count++];
}

static const uint8_t *line_of(const struct line_memory *memory, const struct line_block *block,
			      size_t version)
{
	return memory->bytes + block->versions[version] * (size_t)LINE;
}

/* The piece's bytes are the newest of its block. */
static void add_line(struct line_memory *memory, struct line_block *block,
		     const struct piece *piece, const uint8_t *bytes)
{
	memory->bytes =
		alloc_room(memory->bytes, &memory->line_capacity, memory->line_count + 1, LINE);
	uint8_t *const line = memory->bytes + memory->line_count * LINE;
	memset(line, 0, LINE);
	memcpy(line + piece->skip, bytes, piece->size);
	block->versions = alloc_room(block->versions, &block->capacity, block->count + 1,
				     sizeof(*block->versions));
	block->versions[block->count] = (uint32_t)memory->line_count++;
	block->current = block->count++;
}

/* ---- writing ---- */

static void put_number(struct strbuf *out, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		strbuf_add_char(out, (char)(value | 0x80));
	strbuf_add_char(out, (char)value);
}

static bool is_current(struct line_memory *memory, const struct piece *piece, const uint8_t *bytes)
{
	uint32_t index;
	if (!table_find(&memory->by_address, piece->block, 0, &index))
		return false;
	const struct line_block *block = &memory->blocks[index];
	return memcmp(line_of(memory, block, block->current) + piece->skip, bytes, piece->size) ==
	       0;
}

static void write_line(struct line_memory *memory, const struct piece *piece, const uint8_t *bytes,
		       struct strbuf *out)
{
	struct line_block *const block = block_at(memory, piece->block);
	uint8_t line[LINE] = {0};
	uint32_t version;
	memcpy(line + piece->skip, bytes, piece->size);
	const uint64_t hash = hash_bytes(line, LINE);
	if (table_find(&memory->by_content, hash, piece->block, &version) &&
	    memcmp(line_of(memory, block, version), line, LINE) == 0) {
		put_number(out, version + UINT64_C(1));
		block->current = version;
		return;
	}
	put_number(out, 0);
	strbuf_add(out, bytes, piece->size);
	table_put(&memory->by_content, hash, piece->block, (uint32_t)block->count);
	add_line(memory, block, piece, bytes);
}

static void write_range(struct line_memory *memory, remote_addr address, const uint8_t *bytes,
			size_t size, struct strbuf *out)
{
	uint64_t same = 0;
	for (size_t done = 0; done < size;) {
		const struct piece piece = piece_at(address + done, size - done);
		if (is_current(memory, &piece, bytes + done)) {
			same++;
		} else {
			put_number(out, same);
			write_line(memory, &piece, bytes + done, out);
			same = 0;
		}
		done += piece.size;
	}
	if (same)
		put_number(out, same);
}

void line_memory_write(struct line_memory *memory, const struct raw_store *store,
		       struct strbuf *out)
{
	remote_addr end = 0;
	if (memory->line_count > LINES_LIMIT)
		forget(memory);
	put_number(out, store->span_count);
	put_number(out, store->range_count);
	for (size_t i = 0; i < store->range_count; i++) {
		const struct raw_range *range = &store->ranges[i];
		const uint64_t step = range->address - end;
		put_number(out, step >> 63 ? ~(step << 1) : step << 1);
		put_number(out, range->size);
		write_range(memory, range->address, store->bytes + range->offset, range->size, out);
		end = range->address + range->size;
	}
}

/* ---- reading ---- */

static bool read_line(struct line_memory *memory, struct capture_reader *reader,
		      const struct piece *piece, uint8_t *bytes)
{
	struct line_block *const block = block_at(memory, piece->block);
	const uint64_t version = capture_number(reader);
	if (version > block->count)
		return false;
	if (version) {
		block->current = version - 1;
		memcpy(bytes, line_of(memory, block, block->current) + piece->skip, piece->size);
		return true;
	}
	const void *got = capture_take(reader, piece->size);
	if (!got)
		return false;
	memcpy(bytes, got, piece->size);
	add_line(memory, block, piece, bytes);
	return true;
}

static bool copy_current(struct line_memory *memory, const struct piece *piece, uint8_t *bytes)
{
	uint32_t index;
	if (!table_find(&memory->by_address, piece->block, 0, &index) ||
	    !memory->blocks[index].count)
		return false;
	const struct line_block *block = &memory->blocks[index];
	memcpy(bytes, line_of(memory, block, block->current) + piece->skip, piece->size);
	return true;
}

static bool read_range(struct line_memory *memory, struct capture_reader *reader,
		       remote_addr address, uint8_t *bytes, size_t size)
{
	for (size_t done = 0; done < size;) {
		uint64_t same = capture_number(reader);
		for (; same > 0 && done < size; same--) {
			const struct piece piece = piece_at(address + done, size - done);
			if (!copy_current(memory, &piece, bytes + done))
				return false;
			done += piece.size;
		}
		if (same > 0 || reader->overrun)
			return false;
		if (done == size)
			break;
		const struct piece piece = piece_at(address + done, size - done);
		if (!read_line(memory, reader, &piece, bytes + done))
			return false;
		done += piece.size;
	}
	return true;
}

bool line_memory_read(struct line_memory *memory, struct capture_reader *reader,
		      struct raw_sample *raw)
{
	remote_addr end = 0;
	if (memory->line_count > LINES_LIMIT)
		forget(memory);
	const uint64_t spans = capture_number(reader), count = capture_number(reader);
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t step = capture_number(reader), size = capture_number(reader);
		const remote_addr address = end + (step & 1 ? ~(step >> 1) : step >> 1);
		if (reader->overrun || size > UINT32_MAX)
			return false;
		uint8_t *bytes = i < spans ? raw_sample_add_span(raw, address, size)
					   : raw_sample_add(raw, address, size);
		if (!bytes || !read_range(memory, reader, address, bytes, size))
			return false;
		end = address + size;
	}
	return true;
}
