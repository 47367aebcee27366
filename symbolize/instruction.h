/* SPDX-License-Identifier: MIT */
/*
 * x86-64 instructions, as far as it takes to follow constants to a call: how long each one is,
 * where it goes, and what it puts into which register or word of the stack.
 */
#ifndef SYMBOLIZE_INSTRUCTION_H
#define SYMBOLIZE_INSTRUCTION_H

#include <stdbool.h>

#include "base/types.h"

enum operation {
	OPERATION_OTHER,
	OPERATION_CALL,	  /* to `value`; 0: not told */
	OPERATION_JUMP,	  /* the same */
	OPERATION_BRANCH, /* to `value` under a condition */
	OPERATION_END,	  /* ret, ud2, hlt, int3: nothing follows */
	OPERATION_SET,	  /* register `to` becomes `value` */
	OPERATION_COPY,	  /* register `to` becomes register `from` */
	OPERATION_LOAD,	  /* register `to` becomes the word of the stack at `slot` */
	OPERATION_STORE,  /* that word becomes register `from`; REGISTER_NONE: `value` */
};

enum { REGISTER_RDX = 2, REGISTER_RCX = 1, REGISTER_RSP = 4, REGISTER_RBP = 5 };
enum { REGISTER_RSI = 6, REGISTER_RDI = 7, REGISTER_R8 = 8, REGISTERS = 16, REGISTER_NONE = 16 };

struct instruction {
	enum operation operation;
	uint8_t length;
	uint8_t to, from;
	uint16_t written;  /* one bit a register: no longer what it was */
	uint16_t compared; /* one bit a register that cmp or test looks at; of xmm0: that of rax */
	bool touches;	   /* the word of the stack at `slot` may have been written */
	int64_t slot;	   /* distance from RSP; from RBP: with SLOT_OF_RBP added */
	uint64_t value;
};

#define SLOT_OF_RBP (INT64_C(1) << 40)

/* The instruction of which the bytes stand at that address; false: none, or not all of it. */
bool instruction_read(const uint8_t *bytes, size_t size, uint64_t address,
		      struct instruction *instruction);

/* ---- what registers, and some words of the stack, are known to hold ------------------------ */

enum { CONSTANT_SLOTS = 12 };

/* rbx, rsp, rbp, r12 to r15: functions keep them (System V ABI, figure 3.4). */
enum { REGISTERS_KEPT = 1 << 3 | 1 << 4 | 1 << 5 | 0xf << 12 };

struct constants {
	uint64_t values[REGISTERS];
	uint16_t known; /* one bit a register */
	struct {
		int64_t slot;
		uint64_t value;
		bool used;
	} slots[CONSTANT_SLOTS];
	unsigned next; /* slot to be used next */
};

/* Forgets all: begin of a function, or a place that is reached by a jump. */
void constants_clear(struct constants *constants);

/* What holds after the instruction. A call leaves the registers that functions keep, and the
 * stack. */
void constants_apply(struct constants *constants, const struct instruction *instruction);

bool constants_get(const struct constants *constants, int number, uint64_t *value);

#endif
