/* SPDX-License-Identifier: MIT */
/*
 * From a symbol to the name that an author wrote: of C++, Rust, D, and of tools that make C or
 * machine code of Python. Knows texts alone. What it is given comes from files that may be hostile.
 */
#ifndef NAMES_NAMES_H
#define NAMES_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/intern.h"

enum { NAME_MAX_SIZE = 16 << 10 };

/* Interns the text as clean UTF-8, cut at NAME_MAX_SIZE bytes. */
const char *intern_clean(struct interner *interner, const char *text, size_t size);

/*
 * C++ (and Rust, D ...) names by libiberty, without parameters; interned; the name itself when it
 * is not mangled.
 */
const char *names_demangle(struct interner *interner, const char *linkage);

/* What a tool has made around an author's function, of which both are one call: "function" is then
 * the same for both. */
struct names_author {
	const char *name;     /* as the author wrote it; interned; NULL: by its symbol */
	const char *function; /* within the module; equal pointers: the same */
	const char *owner;    /* of a special method: its class; NULL: other */
	int layer;	      /* of two frames of one call the inner one has more */
	bool slot;	      /* in a slot of the type, and of no author's */
};

/*
 * The names in one module's symbol table that mypyc made: they tell the parts of one another. Add
 * all symbols once, others are passed over. Texts live as long as the table.
 */
struct names_mypyc;

struct names_mypyc *names_mypyc_new(void);
void names_mypyc_free(struct names_mypyc *mypyc); /* NULL accepted */
void names_mypyc_add(struct names_mypyc *mypyc, const char *symbol);

/* False: none of mypyc's, or there are too many symbols to tell. */
bool names_mypyc_name(struct names_mypyc *mypyc, const char *linkage, struct names_author *author);

/* False: of none of the tools known. `name`: demangled, interned; NULL: not known. */
bool names_author(struct interner *interner, const char *linkage, const char *name,
		  struct names_author *author);

/* What numba calls a function that it has compiled, or one of those that it makes around it. */
struct names_numba {
	const char *name;     /* "work", "Solver.step", interned */
	const char *function; /* equal pointers: the same function (specialisation) */
	bool wrapper;	      /* it unpacks arguments and calls the function */
};

/* False: not numba's. `file` (NULL: not known): where the function was written, which tells what of
 * the name is its module; the module stays in front where that is not known. */
bool names_numba(struct interner *interner, const char *linkage, const char *file,
		 struct names_numba *name);

/* The name that a function had before Nuitka compiled it, interned: "area", "<lambda>", "<module>";
 * NULL: not Nuitka's. `file` (NULL: not known): of its C code. */
const char *names_nuitka(struct interner *interner, const char *linkage, const char *file);

#endif
