/* SPDX-License-Identifier: MIT */
/* What the readers share: bytes and lines of a file, text made clean, sums with bounds. */
#ifndef READ_INTERNAL_H
#define READ_INTERNAL_H

#include <jansson.h>
#include <zlib.h>

#include "base/table.h"
#include "read/read.h"

enum {
	INPUT_LONGEST_LINE = 4 << 20,
	INPUT_LARGEST_WHOLE = 1 << 30, /* of what is read in one piece */
};

/* ---- input.c: a file, gzip or not --------------------------------------------------------- */

struct input {
	gzFile file;
	const char *name; /* for errors */
	char *bytes;	  /* read and not consumed: from `at` to `size` */
	size_t at, size, capacity;
	bool over;     /* the file has no more */
	bool damaged;  /* its gzip stream is, or it is cut off there */
	uint64_t line; /* the number of the last one given out */
};

bool MUST_CHECK input_open(struct input *input, const char *path, struct error *error);
void input_close(struct input *input);

/* So many of the next bytes, fewer at the end of the file; they stay. */
size_t input_peek(struct input *input, size_t size, const char **bytes);

/*
 * The next line, without its end, until the next call; not NUL-terminated. *whole: it had an end.
 * False: there is none, or (error->kind is set) it is too long.
 */
bool input_line(struct input *input, const char **line, size_t *size, bool *whole,
		struct error *error);

/* All the rest, until the next call. */
bool MUST_CHECK input_all(struct input *input, const char **bytes, size_t *size,
			  struct error *error);

/* CORRUPT "FILE, line 12: ...", with the line given out last. Returns false. */
bool input_fail(const struct input *input, struct error *error, const char *format, ...)
	PRINTF_LIKE(3, 4);

/* ---- reading.c: what is common to the profiles read ----------------------------------------- */

/* A profile on its way in. */
struct reading {
	struct profile *profile;
	struct interner *strings;
	struct input *input;
	uint64_t samples; /* so far */
	const char *note;
};

/* Interned, clean UTF-8. */
const char *reading_text(struct reading *reading, const char *bytes, size_t size);

/* Marks, roots, and what the frame's file or library says: for files that know no kinds. */
enum frame_kind reading_kind(const struct frame *frame);

/* A source file of Python or Cython, by its name. */
bool reading_is_source(const char *file);

/* Counts samples of a node; false: more than any profile can have. */
bool reading_count(struct reading *reading, uint32_t node, uint64_t samples, struct error *error);

/* What the file says nothing of. */
void reading_finish(struct reading *reading);

/*
 * Writers put something in the place of what is not known: the library for a file, the place for a
 * name. Makes such members NULL again.
 */
void reading_forget_made(struct frame *frame);

/* ---- json_value.c: members of objects. False: one is there and is none of that type or range. */

bool json_get_text(struct reading *reading, const json_t *object, const char *key,
		   const char **text);
bool json_get_number(const json_t *object, const char *key, uint64_t most, uint64_t *number);
bool json_get_real(const json_t *object, const char *key, double most, double *number);
bool json_get_bool(const json_t *object, const char *key, bool *value);
bool json_get_hex(const json_t *object, const char *key, bool *known, uint64_t *number);
/* A frame's kind, which must be there; where it is in its module; what is said of it. */
bool json_get_kind(struct reading *reading, const json_t *object, enum frame_kind *kind);
bool json_get_place(struct reading *reading, const json_t *object, struct frame *frame);
bool json_get_facts(const json_t *object, struct frame *frame);
bool json_get_counts(const json_t *object, struct profile_counts *counts);

/* ---- a file each ---------------------------------------------------------------------------- */

typedef bool reader(struct reading *reading, struct error *error);
reader read_folded, read_json, read_jsonl, read_pprof;

#endif
