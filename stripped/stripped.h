/* SPDX-License-Identifier: MIT */
/*
 * Names of functions in files without symbols: what an extension module, the interpreter or code
 * that Cython made says of its functions to Python itself.
 */
#ifndef STRIPPED_STRIPPED_H
#define STRIPPED_STRIPPED_H

#include "base/intern.h"
#include "base/types.h"
#include "elf/elf.h"

/* How a module without symbols has the name of a function; the surest first. */
enum name_evidence {
	EVIDENCE_METHOD,      /* an array of methods: PyMethodDef */
	EVIDENCE_PROPERTY,    /* an array of properties: PyGetSetDef */
	EVIDENCE_SLOT,	      /* a slot of a type: static, or PyType_Spec */
	EVIDENCE_MODULE_SLOT, /* Py_mod_exec */
	EVIDENCE_EXPORT,      /* what a module exports for others that Cython made: __pyx_capi__ */
	EVIDENCE_TRACEBACK,   /* what the function, made by Cython, writes into tracebacks */
};

/* A name from the tables that an extension module, or the interpreter, has for Python to read. */
struct recovered_name {
	const char *name; /* inside its module: "list.sort", "sqrt", "Infinity.__lt__"; interned */
	const char
		*module; /* as its definition has it: "math", "re"; NULL: builtins, or not known */
	uint64_t start, end; /* ELF addresses of the function, or of the part of it */
	enum name_evidence evidence;
	bool uncertain; /* shown with "?" */
	bool cython;	/* of a module that Cython made */
	bool helper;	/* Cython's own code: hidden */
	bool slot;	/* fills a slot of a type, and is no author's: "Point.tp_dealloc" */
	bool tail;	/* the function named so only jumps to this one, which others may call by
			   its own name: holds where this one was reached through a pointer */
	int layer;	/* as in struct cython_name: of two frames of one call the inner has more */
};

/* __Pyx_AddTraceback, as it is called; compilers leave out parameters that are always the same. */
struct traceback_call {
	uint64_t callee; /* 0: not known */
	uint64_t file;	 /* where file_register is X86_NO_REGISTER: the text of the only one */
	uint8_t line_register, file_register;
	uint8_t has_line; /* 0 or 1: no bool, as it is read from disk */
};

/* ---- the names: recovered_names.c ------------------------------------------------------------ */

/* One function, or a part of one. Numbers of texts: where they start in recovered_names.texts. */
struct recovered_entry {
	uint64_t start, end;
	uint32_t name, module; /* module: 0: not known */
	uint8_t evidence;
	uint8_t layer;
	uint8_t flags; /* enum recovered_flags */
	uint8_t padding[5];
};

enum recovered_flags {
	RECOVERED_UNCERTAIN = 1,
	RECOVERED_CYTHON = 2,
	RECOVERED_HELPER = 4,
	RECOVERED_SLOT = 8,
	RECOVERED_TAIL = 16,
	RECOVERED_ALL = 2 * RECOVERED_TAIL - 1, /* what is kept on disk has no others */
};

/* Plain numbers and bytes: what is kept on disk, too. */
struct recovered_names {
	struct recovered_entry *entries; /* by start, none overlap */
	size_t count;
	char *texts; /* each ended by NUL; the first one is empty */
	size_t texts_size;
	struct traceback_call call;
};

/* What the module says; no names where it says none. */
void recovered_names_build(struct recovered_names *names, Elf *elf);

/* The same, from the disk where it was built before. */
void recovered_names_load(struct recovered_names *names, Elf *elf);
void recovered_names_release(struct recovered_names *names);

struct recovered_line {
	const char *file; /* interned */
	int line;	  /* 0: not known */
};

/* The line of the call before the return address, in a function of names; an estimate. `code`:
 * loaded when first needed, by the caller to be released. */
void recovered_line_find(const struct recovered_names *names, struct interner *interner, Elf *elf,
			 struct elf_image *code, const struct recovered_name *recovered,
			 uint64_t address, struct recovered_line *line);

/* Visits all names, in the order of their addresses. */
void recovered_names_each(const struct recovered_names *names, struct interner *interner,
			  void (*visit)(void *context, const struct recovered_name *recovered),
			  void *context);

/* False: it has no name for the function that covers this address. */
bool recovered_names_find(const struct recovered_names *names, struct interner *interner,
			  uint64_t pc, struct recovered_name *recovered);

/* As bytes, without the build ID, and back; false: they make no sense. For one version of this
 * program, as captures are. */
struct strbuf;
void recovered_names_write(const struct recovered_names *names, struct strbuf *bytes);
bool recovered_names_read(struct recovered_names *names, const void *bytes, size_t size);

/* ---- names on disk: name_cache.c ---------------------------------------------------------- */

/* False: there are none for this build ID, or none that can be believed. */
bool name_cache_load(const struct build_id *id, struct recovered_names *names);

/* Nothing is kept of a module without a build ID, nor where there is no place for it. */
void name_cache_store(const struct build_id *id, const struct recovered_names *names);

#endif
