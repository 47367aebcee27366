/* SPDX-License-Identifier: MIT */
/* The parts of the flame graph: what is folded, which boxes there are, and what is round them. */
#ifndef PICTURES_SVG_H
#define PICTURES_SVG_H

#include "pictures/pictures.h"

/* ---- svg_fold.c: what is folded away ------------------------------------------------------ */

enum {
	SVG_SCREEN_ROWS = 42,  /* fit in a window of 800 pixels, with the head */
	SVG_FOLD_LEVELS = 400, /* so many of a folded place are in the file, and open on a click */
};

/* A place: one node and what is inside of it, up to where the fold ends. */
struct svg_fold {
	uint32_t top;	 /* node of the view; every other node of the fold is inside of it */
	uint32_t levels; /* of frames that are in it */
	bool repeats;	 /* a recursion: what is inside of its last level is shown again */
};

struct svg_folds {
	uint32_t *rows; /* of each node: its level in the picture, folded ones that of their top */
	uint32_t *of;	/* of each node: its fold, counted from 1; 0: none */
	struct svg_fold *list;
	size_t count, capacity;
};

/* threshold: nodes with fewer samples will not be shown. */
void svg_folds_init(struct svg_folds *folds, const struct view *view, uint64_t threshold);
void svg_folds_release(struct svg_folds *folds);

/* ---- svg_layout.c: which boxes, and where ------------------------------------------------ */

enum {
	SVG_MAX_BOXES = 5000,
	SVG_MAX_BYTES = 2000000,
	SVG_MAX_ROWS = 1500, /* and a fold's levels: browsers go wrong at 32,767 pixels */
};

struct svg_box {
	uint32_t node;	       /* in the view */
	uint32_t depth;	       /* in boxes: one more than its parent's */
	uint32_t row;	       /* in the picture as it is drawn */
	uint32_t fold;	       /* counted from 1; 0: none. Hidden, unless it is the fold's note */
	uint32_t more;	       /* not 0: a note "... N more frames" instead of the frame */
	bool note;	       /* of its fold: what is drawn in the place of all in it */
	uint64_t start, total; /* in samples, from the left */
};

struct svg_layout {
	struct svg_box *boxes; /* parents before children */
	size_t count, capacity;
	struct svg_folds folds;
	size_t notes;	      /* of folds */
	uint32_t deepest;     /* row */
	uint64_t threshold;   /* boxes with fewer samples are left out */
	double least_percent; /* the same, as people read it */
	size_t pruned;	      /* so many of them */
	size_t too_deep;      /* left out below SVG_MAX_ROWS, or SVG_FOLD_LEVELS */
};

/* At most `max_boxes` boxes beside the root and the notes, none narrower than min_width per cent.
 */
void svg_layout_init(struct svg_layout *layout, const struct view *view, double min_width,
		     size_t max_boxes);
void svg_layout_release(struct svg_layout *layout);

/* ---- svg.c ------------------------------------------------------------------------------------
 */

/* What a picture of boxes has in place of a flame graph's looks; node: of the view. */
struct svg_looks {
	const char *title; /* "Difference" */
	void (*put_class)(struct strbuf *out, const void *context, uint32_t node);
	void (*put_share)(struct strbuf *out, const void *context, uint32_t node);
	void (*put_summary)(struct strbuf *out, const void *context);
	void (*put_legend)(struct strbuf *out);
	void (*put_style)(struct strbuf *out);
	const void *context;
};

/* looks NULL: those of a flame graph. */
void svg_put(const struct profile *profile, const struct view_options *options,
	     const struct svg_looks *looks, struct strbuf *out);

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

/* Which of its kind's six shades a function has; follows from the name alone. */
unsigned svg_shade(const char *name, size_t size);

/* "python", ..., "note", "root". */
const char *svg_paint_name(int paint);

/* "--python-0:#8fbdf0;...": the same colours as variables, for pages. */
void svg_put_variables(struct strbuf *out, bool dark);

/* Class of a box: "a3", paint and shade. */
void svg_put_class(struct strbuf *out, int paint, const char *name, size_t size);
void svg_put_style(struct strbuf *out);

void svg_put_summary(struct strbuf *out, const struct view *view, const struct svg_layout *layout,
		     const struct view_options *options, const struct svg_looks *looks);
void svg_put_head(struct strbuf *out, const struct view *view, const struct svg_layout *layout,
		  const struct view_options *options, const struct svg_looks *looks);

/* Two columns of text, a swatch each: class "p3" and its text; returns the width taken. */
double svg_put_swatch(struct strbuf *out, double x, const char *class, const char *text);

#endif
