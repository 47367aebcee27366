/* SPDX-License-Identifier: MIT */
/*
 * Frames as they are sampled, each distinct one once, and what is shown of them: names, lines,
 * kinds, short paths.
 */
#ifndef FRAMES_FRAMES_H
#define FRAMES_FRAMES_H

#include "base/id_table.h"
#include "base/intern.h"
#include "profile/profile.h"
#include "python/python.h"
#include "modules/module.h"
#include "unwind/unwind.h"

struct symbolize_fetch;
struct symbol_folder;

/* ---- frame_table.c: raw frames, named later ---------------------------------------------------
 */

enum raw_frame_kind { RAW_NATIVE, RAW_PYTHON, RAW_MARK, RAW_KERNEL };

/* One distinct frame as sampled: a code address of a module, or a line (`exact`: an instruction) of
 * a code object. */
struct raw_frame {
	enum raw_frame_kind kind : 8;
	bool exact : 1, guessed : 1, interpreter : 1, hidden : 1;
	bool undecided : 1;  /* hidden if no program can name the function */
	bool idle : 1;	     /* the leaf of a thread that was blocked */
	bool analysed : 1;   /* no FDE gives `function` again */
	bool certain : 1;    /* `function` */
	bool made : 1;	     /* code that no file has */
	bool by_pointer : 1; /* `undecided`: its function was called through a pointer */
	int32_t instruction; /* RAW_PYTHON, `exact`: tells frames apart in place of the line */
	union {
		struct {		       /* RAW_NATIVE */
			struct module *module; /* NULL: a PC in no module */
			uint64_t offset;       /* ELF address in the module; of code made at run
						  time: its caller's number, and 1; 0: none */
			/* Where the unwinder says that the function begins; 0: it does not. Belongs
			 * to the offset, tells no frames apart: what it says when nothing had been
			 * unreadable (`certain`) counts more. */
			uint64_t function;
		};
		struct { /* RAW_PYTHON */
			const struct python_code *code;
			struct python_position position; /* beyond the line only where `exact` */
		};
		/* RAW_MARK: "<gc>", "<gil wait>", a thread's root frame; RAW_KERNEL: a function of
		 * the kernel. Shown may change; both are interned. */
		struct {
			const char *mark, *shown;
		};
	};
};

struct frame_table {
	struct raw_frame *frames;
	size_t count, capacity;
	struct id_table ids;
};

void frame_table_release(struct frame_table *table);
uint32_t frame_table_native(struct frame_table *table, const struct raw_frame *frame);
uint32_t frame_table_python(struct frame_table *table, const struct raw_frame *frame);
uint32_t frame_table_mark(struct frame_table *table, const char *mark /* interned */);
uint32_t frame_table_kernel(struct frame_table *table, const char *function /* interned */);

/* ---- thread_roots.c ------------------------------------------------------------------------- */

/* One thread's; names are interned. */
struct thread_root {
	uint32_t frame;
	pid_t tid;
	const char *name;
	uint32_t process; /* whose it is: what is shared is so among those of one */
};

/* All zero at first. */
struct thread_roots {
	struct thread_root *roots;
	size_t count, capacity;
};

#define NO_ROOT SIZE_MAX

void thread_roots_release(struct thread_roots *roots);

/* The root frame of a thread with that name from now on; *index: its number, NO_ROOT at first. */
uint32_t thread_roots_name(struct thread_roots *roots, struct frame_table *frames,
			   struct interner *strings, size_t *index, pid_t tid, const char *name);

/* Sets what is shown of each. */
void thread_roots_show(const struct thread_roots *roots, struct frame_table *frames,
		       struct interner *strings, enum root_choice choice);

/* ---- leaves.c: stacks that end at a native code address ----------------------------------------
 */

#define NO_LEAF UINT64_MAX /* the key of none */

/* A sequence of them. */
struct leaf_run {
	struct fresh_leaf *fresh; /* in no order, perhaps some more than once */
	size_t fresh_count, fresh_capacity;
	struct leaf_block *blocks; /* the others, in order */
	size_t block_count;	   /* how many those are */
};

/* All zero at first. */
enum { LEAF_RUNS = 32 };
struct leaves {
	struct leaf_run runs[LEAF_RUNS];
};

/* The frame as a key of 60 bits; false: it is none that can be kept so. */
bool leaf_pack(const struct raw_frame *frame, uint64_t *key);

/* Counts a stack: that of the node, and the key's frame inside of it. */
void leaves_add(struct leaves *leaves, uint32_t parent, uint64_t key, uint64_t samples);

/* Brings all of them to the tree whose nodes they belong to; none is left. Modules: those whose
 * frames were packed. */
void leaves_settle(struct leaves *leaves, struct frame_table *frames,
		   const struct module_table *modules, struct profile *tree);
void leaves_release(struct leaves *leaves);

/* Bytes of memory. */
size_t leaves_footprint(const struct leaves *leaves);

/* ---- c_functions.c: what of the interpreter a program can name --------------------------------
 */

struct c_functions;

/* `target`: in whose file system modules are opened; NULL: in ours. */
struct c_functions *c_functions_new(const struct target *target, struct interner *strings);
void c_functions_free(struct c_functions *functions); /* NULL accepted */

/* Whether the function that covers an ELF address of the interpreter's module is shown, where it
 * returns to `site` (0: elsewhere). The first look reads the module's tables: some milliseconds. */
bool c_functions_hold(struct c_functions *functions, const struct module *module, uint64_t address,
		      uint64_t site);

/* Whether the call before this return address goes through a pointer. */
bool c_functions_by_pointer(struct c_functions *functions, const struct module *module,
			    uint64_t site);

/* ---- stated.c --------------------------------------------------------------------------------
 */

/* Keeps in the record of each module that was used what its tables state of its functions. */
void stated_names_note(const struct module_table *modules, const struct target *target,
		       struct interner *strings);

/* ---- resolve.c: names and lines -------------------------------------------------------------- */

struct resolver;

/* `target` (NULL in replay) opens sources and debug files in the target's root. */
struct resolver *resolver_new(const struct target *target, struct interner *strings,
			      bool internals);
void resolver_free(struct resolver *resolver);

/* From now on no debug file names a module whose own file is not here. */
void resolver_hide_files(struct resolver *resolver);

/* From now on debug files are looked for there, too; NULL: nothing changes. Lives as long. */
void resolver_set_symbols(struct resolver *resolver, const struct symbol_folder *symbols);

/* From now on debug files are fetched from servers; NULL: nothing changes. */
void resolver_set_fetch(struct resolver *resolver, const struct symbolize_fetch *fetch);

/* Begins to read what the module, the interpreter's, says of its functions: its frames are named
 * last. */
void resolver_read_ahead(struct resolver *resolver, const struct module *module);

/* Names every raw frame of the table, module by module. */
void resolver_run(struct resolver *resolver, struct frame_table *table);

/* One line about debug information that could not be used so far, interned; NULL: there is none. */
const char *resolver_problems(const struct resolver *resolver);

/* Appends the display frames of one stack of raw ids (outermost first), outermost first, inlined
 * levels expanded, hidden ones left out, Cython wrapper and body as one. */
void resolver_stack(struct resolver *resolver, const struct frame_table *table, const uint32_t *ids,
		    size_t count, struct frame **frames, size_t *frame_count,
		    size_t *frame_capacity);

/* Counts every stack of a tree of raw ids as one of display frames; its timeline comes along. */
void resolver_profile(struct resolver *resolver, const struct frame_table *table,
		      const struct profile *raw, struct profile *profile);

#endif
