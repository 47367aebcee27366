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
#include "base/table.h"
#include "output/internal.h"

static int descending(const void *a, const void *b)
{
	uint64_t one = *(const uint64_t *)a, two = *(const uint64_t *)b;
	return (one < two) - (one > two);
}

/* The largest of many numbers, in memory for twice as many as are wanted. */
struct largest {
	uint64_t *values;
	size_t wanted, count;
	uint64_t least; /* once there are enough: more than so much is needed */
};

static void keep_largest(struct largest *largest)
{
	qsort(largest->values, largest->count, sizeof(*largest->values), descending);
	if (largest->count < largest->wanted)
		return;
	largest->count = largest->wanted;
	largest->least = largest->values[largest->wanted - 1];
}

static void add_value(struct largest *largest, uint64_t value)
{
	if (value <= largest->least)
		return;
	largest->values[largest->count++] = value;
	if (largest->count == 2 * largest->wanted)
		keep_largest(largest);
}

/* The least number of samples that leaves at most max_boxes boxes. */
static uint64_t raise_threshold(const struct view *view, uint64_t threshold, size_t max_boxes)
{
	struct largest largest = {.wanted = max_boxes + 1};
	largest.values = alloc_zeroed(2 * largest.wanted, sizeof(*largest.values));
	for (size_t i = 0; i < view->count; i++)
		if (view->totals[i] >= threshold && view->nodes[i].depth <= SVG_MAX_DEPTH)
			add_value(&largest, view->totals[i]);
	keep_largest(&largest);
	if (largest.least >= threshold)
		threshold = largest.least + 1;
	free(largest.values);
	return threshold;
}

/* min_width in samples; or more, and then the percentage follows. */
static void choose_threshold(struct svg_layout *layout, const struct view *view, double min_width,
			     size_t max_boxes)
{
	double whole = (double)view->totals[0];
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
	const char *text;
	uint64_t total;
	uint32_t parent, node;
};

static int by_place(const void *a, const void *b)
{
	const struct candidate *one = a, *two = b;
	if (one->parent != two->parent)
		return one->parent < two->parent ? -1 : 1;
	if (one->total != two->total)
		return one->total > two->total ? -1 : 1;
	int order = strcmp(one->text, two->text);
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
	struct candidate *chosen = NULL;
	size_t capacity = 0;
	*count = 0;
	for (uint32_t i = 1; i < view->count; i++) {
		if (view->totals[i] < layout->threshold) {
			layout->pruned++;
			continue;
		}
		if (view->nodes[i].depth > SVG_MAX_DEPTH) {
			layout->too_deep++;
			continue;
		}
		chosen = alloc_room(chosen, &capacity, *count + 1, sizeof(*chosen));
		chosen[(*count)++] = (struct candidate){output_view_text(view, i), view->totals[i],
							view->nodes[i].parent, i};
	}
	if (*count)
		qsort(chosen, *count, sizeof(*chosen), by_place);
	return chosen;
}

/* The last level's boxes stand for themselves and all that is above them. */
static void note_what_is_hidden(struct svg_layout *layout, const struct view *view)
{
	uint32_t *levels = levels_below(view);
	for (size_t i = 0; i < layout->count; i++) {
		struct svg_box *box = &layout->boxes[i];
		if (box->depth == SVG_MAX_DEPTH && levels[box->node])
			box->more = levels[box->node] + 1;
	}
	free(levels);
}

/*
 * Parents have lower numbers than their children and siblings are sorted by parent, so a parent
 * has its place before its first child asks for it.
 */
static void place(struct svg_layout *layout, const struct view *view,
		  const struct candidate *chosen, size_t count)
{
	struct table boxes; /* (node, 0) -> its box */
	table_init(&boxes);
	uint64_t *cursor = alloc_zeroed(count + 1, sizeof(*cursor)); /* of each box */
	add_box(layout, &(struct svg_box){.total = view->totals[0]});
	table_put(&boxes, 0, 0, 0);
	for (size_t i = 0; i < count; i++) {
		const struct candidate *at = &chosen[i];
		uint32_t parent = 0, box = (uint32_t)layout->count;
		(void)table_find(&boxes, at->parent, 0, &parent); /* it has no fewer samples */
		table_put(&boxes, at->node, 0, box);
		cursor[box] = cursor[parent];
		cursor[parent] += at->total;
		add_box(layout, &(struct svg_box){
					.node = at->node,
					.depth = (uint32_t)view->nodes[at->node].depth,
					.start = cursor[box],
					.total = at->total,
				});
	}
	free(cursor);
	table_release(&boxes);
}

void output_svg_layout_init(struct svg_layout *layout, const struct view *view, double min_width,
			    size_t max_boxes)
{
	size_t count;
	memset(layout, 0, sizeof(*layout));
	choose_threshold(layout, view, min_width, max_boxes);
	struct candidate *chosen = choose(layout, view, &count);
	place(layout, view, chosen, count);
	free(chosen);
	if (layout->deepest == SVG_MAX_DEPTH)
		note_what_is_hidden(layout, view);
}

void output_svg_layout_release(struct svg_layout *layout)
{
	free(layout->boxes);
	memset(layout, 0, sizeof(*layout));
}
