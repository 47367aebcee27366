/* SPDX-License-Identifier: MIT */
/*
 * Rows that the analysis of code gives (x86/x86.h), applied to an activation. None of these may be
 * called in the pause.
 */
#ifndef UNWIND_ROWS_H
#define UNWIND_ROWS_H

#include "unwind/internal.h"

/* The DWARF number of a register that instructions encode so (X86_RAX...). */
int row_register_number(int x86);

/* Those that are known, as bits X86_BIT(). */
unsigned row_registers(const struct registers *registers);

/* Of a stack, or of code in no file; one that fails is counted: what follows from it is not kept.
 */
bool row_read(struct unwinder *unwinder, const struct memory_reader *memory, remote_addr address,
	      void *buffer, size_t size, struct error *error);

/* What a place of the row holds; false: it is not known, or cannot be read. */
bool row_value(struct unwinder *unwinder, const struct registers *registers, remote_addr cfa,
	       const struct x86_place *place, uint64_t *value);

/* The caller's registers; false: the stack does not have them. */
bool row_apply(struct unwinder *unwinder, const struct x86_row *row, const struct registers *callee,
	       struct registers *caller);

#endif
