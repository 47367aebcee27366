/* SPDX-License-Identifier: MIT */
/*
 * Judges the programs of CIEs and FDEs before libunwind runs them:
 * libunwind 1.6.2 (src/dwarf/Gparser.c, Gexpr.c) indexes arrays by unchecked register numbers
 * (DW_CFA_register's second operand, the return address column), asserts that a CFA rule exists,
 * follows backward branches in expressions for ever, and divides INT64_MIN by -1. All bytes here
 * are hostile. It also fails at registers it has no column for (code for the Microsoft ABI saves
 * XMM6-15): it is shown others in place of such instructions.
 */
#include <dwarf.h>

#include "cfi/cfi.h"
#include "elf/eh.h"

enum {
	REGISTER_LIMIT = REGISTER_RIP + 1, /* libunwind's columns */
	PROGRAM_LIMIT = 1 << 20,	   /* bytes of one program */
	REMEMBER_LIMIT = 64,		   /* nested DW_CFA_remember_state: an allocation each */
	DW_CFA_GNU_negative_offset = 0x2f,
};

/* What follows an operator. */
enum operand {
	OPERAND_REFUSED,
	OPERAND_NONE,
	OPERAND_1,
	OPERAND_2,
	OPERAND_4,
	OPERAND_8,
	OPERAND_LEB,
	OPERAND_BRANCH
};

/* Those that libunwind may run: no division, no calls, no type operators. */
static const uint8_t operators[256] = {
	[DW_OP_lit0... DW_OP_lit31] = OPERAND_NONE,
	[DW_OP_reg0... DW_OP_reg0 + REGISTER_LIMIT - 1] = OPERAND_NONE,
	[DW_OP_breg0... DW_OP_breg0 + REGISTER_LIMIT - 1] = OPERAND_LEB,
	[DW_OP_const1u] = OPERAND_1,
	[DW_OP_const1s] = OPERAND_1,
	[DW_OP_pick] = OPERAND_1,
	[DW_OP_deref_size] = OPERAND_1,
	[DW_OP_const2u] = OPERAND_2,
	[DW_OP_const2s] = OPERAND_2,
	[DW_OP_const4u] = OPERAND_4,
	[DW_OP_const4s] = OPERAND_4,
	[DW_OP_const8u] = OPERAND_8,
	[DW_OP_const8s] = OPERAND_8,
	[DW_OP_addr] = OPERAND_8,
	[DW_OP_constu] = OPERAND_LEB,
	[DW_OP_consts] = OPERAND_LEB,
	[DW_OP_plus_uconst] = OPERAND_LEB,
	[DW_OP_skip] = OPERAND_BRANCH,
	[DW_OP_bra] = OPERAND_BRANCH,
	[DW_OP_deref] = OPERAND_NONE,
	[DW_OP_dup] = OPERAND_NONE,
	[DW_OP_drop] = OPERAND_NONE,
	[DW_OP_over] = OPERAND_NONE,
	[DW_OP_swap] = OPERAND_NONE,
	[DW_OP_rot] = OPERAND_NONE,
	[DW_OP_abs] = OPERAND_NONE,
	[DW_OP_and] = OPERAND_NONE,
	[DW_OP_minus] = OPERAND_NONE,
	[DW_OP_mul] = OPERAND_NONE,
	[DW_OP_neg] = OPERAND_NONE,
	[DW_OP_not] = OPERAND_NONE,
	[DW_OP_or] = OPERAND_NONE,
	[DW_OP_plus] = OPERAND_NONE,
	[DW_OP_shl] = OPERAND_NONE,
	[DW_OP_shr] = OPERAND_NONE,
	[DW_OP_shra] = OPERAND_NONE,
	[DW_OP_xor] = OPERAND_NONE,
	[DW_OP_le] = OPERAND_NONE,
	[DW_OP_ge] = OPERAND_NONE,
	[DW_OP_eq] = OPERAND_NONE,
	[DW_OP_lt] = OPERAND_NONE,
	[DW_OP_gt] = OPERAND_NONE,
	[DW_OP_ne] = OPERAND_NONE,
	[DW_OP_nop] = OPERAND_NONE,
};

/* Only forward branches, so that it ends. */
static bool check_expression(struct eh_input in)
{
	static const uint8_t sizes[] = {
		[OPERAND_1] = 1, [OPERAND_2] = 2, [OPERAND_4] = 4, [OPERAND_8] = 8};
	while (in.at < in.end && !in.failed) {
		const uint8_t operand = operators[eh_take(&in, 1)];
		if (operand == OPERAND_REFUSED)
			return false;
		if (operand == OPERAND_LEB)
			eh_take_uleb(&in);
		else if (operand != OPERAND_BRANCH)
			eh_skip(&in, sizes[operand]);
		else if (eh_take(&in, 2) & 0x8000)
			return false;
	}
	return !in.failed;
}

struct check {
	bool has_cfa;	     /* a CFA rule exists by now */
	bool foreign;	     /* the instruction is about a register without a column (XMM6 ...) */
	unsigned remembered; /* DW_CFA_remember_state not restored yet */
	struct cfi_verdict *verdict;
};

static bool take_expression(struct eh_input *in, struct check *check)
{
	const uint64_t size = eh_take_uleb(in);
	struct eh_input block = *in;
	eh_skip(in, size);
	block.end = in->at;
	check->verdict->expressions = true;
	return !in->failed && check_expression(block);
}

static bool patch(struct check *check, size_t start, size_t end, uint8_t first)
{
	struct cfi_verdict *const verdict = check->verdict;
	if (verdict->patch_count == CFI_PATCH_LIMIT)
		return false;
	verdict->patches[verdict->patch_count++] = (struct cfi_patch){start, end, first};
	return true;
}

static bool take_cfa(struct eh_input *in, struct check *check)
{
	check->has_cfa = true;
	return eh_take_uleb(in) < REGISTER_LIMIT;
}

/*
 * "r is in s". Where s has no column (GCC spills to XMM registers) r is not to be had: the
 * instruction becomes DW_CFA_undefined, as it must not become "r is unchanged".
 */
static bool check_moved(struct eh_input *in, struct check *check)
{
	const size_t start = in->at - 1;
	const uint64_t from = eh_take_uleb(in);
	const size_t after = in->at;
	check->foreign = from >= REGISTER_LIMIT;
	check->verdict->moves_sp |= from == REGISTER_RSP;
	if (eh_take_uleb(in) < REGISTER_LIMIT || in->failed || check->foreign)
		return true;
	return from != REGISTER_RSP && from != REGISTER_RIP &&
	       patch(check, start, start + 1, DW_CFA_undefined) &&
	       patch(check, after, in->at, DW_CFA_nop);
}

/* One instruction; false when libunwind must not see it. Long: one switch over all there are. */
static bool check_instruction(struct eh_input *in, struct check *check)
{
	const uint8_t op = eh_take(in, 1);
	switch (op & 0xc0) {
	case DW_CFA_advance_loc:
		return check->has_cfa;
	case DW_CFA_offset:
	case DW_CFA_restore:
		check->foreign = (op & 0x3f) >= REGISTER_LIMIT;
		if ((op & 0xc0) == DW_CFA_offset)
			eh_take_uleb(in);
		return true;
	}
	switch (op) {
	case DW_CFA_nop:
		return true;
	case DW_CFA_advance_loc1:
		eh_skip(in, 1);
		return check->has_cfa;
	case DW_CFA_advance_loc2:
		eh_skip(in, 2);
		return check->has_cfa;
	case DW_CFA_advance_loc4:
		eh_skip(in, 4);
		return check->has_cfa;
	case DW_CFA_def_cfa:
	case DW_CFA_def_cfa_sf:
		return take_cfa(in, check) && (eh_take_uleb(in), true);
	case DW_CFA_def_cfa_register:
		return check->has_cfa && take_cfa(in, check);
	case DW_CFA_def_cfa_offset:
	case DW_CFA_def_cfa_offset_sf:
	case DW_CFA_GNU_args_size:
		eh_take_uleb(in);
		return true;
	case DW_CFA_def_cfa_expression:
		check->has_cfa = true;
		return take_expression(in, check);
	case DW_CFA_expression:
	case DW_CFA_val_expression:
		check->foreign = eh_take_uleb(in) >= REGISTER_LIMIT;
		return take_expression(in, check);
	case DW_CFA_register:
		return check_moved(in, check);
	case DW_CFA_offset_extended:
	case DW_CFA_offset_extended_sf:
	case DW_CFA_GNU_negative_offset:
		check->foreign = eh_take_uleb(in) >= REGISTER_LIMIT;
		eh_take_uleb(in);
		return true;
	case DW_CFA_restore_extended:
	case DW_CFA_undefined:
	case DW_CFA_same_value:
		check->foreign = eh_take_uleb(in) >= REGISTER_LIMIT;
		return true;
	case DW_CFA_remember_state:
		return check->has_cfa && ++check->remembered <= REMEMBER_LIMIT;
	case DW_CFA_restore_state:
		return check->remembered-- > 0;
	default:
		return false;
	}
}

static bool check_program(const struct cfi_section *section, size_t at, size_t end,
			  struct check *check)
{
	struct eh_input in = section_input(section, at, end);
	if (end - at > PROGRAM_LIMIT)
		return false;
	while (in.at < in.end) {
		const size_t from = in.at;
		check->foreign = false;
		if (!check_instruction(&in, check) || in.failed)
			return false;
		/* libunwind would fail; nobody asks for these registers */
		if (check->foreign && !patch(check, from, in.at, DW_CFA_nop))
			return false;
	}
	return true;
}

bool cfi_check(const struct cfi_section *section, const struct cfi_fde *fde,
	       struct cfi_verdict *verdict)
{
	struct check check = {.verdict = verdict};
	verdict->expressions = verdict->moves_sp = false;
	verdict->patch_count = 0;
	if (!check_program(section, fde->cie_program, fde->cie_program_end, &check))
		return false;
	check.remembered = 0; /* libunwind starts each program with an empty stack */
	return check_program(section, fde->program, fde->program_end, &check) && check.has_cfa;
}

/* ---- arguments on the stack ---- */

/* By how much an instruction moves on in the code. */
static uint64_t advance_of(struct eh_input in, uint64_t factor)
{
	const uint8_t op = eh_take(&in, 1);
	if ((op & 0xc0) == DW_CFA_advance_loc)
		return (op & 0x3f) * factor;
	switch (op) {
	case DW_CFA_advance_loc1:
		return eh_take(&in, 1) * factor;
	case DW_CFA_advance_loc2:
		return eh_take(&in, 2) * factor;
	case DW_CFA_advance_loc4:
		return eh_take(&in, 4) * factor;
	default:
		return 0;
	}
}

bool cfi_arguments(const struct cfi_section *section, const struct cfi_fde *fde,
		   struct cfi_arguments rows[CFI_ARGUMENTS_LIMIT], size_t *count)
{
	struct eh_input in = section_input(section, fde->program, fde->program_end);
	struct cfi_verdict unused = {0};
	remote_addr location = fde->start;
	*count = 0;
	while (in.at < in.end) {
		struct check check = {.has_cfa = true, .remembered = 1, .verdict = &unused};
		struct eh_input again = in;
		location += advance_of(in, fde->code_factor);
		unused.patch_count = 0;
		if (!check_instruction(&in, &check) || in.failed)
			return false;
		if (eh_take(&again, 1) != DW_CFA_GNU_args_size)
			continue;
		if (*count == CFI_ARGUMENTS_LIMIT)
			return false;
		rows[(*count)++] = (struct cfi_arguments){location, eh_take_uleb(&again)};
	}
	return true;
}
