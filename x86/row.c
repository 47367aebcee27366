/* SPDX-License-Identifier: MIT */
/*
 * From what is known at an instruction to the rule for the caller's registers. The CFA is found by
 * a register that points into the stack; where the stack pointer was aligned, by the copy of the
 * old one that a function has to keep, in a register or in a word that the new one leads to.
 */
#include "x86/internal.h"

#include <string.h>

static bool fits(int64_t offset)
{
	return offset == (int32_t)offset;
}

/* A known register that points into the same object: preferably the stack pointer. */
static bool find_register(const struct state *state, unsigned known, int base, uint8_t *number)
{
	static const uint8_t order[] = {X86_RSP, X86_RBP, X86_RBX, X86_R12, X86_R13, X86_R14,
					X86_R15, X86_RAX, X86_RCX, X86_RDX, X86_RSI, X86_RDI,
					X86_R8,	 X86_R9,  X86_R10, X86_R11};
	for (size_t i = 0; i < sizeof(order); i++) {
		const struct value *const value = &state->registers[order[i]];
		if (known & X86_BIT(order[i]) && is_pointer_to(value, base) &&
		    fits(value->number)) {
			*number = order[i];
			return true;
		}
	}
	return false;
}

/* Where base + offset is: by a register, or by the CFA. */
static bool locate(const struct state *state, unsigned known, int base, int64_t offset,
		   struct x86_place *place)
{
	uint8_t number;
	if (base == BASE_CFA) {
		place->base = X86_CFA;
	} else if (find_register(state, known, base, &number)) {
		offset -= state->registers[number].number;
		place->base = number;
	} else {
		return false;
	}
	place->offset = (int32_t)offset;
	return fits(offset);
}

static bool find_cfa(const struct state *state, unsigned known, struct x86_place *cfa)
{
	uint8_t number;
	if (find_register(state, known, BASE_CFA, &number)) {
		*cfa = (struct x86_place){
			.kind = X86_PLACE_VALUE,
			.base = number,
			.offset = (int32_t)-state->registers[number].number,
		};
		return true;
	}
	for (size_t i = 0; i < state->slot_count; i++) {
		const struct slot *const slot = &state->slots[i];
		if (!is_pointer_to(&slot->value, BASE_CFA) || slot->base == BASE_CFA ||
		    !fits(slot->value.number) ||
		    !locate(state, known, slot->base, slot->offset, cfa))
			continue;
		cfa->kind = X86_PLACE_MEMORY;
		cfa->more = (int32_t)-slot->value.number;
		return true;
	}
	return false;
}

static bool holds_at_entry(const struct value *value, int number)
{
	return is_pointer_to(value, number) && value->number == 0;
}

static void find_saved(const struct state *state, unsigned known, int number,
		       struct x86_place *place)
{
	*place = (struct x86_place){.kind = X86_PLACE_VALUE, .base = (uint8_t)number};
	if (holds_at_entry(&state->registers[number], number) && known & X86_BIT(number))
		return;
	for (size_t i = 0; i < state->slot_count; i++) {
		const struct slot *const slot = &state->slots[i];
		place->kind = X86_PLACE_MEMORY;
		if (holds_at_entry(&slot->value, number) &&
		    locate(state, known, slot->base, slot->offset, place))
			return;
	}
	for (int other = 0; other < X86_REGISTERS; other++) {
		place->kind = X86_PLACE_VALUE;
		place->base = (uint8_t)other;
		place->offset = 0;
		if (holds_at_entry(&state->registers[other], number) && known & X86_BIT(other))
			return;
	}
	place->kind = X86_PLACE_UNKNOWN;
}

bool row_of_state(const struct state *state, unsigned known, struct x86_row *row)
{
	memset(row, 0, sizeof(*row));
	if (!find_cfa(state, known, &row->cfa))
		return false;
	for (int number = 0; number < X86_REGISTERS; number++)
		if (X86_CALLEE_SAVED & X86_BIT(number))
			find_saved(state, known, number, &row->saved[number]);
	return true;
}

bool place_of_register(const struct state *state, unsigned known, unsigned number,
		       struct x86_place *place)
{
	const struct value *const value = &state->registers[number];
	known &= ~X86_BIT(number);
	*place = (struct x86_place){.kind = X86_PLACE_VALUE};
	if (value->kind != VALUE_POINTER)
		return false;
	if (value->base != BASE_CFA && locate(state, known, value->base, value->number, place))
		return true;
	/* The CFA is no register of the function's. */
	if (value->base == BASE_CFA && find_cfa(state, known, place)) {
		int32_t *const by = place->kind == X86_PLACE_MEMORY ? &place->more : &place->offset;
		const int64_t sum = *by + value->number;
		*by = (int32_t)sum;
		return fits(sum);
	}
	return false;
}
