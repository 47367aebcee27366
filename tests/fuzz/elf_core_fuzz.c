/* SPDX-License-Identifier: MIT */
/* A core file, packed or not: what is read of it is within it, and in order. */
#include "elf/core_file.h"
#include "tests/fuzz/fuzz.h"

enum { UNPACKED = 1 << 20 };

static void check(const struct core_file *core)
{
	uint64_t end = 0;
	uint8_t bytes[64];
	for (size_t i = 0; i < core->segment_count; i++) {
		const struct core_segment *const segment = &core->segments[i];
		if (segment->start < end || segment->start >= segment->end ||
		    segment->file_size > segment->dumped ||
		    core_file_segment(core, segment->start) != segment ||
		    core_file_read(core, segment->start, bytes, sizeof(bytes)) > sizeof(bytes))
			abort();
		end = segment->end;
	}
	end = 0;
	for (size_t i = 0; i < core->mapping_count; i++) {
		const struct core_mapping *const mapping = &core->mappings[i];
		if (mapping->start < end || mapping->start >= mapping->end || !mapping->file ||
		    mapping->file > core->mapping_count || !memchr(mapping->path, 0, 1 << 20) ||
		    core_file_mapping(core, mapping->end - 1) != mapping)
			abort();
		end = mapping->end;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct core_file *core;
	struct error error;
	bool cut = false;
	char first = 0;
	int fd = fuzz_file((struct fuzz_input){data, size});
	/* Within what is packed may be another, without that limit. */
	if (!core_unpack(&fd, UNPACKED, &cut, &error) || pread(fd, &first, 1, 0) != 1 ||
	    first != 0x7f) {
		close(fd);
		return 0;
	}
	if (!core_file_open(fd, &core, &error))
		return 0;
	if (!core->thread_count)
		abort();
	check(core);
	core_file_free(core);
	return 0;
}
