/* SPDX-License-Identifier: MIT */
/*
 * From an ELF file to the bytes of its sections, and to pointers as .eh_frame encodes them (LSB
 * core specification, "DWARF exception header encoding"). libelf checks that a section lies
 * inside the file.
 */
#include <gelf.h>
#include <string.h>

#include "symbolize/internal.h"

enum { MAX_SECTIONS = 65536, MAX_SEGMENTS = 4096 };

static Elf_Scn *find_section(Elf *elf, const char *name, bool with_bytes, GElf_Shdr *header)
{
	size_t names;
	Elf_Scn *section = NULL;

	if (elf_getshdrstrndx(elf, &names))
		return NULL;
	for (int i = 0; i < MAX_SECTIONS && (section = elf_nextscn(elf, section)); i++) {
		if (!gelf_getshdr(section, header) || (with_bytes && header->sh_type == SHT_NOBITS))
			continue;
		const char *text = elf_strptr(elf, names, header->sh_name);
		if (text && !strcmp(text, name))
			return section;
	}
	return NULL;
}

bool elf_is_supported(Elf *elf)
{
	const char *ident = elf ? elf_getident(elf, NULL) : NULL;

	return ident && elf_kind(elf) == ELF_K_ELF && ident[EI_CLASS] == ELFCLASS64 &&
	       ident[EI_DATA] == ELFDATA2LSB;
}

Elf_Scn *elf_find_section(Elf *elf, const char *name, GElf_Shdr *header)
{
	return find_section(elf, name, false, header);
}

bool elf_section_bytes(Elf *elf, const char *name, struct elf_bytes *bytes)
{
	GElf_Shdr header;
	Elf_Scn *section = find_section(elf, name, true, &header);

	*bytes = (struct elf_bytes){0};
	if (!section)
		return false;
	if (header.sh_flags & SHF_COMPRESSED && elf_compress(section, 0, 0) < 0)
		return false;
	Elf_Data *data = elf_rawdata(section, NULL);
	if (!data || !data->d_buf || !data->d_size)
		return false;
	*bytes = (struct elf_bytes){data->d_buf, data->d_size, header.sh_addr, data};
	return true;
}

bool elf_section_compressed(Elf *elf, const char *name, uint32_t *type)
{
	GElf_Shdr header;
	GElf_Chdr compression;
	Elf_Scn *section = elf_find_section(elf, name, &header);

	if (!section || !(header.sh_flags & SHF_COMPRESSED))
		return false;
	*type = gelf_getchdr(section, &compression) ? compression.ch_type : 0;
	return true;
}

/* The bytes of the file behind an address, to the end of its segment. */
static bool segment_bytes(Elf *elf, uint64_t address, struct elf_bytes *bytes)
{
	size_t count;

	if (elf_getphdrnum(elf, &count))
		return false;
	for (size_t i = 0; i < count && i < MAX_SEGMENTS; i++) {
		GElf_Phdr header;
		if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_LOAD ||
		    address < header.p_vaddr || address - header.p_vaddr >= header.p_filesz)
			continue;
		const uint64_t skip = address - header.p_vaddr;
		Elf_Data *data = elf_getdata_rawchunk(elf, (int64_t)(header.p_offset + skip),
						      header.p_filesz - skip, ELF_T_BYTE);
		if (!data || !data->d_buf)
			return false;
		*bytes = (struct elf_bytes){data->d_buf, data->d_size, address, data};
		return true;
	}
	return false;
}

static bool eh_frame_address(Elf *elf, uint64_t *address)
{
	size_t count;

	if (elf_getphdrnum(elf, &count))
		return false;
	for (size_t i = 0; i < count && i < MAX_SEGMENTS; i++) {
		GElf_Phdr header;
		struct elf_bytes table;
		const uint8_t *next;
		if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_GNU_EH_FRAME)
			continue;
		/* version 1, eh_frame_ptr_enc, fde_count_enc, table_enc, eh_frame_ptr */
		return segment_bytes(elf, header.p_vaddr, &table) && table.size >= 8 &&
		       table.data[0] == 1 &&
		       elf_decode_pointer(&table, table.data + 4, table.data[1], address, &next);
	}
	return false;
}

bool elf_eh_frame_bytes(Elf *elf, struct elf_bytes *bytes)
{
	uint64_t address;

	if (elf_section_bytes(elf, ".eh_frame", bytes))
		return true;
	return eh_frame_address(elf, &address) && segment_bytes(elf, address, bytes);
}

bool elf_decode_pointer(const struct elf_bytes *bytes, const uint8_t *field, uint8_t encoding,
			uint64_t *value, const uint8_t **next)
{
	/* DW_EH_PE_absptr, udata2, udata4, udata8; 8 more: signed */
	static const uint8_t sizes[8] = {8, 0, 2, 4, 8, 0, 0, 0};
	const size_t size = sizes[encoding & 7];
	const bool is_signed = encoding & 8;
	uint64_t number = 0;

	if (!size || field < bytes->data || (size_t)(bytes->data + bytes->size - field) < size ||
	    field > bytes->data + bytes->size)
		return false;
	memcpy(&number, field, size);
	if (is_signed && size < 8 && number >> (8 * size - 1) & 1)
		number |= UINT64_MAX << 8 * size;
	if ((encoding & 0x70) == 0x10) /* DW_EH_PE_pcrel */
		number += bytes->address + (uint64_t)(field - bytes->data);
	else if (encoding & 0xf0)
		return false; /* the others do not occur for FDEs of x86-64 */
	*value = number;
	*next = field + size;
	return true;
}

/*
 * dwarf_begin_elf reads, and where needed inflates, every debug section at once. Those with the
 * locations of variables and the like are half of that and serve nothing here.
 */
void elf_hide_unused(Elf *elf)
{
	static const char *const names[] = {".debug_loc",     ".debug_loclists", ".debug_macro",
					    ".debug_macinfo", ".debug_pubnames", ".debug_pubtypes",
					    ".debug_names"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		GElf_Shdr header;
		Elf_Scn *section = elf_find_section(elf, names[i], &header);
		if (!section)
			continue;
		header.sh_type = SHT_NOBITS; /* in memory only: the file is open for reading */
		gelf_update_shdr(section, &header);
	}
}
