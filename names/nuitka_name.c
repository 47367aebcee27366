/* SPDX-License-Identifier: MIT */
/*
 * Names of functions that Nuitka has compiled. It makes C functions of a module's, numbered within
 * what they are written in; classes are no part of the name:
 *     impl___main__$$$function__3_outer$$$function__1_inner     "inner" within "outer" of __main__
 *     __main__$$$function__4_numbers$$$genobj__1_numbers_context    what a generator runs
 *     module_code___main__ (module.__main__.c)                      the module itself
 * Characters that C names cannot have are numbers: caf$$233$.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "names/names.h"

static const char SEPARATOR[] = "$$$";

struct kind {
	const char *prefix; /* of the whole */
	const char *start;  /* behind the separator; a number and the name follow */
	const char *end;
	const char *shown; /* whatever the name; NULL: the name */
};

static const struct kind kinds[] = {
	{"impl_", "function__", "", NULL},	    {"", "genobj__", "_context", NULL},
	{"", "coroutine__", "_context", NULL},	    {"", "asyncgen__", "_context", NULL},
	{"", "genexpr__", "_context", "<genexpr>"},
};

static bool starts_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

/* The last part: what is behind the last separator; NULL: there is none. */
static const char *last_part(const char *symbol)
{
	const char *found = NULL;
	for (const char *at = symbol; (at = strstr(at, SEPARATOR)); at++)
		found = at + strlen(SEPARATOR);
	return found;
}

/* "$$233$": the character; *size: how much of the text it is. 0: it is none. */
static uint32_t take_character(const char *text, size_t *size)
{
	char *after;
	if (text[0] != '$' || text[1] != '$' || text[2] < '1' || text[2] > '9')
		return 0;
	const unsigned long value = strtoul(text + 2, &after, 10);
	*size = (size_t)(after - text) + 1;
	return *after == '$' && value <= 0x10ffff ? (uint32_t)value : 0;
}

/* False: no name that Nuitka has made. */
static bool decode(const char *text, size_t size, struct strbuf *name)
{
	for (size_t i = 0, step = 1; i < size; i += step) {
		const uint32_t character = take_character(text + i, &step);
		if (!character && text[i] == '$')
			return false;
		if (character)
			utf8_add_code_point(name, character);
		else
			strbuf_add(name, text + i, step = 1);
	}
	return name->size > 0;
}

static const char *name_part(struct interner *interner, const char *part, size_t size,
			     const struct kind *kind)
{
	const char *at = part + strlen(kind->start);
	const size_t digits = strspn(at, "0123456789");
	const size_t end = strlen(kind->end), used = strlen(kind->start) + digits + 1;
	_cleanup_strbuf_ struct strbuf name, text;
	strbuf_init(&name);
	strbuf_init(&text);
	if (digits == 0 || at[digits] != '_' || size <= used + end ||
	    memcmp(part + size - end, kind->end, end) != 0 ||
	    !decode(part + used, size - used - end, &name))
		return NULL;
	if (kind->shown)
		return intern_text(interner, kind->shown);
	utf8_add_clean(&text, name.text, name.size);
	return intern_text(interner, strcmp(text.text, "lambda") == 0 ? "<lambda>" : text.text);
}

/* "/tmp/x.build/module.__main__.c", "module.a.b.c" */
static bool is_of_module(const char *file)
{
	const char *slash = file ? strrchr(file, '/') : NULL;
	return file && starts_with(slash ? slash + 1 : file, "module.");
}

const char *names_nuitka(struct interner *interner, const char *linkage, const char *file)
{
	const char *part = last_part(linkage);
	if (!part)
		return (starts_with(linkage, "module_code_") ||
			starts_with(linkage, "modulecode_")) &&
				       is_of_module(file)
			       ? intern_text(interner, "<module>")
			       : NULL;
	/* What compilers add begins with a dot: "...crunch.part.0". */
	const size_t size = strcspn(part, ".");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (starts_with(part, kinds[i].start) && starts_with(linkage, kinds[i].prefix))
			return name_part(interner, part, size, &kinds[i]);
	return NULL;
}
