/* SPDX-License-Identifier: MIT */
/*
 * From an instruction of a trampoline to the caller: code in no file of which nothing but an
 * epilogue is left, or all of a function that only calls another. So look those that interpreters
 * make at run time, for perf say. They are no frames of the program's, so they are known by that,
 * apart from kernels made at run time, which analysed.c leaves.
 */
#include "unwind/internal.h"

#include <string.h>
#include <sys/mman.h>

/* vzeroupper, nops */
static bool changes_nothing(const struct x86_instruction *instruction)
{
	return instruction->effect == X86_OTHER && !instruction->written &&
	       !instruction->has_memory;
}

/* It may be in a trampoline; `whole`: before its call, too. */
static bool may_stand_there(const struct x86_instruction *instruction, bool whole)
{
	const bool moves_sp = instruction->effect == X86_ADD && instruction->to == X86_RSP &&
			      instruction->from == X86_RSP;
	if (instruction->effect == X86_POP)
		return instruction->to != X86_RSP;
	if (instruction->flow == X86_CALL) /* by a register */
		return whole && instruction->from < X86_REGISTERS;
	if (instruction->flow != X86_NEXT)
		return false;
	if (moves_sp)
		return whole || (int64_t)instruction->value > 0;
	if (instruction->effect == X86_PUSH || instruction->is_endbr)
		return whole;
	if (instruction->effect == X86_COPY) /* mov %rsp,%rbp */
		return whole && instruction->to == X86_RBP && instruction->from == X86_RSP;
	return changes_nothing(instruction);
}

static bool is_trampoline(const uint8_t *bytes, size_t size, remote_addr pc, bool whole)
{
	struct x86_instruction instruction;
	for (size_t at = 0; at < size; at += instruction.length) {
		if (!x86_decode(bytes + at, size - at, pc + at, &instruction))
			return false;
		if (instruction.flow == X86_RETURN)
			return true;
		if (!may_stand_there(&instruction, whole))
			return false;
	}
	return false;
}

bool epilogue_caller(struct unwinder *unwinder, struct registers *registers, bool *exact)
{
	uint8_t bytes[CODE_LIVE_BYTES];
	struct analysed analysed;
	const remote_addr pc = registers->value[REGISTER_RIP];
	const size_t size = code_read_live(unwinder, pc, bytes);
	if (!is_trampoline(bytes, size, pc, *exact) ||
	    !analysed_return(unwinder, registers, *exact, pc + size, &analysed))
		return false;
	*registers = analysed.caller;
	*exact = false;
	return true;
}
