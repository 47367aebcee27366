/* SPDX-License-Identifier: MIT */
/*
 * Where a function goes on when what it calls throws, for the analysis of its code: nothing else
 * leads to its landing pads. Which pad a call has the language-specific data area says
 * (elf/landings.c), and the call frame information how many bytes of arguments are off the stack
 * there.
 */
#include "unwind/internal.h"

#include "base/sorted.h"

void landings_read(struct landings *landings, const struct memory_reader *image,
		   const struct cfi_section *section, const struct cfi_fde *fde)
{
	landings->sites = (struct elf_landings){0};
	landings->argument_count = 0;
	if (!fde->lsda ||
	    !elf_landings_read(&landings->sites, image, fde->lsda, fde->start, fde->end))
		return;
	/* Where the stack pointer would be is not known then. */
	if (!cfi_arguments(section, fde, landings->arguments, &landings->argument_count))
		landings_release(landings);
}

void landings_release(struct landings *landings)
{
	elf_landings_release(&landings->sites);
}

bool landings_find(void *context, remote_addr after, struct x86_landing *landing)
{
	const struct landings *const landings = context;
	const struct elf_landing *const site = elf_landings_find(&landings->sites, after - 1);
	if (!site)
		return false;
	const size_t rows = upper_bound(landings->arguments, landings->argument_count,
					sizeof(*landings->arguments),
					offsetof(struct cfi_arguments, start), after - 1);
	*landing = (struct x86_landing){.pad = site->pad,
					.popped = rows ? landings->arguments[rows - 1].bytes : 0};
	return true;
}
