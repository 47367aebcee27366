/* SPDX-License-Identifier: MIT */
/*
 * The call tree by address becomes the tree that is shown: siblings with equal text are one.
 * Without lines (-F) all lines of a function have equal text, so that they become one box.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/table.h"
#include "base/utf8.h"
#include "view/view.h"

/* What splits a folded line may not be in a name. */
static void fold(struct strbuf *text, struct strbuf *clean)
{
	strbuf_reset(clean);
	utf8_add_clean(clean, text->text, text->size);
	for (size_t i = 0; i < clean->size; i++)
		if (clean->text[i] == ';')
			clean->text[i] = ':';
	strbuf_reset(text);
	strbuf_add(text, clean->text, clean->size);
}

/* The text of each frame, made once however many nodes it has. */
static void make_texts(struct view *view, const struct view_options *options)
{
	const struct profile *profile = view->profile;
	view->texts = alloc_zeroed(profile->frame_count + 1, sizeof(*view->texts));
	struct strbuf _cleanup_strbuf_ text, _cleanup_strbuf_ clean;
	strbuf_init(&text);
	strbuf_init(&clean);
	for (size_t i = 0; i < profile->frame_count; i++) {
		strbuf_reset(&text);
		frame_text(&text, &profile->frames[i], options->lines, options->full_filenames);
		if (view->use == VIEW_FOLDED)
			fold(&text, &clean);
		view->texts[i] = intern_text(view->strings, text.text);
	}
}

static uint32_t add_node(struct view *view, uint32_t parent, uint32_t frame)
{
	uint64_t depth = parent == PROFILE_NONE ? 0 : view->nodes[parent].depth + UINT64_C(1);
	view->nodes =
		alloc_room(view->nodes, &view->capacity, view->count + 1, sizeof(*view->nodes));
	view->nodes[view->count] = (struct view_node){
		.parent = parent,
		.frame = frame,
		.depth = depth < VIEW_MAX_DEPTH ? depth : VIEW_MAX_DEPTH,
	};
	return (uint32_t)view->count++;
}

/* Colour is by kind, so boxes are told apart by it; folded lines have the text alone. */
static unsigned kind_of(const struct view *view, uint32_t frame)
{
	return view->use == VIEW_BOXES ? view->profile->frames[frame].kind : 0;
}

/* The node for one more frame under `parent`: mostly the next one, as in the profile. */
static uint32_t child_of(struct view *view, struct table *children, uint32_t parent, uint32_t frame)
{
	const char *text = view->texts[frame];
	unsigned kind = kind_of(view, frame);
	uint64_t key = (uint64_t)parent << 8 | kind;
	uint32_t child = parent + 1;
	if (child == view->count) /* children come after their parent: it has none yet */
		return add_node(view, parent, frame);
	const struct view_node *next = &view->nodes[child];
	if (next->parent == parent && view->texts[next->frame] == text &&
	    kind_of(view, next->frame) == kind)
		return child;
	if (table_find(children, key, (uint64_t)(uintptr_t)text, &child))
		return child;
	child = add_node(view, parent, frame);
	table_put(children, key, (uint64_t)(uintptr_t)text, child);
	return child;
}

static void merge_nodes(struct view *view)
{
	const struct profile *profile = view->profile;
	uint32_t *shown = alloc_zeroed(profile->node_count + 1, sizeof(*shown));
	struct table children;
	table_init(&children);
	add_node(view, PROFILE_NONE, PROFILE_NONE);
	for (size_t i = 0; i < profile->node_count; i++) {
		const struct profile_node *node = &profile->nodes[i];
		if (i != PROFILE_ROOT)
			shown[i] = child_of(view, &children, shown[node->parent], node->frame);
		view->nodes[shown[i]].self += node->self;
	}
	table_release(&children);
	view->of_node = shown;
}

static void add_up(struct view *view)
{
	view->totals = alloc_zeroed(view->count, sizeof(*view->totals));
	for (size_t i = view->count; i-- > 1;) {
		view->totals[i] += view->nodes[i].self;
		view->totals[view->nodes[i].parent] += view->totals[i];
	}
	view->totals[0] += view->nodes[0].self;
}

uint32_t *view_tree_order(const uint32_t *parents, size_t size, size_t count)
{
	uint32_t _cleanup_free_ *sizes = alloc_zeroed(count, sizeof(*sizes));
	uint32_t _cleanup_free_ *next = alloc_zeroed(count, sizeof(*next));
	uint32_t *nodes = alloc_zeroed(count, sizeof(*nodes));
	const char *bytes = (const char *)parents;
	for (size_t i = count; i-- > 1;)
		sizes[*(const uint32_t *)(bytes + i * size)] += ++sizes[i];
	next[PROFILE_ROOT] = 1;
	for (uint32_t i = 1; i < count; i++) {
		uint32_t *place = &next[*(const uint32_t *)(bytes + i * size)];
		nodes[*place] = i;
		next[i] = *place + 1;
		*place += sizes[i];
	}
	return nodes;
}

uint32_t *view_order(const struct view *view)
{
	return view_tree_order(&view->nodes->parent, sizeof(*view->nodes), view->count);
}

void view_init(struct view *view, const struct profile *profile, const struct view_options *options,
	       enum view_use use)
{
	*view = (struct view){.profile = profile, .strings = interner_new(), .use = use};
	make_texts(view, options);
	merge_nodes(view);
	if (use != VIEW_FOLDED)
		add_up(view);
}

void view_release(struct view *view)
{
	free(view->nodes);
	free(view->totals);
	free(view->texts);
	free(view->of_node);
	interner_free(view->strings);
	memset(view, 0, sizeof(*view));
}

size_t view_depth(const struct view *view)
{
	size_t deepest = 0;
	for (size_t i = 0; i < view->count; i++)
		if (view->nodes[i].depth > deepest)
			deepest = view->nodes[i].depth;
	return deepest;
}

const char *view_text(const struct view *view, uint32_t node)
{
	return node ? view->texts[view->nodes[node].frame] : "all";
}

size_t view_name_size(const struct frame *frame, const char *text)
{
	struct strbuf _cleanup_strbuf_ name;
	strbuf_init(&name);
	if (frame->name && *frame->name)
		frame_name_text(&name, frame);
	return name.size ? name.size : strlen(text);
}
