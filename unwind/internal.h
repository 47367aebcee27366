/* SPDX-License-Identifier: MIT */
/*
 * What the files of this folder share: the call frame information of one module (frame_index.c,
 * debug_frame.c, cfi.c), the rows made from it (row.c), what libunwind reads (space.c), stepping
 * over the copy (snapshot.c) and what is done where there is no information (guess.c, call_site.c).
 */
#ifndef UNWIND_INTERNAL_H
#define UNWIND_INTERNAL_H

#include <libunwind.h>

#include "base/cache_table.h"
#include "base/id_table.h"
#include "unwind/unwind.h"

/* ---- cfi.c: one section of CIEs and FDEs in .eh_frame's form ------------------------------- */

struct cfi_section {
	uint8_t *bytes;	   /* zero-padded to a multiple of 8; NULL: none */
	size_t size;	   /* without the padding */
	remote_addr start; /* where libunwind sees the bytes */
	/* Read from the file by pages as they are needed: of megabytes few are. NULL: all is there.
	 */
	uint8_t *loaded; /* one for each page */
	const struct module *module;
	uint64_t vaddr;
};

/* A section of the module's image, padded; its bytes are read when they are needed. */
void section_open(struct cfi_section *section, const struct module *module, uint64_t vaddr,
		  size_t size);
void section_close(struct cfi_section *section);

void section_load(const struct cfi_section *section, size_t at, size_t size);

/* Before these bytes, which lie within the section and its padding, are looked at. */
static inline void section_need(const struct cfi_section *section, size_t at, size_t size)
{
	if (section->loaded)
		section_load(section, at, size);
}

struct cfi_fde {
	size_t offset;		/* in the section */
	remote_addr start, end; /* the code it covers, at run time */
	size_t program, program_end;
	size_t cie_program, cie_program_end;
	bool signal_frame;
};

enum cfi_kind { CFI_END, CFI_FDE, CFI_OTHER };

/*
 * Reads the entry at `offset`. CFI_OTHER: a CIE, or an FDE that we do not understand; CFI_END: the
 * terminator, or no entry. *next is set unless CFI_END, and *fde for CFI_FDE.
 */
enum cfi_kind cfi_read(const struct cfi_section *section, size_t offset, struct cfi_fde *fde,
		       size_t *next);

/* Bytes that libunwind is to see as `first` and zeros: instructions it does not know. */
struct cfi_patch {
	size_t start, end; /* in the section */
	uint8_t first;
};

#define CFI_PATCH_LIMIT 64

struct cfi_verdict {
	bool expressions; /* the row reads the section when it is applied */
	size_t patch_count;
	struct cfi_patch patches[CFI_PATCH_LIMIT];
};

/*
 * True when libunwind may run this FDE, with the patches: its programs and expressions stay
 * inside, end, and do nothing that libunwind 1.6.2 does not survive.
 */
bool cfi_check(const struct cfi_section *section, const struct cfi_fde *fde,
	       struct cfi_verdict *verdict);

/* ---- frame_index.c, debug_frame.c --------------------------------------------------------- */

/* Finds the FDE that covers an ELF address, in .eh_frame, then in .debug_frame. */
bool frame_index_find(struct module *module, uint64_t vaddr, struct cfi_fde *fde,
		      const struct cfi_section **section);
void frame_index_free(void *index); /* a module's unwind_cache; NULL accepted */

/* Where the code without FDE begins that holds this ELF address: the end of the FDE before. */
uint64_t frame_index_gap(struct module *module, uint64_t vaddr);

/* No module's section is larger than this in memory. */
#define CFI_SECTION_LIMIT ((size_t)64 << 20)

/* Where .debug_frame is shown to libunwind: in the kernel's half, where no target has memory. */
#define DEBUG_FRAME_ADDRESS 0xffffc00000000000

/* The module's .debug_frame, decompressed, in .eh_frame's form; *section is zeroed without one. */
void debug_frame_load(const struct module *module, struct cfi_section *section);

/* ---- row.c: how to step from one PC ------------------------------------------------------- */

enum row_kind {
	ROW_FOUND,
	ROW_NO_INFO,  /* code, without unwind information */
	ROW_NOT_CODE, /* mapped, not executable */
	ROW_UNMAPPED,
	ROW_BAD, /* corrupt unwind information */
};

struct unwind_row {
	void *state;			   /* libunwind's register state, for ROW_FOUND */
	const struct cfi_section *section; /* read when applied (expressions), or NULL */
	remote_addr function;		   /* start of the FDE's code; 0: there is none */
	enum row_kind kind;
	bool signal_frame;
};

/* The addresses that a row of kind ROW_FOUND holds for. */
struct row_range {
	remote_addr start;
	uint32_t size, row;
};

/* The second key in unwinder->answers. */
enum answer_key {
	ANSWER_ROW,    /* row.c: index in rows, or ROW_LIMIT + enum row_kind */
	ANSWER_CALL,   /* call_site.c: the call before it, | the other module's id + 1 << 8 */
	ANSWER_TARGET, /* likewise: what it calls */
	ANSWER_JUMPS,  /* may this function jump to another? */
};

struct unwinder {
	struct module_table *modules;
	uint64_t generation; /* of the table that the rows were made from */
	unw_addr_space_t space;
	struct cache_table answers; /* (address, enum answer_key) */
	struct unwind_row *rows;
	size_t row_count;
	struct row_range *ranges; /* in order */
	size_t range_count;
	uint8_t *states; /* of those found, each once: of state_size bytes, which libunwind tells */
	struct id_table state_ids;
	uint32_t state_count;
	size_t state_size;
	const struct cfi_section *building; /* section of the row being made, or NULL */
	remote_addr building_fde;
	const struct cfi_verdict *building_verdict;

	const struct memory_reader *code; /* of the running target, or NULL */
	bool distrust_leaf;		  /* of the next walk */

	/* The walk under way. */
	struct registers registers;
	const struct memory_reader *memory;
	const struct cfi_section *section;	      /* of the row being applied, or NULL */
	bool unknown_register;			      /* an unknown register was read */
	bool missing_memory;			      /* the copy has no such bytes */
	size_t guess_walks, guess_steps, guess_words; /* left in this call */
	const remote_addr *anchors;		      /* which no guess steps over */
	size_t anchor_count;
	remote_addr
		next_anchor; /* of a trial: it is proved by the frame that this lies in; 0: none */
	uint64_t frame_pointer;	      /* RBP where it was last known; 0: nowhere */
	struct unwind_recall *recall; /* or NULL */
	remote_addr highest_read;     /* word of memory, with a recall */
	uint64_t walks;		      /* so far */
};

/* How to step from the instruction at this address (PC-1 for a return address). Never NULL; valid
 * until the next call. */
const struct unwind_row *row_find(struct unwinder *unwinder, remote_addr address);
void rows_flush(struct unwinder *unwinder);

/* ---- call_site.c: what a return address tells ---------------------------------------------- */

enum call_kind {
	CALL_NONE,    /* no call stands before it */
	CALL_UNKNOWN, /* a call by a register, by a variable */
	CALL_TO,      /* the function is known, past stubs */
	CALL_AWAY,    /* of a function that neither its module nor `other` defines */
};

/* What the call before this address calls. Functions that its own module does not define are
 * looked for in `other` (or NULL). *target is set for CALL_TO. */
enum call_kind call_site_find(struct unwinder *unwinder, const struct module *other,
			      remote_addr address, remote_addr *target);

/* May the function at this address, or what we do not know there, jump on to another one? */
bool call_target_jumps(struct unwinder *unwinder, remote_addr target);

/* True when the instructions from a function's entry on put its return address at `slot`, with
 * these registers at a PC further on in it. */
bool prologue_gives_slot(const struct module *module, remote_addr entry,
			 const struct registers *registers, remote_addr slot);

/* Up to `size` bytes of code: near a segment's end fewer. */
size_t code_read(const struct module *module, remote_addr address, uint8_t *bytes, size_t size);

/* ---- epilogue.c: nothing but an epilogue is left from the PC on ---------------------------- */

/* Where the return address is. */
bool epilogue_find_slot(const struct module *module, const struct registers *registers,
			remote_addr *slot);

/* From a frame whose code is in no file to its caller; false: no epilogue follows. */
bool epilogue_caller(const struct unwinder *unwinder, struct registers *registers, bool *exact);

enum { CODE_LIVE_BYTES = 64 };

/* Up to CODE_LIVE_BYTES of code in no file, as the target has it, or as it was copied when it was
 * met; returns how many. */
size_t code_read_live(const struct unwinder *unwinder, remote_addr address, uint8_t *bytes);

/* ---- closure.c: what C callbacks of libffi's go through ------------------------------------ */

/* From a frame in a closure's trampoline to its caller; false: it is in none. */
bool closure_caller(const struct unwinder *unwinder, struct registers *registers, bool *exact);

/* ---- recall.c: frames that are as they were in the last walk ------------------------------- */

/* Before a walk that begins with this SP. */
void recall_begin(struct unwinder *unwinder, remote_addr sp);

/* Adds what was outside of the frame added last, and is the same; false: nothing is known. */
bool recall_rest(struct unwinder *unwinder, struct unwind_stack *stack);

/* After the walk. */
void recall_learn(struct unwinder *unwinder, const struct unwind_stack *stack);

/* ---- space.c, snapshot.c, guess.c, stack.c ------------------------------------------------ */

/* An address space for libunwind whose argument is struct unwinder. */
unw_addr_space_t space_new(void);

/*
 * Walks outwards by unwind information and through code in no file that has but an epilogue.
 * `stack` NULL: a trial, counted against guess_steps. On UNWIND_END_NO_INFO *registers are those of
 * the frame that has none, which was added; so too for an exact PC that is no code
 * (UNWIND_END_UNMAPPED).
 */
enum unwind_end snapshot_walk(struct unwinder *unwinder, struct registers *registers, bool *exact,
			      struct unwind_stack *stack);

/* From a frame without information to its caller; false when nothing holds. */
bool guess_caller(struct unwinder *unwinder, struct registers *registers, bool *exact,
		  struct unwind_stack *stack, enum unwind_end why);

struct unwind_frame *unwind_stack_add(struct unwind_stack *stack);

/* Fills in the callee-saved registers as the cursor has them. */
void unwind_frame_save(struct unwind_frame *frame, unw_cursor_t *cursor);

#define UNWIND_FRAME_LIMIT 1000000

/* More signal frames than that in one stack mean a loop: they alone may lead to a lower SP. */
#define UNWIND_SIGNAL_LIMIT 256

#endif
