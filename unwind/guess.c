/* SPDX-License-Identifier: MIT */
/*
 * From an activation without unwind information whose code does not tell its caller (analysed.c),
 * or a call through a bad pointer: the word on the stack that follows a call instruction and from
 * which a walk reaches the thread's outermost frame, or the frame that the next anchor lies in
 * (beyond it there may be more code without information than a trial passes). All of the stack that
 * was copied is looked at. Where several words do, some are left over from earlier calls: what the
 * call before each calls decides. A guess and marked as one: registers that the code may have
 * changed are not known in the caller. Work is bounded for each call of unwind_thread (guess_walks,
 * guess_steps, guess_words).
 */
#include "unwind/internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"

enum {
	SCAN_WORDS = 1 << 20,	  /* above SP, while there is a copy of them */
	FRAME_POINTER_WORDS = 64, /* below the candidate, where it may have been pushed */
	FRAME_POINTER_REACH = 32 << 20,
	READ_WORDS = 64,
	NESTED_LIMIT = 4, /* activations without information that a trial may pass */
};

/* Why a word may be our return address, best first. */
enum evidence {
	EVIDENCE_CERTAIN, /* the call is of our function, whose code says that it is here */
	EVIDENCE_STRONG,  /* the call is of our function, or of one before it */
	EVIDENCE_WEAK,	  /* the call may lead anywhere */
	EVIDENCE_WEAKEST, /* the call is of another function, which seems not to jump on */
	EVIDENCE_NONE,
};

/* The activation whose caller is looked for. */
struct place {
	const struct registers *registers;
	struct module *module; /* NULL: code of no file, or no code */
	remote_addr gap;       /* where the code without information begins that the PC is in */
	bool exact;	       /* the PC, not a return address */
	int nested;
};

static bool find_caller(struct unwinder *unwinder, const struct registers *registers, bool exact,
			int nested, struct registers *caller);

/* The function that is called there leaves its return address in this word. */
static bool is_put_there(struct unwinder *unwinder, const struct place *place, remote_addr slot,
			 remote_addr entry)
{
	struct analysed analysed;
	return analysed_from(unwinder, place->registers, place->exact, entry, &analysed) &&
	       analysed.caller.value[REGISTER_RSP] == slot + 8;
}

static enum evidence judge(struct unwinder *unwinder, const struct place *place, remote_addr slot,
			   remote_addr address)
{
	const remote_addr pc = place->registers->value[REGISTER_RIP];
	remote_addr target = 0;
	const enum call_kind kind = call_site_find(unwinder, place->module, address, &target);
	if (kind == CALL_NONE)
		return EVIDENCE_NONE;
	const enum row_kind row = row_find(unwinder, address - 1)->kind;
	const bool ours = kind == CALL_TO && place->module && target >= place->gap && target <= pc;
	if (row != ROW_FOUND && !(row == ROW_NO_INFO && ours))
		return EVIDENCE_NONE;
	if (ours)
		return is_put_there(unwinder, place, slot, target) ? EVIDENCE_CERTAIN
								   : EVIDENCE_STRONG;
	if (kind == CALL_UNKNOWN || (kind == CALL_TO && call_target_jumps(unwinder, target)))
		return EVIDENCE_WEAK;
	return EVIDENCE_WEAKEST;
}

/* Only good evidence is worth a guess within a guess. */
static enum unwind_end try_walk(struct unwinder *unwinder, const struct registers *registers,
				int nested)
{
	struct registers copy = *registers, caller;
	bool exact = false;
	if (unwinder->guess_walks == 0)
		return UNWIND_END_LIMIT;
	unwinder->guess_walks--;
	const enum unwind_end end = snapshot_walk(unwinder, &copy, &exact, NULL);
	if (end == UNWIND_END_NO_INFO && nested < NESTED_LIMIT &&
	    find_caller(unwinder, &copy, exact, nested + 1, &caller))
		return UNWIND_END_OUTERMOST;
	return end;
}

static bool try_frame_pointer(struct unwinder *unwinder, struct registers *caller, uint64_t value,
			      int nested)
{
	/* It can only help where it leads further up the stack. */
	const uint64_t distance = value - caller->value[REGISTER_RSP];
	if (value & 7 || distance >= FRAME_POINTER_REACH)
		return false;
	caller->value[REGISTER_RBP] = value;
	caller->known |= 1u << REGISTER_RBP;
	return try_walk(unwinder, caller, nested) == UNWIND_END_OUTERMOST;
}

/* The candidate is at `slot`. RBP is first taken to be unknown: most walks do not need it. */
static bool try_candidate(struct unwinder *unwinder, const struct place *place, remote_addr slot,
			  enum evidence evidence, struct registers *caller)
{
	const struct registers *const callee = place->registers;
	const int nested = evidence <= EVIDENCE_STRONG ? place->nested : NESTED_LIMIT;
	uint64_t pushed, pc;
	if (!memory_read_u64(unwinder->request.memory, slot, &pc, NULL))
		return false;
	memset(caller, 0, sizeof(*caller));
	caller->fs_base = callee->fs_base;
	caller->value[REGISTER_RIP] = pc;
	caller->value[REGISTER_RSP] = slot + 8;
	caller->known = 1u << REGISTER_RIP | 1u << REGISTER_RSP;
	const enum unwind_end end = try_walk(unwinder, caller, nested);
	if (end != UNWIND_END_REGISTER)
		return end == UNWIND_END_OUTERMOST;
	if (unwinder->frame_pointer > slot &&
	    try_frame_pointer(unwinder, caller, unwinder->frame_pointer, nested))
		return true;
	for (int i = 1; i <= FRAME_POINTER_WORDS; i++) {
		const remote_addr at = slot - 8 * i;
		if (at < callee->value[REGISTER_RSP] ||
		    !memory_read_u64(unwinder->request.memory, at, &pushed, NULL))
			break;
		if (try_frame_pointer(unwinder, caller, pushed, nested))
			return true;
	}
	return false;
}

static bool take_signal_frame(struct unwinder *unwinder, struct registers *registers)
{
	static const uint8_t order[] = {
		REGISTER_R8,  REGISTER_R9,  REGISTER_R10, REGISTER_R11, REGISTER_R12, REGISTER_R13,
		REGISTER_R14, REGISTER_R15, REGISTER_RDI, REGISTER_RSI, REGISTER_RBP, REGISTER_RBX,
		REGISTER_RDX, REGISTER_RAX, REGISTER_RCX, REGISTER_RSP, REGISTER_RIP,
	};
	const remote_addr context = registers->value[REGISTER_RSP] + 40;
	uint64_t values[sizeof(order)];
	if (!is_signal_frame(unwinder, registers) ||
	    !memory_read(unwinder->request.memory, context, values, sizeof(values), NULL))
		return false;
	for (size_t i = 0; i < sizeof(order); i++)
		registers->value[order[i]] = values[i];
	registers->known = (1u << REGISTER_COUNT) - 1;
	return true;
}

/* Reads words upwards from `from`; fewer at the end of the copy. */
static size_t read_words(struct unwinder *unwinder, remote_addr from, uint64_t *words, size_t count)
{
	size_t got = 0;
	if (count > unwinder->guess_words)
		count = unwinder->guess_words;
	unwinder->guess_words -= count;
	if (memory_read(unwinder->request.memory, from, words, count * sizeof(*words), NULL))
		return count;
	while (got < count &&
	       memory_read_u64(unwinder->request.memory, from + 8 * got, words + got, NULL))
		got++;
	return got;
}

/* What the words above SP may be: enum evidence. */
struct judged {
	uint8_t *evidence;
	size_t capacity;
};

/* Judges the words above SP and returns their number; ends with *found at one that is certain and
 * holds: no other can be better. */
static size_t judge_words(struct unwinder *unwinder, const struct place *place,
			  struct judged *judged, size_t count, struct registers *caller,
			  bool *found)
{
	const remote_addr sp = place->registers->value[REGISTER_RSP];
	uint64_t words[READ_WORDS];
	for (size_t i = 0, got = READ_WORDS; i < count && got == READ_WORDS; i += got) {
		got = read_words(unwinder, sp + 8 * i, words,
				 count - i < READ_WORDS ? count - i : READ_WORDS);
		judged->evidence = alloc_room(judged->evidence, &judged->capacity, i + got + 1, 1);
		uint8_t *const evidence = judged->evidence;
		for (size_t n = 0; n < got; n++) {
			const remote_addr slot = sp + 8 * (i + n);
			evidence[i + n] = judge(unwinder, place, slot, words[n]);
			if (evidence[i + n] != EVIDENCE_CERTAIN)
				continue;
			*found = try_candidate(unwinder, place, slot, EVIDENCE_CERTAIN, caller);
			if (*found)
				return i + n;
		}
		if (got < READ_WORDS)
			return i + got;
	}
	return count;
}

static bool scan(struct unwinder *unwinder, const struct place *place, size_t count,
		 struct registers *caller)
{
	struct judged judged = {0};
	bool found = false;
	count = judge_words(unwinder, place, &judged, count, caller, &found);
	for (int class = EVIDENCE_STRONG; class < EVIDENCE_NONE && !found; class ++)
		for (size_t i = 0; i < count && !found && unwinder->guess_walks; i++)
			found = judged.evidence[i] == class &&
				try_candidate(unwinder, place,
					      place->registers->value[REGISTER_RSP] + 8 * i, class,
					      caller);
	free(judged.evidence);
	return found;
}

/* The first anchor from SP on; 0: there is none. */
static remote_addr anchor_from(const struct unwinder *unwinder, remote_addr sp)
{
	uint64_t nearest = UINT64_MAX;
	for (size_t i = 0; i < unwinder->request.anchor_count; i++)
		if (unwinder->request.anchors[i] >= sp &&
		    unwinder->request.anchors[i] - sp < nearest)
			nearest = unwinder->request.anchors[i] - sp;
	return nearest == UINT64_MAX ? 0 : sp + nearest;
}

/* How many words above SP the frame can have: an anchor lies in one further out. */
static size_t words_to_anchor(const struct unwinder *unwinder, remote_addr sp)
{
	const remote_addr anchor = anchor_from(unwinder, sp);
	return anchor && (anchor - sp) / 8 < SCAN_WORDS ? (anchor - sp) / 8 : SCAN_WORDS;
}

static bool find_caller(struct unwinder *unwinder, const struct registers *registers, bool exact,
			int nested, struct registers *caller)
{
	const remote_addr pc = registers->value[REGISTER_RIP] - !exact;
	const struct mapping *const mapping = module_table_find(unwinder->modules, pc);
	struct place place = {.registers = registers, .exact = exact, .nested = nested};
	const struct cfi_section *section;
	struct cfi_fde fde;
	if (mapping && mapping->module) {
		const uint64_t vaddr = pc - mapping->module->load_bias;
		place.module = mapping->module;
		place.gap = mapping->module->load_bias + frame_index_gap(mapping->module, vaddr);
		/* What covers the code is not believed (distrust_leaf). */
		if (frame_index_find(mapping->module, vaddr, &fde, &section))
			place.gap = fde.start;
		if (place.gap < mapping->start)
			place.gap = mapping->start;
	}
	return scan(unwinder, &place, words_to_anchor(unwinder, registers->value[REGISTER_RSP]),
		    caller);
}

/* Nothing was pushed yet by a call that led to no code, and no register was changed. */
static bool find_bad_caller(struct unwinder *unwinder, const struct registers *registers,
			    struct registers *caller)
{
	const struct place place = {.registers = registers, .exact = true};
	struct registers found;
	if (!scan(unwinder, &place, 1, &found))
		return false;
	*caller = *registers;
	caller->value[REGISTER_RIP] = found.value[REGISTER_RIP];
	caller->value[REGISTER_RSP] = found.value[REGISTER_RSP];
	return true;
}

bool guess_caller(struct unwinder *unwinder, struct registers *registers, bool *exact,
		  struct unwind_stack *stack, enum unwind_end why)
{
	/* An exact PC that is no code: a call through a bad pointer. */
	const bool bad_call = why == UNWIND_END_UNMAPPED && *exact;
	struct registers caller;
	size_t signal_frames = 0;
	if (stack->count == 0 || (why != UNWIND_END_NO_INFO && !bad_call))
		return false;
	struct unwind_frame *const frame = &stack->frames[stack->count - 1];
	for (size_t i = 0; why == UNWIND_END_NO_INFO && i < stack->count; i++)
		signal_frames += stack->frames[i].signal_frame;
	if (why == UNWIND_END_NO_INFO && signal_frames < UNWIND_SIGNAL_LIMIT &&
	    take_signal_frame(unwinder, registers)) {
		frame->signal_frame = *exact = true;
		return true;
	}
	/* Code without information that leaves RBP alone may have called more of its kind. */
	if (registers->known >> REGISTER_RBP & 1)
		unwinder->frame_pointer = registers->value[REGISTER_RBP];
	unwinder->next_anchor = anchor_from(unwinder, registers->value[REGISTER_RSP]);
	if (!(bad_call ? find_bad_caller(unwinder, registers, &caller)
		       : find_caller(unwinder, registers, *exact, 0, &caller)))
		return false;
	frame->guessed = true;
	frame->cfa = caller.value[REGISTER_RSP];
	stack->guessed++;
	*registers = caller;
	*exact = false;
	return true;
}
