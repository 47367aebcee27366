/* SPDX-License-Identifier: MIT */
/*
 * The Cython names of one module's symbol table, as far as one symbol's reading depends on
 * another's. Cython numbers a function's parts one after the other (Symtab.py, next_id): wrapper
 * pw has its implementation's (pf) number + 1, a generator body (gb) its wrapper's + 1. So the
 * reading of a pw is right for which a pf of that number and name exists, and the name of a
 * generator is that of the wrapper before it.
 */
#include "cython/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/table.h"

enum { SYMBOL_COUNT_LIMIT = 1 << 20 };

struct cython_symbols *cython_symbols_new(void)
{
	struct cython_symbols *symbols = alloc_zeroed(1, sizeof(*symbols));
	symbols->interner = interner_new();
	table_init(&symbols->readings);
	table_init(&symbols->names);
	table_init(&symbols->lambdas);
	table_init(&symbols->wrappers);
	fused_init(&symbols->fused, symbols->interner);
	return symbols;
}

void cython_symbols_free(struct cython_symbols *symbols)
{
	if (!symbols)
		return;
	interner_free(symbols->interner);
	table_release(&symbols->readings);
	table_release(&symbols->names);
	table_release(&symbols->lambdas);
	table_release(&symbols->wrappers);
	fused_release(&symbols->fused);
	free(symbols->mangled);
	free(symbols->found);
	free(symbols);
}

static const struct piece nothing = {"", 0};

static void add_name(struct cython_symbols *symbols, struct table *table, uint64_t first,
		     uint32_t ordinal, struct piece name, bool whole)
{
	uint32_t index;
	if (table_find(table, first, ordinal, &index) && (symbols->found[index].whole || !whole))
		return;
	symbols->found = alloc_room(symbols->found, &symbols->found_room, symbols->found_count + 1,
				    sizeof(*symbols->found));
	symbols->found[symbols->found_count] =
		(struct found){intern_bytes(symbols->interner, name.text, name.size), whole};
	table_put(table, first, ordinal, (uint32_t)symbols->found_count++);
}

static void add_readings(struct cython_symbols *symbols, const char *family, struct piece text,
			 struct piece fused)
{
	struct scopes scopes;
	struct reading reading;
	scopes_read(&scopes, text);
	for (size_t depth = 0; depth <= scopes.count; depth++) {
		if (!scopes_reading_at(&scopes, depth, LEAF_IMPLEMENTATION, &reading))
			continue;
		struct piece front = scopes_front(&scopes, depth);
		table_put(&symbols->readings,
			  symbols_identity(symbols, family, front, reading.leaf), reading.ordinal,
			  1);
		add_name(symbols, &symbols->names,
			 symbols_identity(symbols, family, front, nothing), reading.ordinal,
			 reading.leaf, depth == scopes.count);
		if (fused.size)
			add_name(symbols, &symbols->wrappers,
				 symbols_identity(symbols, "fused", front, reading.leaf),
				 reading.ordinal, fused, true);
	}
}

static void add_property(struct cython_symbols *symbols, struct piece text)
{
	struct scopes scopes;
	struct reading reading;
	scopes_read(&scopes, text);
	if (scopes_reading_at(&scopes, scopes.count, LEAF_PLAIN, &reading))
		table_put(&symbols->readings,
			  symbols_identity(symbols, "getprop", scopes_front(&scopes, reading.depth),
					   reading.leaf),
			  0, 1);
}

/* The wrapper of a lambda has the scopes that its implementation lacks. */
static void add_lambda(struct cython_symbols *symbols, struct piece text)
{
	struct scopes scopes;
	struct reading reading;
	scopes_read(&scopes, text);
	if (!scopes_choose(&scopes, 0, LEAF_WRAPPER, NULL, &reading))
		return;
	piece_skip(&reading.leaf, "__pyx_lambda_funcdef_");
	if (piece_starts(reading.leaf, "lambda"))
		add_name(symbols, &symbols->lambdas,
			 symbols_identity(symbols, "lambda", nothing, reading.leaf), 0, text, true);
}

static void add_mangled(struct cython_symbols *symbols, const char *symbol)
{
	if (symbols->mangled_count == SYMBOL_COUNT_LIMIT)
		return;
	symbols->mangled = alloc_room(symbols->mangled, &symbols->mangled_room,
				      symbols->mangled_count + 1, sizeof(*symbols->mangled));
	symbols->mangled[symbols->mangled_count++] = intern_text(symbols->interner, symbol);
}

void cython_symbols_add(struct cython_symbols *symbols, const char *symbol)
{
	_cleanup_strbuf_ struct strbuf decoded;
	strbuf_init(&decoded);
	struct piece fused, text = symbol_core(symbol, &fused, &decoded);
	if (symbols->symbol_count == SYMBOL_COUNT_LIMIT)
		return;
	if (text.size && strncmp(symbol, "_Z", 2) == 0)
		add_mangled(symbols, symbol);
	if (piece_skip(&text, "pf_")) {
		add_readings(symbols, "pf", text, nothing);
	} else if (piece_skip(&text, "pw_")) {
		add_readings(symbols, "pw", text, fused);
		add_lambda(symbols, text);
	} else if (piece_skip(&text, "getprop_")) {
		add_property(symbols, text);
	} else {
		return;
	}
	symbols->symbol_count++;
}

static void add_parameter(void *context, const char *function, const char *position,
			  const char *type)
{
	struct cython_symbols *symbols = context;
	_cleanup_strbuf_ struct strbuf base, indices;
	strbuf_init(&base);
	strbuf_init(&indices);
	if (demangle_fused(symbols, function, &base, &indices))
		fused_add(&symbols->fused, base.text, (struct piece){indices.text, indices.size},
			  position, type);
}

void cython_symbols_show_types(struct cython_symbols *symbols)
{
	symbols->typed = true;
	for (size_t i = 0; i < symbols->mangled_count; i++)
		decoration_each_parameter(symbols->mangled[i], add_parameter, symbols);
}

void cython_symbols_add_variable(struct cython_symbols *symbols, const char *function,
				 const char *variable, const char *type)
{
	static const char prefix[] = "__pyx_v_"; /* the author's; others are Cython's own */
	if (strncmp(variable, prefix, sizeof(prefix) - 1) == 0)
		add_parameter(symbols, function, variable, type);
}
