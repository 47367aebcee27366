/* SPDX-License-Identifier: MIT */
/* Rows that the analysis of code gives, applied to registers and to what is on the stack. */
#include "unwind/rows.h"

#include <string.h>

/* The registers as instructions encode them, by their DWARF numbers. */
static const uint8_t numbers[X86_REGISTERS] = {
	[X86_RAX] = REGISTER_RAX, [X86_RCX] = REGISTER_RCX, [X86_RDX] = REGISTER_RDX,
	[X86_RBX] = REGISTER_RBX, [X86_RSP] = REGISTER_RSP, [X86_RBP] = REGISTER_RBP,
	[X86_RSI] = REGISTER_RSI, [X86_RDI] = REGISTER_RDI, [X86_R8] = REGISTER_R8,
	[X86_R9] = REGISTER_R9,	  [X86_R10] = REGISTER_R10, [X86_R11] = REGISTER_R11,
	[X86_R12] = REGISTER_R12, [X86_R13] = REGISTER_R13, [X86_R14] = REGISTER_R14,
	[X86_R15] = REGISTER_R15};

int row_register_number(int x86)
{
	return numbers[x86];
}

unsigned row_registers(const struct registers *registers)
{
	unsigned known = 0;
	for (int i = 0; i < X86_REGISTERS; i++)
		if (registers->known >> numbers[i] & 1)
			known |= X86_BIT(i);
	return known;
}

/* ---- reading ---- */

bool row_read(struct unwinder *unwinder, const struct memory_reader *memory, remote_addr address,
	      void *buffer, size_t size, struct error *error)
{
	const bool well = memory_read(memory, address, buffer, size, error);
	unwinder->unread += !well;
	return well;
}

static bool read_word(struct unwinder *unwinder, remote_addr address, uint64_t *value)
{
	return row_read(unwinder, unwinder->request.memory, address, value, sizeof(*value), NULL);
}

/* ---- from a row to the caller ---- */

bool row_value(struct unwinder *unwinder, const struct registers *registers, remote_addr cfa,
	       const struct x86_place *place, uint64_t *value)
{
	uint64_t base = cfa;
	if (place->kind == X86_PLACE_UNKNOWN)
		return false;
	if (place->base != X86_CFA) {
		if (place->base >= X86_REGISTERS || !(registers->known >> numbers[place->base] & 1))
			return false;
		base = registers->value[numbers[place->base]];
	}
	base += (uint64_t)(int64_t)place->offset;
	if (place->kind == X86_PLACE_MEMORY && !read_word(unwinder, base, &base))
		return false;
	*value = base + (uint64_t)(int64_t)place->more;
	return true;
}

/* From a workspace that the stack pointer was set to the thread's own stack may be further down. */
static bool may_go_back(struct unwinder *unwinder, const struct x86_row *row)
{
	return row->cfa.kind == X86_PLACE_MEMORY && unwinder->moves_back > 0 &&
	       unwinder->moves_back--;
}

bool row_apply(struct unwinder *unwinder, const struct x86_row *row, const struct registers *callee,
	       struct registers *caller)
{
	const uint64_t sp = callee->value[REGISTER_RSP];
	uint64_t cfa, address;
	memset(caller, 0, sizeof(*caller));
	caller->fs_base = callee->fs_base;
	if (!row_value(unwinder, callee, 0, &row->cfa, &cfa) || cfa & 7 ||
	    (cfa <= sp && !may_go_back(unwinder, row)) || !read_word(unwinder, cfa - 8, &address))
		return false;
	for (int i = 0; i < X86_REGISTERS; i++) {
		const struct x86_place same = {.kind = X86_PLACE_VALUE, .base = (uint8_t)i};
		const bool kept = row->kept & X86_BIT(i);
		uint64_t value;
		if (!((X86_CALLEE_SAVED & X86_BIT(i)) || kept) ||
		    !row_value(unwinder, callee, cfa, kept ? &same : &row->saved[i], &value))
			continue;
		caller->value[numbers[i]] = value;
		caller->known |= 1u << numbers[i];
	}
	caller->value[REGISTER_RIP] = address;
	caller->value[REGISTER_RSP] = cfa;
	caller->known |= 1u << REGISTER_RIP | 1u << REGISTER_RSP;
	return true;
}
