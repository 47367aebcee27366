/* SPDX-License-Identifier: MIT */
/*
 * Which boxes a flame graph has, and where: a view becomes at most max_boxes boxes of samples
 * from the left and levels from the root. Siblings are heaviest first. No box is narrower
 * than the threshold, which rises until there are few enough; since a child never has more
 * samples than its parent, what stays is always one tree. What is folded away (svg_fold.c) has its
 * boxes, too, hidden behind a note.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/table.h"
#include "pictures/svg.h"

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

/* Neither too high for a browser, nor too far inside of a fold. */
static bool has_place(const struct svg_folds *folds, const struct view *view, uint32_t node)
{
	if (folds->rows[node] > SVG_MAX_ROWS)
		return false;
	if (!folds->of[node])
		return true;
	const struct svg_fold *fold = &folds->list[folds->of[node] - 1];
	return view->nodes[node].depth - view->nodes[fold->top].depth < SVG_FOLD_LEVELS;
}

/* The least number of samples that leaves at most max_boxes boxes. */
static uint64_t raise_threshold(const struct svg_folds *folds, const struct view *view,
				uint64_t threshold, size_t max_boxes)
{
	struct largest largest = {.wanted = max_boxes + 1};
	largest.values = alloc_zeroed(2 * largest.wanted, sizeof(*largest.values));
	for (uint32_t i = 0; i < view->count; i++)
		if (view->totals[i] >= threshold && has_place(folds, view, i))
			add_value(&largest, view->totals[i]);
	keep_largest(&largest);
	if (largest.least >= threshold)
		threshold = largest.least + 1;
	free(largest.values);
	return threshold;
}

/* min_width in samples; or more, and then the percentage follows. What is folded depends on the
 * former alone. */
static void choose_threshold(struct svg_layout *layout, const struct view *view, double min_width,
			     size_t max_boxes)
{
	double whole = (double)view->totals[0];
	double wanted = isfinite(min_width) && min_width > 0 ? fmin(min_width, 100) : 0;
	double least = ceil(wanted / 100 * whole - 1e-9);
	uint64_t asked = least < 1 ? 1 : (uint64_t)least;
	svg_folds_init(&layout->folds, view, asked);
	layout->threshold = raise_threshold(&layout->folds, view, asked, max_boxes);
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

struct label_candidate {
	const char *text;
	uint64_t total;
	uint32_t parent, node;
};

static int by_place(const void *a, const void *b)
{
	const struct label_candidate *one = a, *two = b;
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
	if (layout->deepest < box->row)
		layout->deepest = box->row;
}

/* The nodes to be shown, siblings together and in their order. Counts those that are not. */
static struct label_candidate *choose(struct svg_layout *layout, const struct view *view,
				      size_t *count)
{
	struct label_candidate *chosen = NULL;
	size_t capacity = 0;
	*count = 0;
	for (uint32_t i = 1; i < view->count; i++) {
		if (view->totals[i] < layout->threshold) {
			layout->pruned++;
			continue;
		}
		if (!has_place(&layout->folds, view, i)) {
			layout->too_deep++;
			continue;
		}
		chosen = alloc_room(chosen, &capacity, *count + 1, sizeof(*chosen));
		chosen[(*count)++] = (struct label_candidate){view_text(view, i), view->totals[i],
							      view->nodes[i].parent, i};
	}
	if (*count)
		qsort(chosen, *count, sizeof(*chosen), by_place);
	return chosen;
}

/* A box at the last row, or at a fold's last level, stands for all that is inside of it, too. */
static uint32_t count_more(const struct svg_layout *layout, const struct view *view,
			   const uint32_t *levels, uint32_t node)
{
	const uint32_t fold = layout->folds.of[node];
	if (fold) {
		const struct svg_fold *place = &layout->folds.list[fold - 1];
		const uint64_t level = view->nodes[node].depth - view->nodes[place->top].depth + 1;
		if (level < SVG_FOLD_LEVELS || !levels[node])
			return 0;
		return (place->repeats ? place->levels - SVG_FOLD_LEVELS : levels[node]) + 1;
	}
	return layout->folds.rows[node] == SVG_MAX_ROWS && levels[node] ? levels[node] + 1 : 0;
}

/* What is drawn in the place of a fold, when its top has got its own. */
static void add_note(struct svg_layout *layout, const struct svg_box *top)
{
	const struct svg_fold *fold = &layout->folds.list[top->fold - 1];
	struct svg_box note = *top;
	note.note = true;
	note.more = fold->levels;
	add_box(layout, &note);
	layout->notes++;
}

/*
 * Parents have lower numbers than their children and siblings are sorted by parent, so a parent
 * has its place before its first child asks for it. What a recursion goes on with has its place in
 * the last of the fold's boxes, as not all need be there.
 */
static void place(struct svg_layout *layout, const struct view *view,
		  const struct label_candidate *chosen, size_t count)
{
	const struct svg_folds *folds = &layout->folds;
	struct table boxes; /* (node, 0) -> its box */
	table_init(&boxes);
	uint32_t _cleanup_free_ *levels = levels_below(view);
	uint32_t _cleanup_free_ *last = alloc_zeroed(folds->count + 1, sizeof(*last));
	uint64_t _cleanup_free_ *cursor = /* of each box */
		alloc_zeroed(count + folds->count + 1, sizeof(*cursor));
	add_box(layout, &(struct svg_box){.total = view->totals[0]});
	table_put(&boxes, 0, 0, 0);
	for (size_t i = 0; i < count; i++) {
		const struct label_candidate *at = &chosen[i];
		uint32_t parent = 0, box = (uint32_t)layout->count, fold = folds->of[at->node];
		/* It has no fewer samples: where it is not there, it is far inside of a fold. */
		if (!table_find(&boxes, at->parent, 0, &parent))
			parent = last[folds->of[at->parent]];
		table_put(&boxes, at->node, 0, box);
		last[fold] = box;
		cursor[box] = cursor[parent];
		cursor[parent] += at->total;
		add_box(layout, &(struct svg_box){
					.node = at->node,
					.depth = layout->boxes[parent].depth + 1,
					.row = folds->rows[at->node],
					.fold = fold,
					.more = count_more(layout, view, levels, at->node),
					.start = cursor[box],
					.total = at->total,
				});
		if (fold && folds->list[fold - 1].top == at->node)
			add_note(layout, &layout->boxes[box]);
	}
	table_release(&boxes);
}

void svg_layout_init(struct svg_layout *layout, const struct view *view, double min_width,
		     size_t max_boxes)
{
	size_t count;
	memset(layout, 0, sizeof(*layout));
	choose_threshold(layout, view, min_width, max_boxes);
	struct label_candidate *chosen = choose(layout, view, &count);
	place(layout, view, chosen, count);
	free(chosen);
}

void svg_layout_release(struct svg_layout *layout)
{
	free(layout->boxes);
	svg_folds_release(&layout->folds);
	memset(layout, 0, sizeof(*layout));
}
