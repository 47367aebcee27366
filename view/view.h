/* SPDX-License-Identifier: MIT */
/* What the writers share: the merged tree that is shown, and text made safe for each format. */
#ifndef VIEW_VIEW_H
#define VIEW_VIEW_H

#include <jansson.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "files/foreign_file.h"
#include "profile/profile.h"

/* ---- what is to be shown, and who writes it ------------------------------------------------ */

/* Source texts in an output that can show them. */
enum source_choice {
	SOURCE_NONE, /* none: the code must not leave the house */
	SOURCE_AUTO, /* of files that can be read and are small */
};

struct view_options {
	const char *title; /* NULL: made from the command line */
	bool icicle;	   /* root at the top */
	double min_width;  /* per cent of all samples; boxes below are pruned */
	bool lines;	   /* false with -F: one box a function */
	bool full_filenames;
	bool color; /* text only */
	size_t top; /* rows of a table in text; 0: as many as are useful */
	enum source_choice source;
	struct foreign_root source_root; /* SOURCE_AUTO: where the frames' files are */
};

/*
 * A writer: from a profile to bytes, appended to *out, which may be kept when it fails. One that
 * needs times has profile->timed.
 */
typedef bool profile_writer(const struct profile *profile, const struct view_options *options,
			    struct strbuf *out, struct error *error);

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

enum view_use { VIEW_BOXES, VIEW_TEXTS, VIEW_FOLDED };

struct view {
	const struct profile *profile;
	struct view_node *nodes;
	uint64_t *totals; /* of each node; NULL for VIEW_FOLDED */
	size_t count, capacity;
	const char **texts; /* of each frame, interned: equal texts have equal pointers */
	uint32_t *of_node;  /* which node each of the profile's is part of */
	struct interner *strings;
	enum view_use use;
};

/* VIEW_TEXTS: kind does not tell siblings apart: a function is idle, too, in some of its samples.
 * VIEW_FOLDED: nor there, and texts are fit for a folded line. */
void view_init(struct view *view, const struct profile *profile, const struct view_options *options,
	       enum view_use use);
void view_release(struct view *view);

/* How many frames its deepest stack has. */
size_t view_depth(const struct view *view);

/* What is shown for a node: its frame's text. */
const char *view_text(const struct view *view, uint32_t node);

/*
 * The nodes in such an order that each is followed by all that is inside of it; to be freed.
 * parents: of the first node; the next one's is `size` bytes further on. Parents have lower
 * numbers.
 */
uint32_t *view_tree_order(const uint32_t *parents, size_t size, size_t count);
uint32_t *view_order(const struct view *view);

/* Bytes of a frame's text that are its name: what is before " (file:line)". */
size_t view_name_size(const struct frame *frame, const char *text);

/* ---- put.c: numbers and names, whatever the locale --------------------------------------- */

void view_put_fixed(struct strbuf *out, double value, int decimals); /* "-12.50" */
void view_put_grouped(struct strbuf *out, uint64_t value);	     /* "1,234,567" */
void view_put_time(struct strbuf *out, uint64_t seconds);	     /* "2026-11-21T01:02:03Z" */

/* "12.3", "0.04", "100": per cent with as many decimals as say something. */
void view_put_percent(struct strbuf *out, double part, double whole);

/* Bytes as XML text or attribute value: valid UTF-8, no controls, all five specials escaped. */
void view_put_xml(struct strbuf *out, const char *text, size_t size);

/*
 * The same, cut to so many cells of a fixed-width font, with an ellipsis in the last one. Wide
 * characters take two cells.
 */
void view_put_xml_cut(struct strbuf *out, const char *text, size_t cells);
size_t view_text_cells(const char *text, size_t size);

/* Bytes made fit to print, whoever made them. */
void view_put_clean(struct strbuf *out, const char *text);

/* A string of JSON with its quotes: cleaned and escaped, '<' too, so that it can be in a page.
 */
void view_put_json(struct strbuf *out, const char *text);

/* ---- frame_words.c: a frame, its name and its place apart ---------------------------------- */

/* Appends the name. *file: NULL if none is known, else the source's, or the library's; *line: 0 if
 * none is, or lines are not to be shown. */
void view_frame_words(struct strbuf *name, const char **file, int *line, const struct frame *frame,
		      const struct view_options *options);

/* "Python", "Cython", ... as the legend and the tooltips say it. */
const char *view_kind_title(enum frame_kind kind);

/* Is the node's frame inlined into its parent's, at the same address? */
bool view_is_inlined(const struct profile *profile, uint32_t node);

/* ---- facts.c: how a profile was made, in words ------------------------------------------------
 */

enum { VIEW_MOST_FACTS = 16 };

struct view_fact {
	const char *name; /* "rate" */
	char *text;	  /* "99.8 of 100 Hz"; clean */
};

struct view_facts {
	struct view_fact list[VIEW_MOST_FACTS];
	size_t count;
};

/* What a sample stands for, where that is not a tick of the clock: "a sample is 10 ms of CPU time".
 */
void view_put_unit(struct strbuf *out, const struct profile *profile);

void view_facts_init(struct view_facts *facts, const struct profile *profile);
void view_facts_release(struct view_facts *facts);

/* The title that was asked for, or the command line, or the process. */
void view_put_title(struct strbuf *out, const struct profile *profile,
		    const struct view_options *options);

/* ---- tracks.c: threads with a time axis ---------------------------------------------------------
 */

struct track_run {
	uint64_t start_ns, end_ns, count; /* as long as `count` periods */
	uint32_t node;			  /* of the profile */
	uint32_t flags;			  /* enum sample_flag */
};

struct track {
	char *label; /* "MainThread (4242)", with the process where there are several */
	const char *name, *process; /* process: its command line; NULL: not known */
	pid_t pid, tid;
	bool timed; /* false: its times are made up, one run after the other */
	struct track_run *runs;
	size_t count;
};

/* At least one, which may be empty. All samples of the profile are in one of them. */
struct tracks {
	struct track *list;
	size_t count;
};

void view_tracks_init(struct tracks *tracks, const struct profile *profile);
void view_tracks_release(struct tracks *tracks);
size_t view_busiest_track(const struct tracks *tracks);

/* How long a sample lasts; never 0. */
uint64_t view_period_ns(const struct profile *profile);

/* ---- json.c: what both JSON writers need ------------------------------------------------- */

/* Before any other: what jansson cannot allocate, it would leave out in silence. */
void view_json_begin(void);
json_t *view_json_text(const char *text); /* null for NULL; bad UTF-8 is cleaned */
json_t *view_json_frame(const struct frame *frame);
json_t *view_json_counts(const struct profile_counts *counts);

/* Appends the compact form of a value and releases it; false when it could not be made. */
bool MUST_CHECK view_json_add(struct strbuf *out, json_t *value, struct error *error);

#endif
