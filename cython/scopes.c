/* SPDX-License-Identifier: MIT */
/*
 * Reads the chain of scopes in a Cython symbol and chooses between the readings it allows.
 *
 * Cython writes each package, module, class and enclosing function as its length, itself and '_'
 * (Cython/Compiler/Symtab.py, Scope.mangle), then a counter (next_id) and the name. Both are
 * digits in front of a word: "5outer_1inner" is inner in outer, or the fifth thing, outer_1inner.
 * Every reading is a prefix of one chain, so there are at most as many as scopes.
 */
#include "cython/internal.h"

#include <ctype.h>
#include <string.h>

/*
 * The bytes of a name of `length` characters at the front of text; 0: it is shorter. A symbol may
 * be raw UTF-8: generator bodies are, up to Cython 3.3. With `dots`, "_dot_" counts as one
 * character, for Cython takes the length before it writes '.' so.
 */
static size_t name_bytes(struct piece text, uint32_t length, bool dots)
{
	size_t at = 0;
	for (; length; length--) {
		if (at >= text.size)
			return 0;
		if (dots && piece_starts(piece_after(text, at), "_dot_")) {
			at += 5;
			continue;
		}
		at++;
		while (at < text.size && ((unsigned char)text.text[at] & 0xc0) == 0x80)
			at++;
	}
	return at;
}

/* One "3Ext_" off the front of *text. */
static bool read_scope(struct piece *text, bool dots, struct piece *name)
{
	struct piece rest = *text;
	uint32_t length;
	if (!rest.size || *rest.text == '0' || !piece_number(&rest, &length) || !length)
		return false;
	size_t size = name_bytes(rest, length, dots);
	if (!size || size >= rest.size || rest.text[size] != '_' ||
	    isdigit((unsigned char)*rest.text))
		return false;
	*name = (struct piece){rest.text, size};
	*text = piece_after(rest, size + 1);
	return true;
}

void scopes_read(struct scopes *scopes, struct piece text)
{
	scopes->count = 0;
	scopes->utility = false;
	scopes->rests[0] = text;
	while (scopes->count < SCOPE_LIMIT) {
		struct piece *name = &scopes->names[scopes->count];
		if (!read_scope(&text, false, name)) {
			/* "15View_dot_MemoryView_": only modules have dots. */
			if (scopes->count || !read_scope(&text, true, name))
				return;
			scopes->utility = true;
		}
		scopes->rests[++scopes->count] = text;
	}
}

static bool is_numbered(struct piece name, const char *word)
{
	if (!piece_skip(&name, word))
		return false;
	uint32_t number;
	return !name.size || (piece_number(&name, &number) && !name.size);
}

static bool is_identifier(struct piece name)
{
	for (size_t i = 0; i < name.size; i++) {
		unsigned char c = (unsigned char)name.text[i];
		if (!isalnum(c) && c != '_' && c < 0x80)
			return false;
	}
	return name.size && !isdigit((unsigned char)*name.text);
}

static bool is_underscores(struct piece name)
{
	size_t i = 0;
	while (i < name.size && name.text[i] == '_')
		i++;
	return i == name.size;
}

static int rate_name(struct piece name)
{
	/* A name inside the name ends the scopes, whatever its digits look like. */
	if (piece_starts(name, "__pyx_fuse_") || piece_starts(name, "__pyx_lambda_funcdef_"))
		return 4;
	/* "6__iter__" is not '_' in the function "__iter". */
	return piece_is_dunder(name) ? 3 : is_underscores(name) ? 1 : 2;
}

/* 0: the text is no name under this rule; else the higher, the more it looks like one. */
static int rate_leaf(struct piece text, enum leaf_rule rule, struct reading *reading)
{
	struct piece name = text;
	uint32_t ordinal = 0;
	bool has_ordinal = text.size && *text.text != '0' && piece_number(&name, &ordinal);
	if (!is_identifier(name))
		return 0;
	reading->leaf = name;
	reading->ordinal = ordinal;
	bool lambda = is_numbered(name, "lambda") || piece_starts(name, "__pyx_lambda_funcdef_");
	switch (rule) {
	case LEAF_PLAIN:
		return !has_ordinal;
	case LEAF_GENERATOR:
		return has_ordinal && is_numbered(name, "generator");
	case LEAF_WRAPPER:
		if (!has_ordinal && !lambda)
			return 0;
		break;
	case LEAF_IMPLEMENTATION:
		break;
	}
	return rate_name(name);
}

struct piece scopes_front(const struct scopes *scopes, size_t depth)
{
	const char *start = scopes->rests[0].text;
	return (struct piece){start, (size_t)(scopes->rests[depth].text - start)};
}

bool scopes_reading_at(const struct scopes *scopes, size_t depth, enum leaf_rule rule,
		       struct reading *reading)
{
	*reading = (struct reading){.depth = depth};
	return rate_leaf(scopes->rests[depth], rule, reading) > 0;
}

static int choose_from(const struct scopes *scopes, size_t first, enum leaf_rule rule,
		       const struct cython_symbols *symbols, struct reading *best)
{
	int best_rate = 0;
	for (size_t depth = first; depth <= scopes->count; depth++) {
		struct reading reading = {.depth = depth};
		int rate = rate_leaf(scopes->rests[depth], rule, &reading);
		if (rate && symbols_have_twin(symbols, rule, scopes_front(scopes, depth), &reading))
			rate += 10;
		/* No function or class has such a name, but many functions begin so. */
		if (depth > first && piece_equals(scopes->names[depth - 1], "__pyx_unpickle"))
			break;
		/* Of equals the deepest: lengths that fit by accident are rare. */
		if (rate && rate >= best_rate) {
			*best = reading;
			best_rate = rate;
		}
	}
	return best_rate;
}

bool scopes_choose(const struct scopes *scopes, size_t module_depth, enum leaf_rule rule,
		   const struct cython_symbols *symbols, struct reading *reading)
{
	if (!choose_from(scopes, module_depth, rule, symbols, reading) &&
	    !choose_from(scopes, 0, rule, symbols, reading))
		return false;
	reading->module_depth = module_depth < reading->depth ? module_depth : reading->depth;
	return true;
}
