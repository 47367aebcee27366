/* SPDX-License-Identifier: MIT */
/* What the tests of both decoders share. */
#ifndef TESTS_FUZZ_X86_H
#define TESTS_FUZZ_X86_H

#include "x86/x86.h"

/* All that they say: not what is between the fields. */
static inline bool is_same(const struct x86_instruction *a, const struct x86_instruction *b)
{
	return a->target == b->target && a->value == b->value && a->written == b->written &&
	       a->compared == b->compared && a->stored == b->stored && a->length == b->length &&
	       a->flow == b->flow && a->effect == b->effect && a->to == b->to &&
	       a->from == b->from && a->has_memory == b->has_memory && a->is_nop == b->is_nop &&
	       a->is_endbr == b->is_endbr && a->memory.base == b->memory.base &&
	       a->memory.index == b->memory.index && a->memory.scale == b->memory.scale &&
	       a->memory.displacement == b->memory.displacement;
}

#endif
