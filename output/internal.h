/* SPDX-License-Identifier: MIT */
/* What the writers share: the merged tree that is shown, and text made safe for each format. */
#ifndef OUTPUT_INTERNAL_H
#define OUTPUT_INTERNAL_H

#include <jansson.h>

#include "output/output.h"

/* ---- view.c: the call tree as shown ------------------------------------------------------ */

/*
 * A profile's frame stands for one code address; what is shown is its text. So siblings with
 * equal kind and text are one node here. Node 0 is the root; parents come before children.
 * Small, because there can be as many as in the profile: millions.
 */
struct view_node {
	uint32_t parent, frame; /* PROFILE_NONE for the root; frame: the first one merged */
	uint64_t self : 44;
	uint64_t depth : 20; /* root: 0; no deeper than VIEW_MAX_DEPTH, whatever the stack */
};

enum { VIEW_MAX_DEPTH = (1 << 20) - 1 };

enum view_use { VIEW_BOXES, VIEW_FOLDED };

struct view {
	const struct profile *profile;
	struct view_node *nodes;
	uint64_t *totals; /* of each node; NULL for VIEW_FOLDED */
	size_t count, capacity;
	const char **texts; /* of each frame, interned: equal texts have equal pointers */
	struct interner *strings;
	enum view_use use;
};

/* VIEW_FOLDED: texts fit for a folded line, and kind does not tell siblings apart. */
void output_view_init(struct view *view, const struct profile *profile,
		      const struct output_options *options, enum view_use use);
void output_view_release(struct view *view);

/* What is shown for a node: its frame's text. */
const char *output_view_text(const struct view *view, uint32_t node);

/* Bytes of a frame's text that are its name: what stands before " (file:line)". */
size_t output_name_size(const struct frame *frame, const char *text);

/* ---- put.c: numbers and names, whatever the locale --------------------------------------- */

void output_put_fixed(struct strbuf *out, double value, int decimals); /* "-12.50" */
void output_put_grouped(struct strbuf *out, uint64_t value);	       /* "1,234,567" */
void output_put_time(struct strbuf *out, uint64_t seconds);	       /* "2026-11-21T01:02:03Z" */

/* "12.3", "0.04", "100": per cent with as many decimals as say something. */
void output_put_percent(struct strbuf *out, double part, double whole);

/* Bytes as XML text or attribute value: valid UTF-8, no controls, all five specials escaped. */
void output_put_xml(struct strbuf *out, const char *text, size_t size);

/*
 * The same, cut to so many cells of a fixed-width font, with an ellipsis in the last one. Wide
 * characters take two cells.
 */
void output_put_xml_cut(struct strbuf *out, const char *text, size_t cells);
size_t output_text_cells(const char *text, size_t size);

/* ---- json.c: what both JSON writers need ------------------------------------------------- */

json_t *output_json_text(const char *text); /* null for NULL; bad UTF-8 is cleaned */
json_t *output_json_frame(const struct frame *frame);

/* Appends the compact form of a value and releases it; false when it could not be made. */
bool MUST_CHECK output_json_add(struct strbuf *out, json_t *value, struct error *error);

/* ---- writers ----------------------------------------------------------------------------- */

void output_folded(const struct profile *profile, const struct output_options *options,
		   struct strbuf *out);
bool MUST_CHECK output_profile_json(const struct profile *profile, struct strbuf *out,
				    struct error *error);
void output_svg(const struct profile *profile, const struct output_options *options,
		struct strbuf *out);

/* ---- svg_layout.c: which boxes, and where ------------------------------------------------ */

enum {
	SVG_MAX_BOXES = 5000,
	SVG_MAX_BYTES = 2000000,
	SVG_MAX_DEPTH = 1500, /* browsers go wrong at 32,767 pixels */
};

struct svg_box {
	uint32_t node; /* in the view */
	uint32_t depth;
	uint32_t more;	       /* not 0: a note "... N more frames" instead of the frame */
	uint64_t start, total; /* in samples, from the left */
};

struct svg_layout {
	struct svg_box *boxes; /* parents before children */
	size_t count, capacity;
	uint32_t deepest;
	uint64_t threshold;   /* boxes with fewer samples are left out */
	double least_percent; /* the same, as people read it */
	size_t pruned;	      /* so many of them */
	size_t too_deep;      /* left out below SVG_MAX_DEPTH */
};

/* At most `max_boxes` boxes, none narrower than min_width per cent. */
void output_svg_layout_init(struct svg_layout *layout, const struct view *view, double min_width,
			    size_t max_boxes);
void output_svg_layout_release(struct svg_layout *layout);

/* ---- svg_head.c, svg_style.c: everything round the boxes --------------------------------- */

enum {
	SVG_WIDTH = 1200, /* as drawn; the script fits it to the window */
	SVG_MARGIN = 10,
	SVG_HEAD = 96, /* height of title, subtitle, legend and status line */
	SVG_ROW = 16,
	SVG_NOTE = FRAME_KIND_COUNT, /* paints of boxes that are no frame */
	SVG_ROOT,
	SVG_PAINTS,
};

/* Class of a box: "a3", paint and shade; the shade follows from the name alone. */
void output_svg_put_class(struct strbuf *out, int paint, const char *name, size_t size);
void output_svg_put_style(struct strbuf *out);

/* "Python", "Cython", ... as the legend and the tooltips say it. */
const char *output_svg_kind_title(enum frame_kind kind);

void output_svg_put_title(struct strbuf *out, const struct profile *profile,
			  const struct output_options *options);
void output_svg_put_summary(struct strbuf *out, const struct view *view,
			    const struct svg_layout *layout, const struct output_options *options);
void output_svg_put_head(struct strbuf *out, const struct view *view,
			 const struct svg_layout *layout, const struct output_options *options);

#endif
