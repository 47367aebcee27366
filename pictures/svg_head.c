/* SPDX-License-Identifier: MIT */
/*
 * The head of the SVG: the title, one line of what was recorded and what is not shown, and the
 * legend with each kind's share. Shares are of all samples, by the kind of their leaf, whatever
 * was pruned.
 */
#include <string.h>

#include "pictures/svg.h"

/* Room for text: cells of about 9.6, 6.6 pixels; the search box is at the right. */
enum { TITLE_CELLS = 78, LINE_CELLS = 175 };

#define DOT " \xc2\xb7 "

static bool has_text(const char *text)
{
	return text && *text;
}

static void put_plural(struct strbuf *out, uint64_t count, const char *what)
{
	view_put_grouped(out, count);
	strbuf_printf(out, " %s%s", what, count == 1 ? "" : "s");
}

static void put_pruned(struct strbuf *out, const struct svg_layout *layout)
{
	if (layout->pruned) {
		strbuf_add_text(out, DOT "pruned ");
		view_put_grouped(out, layout->pruned);
		strbuf_add_text(out, layout->pruned == 1 ? " box below " : " boxes below ");
		view_put_percent(out, layout->least_percent, 100);
		strbuf_add_text(out, " %");
	}
	if (layout->too_deep) {
		strbuf_add_text(out, DOT);
		view_put_grouped(out, layout->too_deep);
		strbuf_add_text(out, layout->too_deep == 1 ? " box" : " boxes");
		strbuf_add_text(out, " too deep to be shown");
	}
	if (layout->notes) {
		strbuf_add_text(out, DOT "folded at ");
		put_plural(out, layout->notes, "place");
	}
}

static void put_share(struct strbuf *out, const char *before, double share, const char *behind)
{
	strbuf_add_text(out, before);
	view_put_percent(out, share, 1);
	strbuf_printf(out, " %%%s", behind);
}

/* "99.8 of 100 Hz · 0.2 % late · target stopped 0.4 % of the time" */
static void put_pacing(struct strbuf *out, const struct profile *profile)
{
	const struct profile_pacing pacing = profile_pacing(&profile->counts, profile->rate);
	strbuf_add_text(out, DOT);
	if (pacing.rate > 0) {
		view_put_fixed(out, pacing.rate, 1);
		strbuf_add_text(out, " of ");
	}
	double whole = (double)(uint64_t)(profile->rate < 1e9 ? profile->rate : 0);
	view_put_fixed(out, profile->rate, profile->rate == whole ? 0 : 1);
	strbuf_add_text(out, " Hz");
	if (pacing.late_share > 0)
		put_share(out, DOT, pacing.late_share, " late");
	if (pacing.stopped_share > 0)
		put_share(out, DOT "target stopped ", pacing.stopped_share, " of the time");
}

/* "1,180 samples · 11.8 s · 99.8 of 100 Hz · 3 threads · Python 3.11.2 · pruned ... ..." */
void svg_put_summary(struct strbuf *out, const struct view *view, const struct svg_layout *layout,
		     const struct view_options *options, const struct svg_looks *looks)
{
	const struct profile *profile = view->profile;
	if (looks) {
		looks->put_summary(out, looks->context);
		put_pruned(out, layout);
		return;
	}
	put_plural(out, view->totals[0], "sample");
	if (profile_is_of_cpu_time(profile) && profile->rate > 0) {
		strbuf_add_text(out, DOT);
		view_put_unit(out, profile);
	}
	if (profile->counts.elapsed_ns) {
		strbuf_add_text(out, DOT);
		view_put_fixed(out, (double)profile->counts.elapsed_ns / 1e9, 1);
		strbuf_add_text(out, " s");
	}
	if (profile->rate > 0)
		put_pacing(out, profile);
	if (profile->counts.threads) {
		strbuf_add_text(out, DOT);
		put_plural(out, profile->counts.threads, "thread");
	}
	if (has_text(profile->python_version))
		strbuf_printf(out, DOT "Python %s", profile->python_version);
	put_pruned(out, layout);
	if (has_text(options->title) && has_text(profile->command_line))
		strbuf_printf(out, DOT "%s", profile->command_line);
}

static void put_text(struct strbuf *out, const char *class, int y, const char *text, size_t cells)
{
	strbuf_printf(out, "<text class=\"%s\" x=\"%d\" y=\"%d\">", class, SVG_MARGIN, y);
	view_put_xml_cut(out, text, cells);
	strbuf_add_text(out, "</text>\n");
}

double svg_put_swatch(struct strbuf *out, double x, const char *class, const char *text)
{
	strbuf_printf(out, "<g class=\"%s\"><rect x=\"", class);
	view_put_fixed(out, x, 0);
	strbuf_add_text(out, "\" y=\"58\" width=\"12\" height=\"12\" rx=\"2\"/><text x=\"");
	view_put_fixed(out, x + 17, 0);
	strbuf_add_text(out, "\" y=\"68\">");
	view_put_xml(out, text, strlen(text));
	strbuf_add_text(out, "</text></g>\n");
	return 17 + 6.5 * (double)strlen(text) + 14; /* the script measures */
}

/* A swatch, the kind and its share of the samples; returns the width taken. */
static double put_swatch(struct strbuf *out, double x, enum frame_kind kind, uint64_t part,
			 uint64_t whole)
{
	const char class[] = {(char)('a' + (int)kind), '2', 0};
	struct strbuf _cleanup_strbuf_ text;
	strbuf_init(&text);
	strbuf_printf(&text, "%s ", view_kind_title(kind));
	view_put_percent(&text, (double)part, (double)whole);
	strbuf_add_text(&text, " %");
	return svg_put_swatch(out, x, class, text.text);
}

static void put_legend(struct strbuf *out, const struct view *view)
{
	uint64_t self[FRAME_KIND_COUNT] = {0};
	bool present[FRAME_KIND_COUNT] = {false};
	for (size_t i = 1; i < view->count; i++) {
		enum frame_kind kind = view->profile->frames[view->nodes[i].frame].kind;
		if ((unsigned)kind >= FRAME_KIND_COUNT)
			continue;
		self[kind] += view->nodes[i].self;
		present[kind] |= view->totals[i] > 0;
	}
	strbuf_add_text(out, "<g class=\"legend\">\n");
	double x = SVG_MARGIN;
	for (int i = 0; i < FRAME_KIND_COUNT; i++)
		if (present[i] && i != FRAME_THREAD)
			x += put_swatch(out, x, i, self[i], view->totals[0]);
	strbuf_add_text(out, "</g>\n");
}

void svg_put_head(struct strbuf *out, const struct view *view, const struct svg_layout *layout,
		  const struct view_options *options, const struct svg_looks *looks)
{
	struct strbuf _cleanup_strbuf_ line;
	strbuf_init(&line);
	strbuf_printf(out,
		      "<g class=\"head\">\n<rect class=\"page\" width=\"100%%\" height=\"%d\"/>\n",
		      SVG_HEAD - 4);
	view_put_title(&line, view->profile, options);
	put_text(out, "heading", 27, line.text, TITLE_CELLS);
	strbuf_reset(&line);
	svg_put_summary(&line, view, layout, options, looks);
	put_text(out, "quiet", 47, line.text, LINE_CELLS);
	if (looks)
		looks->put_legend(out);
	else
		put_legend(out, view);
	put_text(out, "status", 86, "", 1);
	strbuf_add_text(out, "</g>\n");
}
