/* SPDX-License-Identifier: MIT */
/*
 * Functions that no table has, as objects are called through a pointer of their own:
 * functools.partial's (vectorcall, PEP 590), and the wrappers of lru_cache, whose tp_call is "jmp
 * *0x38(%rdi)". It is tp_new that takes their addresses.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "stripped/internal.h"
#include "x86/x86.h"

/* Visits the instructions of the function that starts there. */
static void each_instruction(const struct elf_image *image, uint64_t function,
			     void (*visit)(void *context,
					   const struct x86_instruction *instruction),
			     void *context)
{
	const ssize_t number = interval_find(&image->functions, function, image->functions.count);
	size_t size;
	const uint8_t *bytes = image_bytes(image, function, &size);
	struct x86_instruction instruction;

	if (number < 0 || !bytes)
		return;
	const uint64_t end = image->functions.items[number].end;
	for (uint64_t at = function; at < end && size; at += instruction.length) {
		if (!x86_decode(bytes, size < end - at ? size : end - at, at, &instruction))
			return;
		visit(context, &instruction);
		bytes += instruction.length;
		size -= instruction.length;
	}
}

/* Members of objects by their distance, one bit a word: of 8(%rdi) bit 1. */
static uint16_t member_of(const struct x86_instruction *instruction)
{
	const struct x86_memory *memory = &instruction->memory;

	if (!instruction->has_memory || memory->base >= X86_REGISTERS || memory->base == X86_RSP ||
	    memory->base == X86_RBP || memory->index != X86_NO_REGISTER ||
	    memory->displacement <= 0 || memory->displacement >= 128 || memory->displacement % 8)
		return 0;
	return (uint16_t)(1u << memory->displacement / 8);
}

/* Through which members a function calls, or jumps. */
struct uses {
	uint16_t direct, loaded;
	bool jumps; /* to where a register points, which may have been loaded */
};

/* "jmp *0x38(%rdi)", "call *0x38(%rdi)"; "mov 0x38(%rdi), %rax" ... "jmp *%rax", where the compiler
 * has compared it with the likely one meanwhile. */
static void note_use(void *context, const struct x86_instruction *instruction)
{
	struct uses *uses = context;

	if (instruction->flow == X86_JUMP || instruction->flow == X86_CALL)
		uses->direct |= member_of(instruction);
	if (instruction->flow == X86_JUMP && instruction->from < X86_REGISTERS)
		uses->jumps = true;
	if (instruction->effect == X86_LOAD)
		uses->loaded |= member_of(instruction);
}

/* "mov %r14, 0x38(%rax)", "movq $function, 0x38(%rax)" */
static void note_store(void *context, const struct x86_instruction *instruction)
{
	uint16_t *members = context;

	if (instruction->effect == X86_STORE)
		*members |= member_of(instruction);
}

bool maker_sets_what_is_called(const struct elf_image *image, uint64_t maker, uint64_t call)
{
	struct uses uses = {.direct = 0};
	uint16_t stored = 0;

	each_instruction(image, call, note_use, &uses);
	each_instruction(image, maker, note_store, &stored);
	return (uses.direct | (uses.jumps ? uses.loaded : 0)) & stored;
}

/* Above that of the slot, which may call it: one frame. */
enum { LAYER_CALLED = 6 };

struct making {
	struct function_names *functions;
	const struct elf_image *image;
	const char *name;
	const struct maker *maker;
};

/* "lea function(%rip), %rax", "mov $function, %eax", "movq $function, 0x38(%rbx)"; 0: no constant.
 */
static uint64_t constant_of(const struct x86_instruction *instruction)
{
	const bool stored =
		(instruction->effect == X86_STORE || instruction->effect == X86_STORE_U32) &&
		instruction->from == X86_NO_REGISTER;

	return stored || instruction->effect == X86_SET ? instruction->value : 0;
}

static void note(void *context, const struct x86_instruction *instruction)
{
	const struct making *making = context;
	const uint64_t function = constant_of(instruction);

	if (!image_is_function(making->image, function))
		return;
	struct function_name *name =
		&making->functions->items[interval_lower(&making->image->functions, function)];
	if (!name->name)
		*name = (struct function_name){.name = making->name,
					       .module = making->maker->module,
					       .evidence = EVIDENCE_SLOT,
					       .layer = LAYER_CALLED,
					       .by_maker = true};
	else if (name->by_maker && name->name != making->name)
		name->uncertain = true;
}

/* The address may be set in unlikely code, which compilers move to a function of its own. */
enum { PARTS = 8 };
struct parts {
	const struct elf_image *image;
	struct interval whole;
	uint64_t starts[PARTS];
	size_t count;
	bool returns;
};

static bool is_within(const struct interval *range, uint64_t address)
{
	return address > range->start && address < range->end;
}

/* "je part" */
static void note_part(void *context, const struct x86_instruction *instruction)
{
	struct parts *parts = context;
	const struct interval_list *functions = &parts->image->functions;

	if (instruction->flow != X86_BRANCH || !instruction->target ||
	    instruction->target == parts->whole.start ||
	    is_within(&parts->whole, instruction->target))
		return;
	const ssize_t number = interval_find(functions, instruction->target, functions->count);
	const uint64_t start = number >= 0 ? functions->items[number].start : 0;
	bool known = !start || parts->count == PARTS;
	for (size_t i = 0; i < parts->count; i++)
		known |= parts->starts[i] == start;
	if (!known)
		parts->starts[parts->count++] = start;
}

/* "jmp back", into the middle. */
static void note_return(void *context, const struct x86_instruction *instruction)
{
	struct parts *parts = context;

	parts->returns |= (instruction->flow == X86_JUMP || instruction->flow == X86_BRANCH) &&
			  is_within(&parts->whole, instruction->target);
}

static void each_part(const struct elf_image *image, struct making *making)
{
	const uint64_t maker = making->maker->function;
	const ssize_t number = interval_find(&image->functions, maker, image->functions.count);
	struct parts parts = {.image = image};

	if (number < 0)
		return;
	parts.whole = image->functions.items[number];
	each_instruction(image, maker, note_part, &parts);
	for (size_t i = 0; i < parts.count; i++) {
		parts.returns = false;
		each_instruction(image, parts.starts[i], note_return, &parts);
		if (parts.returns)
			each_instruction(image, parts.starts[i], note, making);
	}
}

void maker_names_add(struct function_names *functions, const struct elf_image *image,
		     const struct name_candidates *candidates)
{
	for (size_t i = 0; i < candidates->maker_count; i++) {
		const struct maker *maker = &candidates->makers[i];
		_cleanup_strbuf_ struct strbuf text;
		strbuf_init(&text);
		strbuf_printf(&text, "%s.__call__", maker->owner);
		struct making making = {functions, image,
					intern_bytes(functions->texts, text.text, text.size),
					maker};
		each_instruction(image, maker->function, note, &making);
		each_part(image, &making);
	}
}
