/* SPDX-License-Identifier: MIT */
/*
 * A module and its separate debug file, which is also the one that several share (dwz). The input:
 * a number N of 16 bits, N bytes of the debug file, the module. What tells files apart is left to
 * the input: of what is not the module's, nothing is used.
 */
#include "tests/fuzz/symbolize.h"

static int find_debug(const void *context, const struct build_id *id)
{
	return id->size ? fuzz_file(*(const struct fuzz_input *)context) : -1;
}

static void symbolize(struct fuzz_input image, const struct fuzz_input *debug, bool has_file)
{
	const struct symbolize_module module = {
		.path = "/fuzz/x.so",
		.fd = -1,
		.bytes = has_file ? image.at : NULL,
		.bytes_size = has_file ? image.size : 0,
		.build_id = {.bytes = {1, 2, 3, 4, 5, 6, 7, 8}, .size = 8},
		.root_fd = -1,
		.find_debug = find_debug,
		.context = debug,
	};
	fuzz_symbolize(&module, image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	const struct fuzz_input debug = fuzz_part(&input, fuzz_number(&input, 2));
	symbolize(input, &debug, true);
	symbolize(input, &debug, false); /* the module is not here */
	return 0;
}
