/* SPDX-License-Identifier: MIT */
/*
 * From an address in an ELF file to names, files and lines, by libdw (elfutils) and libiberty.
 * Knows files and bytes, no process. Called from one thread of ours: libdw's handles are each one
 * thread's. The only other thread, stated_ahead.c's, has its own.
 */
#ifndef SYMBOLIZE_SYMBOLIZE_H
#define SYMBOLIZE_SYMBOLIZE_H

#include "base/error.h"
#include "base/intern.h"
#include "base/strbuf.h"
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

/* How a module without symbols tells the name of a function; the surest first. */
enum symbolize_evidence {
	SYMBOLIZE_METHOD,      /* an array of methods: PyMethodDef */
	SYMBOLIZE_PROPERTY,    /* an array of properties: PyGetSetDef */
	SYMBOLIZE_SLOT,	       /* a slot of a type: static, or PyType_Spec */
	SYMBOLIZE_MODULE_SLOT, /* Py_mod_exec */
	SYMBOLIZE_EXPORT,      /* what a module exports for others that Cython made: __pyx_capi__ */
	SYMBOLIZE_TRACEBACK,   /* what the function, made by Cython, writes into tracebacks */
};

/* A name from the tables that an extension module, or the interpreter, has for Python to read. */
struct symbolize_stated {
	const char *name; /* inside its module: "list.sort", "sqrt", "Infinity.__lt__"; interned */
	const char
		*module; /* as its definition has it: "math", "re"; NULL: builtins, or not told */
	uint64_t start, end; /* ELF addresses of the function, or of the part of it */
	enum symbolize_evidence evidence;
	bool uncertain; /* shown with "?" */
	bool cython;	/* of a module that Cython made */
	bool helper;	/* Cython's own code: hidden */
	bool slot;	/* named after a slot of a type: "Point.tp_new" */
	int layer;	/* as in struct cython_name: of two frames of one call the inner has more */
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
	const struct symbolize_stated *stated; /* where `name` is from, and the line is an estimate;
						  NULL: DWARF or a symbol */
};

enum { SYMBOLIZE_MAX_INLINE = 64 };

struct symbolize_result {
	struct symbolize_frame frames[SYMBOLIZE_MAX_INLINE]; /* innermost first */
	size_t count;					     /* 0: no name and no line at all */
	uint64_t function_start; /* ELF address of the FDE (or symbol) that covers the address */
	bool has_function;	 /* false: nothing covers it: "library [guessed]" */
	struct symbolize_stated stated;
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

/*
 * The name that the open module's own tables state for the function that covers this ELF address
 * (no return address), whether or not it has a symbol; false: none. The tables are read when first
 * asked for, from the file alone: stripped or not, and under the same name in an interpreter's own
 * file as in an extension module.
 */
bool symbolize_stated_name(struct symbolizer *symbolizer, uint64_t address,
			   struct symbolize_stated *stated);

/*
 * Begins to read those tables of a file, in a thread of ours, for when it will be open: whoever
 * asks for a name of it then waits for the rest. Of one file, which has to have a build ID.
 */
void symbolizer_read_ahead(struct symbolizer *symbolizer, const struct symbolize_module *module);

/*
 * Debug files from the servers in $DEBUGINFOD_URLS, which has to be set: for modules opened from
 * now on that have no DWARF on this machine, each build ID once. The limits are for all of them
 * together; once one is reached no more is asked for. `progress` (NULL accepted) is called when a
 * file is asked for, about once a second meanwhile, and when that is over; false: no more. `size`
 * 0: not known.
 */
enum symbolize_fetch_event {
	SYMBOLIZE_FETCH_BEGINS,
	SYMBOLIZE_FETCH_GOES_ON,
	SYMBOLIZE_FETCH_ENDS
};
struct symbolize_fetch {
	bool (*progress)(void *context, enum symbolize_fetch_event event, const char *path,
			 uint64_t bytes, uint64_t size);
	void *context;
	unsigned seconds;
	uint64_t bytes;
};
void symbolizer_set_fetch(struct symbolizer *symbolizer, const struct symbolize_fetch *fetch);

/*
 * Appends one line about debug information of the modules so far that was there but could not be
 * used: "debug information of 2 files could not be used: compressed by zstd ... (libx.so,
 * liby.so)". Nothing where all is well, or where there is none.
 */
void symbolizer_add_problems(const struct symbolizer *symbolizer, struct strbuf *text);

/*
 * The .pyx line of the call before a return address, in a function that Cython made, as the error
 * path behind the call has it: an estimate. False: it tells none.
 */
bool symbolize_estimated_line(struct symbolizer *symbolizer, uint64_t address, const char **file,
			      int *line);

/* Calls `visit` with all such names, in the order of their addresses. */
void symbolizer_each_stated(struct symbolizer *symbolizer,
			    void (*visit)(void *context, const struct symbolize_stated *stated),
			    void *context);

/* Calls `visit` with every function symbol of the open module (and of its debug file), in no
 * particular order; the name is valid during the call. */
void symbolizer_each_symbol(struct symbolizer *symbolizer,
			    void (*visit)(void *context, const char *name), void *context);

/* Strings are interned. The type is what the first named one is called behind pointers and the
 * like: "double" of a double *. */
typedef void (*symbolize_visit_variable)(void *context, const char *function, const char *variable,
					 const char *type);

/*
 * Calls `visit` with the parameters and variables, in the order they are declared in, of all
 * functions of the open module whose name (as in the source) contains `part`. Without debug
 * information there are none. Reads all of it: to be asked for when it matters, once a module.
 */
void symbolizer_each_variable(struct symbolizer *symbolizer, const char *part,
			      symbolize_visit_variable visit, void *context);

/*
 * C++ (and Rust, D ...) names by libiberty, without parameters; interned; the name itself when it
 * is not mangled.
 */
const char *symbolize_demangle(struct interner *interner, const char *linkage);

/* What numba calls a function that it has compiled, or one of those that it makes around it. */
struct symbolize_numba {
	const char *name;     /* "work", "Solver.step", interned */
	const char *function; /* equal pointers: the same function (specialisation) */
	bool wrapper;	      /* it unpacks arguments and calls the function */
};

/* False: not numba's. `file` (NULL: not known): where the function was written, which tells what of
 * the name is its module; the module stays in front where that is not known. */
bool symbolize_numba(struct interner *interner, const char *linkage, const char *file,
		     struct symbolize_numba *name);

#endif
