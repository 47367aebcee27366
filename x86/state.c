/* SPDX-License-Identifier: MIT */
/*
 * What is known at an instruction of the registers and of the words of the stack: which of them
 * are addresses of the stack, which hold what the caller had, which are constants. One instruction
 * changes that; where two ways meet, what holds on both is kept.
 */
#include "x86/internal.h"

#include <string.h>

static const struct value unknown = {.kind = VALUE_UNKNOWN};

static struct value pointer(int base, int64_t number)
{
	return (struct value){.kind = VALUE_POINTER, .base = (uint8_t)base, .number = number};
}

static struct value constant(uint64_t number)
{
	return (struct value){.kind = VALUE_CONSTANT, .number = (int64_t)number};
}

bool value_equal(const struct value *a, const struct value *b)
{
	return a->kind == b->kind &&
	       (a->kind == VALUE_UNKNOWN ||
		(a->base == b->base && a->number == b->number && a->entries == b->entries));
}

void state_begin(struct state *state, bool epilogue)
{
	memset(state, 0, sizeof(*state));
	state->epilogue = epilogue;
	for (int i = 0; i < X86_REGISTERS; i++)
		if (epilogue || X86_CALLEE_SAVED & X86_BIT(i))
			state->registers[i] = pointer(i, 0);
	if (!epilogue)
		state->registers[X86_RSP] = pointer(BASE_CFA, -8);
	state->compared.number = state->limit.number = X86_NO_REGISTER;
}

/* ---- words of the stack ---- */

static void drop_slot(struct state *state, size_t i)
{
	state->slots[i] = state->slots[--state->slot_count];
}

/* Words that begin less than 8 below, or within `size` bytes from `offset` on. */
static void forget_words(struct state *state, int base, int64_t offset, int64_t size)
{
	for (size_t i = 0; i < state->slot_count;)
		if (state->slots[i].base == base && state->slots[i].offset > offset - 8 &&
		    state->slots[i].offset < offset + size)
			drop_slot(state, i);
		else
			i++;
}

/* What a call may overwrite: it is below the stack pointer. */
static void forget_below(struct state *state, const struct value *sp)
{
	for (size_t i = 0; i < state->slot_count;)
		if (sp->kind == VALUE_POINTER && state->slots[i].base == sp->base &&
		    state->slots[i].offset < sp->number)
			drop_slot(state, i);
		else
			i++;
}

static bool is_of_stack(int base)
{
	return base >= BASE_CFA || base == X86_RSP || base == X86_RBP;
}

static bool is_worth_keeping(const struct value *value)
{
	return value->kind == VALUE_POINTER &&
	       (is_of_stack(value->base) ||
		(X86_CALLEE_SAVED & X86_BIT(value->base) && value->number == 0));
}

static void store_word(struct state *state, const struct value *at, int64_t displacement,
		       const struct value *value)
{
	const int64_t offset = at->number + displacement;
	if (at->kind != VALUE_POINTER || !is_of_stack(at->base))
		return;
	forget_words(state, at->base, offset, 8);
	if (is_worth_keeping(value) && state->slot_count < SLOTS)
		state->slots[state->slot_count++] =
			(struct slot){.base = at->base, .offset = offset, .value = *value};
}

static struct value load_word(const struct state *state, const struct value *at,
			      int64_t displacement)
{
	const int64_t offset = at->number + displacement;
	if (at->kind != VALUE_POINTER)
		return unknown;
	for (size_t i = 0; i < state->slot_count; i++)
		if (state->slots[i].base == at->base && state->slots[i].offset == offset)
			return state->slots[i].value;
	if (!state->epilogue)
		return unknown;
	return (struct value){.kind = VALUE_WORD, .base = at->base, .number = offset};
}

/* The pointer in the operand's base; unknown with an index, which leads into an array. */
static struct value base_of(const struct state *state, const struct x86_memory *memory)
{
	if (memory->base >= X86_REGISTERS || memory->index != X86_NO_REGISTER)
		return unknown;
	return state->registers[memory->base];
}

/* ---- effects ---- */

static void push(struct state *state, const struct value *value)
{
	struct value *const sp = &state->registers[X86_RSP];
	if (sp->kind != VALUE_POINTER)
		return;
	sp->number -= 8;
	store_word(state, sp, 0, value);
}

static struct value pop(struct state *state)
{
	struct value *const sp = &state->registers[X86_RSP];
	const struct value word = load_word(state, sp, 0);
	sp->number += 8;
	return word;
}

/* No frame is larger; and what is added to it afterwards overflows nothing. */
static bool is_near(int64_t number)
{
	return number < INT64_C(1) << 40 && number > -(INT64_C(1) << 40);
}

static struct value sum(const struct value *a, const struct value *b)
{
	struct value result = *a;
	if ((a->kind == VALUE_POINTER || a->kind == VALUE_CONSTANT) && b->kind == VALUE_CONSTANT) {
		result.number = (int64_t)((uint64_t)a->number + (uint64_t)b->number);
		return a->kind == VALUE_CONSTANT || is_near(result.number) ? result : unknown;
	}
	if (a->kind == VALUE_CONSTANT && b->kind == VALUE_POINTER)
		return sum(b, a);
	/* lea table(%rip),%rdx; movslq (%rdx,%rax,4),%rax; add %rdx,%rax */
	if (a->kind == VALUE_TABLE && b->kind == VALUE_CONSTANT && a->number == b->number) {
		result.kind = VALUE_TARGET;
		return result;
	}
	if (b->kind == VALUE_TABLE && a->kind == VALUE_CONSTANT)
		return sum(b, a);
	return unknown;
}

static struct value difference(const struct value *a, const struct value *b)
{
	if (b->kind == VALUE_CONSTANT && a->kind != VALUE_TABLE) {
		const struct value minus = constant(-(uint64_t)b->number);
		return sum(a, &minus);
	}
	if (a->kind == VALUE_POINTER && b->kind == VALUE_POINTER && a->base == b->base)
		return constant((uint64_t)a->number - (uint64_t)b->number);
	return unknown;
}

/* The stack pointer as it is from this address on. */
static struct value moved(uint64_t at, struct moves *moves)
{
	size_t i = 0;
	while (i < moves->count && moves->at[i] != at)
		i++;
	if (i == BASE_LIMIT - BASE_MOVED)
		return unknown;
	if (i == moves->count)
		moves->at[moves->count++] = at;
	return pointer(BASE_MOVED + (int)i, 0);
}

/* Only a mask that clears the lowest bits leaves a pointer near what it was. */
static struct value align(const struct value *value, uint64_t mask, uint64_t at,
			  struct moves *moves)
{
	const uint64_t cleared = ~mask;
	if (value->kind == VALUE_CONSTANT)
		return constant((uint64_t)value->number & mask);
	if (value->kind != VALUE_POINTER || !is_of_stack(value->base) || cleared & (cleared + 1) ||
	    cleared >= 1 << 20)
		return unknown;
	return moved(at, moves);
}

/* An entry of a table of distances; how many there are is known when its index is bounded. */
static struct value table_entry(const struct state *state, const struct x86_memory *memory)
{
	const struct value *table;
	uint8_t index = memory->index;
	if (memory->base >= X86_REGISTERS || index >= X86_REGISTERS || memory->scale != 4)
		return unknown;
	table = &state->registers[memory->base];
	if (table->kind != VALUE_CONSTANT)
		return unknown;
	return (struct value){
		.kind = VALUE_TABLE,
		.number = (int64_t)((uint64_t)table->number + (uint64_t)memory->displacement),
		.entries = state->limit.number == index ? state->limit.below : 0};
}

static struct value result_of(const struct state *state, const struct x86_instruction *instruction,
			      uint64_t at, struct moves *moves)
{
	const struct value *const from =
		instruction->from < X86_REGISTERS ? &state->registers[instruction->from] : &unknown;
	const struct value *const to =
		instruction->to < X86_REGISTERS ? &state->registers[instruction->to] : &unknown;
	const struct value number = constant(instruction->value);
	const struct value base = base_of(state, &instruction->memory);
	switch (instruction->effect) {
	case X86_SET:
		return number;
	case X86_COPY:
	case X86_SWAP:
		return *from;
	case X86_ADD:
		return sum(from, &number);
	case X86_SUM:
		return sum(to, from);
	case X86_SUBTRACT:
		return difference(to, from);
	case X86_ALIGN:
		return align(to, instruction->value, at, moves);
	case X86_LOAD:
		return load_word(state, &base, instruction->memory.displacement);
	case X86_LOAD_I32:
		return table_entry(state, &instruction->memory);
	default:
		return unknown;
	}
}

/* Which register is known to be below a number: copies of it, too. */
static void follow_limit(struct limit *limit, const struct x86_instruction *instruction)
{
	if (limit->number == X86_NO_REGISTER)
		return;
	if ((instruction->effect == X86_NARROW || instruction->effect == X86_COPY ||
	     instruction->effect == X86_COPY_U32) &&
	    instruction->from == limit->number)
		limit->number = instruction->to;
	else if (instruction->written & X86_BIT(limit->number))
		limit->number = X86_NO_REGISTER;
}

static void follow_limits(struct state *state, const struct x86_instruction *instruction)
{
	follow_limit(&state->limit, instruction);
	if (instruction->is_limit && instruction->value < UINT16_MAX - 1) {
		const unsigned number = (unsigned)__builtin_ctz(instruction->compared);
		state->compared = (struct limit){(uint8_t)number, (uint16_t)instruction->value};
	} else if (instruction->compared) {
		state->compared.number = X86_NO_REGISTER;
	} else {
		follow_limit(&state->compared, instruction);
	}
}

static void store_operand(struct state *state, const struct x86_instruction *instruction)
{
	const struct value base = base_of(state, &instruction->memory);
	const int64_t displacement = instruction->memory.displacement;
	if (instruction->effect == X86_STORE)
		store_word(state, &base, displacement,
			   instruction->from < X86_REGISTERS ? &state->registers[instruction->from]
							     : &unknown);
	else if (base.kind == VALUE_POINTER && instruction->stored != X86_STORED) /* an array */
		forget_words(state, base.base, base.number + displacement, instruction->stored);
}

static void call(struct state *state, unsigned kept, uint64_t at)
{
	for (int i = 0; i < X86_REGISTERS; i++)
		if (!((X86_CALLEE_SAVED | kept) & X86_BIT(i)) && i != X86_RSP)
			state->registers[i] = unknown;
	forget_below(state, &state->registers[X86_RSP]);
	state->compared.number = state->limit.number = X86_NO_REGISTER;
	state->last_call = at;
}

/* Whatever it was made of, it is a pointer, and what is stored by it is found by it. */
static void settle_sp(struct state *state, uint64_t at, struct moves *moves)
{
	struct value *const sp = &state->registers[X86_RSP];
	if (sp->kind != VALUE_POINTER)
		*sp = moved(at, moves);
}

static bool writes_to(const struct x86_instruction *instruction)
{
	return instruction->to < X86_REGISTERS && instruction->written & X86_BIT(instruction->to);
}

void state_apply(struct state *state, const struct x86_instruction *instruction, uint64_t at,
		 struct moves *moves)
{
	struct value *const registers = state->registers;
	if (instruction->flow == X86_CALL) {
		follow_limits(state, instruction);
		if (instruction->target == at + instruction->length)
			push(state, &unknown); /* call 1f; 1: pop %rbx */
		else
			call(state, instruction->kept, at);
		return;
	}
	const struct value from =
		instruction->from < X86_REGISTERS ? registers[instruction->from] : unknown;
	struct value result = unknown;
	if (writes_to(instruction))
		result = result_of(state, instruction, at, moves);
	follow_limits(state, instruction);
	if (instruction->stored)
		store_operand(state, instruction);
	if (instruction->effect == X86_PUSH) {
		push(state, &from);
		return;
	}
	if (instruction->effect == X86_LEAVE) {
		registers[X86_RSP] = registers[X86_RBP];
		settle_sp(state, at, moves);
		registers[X86_RBP] = pop(state);
		return;
	}
	if (instruction->effect == X86_POP) {
		const struct value word = pop(state);
		if (instruction->to < X86_REGISTERS)
			registers[instruction->to] = word;
		settle_sp(state, at, moves);
		return;
	}
	unsigned written = instruction->written;
	if (instruction->effect == X86_SWAP) {
		registers[instruction->from] = registers[instruction->to];
		written &= ~X86_BIT(instruction->from);
	}
	for (; written; written &= written - 1)
		registers[__builtin_ctz(written)] = unknown;
	if (writes_to(instruction))
		registers[instruction->to] = result;
	settle_sp(state, at, moves);
}

void state_pop(struct state *state, uint64_t bytes, uint64_t at, struct moves *moves)
{
	struct value *const sp = &state->registers[X86_RSP];
	const struct value number = constant(bytes);
	*sp = sum(sp, &number);
	settle_sp(state, at, moves);
}

/* True when it was not yet what it is from here on. */
static bool merge_sp(struct state *state, uint64_t at, struct moves *moves)
{
	struct value *const sp = &state->registers[X86_RSP];
	const struct value meeting = moved(at, moves);
	if (value_equal(sp, &meeting))
		return false;
	*sp = meeting;
	return true;
}

/* The same word has the same value; mostly it is in the same place. */
static bool holds_word(const struct state *state, size_t i, const struct slot *slot)
{
	const struct slot *const same = &state->slots[i];
	if (i < state->slot_count && same->base == slot->base && same->offset == slot->offset)
		return value_equal(&same->value, &slot->value);
	const struct value place = pointer(slot->base, slot->offset);
	const struct value there = load_word(state, &place, 0);
	return value_equal(&slot->value, &there);
}

/* Forgets it where the other state has another one; true: it did. */
static bool merge_limit(struct limit *limit, const struct limit *other)
{
	if (limit->number == X86_NO_REGISTER ||
	    (limit->number == other->number && limit->below == other->below))
		return false;
	limit->number = X86_NO_REGISTER;
	return true;
}

bool state_merge(struct state *state, const struct state *other, uint64_t at, struct moves *moves)
{
	bool lost = false;
	if (!value_equal(&state->registers[X86_RSP], &other->registers[X86_RSP]))
		lost = merge_sp(state, at, moves);
	for (int i = 0; i < X86_REGISTERS; i++)
		if (i != X86_RSP && state->registers[i].kind != VALUE_UNKNOWN &&
		    !value_equal(&state->registers[i], &other->registers[i])) {
			state->registers[i] = unknown;
			lost = true;
		}
	for (size_t i = 0; i < state->slot_count;) {
		if (holds_word(other, i, &state->slots[i])) {
			i++;
			continue;
		}
		drop_slot(state, i);
		lost = true;
	}
	lost |= merge_limit(&state->limit, &other->limit);
	lost |= merge_limit(&state->compared, &other->compared);
	if (state->last_call && state->last_call != other->last_call) {
		state->last_call = 0;
		lost = true;
	}
	return lost;
}
