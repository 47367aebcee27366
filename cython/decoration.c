/* SPDX-License-Identifier: MIT */
/*
 * What compilers, C++ and Cython put around a name: "_ZL30__pyx_fuse_0__pyx_f_4cppk_vsumPim.isra.0"
 * without its suffixes, its parameters and its prefixes.
 */
#include "cython/demangling.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

/* Itanium C++ ABI 5.1.2: "<length><bytes>". */
static bool read_cpp_name(struct piece *text, struct piece *name)
{
	uint32_t length;
	if (!piece_number(text, &length) || !length || length > text->size)
		return false;
	*name = (struct piece){text->text, length};
	*text = piece_after(*text, length);
	return true;
}

/* "N19__pyx_t_4cppk_MyCpp4methEd": a method of a cppclass that is written in Cython. */
bool demangling_read_cpp_method(struct demangling *d, struct piece text)
{
	struct piece class_name, member;
	struct scopes scopes;
	if (piece_starts(text, "K"))
		text = piece_after(text, 1);
	if (!read_cpp_name(&text, &class_name) || !piece_skip(&class_name, "__pyx_t_") ||
	    !demangling_read_plain(d, class_name, &scopes))
		return false;
	struct piece own = scopes.rests[scopes.count];
	d->kind = CYTHON_FUNCTION;
	d->layer = LAYER_FUNCTION;
	strbuf_add_char(&d->name, '.');
	if (text.size && (*text.text == 'C' || *text.text == 'D')) {
		strbuf_add_text(&d->name, *text.text == 'D' ? "~" : "");
		member = own;
	} else if (read_cpp_name(&text, &member)) {
		/* "__pyx_f___init__MyCpp" */
		if (piece_skip(&member, "__pyx_f_") && member.size > own.size &&
		    memcmp(member.text + member.size - own.size, own.text, own.size) == 0)
			member.size -= own.size;
	} else {
		return false;
	}
	utf8_add_clean(&d->name, member.text, member.size);
	strbuf_reset(&d->base);
	strbuf_add(&d->base, class_name.text, class_name.size);
	strbuf_printf(&d->base, " %s", d->name.text);
	return true;
}

bool demangling_read_cpp_function(struct piece *text)
{
	struct piece rest = *text, name;
	if (!piece_skip(&rest, "_ZL") && !piece_skip(&rest, "_Z"))
		return true;
	if (!read_cpp_name(&rest, &name))
		return false;
	*text = name;
	return true;
}

static bool contains(struct piece piece, const char *word)
{
	return memmem(piece.text, piece.size, word, strlen(word)) != NULL;
}

/* It begins with a dot, and no C name holds one. */
struct piece demangling_strip_suffixes(struct demangling *d, struct piece symbol)
{
	const char *dot = memchr(symbol.text, '.', symbol.size);
	if (!dot)
		return symbol;
	struct piece suffixes = piece_after(symbol, (size_t)(dot - symbol.text));
	d->openmp = contains(suffixes, "._omp_fn.") || contains(suffixes, ".omp_outlined");
	d->split = contains(suffixes, ".part.");
	symbol.size -= suffixes.size;
	return symbol;
}

struct piece piece_indices(struct piece *text)
{
	const char *start = text->text;
	struct piece ahead = *text;
	uint32_t index;
	while (piece_number(&ahead, &index)) {
		*text = ahead;
		if (!piece_skip(&ahead, "_"))
			break;
	}
	return (struct piece){start, (size_t)(text->text - start)};
}

bool demangling_strip_prefixes(struct piece *whole, struct piece *fused, struct strbuf *decoded)
{
	struct piece text = *whole, inner = text;
	if (piece_skip(&inner, "__pyx_fuse_")) {
		struct piece indices = piece_indices(&inner);
		if (indices.size && piece_starts(inner, "__pyx_")) {
			*fused = indices;
			text = inner;
		}
	}
	if (!piece_skip(&text, "__pyx_"))
		return false;
	if (piece_skip(&text, "U")) {
		/* The code points' places count from the name's first letter on. */
		_cleanup_strbuf_ struct strbuf encoded;
		strbuf_init(&encoded);
		strbuf_add_text(&encoded, "__pyx_");
		strbuf_add(&encoded, text.text, text.size);
		if (!punycode_decode(encoded.text, encoded.size, '_', decoded))
			return false;
		text = (struct piece){decoded->text, decoded->size};
		if (!piece_skip(&text, "__pyx_"))
			return false;
	}
	*whole = text;
	return true;
}

/* Itanium C++ ABI 5.1.5: one letter each. */
static const char *builtin_type(char letter)
{
	static const char letters[] = "bcahstijlmxyfdeg";
	static const char *const names[] = {
		"bool",	 "char",	   "signed char", "unsigned char",
		"short", "unsigned short", "int",	  "unsigned int",
		"long",	 "unsigned long",  "long long",	  "unsigned long long",
		"float", "double",	   "long double", "__float128"};
	const char *at = letter ? strchr(letters, letter) : NULL;
	return at ? names[at - letters] : NULL;
}

/* One parameter off the front. *type: NULL for classes. False: not understood. */
static bool read_parameter(struct piece *text, const char **type)
{
	struct piece name;
	while (text->size && strchr("PROKV", *text->text))
		*text = piece_after(*text, 1);
	*type = text->size ? builtin_type(*text->text) : NULL;
	if (*type) {
		*text = piece_after(*text, 1);
		return true;
	}
	if (!piece_skip(text, "S"))
		return read_cpp_name(text, &name);
	/* "S_", "S0_": a class that was named before. */
	const char *end = memchr(text->text, '_', text->size);
	if (end)
		*text = piece_after(*text, (size_t)(end - text->text) + 1);
	return end;
}

void decoration_each_parameter(const char *symbol,
			       void (*visit)(void *context, const char *symbol,
					     const char *position, const char *type),
			       void *context)
{
	struct demangling unused = {.module = NULL};
	struct piece text = {symbol, strnlen(symbol, SYMBOL_LIMIT)}, name;
	text = demangling_strip_suffixes(&unused, text);
	if ((!piece_skip(&text, "_ZL") && !piece_skip(&text, "_Z")) || !read_cpp_name(&text, &name))
		return;
	const char *type;
	for (int i = 0; read_parameter(&text, &type); i++) {
		char position[16];
		snprintf(position, sizeof(position), "%d", i);
		if (type)
			visit(context, symbol, position, type);
	}
}

struct piece symbol_c_name(const char *symbol)
{
	static const struct piece none = {"", 0};
	struct demangling unused = {.module = NULL};
	struct piece text = {symbol, strnlen(symbol, SYMBOL_LIMIT + 1)};
	if (text.size > SYMBOL_LIMIT)
		return none;
	text = demangling_strip_suffixes(&unused, text);
	return demangling_read_cpp_function(&text) && !piece_starts(text, "_ZN") ? text : none;
}

struct piece symbol_core(const char *symbol, struct piece *fused, struct strbuf *decoded)
{
	static const struct piece none = {"", 0};
	struct piece text = symbol_c_name(symbol);
	*fused = none;
	return demangling_strip_prefixes(&text, fused, decoded) ? text : none;
}
