/* SPDX-License-Identifier: MIT */
/*
 * From a frame whose rule needs a register that is not known to that register: a blocked thread
 * reports few, and the frame pointer of the innermost function that has one is on no stack. The
 * function's code tells where it points to (RBP = RSP + 208). Where it does not, the words above
 * the stack pointer are tried: one that is a return address behind a call of this function, and
 * from which the walk goes on. There the stack pointer was moved by a variable (alloca), or to a
 * block that the caller has made: so does libffi's ffi_call_unix64, whose frame is the end of that
 * block, with nothing but arguments below it. What is found is what the rule makes of it: the
 * return address must be behind a call that may lead to the function.
 */
#include "unwind/internal.h"

enum {
	SCAN_WORDS = 8192,
	TRIAL_SCAN_WORDS = 512,
};

struct search {
	struct unwinder *unwinder;
	struct registers *registers;
	struct code_bounds function;
	remote_addr site;
	bool exact;
	int number; /* of the register */
	walk_trial *goes_on;
};

/* From the frame to its caller, if the register has this value. */
static bool step_with(struct search *search, uint64_t value, struct registers *caller)
{
	const struct unwind_row *const row = row_find(search->unwinder, search->site);
	search->registers->value[search->number] = value;
	search->registers->known |= 1u << search->number;
	return row->kind == ROW_FOUND &&
	       step_alone(search->unwinder, row, search->registers, caller);
}

static bool may_be_caller(struct search *search, remote_addr address, bool *calls_entry)
{
	return analysed_may_call(search->unwinder, search->registers, search->exact,
				 &search->function, address, calls_entry);
}

/* *frame: it points to the function's own part of the stack, wherever that is. */
static bool find_by_code(struct search *search, bool *frame)
{
	struct registers caller;
	uint64_t value;
	bool calls_entry;
	return analysed_register(search->unwinder, search->registers, search->exact,
				 &search->function, search->number, &value, frame) &&
	       step_with(search, value, &caller) &&
	       (may_be_caller(search, caller.value[REGISTER_RIP], &calls_entry) ||
		row_find(search->unwinder, caller.value[REGISTER_RIP])->signal_frame);
}

/* The words that are looked at, and what the rule makes of the register. */
struct scan {
	remote_addr at, end;
	uint64_t cfa_offset; /* of the CFA from the register's value */
};

/* The next word that may be the return address; false: there is none. */
static bool next_candidate(struct search *search, struct scan *scan, bool direct,
			   struct registers *caller)
{
	struct unwinder *const unwinder = search->unwinder;
	for (; scan->at < scan->end && unwinder->guess_words > 0; scan->at += 8) {
		const remote_addr cfa = scan->at + 8;
		bool calls_entry;
		uint64_t address;
		unwinder->guess_words--;
		if (!memory_read_u64(unwinder->request.memory, scan->at, &address, NULL))
			return false;
		if (!may_be_caller(search, address, &calls_entry) || calls_entry != direct ||
		    !step_with(search, cfa - scan->cfa_offset, caller) ||
		    caller->value[REGISTER_RSP] != cfa || caller->value[REGISTER_RIP] != address)
			continue;
		scan->at += 8;
		return true;
	}
	return false;
}

/* only: NULL: whether there is another one is not asked. */
static bool scan_for(struct search *search, struct scan scan, bool direct, bool *only)
{
	struct registers caller;
	while (next_candidate(search, &scan, direct, &caller)) {
		const uint64_t value = search->registers->value[search->number];
		if (!search->goes_on(search->unwinder, &caller))
			continue;
		if (only)
			*only = !next_candidate(search, &scan, direct, &caller);
		search->registers->value[search->number] = value;
		return true;
	}
	return false;
}

/*
 * `frame`: between the stack pointer and the return address there is memory of the function's own,
 * which may have what earlier calls have left. Else there are arguments: the first one is it.
 */
static bool find_by_scan(struct search *search, size_t words, bool frame, bool *proven)
{
	const remote_addr sp = search->registers->value[REGISTER_RSP];
	struct registers caller;
	*proven = true;
	if (!step_with(search, sp, &caller))
		return false;
	const struct scan scan = {
		.at = sp, .end = sp + 8 * words, .cfa_offset = caller.value[REGISTER_RSP] - sp};
	if (scan_for(search, scan, true, frame ? proven : NULL))
		return true;
	*proven = false;
	return scan_for(search, scan, false, NULL);
}

bool unknown_register_find(struct unwinder *unwinder, struct registers *registers, bool exact,
			   bool trial, walk_trial *goes_on, bool *proven)
{
	const remote_addr site = registers->value[REGISTER_RIP] - !exact;
	const struct mapping *const mapping = module_table_find(unwinder->modules, site);
	const int number = unwinder->unknown_register;
	const struct cfi_section *section;
	struct cfi_fde fde;
	bool frame = false;
	*proven = true;
	if (number < 0 || !mapping || !mapping->module ||
	    !frame_index_find(mapping->module, site - mapping->module->load_bias, &fde, &section))
		return false;
	struct search search = {
		.unwinder = unwinder,
		.registers = registers,
		.function = {fde.start, fde.end},
		.site = site,
		.exact = exact,
		.number = number,
		.goes_on = goes_on,
	};
	if (find_by_code(&search, &frame))
		return true;
	registers->known &= ~(1u << number);
	/* A trial of ours that needs one more is not worth a scan. */
	if (unwinder->scanning)
		return false;
	unwinder->scanning = true;
	const bool found =
		find_by_scan(&search, trial ? TRIAL_SCAN_WORDS : SCAN_WORDS, frame, proven);
	unwinder->scanning = false;
	return found;
}
