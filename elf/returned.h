/* SPDX-License-Identifier: MIT */
/* What a small function returns: as PyInterpreterState_Head does, a variable or its member. */
#ifndef ELF_RETURNED_H
#define ELF_RETURNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_returned {
	uint64_t variable;
	bool is_member; /* of what the variable points to, at */
	int64_t offset;
};

/* `fixed`: the code is not relocated, addresses may be absolute. False: it does something else. */
bool elf_returned_variable(const uint8_t *code, size_t size, uint64_t address, bool fixed,
			   struct elf_returned *returned);

#endif
