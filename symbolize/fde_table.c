/* SPDX-License-Identifier: MIT */
/*
 * From .eh_frame or .debug_frame to the address range of each FDE: where a function starts when
 * nothing names it. libdw walks the entries; its own look-up (dwarf_cfi_addrframe) tells only the
 * range of one row, not where the FDE starts.
 */
#include <string.h>

#include "symbolize/internal.h"

enum { MAX_FDES = 4 << 20 };

struct cie {
	Dwarf_Off offset;
	uint8_t encoding;
	bool known;
};

/* "zPLR": the letters say what the augmentation data holds, in their order. */
static bool pointer_encoding(const Dwarf_CIE *entry, const struct elf_bytes *bytes,
			     uint8_t *encoding)
{
	const uint8_t *data = entry->augmentation_data;
	const uint8_t *const end = data ? data + entry->augmentation_data_size : NULL;

	*encoding = 0;
	if (entry->augmentation[0] != 'z')
		return entry->augmentation[0] == '\0';
	for (const char *letter = entry->augmentation + 1; *letter; letter++) {
		uint64_t ignored;
		if (*letter == 'S' || *letter == 'B')
			continue;
		if (!data || data >= end)
			return false;
		if (*letter == 'R') {
			*encoding = *data;
			return true;
		}
		if (*letter == 'L')
			data++;
		else if (*letter != 'P' ||
			 !elf_decode_pointer(bytes, data + 1, *data & 0x0f, &ignored, &data))
			return false;
	}
	return true;
}

/* The CIE of an FDE; that of the FDE before is nearly always the same one. */
static bool load_cie(struct cie *cie, const unsigned char *ident, const struct elf_bytes *bytes,
		     bool eh_frame, Dwarf_Off offset)
{
	Dwarf_CFI_Entry entry;
	Dwarf_Off next;

	if (cie->known && cie->offset == offset)
		return true;
	cie->known = offset < bytes->size &&
		     !dwarf_next_cfi(ident, bytes->raw, eh_frame, offset, &next, &entry) &&
		     dwarf_cfi_cie_p(&entry) &&
		     pointer_encoding(&entry.cie, bytes, &cie->encoding);
	cie->offset = offset;
	return cie->known;
}

void fde_table_add(struct interval_list *fdes, Elf *elf, const struct elf_bytes *bytes,
		   bool eh_frame)
{
	const unsigned char *ident = (const unsigned char *)elf_getident(elf, NULL);
	struct cie cie = {0};
	Dwarf_Off offset = 0, next = 0;
	Dwarf_CFI_Entry entry;

	if (!ident)
		return;
	for (size_t i = 0; i < MAX_FDES; i++, offset = next) {
		const int status = dwarf_next_cfi(ident, bytes->raw, eh_frame, offset, &next,
						  &entry);
		uint64_t start, size;
		const uint8_t *field;
		if (status > 0 || next <= offset || next == (Dwarf_Off)-1)
			break;
		if (status < 0 || dwarf_cfi_cie_p(&entry) ||
		    !load_cie(&cie, ident, bytes, eh_frame, entry.fde.CIE_pointer) ||
		    !elf_decode_pointer(bytes, entry.fde.start, cie.encoding, &start, &field) ||
		    !elf_decode_pointer(bytes, field, cie.encoding & 7, &size, &field))
			continue;
		if (size && start && start + size > start)
			interval_add(fdes, start, start + size, offset);
	}
}
