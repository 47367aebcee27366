/* SPDX-License-Identifier: MIT */
/*
 * What the files share that find the names a module states of itself: its image in memory as the
 * dynamic linker makes it, candidates ("this function is Point.norm") and the table they end in.
 * Everything here comes from files that may be hostile: every list, string and loop is bounded.
 */
#ifndef STRIPPED_INTERNAL_H
#define STRIPPED_INTERNAL_H

#include "base/table.h"
#include "elf/elf.h"
#include "names/names.h"
#include "stripped/stripped.h"

/* ---- what a module says of its functions: name_candidates.c ---------------------------------- */

enum {
	MAX_STEPS = 16 << 20, /* through arrays, in a module */
	MAX_CANDIDATES = 1 << 18,
	MAX_ENTRIES = 4096, /* of one array in a module */
};

struct name_candidate {
	uint64_t function;
	const char *module, *owner, *leaf; /* interned; owner: of the class, NULL: none */
	enum name_evidence evidence;
	bool from_slot; /* named after the slot, or the setter of a property */
};

struct name_candidates {
	struct interner *texts; /* lives as long as the candidates */
	struct name_candidate *items;
	size_t count, capacity;
	size_t steps;
	const char *module; /* as its definition has it; NULL: there is none */
	struct maker *makers;
	size_t maker_count, maker_capacity;
};

/* Makes objects that are called through a pointer which it puts into them. */
struct maker {
	const char *module, *owner; /* of the class; interned */
	uint64_t function;
};

/* Whether the one function, tp_new, sets a member of its object that the other one, tp_call, calls
 * through. */
bool maker_sets_what_is_called(const struct elf_image *image, uint64_t maker, uint64_t call);

void candidates_init(struct name_candidates *candidates);
void candidates_release(struct name_candidates *candidates);

/* Whose the functions of an array are. Texts are taken over into candidates->texts; NULL: not
 * known. */
struct owner {
	const char *module, *class;
};

/* Passes over what has no proper name, or is no function of the module. */
void candidates_add(struct name_candidates *candidates, const struct elf_image *image,
		    const struct owner *owner, const char *leaf, uint64_t function,
		    enum name_evidence evidence, bool from_slot);

/* Called for each entry of an array: honest modules never run out. False: stop. */
bool candidates_step(struct name_candidates *candidates);

/* By function; of one function: the surest first, then as they were added. */
void candidates_sort(struct name_candidates *candidates);

/* "re.Pattern" -> {"re", "Pattern"}, "list" -> {NULL, "list"}; false: not a dotted name. */
bool candidates_own(struct name_candidates *candidates, const char *dotted, struct owner *owner);

/* Letters, digits, '_' and all bytes above ASCII, not beginning with a digit; `dots`: several. */
bool is_identifier(const char *text, bool dots);

/* ---- arrays of the C interface: method_table.c, type_table.c, module_table.c --------------- */

/* PyMethodDef and PyGetSetDef. */
bool method_is(const struct elf_image *image, uint64_t place);
bool property_is(const struct elf_image *image, uint64_t place);
void methods_add_names(struct name_candidates *candidates, const struct elf_image *image,
		       uint64_t array, const struct owner *owner);
void properties_add_names(struct name_candidates *candidates, const struct elf_image *image,
			  uint64_t array, const struct owner *owner);

/* A static PyTypeObject (`name`: where its tp_name is), or a PyType_Spec: adds all that it
 * leads to. False: there is none. */
bool type_add_names(struct name_candidates *candidates, const struct elf_image *image,
		    uint64_t name);
bool spec_add_names(struct name_candidates *candidates, const struct elf_image *image,
		    uint64_t name);

/* The same for a PyModuleDef and its m_name. */
bool module_add_names(struct name_candidates *candidates, const struct elf_image *image,
		      uint64_t name);

/* ---- from candidates to a name for each function: function_names.c -----------------------------
 */

/* What is known of the function of one FDE. */
struct function_name {
	const char *name, *module; /* interned; name NULL: nothing is known */
	enum name_evidence evidence;
	int layer;
	bool uncertain, helper, slot;
	bool tail;     /* of one that only jumps to it: where it was reached through a pointer */
	bool by_maker; /* one may have several */
	bool bare;     /* without the module, and without the class perhaps */
};

/* One for each of image->functions. */
struct function_names {
	struct interner *texts;
	struct function_name *items;
	size_t count;
};

/* Fills in what the candidates say. */
void function_names_init(struct function_names *functions, const struct elf_image *image,
			 struct name_candidates *candidates);
void function_names_release(struct function_names *functions);

/* Names those without a name that makers put into objects as what they are called through:
 * "partial.__call__". */
void maker_names_add(struct function_names *functions, const struct elf_image *image,
		     const struct name_candidates *candidates);

/* Names those without a name that a named one jumps to. */
void tail_names_add(struct function_names *functions, const struct elf_image *image);

/* "outer.lambda" -> "outer.<lambda>", "__pyx_fuse_0axpy" -> "axpy[0]": a name in a module of
 * Cython's as its author wrote it; interned. */
const char *cython_shown_name(struct interner *texts, const char *name);

/* ---- what the code says: code_facts.c ---------------------------------------------------- */

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
	uint64_t callee;       /* called with it as its first argument; 0: not known */
	uint64_t arguments[3]; /* the second to the fourth one; 0: not known */
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

/* ---- what Cython's code says: exported_names.c, packed_exports.c, traceback_style.c,
 * traceback_names.c, ...  */

/* Adds the names of functions that the module exports for other modules of Cython's; the second one
 * those of which the names are packed, with what is known of the functions by then. */
void packed_exports_add(struct function_names *functions, const struct elf_image *image,
			const struct code_facts *facts);
void exported_names_add(struct function_names *functions, const struct elf_image *image,
			const struct code_facts *facts);

struct traceback_style {
	const char *prefix; /* "pkg.mod.", what most names begin with; interned; NULL: not known */
	size_t prefix_size;
	struct traceback_call call;
};

/* module: as its definition has it, NULL: not known. */
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
 * The line that the call before the return address `site` is on, in the function of that name,
 * and its file (NULL: not known); 0: not known. An estimate: see traceback_line.c.
 */
int traceback_line_find(const struct elf_image *image, const struct traceback_call *call,
			const char *name, uint64_t site, const char **file);

#endif
