/* SPDX-License-Identifier: MIT */
/*
 * The dotted name of an extension module from its path, and how much of a symbol's scopes it is.
 * The path says where the module lies, not where the package begins, so every suffix may be it.
 */
#include "cython/internal.h"

#include <string.h>

/* The file's name up to its first '.': "_als" of "_als.cpython-311-x86_64-linux-gnu.so". */
static struct piece file_stem(const char *file)
{
	return (struct piece){file, strcspn(file, ".")};
}

const char *cython_module_of_path(struct interner *interner, const char *path)
{
	_cleanup_strbuf_ struct strbuf name;
	strbuf_init(&name);
	const char *at = path;
	for (const char *slash; (slash = strchr(at, '/')); at = slash + 1) {
		size_t size = (size_t)(slash - at);
		if (!size || (size == 1 && *at == '.'))
			continue;
		strbuf_add(&name, at, size);
		strbuf_add_char(&name, '.');
	}
	struct piece stem = file_stem(at);
	/* The module of a package's __init__ is the package. */
	if (piece_equals(stem, "__init__") && name.size)
		return intern_bytes(interner, name.text, name.size - 1);
	strbuf_add(&name, stem.text, stem.size);
	return intern_bytes(interner, name.text, name.size);
}

/* Takes the last component off *module. */
static bool pop(struct piece *module, struct piece *last)
{
	if (!module->size)
		return false;
	const char *dot = memrchr(module->text, '.', module->size);
	size_t start = dot ? (size_t)(dot - module->text) + 1 : 0;
	*last = piece_after(*module, start);
	module->size = dot ? start - 1 : 0;
	return last->size > 0;
}

static bool same(struct piece a, struct piece b)
{
	return a.size == b.size && memcmp(a.text, b.text, a.size) == 0;
}

/* Do scopes [0, depth) equal the end of the module's name, as far as that reaches? */
static bool ends_with(const struct scopes *scopes, size_t depth, struct piece module)
{
	struct piece last;
	for (; depth && pop(&module, &last); depth--)
		if (!same(scopes->names[depth - 1], last))
			return false;
	return !depth || !module.size;
}

/* How many scopes are exactly the module's name? 0: it is another one. */
static size_t exact_depth(const struct scopes *scopes, struct piece module)
{
	struct piece last, parts = module;
	size_t depth = 0;
	while (pop(&parts, &last))
		depth++;
	return depth <= scopes->count && ends_with(scopes, depth, module) ? depth : 0;
}

/*
 * In this order: the name as it is; all leading scopes are the end of the module's name; the file
 * was moved, so only its own name is right (the import system demands that much: PyInit_<name>); or
 * the function came by cimport from a sibling in the same package.
 */
size_t scopes_module_depth(const struct scopes *scopes, const char *module)
{
	if (scopes->utility)
		return 1;
	if (!module)
		return 0;
	struct piece whole = {module, strlen(module)}, parents = whole, own;
	if (!pop(&parents, &own))
		return 0;
	if (exact_depth(scopes, whole))
		return exact_depth(scopes, whole);
	for (size_t depth = scopes->count; depth; depth--)
		if (ends_with(scopes, depth, whole))
			return depth;
	for (size_t depth = 1; depth <= scopes->count; depth++)
		if (same(scopes->names[depth - 1], own))
			return depth;
	for (size_t depth = scopes->count; depth-- > 1;)
		if (parents.size && ends_with(scopes, depth, parents))
			return depth + 1;
	return 0;
}
