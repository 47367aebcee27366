/* SPDX-License-Identifier: MIT */
/* What is mapped into the target: ELF modules, code made at run time, and where each is. */
#ifndef MODULES_MODULE_H
#define MODULES_MODULE_H

#include <time.h>

#include "base/blocks.h"
#include "elf/returned.h"
#include "target/target.h"

/* ---- modules: module.c, module_table.c, elf_file.c ---------------------------------------- */

struct module_segment {
	uint64_t vaddr, file_offset, file_size, memory_size;
	uint32_t flags; /* PF_X ... */
};

struct module_section {
	const char *name;
	uint64_t vaddr, file_offset, size;
	uint32_t type, index;
	uint64_t flags;
};

/* What tells the file that is mapped from another one of its name. */
struct module_file {
	uint64_t device, inode;
	uint64_t size; /* as it was opened, and when it had been changed last */
	struct timespec changed;
	bool far; /* on a file system that may never answer */
};

/* What the headers say beside the segments: ELF addresses. */
struct module_headers {
	uint64_t eh_frame_hdr, eh_frame_hdr_size; /* PT_GNU_EH_FRAME; size 0: none */
	uint64_t dynamic, dynamic_size;		  /* PT_DYNAMIC */
	uint64_t entry;				  /* where a process starts; 0: none */
	bool fixed;				  /* ET_EXEC */
};

enum module_origin {
	MODULE_OF_FILE,	  /* mapped, or the vDSO */
	MODULE_OF_JIT,	  /* made at run time: see jit.c */
	MODULE_OF_PYTHON, /* the same by CPython itself: a part of its eval function */
};

/*
 * One ELF image mapped into the target. Lives as long as its table: an unloaded library keeps its
 * struct, so that samples taken before still resolve. After an exec the struct of an image that the
 * new program maps, too, serves again, wherever that is: what is kept of a sample must not be an
 * address.
 */
struct module {
	uint32_t id;	  /* index in the table; never reused */
	const char *path; /* as the target names it; "[vdso]" */
	const char *name; /* its last component, without " (deleted)" */
	struct module_file file;
	bool unplaced; /* of a program that the target has replaced: not mapped by this one yet */
	struct build_id build_id;
	uint64_t load_bias;	/* run-time address - ELF address */
	remote_addr start, end; /* what its mappings span */
	int fd;			/* the file, read-only; -1: bytes */
	struct far_file *far;	/* what it is read by instead, where it may never answer */
	const void *bytes;	/* the whole ELF image when there is no file (vDSO, deleted) */
	size_t bytes_size;
	struct module_segment *segments; /* PT_LOAD, in order of vaddr */
	size_t segment_count;
	struct module_section *sections; /* may be none (no section headers) */
	size_t section_count;
	struct module_headers headers;
	enum module_origin origin;
	bool in_our_root; /* its path, and what is beside it, is ours: of a target in a plain chroot
			   */
	remote_addr base; /* what its ELF addresses are shown relative to; 0 but for code made at
			     run    time, whose ELF addresses are those of run time */
	struct module_record *record; /* NULL: what is read of it is not kept */
	void *unwind_cache;	      /* owned by unwind/: see unwinder_free */
	bool no_python;	     /* owned by python/: it has looked here for an interpreter in vain, */
	bool no_python_text; /* also in what there is beside symbols */
};

struct mapping {
	remote_addr start, end;
	uint64_t offset;
	uint32_t protection;   /* PROT_READ | PROT_EXEC ... */
	struct module *module; /* NULL: not an ELF file (heap, stack, data file) */
	uint8_t attempts;      /* failed ones to open the image of an executable mapping */
	const char *path;      /* "" for anonymous memory; "[heap]", "[stack]" */
};

struct module_table {
	uint64_t generation;	  /* changes whenever any mapping of code or of a module changed */
	struct mapping *mappings; /* in order of address, not overlapping */
	size_t mapping_count;
	struct module **modules; /* all ever seen */
	uint64_t placements;	 /* changes whenever a module is new, or at another place */
	size_t module_count, module_capacity;
	size_t last_hit;
	struct jit_code *jit;	   /* NULL: code made at run time is not looked for */
	const _Atomic bool *hurry; /* set: no image is opened any more; NULL: never */
	/* Set by who refreshes: images on file systems that may never answer are opened by a later
	 * refresh. And whether there were such. */
	bool near_alone, has_put_off;
};

void module_table_init(struct module_table *table);
void module_table_release(struct module_table *table);

/* Reads /proc/PID/maps anew; *changed (may be NULL): whether the generation moved. */
bool MUST_CHECK module_table_refresh(struct module_table *table, const struct target *target,
				     bool *changed, struct error *error);

/* After an exec: no mapping is known, no image at its place, nor code made at run time. */
void module_table_forget_program(struct module_table *table);

/* For replay: the image is at that place from now on. */
void module_table_place(struct module_table *table, struct module *module, uint64_t load_bias);

/* For replay and tests: makes a module from an open file (taken over by the table) or from bytes
 * (copied), with no mapping yet. Fails with CORRUPT when it is not a 64-bit x86-64 ELF image. */
bool MUST_CHECK module_table_add(struct module_table *table, const char *path, int fd,
				 const void *bytes, size_t bytes_size, uint64_t load_bias,
				 struct module **module, struct error *error);

/* The same of an image of code made at run time. */
bool MUST_CHECK module_table_add_made(struct module_table *table, const void *bytes,
				      size_t bytes_size, enum module_origin origin,
				      struct module **module, struct error *error);

/* Replaces all mappings (copied; path strings must outlive the table); the generation moves. */
void module_table_set_mappings(struct module_table *table, const struct mapping *mappings,
			       size_t count);

/*
 * The mapping that holds the address, or NULL. O(log n), last hit first. Not thread-safe. For code
 * made at run time that somebody reports, the part of it that is known, with a module: it is valid
 * until the next module_table_follow_jit.
 */
const struct mapping *module_table_find(struct module_table *table, remote_addr address);

/* ---- code made at run time: jit.c, jit_list.c, jit_image.c, perf_map.c ---------------------- */

/*
 * From now on asks the target of code that no file has: images registered by GDB's JIT interface,
 * and /tmp/perf-PID.map. Nothing is read before module_table_find meets such code. `target` is
 * used, not owned; NULL: code is known by module_table_add_jit alone.
 */
void module_table_use_jit(struct module_table *table, const struct target *target);

/* To be called before each sample is decoded: follows what the target has made since. The
 * generation moves when there was something. Some microseconds once such code was met, else none.
 */
void module_table_follow_jit(struct module_table *table);

/* After an exec: nothing of what is known holds any more. */
void module_table_forget_jit(struct module_table *table);

/* All such code met since *epoch changed, in the order in which it was met; for captures. */
const struct mapping *const *module_table_jit(const struct module_table *table, uint64_t *epoch,
					      size_t *count);

/* Adds a range of such code, of a module of this table. */
void module_table_add_jit(struct module_table *table, const struct mapping *mapping);

/* The bytes at an ELF address lie in one segment that has one of the flags (PF_X ...). */
bool module_contains(const struct module *module, uint32_t flags, uint64_t vaddr, uint64_t size);

/* The variable of its own that the function at an ELF address returns, or of which it returns a
 * member; false: it does something else. */
bool module_returned_variable(const struct module *module, uint64_t function,
			      struct elf_returned *returned);

/* Copies bytes of the image by ELF address (not run-time address), from the file or the bytes;
 * what lies beyond a segment's file size reads as zeros. CORRUPT when outside every segment. */
bool MUST_CHECK module_read(const struct module *module, uint64_t vaddr, void *buffer, size_t size,
			    struct error *error);

/* A reader of it by ELF address. The module is used, not owned. */
struct module_image {
	struct memory_reader reader; /* first: it is cast */
	const struct module *module;
};
struct module_image module_image(const struct module *module);

/* Copies bytes of the file by offset. */
bool MUST_CHECK module_read_file(const struct module *module, uint64_t offset, void *buffer,
				 size_t size, struct error *error);

const struct module_section *module_section(const struct module *module, const char *name);

struct module_place {
	uint64_t vaddr, size; /* zeros when not found */
	bool found;
	uint32_t name; /* of a part: the index of its function's name */
};

/* The ELF addresses of defined symbols in .dynsym, then .symtab, then the .symtab of the module's
 * separate debug file where one is installed: a later table only while a name is missing. Fills in
 * places[0 .. count-1]; returns how many were found. */
size_t module_find_symbols(const struct module *module, const char *const names[], size_t count,
			   struct module_place places[]);

/* The same of the dynamic table alone: what other modules can see of this one. Cheap. */
size_t module_find_exported(const struct module *module, const char *const names[], size_t count,
			    struct module_place places[]);

/*
 * The functions of these names and what compilers split off or copied from them: all symbols NAME
 * and NAME.SUFFIX (".cold", ".part.0", ".constprop.1", ".llvm.123") with a size, of all three
 * tables. Fills in at most `capacity` different ones and returns how many.
 */
size_t module_find_parts(const struct module *module, const char *const names[], size_t count,
			 struct module_place parts[], size_t capacity);

/* All functions whose names begin with one of these, at most `most`, in order of address;
 * places[i].name: with which. *places is malloc'ed, the caller frees. */
size_t module_find_functions(const struct module *module, const char *const starts[], size_t count,
			     size_t most, struct module_place **places);

/* ---- files by build ID: symbol_folder.c ---- */

struct symbol_folder;

/* Looks a folder through that a person has named. ABSENT, DENIED, SYSTEM: it cannot be opened. */
bool MUST_CHECK symbol_folder_open(const char *path, struct symbol_folder **folder,
				   struct error *error);
void symbol_folder_free(struct symbol_folder *folder); /* NULL accepted */
const struct foreign_root *symbol_folder_root(const struct symbol_folder *folder);

/* A descriptor of the file of that build ID, with the code or without, as separate debug files are;
 * -1: there is none. */
int symbol_folder_find(const struct symbol_folder *folder, const struct build_id *id, bool code);

/* ---- what was read of a module: module_record.c --------------------------------------------
 */

/* What module_find_* has found; `name` is the index among the names asked for. */
struct module_answer {
	uint64_t question;
	struct module_place *places;
	size_t count;
};

struct module_record {
	bool replayed; /* there is nothing but this: the rest of the file is ABSENT */
	uint64_t file_size;
	struct blocks image; /* by offset in the file */
	size_t header_blocks;
	struct module_answer *answers;
	size_t answer_count, answer_capacity;
	struct module_place *functions; /* that unwinding has looked at; `name` is the kind */
	size_t function_count, function_capacity;
	struct table function_ids;
	void *stated; /* what its tables state of its functions (frames/stated.c), malloc'ed */
	size_t stated_size;
	uint64_t *pcs; /* ELF addresses that were met, each once */
	size_t pc_count, pc_capacity;
	struct table pc_ids;
	void *kept; /* what its symbols call those, likewise */
	size_t kept_size;
};

/* From now on what is read of the module's file is kept, its headers first. Nothing for one without
 * a file: its bytes are in memory. */
void module_record_start(struct module *module);
bool module_record_is_used(const struct module_record *record); /* beyond the headers */
void module_record_free(struct module_record *record);		/* NULL accepted */

/* The module to be read of without keeping it: for tables that are looked through. A copy, not to
 * be released. */
struct module module_unrecorded(const struct module *module);

/* Keeps bytes of a module that is recorded, as if they had been read. */
void module_note(const struct module *module, uint64_t vaddr, size_t size);

/* Adds to it; what is there already stays. Of the places those that are `found` count. */
void module_record_add(struct module_record *record, uint64_t question,
		       const struct module_place *places, size_t count);
void module_record_function(struct module_record *record, const struct module_place *function);
void module_record_pc(struct module_record *record, uint64_t vaddr);

/* Makes a module from what was read of it, which is the table's from now on, also on failure. */
bool MUST_CHECK module_table_add_recorded(struct module_table *table, const char *path,
					  struct module_record *record, uint64_t load_bias,
					  struct module **module, struct error *error);

#endif
