/* SPDX-License-Identifier: MIT */
/*
 * A profile as a page: one file that asks nobody for anything. The page itself is in
 * output/page/, the data in it as JSON in a script element that no browser runs. The page's policy
 * lets two scripts run, which it knows by their hashes, and nothing be loaded: whatever a name
 * holds, it does nothing. The data:
 *
 *	"title", "summary": texts;  "icicle": the root is at the top;  "notes", "facts": lines
 *	"kinds": [{"id":"python","title":"Python"},...]: what functions' kinds mean
 *	"nodes": {"up":[0,1,1,3],"frame":[-1,0,1,2]}: a node's parent is `up` nodes before it
 *	"frames": {"text":[string],"function":[],"line":[]}: a column each, of the same length
 *	"functions": {"text":[string],"kind":[],"shade":[],"file":[string],"module":[string]}
 *	"strings": [...]: what the columns marked so mean; -1: none
 *	"time": see html_time.c;  "source": "auto" or "none";  "sources": see html_source.c
 */
#include <string.h>

#include "pictures/html.h"
#include "pictures/page_files.h"

static void put_named(struct strbuf *out, const char *name, const struct strbuf *text)
{
	strbuf_printf(out, "\"%s\":", name);
	html_put_text(out, text->text, text->size);
	strbuf_add_text(out, ",\n");
}

static void put_heading(struct strbuf *out, const struct view *view,
			const struct view_options *options)
{
	const struct svg_layout nothing_pruned = {0};
	struct strbuf _cleanup_strbuf_ text;
	strbuf_init(&text);
	view_put_title(&text, view->profile, options);
	put_named(out, "title", &text);
	strbuf_reset(&text);
	svg_put_summary(&text, view, &nothing_pruned, options, NULL);
	put_named(out, "summary", &text);
	strbuf_printf(out, "\"icicle\":%s,\n\"source\":\"%s\",\n",
		      options->icicle ? "true" : "false",
		      options->source == SOURCE_AUTO ? "auto" : "none");
}

static void put_kinds(struct strbuf *out)
{
	strbuf_add_text(out, "\"kinds\":[");
	for (int i = 0; i <= SVG_NOTE; i++)
		strbuf_printf(out, "%s{\"id\":\"%s\",\"title\":\"%s\"}", i ? "," : "",
			      svg_paint_name(i), i == SVG_NOTE ? "left out" : view_kind_title(i));
	strbuf_add_text(out, "],\n");
}

static void put_fact(struct strbuf *out, const char *name, const char *text)
{
	strbuf_add_char(out, '[');
	html_put_text(out, name, strlen(name));
	strbuf_add_char(out, ',');
	html_put_text(out, text, strlen(text));
	strbuf_add_char(out, ']');
}

/* [["command","python3 train.py"],...] */
static void put_facts(struct strbuf *out, const struct profile *profile)
{
	struct view_facts facts;
	view_facts_init(&facts, profile);
	strbuf_add_text(out, "\"facts\":[");
	put_fact(out, "frames", profile->native ? "Python and native" : "Python");
	for (size_t i = 0; i < facts.count; i++) {
		strbuf_add_char(out, ',');
		put_fact(out, facts.list[i].name, facts.list[i].text);
	}
	if (profile->debug_problems) {
		strbuf_add_char(out, ',');
		put_fact(out, "debug information", profile->debug_problems);
	}
	strbuf_add_text(out, "],\n");
	view_facts_release(&facts);
}

/* What is not in the page, and why. */
static void put_notes(struct strbuf *out, const struct html_tree *tree, bool timed)
{
	const struct profile *profile = tree->view->profile;
	struct strbuf _cleanup_strbuf_ text;
	strbuf_init(&text);
	strbuf_add_text(out, "\"notes\":[");
	if (tree->left_out) {
		view_put_grouped(&text, tree->left_out);
		strbuf_add_text(&text, " of the call tree's ");
		view_put_grouped(&text, tree->view->count);
		strbuf_add_text(&text, " nodes, the lightest ones or very deep, are in "
				       "\"(smaller frames)\".");
		html_put_text(out, text.text, text.size);
	}
	if (profile->timed && !timed && tree->view->totals[0]) {
		static const char untimed[] =
			"Not all samples have a time: there is no time strip.";
		strbuf_add_text(out, tree->left_out ? "," : "");
		html_put_text(out, untimed, sizeof(untimed) - 1);
	}
	strbuf_add_text(out, "]");
}

void html_put_data(struct strbuf *out, const struct profile *profile,
		   const struct view_options *options, size_t max_nodes)
{
	struct view view;
	struct html_tree tree;
	struct html_strings strings = {0};
	view_init(&view, profile, options, VIEW_BOXES);
	html_tree_init(&tree, &view, max_nodes);
	strbuf_add_text(out, "{");
	put_heading(out, &view, options);
	put_kinds(out);
	put_facts(out, profile);
	html_put_tree(out, &tree, options, &strings);
	strbuf_add_text(out, ",\n");
	bool timed = html_put_time(out, &tree);
	strbuf_add_text(out, ",\n");
	put_notes(out, &tree, timed);
	strbuf_add_text(out, ",\n");
	html_put_sources(out, &tree, options, &strings);
	strbuf_add_text(out, ",\n");
	html_put_strings(out, &strings);
	strbuf_add_text(out, "}");
	html_strings_release(&strings);
	html_tree_release(&tree);
	view_release(&view);
}

/* The colours of frames: light, dark where the system is, and dark where it is asked for. */
static void put_style(struct strbuf *out)
{
	strbuf_add_text(out, "<style>\n:root{");
	svg_put_variables(out, false);
	strbuf_add_text(out, "}\n@media (prefers-color-scheme:dark){"
			     ":root:not([data-scheme=light]){");
	svg_put_variables(out, true);
	strbuf_add_text(out, "}}\n:root[data-scheme=dark]{");
	svg_put_variables(out, true);
	strbuf_add_text(out, "}\n");
	strbuf_add(out, page_style, sizeof(page_style) - 1);
	strbuf_add_text(out, "</style>\n");
}

static void put_script(struct strbuf *out, const char *script, size_t size)
{
	strbuf_add_text(out, "<script>");
	strbuf_add(out, script, size);
	strbuf_add_text(out, "</script>\n");
}

static void put_head(struct strbuf *out, const struct profile *profile,
		     const struct view_options *options)
{
	struct strbuf _cleanup_strbuf_ title;
	strbuf_init(&title);
	view_put_title(&title, profile, options);
	strbuf_add_text(out,
			"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
			"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
			"'none'; script-src '" PAGE_LIBRARIES_HASH "' '" PAGE_SCRIPT_HASH "'; "
			"style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n"
			"<meta name=\"viewport\" content=\"width=device-width, "
			"initial-scale=1\">\n<title>");
	view_put_xml(out, title.text, title.size);
	strbuf_add_text(out, "</title>\n");
	put_style(out);
	strbuf_add_text(out, "</head>\n<body>\n");
}

bool picture_html(const struct profile *profile, const struct view_options *options,
		  struct strbuf *out, struct error *error)
{
	(void)error;
	put_head(out, profile, options);
	strbuf_add(out, page_body, sizeof(page_body) - 1);
	strbuf_add_text(out, "<script type=\"application/json\" id=\"data\">\n");
	html_put_data(out, profile, options, HTML_MAX_NODES);
	strbuf_add_text(out, "</script>\n");
	put_script(out, page_libraries, sizeof(page_libraries) - 1);
	put_script(out, page_script, sizeof(page_script) - 1);
	strbuf_add_text(out, "</body>\n</html>\n");
	return true;
}
