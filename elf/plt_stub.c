/* SPDX-License-Identifier: MIT */
/*
 * From an address in a PLT to the function of another module that the stub there jumps to. Stubs
 * have no symbols, and one FDE covers all of them; but each jumps through a slot of its own, and
 * a relocation says to the dynamic linker which function's address to put there:
 *
 *   45040: ff 25 c2 df 48 00   jmp *0x48dfc2(%rip)    4d3008 R_X86_64_JUMP_SLOT xmlXPathObjectCopy
 */
#include <string.h>

#include "elf/elf.h"
#include "x86/x86.h"

enum { MAX_SECTIONS = 65536, MAX_RELOCATIONS = 4 << 20 };

/* "endbr64; bnd jmp *slot(%rip)", with or without the first two. */
bool plt_slot_at(struct x86_decoder *decoder, const uint8_t *bytes, size_t size, uint64_t address,
		 uint64_t *slot)
{
	struct x86_instruction jump;

	/* Most of what is asked about is no stub: endbr64, bnd, and the jump begin with these. */
	if (!size || (bytes[0] != 0xf3 && bytes[0] != 0xf2 && bytes[0] != 0xff))
		return false;
	if (!x86_decode_jump(decoder, bytes, size, address, &jump) || !jump.has_memory ||
	    jump.memory.base != X86_RIP)
		return false;
	*slot = (uint64_t)jump.memory.displacement;
	return true;
}

/* .plt, .plt.sec, .plt.got: the one that holds pc. */
static Elf_Scn *section_of(Elf *elf, uint64_t pc, GElf_Shdr *header)
{
	size_t names;
	Elf_Scn *section = NULL;

	if (elf_getshdrstrndx(elf, &names))
		return NULL;
	for (int i = 0; i < MAX_SECTIONS && (section = elf_nextscn(elf, section)); i++) {
		if (!gelf_getshdr(section, header) || header->sh_type != SHT_PROGBITS ||
		    pc < header->sh_addr || pc - header->sh_addr >= header->sh_size)
			continue;
		const char *name = elf_strptr(elf, names, header->sh_name);
		if (name && strncmp(name, ".plt", 4) == 0 && (!name[4] || name[4] == '.'))
			return section;
	}
	return NULL;
}

static const char *symbol_text(Elf *elf, size_t symbols, size_t index)
{
	GElf_Shdr header;
	GElf_Sym symbol;
	Elf_Scn *section = elf_getscn(elf, symbols);
	Elf_Data *data = section ? elf_getdata(section, NULL) : NULL;

	if (!data || !gelf_getshdr(section, &header) || header.sh_type != SHT_DYNSYM ||
	    index > INT32_MAX || !gelf_getsym(data, (int)index, &symbol))
		return NULL;
	return elf_strptr(elf, header.sh_link, symbol.st_name);
}

/* The symbol that a table of relocations puts into the slot; NULL: none. */
static const char *relocated(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, uint64_t slot)
{
	Elf_Data *data = elf_getdata(section, NULL);
	const size_t count = data ? data->d_size / sizeof(Elf64_Rela) : 0;

	for (size_t i = 0; i < count && i < MAX_RELOCATIONS; i++) {
		GElf_Rela relocation;
		if (!gelf_getrela(data, (int)i, &relocation))
			return NULL;
		const uint64_t type = GELF_R_TYPE(relocation.r_info);
		if (relocation.r_offset == slot &&
		    (type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT))
			return symbol_text(elf, header->sh_link, GELF_R_SYM(relocation.r_info));
	}
	return NULL;
}

static const char *symbol_of(Elf *elf, uint64_t slot)
{
	Elf_Scn *section = NULL;
	const char *text = NULL;

	for (int i = 0; !text && i < MAX_SECTIONS && (section = elf_nextscn(elf, section)); i++) {
		GElf_Shdr header;
		if (gelf_getshdr(section, &header) && header.sh_type == SHT_RELA)
			text = relocated(elf, section, &header, slot);
	}
	return text;
}

bool plt_stub_find(Elf *elf, uint64_t pc, struct plt_stub *stub)
{
	GElf_Ehdr file;
	GElf_Shdr header;
	uint64_t slot;

	if (!gelf_getehdr(elf, &file) || file.e_machine != EM_X86_64)
		return false;
	Elf_Scn *section = section_of(elf, pc, &header);
	if (!section)
		return false;
	Elf_Data *data = elf_rawdata(section, NULL);
	const uint64_t size = header.sh_entsize == 8 ? 8 : 16;
	const uint64_t at = (pc - header.sh_addr) / size * size;
	if (!data || !data->d_buf || at >= data->d_size)
		return false;
	stub->start = header.sh_addr + at;
	if (!plt_slot_at(NULL, (const uint8_t *)data->d_buf + at, data->d_size - at, stub->start,
			 &slot))
		return false;
	stub->symbol = symbol_of(elf, slot);
	return stub->symbol && *stub->symbol;
}
