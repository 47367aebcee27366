/* SPDX-License-Identifier: MIT */
/*
 * What a flame graph folds away. A picture that fits on a screen is shown whole. In a higher one
 *  - a recursion of many levels is its first and its last cycle, with one note between them;
 *  - levels that are nearly empty do not count: one import that is a hundred frames deep while a
 *    program starts would make a picture of two thousand pixels, all of it white but for a line.
 *    The towers that rise into them end in a note.
 * What is folded is in the file nevertheless, and opens on a click (svg.js).
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "pictures/svg.h"

enum {
	MAX_PERIOD = 12, /* frames of one cycle of a recursion */
	LEAST_HIDDEN = 8,
	LEAST_PERCENT = 5, /* of the width that a level must fill to count for the height */
};

#define MANY UINT32_MAX

static bool is_heavy(const struct view *view, uint32_t node, uint64_t threshold)
{
	return view->totals[node] >= threshold;
}

static uint32_t deepest_of(const struct view *view, uint64_t threshold)
{
	uint32_t deepest = 0;
	for (uint32_t i = 0; i < view->count; i++)
		if (is_heavy(view, i, threshold) && view->nodes[i].depth > deepest)
			deepest = (uint32_t)view->nodes[i].depth;
	return deepest;
}

static uint32_t add_fold(struct svg_folds *folds, uint32_t top, bool repeats)
{
	folds->list =
		alloc_room(folds->list, &folds->capacity, folds->count + 1, sizeof(*folds->list));
	folds->list[folds->count++] = (struct svg_fold){.top = top, .repeats = repeats};
	return (uint32_t)folds->count;
}

/* ---- recursion ------------------------------------------------------------------------------ */

/* The one child of each node that is shown; 0: none, MANY: several. */
static uint32_t *only_children(const struct view *view, uint64_t threshold)
{
	uint32_t *only = alloc_zeroed(view->count, sizeof(*only));
	for (uint32_t i = 1; i < view->count; i++)
		if (is_heavy(view, i, threshold)) {
			uint32_t *child = &only[view->nodes[i].parent];
			*child = *child ? MANY : i;
		}
	return only;
}

/* How many frames of the chain follow in which each is as the one `period` before it. */
static size_t count_repeats(const struct view *view, const uint32_t *chain, size_t count,
			    size_t period)
{
	size_t same = 0;
	while (same + period < count &&
	       view_text(view, chain[same]) == view_text(view, chain[same + period]))
		same++;
	return same;
}

/* The fold, if any, at the start of this chain; returns how many frames were dealt with. */
static size_t fold_repeats(struct svg_folds *folds, const struct view *view, const uint32_t *chain,
			   size_t count)
{
	for (size_t period = 1; period <= MAX_PERIOD && period < count; period++) {
		size_t same = count_repeats(view, chain, count, period);
		if (same < period + LEAST_HIDDEN)
			continue;
		/* The first cycle and the last one stay: of same + period frames. */
		uint32_t fold = add_fold(folds, chain[period], true);
		for (size_t i = period; i < same; i++)
			folds->of[chain[i]] = fold;
		return same + period;
	}
	return 1;
}

static void fold_recursion(struct svg_folds *folds, const struct view *view, uint64_t threshold)
{
	uint32_t _cleanup_free_ *only = only_children(view, threshold);
	uint32_t _cleanup_free_ *chain = NULL;
	size_t capacity = 0;
	for (uint32_t i = 1; i < view->count; i++) {
		const uint32_t parent = view->nodes[i].parent;
		if (!is_heavy(view, i, threshold) || (parent && only[parent] == i))
			continue; /* not the first of a chain */
		size_t count = 0;
		for (uint32_t at = i; at && at != MANY; at = only[at]) {
			chain = alloc_room(chain, &capacity, count + 1, sizeof(*chain));
			chain[count++] = at;
		}
		for (size_t at = 0; at < count;)
			at += fold_repeats(folds, view, chain + at, count - at);
	}
}

/* ---- levels --------------------------------------------------------------------------------- */

static void set_rows(struct svg_folds *folds, const struct view *view)
{
	for (uint32_t i = 1; i < view->count; i++) {
		uint32_t parent = view->nodes[i].parent;
		bool inside = folds->of[i] && folds->of[i] == folds->of[parent];
		folds->rows[i] = folds->rows[parent] + !inside;
	}
}

/* The last level that is filled enough, or that is still on the screen. */
static uint32_t choose_height(const struct svg_folds *folds, const struct view *view,
			      uint64_t threshold, uint32_t deepest)
{
	uint64_t _cleanup_free_ *filled = alloc_zeroed(deepest + (size_t)1, sizeof(*filled));
	for (uint32_t i = 1; i < view->count; i++)
		if (is_heavy(view, i, threshold) &&
		    (!folds->of[i] || folds->list[folds->of[i] - 1].top == i))
			filled[folds->rows[i]] += view->totals[i];
	uint32_t height = deepest;
	while (height > SVG_SCREEN_ROWS &&
	       (double)filled[height] * 100 < (double)view->totals[0] * LEAST_PERCENT)
		height--;
	return height;
}

/* The last row that anything shown reaches inside of each node. */
static uint32_t *reached_rows(const struct svg_folds *folds, const struct view *view,
			      uint64_t threshold)
{
	uint32_t *reached = alloc_zeroed(view->count, sizeof(*reached));
	for (size_t i = view->count; i-- > 1;) {
		if (!is_heavy(view, (uint32_t)i, threshold))
			continue;
		uint32_t *parent = &reached[view->nodes[i].parent];
		if (reached[i] < folds->rows[i])
			reached[i] = folds->rows[i];
		if (*parent < reached[i])
			*parent = reached[i];
	}
	return reached;
}

/* What begins at the last row and goes on is one fold with all that is inside of it. */
static void fold_towers(struct svg_folds *folds, const struct view *view, uint64_t threshold,
			uint32_t height)
{
	const size_t recursions = folds->count;
	uint32_t _cleanup_free_ *reached = reached_rows(folds, view, threshold);
	for (uint32_t i = 1; i < view->count; i++) {
		const uint32_t parent = view->nodes[i].parent;
		if (folds->of[parent] > recursions)
			folds->of[i] = folds->of[parent];
		else if (folds->rows[i] == height && folds->rows[parent] < height &&
			 reached[i] > height)
			folds->of[i] = add_fold(folds, i, false);
		else
			continue;
		folds->rows[i] = height;
	}
}

static void count_levels(struct svg_folds *folds, const struct view *view, uint64_t threshold)
{
	for (uint32_t i = 1; i < view->count; i++) {
		if (!folds->of[i] || !is_heavy(view, i, threshold))
			continue;
		struct svg_fold *fold = &folds->list[folds->of[i] - 1];
		const uint32_t level =
			(uint32_t)(view->nodes[i].depth - view->nodes[fold->top].depth + 1);
		if (fold->levels < level)
			fold->levels = level;
	}
}

void svg_folds_init(struct svg_folds *folds, const struct view *view, uint64_t threshold)
{
	*folds = (struct svg_folds){
		.rows = alloc_zeroed(view->count, sizeof(*folds->rows)),
		.of = alloc_zeroed(view->count, sizeof(*folds->of)),
	};
	uint32_t deepest = deepest_of(view, threshold);
	if (deepest > SVG_SCREEN_ROWS)
		fold_recursion(folds, view, threshold);
	set_rows(folds, view);
	if (deepest > SVG_SCREEN_ROWS) {
		uint32_t height = choose_height(folds, view, threshold, deepest);
		fold_towers(folds, view, threshold, height);
	}
	count_levels(folds, view, threshold);
}

void svg_folds_release(struct svg_folds *folds)
{
	free(folds->rows);
	free(folds->of);
	free(folds->list);
	memset(folds, 0, sizeof(*folds));
}
