/* SPDX-License-Identifier: MIT */
/*
 * From candidates to one name for each function, as the author wrote it. Several for one
 * function that differ make the name uncertain; too many of them make none.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "stripped/internal.h"

enum { MAX_RIVALS = 3 }; /* of more names for one function none is worth a guess */

/* As in struct cython_name: slots made by Cython, wrappers, bodies. */
enum { LAYER_SLOT = 2, LAYER_WRAPPER = 4 };

/* ---- texts -------------------------------------------------------------------------------- */

static bool is_lambda(const char *part, size_t size)
{
	return size >= 6 && memcmp(part, "lambda", 6) == 0 &&
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
	} else if (size == 7 && memcmp(part, "genexpr", 7) == 0) {
		strbuf_add_text(out, "<genexpr>");
	} else if (size > skip && memcmp(part, fused, skip) == 0) {
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

static const char *claim_text(struct interner *texts, const struct name_candidate *candidate,
			      bool cython)
{
	_cleanup_strbuf_ struct strbuf out;

	strbuf_init(&out);
	if (candidate->evidence == EVIDENCE_MODULE_SLOT)
		return intern_text(texts, "<module>");
	if (candidate->owner)
		strbuf_printf(&out, "%s.", candidate->owner);
	strbuf_add_text(&out, candidate->leaf);
	if (cython && candidate->evidence == EVIDENCE_PROPERTY)
		strbuf_add_text(&out, candidate->from_slot ? ".__set__" : ".__get__");
	return cython ? cython_shown_name(texts, out.text)
		      : intern_bytes(texts, out.text, out.size);
}

/* ---- one function ------------------------------------------------------------------------- */

/* Of the types that every module of Cython's has for itself. */
static bool is_helper(const struct name_candidate *candidate, const struct elf_image *image)
{
	static const char *const memoryview[] = {"memoryview", "_memoryviewslice", "array", "Enum"};

	if (!image->cython)
		return false;
	if (candidate->module && strncmp(candidate->module, "_cython_", 8) == 0)
		return true;
	if (!candidate->owner)
		return strncmp(candidate->leaf, "__pyx_unpickle_Enum", 19) == 0;
	for (size_t i = 0; image->memoryview && i < sizeof(memoryview) / sizeof(*memoryview); i++)
		if (strcmp(candidate->owner, memoryview[i]) == 0)
			return true;
	return strncmp(candidate->owner, "__pyx_", 6) == 0;
}

static int layer_of(const struct name_candidate *candidate)
{
	switch (candidate->evidence) {
	case EVIDENCE_METHOD:
		return LAYER_WRAPPER;
	case EVIDENCE_SLOT:
		return candidate->from_slot ? LAYER_SLOT : LAYER_WRAPPER;
	default:
		return LAYER_SLOT;
	}
}

/* "acquire_lock" is "acquire", as it was called once. */
static bool is_longer(const char *leaf, const char *name)
{
	const size_t size = strlen(name);
	return strncmp(leaf, name, size) == 0 && leaf[size] == '_';
}

/* "Point.__copy__" beside "Point.copy" is the same thing by its other name; so is a method of the
 * same class that has a longer one. */
static bool is_alias(const struct name_candidate *candidate, const struct name_candidate *first)
{
	if (strncmp(first->leaf, "__", 2) == 0 ||
	    (candidate->owner && candidate->owner != first->owner))
		return false;
	return strncmp(candidate->leaf, "__", 2) == 0 ||
	       (first->owner && candidate->evidence == EVIDENCE_METHOD &&
		is_longer(candidate->leaf, first->leaf));
}

static struct function_name resolve(struct interner *texts, const struct name_candidate *candidates,
				    size_t count, const struct elf_image *image)
{
	const struct name_candidate *first = &candidates[0];
	struct function_name name = {
		.name = claim_text(texts, first, image->cython),
		.module = first->module,
		.evidence = first->evidence,
		.layer = layer_of(first),
		.helper = is_helper(first, image),
		.slot = first->evidence == EVIDENCE_SLOT && first->from_slot,
	};
	int rivals = 1;

	for (size_t i = 1; i < count && candidates[i].evidence == first->evidence; i++) {
		const struct name_candidate *candidate = &candidates[i],
					    *before = &candidates[i - 1];
		if ((candidate->owner == before->owner && candidate->leaf == before->leaf) ||
		    is_alias(candidate, first) ||
		    (!candidate->owner && candidate->leaf == first->leaf))
			continue;
		rivals++;
	}
	name.uncertain = rivals > 1;
	return rivals > MAX_RIVALS ? (struct function_name){0} : name;
}

void function_names_init(struct function_names *functions, const struct elf_image *image,
			 struct name_candidates *candidates)
{
	functions->texts = candidates->texts;
	functions->count = image->functions.count;
	functions->items = alloc_zeroed(functions->count + 1, sizeof(*functions->items));
	candidates_sort(candidates);
	for (size_t i = 0, next; i < candidates->count; i = next) {
		const uint64_t function = candidates->items[i].function;
		for (next = i + 1;
		     next < candidates->count && candidates->items[next].function == function;)
			next++;
		functions->items[interval_lower(&image->functions, function)] =
			resolve(functions->texts, &candidates->items[i], next - i, image);
	}
}

void function_names_release(struct function_names *functions)
{
	free(functions->items);
	*functions = (struct function_names){0};
}
