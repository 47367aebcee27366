/* SPDX-License-Identifier: MIT */
/*
 * What the writer of the Firefox Profiler's format is made of: tables of strings, functions,
 * symbols, libraries and files, each thing once, which all threads share; and columns.
 */
#ifndef VIEWERS_FIREFOX_H
#define VIEWERS_FIREFOX_H

#include <stddef.h>

#include "base/table.h"
#include "view/view.h"

#define FIREFOX_NONE UINT32_MAX

struct firefox_library {
	const char *name, *path, *build_id;
	uint32_t text; /* its name */
};

struct firefox_writer {
	const struct profile *profile;
	const struct view_options *options;
	struct strbuf *out;
	struct interner *texts;
	struct table ids; /* of each kind of thing: (key, key << 3 | kind) -> its index */
	const char **strings;
	size_t string_count, string_capacity;
	struct firefox_function *functions;
	size_t function_count, function_capacity;
	struct firefox_symbol *symbols;
	size_t symbol_count, symbol_capacity;
	struct firefox_library *libraries;
	size_t library_count, library_capacity;
	uint32_t *sources; /* strings */
	size_t source_count, source_capacity;
	struct firefox_frame *frames;
};

void firefox_writer_init(struct firefox_writer *writer, const struct profile *profile,
			 const struct view_options *options, struct strbuf *out);
void firefox_writer_release(struct firefox_writer *writer);

/* The index of a text among the strings; NULL: of "". */
uint32_t firefox_string(struct firefox_writer *writer, const char *text);

/* Finds what the profile's frames name. */
void firefox_look_at_frames(struct firefox_writer *writer);

/* The tables, when all strings are known: the members of an object. */
void firefox_put_shared(struct firefox_writer *writer);

/* ---- columns ------------------------------------------------------------------------------- */

/* One of 32 bits of each item of an array. */
struct firefox_column {
	const void *items;
	size_t count, size, offset;
};

#define FIREFOX_COLUMN(items, count, type, field)                                                  \
	(const struct firefox_column)                                                              \
	{                                                                                          \
		items, count, sizeof(type), offsetof(type, field)                                  \
	}

/* ",\"name\":["; the caller writes the values and the end. */
void firefox_begin_column(struct strbuf *out, const char *name);
void firefox_put_same(struct strbuf *out, const char *name, size_t count, const char *value);

/* none: what stands for FIREFOX_NONE. */
void firefox_put_column(struct strbuf *out, const char *name, struct firefox_column column,
			const char *none);

#endif
