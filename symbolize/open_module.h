/* SPDX-License-Identifier: MIT */
/* The module that a symbolizer has open: its files, its DWARF and its tables. */
#ifndef SYMBOLIZE_OPEN_MODULE_H
#define SYMBOLIZE_OPEN_MODULE_H

#include "symbolize/internal.h"
#include "symbolize/kept_symbols.h"

/* Where the debug files of the open module are looked for. */
struct where {
	struct foreign_root root; /* a descriptor is ours: a duplicate */
	const struct foreign_root *symbols;
	int (*find_debug)(const void *context, const struct build_id *id);
	bool (*find_function)(const void *context, uint64_t address, uint64_t *start,
			      uint64_t *size);
	const void *context;
	const void *stated;
	size_t stated_size;
	struct kept_symbols kept;
	bool bare; /* the open file is the debug file: no code is in it */
};

/* What has been looked up in the open module: are addresses in order? */
struct lookup_order {
	uint64_t last_pc, lookups, turns_back;
};

/* Where the open module's functions begin and end. */
struct function_ranges {
	struct elf_bytes eh_frame;
	bool walked; /* the FDEs of .eh_frame are in the list */
	struct interval_list fdes;
};

struct symbolizer {
	struct interner *interner;
	bool open, tables_built;
	char *path; /* with the build ID: which module is open */
	struct build_id build_id;
	int fd; /* ours: a duplicate; -1: bytes */
	struct where where;
	void *bytes; /* ours: a copy */
	Elf *elf;
	struct debug_files files;
	struct debuginfod *debuginfod; /* NULL: not to be asked */
	struct mini_debug mini;
	struct debug_problems problems; /* of all modules so far */
	struct lazy_dwarf *lazy;	/* what info reads, where that is large */
	Elf *lazy_elf;
	Elf *debug_elf; /* the file that has .debug_info */
	int debug_fd;
	struct debug_info info;
	struct lookup_order order;
	struct symbol_table symbols;
	struct function_ranges functions;
	bool recovered_built;
	struct recovered_names recovered;
	struct names_ahead *ahead; /* of a module to be opened later; NULL: none */
	struct elf_image code;	   /* for lines of calls in stated functions; once it is needed */
};

/* Closes what is open, if anything is; problems, the way to fetch, and names that are read ahead
 * stay. symbolizer_open opens. */
void open_module_close(struct symbolizer *symbolizer);

/* Opens the DWARF and reads the symbol tables, when they are first asked for. */
void open_module_need_tables(struct symbolizer *symbolizer);

/*
 * Before each lookup. What libdw has made of a large library's units is hundreds of megabytes. When
 * addresses come in their order, most units are done with once the next one is asked for: then all
 * is let go of now and then. In another order that would only take time, again and again.
 */
void open_module_forget_units(struct symbolizer *symbolizer, uint64_t pc);

/* A unit is in a file that is not there. */
void open_module_note_missing_dwo(struct symbolizer *symbolizer);

#endif
