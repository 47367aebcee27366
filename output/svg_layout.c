/* SPDX-License-Identifier: MIT */
/*
 * Which boxes a flame graph has, and where: a view becomes at most max_boxes boxes of samples
 * from the left and levels from the root. Siblings stand heaviest first. No box is narrower
 * than the threshold, which rises until there are few enough; since a child never has more
 * samples than its parent, what stays is always one tree.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "output/internal.h"

static int descending(const void *a, const void *b)
{
	uint64_t one = *(const uint64_t *)a, two = *(const uint64_t *)b;
	return (one < two) - (one > two);
}

/* The least number of samples that leaves at most max_boxes boxes. */
static uint64_t raise_threshold(const struct view *view, uint64_t threshold, size_t max_boxes)
{
	uint64_t *totals = alloc_zeroed(view->count, sizeof(*totals));
	size_t count = 0;
	for (size_t i = 0; i < view->count; i++)
		if (view->nodes[i].depth <= SVG_MAX_DEPTH && view->nodes[i].total >= threshold)
			totals[count++] = view->nodes[i].total;
	if (count > max_boxes) {
		qsort(totals, count, sizeof(*totals), descending);
		threshold = totals[max_boxes] + 1;
	}
	free(totals);
	return threshold;
}

/* min_width in samples; or more, and then the percentage follows. */
static void choose_threshold(struct svg_layout *layout, const struct view *view, double min_width,
			     size_t max_boxes)
{
	double whole = (double)view->nodes[0].total;
	double wanted = isfinite(min_width) && min_width > 0 ? fmin(min_width, 100) : 0;
	double least = ceil(wanted / 100 * whole - 1e-9);
	uint64_t asked = least < 1 ? 1 : (uint64_t)least;
	layout->threshold = raise_threshold(view, asked, max_boxes);
	layout->least_percent = wanted;
	if (whole > 0 && (layout->threshold > asked || wanted <= 0))
		layout->least_percent = (double)layout->threshold / whole * 100;
}

/* Levels below each node, itself not counted; children come after their parents. */
static uint32_t *levels_below(const struct view *view)
{
	uint32_t *levels = alloc_zeroed(view->count, sizeof(*levels));
	for (size_t i = view->count; i-- > 1;) {
		uint32_t parent = view->nodes[i].parent;
		if (levels[parent] < levels[i] + 1)
			levels[parent] = levels[i] + 1;
	}
	return levels;
}

struct candidate {
	const struct view_node *at;
	uint32_t node;
};

static int by_place(const void *a, const void *b)
{
	const struct candidate *one = a, *two = b;
	if (one->at->parent != two->at->parent)
		return one->at->parent < two->at->parent ? -1 : 1;
	if (one->at->total != two->at->total)
		return one->at->total > two->at->total ? -1 : 1;
	int order = strcmp(one->at->text, two->at->text);
	return order ? order : (one->node > two->node) - (one->node < two->node);
}

static void add_box(struct svg_layout *layout, const struct svg_box *box)
{
	layout->boxes = alloc_room(layout->boxes, &layout->capacity, layout->count + 1,
				   sizeof(*layout->boxes));
	layout->boxes[layout->count++] = *box;
	if (layout->deepest < box->depth)
		layout->deepest = box->depth;
}

/* The nodes to be shown, siblings together and in their order. Counts those that are not. */
static struct candidate *choose(struct svg_layout *layout, const struct view *view, size_t *count)
{
	struct candidate *chosen = alloc_zeroed(view->count, sizeof(*chosen));
	*count = 0;
	for (uint32_t i = 1; i < view->count; i++) {
		if (view->nodes[i].total < layout->threshold)
			layout->pruned++;
		else if (view->nodes[i].depth > SVG_MAX_DEPTH)
			layout->too_deep++;
		else
			chosen[(*count)++] = (struct candidate){&view->nodes[i], i};
	}
	qsort(chosen, *count, sizeof(*chosen), by_place);
	return chosen;
}

/*
 * Parents have lower numbers than their children and siblings are sorted by parent, so a parent
 * has its place before its first child asks for it.
 */
static void place(struct svg_layout *layout, const struct view *view)
{
	size_t count;
	struct candidate *chosen = choose(layout, view, &count);
	uint32_t *levels = levels_below(view);
	uint64_t *cursor = alloc_zeroed(view->count, sizeof(*cursor));
	add_box(layout, &(struct svg_box){.total = view->nodes[0].total});
	for (size_t i = 0; i < count; i++) {
		const struct view_node *at = chosen[i].at;
		/* The last level's boxes stand for themselves and all that is above them. */
		uint32_t levels_hidden = levels[chosen[i].node];
		bool note = at->depth == SVG_MAX_DEPTH && levels_hidden;
		struct svg_box box = {
			.node = chosen[i].node,
			.depth = at->depth,
			.more = note ? levels_hidden + 1 : 0,
			.start = cursor[at->parent],
			.total = at->total,
		};
		cursor[at->parent] += at->total;
		cursor[chosen[i].node] = box.start;
		add_box(layout, &box);
	}
	free(cursor);
	free(levels);
	free(chosen);
}

void output_svg_layout_init(struct svg_layout *layout, const struct view *view, double min_width,
			    size_t max_boxes)
{
	memset(layout, 0, sizeof(*layout));
	choose_threshold(layout, view, min_width, max_boxes);
	place(layout, view);
}

void output_svg_layout_release(struct svg_layout *layout)
{
	free(layout->boxes);
	memset(layout, 0, sizeof(*layout));
}
