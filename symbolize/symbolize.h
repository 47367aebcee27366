/* SPDX-License-Identifier: MIT */
/*
 * From an address in an ELF file to names, files and lines, by libdw (elfutils) and libiberty.
 * Knows files and bytes, no process. Called from one thread of ours: libdw's handles are each one
 * thread's. The only other thread, names_ahead.c's, has its own.
 */
#ifndef SYMBOLIZE_SYMBOLIZE_H
#define SYMBOLIZE_SYMBOLIZE_H

#include "base/error.h"
#include "base/intern.h"
#include "base/strbuf.h"
#include "base/types.h"
#include "files/foreign_file.h"
#include "names/names.h"
#include "stripped/stripped.h"

/* What to symbolize in: a file, or bytes (vDSO, deleted file). Nothing is taken over. */
struct symbolize_module {
	const char *path; /* for messages and for debug files beside it; as the target names it */
	int fd;		  /* -1: bytes; neither: its debug file, by the build ID,
			     what is stated, and what is kept */
	const void *bytes;
	size_t bytes_size;
	struct build_id build_id;
	int root_fd; /* the root that path is in, as struct foreign_root has it: files that it, or
			what is in it, names are looked up there, ... */
	uid_t root_user;		    /* ... by that user's rights; 0: root's */
	bool root_far;			    /* see struct foreign_root */
	const struct foreign_root *symbols; /* a folder of debug files, which lives as long as the
					       symbolizer; NULL: none is given */
	/* Opens a debug file that is elsewhere in it, or returns -1; NULL accepted. Used while the
	 * module is open. */
	int (*find_debug)(const void *context, const struct build_id *id);
	/* Where its file is not here: the function that holds an ELF address. NULL accepted. */
	bool (*find_function)(const void *context, uint64_t address, uint64_t *start,
			      uint64_t *size);
	const void *context;
	const void *stated; /* ... and what its tables state, as symbolizer_write_stated had it */
	size_t stated_size;
	const void *kept; /* ... and what its symbols are, as symbolizer_write_symbols had it; lives
			     as long as the module is open */
	size_t kept_size;
};

/* One level of an inlined chain, or the function itself. Strings are interned; NULL: not known. */
struct symbolize_frame {
	const char *linkage;   /* symbol as in the file: "_ZN3foo3barEv", "__pyx_pw_3mod_1f" */
	const char *name;      /* demangled, without parameters: "foo::bar", "axpy<float>" */
	const char *file;      /* as DWARF has it, directory joined: "/src/x.c", "pkg/mod.pyx" */
	const char *directory; /* DW_AT_comp_dir of its unit */
	int line;	       /* 0: none */
	int declared;	       /* line of the function's definition; 0: not in `file`, not known */
	bool inlined;	       /* true for all levels but the outermost */
	const struct recovered_name *recovered; /* where `name` is from, and the line is an
						  estimate; NULL: DWARF or a symbol */
};

enum { SYMBOLIZE_MAX_INLINE = 64 };

struct symbolize_result {
	struct symbolize_frame frames[SYMBOLIZE_MAX_INLINE]; /* innermost first */
	size_t count;					     /* 0: no name and no line at all */
	uint64_t function_start; /* ELF address of the FDE (or symbol) that covers the address */
	bool has_function;	 /* false: nothing covers it: "library [guessed]" */
	struct recovered_name recovered;
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
 * starts at it. Where there is no FDE: when `function` is its address, from where control flow
 * leads to this one (0: not known).
 */
void symbolize_pc(struct symbolizer *symbolizer, uint64_t address, bool exact, uint64_t function,
		  struct symbolize_result *result);

/*
 * The name that the open module's own tables state for the function that covers this ELF address
 * (no return address), whether or not it has a symbol; false: none. The tables are read when first
 * asked for, from the file alone: stripped or not, and under the same name in an interpreter's own
 * file as in an extension module.
 */
bool symbolize_recovered_name(struct symbolizer *symbolizer, uint64_t address,
			      struct recovered_name *recovered);

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
 * Forks the process that asks the servers (its number: 0, there is none); without it none is asked.
 * While there are no threads yet, and the rights of who starts us: they choose the cache. It ends
 * when we have. `sandboxed`: it gives up what downloads do not need. False with errno.
 */
bool symbolize_fetcher_start(bool sandboxed);
pid_t symbolize_fetcher_process(void);

/* The same servers, and limits of their own, for programs and libraries themselves. */
struct symbolize_programs;
struct symbolize_programs *symbolize_programs_new(const struct symbolize_fetch *fetch);
void symbolize_programs_free(struct symbolize_programs *programs); /* NULL accepted */

/* Opens the file of that build ID, -1: none has it. It is to be verified. `path`: for messages. */
int symbolize_programs_fetch(struct symbolize_programs *programs, const struct build_id *id,
			     const char *path);

/*
 * Appends one line about debug information of the modules so far that was there but could not be
 * used: "debug information of 2 files could not be used: compressed by zstd ... (libx.so,
 * liby.so)". Nothing where all is well, or where there is none.
 */
void symbolizer_add_problems(const struct symbolizer *symbolizer, struct strbuf *text);

/*
 * The .pyx line of the call before a return address, in a function that Cython made, as the error
 * path behind the call has it: an estimate. False: it has none.
 */
bool symbolize_estimated_line(struct symbolizer *symbolizer, uint64_t address, const char **file,
			      int *line);

/* All of them as bytes, for who opens the module where its file is not. */
void symbolizer_write_stated(struct symbolizer *symbolizer, struct strbuf *bytes);

/* The symbols and stubs at these addresses, which are in order, likewise. `starts`, in order: those
 * of them that begin functions whose symbols say no size. */
void symbolizer_write_symbols(struct symbolizer *symbolizer, const uint64_t *addresses,
			      size_t count, const uint64_t *starts, size_t start_count,
			      struct strbuf *bytes);

/* Calls `visit` with all such names, in the order of their addresses. */
void symbolizer_each_recovered(struct symbolizer *symbolizer,
			       void (*visit)(void *context, const struct recovered_name *recovered),
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

#endif
