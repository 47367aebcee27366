/* SPDX-License-Identifier: MIT */
/*
 * What the files of symbolize/ share: sorted address ranges, the tables built once for each open
 * module, and the looks into DWARF. Everything read here comes from files that may be hostile.
 */
#ifndef SYMBOLIZE_INTERNAL_H
#define SYMBOLIZE_INTERNAL_H

#include <elfutils/libdw.h>
#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>

#include "base/intern.h"
#include "base/table.h"
#include "base/types.h"
#include "elf/elf.h"
#include "symbolize/symbolize.h"

/* ---- what could not be used: debug_problem.c ---------------------------------------------- */

enum debug_problem {
	DEBUG_PROBLEM_ZSTD,
	DEBUG_PROBLEM_COMPRESSION,
	DEBUG_PROBLEM_DAMAGED,
	DEBUG_PROBLEM_ALTERNATE,
	DEBUG_PROBLEM_DWO,
	DEBUG_PROBLEM_DWP,
	DEBUG_PROBLEM_LZMA,
	DEBUG_PROBLEM_FETCHED,
	DEBUG_PROBLEM_COUNT
};

enum { DEBUG_PROBLEM_NAMED = 3 };

struct debug_problems {
	struct debug_cause {
		size_t files;
		const char *names[DEBUG_PROBLEM_NAMED];
	} causes[DEBUG_PROBLEM_COUNT];
	size_t files;
	struct table seen; /* (interned path, problem) */
};

void debug_problems_init(struct debug_problems *problems);
void debug_problems_release(struct debug_problems *problems);
void debug_problems_add(struct debug_problems *problems, struct interner *interner,
			enum debug_problem problem, const char *path);
void debug_problems_describe(const struct debug_problems *problems, struct strbuf *text);

/* ---- .debug_aranges: arange_table.c ------------------------------------------------------- */

/* Adds all ranges; value: offset of the unit in .debug_info. */
void arange_table_add(struct interval_list *list, const struct elf_bytes *bytes);

/* ---- large debug sections: lazy_dwarf.c --------------------------------------------------- */

struct lazy_dwarf;

/*
 * An image of the debug sections of a file (fd stays open as long), filled in as units are asked
 * for. NULL: they are small, or of a kind that has to be read whole. *image is to be ended before
 * lazy_dwarf_free.
 */
struct lazy_dwarf *lazy_dwarf_new(int fd, Elf *elf, Elf **image);
void lazy_dwarf_free(struct lazy_dwarf *lazy); /* NULL accepted */

/* Fills in the unit at an offset of .debug_info and what libdw looks at before it; false: it is not
 * there, or it refers to other units. The same for a table of .debug_line. */
bool lazy_dwarf_need_unit(struct lazy_dwarf *lazy, uint64_t offset);
bool lazy_dwarf_need_lines(struct lazy_dwarf *lazy, uint64_t offset);

/* Fills in the headers and first DIEs of all units, or more. */
bool lazy_dwarf_need_heads(struct lazy_dwarf *lazy);

/* Fills in the text that libdw gave out. At most so many bytes may be looked at; `limit`: it is not
 * in .debug_str. */
size_t lazy_dwarf_text(struct lazy_dwarf *lazy, const char *text, size_t limit);

/* Bytes of memory that would be free again if it were opened anew, libdw's included, about. */
size_t lazy_dwarf_cost(const struct lazy_dwarf *lazy);

/* Fills in all; false: the file is damaged. */
bool lazy_dwarf_fill(struct lazy_dwarf *lazy);

/* ---- DWARF: unit_index.c ------------------------------------------------------------------ */

struct split_unit;

struct unit {
	Dwarf_Die die;
	struct split_unit *split; /* of a skeleton, once looked for */
	bool looked_for_split;
	bool looked_for, missing; /* of the index: whether more than its head can be had */
	bool scanned, scanned_bodies;
	struct interval_list functions; /* value: offset of the DIE */
};

/* How many units are opened by hints; more are worth an index of all. */
enum { DEBUG_INFO_HINTS = 16 };

/* Split units keep their file open; more in one module have lines alone. */
enum { DEBUG_INFO_SPLITS = 512 };

/* The sections in which strings that libdw returns may stand. They live as long as the ELF file. */
enum { DEBUG_TEXTS = 8 };
struct debug_texts {
	struct elf_bytes sections[DEBUG_TEXTS];
};

void debug_texts_init(struct debug_texts *texts, Elf *elf);

/* How many bytes of its section there are from here on; `limit` when those are more, or none. */
size_t debug_texts_left(const struct debug_texts *texts, const char *text, size_t limit);

struct debug_info {
	Dwarf *dwarf; /* NULL: none */
	Elf *elf;
	const char *path; /* of the module: where .dwo files are looked for beside it */
	struct foreign_root root;
	bool dwo_missing;
	size_t split_count;
	const struct split_unit *split;	       /* of the function found last; NULL: none */
	const struct debug_texts *split_texts; /* its */
	struct lazy_dwarf *lazy;	       /* what dwarf reads; NULL: all of it is there */
	bool has_units;			       /* there is a .debug_info that can be read */
	struct debug_texts texts,
		alternate; /* of the file; of the one that it shares with others */
	uint64_t budget;   /* DIEs and ranges that may still be looked at */
	bool indexed;
	struct unit *units;
	size_t unit_count, unit_capacity;
	struct interval_list ranges;  /* value: index of units */
	struct interval_list aranges; /* value: offset of the unit */
	struct unit hinted[DEBUG_INFO_HINTS];
	uint64_t hinted_offsets[DEBUG_INFO_HINTS];
	size_t hinted_count;
};

/* `path` and `root` are used as long as info. */
void debug_info_init(struct debug_info *info, Dwarf *dwarf, Elf *elf, struct lazy_dwarf *lazy,
		     const char *path, struct foreign_root root);
void debug_info_release(struct debug_info *info);

/* Called once for each look-up: honest files never run out, hostile ones earn little. */
void debug_info_refill(struct debug_info *info);

/* False when the budget is used up: stop looking. */
bool debug_info_spend(struct debug_info *info);

/* True when the DIE's ranges hold pc; *any (may be NULL): it has ranges at all. */
bool debug_info_has_pc(struct debug_info *info, Dwarf_Die *die, uint64_t pc, bool *any);

/* The next unit that holds pc; *position starts as SIZE_MAX. NULL: no (more) units. */
struct unit *debug_info_unit(struct debug_info *info, uint64_t pc, size_t *position);

/* The unit that .debug_aranges names, before all units are looked at: a hint, to be checked. NULL:
 * not known, or there were many hints already. */
struct unit *debug_info_hinted(struct debug_info *info, uint64_t pc);

/* The subprogram of the unit that holds pc. */
bool debug_info_function(struct debug_info *info, struct unit *unit, uint64_t pc, Dwarf_Die *die);

/* The DIE that has the unit's language and holds its functions: a split one's. */
Dwarf_Die *debug_info_root(struct unit *unit);

/* A string that libdw returned, cut where its section ends; *size: its length. */
const char *debug_info_string(const struct debug_info *info, const char *text, size_t *size);

/* ---- split DWARF: split_unit.c ------------------------------------------------------------ */

bool split_unit_is_skeleton(Dwarf_Die *unit);

/* The unit that the skeleton stands for, in its .dwo file; NULL: not here, or not the right one. */
struct split_unit *split_unit_open(const struct debug_info *info, Dwarf_Die *skeleton);
void split_unit_free(struct split_unit *split); /* NULL accepted */

Dwarf *split_unit_dwarf(const struct split_unit *split);
Dwarf_Die *split_unit_die(struct split_unit *split);

/* Of the split file; they live as long. */
const struct debug_texts *split_unit_texts(const struct split_unit *split);

/* The ranges of one DIE of the unit, one after the other. */
struct split_ranges {
	const struct split_unit *split;
	uint64_t start, end, base, at;
	bool list, old, over;
};

/* False: it has none. */
bool split_ranges_begin(const struct split_unit *split, Dwarf_Die *die,
			struct split_ranges *ranges);
bool split_ranges_next(struct split_ranges *ranges, uint64_t *start, uint64_t *end);

/* ---- frames: inline_chain.c, die_name.c --------------------------------------------------- */

/* Fills in frames and count from DWARF; leaves count 0 when DWARF does not know pc. */
void inline_chain_resolve(struct debug_info *info, struct interner *interner, uint64_t pc,
			  struct symbolize_result *result);

/* linkage and name of a subprogram or inlined subroutine. */
void die_name_fill(struct debug_info *info, struct interner *interner, struct unit *unit,
		   Dwarf_Die *die, struct symbolize_frame *frame);

/* ---- variables.c --------------------------------------------------------------------------- */

/* See symbolizer_each_variable. */
void debug_info_each_variable(struct debug_info *info, struct interner *interner, const char *part,
			      symbolize_visit_variable visit, void *context);

/* ---- .gnu_debugdata: mini_debug.c --------------------------------------------------------- */

struct mini_debug {
	uint8_t *bytes;
	size_t size;
	Elf *elf; /* NULL: none */
};

/* False: there is one that cannot be used, *problem says why. */
bool mini_debug_open(struct mini_debug *mini, Elf *elf, enum debug_problem *problem);
void mini_debug_close(struct mini_debug *mini);

/* ---- debug files from servers: debuginfod.c ----------------------------------------------- */

struct debuginfod;

struct debuginfod *debuginfod_new(const struct symbolize_fetch *limits);
void debuginfod_free(struct debuginfod *debuginfod); /* NULL accepted */

/* A descriptor of the file, of which nothing has been verified, the caller closes it; -1: none, or
 * it was asked for before. NULL accepted. */
int debuginfod_fetch(struct debuginfod *debuginfod, const struct build_id *id, const char *path);

/* Why no more is asked for; "": all is well. NULL accepted. */
const char *debuginfod_note(const struct debuginfod *debuginfod);

/* ---- debug files: debug_file.c ------------------------------------------------------------ */

struct debug_file {
	int fd; /* -1: none */
	Elf *elf;
};

struct debug_files {
	struct debug_file debug;     /* the separate debug file */
	bool ours;		     /* it is of our own /usr/lib/debug: so is what it names */
	struct debug_file alternate; /* what several debug files share (dwz) */
	Dwarf *alternate_dwarf;
	void *image; /* what stands for an alternate file that is not there, or has strings alone */
};

void debug_files_init(struct debug_files *files);
void debug_files_release(struct debug_files *files);

/* Looks for the separate debug file of the module; true: found and verified. */
bool debug_files_find(struct debug_files *files, const struct symbolize_module *module, Elf *elf);

/* Takes over a debug file in place of a module that is not here; fd -1: looks for it. */
bool debug_files_stand_in(struct debug_files *files, int fd, const struct symbolize_module *module);

/* Takes over a file that came from elsewhere; false: it is not the module's, and is closed. */
bool debug_files_take(struct debug_files *files, int fd, const struct symbolize_module *module,
		      Elf *elf);

/* Gives dwarf its alternate file, found and verified, or an empty one, so that libdw itself never
 * opens a path that a file names. False: it should have one, which is not here. */
bool debug_files_set_alternate(struct debug_files *files, const struct symbolize_module *module,
			       Dwarf *dwarf);

/* ---- names to be asked for later: names_ahead.c ------------------------------------------ */

/* Loads the names of a module in a thread of its own. NULL: nothing comes of it. */
struct names_ahead *names_ahead_start(const struct symbolize_module *module);

/* Waits for them and hands them over, once; false: they are of another module, or were taken. */
bool names_ahead_take(struct names_ahead *ahead /* NULL accepted */, const char *path,
		      const struct build_id *id, struct recovered_names *names);
void names_ahead_free(struct names_ahead *ahead); /* waits, too; NULL accepted */

#endif
