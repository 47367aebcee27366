/* SPDX-License-Identifier: MIT */
/* Whatever a person may take for a profile: JSON, folded stacks, compressed files. */
#include "tests/fuzz/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return fuzz_read("", data, size);
}
