/* SPDX-License-Identifier: MIT */
/* A difference as one page: the table of functions by change, and the picture. Loads nothing. */
#include <string.h>

#include "pictures/html.h"

static const char head[] =
	"<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
	"style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
	"<meta name=\"viewport\" content=\"width=device-width\">\n"
	"<style>\n"
	":root{color-scheme:light dark}\n"
	"body{font:15px/1.45 system-ui,'DejaVu "
	"Sans',sans-serif;margin:20px;background:#fff;color:#1b1f24}\n"
	"h1{font-size:20px;margin:0 0 4px}p{margin:4px 0 14px;color:#57606a}\n"
	".rows{max-height:44vh;overflow:auto;margin:0 0 22px}\n"
	"table{border-collapse:collapse}th{position:sticky;top:0;background:#fff}\n"
	"th,td{padding:3px 14px 3px 0;text-align:right;border-bottom:1px solid #d8dee4}\n"
	"th:last-child,td:last-child{text-align:left;font-family:ui-monospace,'DejaVu Sans "
	"Mono',monospace;"
	"overflow-wrap:anywhere}\n"
	"tr.more td:first-child{color:#b03a1d;font-weight:600}tr.less "
	"td:first-child{color:#1f66a5;font-weight:600}\n"
	"svg{max-width:100%;height:auto}\n"
	"@media (prefers-color-scheme:dark){body{background:#15181c;color:#f3f5f7}p{color:#a2abb5}"
	"th,td{border-color:#3a4149}th{background:#15181c}tr.more "
	"td:first-child{color:#ea7458}tr.less "
	"td:first-child{color:#6cb0ee}}\n"
	"@media print{.rows{max-height:none}}\n"
	"</style>\n";

static void put_text(struct strbuf *out, const char *text)
{
	view_put_xml_cut(out, text, 400);
}

static void put_row(struct strbuf *out, const struct profile_diff *diff,
		    const struct diff_function *function)
{
	const char *class = !function->self_differs	? ""
			    : function->self_change > 0 ? " class=\"more\""
							: " class=\"less\"";
	strbuf_printf(out, "<tr%s><td>", class);
	view_diff_put_change(out, function->self_change);
	strbuf_add_text(out, "</td><td>");
	view_diff_put_share(out, function->self.before, diff->samples.before);
	strbuf_add_text(out, "</td><td>");
	view_diff_put_share(out, function->self.after, diff->samples.after);
	strbuf_add_text(out, "</td><td>");
	view_diff_put_change(out, function->total_change);
	strbuf_add_text(out, "</td><td>");
	put_text(out, function->text);
	strbuf_add_text(out, "</td></tr>\n");
}

/* What differs is first, and the picture is in sight below, however many rows there are. */
static void put_table(struct strbuf *out, const struct profile_diff *diff,
		      const struct view_options *options)
{
	strbuf_add_text(out, "<div class=\"rows\" tabindex=\"0\"><table>\n"
			     "<tr><th>change</th><th>before</th><th>after</th>"
			     "<th>total</th><th>function (self)</th></tr>\n");
	const struct diff_table table = view_diff_table(diff, options);
	for (int differs = 1; differs >= 0; differs--)
		for (size_t i = 0; i < view_diff_rows(&table); i++) {
			const struct diff_function *row = view_diff_row(diff, &table, i);
			if (row->self_differs == (bool)differs)
				put_row(out, diff, row);
		}
	strbuf_add_text(out, "</table></div>\n");
}

bool picture_diff_html(const struct profile_diff *diff, const struct view_options *options,
		       struct strbuf *out, struct error *error)
{
	struct strbuf _cleanup_strbuf_ title, _cleanup_strbuf_ picture;
	strbuf_init(&title);
	strbuf_init(&picture);
	view_put_title(&title, diff->after, options);
	/* On a page the root is in sight first. */
	struct view_options form = *options;
	form.icicle = true;
	if (!picture_diff_svg(diff, &form, &picture, error))
		return false;
	strbuf_add_text(out, head);
	strbuf_add_text(out, "<title>Difference: ");
	put_text(out, title.text);
	strbuf_add_text(out, "</title></head><body>\n<h1>");
	put_text(out, title.text);
	strbuf_add_text(
		out, "</h1>\n<p>Points of each profile's own samples; coloured where the change is "
		     "more than 1 point and than ");
	view_put_fixed(out, diff->sigmas, 1);
	strbuf_add_text(out, " standard deviations.</p>\n");
	put_table(out, diff, options);
	/* A page has no XML declaration inside. */
	const char *svg = strstr(picture.text, "<svg ");
	strbuf_add_text(out, svg ? svg : "");
	strbuf_add_text(out, "</body></html>\n");
	return true;
}
