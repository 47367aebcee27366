/* SPDX-License-Identifier: MIT */
/* The parts of the HTML report: see html.c for the form of its data. */
#ifndef PICTURES_HTML_H
#define PICTURES_HTML_H

#include "base/table.h"
#include "pictures/svg.h"

enum {
	/* Nodes of the call tree; as many again may stand for what is left out. */
	HTML_MAX_NODES = 500000,
	HTML_MAX_DEPTH = 10000,
	/* Of time; a screen has hardly more columns. */
	HTML_MAX_BINS = 1000,
	/* Over all threads. */
	HTML_MAX_RUNS = 500000,
	/* Bytes of one source file, and of all, and how many. */
	HTML_MAX_SOURCE = 1 << 18,
	HTML_MAX_SOURCES = 1 << 21,
	HTML_MAX_FILES = 200,
};

/* ---- html.c: the page, and the data in it --------------------------------------------------- */

/* One JSON object. max_nodes: see html_tree_init. */
void html_put_data(struct strbuf *out, const struct profile *profile,
		   const struct view_options *options, size_t max_nodes);

/* ---- html_json.c: JSON that may be inside of a script element --------------------------- */

/* A string with its quotes. Bad UTF-8 and controls are cleaned; no "<" is left. */
void html_put_text(struct strbuf *out, const char *text, size_t size);
void html_put_number(struct strbuf *out, uint64_t value);
void html_put_signed(struct strbuf *out, int64_t value);

/* ---- html_tree.c: the call tree as the page has it ----------------------------------------- */

enum { HTML_SMALLER = 0xffffffffu };

struct html_node {
	uint32_t node;	 /* of the view; HTML_SMALLER: it stands for its parent's others */
	uint32_t parent; /* of these */
	uint64_t self;
};

/* A view without what there is no room for. Parents come before their children. */
struct html_tree {
	const struct view *view;
	struct html_node *nodes;
	size_t count, capacity;
	uint32_t *of_view;  /* which one has a view node's samples */
	uint64_t threshold; /* with as many samples they have a place; with one less, some do */
	size_t left_out;    /* so many do not, or are deeper than HTML_MAX_DEPTH */
};

/* max_nodes: without those that stand for what is left out, at most one below each. */
void html_tree_init(struct html_tree *tree, const struct view *view, size_t max_nodes);
void html_tree_release(struct html_tree *tree);

/* Texts that are the same are one. Released by html_strings_release. */
struct html_strings {
	struct table numbers; /* (address of an interned text, 0) -> its number */
	const char **texts;
	size_t count, capacity;
};

void html_strings_release(struct html_strings *strings);
uint32_t html_string(struct html_strings *strings, const char *interned);

/* "nodes":{...},"functions":{...},"frames":{...} */
void html_put_tree(struct strbuf *out, const struct html_tree *tree,
		   const struct view_options *options, struct html_strings *strings);

/* "strings":[...]: last, when all are known. */
void html_put_strings(struct strbuf *out, const struct html_strings *strings);

/* ---- html_time.c: samples by thread and time ------------------------------------------------ */

/* "time":{...}; false: there are no times in it. */
bool html_put_time(struct strbuf *out, const struct html_tree *tree);

/* ---- html_source.c: source texts ------------------------------------------------------------ */

/* "sources":[{"file":12,"changed":false,"text":"..."},...]: those that may be read. */
void html_put_sources(struct strbuf *out, const struct html_tree *tree,
		      const struct view_options *options, struct html_strings *strings);

#endif
