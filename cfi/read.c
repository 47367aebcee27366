/* SPDX-License-Identifier: MIT */
#include <dwarf.h>

#include "cfi/cfi.h"
#include "elf/eh.h"

/* Those that libunwind understands as we do: it takes the program to start after the data of the
 * augmentation's last letter. */
bool cfi_read_cie(const struct cfi_section *section, size_t offset, struct eh_cie *cie)
{
	return offset < section->size &&
	       eh_take_cie(section_input(section, offset, section->size), cie) && cie->exact &&
	       cie->return_register == REGISTER_RIP;
}

/* Of an entry's augmentation; nothing else depends on it. */
static remote_addr take_lsda(struct eh_input in, uint64_t size, uint8_t encoding)
{
	if (size > in.end - in.at || encoding & DW_EH_PE_indirect)
		return 0;
	in.end = in.at + size;
	const remote_addr lsda = eh_take_pointer(&in, encoding);
	return in.failed ? 0 : lsda;
}

enum cfi_kind cfi_read(const struct cfi_section *section, size_t offset, struct cfi_fde *fde,
		       size_t *next)
{
	struct eh_input in = section_input(section, offset, section->size);
	if (offset >= section->size)
		return CFI_END;
	const uint64_t length = eh_take(&in, 4);
	if (in.failed || length == 0 || length >= 0xfffffff0 || length > in.end - in.at)
		return CFI_END;
	in.end = in.at + length;
	*next = in.end;
	const size_t field = in.at;
	const uint64_t distance = eh_take(&in, 4);
	struct eh_cie cie;
	if (in.failed || distance == 0 ||
	    !cfi_read_cie(section, (int64_t)field - (int32_t)distance, &cie))
		return CFI_OTHER;
	fde->offset = offset;
	const bool covers_code = eh_take_range(&in, &cie, &fde->start, &fde->end);
	fde->lsda = 0;
	if (cie.sized) {
		const uint64_t size = eh_take_uleb(&in);
		fde->lsda = take_lsda(in, size, cie.lsda_encoding);
		eh_skip(&in, size);
	}
	fde->program = in.at;
	fde->program_end = in.end;
	fde->cie_program = cie.program;
	fde->cie_program_end = cie.program_end;
	fde->code_factor = cie.code_factor;
	fde->signal_frame = cie.signal_frame;
	return in.failed || !covers_code ? CFI_OTHER : CFI_FDE;
}
