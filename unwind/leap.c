/* SPDX-License-Identifier: MIT */
/*
 * From longjmp to where it goes. Once glibc's has read jmp_buf, its call frame information says
 * where the registers of the setjmp's caller are: RIP in RDX, RSP in R8, the CFA is jmp_buf itself
 * (sysdeps/x86_64/__longjmp.S). libunwind takes the CFA for the caller's RSP whatever is said of
 * that (src/x86_64/Gregs.c), so these few instructions are left by the same rules applied here.
 */
#include "unwind/internal.h"

static bool known(const struct registers *registers, uint64_t which)
{
	return registers->known >> which & 1;
}

/* What the caller has in a register; false: not to be had. */
static bool recover(const struct unwinder *unwinder, const struct registers *registers,
		    const struct cfi_rules *rules, unsigned which, uint64_t *value)
{
	const remote_addr cfa = registers->value[rules->cfa_register] + (uint64_t)rules->cfa_offset;
	const uint64_t source = (uint64_t)rules->value[which];
	switch (rules->where[which]) {
	case CFI_SAME:
		*value = registers->value[which];
		return known(registers, which);
	case CFI_AT_CFA:
		return memory_read_u64(unwinder->request.memory, cfa + source, value, NULL);
	case CFI_IN_REGISTER:
		*value = registers->value[source];
		return known(registers, source);
	case CFI_NOWHERE:
		break;
	}
	return false;
}

bool leap_target(struct unwinder *unwinder, struct registers *registers)
{
	const remote_addr pc = registers->value[REGISTER_RIP];
	const struct mapping *const mapping = module_table_find(unwinder->modules, pc);
	struct registers caller = {.fs_base = registers->fs_base};
	const struct cfi_section *section;
	struct cfi_rules rules;
	struct cfi_fde fde;
	if (!mapping || !mapping->module ||
	    !frame_index_find(mapping->module, pc - mapping->module->load_bias, &fde, &section) ||
	    !cfi_moved_sp(section, &fde, pc, &rules) || !known(registers, rules.cfa_register))
		return false;
	for (unsigned i = 0; i < REGISTER_COUNT; i++)
		if (recover(unwinder, registers, &rules, i, &caller.value[i]))
			caller.known |= 1u << i;
	if (!known(&caller, REGISTER_RIP) || !known(&caller, REGISTER_RSP))
		return false;
	*registers = caller;
	return true;
}
