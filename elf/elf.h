/* SPDX-License-Identifier: MIT */
/*
 * The bytes of ELF files, which strangers wrote, read once for all. Everything is bounded; a file
 * can hide what it has, but not make us read beyond it or say what is not in it.
 */
#ifndef ELF_ELF_H
#define ELF_ELF_H

#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/interval.h"
#include "base/memory_reader.h"
#include "base/table.h"
#include "base/types.h"

/* ---- where functions begin and end: functions.c -------------------------------------------- */

/* How it is known that a function begins there, best first. */
enum elf_function_kind {
	ELF_FUNCTION_SYMBOL,	 /* a symbol says so */
	ELF_FUNCTION_REFERENCED, /* its address is kept, or taken: of functions, mostly */
	ELF_FUNCTION_LABEL,	 /* a symbol without a type: it may be a place within one */
};

struct elf_function {
	uint64_t start, size; /* ELF address; size 0: not known */
	enum elf_function_kind kind;
};

/* In order of their start, each start once. All zero is an empty list. */
struct elf_functions {
	struct elf_function *items;
	size_t count, capacity;
};

/*
 * Adds the functions of a symbol table, which is `size` bytes at `offset` of what `file` reads.
 * Symbols without a type count, too: assembly often has no other.
 */
void elf_functions_add(struct elf_functions *functions, const struct memory_reader *file,
		       uint64_t offset, uint64_t size);

void elf_functions_add_one(struct elf_functions *functions, const struct elf_function *function);

/*
 * Adds what pointers in the file lead to, by relocations (R_X86_64_RELATIVE) of `size` bytes at
 * `offset`: as far as it is in [start, end), which is code.
 */
void elf_functions_add_pointers(struct elf_functions *functions, const struct memory_reader *file,
				uint64_t offset, uint64_t size, uint64_t start, uint64_t end);

/*
 * Adds what code in [start, end) takes the address of, within the same: `code` reads it. Every byte
 * is looked at: what only looks like it may be among them.
 */
void elf_functions_add_taken(struct elf_functions *functions, const struct memory_reader *code,
			     uint64_t start, uint64_t end);

/* Before the first look-up, once all tables are added. */
void elf_functions_sort(struct elf_functions *functions);
void elf_functions_release(struct elf_functions *functions);

/* The last one that begins at or below the address, NULL: none. It may end before. */
const struct elf_function *elf_functions_before(const struct elf_functions *functions,
						uint64_t address);

/* The first one that begins above the address, NULL: none. */
const struct elf_function *elf_functions_after(const struct elf_functions *functions,
					       uint64_t address);

/* ---- where exceptions land: landings.c ------------------------------------------------------ */

/* A part of a function: what is called there and throws comes back to the pad. */
struct elf_landing {
	uint64_t start, end, pad;
};

/* In order of their start, none within another. All zero is an empty list. */
struct elf_landings {
	struct elf_landing *items;
	size_t count, capacity;
};

/*
 * Adds to an empty list what the language-specific data area (.gcc_except_table) at `address` says
 * of the function [start, end), whose unwind information names it: `image` reads it. False: it is
 * not as compilers make it; the list stays empty.
 */
bool MUST_CHECK elf_landings_read(struct elf_landings *landings, const struct memory_reader *image,
				  uint64_t address, uint64_t start, uint64_t end);
void elf_landings_release(struct elf_landings *landings);

/* The part that holds the address (of a call: any byte of it), NULL: it lands nowhere. */
const struct elf_landing *elf_landings_find(const struct elf_landings *landings, uint64_t address);

/* ---- ELF helpers: section.c ----------------------------------------------------------- */

struct elf_bytes {
	const uint8_t *data; /* NULL: no such section */
	size_t size;
	uint64_t address;
	Elf_Data *raw;
};

/* Contents of a section that has some (not NOBITS), decompressed. Lives as long as elf. */
bool elf_section_bytes(Elf *elf, const char *name, struct elf_bytes *bytes);

/* True when the section has been compressed, and still is; *type: ELFCOMPRESS_ZLIB ... */
bool elf_section_compressed(Elf *elf, const char *name, uint32_t *type);

/* Where a separate debug file of that build ID is, below a folder as /usr/lib/debug. False: the ID
 * is too short, or the path too long. */
bool elf_debug_path(const char *folder, const struct build_id *id, char *path, size_t size);

/* True for what is read here: a 64-bit little-endian ELF file. NULL accepted. */
bool elf_is_supported(Elf *elf);

/* The section of that name and its header; NULL: none. */
Elf_Scn *elf_find_section(Elf *elf, const char *name, GElf_Shdr *header);

/* Spares libdw the debug sections that are not needed; before dwarf_begin_elf. */
void elf_hide_unused(Elf *elf);

/* The .eh_frame by section, or by PT_GNU_EH_FRAME where there are no section headers. */
bool elf_eh_frame_bytes(Elf *elf, struct elf_bytes *bytes);

/* ---- FDEs: fde_table.c -------------------------------------------------------------------- */

/* Adds the ranges of all FDEs of one section. */
void fde_table_add(struct interval_list *fdes, Elf *elf, const struct elf_bytes *bytes,
		   bool eh_frame);

/* The FDE that holds pc by the sorted table of .eh_frame_hdr; false: there is no table that can be
 * believed. *fde: an empty range when none holds pc. */
bool fde_table_search(Elf *elf, const struct elf_bytes *eh_frame, uint64_t pc,
		      struct interval *fde);

/* ---- symbols: symbol_table.c -------------------------------------------------------------- */

struct symbol_table {
	struct interval_list ranges; /* value: index of symbols */
	struct symbol *symbols;
	size_t count, capacity;
	unsigned looks; /* how many before the ranges are sorted */
	bool sorted;
};

void symbol_table_release(struct symbol_table *table);

/* Adds the functions of the section of that type; false: there is none of them. */
bool symbol_table_add(struct symbol_table *table, Elf *elf, uint32_t section_type);

struct symbol_match {
	const char *name; /* in the ELF file's string table; with version and suffixes */
	size_t size;	  /* of the name, without the version */
	uint64_t start;
};

/* Calls `visit` with the name of each symbol. */
void symbol_table_each(const struct symbol_table *table,
		       void (*visit)(void *context, const char *name), void *context);

/*
 * The symbol that covers pc by its size, or a sizeless one where fde (NULL: none) starts. Among
 * several of one start the one named `wanted` (NULL: any), with or without a suffix.
 */
bool symbol_table_find(struct symbol_table *table, uint64_t pc, const struct interval *fde,
		       const char *wanted, struct symbol_match *match);

/* ---- stubs of the PLT: plt_stub.c --------------------------------------------------------- */

struct x86_decoder; /* of x86.h; NULL accepted */

/* The place of the pointer that the code at that address, of which these are the bytes, jumps
 * through; false: other code. */
bool plt_slot_at(struct x86_decoder *decoder, const uint8_t *bytes, size_t size, uint64_t address,
		 uint64_t *slot);

struct plt_stub {
	uint64_t start;
	const char *symbol; /* that it jumps to; in the ELF file's string table */
};

/* False: no stub of a function with a name is there. By section headers: without them none is. */
bool plt_stub_find(Elf *elf, uint64_t pc, struct plt_stub *stub);

/* ---- the module in memory: image.c ---------------------------------------------------- */

enum {
	IMAGE_SEGMENTS = 32,
	IMAGE_LIMIT = 64 << 20, /* bytes; larger modules are passed over */
	IMAGE_TEXT = 512,	/* longest name, with its end */
};

/* No segment is above it: addresses in one can be rounded and added to. */
#define IMAGE_HIGHEST (UINT64_C(1) << 62)

/* What a word holds that some other module's symbol is put into. */
#define IMAGE_EXTERNAL UINT64_MAX

struct image_segment {
	uint64_t start, end; /* of the bytes that are in the file */
	const uint8_t *bytes;
	uint8_t *words;	  /* a copy of them, relocated; NULL: as they are */
	uint8_t *pointer; /* one bit a word: relocated; NULL: every word may be a pointer */
	bool code;
};

struct elf_image {
	struct image_segment segments[IMAGE_SEGMENTS];
	size_t count;
	uint64_t end;			/* of all memory, also of what the file has no bytes of */
	struct interval_list functions; /* the FDEs, by start */
	uint64_t symbols, strings, strings_size;
	struct table imports; /* the place of a pointer to another module's function -> symbol */
	bool python2;	      /* of Python 2, where some tables have other members */
	bool cython;	      /* made by Cython */
	bool memoryview;      /* with Cython's own array, memoryview ... in it */
};

/* The bytes live as long as elf. False: nothing there that states names. `image` is to be released
 * in any case. */
bool image_load(struct elf_image *image, Elf *elf);

/* The bytes alone: no relocations, no functions. */
bool image_load_bytes(struct elf_image *image, Elf *elf);
void image_release(struct elf_image *image);

/* The aligned word at that address, relocated; 0: there is none. */
uint64_t image_word(const struct elf_image *image, uint64_t address);

/* The same of the segment that holds all of the word. */
uint64_t image_word_of(const struct image_segment *segment, uint64_t address);

/* The same where it is a pointer to something, be it IMAGE_EXTERNAL; 0: it is none. */
uint64_t image_pointer(const struct elf_image *image, uint64_t address);

/* True for NULL, another module's symbol, and a pointer to anywhere in the module. */
bool image_is_reference(const struct elf_image *image, uint64_t place);

/* Bytes of the file from the address on, and how many there are; NULL: none. */
const uint8_t *image_bytes(const struct elf_image *image, uint64_t address, size_t *size);

/* The text that starts there, ended by NUL within IMAGE_TEXT bytes; NULL: none, or an empty one. */
const char *image_text(const struct elf_image *image, uint64_t address);

/* The name of the other module's function that the code there only jumps to; NULL: other code. */
const char *image_import_at(const struct elf_image *image, struct x86_decoder *decoder,
			    uint64_t address);

/* Where code that goes to that address ends up, if a stub is there; IMAGE_EXTERNAL: elsewhere. */
uint64_t image_through_stub(const struct elf_image *image, struct x86_decoder *decoder,
			    uint64_t address);

/* Where a function starts, by its FDE. */
bool image_is_function(const struct elf_image *image, uint64_t address);

/* The same, or NULL, or a function of another module: what is in a table of functions. */
bool image_is_function_slot(const struct elf_image *image, uint64_t address);

/*
 * Is a static object's reference count before the pointer to its type? It is 1, or so large
 * that it stands for ever, with flags above bit 48 (3.14). Free-threaded builds have it in two
 * halves: the thread's own, all ones, and 0.
 */
bool image_is_object(const struct elf_image *image, uint64_t type);

/* Calls visit with the place of each pointer to a text, in ascending order. */
void image_each_text(const struct elf_image *image,
		     void (*visit)(void *context, uint64_t place, const char *text), void *context);

#endif
