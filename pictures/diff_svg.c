/* SPDX-License-Identifier: MIT */
/*
 * A difference as a flame graph: boxes are as wide as the mean of both shares, so that what has
 * gone is seen as well as what is new; red is what has a larger share now, blue what has a smaller
 * one. Red and blue are apart for colour-blind eyes, and a tooltip has the numbers.
 */
#include <math.h>
#include <string.h>

#include "pictures/svg.h"

enum { LEVELS = 4, SAME = LEVELS }; /* classes p0 (much less) to p8 (much more) */

static const double points[LEVELS] = {0.25, 1, 3, 10};

/* The paler, the less; what chance explains is pale. */
static int level_of(const struct profile_diff *diff, struct diff_counts total)
{
	const double change = diff_change(diff, total);
	int level = 0;
	while (level < LEVELS && fabs(100 * change) >= points[level])
		level++;
	if (level > 1 && !diff_differs(diff, total))
		level = 1;
	return change < 0 ? SAME - level : SAME + level;
}

static void put_class(struct strbuf *out, const void *context, uint32_t node)
{
	const struct profile_diff *diff = context;
	strbuf_printf(out, "p%d", level_of(diff, diff->total[node]));
}

static void put_pair(struct strbuf *out, const struct profile_diff *diff, const char *what,
		     struct diff_counts counts)
{
	strbuf_printf(out, "%s", what);
	view_diff_put_share(out, counts.before, diff->samples.before);
	strbuf_add_text(out, " before, ");
	view_diff_put_share(out, counts.after, diff->samples.after);
	strbuf_add_text(out, " after: ");
	view_diff_put_change(out, diff_change(diff, counts));
	strbuf_add_text(out, diff_differs(diff, counts) ? " points" : " points (may be chance)");
}

static void put_share(struct strbuf *out, const void *context, uint32_t node)
{
	const struct profile_diff *diff = context;
	put_pair(out, diff, "", diff->total[node]);
	put_pair(out, diff, "\nself ", diff->self[node]);
}

static void put_summary(struct strbuf *out, const void *context)
{
	const struct profile_diff *diff = context;
	view_put_grouped(out, diff->samples.before);
	strbuf_add_text(out, " samples before \xc2\xb7 ");
	view_put_grouped(out, diff->samples.after);
	strbuf_add_text(out, " after \xc2\xb7 as wide as the mean of both shares \xc2\xb7 ");
	view_put_grouped(out, view_diff_count(diff));
	strbuf_add_text(out,
			view_diff_count(diff) == 1 ? " function differs" : " functions differ");
	strbuf_add_text(out, " by more than chance");
}

static void put_legend(struct strbuf *out)
{
	static const struct {
		const char *class, *text;
	} swatches[] = {
		{"p0", "10 points less"}, {"p1", "3"}, {"p2", "1"},
		{"p4", "the same"},	  {"p6", "1"}, {"p7", "3"},
		{"p8", "10 points more"},
	};
	double x = SVG_MARGIN;
	strbuf_add_text(out, "<g class=\"legend\">\n");
	for (size_t i = 0; i < sizeof(swatches) / sizeof(*swatches); i++)
		x += svg_put_swatch(out, x, swatches[i].class, swatches[i].text);
	strbuf_add_text(out, "</g>\n");
}

static void put_style(struct strbuf *out)
{
	static const char *const light[] = {"4d93d0", "74abdb", "a9cbe8", "d8e6f3", "eceff2",
					    "fbdcd2", "f7b39b", "ee8465", "e0603f"};
	static const char *const dark[] = {"5b9bd5", "6f9fce", "84a5c6", "8ea5bb", "9aa3ad",
					   "bd9f96", "d0988a", "df8770", "ea7458"};
	strbuf_add_text(out, "<style>\n");
	for (int i = 0; i <= 2 * LEVELS; i++)
		strbuf_printf(out, ".fg .p%d rect{fill:#%s}", i, light[i]);
	strbuf_add_text(out, "\n@media (prefers-color-scheme:dark){");
	for (int i = 0; i <= 2 * LEVELS; i++)
		strbuf_printf(out, ".fg .p%d rect{fill:#%s}", i, dark[i]);
	strbuf_add_text(out, "}\n.fg .hit rect{fill:#b8f060}\n</style>\n");
}

bool picture_diff_svg(const struct profile_diff *diff, const struct view_options *options,
		      struct strbuf *out, struct error *error)
{
	const struct svg_looks looks = {
		.title = "Difference",
		.put_class = put_class,
		.put_share = put_share,
		.put_summary = put_summary,
		.put_legend = put_legend,
		.put_style = put_style,
		.context = diff,
	};
	struct view_options plain = *options;
	(void)error;
	plain.lines = false; /* the tree is by function: a node of the view is one of it */
	plain.full_filenames = false;
	svg_put(&diff->tree, &plain, &looks, out);
	return true;
}
