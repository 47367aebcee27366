/* SPDX-License-Identifier: MIT */
/*
 * From an instruction to the caller where nothing but an epilogue follows it, or all of a function
 * that only calls another: the instructions are followed up to the return. A PLT's stubs are such,
 * too. That is how trampolines look that interpreters make at run time, for perf say, whose code no
 * file describes. Encodings: Intel SDM volume 2, chapter 2 and appendix A.
 */
#include "unwind/internal.h"

#include <string.h>
#include <sys/mman.h>

enum { EPILOGUE_BYTES = CODE_LIVE_BYTES };

/* The registers as instructions encode them. */
static const uint8_t numbers[16] = {REGISTER_RAX, REGISTER_RCX, REGISTER_RDX, REGISTER_RBX,
				    REGISTER_RSP, REGISTER_RBP, REGISTER_RSI, REGISTER_RDI,
				    REGISTER_R8,  REGISTER_R9,	REGISTER_R10, REGISTER_R11,
				    REGISTER_R12, REGISTER_R13, REGISTER_R14, REGISTER_R15};

/* What the instructions followed so far have done. */
struct run {
	struct registers registers;
	const struct memory_reader *memory; /* NULL: only RSP is wanted */
	bool whole; /* it may start with the prologue, and call: what it pushes it will pop */
	unsigned pushed;
};

static void pop(struct run *run, unsigned number)
{
	struct registers *const registers = &run->registers;
	const uint64_t sp = registers->value[REGISTER_RSP];
	const unsigned to = numbers[number];
	uint64_t value;
	registers->value[REGISTER_RSP] += 8;
	if (run->pushed > 0) {
		run->pushed--; /* gets back what it has now */
		return;
	}
	registers->known &= ~(1u << to);
	if (run->memory && memory_read_u64(run->memory, sp, &value, NULL)) {
		registers->value[to] = value;
		registers->known |= 1u << to;
	}
}

static bool starts_with(const uint8_t *op, const char *bytes, size_t size)
{
	return memcmp(op, bytes, size) == 0;
}

/* An instruction of a prologue, or the call: its length, 0: it is none. */
static size_t take_prologue(const uint8_t *op, struct run *run)
{
	uint64_t *const sp = &run->registers.value[REGISTER_RSP];
	const size_t rex_b = op[0] == 0x41;
	if (starts_with(op, "\xf3\x0f\x1e\xfa", 4)) /* endbr64 */
		return 4;
	if (op[rex_b] >> 3 == 0x50 >> 3) { /* push */
		run->pushed++;
		*sp -= 8;
		return rex_b + 1;
	}
	if (starts_with(op, "\x48\x83\xec", 3)) { /* sub $imm8,%rsp */
		*sp -= (uint64_t)(int64_t)(int8_t)op[3];
		return 4;
	}
	if (starts_with(op, "\x48\x89\xe5", 3)) /* mov %rsp,%rbp: it is popped again */
		return run->pushed ? 3 : 0;
	if (op[rex_b] == 0xff && (op[rex_b + 1] & 0xf8) == 0xd0) /* call *%reg */
		return rex_b + 2;
	return 0;
}

/* The length of the instruction, after what it does has been done; 0: it is not understood. */
static size_t take(const uint8_t *op, struct run *run)
{
	uint64_t *const sp = &run->registers.value[REGISTER_RSP];
	const size_t rex_b = op[0] == 0x41;
	int32_t wide;
	if (op[rex_b] >> 3 == 0x58 >> 3 && (rex_b || op[0] != 0x5c)) { /* pop */
		pop(run, (unsigned)(8 * rex_b + (op[rex_b] & 7)));
		return rex_b + 1;
	}
	if (starts_with(op, "\x48\x83\xc4", 3)) { /* add $imm8,%rsp */
		*sp += (uint64_t)(int64_t)(int8_t)op[3];
		return 4;
	}
	if (starts_with(op, "\x48\x81\xc4", 3)) { /* add $imm32,%rsp */
		memcpy(&wide, op + 3, sizeof(wide));
		*sp += (uint64_t)(int64_t)wide;
		return 7;
	}
	if (starts_with(op, "\xc5\xf8\x77", 3)) /* vzeroupper */
		return 3;
	return run->whole ? take_prologue(op, run) : 0;
}

/* Follows the bytes; true: up to a return, and RSP is where its address stands. */
static bool follow(const uint8_t *bytes, size_t size, struct run *run)
{
	for (size_t at = 0, length; at < size; at += length) {
		if (bytes[at] == 0xc3 || starts_with(bytes + at, "\xf3\xc3", 2))
			return true;
		length = take(bytes + at, run);
		if (length == 0)
			return false;
	}
	return false;
}

/* "jmp target" to a PLT's first stub, which pushes what the dynamic linker's resolver needs. */
static bool is_jump_to_resolver(const struct module *module, remote_addr pc, const uint8_t *jump)
{
	const size_t bnd = jump[0] == 0xf2;
	uint8_t push[2];
	int32_t distance;
	if (jump[bnd] != 0xe9)
		return false;
	memcpy(&distance, jump + bnd + 1, sizeof(distance));
	return code_read(module, pc + bnd + 5 + (uint64_t)(int64_t)distance, push, sizeof(push)) ==
		       sizeof(push) &&
	       starts_with(push, "\xff\x35", 2);
}

/*
 * A stub of a PLT only jumps on, and has no unwind information where lld has linked: the return
 * address is at SP, or `depth` above it after what a stub pushes that is not bound yet (psABI
 * x86-64, 5.2 "Procedure Linkage Table"). `at`: the PC's bytes, with those before it.
 */
static bool find_depth_of_stub(const struct module *module, remote_addr pc, const uint8_t *at,
			       uint64_t *depth)
{
	enum { INDEX_BYTES = 5, SLOT_BYTES = 6 };
	const bool index_pushed = at[-INDEX_BYTES] == 0x68;
	const bool both_pushed = starts_with(at - SLOT_BYTES, "\xff\x35", 2);
	*depth = 0;
	if (starts_with(at, "\xf3\x0f\x1e\xfa", 4)) { /* endbr64 */
		at += 4;
		pc += 4;
	}
	if (starts_with(at, "\x41\xbb", 2)) { /* mov $imm32,%r11d */
		at += 6;
		pc += 6;
	}
	if (at[0] == 0x68) /* push $index */
		return is_jump_to_resolver(module, pc + INDEX_BYTES, at + INDEX_BYTES);
	if (index_pushed && is_jump_to_resolver(module, pc, at)) {
		*depth = 8;
		return true;
	}
	if (starts_with(at, "\xff\x35", 2)) { /* push module(%rip) */
		*depth = 8;
		at += SLOT_BYTES;
	} else if (both_pushed) {
		*depth = 16;
	}
	return starts_with(at + (at[0] == 0xf2), "\xff\x25", 2); /* jmp *slot(%rip) */
}

bool epilogue_find_slot(const struct module *module, const struct registers *registers,
			remote_addr *slot)
{
	enum { PUSH_BYTES = 8 };
	const remote_addr pc = registers->value[REGISTER_RIP];
	uint8_t bytes[PUSH_BYTES + EPILOGUE_BYTES + 8] = {0};
	struct run run = {.registers = *registers};
	uint64_t depth;
	const size_t size = code_read(module, pc, bytes + PUSH_BYTES, EPILOGUE_BYTES);
	if (code_read(module, pc - PUSH_BYTES, bytes, PUSH_BYTES) < PUSH_BYTES)
		memset(bytes, 0, PUSH_BYTES);
	if (find_depth_of_stub(module, pc, bytes + PUSH_BYTES, &depth)) {
		*slot = registers->value[REGISTER_RSP] + depth;
		return true;
	}
	if (!follow(bytes + PUSH_BYTES, size, &run))
		return false;
	*slot = run.registers.value[REGISTER_RSP];
	return true;
}

size_t code_read_live(const struct unwinder *unwinder, remote_addr address, uint8_t *bytes)
{
	const struct mapping *const mapping = module_table_find(unwinder->modules, address);
	size_t size = CODE_LIVE_BYTES;
	if (mapping && mapping->module && mapping->module->origin == MODULE_OF_PYTHON) {
		while (size && !module_read(mapping->module, address, bytes, size, NULL))
			size--;
		return size;
	}
	if (!unwinder->code || !mapping || mapping->module || !(mapping->protection & PROT_EXEC))
		return 0;
	if (mapping->end - address < size)
		size = mapping->end - address;
	return memory_read(unwinder->code, address, bytes, size, NULL) ? size : 0;
}

bool epilogue_caller(const struct unwinder *unwinder, struct registers *registers, bool *exact)
{
	uint8_t bytes[EPILOGUE_BYTES + 8] = {0};
	struct run run = {.registers = *registers, .memory = unwinder->memory, .whole = *exact};
	struct registers *const caller = &run.registers;
	const size_t size = code_read_live(unwinder, registers->value[REGISTER_RIP], bytes);
	if (!follow(bytes, size, &run))
		return false;
	const uint64_t slot = caller->value[REGISTER_RSP];
	if (slot < registers->value[REGISTER_RSP] ||
	    !memory_read_u64(unwinder->memory, slot, &caller->value[REGISTER_RIP], NULL))
		return false;
	caller->value[REGISTER_RSP] = slot + 8;
	*registers = *caller;
	*exact = false;
	return true;
}
