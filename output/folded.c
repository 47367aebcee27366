/* SPDX-License-Identifier: MIT */
/*
 * Folded stacks, one distinct stack a line, outermost frame first:
 * "<module> (train.py:61);fit (als.py:159);dgemm_kernel (libopenblas.so.0) 37"
 * Sorted, so that two runs can be compared line by line. ';' and newlines in names are replaced
 * (in the view's texts): readers split at them. A name that ends in a number is no trouble, the
 * last number of a line is the count.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "output/internal.h"

struct entry {
	uint32_t parent, node;
	const char *text;
};

/* Children of one parent are together, the last one first: a stack gives them back in order. */
static int by_parent(const void *a, const void *b)
{
	const struct entry *one = a, *two = b;
	if (one->parent != two->parent)
		return one->parent < two->parent ? -1 : 1;
	return strcmp(two->text, one->text);
}

struct walk {
	const struct view *view;
	struct entry *entries; /* all nodes but the root, sorted */
	size_t *first;	       /* [node]: where its children begin; [node + 1]: where they end */
	size_t *end;	       /* [node]: size of the path up to and with it */
	uint32_t *pending;
	size_t pending_count;
};

static void walk_init(struct walk *walk, const struct view *view)
{
	size_t count = view->count;
	*walk = (struct walk){.view = view};
	walk->entries = alloc_zeroed(count, sizeof(*walk->entries));
	walk->first = alloc_zeroed(count + 2, sizeof(*walk->first));
	walk->end = alloc_zeroed(count, sizeof(*walk->end));
	walk->pending = alloc_zeroed(count, sizeof(*walk->pending));
	for (uint32_t i = 1; i < count; i++) {
		walk->entries[i - 1] = (struct entry){view->nodes[i].parent, i, view_text(view, i)};
		walk->first[view->nodes[i].parent + 1]++;
	}
	for (size_t i = 0; i < count; i++)
		walk->first[i + 1] += walk->first[i];
	qsort(walk->entries, count - 1, sizeof(*walk->entries), by_parent);
}

static void walk_release(struct walk *walk)
{
	free(walk->entries);
	free(walk->first);
	free(walk->end);
	free(walk->pending);
}

/* Puts the node's path into `path` and its line into `out`, then queues its children. */
static void visit(struct walk *walk, uint32_t node, struct strbuf *path, struct strbuf *out)
{
	const struct view_node *at = &walk->view->nodes[node];
	path->size = node ? walk->end[at->parent] : 0;
	if (node) {
		if (path->size)
			strbuf_add_char(path, ';');
		strbuf_add_text(path, view_text(walk->view, node));
	}
	walk->end[node] = path->size;
	if (at->self) {
		/* A stack without a frame still counts: the sums must be right. */
		if (node)
			strbuf_add(out, path->text, path->size);
		else
			strbuf_add_text(out, "[no frames]");
		strbuf_printf(out, " %" PRIu64 "\n", (uint64_t)at->self);
	}
	for (size_t i = walk->first[node]; i < walk->first[node + 1]; i++)
		walk->pending[walk->pending_count++] = walk->entries[i].node;
}

bool output_folded(const struct profile *profile, const struct view_options *options,
		   struct strbuf *out, struct error *error)
{
	(void)error;
	struct strbuf _cleanup_strbuf_ path;
	strbuf_init(&path);
	struct view view;
	view_init(&view, profile, options, VIEW_FOLDED);
	struct walk walk;
	walk_init(&walk, &view);
	walk.pending[walk.pending_count++] = PROFILE_ROOT;
	while (walk.pending_count)
		visit(&walk, walk.pending[--walk.pending_count], &path, out);
	walk_release(&walk);
	view_release(&view);
	return true;
}
