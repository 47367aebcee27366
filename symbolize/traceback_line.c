/* SPDX-License-Identifier: MIT */
/*
 * From a call in a function made by Cython to the line it stands on, estimated: if the call fails,
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
 * A constant counts only if it is set right behind a branch that follows the call, and only one
 *line can be reached. Calls that cannot fail have none.
 */
#include <string.h>

#include "symbolize/instruction.h"
#include "symbolize/stated.h"

enum {
	MAX_STEPS_OF_LINE = 4000, /* instructions */
	MAX_BRANCHES = 6,	  /* between the call and the constant */
	MAX_FORKS = 24,		  /* between the constant and the traceback */
	MAX_LINE = 1 << 20,
	RESULT = 1, /* rax */
};

/* Marks a constant that was set right behind the branch. */
#define FRESH (UINT64_C(1) << 62)

struct pursuit {
	const struct elf_image *image;
	const struct traceback_call *call;
	const char *leaf; /* of the function's own name */
	size_t leaf_size;
	int steps;
	int line; /* 0: none yet, -1: several */
	const char *file;
};

static bool step(struct pursuit *pursuit, uint64_t address, struct instruction *instruction)
{
	size_t size;
	const uint8_t *bytes = image_bytes(pursuit->image, address, &size);

	return bytes && ++pursuit->steps < MAX_STEPS_OF_LINE &&
	       instruction_read(bytes, size, address, instruction);
}

/* Inlined functions have tracebacks of their own on the way. */
static bool is_own(const struct pursuit *pursuit, const struct constants *constants)
{
	uint64_t address;
	const char *text = constants_get(constants, REGISTER_RDI, &address)
				   ? image_text(pursuit->image, address & ~FRESH)
				   : NULL;
	const char *dot = text ? strrchr(text, '.') : NULL;
	const char *leaf = dot ? dot + 1 : text;

	return leaf && strlen(leaf) == pursuit->leaf_size &&
	       !memcmp(leaf, pursuit->leaf, pursuit->leaf_size);
}

static void arrive(struct pursuit *pursuit, const struct constants *constants)
{
	const struct traceback_call *call = pursuit->call;
	uint64_t line, file = call->file;

	if (!is_own(pursuit, constants) || !constants_get(constants, call->line_register, &line) ||
	    !(line & FRESH))
		return;
	line = (uint32_t)line;
	if (!line || line > MAX_LINE)
		return;
	if (pursuit->line && pursuit->line != (int)line) {
		pursuit->line = -1;
		return;
	}
	pursuit->line = (int)line;
	if (call->file_register == REGISTER_NONE ||
	    constants_get(constants, call->file_register, &file))
		pursuit->file = image_text(pursuit->image, file & ~FRESH);
}

static void apply(struct constants *constants, const struct instruction *instruction, bool fresh)
{
	struct instruction marked = *instruction;

	if (fresh && (marked.operation == OPERATION_SET ||
		      (marked.operation == OPERATION_STORE && marked.from == REGISTER_NONE)))
		marked.value = (uint32_t)marked.value | FRESH;
	constants_apply(constants, &marked);
}

/* From the constant on: to each call of __Pyx_AddTraceback that can be reached. */
static void chase(struct pursuit *pursuit, uint64_t address, struct constants constants, int *forks)
{
	struct instruction instruction;

	while (pursuit->line >= 0 && step(pursuit, address, &instruction)) {
		address += instruction.length;
		if (instruction.operation == OPERATION_CALL &&
		    instruction.value == pursuit->call->callee) {
			arrive(pursuit, &constants);
			if (is_own(pursuit, &constants))
				return;
		}
		apply(&constants, &instruction, false);
		if (instruction.operation == OPERATION_END)
			return;
		if (instruction.operation == OPERATION_JUMP)
			address = instruction.value;
		if (instruction.operation == OPERATION_BRANCH) {
			if (--*forks < 0)
				return;
			chase(pursuit, instruction.value, constants, forks);
		}
	}
}

static void search(struct pursuit *pursuit, uint64_t address, uint16_t result, int branches);

static bool has_fresh(const struct constants *constants)
{
	for (int i = 0; i < REGISTERS; i++)
		if (constants->known >> i & 1 && constants->values[i] & FRESH &&
		    (uint32_t)constants->values[i])
			return true;
	for (int i = 0; i < CONSTANT_SLOTS; i++)
		if (constants->slots[i].used && constants->slots[i].value & FRESH)
			return true;
	return false;
}

/* Behind a branch that the call's result decides: straight on to the next call or branch. */
static void judge(struct pursuit *pursuit, uint64_t address, int branches)
{
	struct constants constants;
	struct instruction instruction;
	bool still = true; /* nothing has been written: a call here has no arguments */
	int forks = MAX_FORKS;

	constants_clear(&constants);
	while (step(pursuit, address, &instruction) && instruction.operation != OPERATION_END) {
		const uint64_t next = address + instruction.length;
		if (instruction.operation == OPERATION_CALL && still) {
			search(pursuit, next, RESULT, branches - 1); /* PyErr_Occurred() */
			return;
		}
		if (instruction.operation == OPERATION_CALL ||
		    instruction.operation == OPERATION_BRANCH) {
			if (has_fresh(&constants))
				chase(pursuit, address, constants, &forks);
			return;
		}
		still &= instruction.operation == OPERATION_JUMP || !instruction.written;
		apply(&constants, &instruction, true);
		address = instruction.operation == OPERATION_JUMP ? instruction.value : next;
	}
}

/* Where what the call returned is, from one instruction to the next: one bit a register. */
static uint16_t follow_result(uint16_t result, const struct instruction *instruction)
{
	const uint16_t to = (uint16_t)(1 << instruction->to);

	if (instruction->operation == OPERATION_CALL)
		return result & REGISTERS_KEPT;
	if (instruction->operation == OPERATION_COPY && result >> instruction->from & 1)
		return result | to;
	if (instruction->operation == OPERATION_COPY || instruction->operation == OPERATION_SET)
		return result & (uint16_t)~to;
	return result & (uint16_t)~instruction->written;
}

/* Does the comparison still stand, or is a new one made, in which the result takes part? */
static bool follow_comparison(bool decided, uint16_t result, const struct instruction *instruction)
{
	if (instruction->compared)
		return instruction->compared & result;
	return decided && instruction->operation >= OPERATION_SET;
}

/* Both ways from each branch, as references may be dropped first, to the one that the result
 * decides. */
static void search(struct pursuit *pursuit, uint64_t address, uint16_t result, int branches)
{
	struct constants constants;
	struct instruction instruction;
	bool decided = false;

	constants_clear(&constants);
	while (branches > 0 && result && step(pursuit, address, &instruction) &&
	       instruction.operation != OPERATION_END) {
		const uint64_t next = address + instruction.length;
		if (instruction.operation == OPERATION_CALL &&
		    instruction.value == pursuit->call->callee) {
			if (branches == MAX_BRANCHES) /* no branch: the call always fails */
				arrive(pursuit, &constants);
			return;
		}
		if (instruction.operation == OPERATION_BRANCH && decided) {
			judge(pursuit, next, branches);
			judge(pursuit, instruction.value, branches);
			if (pursuit->line)
				return;
		}
		if (instruction.operation == OPERATION_BRANCH)
			search(pursuit, instruction.value, result, --branches);
		decided = follow_comparison(decided, result, &instruction);
		result = follow_result(result, &instruction);
		apply(&constants, &instruction, true);
		address = instruction.operation == OPERATION_JUMP ? instruction.value : next;
	}
}

int traceback_line_find(const struct elf_image *image, const struct traceback_call *call,
			const char *name, uint64_t site, const char **file)
{
	const char *dot = strrchr(name, '.');
	struct pursuit pursuit = {.image = image, .call = call, .leaf = dot ? dot + 1 : name};

	if (!strcmp(pursuit.leaf, "<lambda>"))
		pursuit.leaf = "lambda";
	else if (!strcmp(pursuit.leaf, "<genexpr>"))
		pursuit.leaf = "genexpr";
	pursuit.leaf_size = strcspn(pursuit.leaf, "[");
	search(&pursuit, site, RESULT, MAX_BRANCHES);
	*file = pursuit.file;
	return pursuit.line > 0 ? pursuit.line : 0;
}
