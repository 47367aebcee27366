/* SPDX-License-Identifier: MIT */
/*
 * Constants in registers and on the stack, followed from one instruction to the next. What is not
 * sure is forgotten.
 */
#include "symbolize/instruction.h"

#include <string.h>

void constants_clear(struct constants *constants)
{
	memset(constants, 0, sizeof(*constants));
}

bool constants_get(const struct constants *constants, int number, uint64_t *value)
{
	if (!(constants->known >> number & 1))
		return false;
	*value = constants->values[number];
	return true;
}

static void put(struct constants *constants, int number, uint64_t value)
{
	constants->known |= (uint16_t)(1 << number);
	constants->values[number] = value;
}

/* A word may be written in parts. */
static void forget_slot(struct constants *constants, int64_t slot)
{
	for (size_t i = 0; i < CONSTANT_SLOTS; i++)
		if (constants->slots[i].slot - slot < 16 && slot - constants->slots[i].slot < 16)
			constants->slots[i].used = false;
}

static void store(struct constants *constants, const struct instruction *instruction)
{
	uint64_t value = instruction->value;

	for (size_t i = 0; i < CONSTANT_SLOTS; i++)
		if (constants->slots[i].slot == instruction->slot)
			constants->slots[i].used = false;
	if (instruction->from != REGISTER_NONE &&
	    !constants_get(constants, instruction->from, &value))
		return;
	const size_t at = constants->next++ % CONSTANT_SLOTS;
	constants->slots[at].slot = instruction->slot;
	constants->slots[at].value = value;
	constants->slots[at].used = true;
}

static void load(struct constants *constants, const struct instruction *instruction)
{
	for (size_t i = 0; i < CONSTANT_SLOTS; i++) {
		if (!constants->slots[i].used || constants->slots[i].slot != instruction->slot)
			continue;
		put(constants, instruction->to, constants->slots[i].value);
		return;
	}
	constants->known &= (uint16_t) ~(1 << instruction->to);
}

void constants_apply(struct constants *constants, const struct instruction *instruction)
{
	uint64_t value;

	switch (instruction->operation) {
	case OPERATION_SET:
		put(constants, instruction->to, instruction->value);
		break;
	case OPERATION_COPY:
		if (constants_get(constants, instruction->from, &value))
			put(constants, instruction->to, value);
		else
			constants->known &= (uint16_t) ~(1 << instruction->to);
		break;
	case OPERATION_LOAD:
		load(constants, instruction);
		break;
	case OPERATION_STORE:
		store(constants, instruction);
		break;
	case OPERATION_CALL:
		constants->known &= REGISTERS_KEPT;
		break;
	default:
		constants->known &= (uint16_t)~instruction->written;
		if (instruction->touches)
			forget_slot(constants, instruction->slot);
		/* push, pop, sub: slots are told from where RSP points to */
		if (instruction->written >> REGISTER_RSP & 1)
			memset(constants->slots, 0, sizeof(constants->slots));
	}
}
