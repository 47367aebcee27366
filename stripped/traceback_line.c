/* SPDX-License-Identifier: MIT */
/*
 * From a call in a function made by Cython to the line it is on, estimated: if the call fails,
 * the code goes on to where that line is put into a register, as a constant, for
 * __Pyx_AddTraceback(name, c_line, line, file). So the code behind the call is followed to there.
 *
 *	call   PyObject_GetItem
 *	test   %rax,%rax
 *	je     1f
 *	...
 * 1:	mov    $0x12,%ebx                # right behind the branch: this is the call's line
 *	...                              # references are dropped
 *	mov    %ebx,%edx
 *	lea    "implicit.cpu._als.fit",%rdi
 *	call   __Pyx_AddTraceback
 *
 * A constant counts only if it is set right behind a branch that follows the call (it is marked
 * then), and only one line can be reached. Calls that cannot fail have none.
 */
#include <string.h>

#include "stripped/internal.h"
#include "x86/x86.h"

enum {
	MAX_STEPS_OF_LINE = 4000, /* instructions */
	MAX_BRANCHES = 6,	  /* between the call and the constant */
	MAX_FORKS = 24,		  /* between the constant and the traceback */
	MAX_LINE = 1 << 20,
	RESULT = X86_BIT(X86_RAX),
};

struct pursuit {
	const struct elf_image *image;
	const struct traceback_call *call;
	const char *leaf; /* of the function's own name */
	size_t leaf_size;
	int steps;
	int line; /* 0: none yet, -1: several */
	const char *file;
};

static bool step(struct pursuit *pursuit, uint64_t address, struct x86_instruction *instruction)
{
	size_t size;
	const uint8_t *bytes = image_bytes(pursuit->image, address, &size);

	return bytes && ++pursuit->steps < MAX_STEPS_OF_LINE &&
	       x86_decode(bytes, size, address, instruction);
}

/* Inlined functions have tracebacks of their own on the way. */
static bool is_own(const struct pursuit *pursuit, const struct x86_constants *constants)
{
	uint64_t address;
	const char *text = x86_constants_get(constants, X86_RDI, &address)
				   ? image_text(pursuit->image, address)
				   : NULL;
	const char *dot = text ? strrchr(text, '.') : NULL;
	const char *leaf = dot ? dot + 1 : text;

	return leaf && strlen(leaf) == pursuit->leaf_size &&
	       memcmp(leaf, pursuit->leaf, pursuit->leaf_size) == 0;
}

static void arrive(struct pursuit *pursuit, const struct x86_constants *constants)
{
	const struct traceback_call *call = pursuit->call;
	uint64_t line, file = call->file;

	if (!is_own(pursuit, constants) ||
	    !x86_constants_get(constants, call->line_register, &line) ||
	    !x86_constants_has_mark(constants, call->line_register))
		return;
	line = (uint32_t)line;
	if (!line || line > MAX_LINE)
		return;
	if (pursuit->line && pursuit->line != (int)line) {
		pursuit->line = -1;
		return;
	}
	pursuit->line = (int)line;
	if (call->file_register == X86_NO_REGISTER ||
	    x86_constants_get(constants, call->file_register, &file))
		pursuit->file = image_text(pursuit->image, file);
}

static bool is_call_of(const struct x86_instruction *instruction, uint64_t callee)
{
	return instruction->flow == X86_CALL && instruction->target == callee;
}

/* Where it goes on without a condition; 0: not known. */
static uint64_t next_of(const struct x86_instruction *instruction, uint64_t address)
{
	return instruction->flow == X86_JUMP ? instruction->target : address + instruction->length;
}

/* From the constant on: to each call of __Pyx_AddTraceback that can be reached. */
static void chase(struct pursuit *pursuit, uint64_t address, struct x86_constants constants,
		  int *forks)
{
	struct x86_instruction instruction;

	while (pursuit->line >= 0 && step(pursuit, address, &instruction)) {
		if (is_call_of(&instruction, pursuit->call->callee)) {
			arrive(pursuit, &constants);
			if (is_own(pursuit, &constants))
				return;
		}
		x86_constants_apply(&constants, &instruction, false);
		if (x86_is_end(&instruction))
			return;
		if (instruction.flow == X86_BRANCH) {
			if (--*forks < 0)
				return;
			chase(pursuit, instruction.target, constants, forks);
		}
		address = next_of(&instruction, address);
	}
}

static void search(struct pursuit *pursuit, uint64_t address, uint16_t result, int branches);

static bool has_marked_line(const struct x86_constants *constants)
{
	for (unsigned i = 0; i < X86_REGISTERS; i++)
		if (x86_constants_has_mark(constants, i) && (uint32_t)constants->values[i])
			return true;
	for (unsigned i = 0; i < X86_CONSTANT_SLOTS; i++)
		if (constants->slots[i].size && constants->slots[i].marked)
			return true;
	return false;
}

/* Behind a branch that the call's result decides: straight on to the next call or branch. */
static void judge(struct pursuit *pursuit, uint64_t address, int branches)
{
	struct x86_constants constants;
	struct x86_instruction instruction;
	bool still = true; /* nothing has been written: a call here has no arguments */
	int forks = MAX_FORKS;

	x86_constants_clear(&constants);
	while (step(pursuit, address, &instruction) && !x86_is_end(&instruction)) {
		const uint64_t next = next_of(&instruction, address);
		if (instruction.flow == X86_CALL && still) {
			search(pursuit, next, RESULT, branches - 1); /* PyErr_Occurred() */
			return;
		}
		if (instruction.flow == X86_CALL || instruction.flow == X86_BRANCH) {
			if (has_marked_line(&constants))
				chase(pursuit, address, constants, &forks);
			return;
		}
		still &= !instruction.written;
		x86_constants_apply(&constants, &instruction, true);
		address = next;
	}
}

/* Where what the call returned is, from one instruction to the next: one bit a register. */
static uint16_t follow_result(uint16_t result, const struct x86_instruction *instruction)
{
	if (instruction->flow == X86_CALL)
		return result & X86_CALLEE_SAVED;
	if ((instruction->effect == X86_COPY || instruction->effect == X86_COPY_U32) &&
	    result >> instruction->from & 1)
		return result | (uint16_t)X86_BIT(instruction->to);
	return result & (uint16_t)~instruction->written;
}

/* Does the comparison still stand, or is a new one made, in which the result takes part? */
static bool follow_comparison(bool decided, uint16_t result,
			      const struct x86_instruction *instruction)
{
	if (instruction->compared)
		return instruction->compared & result;
	switch (instruction->effect) {
	case X86_SET:
	case X86_COPY:
	case X86_COPY_U32:
	case X86_LOAD:
	case X86_LOAD_U32:
	case X86_STORE:
	case X86_STORE_U32:
		return decided;
	default:
		return false;
	}
}

/* Both ways from each branch, as references may be dropped first, to the one that the result
 * decides. */
static void search(struct pursuit *pursuit, uint64_t address, uint16_t result, int branches)
{
	struct x86_constants constants;
	struct x86_instruction instruction;
	bool decided = false;

	x86_constants_clear(&constants);
	while (branches > 0 && result && step(pursuit, address, &instruction) &&
	       !x86_is_end(&instruction)) {
		const uint64_t next = next_of(&instruction, address);
		if (is_call_of(&instruction, pursuit->call->callee)) {
			if (branches == MAX_BRANCHES) /* no branch: the call always fails */
				arrive(pursuit, &constants);
			return;
		}
		if (instruction.flow == X86_BRANCH && decided) {
			judge(pursuit, next, branches);
			judge(pursuit, instruction.target, branches);
			if (pursuit->line)
				return;
		}
		if (instruction.flow == X86_BRANCH)
			search(pursuit, instruction.target, result, --branches);
		decided = follow_comparison(decided, result, &instruction);
		result = follow_result(result, &instruction);
		x86_constants_apply(&constants, &instruction, true);
		address = next;
	}
}

int traceback_line_find(const struct elf_image *image, const struct traceback_call *call,
			const char *name, uint64_t site, const char **file)
{
	const char *dot = strrchr(name, '.');
	struct pursuit pursuit = {.image = image, .call = call, .leaf = dot ? dot + 1 : name};

	if (strcmp(pursuit.leaf, "<lambda>") == 0)
		pursuit.leaf = "lambda";
	else if (strcmp(pursuit.leaf, "<genexpr>") == 0)
		pursuit.leaf = "genexpr";
	pursuit.leaf_size = strcspn(pursuit.leaf, "[");
	search(&pursuit, site, RESULT, MAX_BRANCHES);
	*file = pursuit.file;
	return pursuit.line > 0 ? pursuit.line : 0;
}
