/* SPDX-License-Identifier: MIT */
/* What names the addresses of one run: resolve.c; authors.c for what tools have compiled. */
#ifndef FRAMES_RESOLVE_H
#define FRAMES_RESOLVE_H

#include "cython/cython.h"
#include "frames/internal.h"
#include "symbolize/symbolize.h"

struct named {
	struct frame frame;
	struct cython_name cython; /* kind CYTHON_NOT: another frame; numba's have base and layer */
	bool hidden;
};

/* A module whose file is not here: where its functions are, and its debug file. */
struct open_place {
	struct module *module;
	const struct symbol_folder *symbols; /* NULL: none */
	bool hidden;			     /* no debug file replaces it */
	int fd; /* its file, found there: names are in it, what decoding needs was recorded; -1 */
};

struct resolver {
	const struct target *target;
	struct open_place place;
	struct interner *strings;
	bool internals;
	struct symbolizer *symbolizer;
	struct cython_sources *sources;
	struct cython_symbols *symbols; /* of the open module, once a Cython name was met in it */
	struct names_mypyc *mypyc;	/* of the open module, the same of mypyc's */
	bool typed;			/* with the types of fused functions */
	const struct module *ahead;	/* whose functions are being read meanwhile */
	struct table short_files;	/* interned path -> index in short_texts */
	const char **short_texts;
	size_t short_count, short_capacity;
	struct named *named; /* of frame i: named[first[i]] .. + counts[i], innermost first */
	size_t named_count, named_capacity;
	uint32_t *first, *counts;
	size_t frame_count;
};

/* ---- texts.c ----------------------------------------------------------------------------------
 */

/* A path as it is shown: looked up in the target's file system once. Interned. */
const char *resolver_shorten(struct resolver *resolver, const char *path);

/* A text of the target, fit to be shown. Interned. */
const char *resolver_clean(struct resolver *resolver, const char *text);

/* ---- authors.c: each makes a frame of its kind of a native one; false: it is none -------------
 */

/* alone: nothing is inlined there. */
bool author_cython(struct resolver *resolver, const struct raw_frame *raw,
		   const struct symbolize_frame *symbol, bool alone, struct named *named);

/* A Python function that numba has compiled. The wrapper that it is called through goes the way of
 * Cython's. */
bool author_numba(struct resolver *resolver, const struct raw_frame *raw,
		  const struct symbolize_frame *symbol, struct named *named);

/* What mypyc, pybind11 and others make of an author's function, or around it. */
bool author_of_tools(struct resolver *resolver, const struct raw_frame *raw,
		     const struct symbolize_frame *symbol, struct named *named);

/* A function that Nuitka has compiled: its name alone, the line is the C code's. */
bool author_nuitka(struct resolver *resolver, const struct symbolize_frame *symbol,
		   struct named *named);

/* The same for a name that the module's tables state. */
void author_recovered(struct resolver *resolver, const struct raw_frame *raw,
		      const struct recovered_name *recovered, struct named *named);

#endif
