/* SPDX-License-Identifier: MIT */
/*
 * What decode.c and decoder.c share: an instruction without the numbers in it. Those are the last
 * bytes of an encoding (Intel SDM volume 2, figure 2-1), and what is before them says all else.
 */
#ifndef X86_SHAPE_H
#define X86_SHAPE_H

#include "x86/x86.h"

enum { SHAPE_HEADER = 8 };

/* What the effect's `value` is made of. */
enum shape_value {
	VALUE_NONE,
	VALUE_IMMEDIATE,
	VALUE_IMMEDIATE_U32,
	VALUE_NEGATED,
	VALUE_DISPLACEMENT,
	VALUE_ADDRESS, /* the displacement, from the next instruction on */
};

struct shape {
	struct x86_instruction instruction; /* without target, value and displacement */
	uint8_t header; /* bytes before the numbers; 0: more than SHAPE_HEADER, or they depend on
			   others */
	uint8_t displacement_at, displacement_size, displacement_scale;
	uint8_t immediate_at, immediate_size;
	uint8_t value; /* enum shape_value */
	bool is_relative;
};

/* As x86_decode. */
bool MUST_CHECK shape_read(struct shape *shape, const uint8_t *bytes, size_t size);

/* Of bytes that have all of the instruction. */
void shape_finish(const struct shape *shape, const uint8_t *bytes, uint64_t address,
		  struct x86_instruction *instruction);

#endif
