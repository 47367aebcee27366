/* SPDX-License-Identifier: MIT */
/* What is copied of a stack whose pointer the thread has chosen: where the other stack begins. */
#include "copy/internal.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	const remote_addr start = fuzz_number(&input, 8), top = fuzz_number(&input, 8);
	const uint64_t into = fuzz_number(&input, 2);
	struct raw_sample *raw = raw_sample_new();
	raw_sample_reset(raw);
	raw->no_live_reads = true;
	uint8_t *bytes = start <= UINT64_MAX - input.size
				 ? raw_sample_add(raw, start, input.size)
				 : NULL;
	if (bytes)
		memcpy(bytes, input.at, input.size);
	(void)signal_stack_left(raw, start, top);
	(void)signal_stack_left(raw, start + into, top);
	raw_sample_free(raw);
	return 0;
}
