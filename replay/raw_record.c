/* SPDX-License-Identifier: MIT */
#include "replay/raw_record.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "capture/format.h"

bool raw_record_ranges(struct capture_reader *file, struct raw_sample *raw, struct error *error)
{
	uint64_t spans = capture_get(file, 4);
	uint64_t count = capture_get(file, 4);
	for (uint64_t i = 0; i < count && !file->overrun; i++) {
		remote_addr address = capture_get(file, 8);
		size_t size;
		const void *bytes = capture_get_bytes(file, &size);
		uint8_t *copy = i < spans ? raw_sample_add_span(raw, address, size)
					  : raw_sample_add(raw, address, size);
		if (!copy)
			return capture_damaged(file, error);
		memcpy(copy, bytes, size);
	}
	return !file->overrun || capture_damaged(file, error);
}

static void read_struct(struct capture_reader *file, void *value, size_t size)
{
	size_t got;
	const void *bytes = capture_get_bytes(file, &got);
	if (got == size)
		memcpy(value, bytes, size);
	else
		file->overrun = true;
}

/* What does not fit is left out. */
static void read_kernel(struct capture_reader *file, struct raw_sample *raw)
{
	size_t size;
	const void *bytes = capture_get_bytes(file, &size);
	if (size >= sizeof(raw->kernel))
		size = sizeof(raw->kernel) - 1;
	if (size > 0)
		memcpy(raw->kernel, bytes, size);
	raw->kernel[size] = '\0';
}

static void read_native(struct capture_reader *file, struct raw_sample *raw)
{
	raw->has_native = capture_get(file, 1);
	raw->native.end = (enum unwind_end)capture_get(file, 4);
	size_t size;
	const void *frames = capture_get_bytes(file, &size);
	size_t number = size / sizeof(*raw->native.frames);
	raw->native.frames = alloc_room(raw->native.frames, &raw->native.capacity, number + 1,
					sizeof(*raw->native.frames));
	memcpy(raw->native.frames, frames, number * sizeof(*raw->native.frames));
	raw->native.count = number;
}

bool raw_record_read(struct capture_reader *file, struct line_memory *lines,
		     const struct python_runtime *runtime, struct raw_sample *raw,
		     struct error *error)
{
	raw_sample_reset(raw);
	raw->tid = (pid_t)capture_get(file, 4);
	raw->time_ns = capture_get(file, 8);
	read_struct(file, &raw->registers, sizeof(raw->registers));
	raw->stopped = capture_get(file, 1);
	raw->who.maybe_python = capture_get(file, 1);
	raw->store.brings_codes = true;
	read_struct(file, &raw->wait, sizeof(raw->wait));
	read_kernel(file, raw);
	if (capture_get(file, 1))
		raw->runtime = runtime;
	raw->who.tstate_count = (uint32_t)capture_get(file, 4);
	if (raw->who.tstate_count > RAW_MAX_TSTATES)
		return capture_damaged(file, error);
	for (uint32_t i = 0; i < raw->who.tstate_count; i++) {
		const uint64_t state = capture_get(file, 8);
		raw->who.tstates[i] = state & ~UINT64_C(1);
		raw->who.claimed |= (state & 1) << i;
	}
	raw->who.thread_id = capture_get(file, 8);
	raw->who.namespace_tid = (pid_t)capture_get(file, 4);
	read_native(file, raw);
	if (file->type == CAPTURE_SAMPLE)
		return raw_record_ranges(file, raw, error);
	return line_memory_read(lines, file, raw) || capture_damaged(file, error);
}
