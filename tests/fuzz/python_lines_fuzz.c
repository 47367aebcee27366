/* SPDX-License-Identifier: MIT */
/* Line tables of every version: the first byte is the format, the next four the instruction. */
#include "python/internal.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	const enum python_line_format format =
		(enum python_line_format)(fuzz_number(&input, 1) % 4);
	const int32_t instruction = (int32_t)fuzz_number(&input, 4);
	const int32_t first_line = (int32_t)fuzz_number(&input, 4);
	uint8_t *table = malloc(input.size ? input.size : 1);

	memcpy(table, input.at, input.size);
	const int32_t line = python_line_of(format, table, input.size, first_line, instruction);
	const struct python_position position =
		python_position_of(format, table, input.size, first_line, instruction);
	if (position.line != line)
		abort();
	free(table);
	return 0;
}
