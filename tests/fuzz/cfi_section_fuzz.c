/* SPDX-License-Identifier: MIT */
/*
 * One section of CIEs and FDEs in .eh_frame's form, which is all of the input: what is read of it
 * lies within it, and what libunwind may run is judged without harm.
 */
#include "cfi/cfi.h"
#include "tests/fuzz/fuzz.h"

#define START UINT64_C(0x7f0000000000)
enum { ENTRIES = 4096 };

static void check_fde(const struct cfi_section *section, const struct cfi_fde *fde)
{
	static struct cfi_arguments rows[CFI_ARGUMENTS_LIMIT];
	struct cfi_verdict verdict;
	struct cfi_rules rules;
	size_t count;

	if (fde->start >= fde->end || fde->program > fde->program_end ||
	    fde->program_end > section->size || fde->cie_program > fde->cie_program_end ||
	    fde->cie_program_end > section->size)
		abort();
	if (cfi_check(section, fde, &verdict))
		for (size_t i = 0; i < verdict.patch_count; i++)
			if (verdict.patches[i].start >= verdict.patches[i].end ||
			    verdict.patches[i].end > section->size)
				abort();
	if (cfi_arguments(section, fde, rows, &count) && count > CFI_ARGUMENTS_LIMIT)
		abort();
	if (cfi_moved_sp(section, fde, fde->start, &rules) &&
	    rules.where[REGISTER_RSP] != CFI_IN_REGISTER)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* On the heap, where the sanitizer sees what is read behind its padding. */
	uint8_t *const bytes = calloc(size + 8, 1);
	const struct cfi_section section = {.bytes = bytes, .size = size, .start = START};
	struct cfi_fde fde;
	size_t next;

	if (!bytes)
		return 0;
	if (size)
		memcpy(bytes, data, size);
	for (size_t at = 0, entries = 0; entries < ENTRIES; at = next, entries++) {
		const enum cfi_kind kind = cfi_read(&section, at, &fde, &next);
		if (kind == CFI_END)
			break;
		if (next <= at || next > size)
			abort();
		if (kind == CFI_FDE)
			check_fde(&section, &fde);
	}
	free(bytes);
	return 0;
}
