/* SPDX-License-Identifier: MIT */
/*
 * The first backend: from registers and a copy of the stack to the activations, outwards, one row
 * of call frame information at a time. The PC of the leaf and of a frame that a signal
 * interrupted is exact; all others are return addresses and are looked up one byte earlier.
 * Everything read is hostile: SP must grow at each step, so that every walk ends; only a signal
 * frame may lead elsewhere (sigaltstack), and those are counted.
 */
#include "unwind/internal.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/alloc.h"

struct unwinder *unwinder_new(struct module_table *table)
{
	struct unwinder *const unwinder = alloc_zeroed(1, sizeof(*unwinder));
	unwinder->modules = table;
	unwinder->generation = table->generation;
	unwinder->space = space_new();
	return unwinder;
}

void unwinder_free(struct unwinder *unwinder)
{
	if (!unwinder)
		return;
	for (size_t i = 0; i < unwinder->modules->module_count; i++) {
		frame_index_free(unwinder->modules->modules[i]->unwind_cache);
		unwinder->modules->modules[i]->unwind_cache = NULL;
	}
	if (unwinder->space)
		unw_destroy_addr_space(unwinder->space);
	cache_table_release(&unwinder->answers);
	free(unwinder->rows);
	free(unwinder->ranges);
	free(unwinder->states);
	id_table_release(&unwinder->state_ids);
	free(unwinder);
}

/* Where a walk is: the registers that libunwind's cursor has, and what the public API hides. */
struct place {
	unw_cursor_t cursor;
	remote_addr pc, sp;
	bool exact;
	unsigned signal_frames;
};

static void place_refresh(struct place *place)
{
	unw_word_t value = 0;
	if (unw_get_reg(&place->cursor, UNW_REG_IP, &value) == 0)
		place->pc = value;
	if (unw_get_reg(&place->cursor, UNW_REG_SP, &value) == 0)
		place->sp = value;
}

/* The cursor's registers, for a start from here by other means. */
static void place_registers(struct place *place, struct registers *registers)
{
	struct registers now = {.fs_base = registers->fs_base};
	for (int i = 0; i < REGISTER_COUNT; i++) {
		unw_word_t value;
		if (unw_get_reg(&place->cursor, i, &value) < 0)
			continue;
		now.value[i] = value;
		now.known |= 1u << i;
	}
	now.value[REGISTER_RIP] = place->pc;
	now.value[REGISTER_RSP] = place->sp;
	now.known |= 1u << REGISTER_RIP | 1u << REGISTER_RSP;
	*registers = now;
}

/* UNWIND_END_LIMIT stands for "go on". */
static enum unwind_end step(struct unwinder *unwinder, const struct unwind_row *row,
			    struct place *place)
{
	const remote_addr sp = place->sp;
	const bool signal_frame = row->signal_frame;
	unwinder->unknown_register = unwinder->missing_memory = false;
	unwinder->section = row->section;
	const int result = unw_apply_reg_state(&place->cursor, row->state);
	unwinder->section = NULL;
	if (result < 0)
		return unwinder->unknown_register ? UNWIND_END_REGISTER
		       : unwinder->missing_memory ? UNWIND_END_STACK_COPY
						  : UNWIND_END_BAD;
	place_refresh(place);
	/* A signal may come from a call through NULL; elsewhere 0 is nobody's return address. */
	if (result == 0 || (place->pc == 0 && !signal_frame))
		return UNWIND_END_OUTERMOST;
	/* glibc's vfork keeps its return address in a register: a leaf may have no stack at all. */
	const bool grows = place->sp > sp || (place->sp == sp && place->exact);
	if (signal_frame ? ++place->signal_frames > UNWIND_SIGNAL_LIMIT : !grows)
		return UNWIND_END_BAD;
	place->exact = signal_frame;
	return UNWIND_END_LIMIT;
}

static enum unwind_end end_of_row(const struct unwind_row *row)
{
	switch (row->kind) {
	case ROW_NO_INFO:
		return UNWIND_END_NO_INFO;
	case ROW_UNMAPPED:
	case ROW_NOT_CODE:
		return UNWIND_END_UNMAPPED;
	default:
		return UNWIND_END_BAD;
	}
}

static void add_frame(struct unwind_stack *stack, struct place *place, const struct unwind_row *row)
{
	struct unwind_frame *const frame = unwind_stack_add(stack);
	frame->pc = place->pc;
	frame->sp = place->sp;
	frame->pc_kind = place->exact ? UNWIND_PC_EXACT : UNWIND_PC_RETURN;
	frame->signal_frame = row->signal_frame;
	frame->function = row->function;
	unwind_frame_save(frame, &place->cursor);
}

static bool may_go_on(struct unwinder *unwinder, const struct unwind_stack *stack)
{
	if (stack)
		return stack->count < UNWIND_FRAME_LIMIT;
	return unwinder->guess_steps > 0 && unwinder->guess_steps--;
}

/*
 * A process starts in code that nobody called: where a linker left out its unwind information, the
 * file's entry point tells.
 */
static bool is_entry_point(struct unwinder *unwinder, const struct place *place)
{
	enum { ENTRY_SIZE = 64 }; /* of glibc's and musl's _start */
	const remote_addr pc = place->pc - !place->exact;
	const struct mapping *const mapping = module_table_find(unwinder->modules, pc);
	const struct module *const module = mapping ? mapping->module : NULL;
	return module && module->entry && pc - module->load_bias - module->entry < ENTRY_SIZE;
}

/*
 * A trial has come to an activation that is known to be on the stack; or through several frames to
 * code made at run time, which has no information to go on by: no stale word leads so far.
 */
static bool is_proved(struct unwinder *unwinder, const struct place *place, remote_addr sp,
		      size_t steps)
{
	enum { STEPS_ENOUGH = 3 };
	const remote_addr anchor = unwinder->next_anchor;
	if (anchor && anchor >= sp && anchor < place->sp)
		return true;
	if (steps < STEPS_ENOUGH)
		return false;
	const struct mapping *const mapping = module_table_find(unwinder->modules, place->pc - 1);
	return mapping && (mapping->protection & PROT_EXEC) &&
	       (!mapping->module || mapping->module->origin == MODULE_OF_JIT);
}

static enum unwind_end walk_by_information(struct unwinder *unwinder, struct registers *registers,
					   bool *exact, struct unwind_stack *stack)
{
	struct place place = {.exact = *exact};
	size_t steps = 0;
	unwinder->registers = *registers;
	if (unw_init_remote(&place.cursor, unwinder->space, unwinder) < 0)
		return UNWIND_END_REGISTER;
	place_refresh(&place);
	while (may_go_on(unwinder, stack)) {
		const remote_addr sp = place.sp;
		const struct unwind_row *const row =
			row_find(unwinder, place.exact ? place.pc : place.pc - 1);
		const bool distrusted = unwinder->distrust_leaf && stack && stack->count == 0;
		enum unwind_end end = distrusted ? UNWIND_END_NO_INFO : end_of_row(row);
		if (end == UNWIND_END_NO_INFO && is_entry_point(unwinder, &place))
			end = UNWIND_END_OUTERMOST;
		/* A return address into nowhere is no frame; an exact PC is one wherever it is. */
		if (stack && (end != UNWIND_END_UNMAPPED || place.exact))
			add_frame(stack, &place, row);
		const bool found = row->kind == ROW_FOUND && !distrusted;
		if (found && stack && recall_rest(unwinder, stack))
			return UNWIND_END_OUTERMOST;
		if (found)
			end = step(unwinder, row, &place);
		else
			place_registers(&place, registers);
		*exact = place.exact;
		if (end != UNWIND_END_LIMIT)
			return end;
		if (!stack && is_proved(unwinder, &place, sp, ++steps))
			return UNWIND_END_OUTERMOST;
		if (stack)
			stack->frames[stack->count - 1].cfa = place.sp;
	}
	return UNWIND_END_LIMIT;
}

enum unwind_end snapshot_walk(struct unwinder *unwinder, struct registers *registers, bool *exact,
			      struct unwind_stack *stack)
{
	for (;;) {
		const enum unwind_end end = walk_by_information(unwinder, registers, exact, stack);
		if (end != UNWIND_END_NO_INFO || !(epilogue_caller(unwinder, registers, exact) ||
						   closure_caller(unwinder, registers, exact)))
			return end;
		if (!stack)
			continue;
		stack->frames[stack->count - 1].cfa = registers->value[REGISTER_RSP];
		stack->frames[stack->count - 1].trampoline = true;
	}
}

void unwinder_set_code(struct unwinder *unwinder, const struct memory_reader *code)
{
	unwinder->code = code;
}

void unwinder_distrust_leaf(struct unwinder *unwinder)
{
	unwinder->distrust_leaf = true;
}

void unwinder_set_recall(struct unwinder *unwinder, struct unwind_recall *recall)
{
	unwinder->recall = recall;
}

void unwinder_set_anchors(struct unwinder *unwinder, const remote_addr *anchors, size_t count)
{
	unwinder->anchors = anchors;
	unwinder->anchor_count = count;
}

bool unwind_thread(struct unwinder *unwinder, const struct registers *registers,
		   const struct memory_reader *memory, struct unwind_stack *stack,
		   struct error *error)
{
	struct registers current = *registers;
	bool exact = true;
	stack->count = stack->guessed = stack->recalled = 0;
	stack->recalled_from = 0;
	stack->walk = ++unwinder->walks;
	if (!unwinder->space)
		return error_set(error, ERROR_SYSTEM, "cannot make an address space of libunwind");
	if (~registers->known & (1u << REGISTER_RIP | 1u << REGISTER_RSP))
		return error_set(error, ERROR_CORRUPT, "registers without PC or SP");
	if (unwinder->generation != unwinder->modules->generation)
		rows_flush(unwinder);
	unwinder->generation = unwinder->modules->generation;
	unwinder->memory = memory;
	unwinder->frame_pointer = 0;
	unwinder->guess_walks = 2000;
	unwinder->guess_steps = 200000;
	unwinder->guess_words = 1 << 20;
	recall_begin(unwinder, registers->value[REGISTER_RSP]);
	do {
		stack->end = snapshot_walk(unwinder, &current, &exact, stack);
	} while (guess_caller(unwinder, &current, &exact, stack, stack->end));
	recall_learn(unwinder, stack);
	unwinder->recall = NULL;
	unwinder->memory = NULL;
	unwinder->distrust_leaf = false;
	unwinder_set_anchors(unwinder, NULL, 0);
	return true;
}
