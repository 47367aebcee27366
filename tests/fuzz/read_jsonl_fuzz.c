/* SPDX-License-Identifier: MIT */
/* Profiles as JSON Lines, and what is made of one that could be read. */
#include "tests/fuzz/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char begin[] =
		"{\"type\":\"meta\",\"schema\":\"precord-jsonl/1\",\"period_ns\":9}\n";
	return fuzz_read(begin, data, size);
}
