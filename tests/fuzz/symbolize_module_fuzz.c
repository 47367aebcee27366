/* SPDX-License-Identifier: MIT */
/* ELF files in memory: symbol tables, FDEs, DWARF, what compresses them. */
#include "tests/fuzz/symbolize.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct symbolize_module module = {
		.path = "/fuzz/x.so", .fd = -1, .bytes = data, .bytes_size = size, .root_fd = -1};

	fuzz_symbolize(&module, (struct fuzz_input){data, size});
	return 0;
}
