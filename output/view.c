/* SPDX-License-Identifier: MIT */
/*
 * The call tree by address becomes the tree that is shown: siblings with equal text are one.
 * Without lines (-F) all lines of a function have equal text, so that they become one box.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "output/internal.h"

/* What splits a folded line may not stand in a name. */
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
static const char **make_texts(struct view *view, const struct output_options *options,
			       enum view_use use)
{
	const struct profile *profile = view->profile;
	const char **texts = alloc_zeroed(profile->frame_count + 1, sizeof(*texts));
	struct strbuf _cleanup_strbuf_ text, _cleanup_strbuf_ clean;
	strbuf_init(&text);
	strbuf_init(&clean);
	for (size_t i = 0; i < profile->frame_count; i++) {
		strbuf_reset(&text);
		frame_text(&text, &profile->frames[i], options->lines, options->full_filenames);
		if (use == VIEW_FOLDED)
			fold(&text, &clean);
		texts[i] = intern_text(view->texts, text.text);
	}
	return texts;
}

static uint32_t add_node(struct view *view, uint32_t parent, uint32_t frame, const char *text)
{
	view->nodes =
		alloc_room(view->nodes, &view->capacity, view->count + 1, sizeof(*view->nodes));
	view->nodes[view->count] = (struct view_node){
		.parent = parent,
		.frame = frame,
		.depth = parent == PROFILE_NONE ? 0 : view->nodes[parent].depth + 1,
		.text = text,
	};
	return (uint32_t)view->count++;
}

/* The node for one more frame under `parent`. */
static uint32_t child_of(struct view *view, struct table *children, uint32_t parent, uint32_t frame,
			 const char *text)
{
	/* Colour is by kind, so boxes are told apart by it; folded lines have the text alone. */
	unsigned kind = view->use == VIEW_BOXES ? view->profile->frames[frame].kind : 0;
	uint64_t key = (uint64_t)parent << 8 | kind;
	uint32_t child;
	if (table_find(children, key, (uint64_t)(uintptr_t)text, &child))
		return child;
	child = add_node(view, parent, frame, text);
	table_put(children, key, (uint64_t)(uintptr_t)text, child);
	return child;
}

void output_view_init(struct view *view, const struct profile *profile,
		      const struct output_options *options, enum view_use use)
{
	memset(view, 0, sizeof(*view));
	view->profile = profile;
	view->use = use;
	view->texts = interner_new();
	const char **texts = make_texts(view, options, use);
	uint32_t *shown = alloc_zeroed(profile->node_count + 1, sizeof(*shown));
	struct table children;
	table_init(&children);

	add_node(view, PROFILE_NONE, PROFILE_NONE, "all");
	for (size_t i = 0; i < profile->node_count; i++) {
		const struct profile_node *node = &profile->nodes[i];
		if (i != PROFILE_ROOT)
			shown[i] = child_of(view, &children, shown[node->parent], node->frame,
					    texts[node->frame]);
		view->nodes[shown[i]].self += node->self;
		view->nodes[shown[i]].total += node->total;
	}
	table_release(&children);
	free(shown);
	free(texts);
}

void output_view_release(struct view *view)
{
	free(view->nodes);
	interner_free(view->texts);
	memset(view, 0, sizeof(*view));
}

size_t output_name_size(const struct frame *frame, const char *text)
{
	struct strbuf _cleanup_strbuf_ name;
	strbuf_init(&name);
	if (frame->name && *frame->name)
		frame_name_text(&name, frame);
	return name.size ? name.size : strlen(text);
}
