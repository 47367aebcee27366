/* SPDX-License-Identifier: MIT */
/*
 * The list of what a module says of its functions: "the one at 0x4a10 is the method norm of the
 * class Point", by which kind of table. Several tables may claim one function.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "symbolize/stated.h"

void claims_init(struct claims *claims)
{
	*claims = (struct claims){.texts = interner_new()};
}

void claims_release(struct claims *claims)
{
	interner_free(claims->texts);
	free(claims->items);
	*claims = (struct claims){0};
}

bool claims_step(struct claims *claims)
{
	return claims->steps < MAX_STEPS && ++claims->steps;
}

static bool is_utf8(const char *text)
{
	const size_t size = strlen(text);
	_cleanup_strbuf_ struct strbuf clean;

	strbuf_init(&clean);
	utf8_add_clean(&clean, text, size);
	return clean.size == size && !memcmp(clean.text, text, size);
}

bool is_identifier(const char *text, bool dots)
{
	bool start = true, ascii = true;

	for (const char *at = text; *at; at++) {
		const unsigned char c = (unsigned char)*at;
		const bool letter =
			(c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80;
		if (dots && c == '.' && !start) {
			start = true;
			continue;
		}
		if (!letter && (start || c < '0' || c > '9'))
			return false;
		start = false;
		ascii &= c < 0x80;
	}
	return !start && (ascii || is_utf8(text));
}

bool claims_own(struct claims *claims, const char *dotted, struct owner *owner)
{
	const char *dot = dotted ? strrchr(dotted, '.') : NULL;

	if (!dotted || !is_identifier(dotted, true))
		return false;
	owner->module = dot ? intern_clean(claims->texts, dotted, (size_t)(dot - dotted)) : NULL;
	owner->class = dot ? dot + 1 : dotted;
	owner->class = intern_clean(claims->texts, owner->class, strlen(owner->class));
	return true;
}

void claims_add(struct claims *claims, const struct elf_image *image, const struct owner *owner,
		const char *leaf, uint64_t function, enum symbolize_evidence evidence, bool made)
{
	if (claims->count >= MAX_CLAIMS || !leaf || !is_identifier(leaf, false) ||
	    !image_is_function(image, function))
		return;
	claims->items = alloc_room(claims->items, &claims->capacity, claims->count + 1,
				   sizeof(*claims->items));
	claims->items[claims->count++] = (struct claim){
		.function = function,
		.module = owner->module,
		.owner = owner->class,
		.leaf = intern_clean(claims->texts, leaf, strlen(leaf)),
		.evidence = evidence,
		.made = made,
	};
}

static int compare(const void *left, const void *right)
{
	const struct claim *a = left, *b = right;

	if (a->function != b->function)
		return a->function < b->function ? -1 : 1;
	if (a->evidence != b->evidence)
		return a->evidence < b->evidence ? -1 : 1;
	if (!a->owner != !b->owner)
		return a->owner ? -1 : 1;
	/* {"copy", f}, {"__copy__", f}: the author's own name for it is the one without
	 * underscores.
	 */
	const int dunder = !strncmp(a->leaf, "__", 2) - !strncmp(b->leaf, "__", 2);
	if (dunder)
		return dunder;
	const int leaf = strcmp(a->leaf, b->leaf);
	if (leaf || !a->module != !b->module)
		return leaf ? leaf : a->module ? -1 : 1;
	return a->owner ? strcmp(a->owner, b->owner) : 0;
}

void claims_sort(struct claims *claims)
{
	if (claims->count)
		qsort(claims->items, claims->count, sizeof(*claims->items), compare);
}
