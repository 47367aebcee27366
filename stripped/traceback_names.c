/* SPDX-License-Identifier: MIT */
/*
 * From the texts that functions made by Cython use to the functions' names. Each one that can raise
 * an exception ends in __Pyx_AddTraceback("pkg.mod.Class.method", ...), and so do the functions
 * that are inlined into it: where several names are in one function, the others must be told
 * apart by what else is known.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "base/table.h"
#include "stripped/internal.h"

/* As in struct cython_name: bodies that wrappers call, and functions that these call. */
enum { LAYER_BODY = 6, LAYER_INNER = 8 };

/* A function can be called by that name. */
struct candidate {
	uint32_t function; /* the whole */
	const char *name;  /* inside the module; as in the text */
	bool bare;	   /* the text had no module in front */
	bool handed;	   /* to a function of the module's own: what Python's interface is told may
			      be anything */
};

struct naming {
	struct function_names *functions;
	const struct elf_image *image;
	const struct code_facts *facts;
	const uint32_t *wholes;
	const struct traceback_style *style;
	struct candidate *candidates;
	size_t count, capacity;
};

/* ---- candidates --------------------------------------------------------------------------- */

static int by_function(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;

	if (a->function != b->function)
		return a->function < b->function ? -1 : 1;
	return a->name == b->name ? 0 : strcmp(a->name, b->name);
}

static void collect(struct naming *naming)
{
	for (size_t i = 0; i < naming->facts->use_count; i++) {
		const struct text_use *use = &naming->facts->uses[i];
		const char *text = image_text(naming->image, use->text);
		const bool qualified = traceback_has_prefix(naming->style, text);
		if (traceback_is_file(text) ||
		    (!qualified && use->callee != naming->style->call.callee) ||
		    (!qualified && !use->callee))
			continue;
		if (qualified)
			text += naming->style->prefix_size;
		naming->candidates = alloc_room(naming->candidates, &naming->capacity,
						naming->count + 1, sizeof(*naming->candidates));
		naming->candidates[naming->count++] = (struct candidate){
			.function = naming->wholes[use->function],
			.name = intern_clean(naming->functions->texts, text, strlen(text)),
			.bare = !qualified,
			.handed = use->callee && image_is_function(naming->image, use->callee),
		};
	}
	if (naming->count)
		qsort(naming->candidates, naming->count, sizeof(*naming->candidates), by_function);
	size_t kept = 0;
	for (size_t i = 0; i < naming->count; i++) {
		if (!kept || by_function(&naming->candidates[kept - 1], &naming->candidates[i]))
			naming->candidates[kept++] = naming->candidates[i];
		else
			naming->candidates[kept - 1].handed |= naming->candidates[i].handed;
	}
	naming->count = kept;
}

/* The candidates of one function: [first, last). */
static size_t first_of(const struct naming *naming, uint32_t function)
{
	size_t low = 0, high = naming->count;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (naming->candidates[middle].function < function)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static const char *leaf_of(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot ? dot + 1 : name;
}

/* "axpy[0]" has the leaf "axpy". */
static bool same_leaf(const char *name, const char *other)
{
	const char *leaf = leaf_of(name);
	const size_t size = strcspn(leaf_of(other), "[");

	return size == strlen(leaf) && strncmp(leaf, leaf_of(other), size) == 0;
}

/* Cython 0.29 lets "Ops.reduce", if that only chooses among specialisations, speak of itself as
 * "Ops.__pyx_fused_cpdef". */
static bool is_dispatcher(const char *name)
{
	return strcmp(leaf_of(name), "__pyx_fused_cpdef") == 0;
}

static bool may_be(const char *name, const char *leaf)
{
	return same_leaf(name, leaf) || is_dispatcher(name);
}

/* ---- from candidates to names ------------------------------------------------------------- */

static void set_body(struct naming *naming, const struct candidate *candidate, bool uncertain)
{
	const char *name = candidate->name;

	naming->functions->items[candidate->function] = (struct function_name){
		.name = cython_shown_name(naming->functions->texts, name),
		.evidence = EVIDENCE_TRACEBACK,
		.layer = LAYER_BODY,
		.uncertain = uncertain || !candidate->handed,
		.bare = candidate->bare,
		.helper = naming->style->prefix && candidate->bare && strchr(name, '.'),
	};
}

static size_t count_of(const struct naming *naming, size_t first)
{
	size_t count = 0;

	while (first + count < naming->count &&
	       naming->candidates[first + count].function == naming->candidates[first].function)
		count++;
	return count;
}

static void name_singles(struct naming *naming)
{
	for (size_t i = 0, count; i < naming->count; i += count) {
		const struct candidate *candidate = &naming->candidates[i];
		count = count_of(naming, i);
		if (count == 1 && !naming->functions->items[candidate->function].name)
			set_body(naming, candidate, false);
	}
}

/* The one name of the function with that leaf; NULL: none, or several. */
static const char *with_leaf(const struct naming *naming, uint32_t function, const char *leaf)
{
	const char *found = NULL;

	for (size_t i = first_of(naming, function);
	     i < naming->count && naming->candidates[i].function == function; i++) {
		if (!may_be(naming->candidates[i].name, leaf))
			continue;
		if (found)
			return NULL;
		found = naming->candidates[i].name;
	}
	return found;
}

/* The method table has "go" only: "Hopper.go" is in the wrapper's or in its body's tracebacks. */
static void qualify(struct naming *naming, struct function_name *name, const char *qualified)
{
	const char *leaf = leaf_of(name->name);
	_cleanup_strbuf_ struct strbuf out;

	strbuf_init(&out);
	strbuf_add(&out, qualified, (size_t)(leaf_of(qualified) - qualified));
	strbuf_add_text(&out, leaf);
	name->name = cython_shown_name(naming->functions->texts, out.text);
	name->bare = false;
}

static bool needs_class(const struct function_name *name)
{
	return name->name && !strchr(name->name, '.') &&
	       (name->evidence == EVIDENCE_METHOD || name->bare);
}

/* "Span.sents.__get__" makes the generator "sents". */
static bool is_getter_of(const char *getter, const char *name)
{
	static const char end[] = ".__get__";
	const size_t size = strlen(getter), wanted = strlen(name) + sizeof(end) - 1;

	if (size < wanted || (size > wanted && getter[size - wanted - 1] != '.'))
		return false;
	const char *part = getter + size - wanted;
	return strncmp(part, name, strlen(name)) == 0 && strcmp(part + strlen(name), end) == 0;
}

/* Of two functions of one name, the one that calls the other, or makes a generator of it, may know
 * more about it. */
static void qualify_by(struct naming *naming, uint32_t function, uint32_t other)
{
	struct function_name *name = &naming->functions->items[function];
	const uint32_t whole = naming->wholes[other];
	const char *qualified;

	if (!needs_class(name))
		return;
	qualified = naming->functions->items[whole].name;
	if (qualified && is_getter_of(qualified, name->name)) {
		name->name = qualified;
		name->bare = false;
		return;
	}
	if (!qualified || !strchr(qualified, '.') || !may_be(qualified, name->name))
		qualified = with_leaf(naming, whole, name->name);
	if (qualified && strchr(qualified, '.'))
		qualify(naming, name, qualified);
}

static void qualify_all(struct naming *naming)
{
	for (uint32_t i = 0; i < naming->functions->count; i++)
		qualify_by(naming, i, i);
	for (size_t i = 0; i < naming->facts->edge_count; i++) {
		const struct code_edge *edge = &naming->facts->edges[i];
		if (edge->link == LINK_CALL)
			qualify_by(naming, naming->wholes[edge->from], edge->to);
		else if (edge->link == LINK_REFERENCE)
			qualify_by(naming, edge->to, edge->from);
	}
}

/* What calls a dispatcher is its wrapper, which has the name. */
static void name_dispatchers(struct naming *naming)
{
	struct function_name *const names = naming->functions->items;

	for (size_t i = 0; i < naming->facts->edge_count; i++) {
		const struct code_edge *edge = &naming->facts->edges[i];
		const struct function_name *from = &names[naming->wholes[edge->from]];
		struct function_name *to = &names[edge->to];
		if (edge->link == LINK_CALL && to->name && is_dispatcher(to->name) && from->name &&
		    from->evidence == EVIDENCE_METHOD && !from->uncertain)
			to->name = from->name;
	}
	for (size_t i = 0; i < naming->functions->count; i++)
		if (names[i].name && is_dispatcher(names[i].name))
			names[i] = (struct function_name){0};
}

/* ---- several names in one function -------------------------------------------------------- */

/* How many functions may have that name; those of one name have it for sure. */
static void count_names(const struct naming *naming, struct table *uses, struct table *owned)
{
	for (size_t i = 0; i < naming->count; i++) {
		const struct candidate *candidate = &naming->candidates[i];
		uint32_t count = 0;
		table_find(uses, (uint64_t)(uintptr_t)candidate->name, 0, &count);
		table_put(uses, (uint64_t)(uintptr_t)candidate->name, 0, count + 1);
	}
	for (size_t i = 0; i < naming->functions->count; i++)
		if (naming->functions->items[i].name)
			table_put(owned, (uint64_t)(uintptr_t)naming->functions->items[i].name, 0,
				  1);
}

/* Is the function that has that candidate the body, or the generator, of the other one? */
static bool is_of(const struct candidate *candidate, const struct function_name *other,
		  enum code_link link)
{
	if (link == LINK_CALL)
		return strcmp(candidate->name, other->name) == 0;
	return candidate->bare && same_leaf(candidate->name, other->name);
}

/* A wrapper that has one of the names by its method table calls the function, or makes a generator
 * of it: it is its body. */
static void name_bodies(struct naming *naming)
{
	struct function_name *const names = naming->functions->items;

	for (size_t i = 0; i < naming->facts->edge_count; i++) {
		const struct code_edge *edge = &naming->facts->edges[i];
		const struct function_name *other = &names[naming->wholes[edge->from]];
		if ((edge->link != LINK_CALL && edge->link != LINK_REFERENCE) || !other->name ||
		    other->uncertain || other->evidence == EVIDENCE_TRACEBACK ||
		    names[edge->to].name)
			continue;
		for (size_t at = first_of(naming, edge->to);
		     at < naming->count && naming->candidates[at].function == edge->to; at++)
			if (is_of(&naming->candidates[at], other, edge->link)) {
				set_body(naming, &naming->candidates[at], false);
				break;
			}
	}
}

/* The names of functions that are inlined are mostly those of other functions, too. */
static void name_rest(struct naming *naming, const struct table *uses, const struct table *owned)
{
	for (size_t i = 0, count; i < naming->count; i += count) {
		const struct candidate *rarest = NULL, *free_one = NULL;
		uint32_t least = UINT32_MAX, number = 0;
		int free_names = 0;
		count = count_of(naming, i);
		if (naming->functions->items[naming->candidates[i].function].name)
			continue;
		for (size_t j = i; j < i + count; j++) {
			const struct candidate *candidate = &naming->candidates[j];
			const uint64_t key = (uint64_t)(uintptr_t)candidate->name;
			table_find(uses, key, 0, &number);
			if (number < least) {
				least = number;
				rarest = candidate;
			}
			if (!table_find(owned, key, 0, &number)) {
				free_one = candidate;
				free_names++;
			}
		}
		set_body(naming, free_names == 1 ? free_one : rarest, true);
	}
}

static void name_several(struct naming *naming)
{
	struct table uses, owned;

	table_init(&uses);
	table_init(&owned);
	count_names(naming, &uses, &owned);
	name_rest(naming, &uses, &owned);
	table_release(&uses);
	table_release(&owned);
}

void traceback_names_add(struct function_names *functions, const struct elf_image *image,
			 const struct code_facts *facts, const uint32_t *wholes,
			 const struct traceback_style *style)
{
	struct naming naming = {.functions = functions,
				.image = image,
				.facts = facts,
				.wholes = wholes,
				.style = style};

	collect(&naming);
	name_singles(&naming);
	name_bodies(&naming);
	name_several(&naming);
	qualify_all(&naming);
	name_dispatchers(&naming);
	free(naming.candidates);
}
