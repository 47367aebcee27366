/* SPDX-License-Identifier: MIT */
/* Whether the other half of a wrapper or an implementation is there. */
#include "cython/internal.h"

/* A string's number: equal for equal strings. */
uint64_t symbols_identity(const struct cython_symbols *symbols, const char *family,
			  struct piece scopes, struct piece name)
{
	_cleanup_strbuf_ struct strbuf key;
	strbuf_init(&key);
	strbuf_add_text(&key, family);
	strbuf_add(&key, scopes.text, scopes.size);
	strbuf_add_char(&key, ' ');
	strbuf_add(&key, name.text, name.size);
	return (uintptr_t)intern_bytes(symbols->interner, key.text, key.size);
}

bool symbols_have_twin(const struct cython_symbols *symbols, enum leaf_rule rule,
		       struct piece front, const struct reading *reading)
{
	uint32_t value;
	bool wrapper = rule == LEAF_WRAPPER;
	if (!symbols || (wrapper && !reading->ordinal))
		return false;
	return table_find(&symbols->readings,
			  symbols_identity(symbols, wrapper ? "pf" : "pw", front, reading->leaf),
			  wrapper ? reading->ordinal - 1 : reading->ordinal + 1, &value);
}
