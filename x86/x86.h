/* SPDX-License-Identifier: MIT */
/*
 * x86-64 machine code: one decoder for all (Zydis), and what a function has done to the stack by
 * the time it comes to an instruction. All bytes are hostile; everything is bounded. Addresses are
 * whatever the caller counts in: of the file or of the target.
 */
#ifndef X86_X86_H
#define X86_X86_H

#include <stdbool.h>
#include <stddef.h>

#include "base/memory_reader.h"
#include "base/types.h"

/* ---- one instruction: decode.c ------------------------------------------------------------ */

/* As instructions encode them. Intel SDM volume 2, table 3-1. */
enum x86_register {
	X86_RAX,
	X86_RCX,
	X86_RDX,
	X86_RBX,
	X86_RSP,
	X86_RBP,
	X86_RSI,
	X86_RDI,
	X86_R8,
	X86_R9,
	X86_R10,
	X86_R11,
	X86_R12,
	X86_R13,
	X86_R14,
	X86_R15,
	X86_REGISTERS,
	X86_NO_REGISTER = X86_REGISTERS,
	X86_RIP, /* only as the base of memory, whose displacement then is the address */
};

#define X86_BIT(number) (1u << (number))

/* Functions leave them as they were. System V ABI, AMD64 supplement, figure 3.4. */
enum {
	X86_CALLEE_SAVED = X86_BIT(X86_RBX) | X86_BIT(X86_RBP) | X86_BIT(X86_R12) |
			   X86_BIT(X86_R13) | X86_BIT(X86_R14) | X86_BIT(X86_R15),
};

enum x86_flow {
	X86_NEXT, /* the instruction behind it follows */
	X86_CALL, /* the same, once what is called returns; what that writes is not in `written` */
	X86_BRANCH, /* to `target`, or on */
	X86_JUMP,   /* to `target`; 0: by a register or by memory */
	X86_RETURN,
	X86_STOP, /* ud2, hlt, int3; far calls and jumps, that no compiler makes */
};

/* When a branch is taken, of the unsigned comparison before it. */
enum x86_condition { X86_ON_OTHER, X86_ON_BELOW, X86_ON_NOT_ABOVE, X86_ON_ABOVE, X86_ON_NOT_BELOW };

/* What it does to whole registers and to words of 8 bytes; all else is X86_OTHER. */
enum x86_effect {
	X86_OTHER,    /* `written`, `stores` say what is no longer as it was */
	X86_SET,      /* `to` = `value` */
	X86_COPY,     /* `to` = `from` */
	X86_NARROW,   /* `to` = `from`, cut to fewer bytes */
	X86_ADD,      /* `to` = `from` + `value` */
	X86_SUM,      /* `to` += `from` */
	X86_SUBTRACT, /* `to` -= `from` */
	X86_ALIGN,    /* `to` &= `value` */
	X86_LOAD,     /* `to` = the word in memory */
	X86_LOAD_I32, /* `to` = the 32-bit number in memory, with its sign */
	X86_STORE,    /* the word in memory = `from`, or `value` without one */
	X86_PUSH,     /* `from`, or something without one */
	X86_POP,      /* `to` */
	X86_LEAVE,    /* RSP = RBP, pop RBP */
	X86_SWAP,     /* `to` and `from` */

	/* The same with 32 bits; registers have zeros above them. */
	X86_COPY_U32,  /* `to` = the low half of `from` */
	X86_LOAD_U32,  /* `to` = the 32-bit number in memory */
	X86_STORE_U32, /* the 32-bit number in memory = the low half of `from`, or `value` */
};

/* Without base and index it is somewhere: at an address that is none of the stack's, mostly. */
struct x86_memory {
	int64_t displacement;
	uint8_t base, index; /* X86_NO_REGISTER: none */
	uint8_t scale;
};

struct x86_instruction {
	uint64_t target; /* of a call, branch or jump: the address; 0: not known by itself */
	uint64_t value;
	struct x86_memory memory; /* when has_memory: what it writes; if nothing, what it reads */
	uint16_t written;	  /* one bit a register: not what it was, in part at least */
	uint16_t compared;	  /* cmp, test; by ucomis xmm0 counts as RAX */
	uint16_t stored;	  /* bytes written from `memory` on; 0: none */
	uint16_t kept;		  /* of a call: more registers than the ABI's that it leaves */
	uint8_t length;
	uint8_t flow;	/* enum x86_flow */
	uint8_t effect; /* enum x86_effect */
	uint8_t to, from;
	uint8_t condition; /* enum x86_condition, of a branch */
	bool has_memory;
	bool is_limit; /* cmp $value,%register: the one in `compared` */
	bool is_nop;   /* padding between functions has no other */
	bool is_endbr; /* endbr64: what is called or jumped to by a register may begin with it */
};

/*
 * The instruction whose bytes are at that address; false: none, or not all of it is there. About a
 * tenth of a microsecond. Does not allocate.
 */
bool MUST_CHECK x86_decode(const uint8_t *bytes, size_t size, uint64_t address,
			   struct x86_instruction *instruction);

/*
 * The same for code of some length, a third of the time: remembers what was decoded (260 KB).
 * Does not allocate after x86_decoder_new().
 */
struct x86_decoder *x86_decoder_new(void);
void x86_decoder_free(struct x86_decoder *decoder); /* NULL accepted */
bool MUST_CHECK x86_decoder_read(struct x86_decoder *decoder, const uint8_t *bytes, size_t size,
				 uint64_t address, struct x86_instruction *instruction);

/*
 * The jump that the code begins with, past an endbr64: that of a PLT's stub, say. False: the code
 * begins in another way. `decoder`: NULL: nothing is remembered.
 */
bool MUST_CHECK x86_decode_jump(struct x86_decoder *decoder, const uint8_t *bytes, size_t size,
				uint64_t address, struct x86_instruction *jump);

/* Nothing follows. */
static inline bool x86_is_end(const struct x86_instruction *instruction)
{
	return instruction->flow == X86_RETURN || instruction->flow == X86_STOP;
}

enum {
	X86_LENGTH = 15,	 /* longest instruction */
	X86_STORED = UINT16_MAX, /* `stored` where it writes any number of bytes */
};

/* ---- what registers, and some words of the stack, are known to hold: constants.c ------------ */

enum { X86_CONSTANT_SLOTS = 12 };

struct x86_constant_slot {
	uint64_t value;
	int64_t displacement; /* from what `base` points to now */
	uint8_t base;	      /* X86_RSP, X86_RBP */
	uint8_t size;	      /* 4 or 8 bytes; 0: not in use */
	bool marked;
};

struct x86_constants {
	uint64_t values[X86_REGISTERS];
	uint16_t known, marked; /* one bit a register */
	unsigned next;		/* slot to be used next */
	struct x86_constant_slot slots[X86_CONSTANT_SLOTS];
};

/* Forgets all: begin of a function, or a place that is reached by a jump. */
void x86_constants_clear(struct x86_constants *constants);

/*
 * What holds after the instruction. A call leaves callee-saved registers, and the stack. `mark`: a
 * constant that the instruction itself has is marked; the mark goes where the constant goes.
 */
void x86_constants_apply(struct x86_constants *constants, const struct x86_instruction *instruction,
			 bool mark);

/* False: what the register holds is not known. */
bool x86_constants_get(const struct x86_constants *constants, unsigned number, uint64_t *value);
bool x86_constants_has_mark(const struct x86_constants *constants, unsigned number);

/* ---- what a function has done by the time it comes to an instruction: function.c ----------- */

/* Where a function goes on when what it has called throws. */
struct x86_landing {
	uint64_t pad;
	uint64_t popped; /* bytes of arguments that are no longer on the stack */
};

/* Where code is. Jumps out of [start, end) leave the function. */
struct x86_code {
	const struct memory_reader *reader;
	uint64_t start, end;
	/* True when what is called there never returns; NULL: nothing is known. */
	bool (*never_returns)(void *context, uint64_t target);
	/* Of the call that ends at `after`. False, or NULL: nowhere, or it is not known where. */
	bool (*lands)(void *context, uint64_t after, struct x86_landing *landing);
	void *context;
	struct x86_decoder *decoder; /* NULL: none that remembers */
};

/* The caller's value of something. Registers are those at the instruction. */
enum x86_place_kind {
	X86_PLACE_UNKNOWN,
	X86_PLACE_VALUE,  /* `base` + `offset` */
	X86_PLACE_MEMORY, /* the word at `base` + `offset`, and `more` */
};

enum { X86_CFA = X86_RIP + 1 }; /* as a base: the CFA */

struct x86_place {
	uint8_t kind, base;
	int32_t offset, more;
};

/* How to step from an instruction to the caller. The return address is at CFA - 8. */
struct x86_row {
	struct x86_place cfa;		       /* never by X86_CFA */
	struct x86_place saved[X86_REGISTERS]; /* of those that are callee-saved */
	uint16_t kept; /* of the others: the function never changes them, nor calls one that may */
};

/*
 * A function from its entry on along all of its control flow. Never NULL; bounded in time (some
 * ms at most) and memory. Nothing of `code` is used once it has returned.
 */
struct x86_function;
struct x86_function *x86_function_new(const struct x86_code *code, uint64_t entry);
void x86_function_free(struct x86_function *function); /* NULL accepted */

/*
 * The row at an instruction of the function: `pc` itself, or, for a return address, the call that
 * ends at `pc`. `known`: one bit a register whose value is known there. False: it is not decided:
 * the flow does not lead there, or what it leads to is not one thing.
 */
bool x86_function_row(const struct x86_function *function, const struct x86_code *code, uint64_t pc,
		      bool is_return, unsigned known, struct x86_row *row);

/*
 * What the register holds there, by those in `known`, which it is none of: "RBP = RSP + 208".
 * False: the code does not say. *frame: it is an address of the function's own part of the stack,
 * so that [RSP, it) is, too; also where what it holds is not found.
 */
bool x86_function_register(const struct x86_function *function, const struct x86_code *code,
			   uint64_t pc, bool is_return, unsigned known, unsigned number,
			   struct x86_place *place, bool *frame);

/* The same from what follows the instruction until a return, without an entry: an epilogue. */
bool x86_epilogue_row(const struct x86_code *code, uint64_t pc, unsigned known,
		      struct x86_row *row);

/* ---- code of which nothing is known: starts.c --------------------------------------------- */

enum { X86_STARTS = 20 };

/* Where functions seem to begin: behind padding that follows an end. */
struct x86_starts {
	uint64_t first;		   /* behind the padding at the start; 0: none */
	uint64_t last[X86_STARTS]; /* the last one first; 0: no more */
	bool complete;		   /* all up to the site could be read */
};

/*
 * Goes from `start` to `site`, some ns a byte, and remembers what it has found from that start on
 * until it is cleared: others begin with it. `ended`: no function is under way at the start. Valid
 * until the next call. The decoder is borrowed; NULL: none that remembers.
 */
struct x86_sweeps;
struct x86_sweeps *x86_sweeps_new(struct x86_decoder *decoder);
void x86_sweeps_free(struct x86_sweeps *sweeps); /* NULL accepted */
void x86_sweeps_clear(struct x86_sweeps *sweeps);
const struct x86_starts *x86_sweeps_find(struct x86_sweeps *sweeps,
					 const struct memory_reader *code, uint64_t start,
					 uint64_t site, bool ended);

/* Instructions that were decoded, for measuring. */
size_t x86_function_cost(const struct x86_function *function);

/* The range of bytes that were read: what it is of is the same while they are. */
void x86_function_range(const struct x86_function *function, uint64_t *start, uint64_t *end);

#endif
