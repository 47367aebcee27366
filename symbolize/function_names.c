/* SPDX-License-Identifier: MIT */
/*
 * From claims to one name for each function, as the author wrote it. Several claims for one
 * function that differ make the name uncertain; too many of them make none.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "symbolize/stated.h"

enum { MAX_RIVALS = 3 }; /* of more names for one function none is worth a guess */

/* As in struct cython_name: slots made by Cython, wrappers, bodies. */
enum { LAYER_SLOT = 2, LAYER_WRAPPER = 4 };

/* ---- texts -------------------------------------------------------------------------------- */

static bool is_lambda(const char *part, size_t size)
{
	return size >= 6 && !memcmp(part, "lambda", 6) &&
	       strspn(part + 6, "0123456789") >= size - 6;
}

static void add_part(struct strbuf *out, const char *part, size_t size)
{
	static const char fused[] = "__pyx_fuse_";
	const size_t skip = sizeof(fused) - 1;

	if (out->size)
		strbuf_add_char(out, '.');
	if (is_lambda(part, size)) {
		strbuf_add_text(out, "<lambda>");
	} else if (size == 7 && !memcmp(part, "genexpr", 7)) {
		strbuf_add_text(out, "<genexpr>");
	} else if (size > skip && !memcmp(part, fused, skip)) {
		size_t digits = strspn(part + skip, "0123456789_");
		while (digits && part[skip + digits - 1] == '_')
			digits--;
		strbuf_add(out, part + skip + digits, size - skip - digits);
		strbuf_printf(out, "[%.*s]", (int)digits, part + skip);
	} else {
		strbuf_add(out, part, size);
	}
}

const char *cython_shown_name(struct interner *texts, const char *name)
{
	_cleanup_strbuf_ struct strbuf out;

	strbuf_init(&out);
	for (const char *part = name;; part++) {
		const size_t size = strcspn(part, ".");
		add_part(&out, part, size);
		part += size;
		if (!*part)
			break;
	}
	return intern_bytes(texts, out.text, out.size);
}

static const char *claim_text(struct interner *texts, const struct claim *claim, bool cython)
{
	_cleanup_strbuf_ struct strbuf out;

	strbuf_init(&out);
	if (claim->evidence == SYMBOLIZE_MODULE_SLOT)
		return intern_text(texts, "<module>");
	if (claim->owner)
		strbuf_printf(&out, "%s.", claim->owner);
	strbuf_add_text(&out, claim->leaf);
	if (cython && claim->evidence == SYMBOLIZE_PROPERTY)
		strbuf_add_text(&out, claim->made ? ".__set__" : ".__get__");
	return cython ? cython_shown_name(texts, out.text)
		      : intern_bytes(texts, out.text, out.size);
}

/* ---- one function ------------------------------------------------------------------------- */

/* Of the types that every module of Cython's has for itself. */
static bool is_helper(const struct claim *claim, const struct elf_image *image)
{
	static const char *const memoryview[] = {"memoryview", "_memoryviewslice", "array", "Enum"};

	if (!image->cython)
		return false;
	if (claim->module && !strncmp(claim->module, "_cython_", 8))
		return true;
	if (!claim->owner)
		return !strncmp(claim->leaf, "__pyx_unpickle_Enum", 19);
	for (size_t i = 0; image->memoryview && i < sizeof(memoryview) / sizeof(*memoryview); i++)
		if (!strcmp(claim->owner, memoryview[i]))
			return true;
	return !strncmp(claim->owner, "__pyx_", 6);
}

static int layer_of(const struct claim *claim)
{
	switch (claim->evidence) {
	case SYMBOLIZE_METHOD:
		return LAYER_WRAPPER;
	case SYMBOLIZE_SLOT:
		return claim->made ? LAYER_SLOT : LAYER_WRAPPER;
	default:
		return LAYER_SLOT;
	}
}

/* "Point.__copy__" beside "Point.copy" is the same thing by its other name. */
static bool is_alias(const struct claim *claim, const struct claim *first)
{
	return (claim->owner == first->owner || !claim->owner) && !strncmp(claim->leaf, "__", 2) &&
	       strncmp(first->leaf, "__", 2) != 0;
}

static struct function_name resolve(struct interner *texts, const struct claim *claims,
				    size_t count, const struct elf_image *image)
{
	const struct claim *first = &claims[0];
	struct function_name name = {
		.name = claim_text(texts, first, image->cython),
		.module = first->module,
		.evidence = first->evidence,
		.layer = layer_of(first),
		.helper = is_helper(first, image),
		.slot = first->evidence == SYMBOLIZE_SLOT && first->made,
	};
	int rivals = 1;

	for (size_t i = 1; i < count && claims[i].evidence == first->evidence; i++) {
		const struct claim *claim = &claims[i], *before = &claims[i - 1];
		if ((claim->owner == before->owner && claim->leaf == before->leaf) ||
		    is_alias(claim, first) || (!claim->owner && claim->leaf == first->leaf))
			continue;
		rivals++;
	}
	name.uncertain = rivals > 1;
	return rivals > MAX_RIVALS ? (struct function_name){0} : name;
}

void function_names_init(struct function_names *functions, const struct elf_image *image,
			 struct claims *claims)
{
	functions->texts = claims->texts;
	functions->count = image->functions.count;
	functions->items = alloc_zeroed(functions->count + 1, sizeof(*functions->items));
	claims_sort(claims);
	for (size_t i = 0, next; i < claims->count; i = next) {
		const uint64_t function = claims->items[i].function;
		for (next = i + 1;
		     next < claims->count && claims->items[next].function == function;)
			next++;
		functions->items[interval_lower(&image->functions, function)] =
			resolve(functions->texts, &claims->items[i], next - i, image);
	}
}

void function_names_release(struct function_names *functions)
{
	free(functions->items);
	*functions = (struct function_names){0};
}
