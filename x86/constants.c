/* SPDX-License-Identifier: MIT */
/*
 * Constants in registers and on the stack, followed from one instruction to the next. What is not
 * sure is forgotten, with one exception: words of the stack that are told from RSP or RBP are
 * taken to be written by such instructions alone, as those are where compilers keep what registers
 * have no room for.
 */
#include <string.h>

#include "x86/x86.h"

void x86_constants_clear(struct x86_constants *constants)
{
	memset(constants, 0, sizeof(*constants));
}

bool x86_constants_get(const struct x86_constants *constants, unsigned number, uint64_t *value)
{
	if (!(constants->known >> number & 1))
		return false;
	*value = constants->values[number];
	return true;
}

bool x86_constants_has_mark(const struct x86_constants *constants, unsigned number)
{
	return constants->known & constants->marked & X86_BIT(number);
}

static bool is_slot(const struct x86_instruction *instruction)
{
	return instruction->has_memory && instruction->memory.index == X86_NO_REGISTER &&
	       (instruction->memory.base == X86_RSP || instruction->memory.base == X86_RBP);
}

static void forget_base(struct x86_constants *constants, uint8_t base)
{
	for (size_t i = 0; i < X86_CONSTANT_SLOTS; i++)
		if (constants->slots[i].base == base)
			constants->slots[i].size = 0;
}

/* What overlaps the bytes that it writes. */
static void forget_stored(struct x86_constants *constants,
			  const struct x86_instruction *instruction)
{
	const struct x86_memory *const memory = &instruction->memory;
	for (size_t i = 0; i < X86_CONSTANT_SLOTS; i++) {
		struct x86_constant_slot *const slot = &constants->slots[i];
		const int64_t distance = slot->displacement - memory->displacement;
		if (slot->base == memory->base && distance < instruction->stored &&
		    distance > -(int64_t)slot->size)
			slot->size = 0;
	}
}

static bool read_slot(const struct x86_constants *constants,
		      const struct x86_instruction *instruction, unsigned size,
		      struct x86_constant_slot *found)
{
	for (size_t i = 0; is_slot(instruction) && i < X86_CONSTANT_SLOTS; i++) {
		const struct x86_constant_slot *const slot = &constants->slots[i];
		if (slot->size < size || slot->base != instruction->memory.base ||
		    slot->displacement != instruction->memory.displacement)
			continue;
		*found = *slot;
		return true;
	}
	return false;
}

/* What the instruction puts somewhere, by what was known before; false: something not known. */
static bool evaluate(const struct x86_constants *constants,
		     const struct x86_instruction *instruction, bool mark,
		     struct x86_constant_slot *result)
{
	const uint8_t from = instruction->from;
	switch (instruction->effect) {
	case X86_SET:
		break;
	case X86_STORE:
	case X86_STORE_U32:
		if (from == X86_NO_REGISTER)
			break;
		/* fall through */
	case X86_COPY:
	case X86_COPY_U32:
		result->marked = constants->marked >> from & 1;
		return x86_constants_get(constants, from, &result->value);
	case X86_LOAD:
		return read_slot(constants, instruction, 8, result);
	case X86_LOAD_U32:
		return read_slot(constants, instruction, 4, result);
	default:
		return false;
	}
	result->value = instruction->value;
	result->marked = mark;
	return true;
}

static void put(struct x86_constants *constants, unsigned number,
		const struct x86_constant_slot *result, bool half)
{
	const uint16_t bit = (uint16_t)X86_BIT(number);
	constants->values[number] = half ? (uint32_t)result->value : result->value;
	constants->known |= bit;
	constants->marked =
		(uint16_t)(result->marked ? constants->marked | bit : constants->marked & ~bit);
}

static void store(struct x86_constants *constants, const struct x86_instruction *instruction,
		  struct x86_constant_slot *result, bool half)
{
	if (!is_slot(instruction))
		return;
	result->displacement = instruction->memory.displacement;
	result->base = instruction->memory.base;
	result->size = half ? 4 : 8;
	constants->slots[constants->next++ % X86_CONSTANT_SLOTS] = *result;
}

static void forget(struct x86_constants *constants, const struct x86_instruction *instruction)
{
	if (instruction->flow == X86_CALL)
		constants->known &= X86_CALLEE_SAVED;
	constants->known &= (uint16_t)~instruction->written;
	if (instruction->stored && is_slot(instruction))
		forget_stored(constants, instruction);
	if (instruction->written & X86_BIT(X86_RSP))
		forget_base(constants, X86_RSP);
	if (instruction->written & X86_BIT(X86_RBP))
		forget_base(constants, X86_RBP);
}

void x86_constants_apply(struct x86_constants *constants, const struct x86_instruction *instruction,
			 bool mark)
{
	struct x86_constant_slot result = {.size = 0};
	const bool is_known = evaluate(constants, instruction, mark, &result);
	forget(constants, instruction);
	if (!is_known)
		return;
	switch (instruction->effect) {
	case X86_STORE:
	case X86_STORE_U32:
		store(constants, instruction, &result, instruction->effect == X86_STORE_U32);
		break;
	default:
		put(constants, instruction->to, &result,
		    instruction->effect == X86_COPY_U32 || instruction->effect == X86_LOAD_U32);
	}
}
