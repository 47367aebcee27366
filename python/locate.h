/* SPDX-License-Identifier: MIT */
/* What finding an interpreter is made of: runtime.c uses version.c and locate.c. */
#ifndef PYTHON_LOCATE_H
#define PYTHON_LOCATE_H

#include "python/internal.h"

/* ---- version.c ---- */

struct python_version {
	unsigned major, minor, micro;
	uint32_t hex; /* 0: not known */
	bool free_threaded;
	char text[32]; /* "3.11.2" */
};

/*
 * `constant` is the place of Py_Version, if any; `runtime` the address of _PyRuntime, or 0. False
 * when nothing says: the text that versions before 3.11 keep is made while they start.
 */
bool MUST_CHECK python_version_find(const struct module *module, const struct memory_reader *memory,
				    const struct module_place *constant, remote_addr runtime,
				    struct python_version *version);

/* The same from the text alone that Py_GetVersion has put together in the module's memory. */
bool MUST_CHECK python_version_read(const struct module *module, const struct memory_reader *memory,
				    struct python_version *version);

/* ---- locate.c ---- */

enum python_symbol {
	SYMBOL_RUNTIME,
	SYMBOL_CODE_TYPE,
	SYMBOL_CURRENT,
	SYMBOL_VERSION,
	SYMBOL_HEAD_FUNCTION,
	SYMBOL_CURRENT_FUNCTION,
	SYMBOL_HEAD,
	SYMBOL_COLLECTING,
	SYMBOL_UCS4,
	SYMBOL_UCS2,
	SYMBOL_TRACE_REFS,
	SYMBOL_COUNT
};

/* A module that may be an interpreter, and the symbols that are needed of it. */
struct python_candidate {
	const struct module *module;
	struct module_place places[SYMBOL_COUNT];
	const struct module *data_module; /* the executable, when it took over variables */
	struct module_place data_places[SYMBOL_COUNT];
};

/* False: no interpreter's module. */
bool MUST_CHECK python_candidate_init(struct python_candidate *candidate,
				      const struct module *module);

/*
 * An executable that refers to variables of a library has copies of them (copy relocations), which
 * the library uses, too: they go before the candidate's own. NULL executable: nothing happens.
 */
void python_candidate_take_over(struct python_candidate *candidate,
				const struct module *executable);

/* The run-time address of a symbol; 0: not there. */
remote_addr python_candidate_address(const struct python_candidate *candidate,
				     enum python_symbol symbol);

/*
 * The run-time address of the variable that a small function returns, as PyInterpreterState_Head
 * does; `function` is its ELF address. With and without endbr64 and a frame pointer:
 *   mov interp_head(%rip),%rax; ret                               a variable
 *   mov _PyRuntime@GOTPCREL(%rip),%rax; mov 24(%rax),%rax; ret    a member, by the offset table
 * 0: the function does something else, or, as *error says (set on that alone), a read has failed.
 */
remote_addr python_returned_variable(const struct module *module, uint64_t function,
				     const struct memory_reader *memory, struct error *error);

/*
 * Fills in address, head, current, collecting, code_type and the eval function's code; the layout
 * must be there. ABSENT, or what a failed read says.
 */
bool MUST_CHECK python_locate(const struct python_candidate *candidate,
			      const struct memory_reader *memory, struct python_runtime *runtime,
			      struct error *error);

/*
 * Where the eval function, the collector and the function that acquires the lock of all imports
 * lie, with all the parts that compilers make of them: by their names, so that nothing is found of
 * what is stripped. Reads the module's symbol tables once.
 */
void python_locate_code(struct python_runtime *runtime);

/* ---- search.c ---- */

/* Whether the module has texts of an interpreter, or may have some that cannot be read now; reads
 * its file from one end to the other. */
bool python_search_is_worth(const struct module *module);

/*
 * Makes a candidate of a module that has no symbols. TORN: there may be an interpreter, but not
 * yet.
 */
bool MUST_CHECK python_candidate_search(struct python_candidate *candidate,
					const struct module *module,
					const struct memory_reader *memory, struct error *error);

#endif
