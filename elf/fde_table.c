/* SPDX-License-Identifier: MIT */
/*
 * From .eh_frame or .debug_frame to the address range of each FDE: where a function starts when
 * nothing names it. libdw walks the entries; its own look-up (dwarf_cfi_addrframe) gives only the
 * range of one row, not where the FDE starts.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <string.h>

#include "elf/eh.h"
#include "elf/elf.h"

enum { MAX_FDES = 4 << 20 };

/* Encodings of .eh_frame_hdr as every linker writes them: udata4; datarel and sdata4. */
enum { HEADER_COUNT_ENCODING = 0x03, HEADER_TABLE_ENCODING = 0x3b };

struct known_cie {
	Dwarf_Off offset;
	struct eh_cie cie;
	bool known;
};

/* The bytes of the section from that one on, which is in them. */
static struct eh_input input_at(const struct elf_bytes *bytes, const uint8_t *from)
{
	return (struct eh_input){.bytes = bytes->data,
				 .at = (size_t)(from - bytes->data),
				 .end = bytes->size,
				 .address = bytes->address};
}

/* How the FDEs of a CIE write addresses. */
static bool read_letters(const Dwarf_CIE *entry, const struct elf_bytes *bytes, struct eh_cie *cie)
{
	*cie = (struct eh_cie){.fde_encoding = DW_EH_PE_absptr};
	if (entry->augmentation[0] != 'z')
		return entry->augmentation[0] == '\0';
	if (!entry->augmentation_data)
		return false;
	struct eh_input in = input_at(bytes, entry->augmentation_data);
	in.end = in.at + entry->augmentation_data_size;
	eh_take_letters(&in, entry->augmentation + 1, cie);
	return !in.failed;
}

/* The CIE of an FDE; that of the FDE before is nearly always the same one. */
static bool load_cie(struct known_cie *known, const unsigned char *ident,
		     const struct elf_bytes *bytes, bool eh_frame, Dwarf_Off offset)
{
	Dwarf_CFI_Entry entry;
	Dwarf_Off next;

	if (known->known && known->offset == offset)
		return true;
	known->known = offset < bytes->size &&
		       !dwarf_next_cfi(ident, bytes->raw, eh_frame, offset, &next, &entry) &&
		       dwarf_cfi_cie_p(&entry) && read_letters(&entry.cie, bytes, &known->cie);
	known->offset = offset;
	return known->known;
}

/* The range of one entry; false: it is no FDE, or an empty or a broken one. */
static bool fde_range(const unsigned char *ident, const struct elf_bytes *bytes, bool eh_frame,
		      const Dwarf_CFI_Entry *entry, struct known_cie *known, uint64_t *start,
		      uint64_t *end)
{
	if (dwarf_cfi_cie_p((Dwarf_CFI_Entry *)(uintptr_t)entry) ||
	    !load_cie(known, ident, bytes, eh_frame, entry->fde.CIE_pointer))
		return false;
	struct eh_input in = input_at(bytes, entry->fde.start);
	return eh_take_range(&in, &known->cie, start, end) && *start;
}

void fde_table_add(struct interval_list *fdes, Elf *elf, const struct elf_bytes *bytes,
		   bool eh_frame)
{
	const unsigned char *ident = (const unsigned char *)elf_getident(elf, NULL);
	struct known_cie cie = {0};
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

/* version 1, eh_frame_ptr_enc, fde_count_enc, table_enc, eh_frame_ptr, fde_count. 0: another form,
 * or more entries than bytes. */
static size_t header_count(const struct elf_bytes *header)
{
	if (header->size < 12 || header->data[0] != 1 || (header->data[1] & 0x0f) != 0x0b ||
	    header->data[2] != HEADER_COUNT_ENCODING || header->data[3] != HEADER_TABLE_ENCODING)
		return 0;
	const size_t count = (uint32_t)number_at(header->data + 8);
	return count <= (header->size - 12) / 8 ? count : 0;
}

bool fde_table_search(Elf *elf, const struct elf_bytes *eh_frame, uint64_t pc, struct interval *fde)
{
	const unsigned char *ident = (const unsigned char *)elf_getident(elf, NULL);
	struct elf_bytes header;
	struct known_cie cie = {0};
	Dwarf_CFI_Entry entry;
	Dwarf_Off next;

	if (!ident || !elf_section_bytes(elf, ".eh_frame_hdr", &header))
		return false;
	const size_t count = header_count(&header);
	if (!count)
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
