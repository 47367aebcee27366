/* SPDX-License-Identifier: MIT */
/*
 * Cython: from the C names it generates to the names the author wrote, and from lines of the
 * generated C file to lines of the .pyx file. Knows names and files, no process.
 */
#ifndef CYTHON_CYTHON_H
#define CYTHON_CYTHON_H

#include <stdbool.h>

#include "base/error.h"
#include "base/intern.h"

enum cython_kind {
	CYTHON_NOT,	 /* not a Cython name */
	CYTHON_FUNCTION, /* body: pf, f, gb, lambda */
	CYTHON_WRAPPER,	 /* pw, slot, getprop, specialmethod: one frame together with its body */
	CYTHON_MODULE,	 /* module body: "<module>" */
	CYTHON_HELPER,	 /* __Pyx_*, memoryview code ...: hidden */
};

struct cython_name {
	enum cython_kind kind;
	const char *name;  /* "Hopper.go", "axpy[0]", "outer.inner", "par [omp]"; interned */
	const char *base;  /* equal (same pointer) for wrapper and body of one function */
	const char *owner; /* of a slot, property or special method: its class; else NULL */
	int layer;	   /* frames of one call ascend: slots, pw, pf, f */
	bool fused;	   /* one of several specialisations: their types are worth knowing */
	bool slot;	   /* of a type: Cython's own code, the author wrote no line of it */
};

/*
 * Demangles one symbol. `module`: the extension's dotted name ("pkg.mod"), a dotted suffix of it
 * ("mod"), or one with folders in front as told by its file name; NULL: not known.
 */
struct cython_name cython_demangle(struct interner *interner, const char *symbol,
				   const char *module);

/*
 * The names in one module's symbol table: they decide between the readings that one name alone
 * allows, and name generators. Add all symbols once, others than Cython's are passed over.
 */
struct cython_symbols;

struct cython_symbols *cython_symbols_new(void);
void cython_symbols_free(struct cython_symbols *symbols); /* NULL accepted */
void cython_symbols_add(struct cython_symbols *symbols, const char *symbol);

/*
 * From now on specialisations are shown by their types where these are known, "axpy[float]" in
 * place of "axpy[0]", and bodies as their wrappers. After all symbols were added: C++ symbols tell
 * types.
 */
void cython_symbols_show_types(struct cython_symbols *symbols);

/* Adds what debug information says: a variable of a function, and what its type is called. To be
 * given those of all functions named "__pyx_...". */
void cython_symbols_add_variable(struct cython_symbols *symbols, const char *function,
				 const char *variable, const char *type);

/* As cython_demangle; `symbols` (NULL: not known) are those of the module the symbol is in. */
struct cython_name cython_demangle_in(struct interner *interner,
				      const struct cython_symbols *symbols, const char *symbol,
				      const char *module);

/*
 * Is the inner frame, the next one that is shown, the same call as the outer one? Wrapper, body
 * and slot are. The same or a lower layer is a new call (recursion).
 */
bool cython_same_call(const struct cython_name *outer, const struct cython_name *inner);

/* "…/implicit/_als.cpython-311-x86_64-linux-gnu.so" -> "implicit._als"-like dotted name; interned;
 * all directory components are kept, the demangler matches suffixes. */
const char *cython_module_of_path(struct interner *interner, const char *path);

/* Generated C files read and remapped, once each. */
struct cython_sources;

/* How a source file is opened: in the target's root, regular files only; -1: not there. */
typedef int (*cython_open_file)(void *context, const char *path);

struct cython_sources *cython_sources_new(struct interner *interner, cython_open_file open_file,
					  void *context);
void cython_sources_free(struct cython_sources *sources); /* NULL accepted */

struct cython_line {
	const char *file; /* as in the marker: "pkg/mod.pyx"; interned */
	const char *path; /* the file that was found for it; interned; NULL: none */
	int line;
};

/* A place in generated code, as debug information says it. NULL, 0: not known. */
struct cython_place {
	const char *symbol;    /* of the function */
	const char *c_file;    /* or the .pyx, by a #line directive */
	const char *directory; /* that the compiler ran in */
	const char *extension; /* path of the extension module */
	int c_line;
	int declared; /* line of the function's head, in c_file */
};

/*
 * Maps a line of a generated file, which is also looked for beside the extension. A file that does
 * not fit is not used: one that has too few lines, or the function elsewhere, or that was written
 * after the extension. False: no mapping, the name alone is shown.
 *
 * A .pyx, .pxd, .pxi or .py and its line are given back as they are, with two exceptions. Slots
 * (`name`: NULL accepted) have no directives, so compilers count their lines on from the last one
 * before, often to beyond the end of the file: no mapping. All code of a wrapper is marked with the
 * line of its "def", but Cython 3 writes its head over seven lines of C: the prologue counts as six
 * lines further down. So the line of its definition holds.
 */
bool cython_map_line(struct cython_sources *sources, const struct cython_name *name,
		     const struct cython_place *place, struct cython_line *line);

#endif
