/* SPDX-License-Identifier: MIT */
/* What the other symbols of a module say of one: see symbols.c. */
#include "cython/internal.h"

static const struct piece nothing = {"", 0};

bool symbols_find_generator(const struct cython_symbols *symbols, const struct scopes *scopes,
			    const struct reading *reading, struct piece *name)
{
	uint32_t index, ordinal = reading->ordinal;
	size_t depth = reading->depth;
	if (!symbols || !ordinal)
		return false;
	struct piece front = scopes_front(scopes, depth);
	if (table_find(&symbols->names, symbols_identity(symbols, "pw", front, nothing),
		       ordinal - 1, &index) ||
	    (ordinal >= 2 &&
	     table_find(&symbols->names, symbols_identity(symbols, "pf", front, nothing),
			ordinal - 2, &index))) {
		*name = piece_of(symbols->found[index].name);
		return true;
	}
	/* A property's getter is compiled into its getprop. */
	if (ordinal != 2 || !depth ||
	    !table_find(&symbols->readings,
			symbols_identity(symbols, "getprop", scopes_front(scopes, depth - 1),
					 scopes->names[depth - 1]),
			0, &index))
		return false;
	*name = piece_of("__get__");
	return true;
}

bool symbols_find_lambda(const struct cython_symbols *symbols, struct piece leaf,
			 struct piece *wrapper)
{
	uint32_t index;
	if (!symbols || !table_find(&symbols->lambdas,
				    symbols_identity(symbols, "lambda", nothing, leaf), 0, &index))
		return false;
	*wrapper = piece_of(symbols->found[index].name);
	return true;
}

bool symbols_find_fused(const struct cython_symbols *symbols, struct piece front,
			const struct reading *reading, struct piece *fused)
{
	uint32_t index;
	if (!symbols || !table_find(&symbols->wrappers,
				    symbols_identity(symbols, "fused", front, reading->leaf),
				    reading->ordinal + 1, &index))
		return false;
	if (symbols->typed)
		*fused = piece_of(symbols->found[index].name);
	return true;
}

bool symbols_fused_label(const struct cython_symbols *symbols, const char *base,
			 struct piece indices, struct strbuf *label)
{
	return symbols && symbols->typed && fused_label(&symbols->fused, base, indices, label);
}
