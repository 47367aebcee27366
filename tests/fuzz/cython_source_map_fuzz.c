/* SPDX-License-Identifier: MIT */
/* Generated C files: the first four bytes are a line, the rest is the file. */
#include "cython/cython.h"
#include "tests/fuzz/fuzz.h"

static int open_input(void *context, const char *path)
{
	(void)path;
	return fuzz_file(*(const struct fuzz_input *)context);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	const int line = (int)fuzz_number(&input, 4);
	struct interner *interner = interner_new();
	struct cython_sources *sources = cython_sources_new(interner, open_input, &input);
	const struct cython_name name = cython_demangle(interner, "__pyx_pw_3mod_1f", "mod");
	struct cython_place place = {.c_file = "mod.c",
				     .directory = "/fuzz",
				     .extension = "/fuzz/mod.so",
				     .c_line = line};
	struct cython_line found;

	cython_map_line(sources, NULL, &place, &found);
	for (int i = 0; i < 100; i++) {
		place.symbol = i % 2 ? "__pyx_pw_3mod_1f" : NULL;
		place.c_line = i;
		place.declared = i / 2;
		if (cython_map_line(sources, &name, &place, &found) &&
		    (found.line <= 0 || !*found.file))
			abort();
	}
	cython_sources_free(sources);
	interner_free(interner);
	return 0;
}
