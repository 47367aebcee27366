/* SPDX-License-Identifier: MIT */
/*
 * Reads CIEs and FDEs in .eh_frame's form, and judges their programs before libunwind runs them:
 * libunwind 1.6.2 (src/dwarf/Gparser.c, Gexpr.c) indexes arrays by unchecked register numbers
 * (DW_CFA_register's second operand, the return address column), asserts that a CFA rule exists,
 * follows backward branches in expressions for ever, and divides INT64_MIN by -1. All bytes here
 * are hostile. It also fails at registers it has no column for (code for the Microsoft ABI saves
 * XMM6-15): it is shown others in place of such instructions. Reads only the
 * section's own bytes.
 * Format: Linux Standard Base, "DWARF Extensions"; DWARF 4, sections 6.4 and 7.23.
 */
#include "unwind/internal.h"

#include <dwarf.h>
#include <string.h>

enum {
	REGISTER_LIMIT = 17,	 /* libunwind's columns: RAX..R15 and the return address */
	PROGRAM_LIMIT = 1 << 20, /* bytes of one program */
	REMEMBER_LIMIT = 64,	 /* nested DW_CFA_remember_state: an allocation each */
	DW_CFA_GNU_negative_offset = 0x2f,
};

struct input {
	const struct cfi_section *section;
	size_t at, end;
	bool failed;
};

static uint64_t take(struct input *in, size_t size)
{
	uint64_t value = 0;
	if (in->failed || in->end - in->at < size) {
		in->failed = true;
		return 0;
	}
	section_need(in->section, in->at, size);
	memcpy(&value, in->section->bytes + in->at, size);
	in->at += size;
	return value;
}

static void skip(struct input *in, uint64_t size)
{
	if (in->failed || in->end - in->at < size)
		in->failed = true;
	else
		in->at += size;
}

/* At most ten bytes, as 64 bits need: libunwind would shift by more than the width. */
static uint64_t take_leb(struct input *in, bool is_signed)
{
	uint64_t value = 0;
	for (unsigned shift = 0; shift < 70; shift += 7) {
		const uint64_t byte = take(in, 1);
		value |= (byte & 0x7f) << shift;
		if (byte & 0x80)
			continue;
		if (is_signed && byte & 0x40 && shift + 7 < 64)
			value |= ~(uint64_t)0 << (shift + 7);
		return value;
	}
	in->failed = true;
	return 0;
}

static uint64_t take_uleb(struct input *in)
{
	return take_leb(in, false);
}

static uint64_t take_raw(struct input *in, uint8_t encoding)
{
	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		return take(in, 8);
	case DW_EH_PE_udata2:
		return take(in, 2);
	case DW_EH_PE_udata4:
		return take(in, 4);
	case DW_EH_PE_sdata2:
		return (uint64_t)(int16_t)take(in, 2);
	case DW_EH_PE_sdata4:
		return (uint64_t)(int32_t)take(in, 4);
	case DW_EH_PE_uleb128:
		return take_uleb(in);
	case DW_EH_PE_sleb128:
		return take_leb(in, true);
	default:
		in->failed = true;
		return 0;
	}
}

/* Absolute or relative to its own place: nothing else is in use on x86-64. */
static uint64_t take_pointer(struct input *in, uint8_t encoding)
{
	const remote_addr here = in->section->start + in->at;
	if (encoding == DW_EH_PE_omit)
		return 0;
	const uint64_t value = take_raw(in, encoding);
	switch (encoding & 0x70) {
	case DW_EH_PE_absptr:
		return value;
	case DW_EH_PE_pcrel:
		return value ? value + here : 0;
	default:
		in->failed = true;
		return 0;
	}
}

struct cie {
	size_t program, program_end;
	uint8_t fde_encoding, lsda_encoding;
	bool sized, signal_frame;
};

/* The letters of a CIE's augmentation: "zR", "zPLR", "zRS" ... */
static void read_augmentation(struct input *in, const char *letters, struct cie *cie)
{
	if (*letters != 'z') {
		in->failed |= *letters != '\0';
		return;
	}
	cie->sized = true;
	const uint64_t size = take_uleb(in);
	const size_t end = in->at + size;
	if (size > in->end - in->at)
		in->failed = true;
	for (letters++; *letters && !in->failed; letters++) {
		switch (*letters) {
		case 'L':
			cie->lsda_encoding = take(in, 1);
			break;
		case 'R':
			cie->fde_encoding = take(in, 1);
			break;
		case 'P':
			take_pointer(in, take(in, 1));
			break;
		case 'S':
			cie->signal_frame = true;
			break;
		default:
			in->failed = true;
		}
	}
	/* libunwind takes the program to start after the last letter's data. */
	if (in->at != end)
		in->failed = true;
}

static bool read_cie(const struct cfi_section *section, size_t offset, struct cie *cie)
{
	struct input in = {.section = section, .at = offset, .end = section->size};
	if (offset >= section->size)
		return false;
	const uint64_t length = take(&in, 4);
	if (in.failed || length >= 0xfffffff0 || length > in.end - in.at)
		return false;
	in.end = in.at + length;
	const uint64_t id = take(&in, 4);
	const uint64_t version = take(&in, 1);
	char letters[8];
	size_t i = 0;
	for (char c = 1; c && !in.failed; i += c != '\0') {
		if (i == sizeof(letters))
			return false;
		letters[i] = c = take(&in, 1);
	}
	if (in.failed || id != 0 || (version != 1 && version != 3))
		return false;
	*cie = (struct cie){.fde_encoding = DW_EH_PE_udata8, .lsda_encoding = DW_EH_PE_omit};
	take_uleb(&in);
	take_leb(&in, true);
	const uint64_t column = version == 1 ? take(&in, 1) : take_uleb(&in);
	read_augmentation(&in, letters, cie);
	cie->program = in.at;
	cie->program_end = in.end;
	return !in.failed && column == REGISTER_RIP && !(cie->fde_encoding & DW_EH_PE_indirect);
}

enum cfi_kind cfi_read(const struct cfi_section *section, size_t offset, struct cfi_fde *fde,
		       size_t *next)
{
	struct input in = {.section = section, .at = offset, .end = section->size};
	if (offset >= section->size)
		return CFI_END;
	const uint64_t length = take(&in, 4);
	if (in.failed || length == 0 || length >= 0xfffffff0 || length > in.end - in.at)
		return CFI_END;
	in.end = in.at + length;
	*next = in.end;
	const size_t field = in.at;
	const uint64_t distance = take(&in, 4);
	struct cie cie;
	if (in.failed || distance == 0 ||
	    !read_cie(section, (int64_t)field - (int32_t)distance, &cie))
		return CFI_OTHER;
	fde->offset = offset;
	fde->start = take_pointer(&in, cie.fde_encoding);
	fde->end = fde->start + take_raw(&in, cie.fde_encoding);
	if (cie.sized) {
		const uint64_t size = take_uleb(&in);
		skip(&in, size);
	}
	fde->program = in.at;
	fde->program_end = in.end;
	fde->cie_program = cie.program;
	fde->cie_program_end = cie.program_end;
	fde->signal_frame = cie.signal_frame;
	return in.failed || fde->end <= fde->start ? CFI_OTHER : CFI_FDE;
}

/* Only forward branches, so that it ends; no division, no calls, no type operators. */
static bool check_expression(struct input in)
{
	while (in.at < in.end && !in.failed) {
		const uint8_t op = take(&in, 1);
		if ((op >= DW_OP_lit0 && op <= DW_OP_lit31) ||
		    (op >= DW_OP_reg0 && op < DW_OP_reg0 + REGISTER_LIMIT))
			continue;
		if (op >= DW_OP_breg0 && op < DW_OP_breg0 + REGISTER_LIMIT) {
			take_uleb(&in);
			continue;
		}
		switch (op) {
		case DW_OP_const1u:
		case DW_OP_const1s:
		case DW_OP_pick:
		case DW_OP_deref_size:
			skip(&in, 1);
			break;
		case DW_OP_const2u:
		case DW_OP_const2s:
			skip(&in, 2);
			break;
		case DW_OP_const4u:
		case DW_OP_const4s:
			skip(&in, 4);
			break;
		case DW_OP_const8u:
		case DW_OP_const8s:
		case DW_OP_addr:
			skip(&in, 8);
			break;
		case DW_OP_constu:
		case DW_OP_consts:
		case DW_OP_plus_uconst:
			take_uleb(&in);
			break;
		case DW_OP_skip:
		case DW_OP_bra:
			if (take(&in, 2) & 0x8000)
				return false;
			break;
		case DW_OP_deref:
		case DW_OP_dup:
		case DW_OP_drop:
		case DW_OP_over:
		case DW_OP_swap:
		case DW_OP_rot:
		case DW_OP_abs:
		case DW_OP_and:
		case DW_OP_minus:
		case DW_OP_mul:
		case DW_OP_neg:
		case DW_OP_not:
		case DW_OP_or:
		case DW_OP_plus:
		case DW_OP_shl:
		case DW_OP_shr:
		case DW_OP_shra:
		case DW_OP_xor:
		case DW_OP_le:
		case DW_OP_ge:
		case DW_OP_eq:
		case DW_OP_lt:
		case DW_OP_gt:
		case DW_OP_ne:
		case DW_OP_nop:
			break;
		default:
			return false;
		}
	}
	return !in.failed;
}

struct check {
	bool has_cfa;	     /* a CFA rule exists by now */
	bool foreign;	     /* the instruction is about a register without a column (XMM6 ...) */
	unsigned remembered; /* DW_CFA_remember_state not restored yet */
	struct cfi_verdict *verdict;
};

static bool take_expression(struct input *in, struct check *check)
{
	const uint64_t size = take_uleb(in);
	struct input block = *in;
	skip(in, size);
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

static bool take_cfa(struct input *in, struct check *check)
{
	check->has_cfa = true;
	return take_uleb(in) < REGISTER_LIMIT;
}

/*
 * "r is in s". Where s has no column (GCC spills to XMM registers) r is not to be had: the
 * instruction becomes DW_CFA_undefined, as it must not become "r is unchanged".
 */
static bool check_moved(struct input *in, struct check *check)
{
	const size_t start = in->at - 1;
	const uint64_t from = take_uleb(in);
	const size_t after = in->at;
	check->foreign = from >= REGISTER_LIMIT;
	if (take_uleb(in) < REGISTER_LIMIT || in->failed || check->foreign)
		return true;
	return from != REGISTER_RSP && from != REGISTER_RIP &&
	       patch(check, start, start + 1, DW_CFA_undefined) &&
	       patch(check, after, in->at, DW_CFA_nop);
}

/* One instruction; false when libunwind must not see it. */
static bool check_instruction(struct input *in, struct check *check)
{
	const uint8_t op = take(in, 1);
	switch (op & 0xc0) {
	case DW_CFA_advance_loc:
		return check->has_cfa;
	case DW_CFA_offset:
	case DW_CFA_restore:
		check->foreign = (op & 0x3f) >= REGISTER_LIMIT;
		if ((op & 0xc0) == DW_CFA_offset)
			take_uleb(in);
		return true;
	}
	switch (op) {
	case DW_CFA_nop:
		return true;
	case DW_CFA_advance_loc1:
		skip(in, 1);
		return check->has_cfa;
	case DW_CFA_advance_loc2:
		skip(in, 2);
		return check->has_cfa;
	case DW_CFA_advance_loc4:
		skip(in, 4);
		return check->has_cfa;
	case DW_CFA_def_cfa:
	case DW_CFA_def_cfa_sf:
		return take_cfa(in, check) && (take_uleb(in), true);
	case DW_CFA_def_cfa_register:
		return check->has_cfa && take_cfa(in, check);
	case DW_CFA_def_cfa_offset:
	case DW_CFA_def_cfa_offset_sf:
	case DW_CFA_GNU_args_size:
		take_uleb(in);
		return true;
	case DW_CFA_def_cfa_expression:
		check->has_cfa = true;
		return take_expression(in, check);
	case DW_CFA_expression:
	case DW_CFA_val_expression:
		check->foreign = take_uleb(in) >= REGISTER_LIMIT;
		return take_expression(in, check);
	case DW_CFA_register:
		return check_moved(in, check);
	case DW_CFA_offset_extended:
	case DW_CFA_offset_extended_sf:
	case DW_CFA_GNU_negative_offset:
		check->foreign = take_uleb(in) >= REGISTER_LIMIT;
		take_uleb(in);
		return true;
	case DW_CFA_restore_extended:
	case DW_CFA_undefined:
	case DW_CFA_same_value:
		check->foreign = take_uleb(in) >= REGISTER_LIMIT;
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
	struct input in = {.section = section, .at = at, .end = end};
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
	verdict->expressions = false;
	verdict->patch_count = 0;
	if (!check_program(section, fde->cie_program, fde->cie_program_end, &check))
		return false;
	check.remembered = 0; /* libunwind starts each program with an empty stack */
	return check_program(section, fde->program, fde->program_end, &check) && check.has_cfa;
}
