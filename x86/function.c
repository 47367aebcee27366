/* SPDX-License-Identifier: MIT */
/*
 * From a function's entry along all of its control flow to what is known at each block. Where two
 * ways meet that disagree about the stack pointer, one of them cannot be: mostly it is the one that
 * goes on behind a call that never returns (abort, a throw), which compilers put last before other
 * code. Which of the two it is, a way from there on to a return tells. That call then leads nowhere
 * and all is done once more. What is called may also throw: that leads to a landing pad. A jump by
 * a register is followed where it goes by a table of distances whose index was compared before;
 * else what is behind it is not reached, and so not decided.
 */
#include "x86/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sorted.h"

enum {
	BLOCK_LIMIT = 1 << 14,
	STEP_LIMIT = 1 << 18, /* instructions, in all rounds together */
	ROUND_LIMIT = 24,
	PROBE_STEPS = 400, /* to a return */
	TABLE_ENTRIES = 2048,
	/* From an instruction to returns: that many agree, on so many ways. */
	RETURNS = 3,
	WAYS = 32,
	WAYS_SEEN = 256,
	WAY_STEPS = 4000,
};

struct block {
	uint64_t start, end; /* as far as it was followed */
	uint32_t state;	     /* its number: states are large, and stay where they are */
	bool queued;
};

struct x86_function {
	struct code_pages pages;
	struct block *blocks; /* in order of their start */
	size_t block_count, block_capacity;
	struct state *states; /* of as many blocks */
	size_t state_capacity;
	uint64_t lowest;	       /* no block below it is queued */
	uint64_t under_way, at;	       /* the block that is followed, and how far it is */
	uint64_t endless[ROUND_LIMIT]; /* calls that do not return */
	size_t endless_count;
	struct moves moves;
	size_t steps; /* left */
	uint64_t entry;
	uint16_t kept; /* registers that callees need not save, and it leaves as they are */
	bool again;    /* another round is needed */
	bool overrun;
};

/* ---- blocks ---- */

static size_t blocks_until(const struct x86_function *function, uint64_t address)
{
	return upper_bound(function->blocks, function->block_count, sizeof(*function->blocks),
			   offsetof(struct block, start), address);
}

/* The block that begins there, or NULL. */
static struct block *block_at(const struct x86_function *function, uint64_t address)
{
	const size_t count = blocks_until(function, address);
	struct block *const block = count ? &function->blocks[count - 1] : NULL;
	return block && block->start == address ? block : NULL;
}

/* The first start of a block at or above this address, which is not 0; UINT64_MAX: none. */
static uint64_t next_start(const struct x86_function *function, uint64_t address)
{
	const size_t count = blocks_until(function, address - 1);
	return count < function->block_count ? function->blocks[count].start : UINT64_MAX;
}

static struct state *state_of(const struct x86_function *function, const struct block *block)
{
	return &function->states[block->state];
}

static void enqueue(struct x86_function *function, struct block *block)
{
	block->queued = true;
	if (block->start < function->lowest)
		function->lowest = block->start;
}

/* In the order of their addresses, as most flow goes, each is followed seldom twice. */
static struct block *dequeue(struct x86_function *function)
{
	size_t i = blocks_until(function, function->lowest);
	if (i > 0 && function->blocks[i - 1].start == function->lowest)
		i--;
	while (i < function->block_count && !function->blocks[i].queued)
		i++;
	if (i == function->block_count)
		return NULL;
	function->lowest = function->blocks[i].start;
	function->blocks[i].queued = false;
	return &function->blocks[i];
}

/* A block that was followed beyond this address ends here from now on. */
static void cut_block(struct x86_function *function, uint64_t address)
{
	const size_t count = blocks_until(function, address);
	struct block *const block = count ? &function->blocks[count - 1] : NULL;
	if (!block || block->start == address)
		return;
	/* A loop closes in the one that is under way, of which the end is not known yet. */
	const bool loops = block->start == function->under_way && function->at >= address;
	if (loops || block->end > address)
		enqueue(function, block);
}

static void add_block(struct x86_function *function, uint64_t address, const struct state *state)
{
	if (function->block_count == BLOCK_LIMIT) {
		function->overrun = true;
		return;
	}
	cut_block(function, address);
	function->blocks = alloc_room(function->blocks, &function->block_capacity,
				      function->block_count + 1, sizeof(*function->blocks));
	function->states = alloc_room(function->states, &function->state_capacity,
				      function->block_count + 1, sizeof(*function->states));
	const size_t at = blocks_until(function, address);
	struct block *const block = &function->blocks[at];
	memmove(block + 1, block, (function->block_count - at) * sizeof(*block));
	function->states[function->block_count] = *state;
	*block = (struct block){
		.start = address, .end = address, .state = (uint32_t)function->block_count++};
	enqueue(function, block);
}

/* ---- ways that cannot be ---- */

static bool is_endless(const struct x86_function *function, uint64_t call)
{
	for (size_t i = 0; i < function->endless_count; i++)
		if (function->endless[i] == call)
			return true;
	return false;
}

/* True when there was room: the next round does without what is behind the call. */
static bool blame(struct x86_function *function, uint64_t call)
{
	if (!call || function->endless_count == ROUND_LIMIT || is_endless(function, call))
		return false;
	function->endless[function->endless_count++] = call;
	return function->again = true;
}

enum probe { PROBE_UNKNOWN, PROBE_RETURNS, PROBE_FAILS };

static enum probe judge_return(const struct state *state)
{
	const struct value *const sp = &state->registers[X86_RSP];
	if (!is_pointer_to(sp, BASE_CFA))
		return PROBE_UNKNOWN;
	return sp->number == -8 ? PROBE_RETURNS : PROBE_FAILS;
}

/* One way from here on: does it come to a return with the stack pointer where it was at entry? */
static enum probe probe(struct x86_function *function, uint64_t at, struct state state)
{
	struct x86_instruction instruction;
	for (int i = 0; i < PROBE_STEPS; i++) {
		if (!code_pages_decode(&function->pages, at, &instruction) ||
		    instruction.flow == X86_STOP)
			return PROBE_UNKNOWN;
		if (instruction.flow == X86_RETURN)
			return judge_return(&state);
		if (instruction.flow == X86_JUMP && !instruction.target)
			return PROBE_UNKNOWN;
		state_apply(&state, &instruction, at, &function->moves);
		at = instruction.flow == X86_JUMP ? instruction.target : at + instruction.length;
	}
	return PROBE_UNKNOWN;
}

/* Two ways meet; true: the new one is to be left out. */
static bool settle(struct x86_function *function, struct block *block, const struct state *state,
		   uint64_t just_called)
{
	const struct state *const known = state_of(function, block);
	const struct value *const a = &known->registers[X86_RSP];
	const struct value *const b = &state->registers[X86_RSP];
	if (!is_pointer_to(a, BASE_CFA) || !is_pointer_to(b, BASE_CFA) || value_equal(a, b))
		return false;
	if (just_called && blame(function, just_called))
		return true;
	const enum probe old = probe(function, block->start, *known);
	const enum probe new = probe(function, block->start, *state);
	if (new == PROBE_FAILS && old != PROBE_FAILS &&blame(function, state->last_call))
		return true;
	if (old == PROBE_FAILS && new != PROBE_FAILS)
		blame(function, known->last_call);
	return false;
}

/* ---- the flow ---- */

/* A way leads to that address. `just_called`: nothing is between it and this call; 0: no call. */
static void lead_to(struct x86_function *function, uint64_t address, const struct state *state,
		    uint64_t just_called)
{
	const struct x86_code *const code = function->pages.code;
	if (address < code->start || address >= code->end)
		return;
	struct block *const block = block_at(function, address);
	if (!block) {
		add_block(function, address, state);
		return;
	}
	if (settle(function, block, state, just_called))
		return;
	if (state_merge(state_of(function, block), state, address, &function->moves))
		enqueue(function, block);
}

static void follow_table(struct x86_function *function, const struct state *state,
			 const struct value *target)
{
	const uint64_t table = (uint64_t)target->number;
	for (unsigned i = 0; i < target->entries && i < TABLE_ENTRIES; i++) {
		int32_t distance;
		if (!code_read_i32(function->pages.code, table + 4 * i, &distance))
			return;
		lead_to(function, table + (uint64_t)(int64_t)distance, state, 0);
	}
}

static void follow_jump(struct x86_function *function, const struct state *state,
			const struct x86_instruction *instruction, uint8_t by)
{
	if (instruction->target)
		lead_to(function, instruction->target, state, 0);
	else if (by < X86_REGISTERS && state->registers[by].kind == VALUE_TARGET)
		follow_table(function, state, &state->registers[by]);
}

/* What the comparison before it says where the branch is taken, and where not. */
static void follow_branch(struct x86_function *function, struct state *state,
			  const struct x86_instruction *instruction)
{
	struct limit taken = state->limit, passed = state->limit;
	struct limit below = state->compared;
	if (below.number != X86_NO_REGISTER) {
		const bool with = instruction->condition == X86_ON_ABOVE ||
				  instruction->condition == X86_ON_NOT_ABOVE;
		below.below = (uint16_t)(below.below + with);
		if (instruction->condition == X86_ON_ABOVE ||
		    instruction->condition == X86_ON_NOT_BELOW)
			passed = below;
		else if (instruction->condition != X86_ON_OTHER)
			taken = below;
	}
	state->limit = taken;
	lead_to(function, instruction->target, state, 0);
	state->limit = passed;
}

static bool never_returns(const struct x86_function *function, uint64_t at,
			  const struct x86_instruction *instruction)
{
	const struct x86_code *const code = function->pages.code;
	return is_endless(function, at) ||
	       (instruction->target && code->never_returns &&
		code->never_returns(code->context, instruction->target));
}

/*
 * What it calls may throw. Callee-saved registers and the stack pointer are then as after the call,
 * but it need not return for that: it is not the call's fault where the ways contradict each other.
 */
static void follow_landing(struct x86_function *function, const struct state *state, uint64_t after)
{
	const struct x86_code *const code = function->pages.code;
	struct x86_landing landing;
	if (!code->lands || !code->lands(code->context, after, &landing))
		return;
	struct state landed = *state;
	state_pop(&landed, landing.popped, landing.pad, &function->moves);
	landed.last_call = 0;
	lead_to(function, landing.pad, &landed, 0);
}

/* False: nothing follows the instruction. */
static bool follow(struct x86_function *function, struct state *state,
		   const struct x86_instruction *instruction, uint64_t at)
{
	switch (instruction->flow) {
	case X86_RETURN:
		if (judge_return(state) == PROBE_FAILS)
			blame(function, state->last_call);
		return false;
	case X86_STOP:
		return false;
	case X86_JUMP:
		follow_jump(function, state, instruction, instruction->from);
		return false;
	case X86_BRANCH:
		follow_branch(function, state, instruction);
		return true;
	case X86_CALL:
		called_apply(state, instruction, at, function->pages.code, &function->moves);
		follow_landing(function, state, at + instruction->length);
		return !never_returns(function, at, instruction);
	default:
		state_apply(state, instruction, at, &function->moves);
		return true;
	}
}

static void follow_block(struct x86_function *function, const struct block *block)
{
	struct x86_instruction instruction;
	struct state state = *state_of(function, block);
	const uint64_t start = block->start;
	uint64_t at = start, next = start, just_called = 0;
	size_t block_count = function->block_count;
	bool goes_on = true;
	function->under_way = start;
	while (goes_on && !function->again) {
		function->at = at;
		if (at != start && (next < at || block_count != function->block_count)) {
			next = next_start(function, at);
			block_count = function->block_count;
		}
		if (at != start && next == at) {
			lead_to(function, at, &state, just_called);
			break;
		}
		if (function->steps == 0) {
			function->overrun = true;
			break;
		}
		function->steps--;
		if (!code_pages_decode(&function->pages, at, &instruction)) {
			blame(function, state.last_call);
			break;
		}
		goes_on = follow(function, &state, &instruction, at);
		if (instruction.flow == X86_CALL)
			just_called = at;
		else if (!instruction.is_nop)
			just_called = 0;
		at += instruction.length;
	}
	block_at(function, start)->end = at;
}

static void follow_all(struct x86_function *function)
{
	struct state state;
	state_begin(&state, false);
	do {
		function->again = false;
		function->block_count = 0;
		function->lowest = UINT64_MAX;
		add_block(function, function->entry, &state);
		for (const struct block *block;
		     !function->again && !function->overrun && (block = dequeue(function));)
			follow_block(function, block);
	} while (function->again && !function->overrun);
}

struct x86_function *x86_function_new(const struct x86_code *code, uint64_t entry)
{
	struct x86_function *const function = alloc_zeroed(1, sizeof(*function));
	code_pages_init(&function->pages, code);
	function->entry = entry;
	function->steps = STEP_LIMIT;
	follow_all(function);
	function->kept = function->overrun ? 0 : (uint16_t)called_keeps(&function->pages);
	/* What was not looked at to its end may have been decided otherwise. */
	if (function->overrun)
		function->block_count = 0;
	function->blocks = alloc_resized(function->blocks, function->block_count + 1,
					 sizeof(*function->blocks));
	function->states = alloc_resized(function->states, function->block_count + 1,
					 sizeof(*function->states));
	code_pages_release(&function->pages); /* leaves what was counted */
	return function;
}

void x86_function_free(struct x86_function *function)
{
	if (!function)
		return;
	free(function->blocks);
	free(function->states);
	free(function);
}

size_t x86_function_cost(const struct x86_function *function)
{
	return function->pages.decoded;
}

void x86_function_range(const struct x86_function *function, uint64_t *start, uint64_t *end)
{
	*start = function->pages.lowest;
	*end = function->pages.highest;
}

/* ---- one instruction ---- */

/* What holds at `pc`, or behind the call that ends there. */
static bool state_at(const struct x86_function *function, struct code_pages *pages, uint64_t pc,
		     bool is_return, struct state *state)
{
	struct moves moves = function->moves;
	struct x86_instruction instruction;
	const size_t count = blocks_until(function, pc - is_return);
	if (!count)
		return false;
	const struct block *const block = &function->blocks[count - 1];
	uint64_t at = block->start;
	*state = *state_of(function, block);
	while (at < pc && at < block->end) {
		if (!code_pages_decode(pages, at, &instruction))
			return false;
		const uint64_t next = at + instruction.length;
		if (next == pc && is_return && instruction.flow != X86_CALL)
			return false;
		called_apply(state, &instruction, at, pages->code, &moves);
		at = next;
	}
	return at == pc && (is_return || at < block->end);
}

bool x86_function_row(const struct x86_function *function, const struct x86_code *code, uint64_t pc,
		      bool is_return, unsigned known, struct x86_row *row)
{
	struct code_pages pages;
	struct state state;
	code_pages_init(&pages, code);
	const bool reached = state_at(function, &pages, pc, is_return, &state);
	code_pages_release(&pages);
	if (!reached || !row_of_state(&state, known, row))
		return false;
	row->kept = function->kept;
	return true;
}

bool x86_function_register(const struct x86_function *function, const struct x86_code *code,
			   uint64_t pc, bool is_return, unsigned known, unsigned number,
			   struct x86_place *place, bool *frame)
{
	struct code_pages pages;
	struct state state;
	code_pages_init(&pages, code);
	const bool reached = state_at(function, &pages, pc, is_return, &state);
	code_pages_release(&pages);
	*frame = reached && is_pointer_to(&state.registers[number], BASE_CFA);
	return reached && place_of_register(&state, known, number, place);
}

/* ---- without an entry ---- */

/* At a return the stack pointer is one word below the CFA: that makes all else relative to it. */
static bool row_at_return(const struct state *end, unsigned known, struct x86_row *row)
{
	const struct value *const sp = &end->registers[X86_RSP];
	memset(row, 0, sizeof(*row));
	if (sp->kind != VALUE_POINTER || sp->base >= X86_REGISTERS || !(known & X86_BIT(sp->base)))
		return false;
	/* "push %rcx; ret" is a jump. */
	if (sp->base == X86_RSP && sp->number < 0)
		return false;
	row->cfa = (struct x86_place){X86_PLACE_VALUE, sp->base, (int32_t)(sp->number + 8), 0};
	for (int i = 0; i < X86_REGISTERS; i++) {
		const struct value *const value = &end->registers[i];
		struct x86_place *const place = &row->saved[i];
		if (!(X86_CALLEE_SAVED & X86_BIT(i)) || value->base >= X86_REGISTERS ||
		    !(known & X86_BIT(value->base)) ||
		    (value->kind != VALUE_POINTER && value->kind != VALUE_WORD))
			continue;
		place->kind = value->kind == VALUE_WORD ? X86_PLACE_MEMORY : X86_PLACE_VALUE;
		place->base = value->base;
		place->offset = (int32_t)value->number;
	}
	return true;
}

/* Ways that are still to be followed: a branch makes one more. */
struct way {
	uint64_t at;
	struct state state;
};

struct ways {
	struct way items[WAYS];
	size_t count;
	uint64_t seen[WAYS_SEEN]; /* where branches have led */
	size_t seen_count;
	int steps; /* left */
};

static void add_way(struct ways *ways, uint64_t at, const struct state *state)
{
	for (size_t i = 0; i < ways->seen_count; i++)
		if (ways->seen[i] == at)
			return;
	if (ways->count == WAYS || ways->seen_count == WAYS_SEEN)
		return;
	ways->seen[ways->seen_count++] = at;
	ways->items[ways->count++] = (struct way){at, *state};
}

/* Follows one way; true: it comes to a return, with this state. */
static bool follow_way(struct ways *ways, struct code_pages *pages, struct way *way)
{
	struct moves moves = {0};
	for (; ways->steps > 0; ways->steps--) {
		struct x86_instruction instruction;
		if (!code_pages_decode(pages, way->at, &instruction))
			return false;
		if (instruction.flow == X86_RETURN)
			return true;
		if (instruction.flow == X86_STOP ||
		    (instruction.flow == X86_JUMP && !instruction.target))
			return false;
		state_apply(&way->state, &instruction, way->at, &moves);
		if (instruction.flow == X86_BRANCH)
			add_way(ways, instruction.target, &way->state);
		way->at = instruction.flow == X86_JUMP ? instruction.target
						       : way->at + instruction.length;
	}
	return false;
}

static bool same_place(const struct x86_place *a, const struct x86_place *b)
{
	return a->kind == b->kind && a->base == b->base && a->offset == b->offset;
}

/* False: the two contradict each other. */
static bool agree(struct x86_row *row, const struct x86_row *other)
{
	for (int i = 0; i < X86_REGISTERS; i++)
		if (!same_place(&row->saved[i], &other->saved[i]))
			row->saved[i].kind = X86_PLACE_UNKNOWN;
	return same_place(&row->cfa, &other->cfa);
}

bool x86_epilogue_row(const struct x86_code *code, uint64_t pc, unsigned known, struct x86_row *row)
{
	struct ways *const ways = alloc_zeroed(1, sizeof(*ways));
	struct code_pages pages;
	struct x86_row other;
	struct way way = {.at = pc};
	size_t returns = 0;
	bool well = true;
	ways->steps = WAY_STEPS;
	state_begin(&way.state, true);
	code_pages_init(&pages, code);
	add_way(ways, pc, &way.state);
	while (well && ways->count && returns < RETURNS) {
		way = ways->items[--ways->count];
		if (!follow_way(ways, &pages, &way))
			continue;
		well = row_at_return(&way.state, known, returns ? &other : row) &&
		       (!returns || agree(row, &other));
		returns++;
	}
	code_pages_release(&pages);
	free(ways);
	return well && returns;
}
