/* SPDX-License-Identifier: MIT */
/* Mangled names of C++, Rust, D ... */
#include "names/names.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *name = fuzz_text((struct fuzz_input){data, size});
	struct interner *interner = interner_new();

	if (!names_demangle(interner, name))
		abort();
	interner_free(interner);
	free(name);
	return 0;
}
