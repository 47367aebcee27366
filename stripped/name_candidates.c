/* SPDX-License-Identifier: MIT */
/*
 * The list of what a module says of its functions: "the one at 0x4a10 is the method norm of the
 * class Point", by which kind of table. Several tables may claim one function.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "stripped/internal.h"

void candidates_init(struct name_candidates *candidates)
{
	*candidates = (struct name_candidates){.texts = interner_new()};
}

void candidates_release(struct name_candidates *candidates)
{
	interner_free(candidates->texts);
	free(candidates->items);
	free(candidates->makers);
	*candidates = (struct name_candidates){0};
}

bool candidates_step(struct name_candidates *candidates)
{
	return candidates->steps < MAX_STEPS && ++candidates->steps;
}

static bool is_utf8(const char *text)
{
	const size_t size = strlen(text);
	_cleanup_strbuf_ struct strbuf clean;

	strbuf_init(&clean);
	utf8_add_clean(&clean, text, size);
	return clean.size == size && memcmp(clean.text, text, size) == 0;
}

static bool is_letter(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80;
}

bool is_identifier(const char *text, bool dots)
{
	bool start = true, ascii = true;

	for (const char *at = text; *at; at++) {
		const unsigned char c = (unsigned char)*at;
		if (dots && c == '.' && !start) {
			start = true;
			continue;
		}
		if (!is_letter(c) && (start || c < '0' || c > '9'))
			return false;
		start = false;
		ascii &= c < 0x80;
	}
	return !start && (ascii || is_utf8(text));
}

bool candidates_own(struct name_candidates *candidates, const char *dotted, struct owner *owner)
{
	const char *dot = dotted ? strrchr(dotted, '.') : NULL;

	if (!dotted || !is_identifier(dotted, true))
		return false;
	owner->module =
		dot ? intern_clean(candidates->texts, dotted, (size_t)(dot - dotted)) : NULL;
	owner->class = dot ? dot + 1 : dotted;
	owner->class = intern_clean(candidates->texts, owner->class, strlen(owner->class));
	return true;
}

void candidates_add(struct name_candidates *candidates, const struct elf_image *image,
		    const struct owner *owner, const char *leaf, uint64_t function,
		    enum name_evidence evidence, bool from_slot)
{
	if (candidates->count >= MAX_CANDIDATES || !leaf || !is_identifier(leaf, false) ||
	    !image_is_function(image, function))
		return;
	candidates->items = alloc_room(candidates->items, &candidates->capacity,
				       candidates->count + 1, sizeof(*candidates->items));
	candidates->items[candidates->count++] = (struct name_candidate){
		.function = function,
		.module = owner->module,
		.owner = owner->class,
		.leaf = intern_clean(candidates->texts, leaf, strlen(leaf)),
		.evidence = evidence,
		.from_slot = from_slot,
	};
}

static int compare(const void *left, const void *right)
{
	const struct name_candidate *a = left, *b = right;

	if (a->function != b->function)
		return a->function < b->function ? -1 : 1;
	if (a->evidence != b->evidence)
		return a->evidence < b->evidence ? -1 : 1;
	if (!a->owner != !b->owner)
		return a->owner ? -1 : 1;
	/* {"copy", f}, {"__copy__", f}: the author's own name for it is the one without
	 * underscores.
	 */
	const int dunder = (strncmp(a->leaf, "__", 2) == 0) - (strncmp(b->leaf, "__", 2) == 0);
	if (dunder)
		return dunder;
	const int leaf = strcmp(a->leaf, b->leaf);
	if (leaf || !a->module != !b->module)
		return leaf ? leaf : a->module ? -1 : 1;
	return a->owner ? strcmp(a->owner, b->owner) : 0;
}

void candidates_sort(struct name_candidates *candidates)
{
	if (candidates->count)
		qsort(candidates->items, candidates->count, sizeof(*candidates->items), compare);
}
