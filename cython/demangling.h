/* SPDX-License-Identifier: MIT */
/* What the files share that demangle one symbol: the state of that, and its parts. */
#ifndef CYTHON_DEMANGLING_H
#define CYTHON_DEMANGLING_H

#include "cython/internal.h"

struct demangling {
	const char *module;
	const struct cython_symbols *symbols;
	struct piece fused; /* "1_0": the specialisation; size 0: none */
	struct piece plain; /* the symbol without what compilers add */
	bool specialised;   /* has a specialisation, also where `fused` does not say which */
	bool utility;	    /* memoryview and other code of Cython's own */
	bool openmp;	    /* the body of a parallel block, outlined by the compiler */
	bool split;	    /* ".part.0": called by the rest of the same function */
	bool special;	    /* "__repr__": one that a slot calls */
	enum cython_kind kind;
	int layer, step; /* steps are layers within a slot */
	/* `owner`: the class or property with module and all. */
	struct strbuf name, base, owner;
};

enum layer { LAYER_DISPATCH, LAYER_SLOT, LAYER_WRAPPER, LAYER_IMPLEMENTATION, LAYER_FUNCTION };

/* Takes the scopes from the module on and the leaf as the name. */
void demangling_show(struct demangling *d, const struct scopes *scopes,
		     const struct reading *reading, struct piece leaf);

/* f, lambdas, classes: scopes and a name, no ordinal. False: the text is none. */
bool demangling_read_plain(struct demangling *d, struct piece text, struct scopes *scopes);

/* "tp_new_3pkg_3mod_Ext" of a slot. */
bool demangling_read_slot(struct demangling *d, struct piece text);

/* "3pkg_3mod_3Ext_pub" of getprop and setprop. */
bool demangling_read_property(struct demangling *d, struct piece text, const char *method);

/* "__pyx_array_1__reduce_cython__": classes of View.MemoryView. */
bool demangling_read_utility_class(struct demangling *d, struct piece text);

/* Behind "_ZN": a method of a cppclass that is written in Cython. */
bool demangling_read_cpp_method(struct demangling *d, struct piece text);

/* "_ZL<length><name><parameters>" without all around the name. False: it is no such name. */
bool demangling_read_cpp_function(struct piece *text);

/* Takes off what compilers append, and remembers what it says. */
struct piece demangling_strip_suffixes(struct demangling *d, struct piece symbol);

/*
 * Whole C names. "__pyx_fuse_1_0" and "__pyx_specialmethod_" are prefixes to a complete name; the
 * 'U' of "__pyx_Upw_" says that the rest is punycode with '_' for '-', which goes to `decoded`.
 * False: not a name of Cython's.
 */
bool demangling_strip_prefixes(struct piece *whole, struct piece *fused, struct strbuf *decoded);

#endif
