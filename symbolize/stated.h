/* SPDX-License-Identifier: MIT */
/*
 * What the files share that find the names a module states of itself: its image in memory as the
 * dynamic linker makes it, claims ("this function is Point.norm") and the table they end in.
 * Everything here comes from files that may be hostile: every list, string and loop is bounded.
 */
#ifndef SYMBOLIZE_STATED_H
#define SYMBOLIZE_STATED_H

#include "base/table.h"
#include "symbolize/internal.h"

/* ---- the module in memory: elf_image.c ---------------------------------------------------- */

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
	uint64_t start, end; /* of the bytes that stand in the file */
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

/* The same where it is a pointer to something, be it IMAGE_EXTERNAL; 0: it is none. */
uint64_t image_pointer(const struct elf_image *image, uint64_t address);

/* True for NULL, another module's symbol, and a pointer to anywhere in the module. */
bool image_is_reference(const struct elf_image *image, uint64_t place);

/* Bytes of the file from the address on, and how many there are; NULL: none. */
const uint8_t *image_bytes(const struct elf_image *image, uint64_t address, size_t *size);

/* The text that starts there, ended by NUL within IMAGE_TEXT bytes; NULL: none, or an empty one. */
const char *image_text(const struct elf_image *image, uint64_t address);

/* The name of the other module's function that the code there only jumps to; NULL: other code. */
const char *image_import_at(const struct elf_image *image, uint64_t address);

/* Where a function starts, by its FDE. */
bool image_is_function(const struct elf_image *image, uint64_t address);

/* The same, or NULL, or a function of another module: what stands in a table of functions. */
bool image_is_function_slot(const struct elf_image *image, uint64_t address);

/*
 * Does a static object's reference count stand before the pointer to its type? It is 1, or so large
 * that it stands for ever, with flags above bit 48 (3.14). Free-threaded builds have it in two
 * halves: the thread's own, all ones, and 0.
 */
bool image_is_object(const struct elf_image *image, uint64_t type);

/* Calls visit with the place of each pointer to a text, in ascending order. */
void image_each_text(const struct elf_image *image,
		     void (*visit)(void *context, uint64_t place, const char *text), void *context);

/* ---- what a module says of its functions: stated_claims.c ---------------------------------- */

enum {
	MAX_STEPS = 16 << 20, /* through arrays, in a module */
	MAX_CLAIMS = 1 << 18,
	MAX_ENTRIES = 4096, /* of one array in a module */
};

struct claim {
	uint64_t function;
	const char *module, *owner, *leaf; /* interned; owner: of the class, NULL: none */
	enum symbolize_evidence evidence;
	bool made; /* named after the slot, or the setter of a property */
};

struct claims {
	struct interner *texts; /* lives as long as the claims */
	struct claim *items;
	size_t count, capacity;
	size_t steps;
	const char *module; /* as its definition has it; NULL: there is none */
};

void claims_init(struct claims *claims);
void claims_release(struct claims *claims);

/* Whose the functions of an array are. Texts are taken over into claims->texts; NULL: not told. */
struct owner {
	const char *module, *class;
};

/* Passes over what has no proper name, or is no function of the module. */
void claims_add(struct claims *claims, const struct elf_image *image, const struct owner *owner,
		const char *leaf, uint64_t function, enum symbolize_evidence evidence, bool made);

/* Called for each entry of an array: honest modules never run out. False: stop. */
bool claims_step(struct claims *claims);

/* By function; of one function: the surest first, then as they were added. */
void claims_sort(struct claims *claims);

/* "re.Pattern" -> {"re", "Pattern"}, "list" -> {NULL, "list"}; false: not a dotted name. */
bool claims_own(struct claims *claims, const char *dotted, struct owner *owner);

/* Letters, digits, '_' and all bytes above ASCII, not beginning with a digit; `dots`: several. */
bool is_identifier(const char *text, bool dots);

/* ---- arrays of the C interface: method_table.c, type_table.c, module_table.c --------------- */

/* PyMethodDef and PyGetSetDef. */
bool method_is(const struct elf_image *image, uint64_t place);
bool property_is(const struct elf_image *image, uint64_t place);
void methods_claim(struct claims *claims, const struct elf_image *image, uint64_t array,
		   const struct owner *owner);
void properties_claim(struct claims *claims, const struct elf_image *image, uint64_t array,
		      const struct owner *owner);

/* A static PyTypeObject (`name`: where its tp_name stands), or a PyType_Spec: claims all that it
 * leads to. False: there is none. */
bool type_claim(struct claims *claims, const struct elf_image *image, uint64_t name);
bool spec_claim(struct claims *claims, const struct elf_image *image, uint64_t name);

/* The same for a PyModuleDef and its m_name. */
bool module_claim(struct claims *claims, const struct elf_image *image, uint64_t name);

/* ---- from claims to a name for each function: function_names.c ----------------------------- */

/* What is known of the function of one FDE. */
struct function_name {
	const char *name, *module; /* interned; name NULL: nothing is known */
	enum symbolize_evidence evidence;
	int layer;
	bool uncertain, helper, slot;
	bool bare; /* without the module, and without the class perhaps */
};

/* One for each of image->functions. */
struct function_names {
	struct interner *texts;
	struct function_name *items;
	size_t count;
};

/* Fills in what the claims say. */
void function_names_init(struct function_names *functions, const struct elf_image *image,
			 struct claims *claims);
void function_names_release(struct function_names *functions);

/* "outer.lambda" -> "outer.<lambda>", "__pyx_fuse_0axpy" -> "axpy[0]": a name in a module of
 * Cython's as its author wrote it; interned. */
const char *cython_shown_name(struct interner *texts, const char *name);

/* ---- what the code tells: code_facts.c ---------------------------------------------------- */

enum code_link {
	LINK_CALL,
	LINK_REFERENCE, /* the function's address is taken */
	LINK_BRANCH,	/* under a condition, or into the middle */
	LINK_JUMP,	/* to the start */
	LINK_PARALLEL,	/* OpenMP's runtime library is told to run it */
};

/* From one function to another; numbers are those of image->functions. */
struct code_edge {
	uint32_t from, to;
	enum code_link link;
};

/* A function uses a text that looks like a dotted name. */
struct text_use {
	uint32_t function;
	uint64_t text;
	uint64_t callee;       /* called with it as its first argument; 0: not told */
	uint64_t arguments[3]; /* the second to the fourth one; 0: not told */
};

/* A function makes a bytes object of that size, to be filled in. */
struct text_room {
	uint32_t function;
	uint64_t size;
};

enum { MAX_ROOMS = 16 };

struct code_facts {
	struct code_edge *edges;
	size_t edge_count, edge_capacity;
	struct text_use *uses;
	size_t use_count, use_capacity;
	struct text_room rooms[MAX_ROOMS];
	size_t room_count;
	size_t steps;
};

/* Reads all code of the image once. */
void code_facts_read(struct code_facts *facts, const struct elf_image *image);
void code_facts_release(struct code_facts *facts);

/* ---- parts: split_functions.c -------------------------------------------------------------- */

/*
 * For each function the number of the one that it is a part of (compilers move code that is not
 * likely to be executed away from the rest), or its own. Freed by the caller.
 */
uint32_t *split_functions_find(const struct elf_image *image, const struct code_facts *facts,
			       const struct function_names *functions);

/* ---- what Cython's code tells: exported_names.c, packed_exports.c, traceback_style.c,
 * traceback_names.c, ...  */

/* Adds the names of functions that the module exports for other modules of Cython's; the second one
 * those of which the names are packed, with what is known of the functions by then. */
void packed_exports_add(struct function_names *functions, const struct elf_image *image,
			const struct code_facts *facts);
void exported_names_add(struct function_names *functions, const struct elf_image *image,
			const struct code_facts *facts);

/* __Pyx_AddTraceback, as it is called; compilers leave out parameters that are always the same. */
struct traceback_call {
	uint64_t callee; /* 0: not known */
	uint64_t file;	 /* where file_register is REGISTER_NONE: the text of the only one */
	uint8_t line_register, file_register;
	uint8_t has_line; /* 0 or 1: no bool, as it is read from disk */
};

struct traceback_style {
	const char *prefix; /* "pkg.mod.", what most names begin with; interned; NULL: not known */
	size_t prefix_size;
	struct traceback_call call;
};

/* module: as its definition has it, NULL: not told. */
void traceback_style_find(struct traceback_style *style, const struct elf_image *image,
			  const struct code_facts *facts, struct interner *texts,
			  const char *module);
bool traceback_has_prefix(const struct traceback_style *style, const char *text);

/* "pkg/mod.pyx" */
bool traceback_is_file(const char *text);

/*
 * Adds the names that functions put into tracebacks, and qualifies those of their wrappers.
 * `wholes`: of split_functions_find.
 */
void traceback_names_add(struct function_names *functions, const struct elf_image *image,
			 const struct code_facts *facts, const uint32_t *wholes,
			 const struct traceback_style *style);

/*
 * The line that the call before the return address `site` stands on, in the function of that name,
 * and its file (NULL: not told); 0: not known. An estimate: see traceback_line.c.
 */
int traceback_line_find(const struct elf_image *image, const struct traceback_call *call,
			const char *name, uint64_t site, const char **file);

/* ---- the names: stated_names.c ------------------------------------------------------------ */

/* One function, or a part of one. Numbers of texts: where they start in stated_names.texts. */
struct stated_entry {
	uint64_t start, end;
	uint32_t name, module; /* module: 0: not told */
	uint8_t evidence;
	uint8_t layer;
	uint8_t flags; /* enum stated_flags */
	uint8_t padding[5];
};

enum stated_flags {
	STATED_UNCERTAIN = 1,
	STATED_CYTHON = 2,
	STATED_HELPER = 4,
	STATED_SLOT = 8,
};

/* Plain numbers and bytes: what is kept on disk, too. */
struct stated_names {
	struct stated_entry *entries; /* by start, none overlap */
	size_t count;
	char *texts; /* each ended by NUL; the first one is empty */
	size_t texts_size;
	struct traceback_call call;
};

/* What the module says; no names where it says none. */
void stated_names_build(struct stated_names *names, Elf *elf);

/* The same, from the disk where it was built before. */
void stated_names_load(struct stated_names *names, Elf *elf);
void stated_names_release(struct stated_names *names);

struct stated_line {
	const char *file; /* interned */
	int line;	  /* 0: not known */
};

/* The line of the call before the return address, in a function of names; an estimate. `code`:
 * loaded when first needed, by the caller to be released. */
void stated_line_find(const struct stated_names *names, struct interner *interner, Elf *elf,
		      struct elf_image *code, const struct symbolize_stated *stated,
		      uint64_t address, struct stated_line *line);

/* Visits all names, in the order of their addresses. */
void stated_names_each(const struct stated_names *names, struct interner *interner,
		       void (*visit)(void *context, const struct symbolize_stated *stated),
		       void *context);

/* False: it has no name for the function that covers this address. */
bool stated_names_find(const struct stated_names *names, struct interner *interner, uint64_t pc,
		       struct symbolize_stated *stated);

/* ---- names to be asked for later: stated_ahead.c ------------------------------------------ */

/* Loads the names of a module in a thread of its own. NULL: nothing comes of it. */
struct stated_ahead *stated_ahead_start(const struct symbolize_module *module);

/* Waits for them and hands them over, once; false: they are of another module, or were taken. */
bool stated_ahead_take(struct stated_ahead *ahead /* NULL accepted */, const char *path,
		       const struct build_id *id, struct stated_names *names);
void stated_ahead_free(struct stated_ahead *ahead); /* waits, too; NULL accepted */

/* ---- names on disk: name_cache.c ---------------------------------------------------------- */

/* False: there are none for this build ID, or none that can be believed. */
bool name_cache_load(const struct build_id *id, struct stated_names *names);

/* Nothing is kept of a module without a build ID, nor where there is no place for it. */
void name_cache_store(const struct build_id *id, const struct stated_names *names);

#endif
