/* SPDX-License-Identifier: MIT */
/*
 * The head of the SVG: the title, one line of what was recorded and what is not shown, and the
 * legend with each kind's share. Shares are of all samples, by the kind of their leaf, whatever
 * was pruned.
 */
#include <string.h>

#include "output/internal.h"

/* Room for text: cells of about 9.6, 6.6 pixels; the search box stands at the right. */
enum { TITLE_CELLS = 78, LINE_CELLS = 175 };

#define DOT " \xc2\xb7 "

const char *output_svg_kind_title(enum frame_kind kind)
{
	static const char *const titles[FRAME_KIND_COUNT] = {
		[FRAME_PYTHON] = "Python",   [FRAME_PYTHON_LIBRARY] = "standard library & packages",
		[FRAME_CYTHON] = "Cython",   [FRAME_BUILTIN] = "built-in",
		[FRAME_NATIVE] = "native",   [FRAME_INTERPRETER] = "interpreter",
		[FRAME_KERNEL] = "kernel",   [FRAME_IDLE] = "idle",
		[FRAME_GUESSED] = "guessed", [FRAME_THREAD] = "thread",
	};
	return (unsigned)kind < FRAME_KIND_COUNT ? titles[kind] : "unknown";
}

static bool has_text(const char *text)
{
	return text && *text;
}

void output_svg_put_title(struct strbuf *out, const struct profile *profile,
			  const struct output_options *options)
{
	if (has_text(options->title))
		strbuf_add_text(out, options->title);
	else if (has_text(profile->command_line))
		strbuf_add_text(out, profile->command_line);
	else
		strbuf_printf(out, "process %d", (int)profile->pid);
}

static void put_plural(struct strbuf *out, uint64_t count, const char *what)
{
	output_put_grouped(out, count);
	strbuf_printf(out, " %s%s", what, count == 1 ? "" : "s");
}

static void put_pruned(struct strbuf *out, const struct svg_layout *layout)
{
	if (layout->pruned) {
		strbuf_add_text(out, DOT "pruned ");
		output_put_grouped(out, layout->pruned);
		strbuf_add_text(out, layout->pruned == 1 ? " box below " : " boxes below ");
		output_put_percent(out, layout->least_percent, 100);
		strbuf_add_text(out, " %");
	}
	if (layout->too_deep) {
		strbuf_add_text(out, DOT);
		output_put_grouped(out, layout->too_deep);
		strbuf_add_text(out, " boxes deeper than ");
		output_put_grouped(out, SVG_MAX_DEPTH);
		strbuf_add_text(out, " frames not shown");
	}
}

static void put_share(struct strbuf *out, const char *before, double share, const char *behind)
{
	strbuf_add_text(out, before);
	output_put_percent(out, share, 1);
	strbuf_printf(out, " %%%s", behind);
}

/* "99.8 of 100 Hz · 0.2 % late · target stopped 0.4 % of the time" */
static void put_pacing(struct strbuf *out, const struct profile *profile)
{
	const struct profile_pacing pacing = profile_pacing(&profile->counts);
	strbuf_add_text(out, DOT);
	if (pacing.rate > 0) {
		output_put_fixed(out, pacing.rate, 1);
		strbuf_add_text(out, " of ");
	}
	double whole = (double)(uint64_t)(profile->rate < 1e9 ? profile->rate : 0);
	output_put_fixed(out, profile->rate, profile->rate == whole ? 0 : 1);
	strbuf_add_text(out, " Hz");
	if (pacing.late_share > 0)
		put_share(out, DOT, pacing.late_share, " late");
	if (pacing.stopped_share > 0)
		put_share(out, DOT "target stopped ", pacing.stopped_share, " of the time");
}

/* "1,180 samples · 11.8 s · 99.8 of 100 Hz · 3 threads · Python 3.11.2 · pruned ... ..." */
void output_svg_put_summary(struct strbuf *out, const struct view *view,
			    const struct svg_layout *layout, const struct output_options *options)
{
	const struct profile *profile = view->profile;
	put_plural(out, view->totals[0], "sample");
	if (profile->counts.elapsed_ns) {
		strbuf_add_text(out, DOT);
		output_put_fixed(out, (double)profile->counts.elapsed_ns / 1e9, 1);
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
	output_put_xml_cut(out, text, cells);
	strbuf_add_text(out, "</text>\n");
}

/* A swatch, the kind and its share of the samples; returns the width taken. */
static double put_swatch(struct strbuf *out, double x, enum frame_kind kind, uint64_t part,
			 uint64_t whole)
{
	struct strbuf _cleanup_strbuf_ text;
	strbuf_init(&text);
	strbuf_printf(&text, "%s ", output_svg_kind_title(kind));
	output_put_percent(&text, (double)part, (double)whole);
	strbuf_add_text(&text, " %");
	strbuf_printf(out, "<g class=\"%c2\"><rect x=\"", 'a' + (int)kind);
	output_put_fixed(out, x, 0);
	strbuf_add_text(out, "\" y=\"58\" width=\"12\" height=\"12\" rx=\"2\"/><text x=\"");
	output_put_fixed(out, x + 17, 0);
	strbuf_add_text(out, "\" y=\"68\">");
	output_put_xml(out, text.text, text.size);
	strbuf_add_text(out, "</text></g>\n");
	return 17 + 6.5 * (double)text.size + 14; /* the script measures */
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

void output_svg_put_head(struct strbuf *out, const struct view *view,
			 const struct svg_layout *layout, const struct output_options *options)
{
	struct strbuf _cleanup_strbuf_ line;
	strbuf_init(&line);
	strbuf_printf(out,
		      "<g class=\"head\">\n<rect class=\"page\" width=\"100%%\" height=\"%d\"/>\n",
		      SVG_HEAD - 4);
	output_svg_put_title(&line, view->profile, options);
	put_text(out, "heading", 27, line.text, TITLE_CELLS);
	strbuf_reset(&line);
	output_svg_put_summary(&line, view, layout, options);
	put_text(out, "quiet", 47, line.text, LINE_CELLS);
	put_legend(out, view);
	put_text(out, "status", 86, "", 1);
	strbuf_add_text(out, "</g>\n");
}
