/* SPDX-License-Identifier: MIT */
/*
 * From an address in an ELF file to names, files and lines, by libdw (elfutils) and libiberty.
 * Knows files and bytes, no process. Called from one thread of ours (libdw is not thread-safe).
 */
#ifndef SYMBOLIZE_SYMBOLIZE_H
#define SYMBOLIZE_SYMBOLIZE_H

#include "base/error.h"
#include "base/intern.h"
#include "base/types.h"

/* What to symbolize in: a file, or bytes (vDSO, deleted file). Nothing is taken over. */
struct symbolize_module {
	const char *path; /* for messages and for debug files beside it; as the target names it */
	int fd;		  /* -1: bytes */
	const void *bytes;
	size_t bytes_size;
	struct build_id build_id;
	int root_fd; /* directory under which debug files are looked up first; -1: ours only */
};

/* One level of an inlined chain, or the function itself. Strings are interned; NULL: not known. */
struct symbolize_frame {
	const char *linkage;   /* symbol as in the file: "_ZN3foo3barEv", "__pyx_pw_3mod_1f" */
	const char *name;      /* demangled, without parameters: "foo::bar", "axpy<float>" */
	const char *file;      /* as DWARF has it, directory joined: "/src/x.c", "pkg/mod.pyx" */
	const char *directory; /* DW_AT_comp_dir of its unit */
	int line;	       /* 0: none */
	int declared;	       /* line of the function's definition; 0: not in `file`, not told */
	bool inlined;	       /* true for all levels but the outermost */
};

enum { SYMBOLIZE_MAX_INLINE = 64 };

struct symbolize_result {
	struct symbolize_frame frames[SYMBOLIZE_MAX_INLINE]; /* innermost first */
	size_t count;					     /* 0: no name and no line at all */
	uint64_t function_start; /* ELF address of the FDE (or symbol) that covers the address */
	bool has_function;	 /* false: nothing covers it: "library [guessed]" */
};

struct symbolizer;

struct symbolizer *symbolizer_new(struct interner *interner);
void symbolizer_free(struct symbolizer *symbolizer); /* NULL accepted */

/*
 * Opens one module, together with its debug file where one is found (.gnu_debuglink, build-id
 * directories) and verified. Only one module is open at a time: the one before is closed. False:
 * not a readable ELF file.
 */
bool MUST_CHECK symbolizer_open(struct symbolizer *symbolizer,
				const struct symbolize_module *module, struct error *error);

/*
 * Symbolizes one ELF address of the open module. `exact`: the instruction itself (leaf,
 * interrupted by a signal); otherwise a return address, of which the call at address-1 is looked
 * up. A symbol counts only if it covers the address: by its size, or, sizeless, when the FDE
 * starts at it.
 */
void symbolize_pc(struct symbolizer *symbolizer, uint64_t address, bool exact,
		  struct symbolize_result *result);

/* Calls `visit` with every function symbol of the open module (and of its debug file), in no
 * particular order; the name is valid during the call. */
void symbolizer_each_symbol(struct symbolizer *symbolizer,
			    void (*visit)(void *context, const char *name), void *context);

/*
 * C++ (and Rust, D ...) names by libiberty, without parameters; interned; the name itself when it
 * is not mangled.
 */
const char *symbolize_demangle(struct interner *interner, const char *linkage);

#endif
