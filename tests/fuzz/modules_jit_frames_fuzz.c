/* SPDX-License-Identifier: MIT */
/*
 * Unwind tables registered with libgcc: the input is all of a target's memory, over and over, and
 * its first bytes are libgcc's own data.
 */
#include "modules/jit.h"
#include "tests/fuzz/fuzz.h"

#define START UINT64_C(0x1000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct fuzz_memory memory = fuzz_memory_of((struct fuzz_input){data, size});
	struct jit_frames frames = {.libgcc_registry_count = 1};

	if (!size)
		return 0;
	frames.libgcc_registries[0] = (struct jit_span){START - START % size + size, 128};
	jit_frames_read(&frames, &memory.reader, true);
	for (size_t i = 0; i < frames.ranges.count && i < 16; i++) {
		const struct code_range *range = &frames.ranges.ranges[i];
		struct jit_table table = {0};
		struct jit_image image;
		if (!jit_frames_copy(&memory.reader, range->value, &table))
			continue;
		const struct jit_function function = {range->start, range->end - range->start, "",
						      table};
		jit_image_of_function(&memory.reader, &function, &image);
		free(image.bytes);
		free(table.bytes);
	}
	jit_frames_release(&frames);
	return 0;
}
