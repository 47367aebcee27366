/* SPDX-License-Identifier: MIT */
/*
 * From one frame to its caller by a row of call frame information, which libunwind applies: to the
 * registers that its cursor has, and the copy of the stack.
 */
#include "unwind/internal.h"

static void refresh(struct walk_position *at)
{
	unw_word_t value = 0;
	if (unw_get_reg(&at->cursor, UNW_REG_IP, &value) == 0)
		at->pc = value;
	if (unw_get_reg(&at->cursor, UNW_REG_SP, &value) == 0)
		at->sp = value;
}

bool position_set(struct unwinder *unwinder, const struct registers *registers,
		  struct walk_position *at)
{
	unwinder->registers = *registers;
	if (unw_init_remote(&at->cursor, unwinder->space, unwinder) < 0)
		return false;
	refresh(at);
	return true;
}

void position_registers(struct walk_position *at, struct registers *registers)
{
	struct registers now = {.fs_base = registers->fs_base};
	for (int i = 0; i < REGISTER_COUNT; i++) {
		unw_word_t value;
		if (unw_get_reg(&at->cursor, i, &value) < 0)
			continue;
		now.value[i] = value;
		now.known |= 1u << i;
	}
	now.value[REGISTER_RIP] = at->pc;
	now.value[REGISTER_RSP] = at->sp;
	now.known |= 1u << REGISTER_RIP | 1u << REGISTER_RSP;
	*registers = now;
}

/* Out of longjmp; false: it has not come so far yet. */
static bool leap(struct unwinder *unwinder, struct walk_position *at)
{
	struct registers registers = unwinder->registers;
	position_registers(at, &registers);
	if (!leap_target(unwinder, &registers))
		return false;
	if (!position_set(unwinder, &registers, at))
		return false;
	at->exact = false;
	return true;
}

enum unwind_end position_step(struct unwinder *unwinder, const struct unwind_row *row,
			      struct walk_position *at)
{
	const remote_addr sp = at->sp;
	const bool signal_frame = row->signal_frame;
	if (row->moves_sp && at->exact && leap(unwinder, at))
		return at->sp >= sp ? UNWIND_END_LIMIT : UNWIND_END_BAD;
	unwinder->missing_memory = false;
	unwinder->unknown_register = -1;
	unwinder->section = row->section;
	const int result = unw_apply_reg_state(&at->cursor, row->state);
	unwinder->section = NULL;
	if (result < 0)
		return unwinder->unknown_register >= 0 ? UNWIND_END_REGISTER
		       : unwinder->missing_memory      ? UNWIND_END_STACK_COPY
						       : UNWIND_END_BAD;
	refresh(at);
	/* A signal may come from a call through NULL; elsewhere 0 is nobody's return address. */
	if (result == 0 || (at->pc == 0 && !signal_frame))
		return UNWIND_END_OUTERMOST;
	/* glibc's vfork keeps its return address in a register: a leaf may have no stack at all. */
	const bool grows = at->sp > sp || (at->sp == sp && at->exact);
	if (signal_frame ? ++at->signal_frames > UNWIND_SIGNAL_LIMIT : !grows)
		return UNWIND_END_BAD;
	at->exact = signal_frame;
	return UNWIND_END_LIMIT;
}

bool step_alone(struct unwinder *unwinder, const struct unwind_row *row,
		const struct registers *registers, struct registers *caller)
{
	struct walk_position at = {0};
	if (!position_set(unwinder, registers, &at))
		return false;
	unwinder->section = row->section;
	const int result = unw_apply_reg_state(&at.cursor, row->state);
	unwinder->section = NULL;
	if (result < 0)
		return false;
	refresh(&at);
	*caller = *registers;
	position_registers(&at, caller);
	return at.sp > registers->value[REGISTER_RSP];
}
