/* SPDX-License-Identifier: MIT */
/*
 * The first backend: from registers and a copy of the stack to the activations, outwards, one row
 * of call frame information at a time. The PC of the leaf and of a frame that a signal
 * interrupted is exact; all others are return addresses and are looked up one byte earlier.
 * Everything read is hostile: SP must grow at each step, so that every walk ends; only a signal
 * frame may lead elsewhere (sigaltstack), and those are counted.
 */
#include "unwind/internal.h"
#include "unwind/walk_cache.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/alloc.h"

/* For unknown_register_find: a walk from there goes on. */
static bool goes_on(struct unwinder *unwinder, const struct registers *caller)
{
	enum { TRIAL_STEPS = 64 }; /* a walk that still goes on will not end in nonsense */
	const size_t steps = unwinder->guess_steps;
	const size_t most = steps < TRIAL_STEPS ? steps : TRIAL_STEPS;
	const remote_addr anchor = unwinder->next_anchor;
	struct registers copy = *caller;
	bool exact = false;
	unwinder->guess_steps = most;
	unwinder->next_anchor = 0;
	const enum unwind_end end = snapshot_walk(unwinder, &copy, &exact, NULL);
	unwinder->next_anchor = anchor;
	unwinder->guess_steps = steps - (most - unwinder->guess_steps);
	return end == UNWIND_END_OUTERMOST || (end == UNWIND_END_LIMIT && most == TRIAL_STEPS);
}

/* What the step from here has missed, where it can be found; `stack` NULL: a trial. */
static bool find_register(struct unwinder *unwinder, struct walk_position *place,
			  struct unwind_stack *stack)
{
	struct registers registers = unwinder->registers;
	const int number = unwinder->unknown_register;
	bool proven;
	position_registers(place, &registers);
	unwinder->unknown_register = number; /* and not what was asked for just now */
	if (!unknown_register_find(unwinder, &registers, place->exact, !stack, goes_on, &proven))
		return false;
	if (!position_set(unwinder, &registers, place))
		return false;
	if (!stack)
		return true;
	struct unwind_frame *const frame = &stack->frames[stack->count - 1];
	unwind_frame_save(frame, &place->cursor);
	frame->guessed = !proven;
	stack->guessed += frame->guessed;
	return true;
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

/* A return address into nowhere is no frame; an exact PC is one wherever it is. */
static void add_frame(struct unwind_stack *stack, struct walk_position *place,
		      const struct unwind_row *row, enum unwind_end end)
{
	if (end == UNWIND_END_UNMAPPED && !place->exact)
		return;
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
 * file's entry point says.
 */
static bool is_entry_point(struct unwinder *unwinder, const struct walk_position *place)
{
	enum { ENTRY_SIZE = 64 }; /* of glibc's and musl's _start */
	const remote_addr pc = place->pc - !place->exact;
	const struct mapping *const mapping = module_table_find(unwinder->modules, pc);
	const struct module *const module = mapping ? mapping->module : NULL;
	return module && module->headers.entry &&
	       pc - module->load_bias - module->headers.entry < ENTRY_SIZE;
}

static bool is_root(const struct unwinder *unwinder, const struct unwind_row *row)
{
	for (size_t i = 0; i < unwinder->request.root_count; i++)
		if (unwinder->request.roots[i] == row->function)
			return row->function != 0;
	return false;
}

/*
 * A trial has come to an activation that is known to be on the stack; or through several frames to
 * code made at run time, which has no information to go on by: no stale word leads so far.
 */
static bool is_proved(struct unwinder *unwinder, const struct walk_position *place, remote_addr sp,
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

static const struct unwind_row *row_of(struct unwinder *unwinder, const struct walk_position *place)
{
	return row_find(unwinder, place->exact ? place->pc : place->pc - 1);
}

/* UNWIND_END_LIMIT stands for "go on". */
static enum unwind_end step_on(struct unwinder *unwinder, const struct unwind_row *row,
			       struct walk_position *place, struct unwind_stack *stack)
{
	const enum unwind_end end = position_step(unwinder, row, place);
	if (end != UNWIND_END_REGISTER || !find_register(unwinder, place, stack))
		return end;
	return position_step(unwinder, row_of(unwinder, place), place);
}

/* Why a walk ends at this frame, if its row does not lead on. */
static enum unwind_end end_without_row(struct unwinder *unwinder, const struct unwind_row *row,
				       const struct walk_position *place, bool distrusted)
{
	const enum unwind_end end = distrusted ? UNWIND_END_NO_INFO : end_of_row(row);
	return end == UNWIND_END_NO_INFO && is_entry_point(unwinder, place) ? UNWIND_END_OUTERMOST
									    : end;
}

/*
 * A trial has gone from a frame of that row to one that has not called it. From a stale word a walk
 * comes back to the true stack by stale frames, all of which have a call before them.
 */
static bool is_refuted(struct unwinder *unwinder, const struct unwind_row *row,
		       const struct walk_position *place, size_t steps)
{
	enum { STEPS_CHECKED = 8 };
	return steps <= STEPS_CHECKED && row->kind == ROW_FOUND && row->function &&
	       !row->signal_frame && !place->exact &&
	       call_contradicts(unwinder, place->pc, row->function);
}

/* Of a trial: it is proved, or refuted, by the step from a frame with that row and SP. Else the
 * frame's CFA is known. UNWIND_END_LIMIT stands for "go on". */
static enum unwind_end leave_frame(struct unwinder *unwinder, const struct unwind_row *row,
				   const struct walk_position *place, remote_addr sp, size_t steps,
				   struct unwind_stack *stack)
{
	if (stack)
		stack->frames[stack->count - 1].cfa = place->sp;
	else if (is_refuted(unwinder, row, place, steps))
		return UNWIND_END_BAD;
	else if (is_proved(unwinder, place, sp, steps))
		return UNWIND_END_OUTERMOST;
	return UNWIND_END_LIMIT;
}

static enum unwind_end walk_by_information(struct unwinder *unwinder, struct registers *registers,
					   bool *exact, struct unwind_stack *stack)
{
	struct walk_position place = {.exact = *exact};
	size_t steps = 0;
	if (!position_set(unwinder, registers, &place))
		return UNWIND_END_REGISTER;
	while (may_go_on(unwinder, stack)) {
		const remote_addr sp = place.sp;
		const struct unwind_row *const row = row_of(unwinder, &place);
		const bool distrusted =
			unwinder->request.distrust_leaf && stack && stack->count == 0;
		enum unwind_end end = end_without_row(unwinder, row, &place, distrusted);
		if (stack)
			add_frame(stack, &place, row, end);
		if (is_root(unwinder, row))
			return UNWIND_END_OUTERMOST;
		const bool found = row->kind == ROW_FOUND && !distrusted;
		/* Where longjmp goes, registers say. */
		if (found && !row->moves_sp && stack && walk_cache_rest(unwinder, stack))
			return UNWIND_END_OUTERMOST;
		if (found)
			end = step_on(unwinder, row, &place, stack);
		else
			position_registers(&place, registers);
		*exact = place.exact;
		if (end == UNWIND_END_LIMIT)
			end = leave_frame(unwinder, row, &place, sp, ++steps, stack);
		if (end != UNWIND_END_LIMIT)
			return end;
	}
	return UNWIND_END_LIMIT;
}

/* From a frame without information to its caller, where the code tells; `stack` NULL: a trial. */
static bool leave_by_code(struct unwinder *unwinder, struct registers *registers, bool *exact,
			  struct unwind_stack *stack)
{
	struct analysed analysed = {.proven = true, .only = true};
	const bool trampoline = epilogue_caller(unwinder, registers, exact) ||
				closure_caller(unwinder, registers, exact);
	if (!trampoline) {
		if (is_signal_frame(unwinder, registers) ||
		    !analysed_caller(unwinder, registers, *exact, &analysed))
			return false;
		*registers = analysed.caller;
		*exact = false;
	}
	if (!stack)
		return true;
	struct unwind_frame *const frame = &stack->frames[stack->count - 1];
	frame->cfa = registers->value[REGISTER_RSP];
	frame->trampoline = trampoline;
	frame->guessed = !analysed.proven;
	stack->guessed += frame->guessed;
	if (!frame->function) {
		frame->function = analysed.entry;
		frame->analysed = !analysed.only;
	}
	return true;
}

/* Such a system call, and what follows it until the child's code begins: test %rax,%rax; jl. */
static bool is_behind_clone(const uint8_t *bytes, size_t size)
{
	static const uint8_t clone[] = {0xb8, 0x38, 0, 0, 0, 0x0f, 0x05},
			     clone3[] = {0xb8, 0xb3, 1, 0, 0, 0x0f, 0x05},
			     test[] = {0x48, 0x85, 0xc0}, jump[] = {0x7c},
			     far_jump[] = {0x0f, 0x8c};
	const size_t call = sizeof(clone), tested = call + sizeof(test);
	if (memcmp(bytes, clone, call) != 0 && memcmp(bytes, clone3, call) != 0)
		return false;
	if (size == call)
		return true;
	if (memcmp(bytes + call, test, sizeof(test)) != 0)
		return false;
	return size == tested || (size == tested + 2 && bytes[tested] == jump[0]) ||
	       (size == tested + 6 && memcmp(bytes + tested, far_jump, sizeof(far_jump)) == 0);
}

/*
 * Where a thread that has just been cloned may be: nobody called where it begins, behind the system
 * call that gave it a stack of its own, and no return address is there. glibc ends the information
 * of clone and clone3 before that call.
 */
static bool stands_behind_clone(const struct unwinder *unwinder, remote_addr pc)
{
	static const uint8_t sizes[] = {7, 10, 12, 16};
	const struct mapping *const mapping = module_table_find(unwinder->modules, pc);
	uint8_t bytes[16];
	for (size_t i = 0; mapping && mapping->module && i < sizeof(sizes); i++)
		if (code_read(mapping->module, pc - sizes[i], bytes, sizes[i]) == sizes[i] &&
		    is_behind_clone(bytes, sizes[i]))
			return true;
	return false;
}

enum unwind_end snapshot_walk(struct unwinder *unwinder, struct registers *registers, bool *exact,
			      struct unwind_stack *stack)
{
	for (;;) {
		const enum unwind_end end = walk_by_information(unwinder, registers, exact, stack);
		if (end != UNWIND_END_NO_INFO)
			return end;
		const bool known = registers->known >> REGISTER_RAX & 1;
		const bool returned = known && registers->value[REGISTER_RAX] != 0;
		const bool begun = *exact && !returned &&
				   stands_behind_clone(unwinder, registers->value[REGISTER_RIP]);
		/* Where RAX is not known, it may be the thread that made it, which has its stack.
		 */
		if (begun && known)
			return UNWIND_END_OUTERMOST;
		if (!leave_by_code(unwinder, registers, exact, stack))
			return begun ? UNWIND_END_OUTERMOST : end;
	}
}

/*
 * glibc's and musl's sigreturn trampoline where its unwind information is missing: SP is at the
 * ucontext (Linux arch/x86/include/uapi/asm/sigcontext.h: struct sigcontext_64, 40 bytes in).
 */
bool is_signal_frame(struct unwinder *unwinder, const struct registers *registers)
{
	static const uint8_t code[] = {0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05};
	const remote_addr pc = registers->value[REGISTER_RIP];
	const struct mapping *const mapping = module_table_find(unwinder->modules, pc);
	uint8_t bytes[sizeof(code)];
	return mapping && mapping->module &&
	       module_read(mapping->module, pc - mapping->module->load_bias, bytes, sizeof(bytes),
			   NULL) &&
	       memcmp(bytes, code, sizeof(code)) == 0;
}
