/* SPDX-License-Identifier: MIT */
/*
 * The second backend and the oracle of the first: libunwind-ptrace's own accessors and its own
 * table lookup on a stopped thread that the calling thread traces. libunwind guesses by RBP where
 * its lookup fails and does not say so: the lookup is wrapped, and the step after a failed one is
 * discarded.
 */
#include "unwind/internal.h"

#include <libunwind-ptrace.h>

#include "base/alloc.h"

struct oracle {
	unw_addr_space_t plain; /* libunwind-ptrace's own, for its own lookup */
	void *thread;		/* its argument */
	bool no_info;		/* a lookup failed */
};

static int find_proc_info(unw_addr_space_t space, unw_word_t ip, unw_proc_info_t *info, int need,
			  void *argument)
{
	struct oracle *const oracle = argument;
	(void)space;
	const int result = _UPT_find_proc_info(oracle->plain, ip, info, need, oracle->thread);
	oracle->no_info |= result < 0;
	return result;
}

static void put_unwind_info(unw_addr_space_t space, unw_proc_info_t *info, void *argument)
{
	struct oracle *const oracle = argument;
	(void)space;
	_UPT_put_unwind_info(oracle->plain, info, oracle->thread);
}

static int get_dyn_info_list_addr(unw_addr_space_t space, unw_word_t *list, void *argument)
{
	(void)space, (void)list, (void)argument;
	return -UNW_ENOINFO;
}

static int access_mem(unw_addr_space_t space, unw_word_t address, unw_word_t *value, int write,
		      void *argument)
{
	struct oracle *const oracle = argument;
	(void)space;
	return write ? -UNW_EINVAL
		     : _UPT_access_mem(oracle->plain, address, value, 0, oracle->thread);
}

static int access_reg(unw_addr_space_t space, unw_regnum_t number, unw_word_t *value, int write,
		      void *argument)
{
	struct oracle *const oracle = argument;
	(void)space;
	return write ? -UNW_EBADREG
		     : _UPT_access_reg(oracle->plain, number, value, 0, oracle->thread);
}

static int access_fpreg(unw_addr_space_t space, unw_regnum_t number, unw_fpreg_t *value, int write,
			void *argument)
{
	(void)space, (void)number, (void)value, (void)write, (void)argument;
	return -UNW_EBADREG;
}

static int resume(unw_addr_space_t space, unw_cursor_t *cursor, void *argument)
{
	(void)space, (void)cursor, (void)argument;
	return -UNW_EINVAL;
}

static int get_proc_name(unw_addr_space_t space, unw_word_t address, char *name, size_t size,
			 unw_word_t *offset, void *argument)
{
	(void)space, (void)address, (void)name, (void)size, (void)offset, (void)argument;
	return -UNW_ENOINFO;
}

static void add_frame(struct unwind_stack *stack, unw_cursor_t *cursor, bool exact)
{
	struct unwind_frame *const frame = unwind_stack_add(stack);
	unw_word_t pc = 0, sp = 0;
	unw_get_reg(cursor, UNW_REG_IP, &pc);
	unw_get_reg(cursor, UNW_REG_SP, &sp);
	frame->pc = pc;
	frame->sp = sp;
	frame->pc_kind = exact ? UNWIND_PC_EXACT : UNWIND_PC_RETURN;
	unwind_frame_save(frame, cursor);
}

/* After a step: what is now known about the frame that was left. True: go on to its caller. */
static bool finish_frame(struct unwind_stack *stack, unw_cursor_t *cursor, int result,
			 const struct oracle *oracle)
{
	struct unwind_frame *const frame = &stack->frames[stack->count - 1];
	unw_word_t sp = 0, pc = 0;
	if (oracle->no_info) {
		stack->end = UNWIND_END_NO_INFO;
		return false;
	}
	if (result < 0) {
		stack->end = UNWIND_END_BAD;
		return false;
	}
	/* In 1.6.2 the cursor tells whether the frame just left was a signal frame. */
	frame->signal_frame = unw_is_signal_frame(cursor) > 0;
	if (result == 0 || unw_get_reg(cursor, UNW_REG_IP, &pc) < 0 || pc == 0) {
		stack->end = UNWIND_END_OUTERMOST;
		return false;
	}
	unw_get_reg(cursor, UNW_REG_SP, &sp);
	frame->cfa = sp;
	stack->end = sp <= frame->sp && !frame->signal_frame ? UNWIND_END_BAD : UNWIND_END_LIMIT;
	return stack->end == UNWIND_END_LIMIT;
}

static bool walk(struct oracle *oracle, unw_addr_space_t space, struct unwind_stack *stack)
{
	unw_cursor_t cursor;
	bool exact = true;
	if (unw_init_remote(&cursor, space, oracle) < 0)
		return false;
	for (stack->end = UNWIND_END_LIMIT; stack->count < UNWIND_FRAME_LIMIT;) {
		add_frame(stack, &cursor, exact);
		const int result = unw_step(&cursor);
		if (!finish_frame(stack, &cursor, result, oracle))
			break;
		exact = stack->frames[stack->count - 1].signal_frame;
	}
	return true;
}

static bool unwind_ptrace(struct unwinder *unwinder, const struct unwind_request *request,
			  struct unwind_stack *stack, struct error *error)
{
	(void)unwinder;
	unw_accessors_t accessors = {
		.find_proc_info = find_proc_info,
		.put_unwind_info = put_unwind_info,
		.get_dyn_info_list_addr = get_dyn_info_list_addr,
		.access_mem = access_mem,
		.access_reg = access_reg,
		.access_fpreg = access_fpreg,
		.resume = resume,
		.get_proc_name = get_proc_name,
	};
	unw_addr_space_t space = unw_create_addr_space(&accessors, 0);
	struct oracle oracle = {
		.plain = unw_create_addr_space(&_UPT_accessors, 0),
		.thread = _UPT_create(request->tid),
	};
	bool done = false;
	if (space && oracle.plain && oracle.thread) {
		done = walk(&oracle, space, stack);
		if (!done)
			error_set(error, ERROR_GONE, "cannot read the registers of thread %d",
				  request->tid);
	} else {
		error_set(error, ERROR_SYSTEM, "cannot make an address space of libunwind");
	}
	if (oracle.thread)
		_UPT_destroy(oracle.thread);
	if (oracle.plain)
		unw_destroy_addr_space(oracle.plain);
	if (space)
		unw_destroy_addr_space(space);
	return done;
}

struct unwinder *unwinder_new_ptrace(void)
{
	struct unwinder *const unwinder = alloc_zeroed(1, sizeof(*unwinder));
	unwinder->backend = unwind_ptrace;
	return unwinder;
}
