/* SPDX-License-Identifier: MIT */
/*
 * What a call leaves as it is beyond what the ABI promises. Assembly may hold the CFA in a register
 * that callees need not save, and call functions of its own that leave it alone (x264: "mov
 * %rsp,%rcx; and $-32,%rsp; call ..."; it has no call frame information).
 */
#include "x86/internal.h"

enum { WAYS = 64, INSTRUCTIONS_MOST = 4096, BYTES_MOST = 64 << 10 };

/* The CFA is lost with the registers that an ordinary function may change. */
static bool is_held_by_them_alone(const struct state *state)
{
	bool is_held = false;
	for (int i = 0; i < X86_REGISTERS; i++) {
		if (!is_pointer_to(&state->registers[i], BASE_CFA))
			continue;
		if (i == X86_RSP || X86_CALLEE_SAVED & X86_BIT(i))
			return false;
		is_held = true;
	}
	for (size_t i = 0; is_held && i < state->slot_count; i++)
		is_held = state->slots[i].base == BASE_CFA ||
			  !is_pointer_to(&state->slots[i].value, BASE_CFA);
	return is_held;
}

static bool leads_out(const struct x86_code *code, const struct x86_instruction *instruction)
{
	return instruction->flow == X86_CALL ||
	       ((instruction->flow == X86_JUMP || instruction->flow == X86_BRANCH) &&
		(instruction->target < code->start || instruction->target >= code->end));
}

unsigned called_keeps(const struct code_pages *pages)
{
	unsigned written = X86_CALLEE_SAVED | X86_BIT(X86_RSP);
	for (size_t i = 0; i < pages->decoded; i++) {
		if (leads_out(pages->code, &pages->instructions[i]))
			return 0;
		written |= pages->instructions[i].written;
	}
	return ~written & 0xffff;
}

/* Decodes all that the function may come to; false: that is not known. */
static bool decode_all(struct code_pages *pages, uint64_t entry)
{
	struct x86_instruction instruction;
	uint64_t ways[WAYS] = {entry};
	size_t count = 1;
	while (count) {
		uint64_t at = ways[--count];
		for (size_t before = pages->decoded;; before = pages->decoded) {
			if (!code_pages_decode(pages, at, &instruction) ||
			    pages->decoded > INSTRUCTIONS_MOST || count == WAYS)
				return false;
			if (pages->decoded == before) /* it has been here */
				break;
			if (instruction.flow == X86_RETURN || instruction.flow == X86_STOP)
				break;
			if (instruction.flow == X86_BRANCH)
				ways[count++] = instruction.target;
			at = instruction.flow == X86_JUMP ? instruction.target
							  : at + instruction.length;
		}
	}
	return true;
}

static unsigned kept_by(const struct x86_code *code, uint64_t target)
{
	struct x86_code called = *code;
	struct code_pages pages;
	called.start = target;
	called.end = target + BYTES_MOST;
	code_pages_init(&pages, &called);
	const unsigned kept = decode_all(&pages, target) ? called_keeps(&pages) : 0;
	code_pages_release(&pages);
	return kept;
}

void called_apply(struct state *state, const struct x86_instruction *instruction, uint64_t at,
		  const struct x86_code *code, struct moves *moves)
{
	struct x86_instruction call;
	if (instruction->flow == X86_CALL && instruction->target && is_held_by_them_alone(state)) {
		call = *instruction;
		call.kept = (uint16_t)kept_by(code, call.target);
		instruction = &call;
	}
	state_apply(state, instruction, at, moves);
}
