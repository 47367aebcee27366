/* SPDX-License-Identifier: MIT */
/*
 * A profile as a flame graph: one self-contained SVG, readable as it is (real rectangles and
 * texts) and better with its script (output/svg.js). All positions are also given in samples and
 * levels (data-x, data-n, data-d), from which the script draws anew for any width or zoom. Names
 * are in text nodes only, escaped; never in the script. What is folded away is there, hidden,
 * with its fold's number (data-f), as is the note that is drawn instead.
 */
#include <inttypes.h>
#include <string.h>

#include "pictures/svg.h"
#include "pictures/svg_script.h"

/* A glyph of the labels' font is a little more than 7.2 pixels wide at 12 pixels. */
#define CELL 7.25

/* Longer names are cut even in tooltips: a template's name can have a megabyte. */
enum { PADDING = 3, TOOLTIP_CELLS = 1000, MIN_CELLS = 3, FEWEST_BOXES = 40 };

struct canvas {
	const struct view *view;
	const struct svg_layout *layout;
	const struct view_options *options;
	const struct svg_looks *looks; /* NULL: a flame graph's */
	struct strbuf *out;
};

static int height_of(const struct svg_layout *layout)
{
	return SVG_HEAD + (int)(layout->deepest + 1) * SVG_ROW + SVG_MARGIN;
}

static void put_attribute(struct strbuf *out, const char *name, double value, int decimals)
{
	strbuf_printf(out, " %s=\"", name);
	view_put_fixed(out, value, decimals);
	strbuf_add_char(out, '"');
}

/* Behind its fold's note, until that is opened. */
static bool is_hidden(const struct svg_box *box)
{
	return box->fold && !box->note;
}

static const struct frame *frame_of(const struct canvas *canvas, const struct svg_box *box)
{
	uint32_t frame = canvas->view->nodes[box->node].frame;
	return frame == PROFILE_NONE ? NULL : &canvas->view->profile->frames[frame];
}

/* "1,180 samples, 12.3 %, self 12, 0.1 %" */
static void put_share(struct strbuf *out, const struct canvas *canvas, const struct svg_box *box)
{
	const struct svg_looks *const looks = canvas->looks;
	if (looks) {
		looks->put_share(out, looks->context, box->node);
		strbuf_add_text(out, box->note ? "\nfolded: a click opens it" : "");
		return;
	}
	const uint64_t self = canvas->view->nodes[box->node].self;
	double whole = (double)canvas->view->totals[0];
	view_put_grouped(out, box->total);
	strbuf_add_text(out, box->total == 1 ? " sample, " : " samples, ");
	view_put_percent(out, (double)box->total, whole);
	strbuf_add_text(out, " %");
	if (box->note)
		strbuf_add_text(out, "\nfolded: a click opens it");
	if (box->more)
		return;
	strbuf_add_text(out, ", self ");
	view_put_grouped(out, self);
	strbuf_add_text(out, ", ");
	view_put_percent(out, (double)self, whole);
	strbuf_add_text(out, " %");
}

/* First line: the whole text, which the script reads. Then numbers, kind, file and library. */
static void put_tooltip(const struct canvas *canvas, const struct svg_box *box, const char *text)
{
	struct strbuf *out = canvas->out;
	const struct frame *frame = box->more ? NULL : frame_of(canvas, box);
	strbuf_add_text(out, "<title>");
	view_put_xml_cut(out, text, TOOLTIP_CELLS);
	strbuf_add_char(out, '\n');
	put_share(out, canvas, box);
	if (frame) {
		const char *kind = view_kind_title(frame->kind);
		strbuf_add_char(out, '\n');
		view_put_xml(out, kind, strlen(kind));
	}
	if (frame && frame->inlined)
		strbuf_add_text(out, ", inlined");
	if (frame && frame->file) {
		strbuf_add_char(out, '\n');
		view_put_xml_cut(out, frame->file, TOOLTIP_CELLS);
		if (frame->line > 0 && canvas->options->lines)
			strbuf_printf(out, frame->estimated ? ":~%d" : ":%d", frame->line);
	}
	const char *library = frame ? frame->module_path : NULL;
	if (frame && !library)
		library = frame->module;
	if (library) {
		strbuf_add_char(out, '\n');
		view_put_xml_cut(out, library, TOOLTIP_CELLS);
	}
	strbuf_add_text(out, "</title>");
}

/*
 * "_umath.cpython-311-x86_64-linux-gnu.so+0x1a2b0" says little once cut: in a label without room,
 * an extension module is called without its ABI tag. svg.js has the same rule.
 */
static void remove_abi_tag(struct strbuf *name)
{
	char *tag = strstr(name->text, ".cpython-");
	char *end = tag ? strstr(tag, ".so") : NULL;
	if (!end || memchr(tag, ' ', (size_t)(end - tag)))
		return;
	end += strlen(".so");
	memmove(tag, end, strlen(end) + 1);
	name->size = strlen(name->text);
}

/* The whole text, else the name without its place, else what fits of the name. */
static void put_label(struct strbuf *out, const char *text, size_t name_size, size_t room)
{
	struct strbuf _cleanup_strbuf_ name;
	strbuf_init(&name);
	bool whole = view_text_cells(text, strlen(text)) <= room;
	strbuf_add(&name, text, whole ? strlen(text) : name_size);
	if (!whole)
		remove_abi_tag(&name);
	view_put_xml_cut(out, name.text, room);
}

static void put_shape(const struct canvas *canvas, const struct svg_box *box, const char *text,
		      size_t name_size)
{
	struct strbuf *out = canvas->out;
	double scale = (SVG_WIDTH - 2.0 * SVG_MARGIN) / (double)canvas->view->totals[0];
	double x = SVG_MARGIN + (double)box->start * scale, width = (double)box->total * scale;
	uint32_t row = canvas->options->icicle ? box->row : canvas->layout->deepest - box->row;
	int y = SVG_HEAD + (int)row * SVG_ROW;
	strbuf_add_text(out, "<rect");
	put_attribute(out, "x", x, 2);
	put_attribute(out, "y", y, 0);
	/* Half a pixel is the gap to the neighbour. */
	put_attribute(out, "width", width > 2 ? width - 0.5 : width > 0.3 ? width : 0.3, 2);
	put_attribute(out, "height", SVG_ROW - 1, 0);
	strbuf_add_text(out, " rx=\"1.5\"/>");
	int room = is_hidden(box) ? 0 : (int)((width - 2 * PADDING) / CELL);
	if (room >= MIN_CELLS) {
		strbuf_add_text(out, "<text");
		put_attribute(out, "x", x + PADDING, 2);
		put_attribute(out, "y", y + 11.5, 1);
		strbuf_add_char(out, '>');
		put_label(out, text, name_size, (size_t)room);
		strbuf_add_text(out, "</text>");
	}
}

static int paint_of(const struct frame *frame)
{
	if (!frame)
		return SVG_ROOT;
	return (unsigned)frame->kind < FRAME_KIND_COUNT ? (int)frame->kind : SVG_NOTE;
}

/* "... 4,980 more frames", "... 4,980 more frames, repeated" */
static void put_note(struct strbuf *out, const struct canvas *canvas, const struct svg_box *box)
{
	strbuf_add_text(out, "\xe2\x80\xa6 ");
	view_put_grouped(out, box->more);
	strbuf_add_text(out, box->more == 1 ? " more frame" : " more frames");
	if (box->fold && canvas->layout->folds.list[box->fold - 1].repeats)
		strbuf_add_text(out, ", repeated");
}

static void put_box(const struct canvas *canvas, const struct svg_box *box)
{
	struct strbuf *out = canvas->out;
	const char *text = view_text(canvas->view, box->node);
	const struct frame *frame = frame_of(canvas, box);
	size_t name_size = frame ? view_name_size(frame, text) : strlen(text);
	int paint = paint_of(frame);
	struct strbuf _cleanup_strbuf_ note;
	strbuf_init(&note);
	if (box->more) {
		put_note(&note, canvas, box);
		text = note.text;
		name_size = note.size;
		paint = SVG_NOTE;
	}
	strbuf_add_text(out, "<g class=\"");
	if (canvas->looks && !box->more)
		canvas->looks->put_class(out, canvas->looks->context, box->node);
	else
		svg_put_class(out, paint, text, name_size);
	strbuf_add_text(out, box->note ? " note\"" : is_hidden(box) ? " off\"" : "\"");
	strbuf_printf(out, " data-x=\"%" PRIu64 "\" data-n=\"%" PRIu64 "\" data-d=\"%" PRIu32 "\"",
		      box->start, box->total, box->depth);
	if (box->fold)
		strbuf_printf(out, " data-f=\"%" PRIu32 "\"", box->fold);
	strbuf_add_char(out, '>');
	put_tooltip(canvas, box, text);
	put_shape(canvas, box, text, name_size);
	strbuf_add_text(out, "</g>\n");
}

/* Names and description for those who do not see the picture, and for the window's title. */
static void put_description(const struct canvas *canvas)
{
	struct strbuf _cleanup_strbuf_ text;
	strbuf_init(&text);
	view_put_title(&text, canvas->view->profile, canvas->options);
	strbuf_printf(canvas->out,
		      "<title>%s: ", canvas->looks ? canvas->looks->title : "Flame graph");
	view_put_xml_cut(canvas->out, text.text, TOOLTIP_CELLS);
	strbuf_reset(&text);
	svg_put_summary(&text, canvas->view, canvas->layout, canvas->options, canvas->looks);
	strbuf_add_text(canvas->out, "</title>\n<desc>Each box is a function, as wide as its share "
				     "of the samples; what it called stands ");
	strbuf_add_text(canvas->out, canvas->options->icicle ? "below it. " : "above it. ");
	view_put_xml_cut(canvas->out, text.text, TOOLTIP_CELLS);
	strbuf_add_text(canvas->out, "</desc>\n");
}

static void put_document(const struct canvas *canvas)
{
	struct strbuf *out = canvas->out;
	int height = height_of(canvas->layout);
	strbuf_printf(out,
		      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"fg %s\" width=\"%d\" "
		      "height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\" data-top=\"%d\">\n",
		      canvas->options->icicle ? "icicle" : "flame", SVG_WIDTH, height, SVG_WIDTH,
		      height, SVG_HEAD);
	put_description(canvas);
	svg_put_style(out);
	if (canvas->looks)
		canvas->looks->put_style(out);
	strbuf_add_text(out, "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n");
	bool empty = canvas->view->totals[0] == 0;
	if (empty)
		strbuf_printf(out, "<text class=\"empty\" x=\"%d\" y=\"%d\">no samples</text>\n",
			      SVG_MARGIN, SVG_HEAD + 11);
	strbuf_add_text(out, "<g class=\"boxes\">\n");
	for (size_t i = 0; !empty && i < canvas->layout->count; i++)
		put_box(canvas, &canvas->layout->boxes[i]);
	strbuf_add_text(out, "</g>\n");
	svg_put_head(out, canvas->view, canvas->layout, canvas->options, canvas->looks);
	if (!empty) {
		strbuf_add_text(out, "<script><![CDATA[\n");
		strbuf_add_text(out, svg_script);
		strbuf_add_text(out, "]]></script>\n");
	}
	strbuf_add_text(out, "</svg>\n");
}

void svg_put(const struct profile *profile, const struct view_options *options,
	     const struct svg_looks *looks, struct strbuf *out)
{
	struct view view;
	view_init(&view, profile, options, VIEW_BOXES);
	size_t start = out->size;
	/* Long names can make few boxes large: then fewer still. */
	for (size_t boxes = SVG_MAX_BOXES;; boxes = boxes * 2 / 3) {
		struct svg_layout layout;
		out->size = start;
		svg_layout_init(&layout, &view, options->min_width, boxes);
		put_document(&(struct canvas){&view, &layout, options, looks, out});
		svg_layout_release(&layout);
		if (out->size - start <= SVG_MAX_BYTES || boxes <= FEWEST_BOXES)
			break;
	}
	view_release(&view);
}

bool picture_svg(const struct profile *profile, const struct view_options *options,
		 struct strbuf *out, struct error *error)
{
	(void)error;
	svg_put(profile, options, NULL, out);
	return true;
}
