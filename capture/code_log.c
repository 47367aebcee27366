/* SPDX-License-Identifier: MIT */
/* The code that a decoder reads from the target, kept for a capture; and read from one. */
#include <stdlib.h>

#include "base/alloc.h"
#include "capture/capture.h"

enum { CODE_LIMIT = (16 << 20) / BLOCKS_STEP };

static void keep(struct code_log *log, remote_addr address, const uint8_t *bytes)
{
	const size_t before = log->blocks.count;
	uint32_t index;
	if ((before == CODE_LIMIT && !blocks_has(&log->blocks, address)) ||
	    !blocks_put(&log->blocks, address, bytes) ||
	    !table_find(&log->blocks.ids, address, 0, &index))
		return;
	log->is_fresh = alloc_room(log->is_fresh, &log->flag_capacity, log->blocks.count, 1);
	if (index < before && log->is_fresh[index])
		return;
	log->is_fresh[index] = 1;
	log->fresh = alloc_room(log->fresh, &log->fresh_capacity, log->fresh_count + 1,
				sizeof(*log->fresh));
	log->fresh[log->fresh_count++] = index;
}

void code_log_written(struct code_log *log)
{
	for (size_t i = 0; i < log->fresh_count; i++)
		log->is_fresh[log->fresh[i]] = 0;
	log->fresh_count = 0;
}

/* Whole blocks are as readable as a part of them: pages hold many. */
static bool read_code(const struct memory_reader *reader, remote_addr address, void *buffer,
		      size_t size, struct error *error)
{
	struct code_log *const log = (struct code_log *)(uintptr_t)reader;
	if (size == 0 || address > UINT64_MAX - size)
		return error_set(error, ERROR_ABSENT, "no code is there");
	if (log->live) {
		const remote_addr start = block_of(address);
		const size_t whole = block_of(address + size - 1) + BLOCKS_STEP - start;
		uint8_t *const bytes = alloc_zeroed(whole, 1);
		const bool well = memory_read(log->live, start, bytes, whole, error);
		for (size_t at = 0; well && at < whole; at += BLOCKS_STEP)
			keep(log, start + at, bytes + at);
		if (well)
			memcpy(buffer, bytes + (address - start), size);
		free(bytes);
		return well;
	}
	return blocks_read(&log->blocks, address, buffer, size) ||
	       error_set(error, ERROR_ABSENT, "nobody has read this code");
}

void code_log_init(struct code_log *log, const struct memory_reader *live)
{
	*log = (struct code_log){.reader = {.read = read_code}, .live = live};
}

void code_log_release(struct code_log *log)
{
	blocks_release(&log->blocks);
	free(log->fresh);
	free(log->is_fresh);
}
