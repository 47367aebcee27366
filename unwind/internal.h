/* SPDX-License-Identifier: MIT */
/*
 * What the files of this folder share: the rows made from call frame information (row.c), what
 * libunwind reads (space.c), stepping over the copy (snapshot.c) and what is done where there is no
 * information (guess.c, call_site.c).
 */
#ifndef UNWIND_INTERNAL_H
#define UNWIND_INTERNAL_H

#include <libunwind.h>

#include "base/cache_table.h"
#include "base/id_table.h"
#include "cfi/cfi.h"
#include "elf/elf.h"
#include "unwind/unwind.h"
#include "x86/x86.h"

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
	bool moves_sp; /* somewhere in the function RSP is in another register: leap.c */
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
	ANSWER_LEAVES, /* ... or to a part of itself that is elsewhere? */
};

/* The rows made so far, and what they are made of: row.c. */
struct row_store {
	struct unwind_row *rows;
	size_t row_count;
	struct row_range *ranges; /* in order */
	size_t range_count;
	uint8_t *states; /* of those found, each once: of state_size bytes, as libunwind says */
	struct id_table state_ids;
	uint32_t state_count;
	size_t state_size;
};

struct unwinder {
	bool (*backend)(struct unwinder *unwinder, const struct unwind_request *request,
			struct unwind_stack *stack, struct error *error);
	struct module_table *modules; /* NULL: that of libunwind-ptrace, which needs no more */
	uint64_t generation;	      /* of the table that the rows were made from */
	unw_addr_space_t space;
	struct cache_table answers; /* (address, enum answer_key) */
	struct row_store store;
	const struct cfi_section *building; /* section of the row being made, or NULL */
	remote_addr building_fde;
	const struct cfi_verdict *building_verdict;

	struct analysis *analysis; /* analysed.c: what is known of code; NULL: none yet */

	/* The walk under way. */
	struct unwind_request request;
	struct registers registers;	   /* where it is */
	const struct cfi_section *section; /* of the row being applied, or NULL */
	int unknown_register;		   /* that was read; -1: none */
	bool scanning;			   /* for such a register: see unknown_register.c */
	bool missing_memory;		   /* the copy has no such bytes */
	size_t unread;			   /* reads that failed, of a stack, of code in no file */
	size_t guess_walks, guess_steps, guess_words; /* left in this call */
	unsigned moves_back; /* to a lower stack pointer, by what code says; left in this call */
	remote_addr
		next_anchor; /* of a trial: it is proved by the frame that this lies in; 0: none */
	uint64_t frame_pointer;	  /* RBP where it was last known; 0: nowhere */
	remote_addr highest_read; /* word of memory, with a walk cache */
	uint64_t walks;		  /* so far */
};

/* How to step from the instruction at this address (PC-1 for a return address). Never NULL; valid
 * until the next call. */
const struct unwind_row *row_find(struct unwinder *unwinder, remote_addr address);
void rows_flush(struct unwinder *unwinder);

/* ---- call_site.c: what a return address says ---------------------------------------------- */

enum call_kind {
	CALL_NONE,    /* no call precedes it */
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

/* The call before this address is of another function than that, which does not jump on. */
bool call_contradicts(struct unwinder *unwinder, remote_addr address, remote_addr function);

/* Up to `size` bytes of code: near a segment's end fewer. */
size_t code_read(const struct module *module, remote_addr address, uint8_t *bytes, size_t size);

enum { CODE_LIVE_BYTES = 64 };

/* Up to CODE_LIVE_BYTES of code in no file, as the target has it, or as it was copied when it was
 * met; returns how many. */
size_t code_read_live(const struct unwinder *unwinder, remote_addr address, uint8_t *bytes);

/* ---- analysed.c, entries.c: code without information, by what it does ----------------------- */

struct code_bounds {
	remote_addr start, end;
};

/* Where the function that holds an address may begin. */
struct code_entry {
	remote_addr address;
	struct code_bounds bounds; /* which it does not leave */
	bool proven;		   /* by a symbol, the end of the information before it ... */
	bool only;		   /* there can be no other */
	bool stub;		   /* of a PLT */
	bool sizeless;		   /* a symbol that does not say what it covers */
};

enum { CODE_ENTRIES = 24 };
struct code_entries {
	struct code_entry items[CODE_ENTRIES]; /* best first */
	size_t count;
	struct code_bounds around; /* the code that may follow it */
};

struct entry_source {
	const struct memory_reader *reader;
	struct x86_sweeps *sweeps;
};

void entries_find(const struct mapping *mapping, const struct entry_source *code, remote_addr site,
		  struct code_entries *entries);

struct analysed {
	struct registers caller;
	remote_addr entry; /* of the function; 0: not known */
	bool proven;
	bool only; /* symbols with a size, or unwind information, say the same of the entry */
};

/* False: the code does not say, or the stack has no return address where it says. */
bool analysed_caller(struct unwinder *unwinder, const struct registers *registers, bool exact,
		     struct analysed *result);

/* The same of a function that is known to begin there: it is called. */
bool analysed_from(struct unwinder *unwinder, const struct registers *registers, bool exact,
		   remote_addr entry, struct analysed *result);

/* By what follows up to a return before `end` alone, whatever the return address is. */
bool analysed_return(struct unwinder *unwinder, const struct registers *registers, bool exact,
		     remote_addr end, struct analysed *result);

/*
 * What a register that is not known holds in the function, as its code says; by RSP and registers
 * that calls leave alone. *frame: an address of the function's own part of the stack, also where it
 * is not found.
 */
bool analysed_register(struct unwinder *unwinder, const struct registers *registers, bool exact,
		       const struct code_bounds *function, int number, uint64_t *value,
		       bool *frame);

/* A call is before the address that may have led to the function. *calls_entry: it is of it. */
bool analysed_may_call(struct unwinder *unwinder, const struct registers *registers, bool exact,
		       const struct code_bounds *function, remote_addr address, bool *calls_entry);

void analysis_flush(struct unwinder *unwinder);
void analysis_free(struct unwinder *unwinder);

/* A call ends at this address, in code of no file. */
bool live_call_before(const struct unwinder *unwinder, remote_addr address);

/* ---- landings.c: where exceptions land ----------------------------------------------------- */

struct landings {
	struct elf_landings sites;
	struct cfi_arguments arguments[CFI_ARGUMENTS_LIMIT];
	size_t argument_count;
};

/* Of the entry's function; `image` reads at run-time addresses. Without any it is an empty list. */
void landings_read(struct landings *landings, const struct memory_reader *image,
		   const struct cfi_section *section, const struct cfi_fde *fde);
void landings_release(struct landings *landings);

/* For struct x86_code, of which the list is the context. */
bool landings_find(void *context, remote_addr after, struct x86_landing *landing);

/* ---- epilogue.c: code in no file that only calls another function --------------------------- */

/* From a frame whose code is in no file to its caller; false: no epilogue follows. */
bool epilogue_caller(struct unwinder *unwinder, struct registers *registers, bool *exact);

/* ---- closure.c: what C callbacks of libffi's go through ------------------------------------ */

/* From a frame in a closure's trampoline to its caller; false: it is in none. */
bool closure_caller(const struct unwinder *unwinder, struct registers *registers, bool *exact);

/* ---- leap.c: longjmp ----------------------------------------------------------------------- */

/* From an exact PC in longjmp, where it has its target's registers, to that; false: not there. */
bool leap_target(struct unwinder *unwinder, struct registers *registers);

/* ---- step.c: one frame by its row ------------------------------------------------------------ */

/* Where a walk is: the registers that libunwind's cursor has, and what the public API hides. */
struct walk_position {
	unw_cursor_t cursor;
	remote_addr pc, sp;
	bool exact;
	unsigned signal_frames;
};

bool position_set(struct unwinder *unwinder, const struct registers *registers,
		  struct walk_position *at);

/* The cursor's registers, for a start from here by other means. */
void position_registers(struct walk_position *at, struct registers *registers);

/* UNWIND_END_LIMIT stands for "go on". */
enum unwind_end position_step(struct unwinder *unwinder, const struct unwind_row *row,
			      struct walk_position *at);

/* One step by a row from these registers alone, to all that is known in the caller. */
bool step_alone(struct unwinder *unwinder, const struct unwind_row *row,
		const struct registers *registers, struct registers *caller);

/* ---- unknown_register.c: what a blocked thread does not report ------------------------------- */

/* Does a walk from these registers, which are a caller's, lead anywhere? */
typedef bool walk_trial(struct unwinder *unwinder, const struct registers *caller);

/*
 * Adds to the registers of a frame the one that a step from it has missed (unknown_register).
 * *proven: no other can be it. False: it is not found. Rows are not valid any more.
 */
bool unknown_register_find(struct unwinder *unwinder, struct registers *registers, bool exact,
			   bool trial, walk_trial *goes_on, bool *proven);

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

/* The PC is in a sigreturn trampoline that has no unwind information. */
bool is_signal_frame(struct unwinder *unwinder, const struct registers *registers);

/* From a frame without information to its caller; false when nothing holds. */
bool guess_caller(struct unwinder *unwinder, struct registers *registers, bool *exact,
		  struct unwind_stack *stack, enum unwind_end why);

struct unwind_frame *unwind_stack_add(struct unwind_stack *stack);

/* Fills in the callee-saved registers as the cursor has them. */
void unwind_frame_save(struct unwind_frame *frame, unw_cursor_t *cursor);

#define UNWIND_FRAME_LIMIT 1000000

/* More signal frames than that in one stack mean a loop: they alone may lead to a lower SP. */
#define UNWIND_SIGNAL_LIMIT 256

/* The same of code that has the stack pointer elsewhere. */
#define UNWIND_MOVES_BACK_LIMIT 16

#endif
