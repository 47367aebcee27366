/* SPDX-License-Identifier: MIT */
/*
 * From an activation without unwind information (hand-written assembly, code made at run time, a
 * call through a bad pointer) to its caller: the word on the stack that follows a call instruction
 * and from which a walk by unwind information alone reaches the thread's outermost frame. A guess
 * and marked as one: registers that the code may have changed are not known in the caller. Work is
 * bounded for each call of unwind_thread (guess_walks, guess_steps).
 */
#include "unwind/internal.h"

#include <string.h>
#include <sys/mman.h>

enum {
	SCAN_WORDS = 4096,            /* above SP */
	FRAME_POINTER_WORDS = 64,     /* below the candidate, where it may have been pushed */
	FRAME_POINTER_REACH = 32 << 20,
};

/* Length of "call *operand" (ff /2) with this ModRM byte, 0 when it is another instruction.
 * Intel SDM volume 2, table 2-2. */
static size_t call_length(const uint8_t *at)
{
	const unsigned mod = at[1] >> 6, rm = at[1] & 7;
	if (at[0] != 0xff || (at[1] >> 3 & 7) != 2)
		return 0;
	const size_t length = mod != 3 && rm == 4 ? 3 : 2; /* with a SIB byte */
	if (mod == 1)
		return length + 1;
	if (mod == 2 || (mod == 0 && (rm == 5 || (rm == 4 && (at[2] & 7) == 5))))
		return length + 4;
	return length;
}

static bool follows_call(const struct module *module, remote_addr address)
{
	uint8_t bytes[7 + 2] = {0};
	const size_t before = 7;
	if (!module_read(module, address - module->load_bias - before, bytes, before, NULL))
		return false;
	if (bytes[before - 5] == 0xe8)
		return true;
	for (size_t length = 2; length <= before; length++)
		if (call_length(bytes + before - length) == length)
			return true;
	return false;
}

/* Answers are kept beside the rows, as reading code is a system call. */
static bool may_be_return_address(struct unwinder *unwinder, remote_addr address)
{
	const struct mapping *const mapping = module_table_find(unwinder->modules, address - 1);
	uint32_t answer;
	if (!mapping || !(mapping->protection & PROT_EXEC) || !mapping->module)
		return false;
	if (table_find(&unwinder->row_index, address, ROW_KEY_CALL, &answer))
		return answer;
	answer = follows_call(mapping->module, address) &&
		 row_find(unwinder, address - 1)->kind == ROW_FOUND;
	table_put(&unwinder->row_index, address, ROW_KEY_CALL, answer);
	return answer;
}

static enum unwind_end try_walk(struct unwinder *unwinder, const struct registers *registers)
{
	struct registers copy = *registers;
	bool exact = false;
	if (unwinder->guess_walks == 0)
		return UNWIND_END_LIMIT;
	unwinder->guess_walks--;
	return snapshot_walk(unwinder, &copy, &exact, NULL);
}

static bool try_frame_pointer(struct unwinder *unwinder, struct registers *caller, uint64_t value)
{
	/* It can only help where it leads further up the stack. */
	const uint64_t distance = value - caller->value[REGISTER_RSP];
	if (value & 7 || distance >= FRAME_POINTER_REACH)
		return false;
	caller->value[REGISTER_RBP] = value;
	caller->known |= 1u << REGISTER_RBP;
	return try_walk(unwinder, caller) == UNWIND_END_OUTERMOST;
}

/* The candidate stands at `slot`. RBP is first taken to be unknown: most walks do not need it. */
static bool try_candidate(struct unwinder *unwinder, const struct registers *callee,
			  remote_addr slot, remote_addr pc, struct registers *caller)
{
	uint64_t pushed;
	memset(caller, 0, sizeof(*caller));
	caller->fs_base = callee->fs_base;
	caller->value[REGISTER_RIP] = pc;
	caller->value[REGISTER_RSP] = slot + 8;
	caller->known = 1u << REGISTER_RIP | 1u << REGISTER_RSP;
	const enum unwind_end end = try_walk(unwinder, caller);
	if (end != UNWIND_END_REGISTER)
		return end == UNWIND_END_OUTERMOST;
	if (callee->known >> REGISTER_RBP & 1 &&
	    try_frame_pointer(unwinder, caller, callee->value[REGISTER_RBP]))
		return true;
	for (int i = 1; i <= FRAME_POINTER_WORDS; i++) {
		const remote_addr at = slot - 8 * i;
		if (at < callee->value[REGISTER_RSP] ||
		    !memory_read_u64(unwinder->memory, at, &pushed, NULL))
			break;
		if (try_frame_pointer(unwinder, caller, pushed))
			return true;
	}
	return false;
}

/*
 * glibc's and musl's sigreturn trampoline where its unwind information is missing: SP is at the
 * ucontext (Linux arch/x86/include/uapi/asm/sigcontext.h: struct sigcontext_64, 40 bytes in).
 */
static bool take_signal_frame(struct unwinder *unwinder, struct registers *registers)
{
	static const uint8_t code[] = { 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05 };
	static const uint8_t order[] = {
		REGISTER_R8, REGISTER_R9, REGISTER_R10, REGISTER_R11, REGISTER_R12, REGISTER_R13,
		REGISTER_R14, REGISTER_R15, REGISTER_RDI, REGISTER_RSI, REGISTER_RBP, REGISTER_RBX,
		REGISTER_RDX, REGISTER_RAX, REGISTER_RCX, REGISTER_RSP, REGISTER_RIP,
	};
	const remote_addr pc = registers->value[REGISTER_RIP];
	const remote_addr context = registers->value[REGISTER_RSP] + 40;
	const struct mapping *const mapping = module_table_find(unwinder->modules, pc);
	uint8_t bytes[sizeof(code)];
	uint64_t values[sizeof(order)];
	if (!mapping || !mapping->module ||
	    !module_read(mapping->module, pc - mapping->module->load_bias, bytes, sizeof(bytes),
			 NULL) ||
	    memcmp(bytes, code, sizeof(code)) != 0 ||
	    !memory_read(unwinder->memory, context, values, sizeof(values), NULL))
		return false;
	for (size_t i = 0; i < sizeof(order); i++)
		registers->value[order[i]] = values[i];
	registers->known = (1u << REGISTER_COUNT) - 1;
	return true;
}

static bool scan(struct unwinder *unwinder, const struct registers *registers, size_t words,
		 struct registers *caller)
{
	const remote_addr sp = registers->value[REGISTER_RSP];
	for (size_t i = 0; i < words && unwinder->guess_walks; i++) {
		uint64_t word;
		if (!memory_read_u64(unwinder->memory, sp + 8 * i, &word, NULL))
			return false;
		if (may_be_return_address(unwinder, word) &&
		    try_candidate(unwinder, registers, sp + 8 * i, word, caller))
			return true;
	}
	return false;
}

bool guess_caller(struct unwinder *unwinder, struct registers *registers, bool *exact,
		  struct unwind_stack *stack, enum unwind_end why)
{
	/* An exact PC that is no code: a call through a bad pointer. */
	const bool bad_call = why == UNWIND_END_UNMAPPED && *exact;
	struct registers caller;
	size_t signal_frames = 0;
	if (stack->count == 0 || (why != UNWIND_END_NO_INFO && !bad_call))
		return false;
	struct unwind_frame *const frame = &stack->frames[stack->count - 1];
	for (size_t i = 0; why == UNWIND_END_NO_INFO && i < stack->count; i++)
		signal_frames += stack->frames[i].signal_frame;
	if (why == UNWIND_END_NO_INFO && signal_frames < UNWIND_SIGNAL_LIMIT &&
	    take_signal_frame(unwinder, registers)) {
		frame->signal_frame = *exact = true;
		return true;
	}
	/* Nothing was pushed yet by a call that led to no code. */
	if (!scan(unwinder, registers, bad_call ? 1 : SCAN_WORDS, &caller))
		return false;
	frame->guessed = true;
	frame->cfa = caller.value[REGISTER_RSP];
	stack->guessed++;
	*registers = caller;
	*exact = false;
	return true;
}
