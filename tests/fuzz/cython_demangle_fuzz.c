/* SPDX-License-Identifier: MIT */
/* Lines: the module's name, then symbols; each is read alone and beside the others. */
#include "cython/cython.h"
#include "tests/fuzz/fuzz.h"

static void demangle(struct interner *interner, const struct cython_symbols *symbols,
		     const char *symbol, const char *module)
{
	const struct cython_name alone = cython_demangle(interner, symbol, module);
	const struct cython_name name = cython_demangle_in(interner, symbols, symbol, module);

	if ((alone.kind == CYTHON_NOT) != (name.kind == CYTHON_NOT))
		abort();
	if (name.kind == CYTHON_FUNCTION && (!name.name || !*name.name))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { MAX_LINES = 64 };
	char *text = fuzz_text((struct fuzz_input){data, size}), *rest = text, *lines[MAX_LINES];
	const char *module = strsep(&rest, "\n");
	struct interner *interner = interner_new();
	struct cython_symbols *symbols = cython_symbols_new();
	size_t count = 0;

	while (count < MAX_LINES && (lines[count] = strsep(&rest, "\n")))
		cython_symbols_add(symbols, lines[count++]);
	for (size_t i = 0; i < count; i++)
		demangle(interner, symbols, lines[i], module);
	cython_module_of_path(interner, module);
	cython_symbols_free(symbols);
	interner_free(interner);
	free(text);
	return 0;
}
