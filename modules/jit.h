/* SPDX-License-Identifier: MIT */
/*
 * What the files of modules/ that know of code made at run time share: ranges of code
 * (code_list.c), the images that GDB's JIT interface registers (jit_list.c, jit_image.c), perf maps
 * (perf_map.c), unwind tables registered with libgcc (jit_frames.c), and what they come to for the
 * module table (jit.c). All of it is the target's to write: hostile.
 */
#ifndef MODULES_JIT_H
#define MODULES_JIT_H

#include "modules/internal.h"

/* ---- code_list.c: ranges of code, of which later ones hide earlier ones -------------------- */

struct code_range {
	remote_addr start, end;
	remote_addr reach; /* the largest end of this one and all before it */
	uint64_t order;	   /* among several that hold an address the highest counts */
	uint64_t value;
};

struct code_list {
	struct code_range *ranges; /* by start, the first `sorted` of them */
	size_t count, capacity, sorted;
};

void code_list_release(struct code_list *list);
void code_list_clear(struct code_list *list);

/* Adds a range; one that is empty, or not of the lower half of the address space, is left out. */
void code_list_add(struct code_list *list, const struct code_range *range);

/* Puts what was added into its place; to be called before anything is looked for. */
void code_list_sort(struct code_list *list);

/* The range that counts at the address, cut to the part around it where none other does. */
bool code_list_find(const struct code_list *list, remote_addr address, struct code_range *found);

/* ---- jit_image.c: from a registered image to one like any other ---------------------------- */

enum {
	JIT_IMAGE_LIMIT = 16 << 20,
	JIT_BYTES_LIMIT = 128 << 20, /* of all images that are kept */
	JIT_IMAGE_SPANS = 8,	     /* executable sections */
};

struct jit_span {
	remote_addr start;
	uint64_t size;
};

struct jit_image {
	uint8_t *bytes; /* malloc'ed */
	size_t size;
	bool python; /* CPython's own: a part of its eval function */
};

/*
 * Where the code of the image at `address` is, by its headers alone; returns how many spans.
 * *hash tells it from another image at the same place.
 */
size_t jit_image_spans(const struct memory_reader *memory, remote_addr address, uint64_t size,
		       struct jit_span spans[JIT_IMAGE_SPANS], uint64_t *hash);

/*
 * Copies the image and makes it one that the rest of this program can read: addresses are those of
 * run time, relocations are applied, program headers lead to the code as the target has it.
 */
bool MUST_CHECK jit_image_link(const struct memory_reader *memory, remote_addr address,
			       uint64_t size, struct jit_image *image, struct error *error);

/* Unwind information of one function, as a section; bytes NULL: there is none. */
struct jit_table {
	remote_addr address;
	uint8_t *bytes; /* malloc'ed */
	size_t size;
};

/* What is known of a function that no image has. */
struct jit_function {
	remote_addr start;
	uint64_t size;
	const char *name; /* "": not known */
	struct jit_table table;
};

/* An image with this function and no more. */
void jit_image_of_function(const struct memory_reader *memory, const struct jit_function *function,
			   struct jit_image *image);

/* ---- symbol_scan.c: one symbol of a file, cheaply ------------------------------------------- */

/* The ELF address of a symbol that the module's own tables define; not of its debug file. Costs
 * little where there is none: the names are looked through, a piece at a time. */
bool symbol_scan(const struct module *module, const char *name, uint64_t *vaddr);

/* ---- jit_list.c: __jit_debug_descriptor ---------------------------------------------------- */

struct jit_entry {
	remote_addr at; /* struct jit_code_entry */
	remote_addr image;
	uint64_t size;
	struct jit_span spans[JIT_IMAGE_SPANS];
	size_t span_count;
	uint64_t hash;	       /* of its headers */
	struct module *module; /* once its code was met */
	uint64_t content;      /* then: hash of its contents */
	bool refused;	       /* no module can be made of it */
};

struct jit_descriptor {
	remote_addr at;
	uint64_t state[3]; /* as it was last */
	uint64_t first;	   /* then: hash of the first entry and its image */
};

enum { JIT_DESCRIPTORS = 16, JIT_ENTRIES = 16384 };

struct jit_list {
	struct jit_descriptor descriptors[JIT_DESCRIPTORS];
	size_t descriptor_count;
	struct jit_entry *entries;
	size_t count;
	struct code_list ranges; /* value: index of entries */
};

void jit_list_release(struct jit_list *list);

/* Looks for a descriptor in a module. */
void jit_list_find_descriptor(struct jit_list *list, const struct module *module);

/* True when a descriptor has changed since the list was read. */
bool jit_list_is_stale(const struct jit_list *list, const struct memory_reader *memory);

/*
 * Reads the list anew; what has not changed keeps its module. `thorough`: it is believed of no
 * entry that it is as it was. True: it has changed.
 */
bool jit_list_read(struct jit_list *list, const struct memory_reader *memory, bool thorough);

/* The module that was made of the entry's image; NULL: none could be. */
void jit_list_note_module(const struct memory_reader *memory, struct jit_entry *entry,
			  struct module *module);

/* ---- jit_frames.c: __register_frame --------------------------------------------------------- */

enum { JIT_LIBGCC_REGISTRIES = 8, JIT_FDE_LIMIT = 64 << 10 };

/* Zeroed at first. */
struct jit_frames {
	struct jit_span libgcc_registries[JIT_LIBGCC_REGISTRIES]; /* data of libgcc, where it keeps
								     what it was given */
	size_t libgcc_registry_count;
	uint64_t hash;		 /* of them */
	struct code_list ranges; /* value: address of the FDE */
};

void jit_frames_release(struct jit_frames *frames);

/* If the module is such a library, notes its data. */
void jit_frames_find_registry(struct jit_frames *frames, const struct module *module);

/* Reads all tables anew when the data has changed, or in any case. True: they have changed. */
bool jit_frames_read(struct jit_frames *frames, const struct memory_reader *memory, bool thorough);

/* Copies an FDE and its CIE; false: they are not there any more. */
bool jit_frames_copy(const struct memory_reader *memory, remote_addr fde, struct jit_table *table);

/* ---- perf_map.c: /tmp/perf-PID.map ---------------------------------------------------------- */

struct perf_map {
	int fd;			 /* -1: there is none */
	uint64_t inode, read_to; /* bytes */
	uint64_t lines;
	struct code_list ranges; /* value: offset of the line, and PERF_MAP_PYTHON */
};

enum { PERF_MAP_LIMIT = 64 << 20, PERF_MAP_LINES = 1 << 20, PERF_MAP_NAME = 1024 };

/* Of an entry that CPython wrote for one of its trampolines ("py::name:file"). */
#define PERF_MAP_PYTHON (UINT64_C(1) << 63)

void perf_map_init(struct perf_map *map);
void perf_map_release(struct perf_map *map);

/* Opens the map, if there is one that belongs to the target's user, and reads what is new in it.
 * True: there was something. */
bool perf_map_follow(struct perf_map *map, const struct target *target);

/* Reads what is new in an open file; perf_map_follow without a process. */
bool perf_map_read(struct perf_map *map);

/* "7f0040001000 2c name with spaces"; false: no such line. *name points into the text. */
bool perf_map_parse_line(const char *text, size_t size, struct code_range *range, size_t *name);

/* What the line of a range says, which may have been cut when it was found; false: the file has
 * changed. */
bool perf_map_name(const struct perf_map *map, uint64_t value, struct code_range *whole,
		   char name[PERF_MAP_NAME]);

/* ---- jit.c ---------------------------------------------------------------------------------- */

struct jit_code;
void jit_code_free(struct jit_code *jit); /* NULL accepted */

/* The part of the code made at run time that holds the address, with its module; NULL: nobody
 * tells of it. */
const struct mapping *jit_code_find(struct module_table *table, remote_addr address);

#endif
