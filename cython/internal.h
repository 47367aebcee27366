/* SPDX-License-Identifier: MIT */
/* What the files of cython/ share: the grammar of scopes, punycode, one parsed C file. */
#ifndef CYTHON_INTERNAL_H
#define CYTHON_INTERNAL_H

#include <time.h>

#include "base/strbuf.h"
#include "base/table.h"
#include "base/types.h"
#include "cython/cython.h"

/* A part of a symbol: not NUL-terminated. */
struct piece {
	const char *text;
	size_t size;
};

enum {
	SYMBOL_LIMIT = 8192, /* longer ones are no names that a compiler wrote for a person */
	SCOPE_LIMIT = 64,    /* packages, module, classes and functions around one function */
	PUNYCODE_LIMIT = 2048,
};

/*
 * "3pkg_3mod_3Ext_12meth": the chain of scopes at the front. rests[d] is what follows after d
 * of them: a name may begin at each, so that rests[count] is only the deepest reading.
 */
struct scopes {
	struct piece names[SCOPE_LIMIT];
	struct piece rests[SCOPE_LIMIT + 1];
	size_t count;
	bool utility; /* the first one is a pseudo module as "View.MemoryView" */
};

void scopes_read(struct scopes *scopes, struct piece text);

/* How many of the first scopes are the extension module's dotted name (`module`: NULL accepted). */
size_t scopes_module_depth(const struct scopes *scopes, const char *module);

/* Which names can stand after the scopes; see scopes_choose. */
enum leaf_rule {
	LEAF_IMPLEMENTATION, /* pf: ordinal or none */
	LEAF_WRAPPER,	     /* pw: an ordinal, lambdas excepted */
	LEAF_GENERATOR,	     /* gb: ordinal, then "generator" and a number */
	LEAF_PLAIN,	     /* f, slots, properties: never an ordinal */
};

struct reading {
	size_t module_depth, depth; /* scopes [module_depth, depth) are shown */
	struct piece leaf;
	uint32_t ordinal;
};

/* The most probable of the readings of one name. False: the text has none. */
bool scopes_choose(const struct scopes *scopes, size_t module_depth, enum leaf_rule rule,
		   const struct cython_symbols *symbols, struct reading *reading);

/* The reading with that many scopes, right or not. False: there is no name at this place. */
bool scopes_reading_at(const struct scopes *scopes, size_t depth, enum leaf_rule rule,
		       struct reading *reading);

/* Calls `visit` with the position ("0" is the first) and type of each parameter that a C++ symbol
 * tells to be of a built-in type, as far as that is understood. */
void decoration_each_parameter(const char *symbol,
			       void (*visit)(void *context, const char *symbol,
					     const char *position, const char *type),
			       void *context);

/* Variables of specialisations, see fused.c; embedded in struct cython_symbols. */
struct fused {
	struct interner *interner;
	struct table by_base; /* -> index in families */
	struct family *families;
	size_t family_count, family_room;
	struct fused_variable *variables;
	size_t variable_count, variable_room;
};

void fused_init(struct fused *fused, struct interner *interner);
void fused_release(struct fused *fused);
void fused_add(struct fused *fused, const char *base, struct piece indices, const char *variable,
	       const char *type);
bool fused_label(const struct fused *fused, const char *base, struct piece indices,
		 struct strbuf *label);

/* The text of the first `depth` scopes: "3pkg_3mod_". */
struct piece scopes_front(const struct scopes *scopes, size_t depth);

/* What is behind "__pyx_" without all decorations; size 0: not a name of Cython's. *fused: the
 * specialisation that a prefix names, if there is one. */
struct piece symbol_core(const char *symbol, struct piece *fused, struct strbuf *decoded);

struct cython_symbols {
	struct interner *interner;
	struct table readings; /* (scopes and name, ordinal): there is one */
	struct table names;    /* (scopes, ordinal) -> the name's index */
	struct table lambdas;  /* "lambda7" -> the index of its wrapper */
	struct table wrappers; /* as readings, of specialisations -> the index of their numbers */
	struct fused fused;
	bool typed;	      /* see cython_symbols_show_types */
	const char **mangled; /* symbols of C++ */
	size_t mangled_count, mangled_room;
	struct found {
		const char *name;
		bool whole; /* nothing in the name looks like a scope */
	} * found;
	size_t found_count, found_room, symbol_count;
};

/* The key of a name in one of the tables. */
uint64_t symbols_identity(const struct cython_symbols *symbols, const char *family,
			  struct piece scopes, struct piece name);

/* Is the other half there of a wrapper or implementation that is read so? symbols: NULL accepted */
bool symbols_have_twin(const struct cython_symbols *symbols, enum leaf_rule rule,
		       struct piece front, const struct reading *reading);
/* The name that a generator body with these scopes and ordinal has. */
bool symbols_find_generator(const struct cython_symbols *symbols, const struct scopes *scopes,
			    const struct reading *reading, struct piece *name);
/*
 * Does a body belong to a specialisation? Its own name does not tell, but its wrapper's. *fused:
 * which one, only once the types are known: names alone do not depend on it.
 */
bool symbols_find_fused(const struct cython_symbols *symbols, struct piece front,
			const struct reading *reading, struct piece *fused);
/* Appends the types of a specialisation, "float, long". False: not known. */
bool symbols_fused_label(const struct cython_symbols *symbols, const char *base,
			 struct piece indices, struct strbuf *label);
/* The base and the specialisation of one function; false: it is none of a fused function. */
bool demangle_fused(const struct cython_symbols *symbols, const char *symbol, struct strbuf *base,
		    struct strbuf *indices);
/* The text behind "pw_" of the wrapper of "lambda7". */
bool symbols_find_lambda(const struct cython_symbols *symbols, struct piece leaf,
			 struct piece *wrapper);

struct piece piece_of(const char *text);
bool piece_equals(struct piece piece, const char *text);
bool piece_starts(struct piece piece, const char *prefix);
bool piece_ends(struct piece piece, const char *suffix);
bool piece_skip(struct piece *piece, const char *prefix); /* false: does not begin so */
struct piece piece_after(struct piece piece, size_t size);
/* Consumes a decimal number; false: no digit or more than 9 of them. */
bool piece_number(struct piece *piece, uint32_t *number);
/* "__repr__" */
bool piece_is_dunder(struct piece name);
/* Consumes "1_0" off the front of "1_0__pyx_pw_..." or "1_0name": one index per fused type. */
struct piece piece_indices(struct piece *text);

/* Appends the UTF-8 that the punycode stands for. False: not punycode; out is then unchanged. */
bool punycode_decode(const char *text, size_t size, char delimiter, struct strbuf *out);

/* The C name of a symbol: without suffixes and C++ mangling. Size 0: it has none, as methods. */
struct piece symbol_c_name(const char *symbol);

/*
 * The name of the function whose head is in that line, which begins in column 0; so do prototypes,
 * which end with ';'. Heads may go on over several lines, with #if between. Size 0: no head.
 */
struct piece c_head_name(struct piece line);

/* Whose code is in a C function? By its name's first word; the rest does not matter here. */
enum c_owner {
	OWNER_OTHER, /* Cython's own */
	OWNER_USER,  /* pf, pw, f, gb or a module body */
	OWNER_SLOT,  /* has lines only where it has markers of its own */
};
enum c_owner c_head_owner(struct piece name);

/* "struct __pyx_t_4cppk_MyCpp {": constructors and the destructor are written inside of it. */
bool c_head_is_class(struct piece line);

struct cython_sources {
	struct interner *interner;
	cython_open_file open_file;
	void *context;
	struct candidate *candidates;
	size_t candidate_count, candidate_room;
	struct request *requests;
	size_t request_count, request_room;
	struct table looked_for; /* (file, extension) -> index in paths, + 1; 0: not found */
	const char **paths;
	size_t path_count, path_room;
};

/* Where the author's file is, interned; NULL: not found. `file`: interned, as Cython names it. */
const char *source_path(struct cython_sources *sources, const struct cython_place *place,
			const char *file);

/* The part of a path up to its last '/'; size 0: none. */
struct piece path_folder(const char *path);
/* Without the last component: "/a/b/" gives "/a/". False: there is none above. */
bool path_parent(struct piece *folder);

/* One generated C file, reduced to where its lines come from. */
struct source_map;

/* NULL: not a file that Cython wrote, or too large, or not readable. The fd stays the caller's. */
struct source_map *source_map_read(struct interner *interner, int fd);
struct source_map *source_map_parse(struct interner *interner, const char *text, size_t size);
void source_map_free(struct source_map *map); /* NULL accepted */
int source_map_line_count(const struct source_map *map);
time_t source_map_modified(const struct source_map *map); /* 0: parsed from memory */
/*
 * Is that line within that function, whose name is in the line `declared` (0: not known)? If not,
 * the file is of another build. function.size 0: not known, any will do.
 */
bool source_map_fits(const struct source_map *map, struct piece function, int c_line, int declared);
bool source_map_find(const struct source_map *map, int c_line, struct cython_line *line);

#endif
