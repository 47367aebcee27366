/* SPDX-License-Identifier: MIT */
/* Runs the programs of functions that have RSP in another register, which libunwind does not. */
#include <dwarf.h>

#include "cfi/cfi.h"
#include "elf/eh.h"

enum { REGISTER_LIMIT = REGISTER_RIP + 1 };

static int64_t multiply(int64_t value, int64_t factor)
{
	return (int64_t)((uint64_t)value * (uint64_t)factor);
}

static bool set_rule(struct cfi_rules *rules, uint64_t which, enum cfi_where where, int64_t value)
{
	if (which >= REGISTER_LIMIT)
		return false;
	rules->where[which] = where;
	rules->value[which] = value;
	return true;
}

/* One instruction of those that longjmp's programs have; *location moves on. False: another one.
 * Long: one switch over them. */
static bool run_instruction(struct eh_input *in, const struct eh_cie *cie, remote_addr *location,
			    struct cfi_rules *rules)
{
	const uint8_t op = eh_take(in, 1);
	uint64_t which;
	switch (op & 0xc0) {
	case DW_CFA_advance_loc:
		*location += (op & 0x3f) * cie->code_factor;
		return true;
	case DW_CFA_offset:
		return set_rule(rules, op & 0x3f, CFI_AT_CFA,
				multiply((int64_t)eh_take_uleb(in), cie->data_factor));
	case DW_CFA_restore:
		return false;
	}
	switch (op) {
	case DW_CFA_nop:
		return true;
	case DW_CFA_advance_loc1:
		*location += eh_take(in, 1) * cie->code_factor;
		return true;
	case DW_CFA_advance_loc2:
		*location += eh_take(in, 2) * cie->code_factor;
		return true;
	case DW_CFA_advance_loc4:
		*location += eh_take(in, 4) * cie->code_factor;
		return true;
	case DW_CFA_def_cfa:
		rules->cfa_register = eh_take_uleb(in);
		rules->cfa_offset = (int64_t)eh_take_uleb(in);
		return rules->cfa_register < REGISTER_LIMIT;
	case DW_CFA_def_cfa_register:
		rules->cfa_register = eh_take_uleb(in);
		return rules->cfa_register < REGISTER_LIMIT;
	case DW_CFA_def_cfa_offset:
		rules->cfa_offset = (int64_t)eh_take_uleb(in);
		return true;
	case DW_CFA_offset_extended:
		which = eh_take_uleb(in);
		return set_rule(rules, which, CFI_AT_CFA,
				multiply((int64_t)eh_take_uleb(in), cie->data_factor));
	case DW_CFA_offset_extended_sf:
		which = eh_take_uleb(in);
		return set_rule(rules, which, CFI_AT_CFA,
				multiply((int64_t)eh_take_leb(in, true), cie->data_factor));
	case DW_CFA_register:
		which = eh_take_uleb(in);
		return set_rule(rules, which, CFI_IN_REGISTER, (int64_t)eh_take_uleb(in));
	case DW_CFA_undefined:
		return set_rule(rules, eh_take_uleb(in), CFI_NOWHERE, 0);
	case DW_CFA_same_value:
		return set_rule(rules, eh_take_uleb(in), CFI_SAME, 0);
	default:
		return false;
	}
}

static bool run_program(const struct cfi_section *section, size_t at, size_t end,
			const struct eh_cie *cie, remote_addr location, remote_addr address,
			struct cfi_rules *rules)
{
	struct eh_input in = section_input(section, at, end);
	while (in.at < in.end && location <= address) {
		struct cfi_rules next = *rules;
		if (!run_instruction(&in, cie, &location, &next) || in.failed)
			return false;
		if (location <= address)
			*rules = next;
	}
	return true;
}

bool cfi_moved_sp(const struct cfi_section *section, const struct cfi_fde *fde, remote_addr address,
		  struct cfi_rules *rules)
{
	struct eh_input in = section_input(section, fde->offset + 4, section->size);
	struct eh_cie cie;
	const size_t field = in.at;
	const uint64_t distance = eh_take(&in, 4);
	*rules = (struct cfi_rules){.cfa_register = REGISTER_RSP};
	if (in.failed || !cfi_read_cie(section, (int64_t)field - (int32_t)distance, &cie) ||
	    !run_program(section, fde->cie_program, fde->cie_program_end, &cie, 0, 0, rules) ||
	    !run_program(section, fde->program, fde->program_end, &cie, fde->start, address, rules))
		return false;
	for (unsigned i = 0; i < REGISTER_LIMIT; i++)
		if (rules->where[i] == CFI_IN_REGISTER &&
		    (uint64_t)rules->value[i] >= REGISTER_COUNT)
			return false;
	return rules->where[REGISTER_RSP] == CFI_IN_REGISTER &&
	       rules->where[REGISTER_RIP] != CFI_SAME && rules->where[REGISTER_RIP] != CFI_NOWHERE;
}
