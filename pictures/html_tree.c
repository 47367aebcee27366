/* SPDX-License-Identifier: MIT */
/*
 * The call tree as the page has it. Where it has more nodes than a browser likes, the lightest are
 * left out, and each node with some of these below it gets one child "(smaller frames)" that has
 * their samples: so all counts stay true, and what is missing is seen. In the data, a node is its
 * distance to its parent and its frame; a frame is its text, function and line.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/table.h"
#include "pictures/html.h"

/* Names are cut there, and shorter once all have so many bytes: a template's name can be long. */
enum { LONGEST_NAME = 1000, SHORT_NAME = 100, LONG_NAMES = 4 << 20 };

/* ---- which nodes ------------------------------------------------------------------------- */

static bool is_wanted(const struct view *view, size_t node, uint64_t threshold)
{
	return view->totals[node] >= threshold && view->nodes[node].depth <= HTML_MAX_DEPTH;
}

static size_t count_from(const struct view *view, uint64_t threshold)
{
	size_t count = 0;
	for (size_t i = 0; i < view->count; i++)
		count += is_wanted(view, i, threshold);
	return count;
}

/* The least number of samples that leaves at most max_nodes. */
static uint64_t choose_threshold(const struct view *view, size_t max_nodes)
{
	uint64_t low = 1, high = view->totals[0] + 1;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		if (count_from(view, middle) <= max_nodes)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static uint32_t add_node(struct html_tree *tree, uint32_t node, uint32_t parent)
{
	tree->nodes =
		alloc_room(tree->nodes, &tree->capacity, tree->count + 1, sizeof(*tree->nodes));
	tree->nodes[tree->count] = (struct html_node){.node = node, .parent = parent};
	return (uint32_t)tree->count++;
}

static bool is_smaller(const struct html_tree *tree, uint32_t node)
{
	return tree->nodes[node].node == HTML_SMALLER;
}

/* What has the samples of a view node that is left out: `smaller` is by node, 0 for none yet. */
static uint32_t smaller_below(struct html_tree *tree, uint32_t parent, uint32_t *smaller)
{
	if (is_smaller(tree, parent))
		return parent;
	if (!smaller[parent])
		smaller[parent] = add_node(tree, HTML_SMALLER, parent);
	return smaller[parent];
}

void html_tree_init(struct html_tree *tree, const struct view *view, size_t max_nodes)
{
	*tree = (struct html_tree){.view = view};
	tree->of_view = alloc_zeroed(view->count, sizeof(*tree->of_view));
	/* As many as there are kept nodes, and each has at most one such child. */
	uint32_t *smaller = alloc_zeroed(2 * view->count, sizeof(*smaller));
	tree->threshold = choose_threshold(view, max_nodes);
	/* Of those with one sample less, the first, as long as there is room. */
	size_t spare = max_nodes - count_from(view, tree->threshold);
	add_node(tree, 0, 0);
	for (uint32_t i = 1; i < view->count; i++) {
		const struct view_node *node = &view->nodes[i];
		uint32_t parent = tree->of_view[node->parent];
		if (is_wanted(view, i, tree->threshold)) {
			tree->of_view[i] = add_node(tree, i, parent);
		} else if (spare && view->totals[i] && is_wanted(view, i, tree->threshold - 1) &&
			   !is_smaller(tree, parent)) {
			tree->of_view[i] = add_node(tree, i, parent);
			spare--;
		} else if (view->totals[i]) {
			tree->of_view[i] = smaller_below(tree, parent, smaller);
			tree->left_out++;
		} else {
			tree->of_view[i] = parent; /* nothing ended there, or below */
		}
		tree->nodes[tree->of_view[i]].self += node->self;
	}
	tree->nodes[0].self += view->nodes[0].self;
	free(smaller);
}

void html_tree_release(struct html_tree *tree)
{
	free(tree->nodes);
	free(tree->of_view);
	memset(tree, 0, sizeof(*tree));
}

/* ---- strings ----------------------------------------------------------------------------- */

uint32_t html_string(struct html_strings *strings, const char *interned)
{
	uint32_t number;
	if (table_find(&strings->numbers, (uintptr_t)interned, 0, &number))
		return number;
	number = (uint32_t)strings->count;
	strings->texts = alloc_room(strings->texts, &strings->capacity, strings->count + 1,
				    sizeof(*strings->texts));
	strings->texts[strings->count++] = interned;
	table_put(&strings->numbers, (uintptr_t)interned, 0, number);
	return number;
}

void html_strings_release(struct html_strings *strings)
{
	table_release(&strings->numbers);
	free(strings->texts);
}

void html_put_strings(struct strbuf *out, const struct html_strings *strings)
{
	size_t start = out->size;
	strbuf_add_text(out, "\"strings\":[");
	for (size_t i = 0; i < strings->count; i++) {
		size_t most = out->size - start < LONG_NAMES ? LONGEST_NAME : SHORT_NAME;
		size_t size = strlen(strings->texts[i]);
		/* A character that is cut in two would become U+FFFD. */
		if (size > most)
			for (size = most; size && (strings->texts[i][size] & 0xc0) == 0x80; size--)
				;
		strbuf_add_text(out, i ? ",\n" : "\n");
		html_put_text(out, strings->texts[i], size);
		if (strings->texts[i][size]) {
			out->size--;
			strbuf_add_text(out, "\xe2\x80\xa6\"");
		}
	}
	strbuf_add_text(out, "]");
}

/* ---- frames ------------------------------------------------------------------------------ */

/* What the page calls a frame is a text of one kind; a function is the same without its line. */
struct label {
	const char *text;	   /* interned */
	const struct frame *frame; /* the first one; NULL: "(smaller frames)" */
	uint32_t function;	   /* of a frame */
};

struct labels {
	struct table numbers; /* (text, kind) -> number */
	struct label *list;
	size_t count, capacity;
};

static uint32_t label(struct labels *labels, const struct label *wanted)
{
	const uint64_t kind = wanted->frame ? wanted->frame->kind : SVG_NOTE;
	uint32_t number;
	if (table_find(&labels->numbers, (uintptr_t)wanted->text, kind, &number))
		return number;
	number = (uint32_t)labels->count;
	labels->list = alloc_room(labels->list, &labels->capacity, labels->count + 1,
				  sizeof(*labels->list));
	labels->list[labels->count++] = *wanted;
	table_put(&labels->numbers, (uintptr_t)wanted->text, kind, number);
	return number;
}

struct naming {
	const struct html_tree *tree;
	const struct view_options *options;
	struct interner *interner;
	struct labels frames, functions;
	uint32_t *of_frame; /* the profile's: one more than its number, 0: none yet */
};

static const char *function_text(const struct naming *naming, const struct frame *frame)
{
	struct strbuf _cleanup_strbuf_ text;
	strbuf_init(&text);
	frame_text(&text, frame, false, naming->options->full_filenames);
	return intern_text(naming->interner, text.text);
}

static uint32_t smaller_frames(struct naming *naming)
{
	const char *text = intern_text(naming->interner, "(smaller frames)");
	struct label one = {.text = text};
	one.function = label(&naming->functions, &one);
	return label(&naming->frames, &one);
}

static uint32_t frame_number(struct naming *naming, const struct html_node *node)
{
	const struct view *view = naming->tree->view;
	if (node->node == HTML_SMALLER)
		return smaller_frames(naming);
	const uint32_t frame = view->nodes[node->node].frame;
	if (naming->of_frame[frame])
		return naming->of_frame[frame] - 1;
	struct label one = {.frame = &view->profile->frames[frame]};
	one.text = function_text(naming, one.frame);
	one.function = label(&naming->functions, &one);
	one.text = view->texts[frame];
	const uint32_t number = label(&naming->frames, &one);
	naming->of_frame[frame] = number + 1;
	return number;
}

static const char *file_of(const struct frame *frame)
{
	return frame && frame->file && *frame->file ? frame->file : NULL;
}

static const char *module_of(const struct frame *frame)
{
	const char *module = frame ? frame->module_path : NULL;
	if (frame && (!module || !*module))
		module = frame->module;
	return module && *module ? module : NULL;
}

/* ---- the data ---------------------------------------------------------------------------- */

enum column {
	COLUMN_TEXT,
	COLUMN_KIND,
	COLUMN_SHADE,
	COLUMN_FILE,
	COLUMN_MODULE,
	COLUMN_FUNCTION,
	COLUMN_LINE,
};

static int64_t string_or_none(struct html_strings *strings, const char *text)
{
	return text ? (int64_t)html_string(strings, text) : -1;
}

static int64_t value_of(const struct naming *naming, const struct label *label, enum column column,
			struct html_strings *strings)
{
	const struct frame *frame = label->frame;
	switch (column) {
	case COLUMN_TEXT:
		return html_string(strings, label->text);
	case COLUMN_KIND:
		return frame ? frame->kind : SVG_NOTE;
	case COLUMN_SHADE:
		return frame ? svg_shade(label->text, view_name_size(frame, label->text)) : 0;
	case COLUMN_FILE:
		return string_or_none(strings, file_of(frame));
	case COLUMN_MODULE:
		return string_or_none(strings, module_of(frame));
	case COLUMN_FUNCTION:
		return label->function;
	case COLUMN_LINE:
		return frame && naming->options->lines && frame->line > 0 ? frame->line : 0;
	}
	return 0;
}

static void put_column(struct strbuf *out, const struct naming *naming, const struct labels *labels,
		       enum column column, struct html_strings *strings)
{
	static const char *const names[] = {
		[COLUMN_TEXT] = "text", [COLUMN_KIND] = "kind",	    [COLUMN_SHADE] = "shade",
		[COLUMN_FILE] = "file", [COLUMN_MODULE] = "module", [COLUMN_FUNCTION] = "function",
		[COLUMN_LINE] = "line",
	};
	strbuf_printf(out, "%s\"%s\":[", out->text[out->size - 1] == '{' ? "" : ",\n",
		      names[column]);
	for (size_t i = 0; i < labels->count; i++) {
		if (i)
			strbuf_add_char(out, ',');
		html_put_signed(out, value_of(naming, &labels->list[i], column, strings));
	}
	strbuf_add_char(out, ']');
}

/* First of all: this numbers the frames. */
static void put_nodes(struct strbuf *out, struct naming *naming)
{
	const struct html_tree *tree = naming->tree;
	strbuf_add_text(out, "\"nodes\":{\"up\":[0");
	for (size_t i = 1; i < tree->count; i++) {
		strbuf_add_char(out, ',');
		html_put_number(out, i - tree->nodes[i].parent);
	}
	strbuf_add_text(out, "],\n\"frame\":[-1");
	for (size_t i = 1; i < tree->count; i++) {
		strbuf_add_char(out, ',');
		html_put_number(out, frame_number(naming, &tree->nodes[i]));
	}
	strbuf_add_text(out, "]}");
}

void html_put_tree(struct strbuf *out, const struct html_tree *tree,
		   const struct view_options *options, struct html_strings *strings)
{
	struct naming naming = {.tree = tree, .options = options};
	naming.interner = tree->view->strings;
	naming.of_frame =
		alloc_zeroed(tree->view->profile->frame_count + 1, sizeof(*naming.of_frame));
	table_init(&naming.frames.numbers);
	table_init(&naming.functions.numbers);
	put_nodes(out, &naming);
	strbuf_add_text(out, ",\n\"functions\":{");
	for (enum column column = COLUMN_TEXT; column <= COLUMN_MODULE; column++)
		put_column(out, &naming, &naming.functions, column, strings);
	strbuf_add_text(out, "},\n\"frames\":{");
	put_column(out, &naming, &naming.frames, COLUMN_TEXT, strings);
	put_column(out, &naming, &naming.frames, COLUMN_FUNCTION, strings);
	put_column(out, &naming, &naming.frames, COLUMN_LINE, strings);
	strbuf_add_text(out, "}");
	table_release(&naming.frames.numbers);
	table_release(&naming.functions.numbers);
	free(naming.frames.list);
	free(naming.functions.list);
	free(naming.of_frame);
}
