/* SPDX-License-Identifier: MIT */
/*
 * A profile as text for an issue, or for a language model: how it was made, the hottest paths,
 * functions and lines, kinds of code and threads; by default in at most 8 KB. Everything from the
 * process is in fenced blocks behind a number or a word of ours, so that nothing in it is
 * markup.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/table.h"
#include "output/internal.h"

enum {
	DEFAULT_TOP = 10,
	MOST_BYTES = 8000,
	TEXT_BYTES = 96, /* of one name */
	PATH_OUTER = 3,	 /* frames of a path that are shown, at either end */
	PATH_INNER = 5,
	FACT_BYTES = 240,
};

/* A function, a line, a path, a kind or a thread. */
struct row {
	const char *text;
	enum frame_kind kind;
	uint64_t self, total;
	uint32_t node; /* of a path */
};

struct rows {
	struct row *list;
	size_t count, capacity;
};

struct report {
	const struct profile *profile;
	struct strbuf *out;
	uint64_t whole;
	size_t top;
	struct view functions, lines;
	bool with_lines;
};

static struct row *add_row(struct rows *rows, const struct row *row)
{
	rows->list = alloc_room(rows->list, &rows->capacity, rows->count + 1, sizeof(*rows->list));
	rows->list[rows->count] = *row;
	return &rows->list[rows->count++];
}

static int by_text(const struct row *one, const struct row *two)
{
	const int order = strcmp(one->text ? one->text : "", two->text ? two->text : "");
	return order ? order : (one->node > two->node) - (one->node < two->node);
}

static int by_self(const void *a, const void *b)
{
	const struct row *one = a, *two = b;
	if (one->self != two->self)
		return one->self < two->self ? 1 : -1;
	return by_text(one, two);
}

static int by_total(const void *a, const void *b)
{
	const struct row *one = a, *two = b;
	if (one->total != two->total)
		return one->total < two->total ? 1 : -1;
	return by_text(one, two);
}

static void sort(struct rows *rows, int (*order)(const void *, const void *))
{
	if (rows->count)
		qsort(rows->list, rows->count, sizeof(*rows->list), order);
}

/* ---- what there is --------------------------------------------------------------------------- */

/* The row of each node's text: an index. Its kind: what the function is, also where it idles. */
static uint32_t *make_rows(struct rows *rows, const struct view *view)
{
	struct table ids;
	table_init(&ids);
	uint32_t *of = alloc_zeroed(view->count, sizeof(*of));
	for (uint32_t i = 1; i < view->count; i++) {
		const struct frame *frame = &view->profile->frames[view->nodes[i].frame];
		const char *text = view_text(view, i);
		uint32_t id;
		const uint64_t key = (uint64_t)(uintptr_t)text;
		if (!table_find(&ids, key, frame->kind == FRAME_THREAD, &id)) {
			id = (uint32_t)rows->count;
			add_row(rows, &(struct row){.text = text, .kind = frame->kind});
			table_put(&ids, key, frame->kind == FRAME_THREAD, id);
		}
		if (rows->list[id].kind == FRAME_IDLE)
			rows->list[id].kind = frame->kind;
		of[i] = id;
		rows->list[id].self += view->nodes[i].self;
	}
	table_release(&ids);
	return of;
}

/* A function that calls itself counts once: its outermost call has all the samples. */
static void add_totals(struct rows *rows, const struct view *view, const uint32_t *of)
{
	uint32_t _cleanup_free_ *order = view_order(view);
	uint32_t _cleanup_free_ *open = alloc_zeroed(rows->count + 1, sizeof(*open));
	uint32_t _cleanup_free_ *path = alloc_zeroed(view->count, sizeof(*path));
	size_t depth = 0;
	for (size_t i = 1; i < view->count; i++) {
		const uint32_t node = order[i];
		while (depth && path[depth - 1] != view->nodes[node].parent)
			open[of[path[--depth]]]--;
		path[depth++] = node;
		if (open[of[node]]++ == 0)
			rows->list[of[node]].total += view->totals[node];
	}
}

/* ---- writing -----------------------------------------------------------------------------------
 */

/* No more than so many bytes, and whole characters. */
static void put_cut(struct strbuf *out, const char *text, size_t most)
{
	size_t size = strlen(text);
	if (size > most) {
		size = most;
		while (size && ((unsigned char)text[size] & 0xc0) == 0x80)
			size--;
	}
	struct strbuf _cleanup_strbuf_ part;
	strbuf_init(&part);
	strbuf_add(&part, text, size);
	view_put_clean(out, part.text);
	if (text[size])
		strbuf_add_text(out, "\xe2\x80\xa6");
}

/* " 12.3 %", as wide as all others. */
static void put_share(const struct report *report, uint64_t part)
{
	struct strbuf _cleanup_strbuf_ text;
	strbuf_init(&text);
	view_put_fixed(&text, report->whole ? 100.0 * (double)part / (double)report->whole : 0, 1);
	strbuf_printf(report->out, "%5s %%", text.text);
}

static void begin(const struct report *report, const char *heading)
{
	strbuf_printf(report->out, "\n## %s\n\n```text\n", heading);
}

static void end(const struct report *report)
{
	strbuf_add_text(report->out, "```\n");
}

static void put_facts(const struct report *report)
{
	struct view_facts facts;
	view_facts_init(&facts, report->profile);
	strbuf_add_text(report->out, "```text\n");
	for (size_t i = 0; i < facts.count; i++) {
		strbuf_printf(report->out, "%-8s ", facts.list[i].name);
		put_cut(report->out, facts.list[i].text, FACT_BYTES);
		strbuf_add_char(report->out, '\n');
	}
	end(report);
	view_facts_release(&facts);
}

static void put_path(const struct report *report, uint32_t node)
{
	const struct view *view = &report->functions;
	const size_t depth = view->nodes[node].depth;
	uint32_t _cleanup_free_ *path = alloc_zeroed(depth + 1, sizeof(*path));
	size_t count = 0;
	for (uint32_t at = node; at && count < depth; at = view->nodes[at].parent)
		path[count++] = at;
	for (size_t i = count; i-- > 0;) {
		const size_t outer = count - 1 - i;
		if (outer == PATH_OUTER && i >= PATH_INNER + 1) {
			strbuf_printf(report->out, " > ... %zu frames ...", i + 1 - PATH_INNER);
			i = PATH_INNER;
			continue;
		}
		strbuf_add_text(report->out, outer ? " > " : "  ");
		put_cut(report->out, view_text(view, path[i]), TEXT_BYTES);
	}
	if (!count)
		strbuf_add_text(report->out, "  [no frames]");
	strbuf_add_char(report->out, '\n');
}

static void put_paths(const struct report *report)
{
	struct rows rows = {0};
	const struct view *view = &report->functions;
	for (uint32_t i = 0; i < view->count; i++)
		if (view->nodes[i].self)
			add_row(&rows, &(struct row){.self = view->nodes[i].self, .node = i});
	sort(&rows, by_self);
	begin(report, "Hottest paths, outermost function first");
	for (size_t i = 0; i < rows.count && i < report->top; i++) {
		put_share(report, rows.list[i].self);
		put_path(report, rows.list[i].node);
	}
	end(report);
	free(rows.list);
}

static void put_table(const struct report *report, const char *heading, const struct rows *rows,
		      bool totals)
{
	begin(report, heading);
	strbuf_add_text(report->out, totals ? "   self    total  kind            name\n"
					    : "   self  kind            name\n");
	for (size_t i = 0, shown = 0; i < rows->count && shown < report->top; i++) {
		const struct row *row = &rows->list[i];
		if (row->kind == FRAME_THREAD || (!row->self && !row->total))
			continue; /* threads have a table of their own */
		shown++;
		put_share(report, row->self);
		if (totals) {
			strbuf_add_text(report->out, "  ");
			put_share(report, row->total);
		}
		strbuf_printf(report->out, "  %-14s  ", frame_kind_name(row->kind));
		put_cut(report->out, row->text, TEXT_BYTES);
		strbuf_add_char(report->out, '\n');
	}
	end(report);
}

static void put_functions(const struct report *report)
{
	struct rows rows = {0};
	uint32_t _cleanup_free_ *of = make_rows(&rows, &report->functions);
	add_totals(&rows, &report->functions, of);
	sort(&rows, by_self);
	put_table(report, "Functions by their own samples", &rows, true);
	sort(&rows, by_total);
	put_table(report, "Functions by all samples in them and what they called", &rows, true);
	free(rows.list);
}

static void put_lines(const struct report *report)
{
	struct rows rows = {0};
	free(make_rows(&rows, &report->lines));
	sort(&rows, by_self);
	put_table(report, "Lines by their own samples", &rows, false);
	free(rows.list);
}

static void put_kinds(const struct report *report)
{
	const struct profile *profile = report->profile;
	struct rows rows = {0};
	for (int kind = 0; kind < FRAME_KIND_COUNT; kind++)
		add_row(&rows, &(struct row){.text = view_kind_title(kind), .kind = kind});
	for (size_t i = 1; i < profile->node_count; i++)
		rows.list[profile->frames[profile->nodes[i].frame].kind].self +=
			profile->nodes[i].self;
	sort(&rows, by_self);
	begin(report, "Kinds of code, by the innermost frame");
	for (size_t i = 0; i < rows.count && rows.list[i].self; i++) {
		put_share(report, rows.list[i].self);
		strbuf_printf(report->out, "  %s\n", rows.list[i].text);
	}
	end(report);
	free(rows.list);
}

static void put_threads(const struct report *report)
{
	struct tracks tracks;
	view_tracks_init(&tracks, report->profile);
	struct rows rows = {0};
	for (size_t i = 0; i < tracks.count; i++) {
		struct row *row = add_row(&rows, &(struct row){.text = tracks.list[i].label});
		for (size_t j = 0; j < tracks.list[i].count; j++)
			row->self += tracks.list[i].runs[j].count;
	}
	sort(&rows, by_self);
	begin(report, "Threads");
	for (size_t i = 0; i < rows.count && i < report->top; i++) {
		put_share(report, rows.list[i].self);
		strbuf_add_text(report->out, "  ");
		put_cut(report->out, rows.list[i].text, TEXT_BYTES);
		strbuf_add_char(report->out, '\n');
	}
	if (rows.count > report->top)
		strbuf_printf(report->out, "         ... and %zu more\n", rows.count - report->top);
	end(report);
	free(rows.list);
	view_tracks_release(&tracks);
}

static void put_report(const struct report *report)
{
	strbuf_add_text(report->out, "# Profile by precord\n\n");
	put_facts(report);
	strbuf_add_text(report->out, "\nShares are of ");
	view_put_grouped(report->out, report->whole);
	strbuf_add_text(report->out, report->whole == 1 ? " sample.\n" : " samples.\n");
	if (!report->whole)
		return;
	put_paths(report);
	put_functions(report);
	if (report->with_lines)
		put_lines(report);
	put_kinds(report);
	if (report->profile->timed)
		put_threads(report);
}

bool output_markdown(const struct profile *profile, const struct view_options *options,
		     struct strbuf *out, struct error *error)
{
	(void)error;
	struct view_options short_form = *options;
	struct report report = {.profile = profile, .out = out, .with_lines = options->lines};
	short_form.lines = false;
	view_init(&report.functions, profile, &short_form, VIEW_TEXTS);
	if (report.with_lines)
		view_init(&report.lines, profile, options, VIEW_TEXTS);
	report.whole = report.functions.totals[0];
	const size_t start = out->size;
	/* Long names: then fewer of them, unless so many were asked for. */
	for (report.top = options->top ? options->top : DEFAULT_TOP;; report.top--) {
		out->size = start;
		put_report(&report);
		if (out->size - start <= MOST_BYTES || options->top > DEFAULT_TOP ||
		    report.top <= 1)
			break;
	}
	view_release(&report.functions);
	if (report.with_lines)
		view_release(&report.lines);
	return true;
}
