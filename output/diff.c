/* SPDX-License-Identifier: MIT */
/* Which formats a difference of two profiles can be written in, and as text for people. */
#include "output/internal.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "pictures/pictures.h"

static const struct {
	enum output_format format;
	diff_writer *write;
} rows[] = {
	{OUTPUT_SVG, picture_diff_svg},
	{OUTPUT_HTML, picture_diff_html},
	{OUTPUT_MARKDOWN, output_diff_markdown},
	{OUTPUT_FOLDED, output_diff_folded},
};

bool output_diff(const struct profile_diff *diff, enum output_format format,
		 const struct view_options *options, struct strbuf *out, struct error *error)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (rows[i].format == format)
			return rows[i].write(diff, options, out, error);
	return error_set(error, ERROR_UNSUPPORTED,
			 "a difference is written as svg, html, markdown or folded");
}

bool output_diff_has(enum output_format format)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (rows[i].format == format)
			return true;
	return false;
}

/* ---- folded: two counts a line, as difffolded.pl (FlameGraph) writes ----------------------------
 */

static void put_stack(struct strbuf *out, const struct view *view, uint32_t node, uint32_t *path)
{
	size_t depth = 0;
	for (; node != PROFILE_ROOT; node = view->nodes[node].parent)
		path[depth++] = node;
	if (depth == 0)
		strbuf_add_text(out, "[no frames]");
	while (depth-- > 0) {
		strbuf_add_text(out, view_text(view, path[depth]));
		if (depth > 0)
			strbuf_add_char(out, ';');
	}
}

/* What is shown alike is one stack, whatever kinds its frames have in the two profiles. */
static struct diff_counts *counts_of(const struct view *view, const struct profile_diff *diff)
{
	struct diff_counts *counts = alloc_zeroed(view->count, sizeof(*counts));
	for (size_t i = 0; i < diff->tree.node_count; i++) {
		counts[view->of_node[i]].before += diff->self[i].before;
		counts[view->of_node[i]].after += diff->self[i].after;
	}
	return counts;
}

bool output_diff_folded(const struct profile_diff *diff, const struct view_options *options,
			struct strbuf *out, struct error *error)
{
	struct view_options plain = *options;
	struct view view;
	(void)error;
	plain.lines = false;
	view_init(&view, &diff->tree, &plain, VIEW_FOLDED);
	struct diff_counts _cleanup_free_ *counts = counts_of(&view, diff);
	uint32_t _cleanup_free_ *path = alloc_zeroed(view_depth(&view) + 1, sizeof(*path));
	for (uint32_t i = 0; i < view.count; i++) {
		if (!counts[i].before && !counts[i].after)
			continue;
		put_stack(out, &view, i, path);
		strbuf_printf(out, " %" PRIu64 " %" PRIu64 "\n", counts[i].before, counts[i].after);
	}
	view_release(&view);
	return true;
}

/* ---- markdown -----------------------------------------------------------------------------------
 */

static void put_profile(struct strbuf *out, const char *what, const struct profile *profile,
			uint64_t samples)
{
	strbuf_printf(out, "    %s: ", what);
	view_put_grouped(out, samples);
	strbuf_add_text(out, " samples");
	if (profile->start_time_ns) {
		strbuf_add_text(out, ", ");
		view_put_time(out, profile->start_time_ns / 1000000000u);
	}
	if (profile->command_line && *profile->command_line) {
		strbuf_add_text(out, ", ");
		view_put_clean(out, profile->command_line);
	}
	strbuf_add_char(out, '\n');
}

static void put_cell(struct strbuf *out, const struct strbuf *text, int width)
{
	strbuf_printf(out, "%*s", width, text->text);
}

static void put_row(struct strbuf *out, const struct profile_diff *diff,
		    const struct diff_function *function)
{
	struct strbuf _cleanup_strbuf_ text;
	const uint64_t before = diff->samples.before, after = diff->samples.after;
	strbuf_init(&text);
	strbuf_add_text(out, "    ");
	view_diff_put_change(&text, function->self_change);
	put_cell(out, &text, 7);
	strbuf_reset(&text);
	view_diff_put_share(&text, function->self.before, before);
	put_cell(out, &text, 10);
	strbuf_reset(&text);
	view_diff_put_share(&text, function->self.after, after);
	put_cell(out, &text, 10);
	strbuf_reset(&text);
	view_diff_put_change(&text, function->total_change);
	put_cell(out, &text, 9);
	strbuf_printf(out, "  %c  ", function->self_differs ? '*' : ' ');
	strbuf_reset(&text);
	strbuf_add(&text, function->text, strnlen(function->text, 96));
	view_put_clean(out, text.text);
	strbuf_add_char(out, '\n');
}

bool output_diff_markdown(const struct profile_diff *diff, const struct view_options *options,
			  struct strbuf *out, struct error *error)
{
	const struct diff_table table = view_diff_table(diff, options);
	const size_t rows_shown = view_diff_rows(&table);
	(void)error;
	strbuf_add_text(out, "# What has changed\n\n");
	put_profile(out, "before", diff->before, diff->samples.before);
	put_profile(out, " after", diff->after, diff->samples.after);
	strbuf_add_text(out,
			"\nShares are of each profile's own samples, changes are points of them. "
			"`*`: more than 1 point and\nthan ");
	view_put_fixed(out, diff->sigmas, 1);
	strbuf_printf(out,
		      " standard deviations, so that chance does not explain it: %zu of %zu "
		      "functions.\n\n",
		      view_diff_count(diff), diff->function_count);
	strbuf_add_text(out, "     change    before     after    total     function (self)\n");
	for (size_t i = 0; i < rows_shown; i++)
		put_row(out, diff, view_diff_row(diff, &table, i));
	if (rows_shown == 0)
		strbuf_add_text(out, "    nothing\n");
	return true;
}
