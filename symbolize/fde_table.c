/* SPDX-License-Identifier: MIT */
/*
 * From .eh_frame or .debug_frame to the address range of each FDE: where a function starts when
 * nothing names it. libdw walks the entries; its own look-up (dwarf_cfi_addrframe) tells only the
 * range of one row, not where the FDE starts.
 */
#include <string.h>

#include "symbolize/internal.h"

enum { MAX_FDES = 4 << 20 };

/* Encodings of .eh_frame_hdr as every linker writes them: udata4; datarel and sdata4. */
enum { HEADER_COUNT_ENCODING = 0x03, HEADER_TABLE_ENCODING = 0x3b };

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
		     dwarf_cfi_cie_p(&entry) && pointer_encoding(&entry.cie, bytes, &cie->encoding);
	cie->offset = offset;
	return cie->known;
}

/* The range of one entry; false: it is no FDE, or an empty or a broken one. */
static bool fde_range(const unsigned char *ident, const struct elf_bytes *bytes, bool eh_frame,
		      const Dwarf_CFI_Entry *entry, struct cie *cie, uint64_t *start, uint64_t *end)
{
	uint64_t size;
	const uint8_t *field;

	if (dwarf_cfi_cie_p((Dwarf_CFI_Entry *)(uintptr_t)entry) ||
	    !load_cie(cie, ident, bytes, eh_frame, entry->fde.CIE_pointer) ||
	    !elf_decode_pointer(bytes, entry->fde.start, cie->encoding, start, &field) ||
	    !elf_decode_pointer(bytes, field, cie->encoding & 7, &size, &field))
		return false;
	*end = *start + size;
	return *start && *end > *start;
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
		const int status =
			dwarf_next_cfi(ident, bytes->raw, eh_frame, offset, &next, &entry);
		uint64_t start, end;
		if (status > 0 || next <= offset || next == (Dwarf_Off)-1)
			break;
		if (status == 0 && fde_range(ident, bytes, eh_frame, &entry, &cie, &start, &end))
			interval_add(fdes, start, end, offset);
	}
}

/* ---- the sorted table --------------------------------------------------------------------- */

static int32_t number_at(const uint8_t *at)
{
	int32_t number;

	memcpy(&number, at, sizeof(number));
	return number;
}

/* The address of the FDE that starts last at or below pc; 0: none. */
static uint64_t search_header(const struct elf_bytes *header, size_t count, uint64_t pc)
{
	const uint8_t *const table = header->data + 12;
	size_t low = 0, high = count;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		const int64_t start = number_at(table + 8 * middle);
		if (header->address + (uint64_t)start <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return 0;
	const int64_t fde = number_at(table + 8 * (low - 1) + 4);
	return header->address + (uint64_t)fde;
}

bool fde_table_search(Elf *elf, const struct elf_bytes *eh_frame, uint64_t pc, struct interval *fde)
{
	const unsigned char *ident = (const unsigned char *)elf_getident(elf, NULL);
	struct elf_bytes header;
	struct cie cie = {0};
	Dwarf_CFI_Entry entry;
	Dwarf_Off next;

	/* version 1, eh_frame_ptr_enc, fde_count_enc, table_enc, eh_frame_ptr, fde_count */
	if (!ident || !elf_section_bytes(elf, ".eh_frame_hdr", &header) || header.size < 12 ||
	    header.data[0] != 1 || (header.data[1] & 0x0f) != 0x0b ||
	    header.data[2] != HEADER_COUNT_ENCODING || header.data[3] != HEADER_TABLE_ENCODING)
		return false;
	const size_t count = (uint32_t)number_at(header.data + 8);
	if (!count || count > (header.size - 12) / 8)
		return false;
	*fde = (struct interval){0};
	const uint64_t address = search_header(&header, count, pc);
	if (!address)
		return true;
	const uint64_t offset = address - eh_frame->address;
	if (offset >= eh_frame->size ||
	    dwarf_next_cfi(ident, eh_frame->raw, true, offset, &next, &entry) ||
	    !fde_range(ident, eh_frame, true, &entry, &cie, &fde->start, &fde->end) ||
	    fde->start > pc)
		return false;
	if (pc >= fde->end)
		*fde = (struct interval){0};
	return true;
}
