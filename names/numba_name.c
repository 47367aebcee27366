/* SPDX-License-Identifier: MIT */
/*
 * Names of functions that numba has compiled. It mangles module and qualified name as C++ does,
 * with a version and a hash of its own as ABI tags (numba/core/itanium_mangler.py, funcdesc.py):
 *     _ZN8__main__4workB2v1B38c8tJTC...Ex     "work" of __main__, its first specialisation
 *     _ZN7cpython8__main__4workB2v1B38...Ex   the function that unpacks its Python arguments
 *     cfunc._ZN8__main__4work...              the same for C callers, __gufunc__._Z... for ufuncs
 * Characters that C++ names cannot have are two hexadecimal digits: make._3clocals_3e.work.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "names/names.h"

enum { PARTS_LIMIT = 64 };

struct part {
	const char *text;
	size_t size;
};

/* "8__main__": the part, and what follows it; NULL: no such thing. */
static const char *take_part(const char *at, struct part *part)
{
	char *after;
	if (!isdigit((unsigned char)*at))
		return NULL;
	const unsigned long size = strtoul(at, &after, 10);
	if (size == 0 || size > strlen(after))
		return NULL;
	*part = (struct part){after, size};
	return after + size;
}

/* The parts of the name; true: numba's version follows them ("B2v1"). */
static bool split(const char *mangled, struct part parts[PARTS_LIMIT], size_t *count)
{
	struct part tag;
	const char *at = mangled + 2;
	if (strncmp(mangled, "_Z", 2) != 0)
		return false;
	const bool nested = *at == 'N';
	at += nested;
	*count = 0;
	while (*count < PARTS_LIMIT && isdigit((unsigned char)*at)) {
		at = take_part(at, &parts[*count]);
		if (!at)
			return false;
		++*count;
		if (!nested)
			break;
	}
	return *count > 0 && *at == 'B' && take_part(at + 1, &tag) && tag.size >= 2 &&
	       tag.text[0] == 'v' && isdigit((unsigned char)tag.text[1]);
}

static bool is_part(const struct part *part, const char *text)
{
	return part->size == strlen(text) && memcmp(part->text, text, part->size) == 0;
}

/* How many parts are the module, which the file's name says: "pkg/mod.py". 0: not known. */
static size_t module_parts(const struct part *parts, size_t count, const char *file)
{
	const char *slash = file ? strrchr(file, '/') : NULL;
	const char *base = slash ? slash + 1 : file;
	const char *dot = base ? strrchr(base, '.') : NULL;
	const struct part stem = {base, dot ? (size_t)(dot - base) : 0};
	for (size_t i = count - 1; dot && i-- > 0;)
		if (parts[i].size == stem.size && memcmp(parts[i].text, stem.text, stem.size) == 0)
			return i + 1;
	return 0;
}

/* "_3clocals_3e" -> "<locals>"; what else is behind "_" is the author's own. */
static void add_part(struct strbuf *out, const struct part *part)
{
	static const char open[] = "_3c", close[] = "_3e";
	for (size_t i = 0; i < part->size; i++) {
		const bool whole = part->size - i >= 3;
		if (whole && memcmp(part->text + i, open, 3) == 0) {
			strbuf_add_char(out, '<');
			i += 2;
		} else if (whole && memcmp(part->text + i, close, 3) == 0) {
			strbuf_add_char(out, '>');
			i += 2;
		} else {
			strbuf_add_char(out, part->text[i]);
		}
	}
}

/* numba numbers what it makes itself by addresses: "__numba_parfor_gufunc_0x7f2c..." */
static void cut_number(struct strbuf *out)
{
	char *number = strstr(out->text, "_0x");
	if (!number || strspn(number + 3, "0123456789abcdef") != strlen(number + 3))
		return;
	while (number > out->text && number[-1] == '_')
		number--;
	*number = '\0';
	out->size = (size_t)(number - out->text);
}

bool names_numba(struct interner *interner, const char *linkage, const char *file,
		 struct names_numba *name)
{
	struct part parts[PARTS_LIMIT];
	size_t count, first = 0;
	const char *dot = strstr(linkage, "._Z");
	if (!split(dot ? dot + 1 : linkage, parts, &count))
		return false;
	const bool wrapper = count > 1 && is_part(&parts[0], "cpython");
	_cleanup_strbuf_ struct strbuf text, function;
	strbuf_init(&text);
	strbuf_init(&function);
	/* The same function has the same parts and tags, whatever stands around it. */
	strbuf_add_text(&function, parts[wrapper].text);
	first = wrapper + module_parts(parts + wrapper, count - wrapper, file);
	if (first == wrapper &&
	    (is_part(&parts[first], "__main__") || is_part(&parts[first], "_3cdynamic_3e")))
		first++;
	for (size_t i = first < count ? first : count - 1; i < count; i++) {
		if (text.size)
			strbuf_add_char(&text, '.');
		add_part(&text, &parts[i]);
	}
	cut_number(&text);
	name->name = intern_clean(interner, text.text, text.size);
	name->function = intern_clean(interner, function.text, function.size);
	name->wrapper = wrapper || dot;
	return true;
}
