/* SPDX-License-Identifier: MIT */
/*
 * Names that tools have made of an author's: mypyc's, which tell the parts of one another, numba's,
 * Nuitka's, those of Rust and of bindings. Lines: where the functions were written, then symbols.
 */
#include "base/strbuf.h"
#include "names/names.h"
#include "profile/profile.h"
#include "tests/fuzz/fuzz.h"

static void check(bool found, const char *const *name)
{
	if (found && (!*name || !**name))
		abort();
}

static void read_symbol(struct interner *interner, struct names_mypyc *mypyc, const char *symbol,
			const char *file)
{
	const char *demangled = names_demangle(interner, symbol);
	struct names_author author;
	struct names_numba numba;
	check(names_mypyc_name(mypyc, symbol, &author), &author.function);
	check(names_author(interner, symbol, demangled, &author), &author.function);
	check(names_author(interner, demangled, symbol, &author), &author.function);
	(void)names_author(interner, symbol, NULL, &author);
	check(names_numba(interner, symbol, file, &numba), &numba.function);
	check(names_numba(interner, symbol, NULL, &numba), &numba.function);
	(void)names_nuitka(interner, symbol, file);
	(void)names_nuitka(interner, symbol, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { MAX_LINES = 64 };
	char *text = fuzz_text((struct fuzz_input){data, size}), *rest = text, *lines[MAX_LINES];
	const char *file = strsep(&rest, "\n");
	struct interner *interner = interner_new();
	struct names_mypyc *mypyc = names_mypyc_new();
	struct strbuf shown;
	size_t count = 0;
	strbuf_init(&shown);
	while (count < MAX_LINES && (lines[count] = strsep(&rest, "\n")))
		names_mypyc_add(mypyc, lines[count++]);
	for (size_t i = 0; i < count; i++) {
		read_symbol(interner, mypyc, lines[i], file);
		short_name_add(&shown, lines[i]);
	}
	strbuf_release(&shown);
	names_mypyc_free(mypyc);
	interner_free(interner);
	free(text);
	return 0;
}
