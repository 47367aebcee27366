/* SPDX-License-Identifier: MIT */
/* What cyfilt reads from its standard input. */
int cyfilt_main(int argc, char **argv);
#define main cyfilt_main
#include "src/cyfilt.c"
#undef main

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct filter filter = {.module = "pkg.mod", .strings = interner_new()};
	char *text = fuzz_text((struct fuzz_input){data, size});
	static FILE *nowhere;
	FILE *usual = stdout;

	if (!nowhere)
		nowhere = fopen("/dev/null", "w");
	stdout = nowhere;
	filter_text(&filter, text, size);
	stdout = usual;
	interner_free(filter.strings);
	free(text);
	return 0;
}
