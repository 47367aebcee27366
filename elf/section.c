/* SPDX-License-Identifier: MIT */
/*
 * From an ELF file to the bytes of its sections. libelf checks that a section lies inside the file.
 */
#include <gelf.h>
#include <stdio.h>
#include <string.h>

#include "elf/eh.h"
#include "elf/elf.h"

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
		if (text && strcmp(text, name) == 0)
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
		if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_GNU_EH_FRAME)
			continue;
		/* version 1, eh_frame_ptr_enc, fde_count_enc, table_enc, eh_frame_ptr */
		if (!segment_bytes(elf, header.p_vaddr, &table) || table.size < 8 ||
		    table.data[0] != 1)
			return false;
		struct eh_input in = {
			.bytes = table.data, .at = 4, .end = table.size, .address = table.address};
		*address = eh_take_pointer(&in, table.data[1]);
		return !in.failed;
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

bool elf_debug_path(const char *folder, const struct build_id *id, char *path, size_t size)
{
	char hex[2 * sizeof(id->bytes) + 1];

	if (id->size < 2 || id->size > sizeof(id->bytes))
		return false;
	build_id_hex(id, hex);
	return snprintf(path, size, "%s/.build-id/%.2s/%s.debug", folder, hex, hex + 2) < (int)size;
}
