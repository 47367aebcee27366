/* SPDX-License-Identifier: MIT */
/*
 * What CPython 3.13 and later tell of themselves: the first byte chooses the row of the layouts,
 * the next eight are the version, the rest is memory. What is accepted is then used to read
 * threads.
 */
#include "python/internal.h"
#include "tests/fuzz/fuzz.h"

enum { RUNTIME = 0x10000 };

static void read_threads(const struct python_layout *layout, const struct fuzz_memory *memory)
{
	struct python_runtime *runtime = calloc(1, sizeof(*runtime));
	struct python_thread *threads = NULL;
	remote_addr tstates[4];
	size_t count = 0;
	bool all;
	struct error error;

	runtime->last_active = calloc(1, sizeof(*runtime->last_active));
	runtime->layout = *layout;
	runtime->address = RUNTIME;
	runtime->head = RUNTIME + layout->runtime_interpreters_head;
	python_runtime_plan(runtime);
	if (python_threads(runtime, &memory->reader, &threads, &count, &error) &&
	    count > MAX_THREADS)
		abort();
	python_threads_newest(runtime, &memory->reader, 5, 6, tstates, 4, &all);
	char name[PYTHON_NAME_SIZE];
	if (count)
		python_thread_name(runtime, &memory->reader, &threads[0], name);
	free(threads);
	python_runtime_free(runtime);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	const uint8_t choice = (uint8_t)fuzz_number(&input, 1);
	const struct python_layout *row = python_layout_find(3, 13 + choice % 4, choice & 0x80);
	const uint32_t version = (uint32_t)fuzz_number(&input, 8);
	struct error error;

	if (!row)
		return 0;
	struct python_layout layout = *row;
	/* At the address of the struct the memory begins anew. */
	struct fuzz_memory memory = fuzz_memory_of(input);
	const remote_addr start = input.size ? RUNTIME - RUNTIME % input.size : RUNTIME;
	if (!layout.debug_offsets ||
	    python_debug_offsets_apply(&layout, &memory.reader, start, version, &error))
		read_threads(&layout, &memory);
	return 0;
}
