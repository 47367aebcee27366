/* SPDX-License-Identifier: MIT */
/* ELF files on disk: as libelf reads them, and compressed DWARF that is inflated in parts. */
#include "tests/fuzz/symbolize.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct fuzz_input file = {data, size};
	const struct symbolize_module module = {
		.path = "/fuzz/x.so", .fd = fuzz_file(file), .root_fd = -1};

	fuzz_symbolize(&module, file);
	close(module.fd);
	return 0;
}
