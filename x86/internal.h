/* SPDX-License-Identifier: MIT */
/*
 * What the files of this folder share: the code's bytes (code.c), what is known at an instruction
 * (state.c), and the blocks of a function (function.c).
 */
#ifndef X86_INTERNAL_H
#define X86_INTERNAL_H

#include "x86/x86.h"

/* ---- code.c: bytes by pages ---------------------------------------------------------------- */

enum { CODE_PAGE = 1024, CODE_PAGES = 1024 };

struct code_page {
	uint64_t address;
	size_t size; /* readable from its start; 0: none */
	uint8_t bytes[CODE_PAGE];
	uint32_t ids[CODE_PAGE]; /* of the instructions that begin there, and 1; 0: not decoded */
};

/* Of one function at a time: no more than CODE_PAGES are read. */
struct code_pages {
	const struct x86_code *code;
	struct code_page **pages;
	size_t count, capacity, last;
	struct x86_instruction *instructions; /* each once */
	size_t instruction_capacity;
	uint64_t lowest, highest; /* of the instructions decoded */
	size_t decoded;
};

void code_pages_init(struct code_pages *pages, const struct x86_code *code);
void code_pages_release(struct code_pages *pages);

/* The instruction there; false: none, or it is beyond the code. Each is decoded once. */
bool code_pages_decode(struct code_pages *pages, uint64_t address,
		       struct x86_instruction *instruction);

/* A number of a jump table, which may be anywhere that the reader reads. */
bool code_read_i32(const struct x86_code *code, uint64_t address, int32_t *value);

/* ---- state.c: what is known at an instruction --------------------------------------------- */

/*
 * A pointer is its base and an offset. Bases are the CFA, what a register held at first, and what
 * the stack pointer became where that is nothing that is known: where it was aligned, or moved by
 * a variable, or where two ways meet with different ones.
 */
enum { BASE_CFA = X86_REGISTERS, BASE_MOVED, BASE_LIMIT = BASE_MOVED + 24 };

enum value_kind {
	VALUE_UNKNOWN,
	VALUE_POINTER,	/* base + number; a register as it was at first is a pointer with 0 */
	VALUE_WORD,	/* of an epilogue: what the memory at base + number held at first */
	VALUE_CONSTANT, /* number */
	VALUE_TABLE,	/* an entry of the jump table at `number` */
	VALUE_TARGET,	/* where that entry leads */
};

struct value {
	int64_t number;
	uint8_t kind, base;
	uint16_t entries; /* of the table; 0: not known how many */
};

struct slot { /* a word of the stack with a value worth knowing */
	int64_t offset;
	struct value value;
	uint8_t base;
};

enum { SLOTS = 24 };

/* A register that was found to be below a number. */
struct limit {
	uint8_t number; /* X86_NO_REGISTER: none */
	uint16_t below;
};

struct state {
	struct value registers[X86_REGISTERS];
	struct slot slots[SLOTS];
	uint8_t slot_count;
	struct limit compared; /* by the last comparison: `below` is the number itself */
	struct limit limit;
	uint64_t last_call; /* on the way here; 0: none, or not always the same */
	bool epilogue;
};

/*
 * As registers are when a function is entered: of those that callees save it is to be known where
 * they are. With `epilogue` nothing is known of a CFA, and a caller's register may come from any
 * word.
 */
void state_begin(struct state *state, bool epilogue);

/* Where the stack pointer became a base of its own. */
struct moves {
	uint64_t at[BASE_LIMIT - BASE_MOVED];
	size_t count;
};

/* What holds after the instruction at `at`; of a call once it has returned. */
void state_apply(struct state *state, const struct x86_instruction *instruction, uint64_t at,
		 struct moves *moves);

/* From the instruction at `at` on so many bytes are no longer on the stack. */
void state_pop(struct state *state, uint64_t bytes, uint64_t at, struct moves *moves);

/* Keeps what holds in both, of which the ways meet at `at`; true when something was lost. */
bool state_merge(struct state *state, const struct state *other, uint64_t at, struct moves *moves);

bool value_equal(const struct value *a, const struct value *b);

static inline bool is_pointer_to(const struct value *value, int base)
{
	return value->kind == VALUE_POINTER && value->base == base;
}

/* ---- called.c: what a call leaves as it is ------------------------------------------------- */

/* state_apply, where a call may leave more registers than the ABI promises. */
void called_apply(struct state *state, const struct x86_instruction *instruction, uint64_t at,
		  const struct x86_code *code, struct moves *moves);

/* Registers that a callee need not save, and the function whose instructions these are leaves as
 * they are; 0: also when it may call another one, or become one. */
unsigned called_keeps(const struct code_pages *pages);

/* ---- row.c ---------------------------------------------------------------------------------- */

bool row_of_state(const struct state *state, unsigned known, struct x86_row *row);

/* Where what a register holds can be found, by the others. */
bool place_of_register(const struct state *state, unsigned known, unsigned number,
		       struct x86_place *place);

#endif
