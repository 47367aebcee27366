/* SPDX-License-Identifier: MIT */
/*
 * From an ELF image that a JIT has registered for debuggers to one that reads like any linked file.
 * LLVM registers a relocatable object as the assembler made it, only that sh_addr says where the
 * sections are (GDBRegistrationListener.cpp); CPython 3.15 a shared object without program headers,
 * whose symbols have run-time addresses (Python/jit_unwind.c). Both get run-time addresses, applied
 * relocations and program headers. The image is the target's to write: every number is checked, and
 * no more work is done than an image of its size can honestly ask for.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/table.h"
#include "modules/jit.h"

enum { SECTIONS_LIMIT = 4096, SEGMENTS_LIMIT = 512 };

/* ---- headers ---- */

static bool inside(uint64_t offset, uint64_t part, uint64_t size)
{
	return offset <= size && part <= size - offset;
}

static bool check_header(const Elf64_Ehdr *header, uint64_t size)
{
	return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
	       header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
	       header->e_machine == EM_X86_64 &&
	       (header->e_type == ET_REL || header->e_type == ET_DYN ||
		header->e_type == ET_EXEC) &&
	       header->e_shentsize == sizeof(Elf64_Shdr) && header->e_shnum > 0 &&
	       header->e_shnum <= SECTIONS_LIMIT &&
	       inside(header->e_shoff, header->e_shnum * sizeof(Elf64_Shdr), size);
}

static bool is_code(const Elf64_Shdr *section)
{
	const uint64_t wanted = SHF_ALLOC | SHF_EXECINSTR;
	return (section->sh_flags & wanted) == wanted && section->sh_addr && section->sh_size;
}

size_t jit_image_spans(const struct memory_reader *memory, remote_addr address, uint64_t size,
		       struct jit_span spans[JIT_IMAGE_SPANS], uint64_t *hash)
{
	Elf64_Ehdr header;
	size_t count = 0;
	if (size < sizeof(header) || size > JIT_IMAGE_LIMIT ||
	    !memory_read(memory, address, &header, sizeof(header), NULL) ||
	    !check_header(&header, size))
		return 0;
	_cleanup_free_ Elf64_Shdr *sections = alloc_zeroed(header.e_shnum, sizeof(*sections));
	if (!memory_read(memory, address + header.e_shoff, sections,
			 header.e_shnum * sizeof(*sections), NULL))
		return 0;
	for (size_t i = 0; i < header.e_shnum && count < JIT_IMAGE_SPANS; i++)
		if (is_code(&sections[i]))
			spans[count++] =
				(struct jit_span){sections[i].sh_addr, sections[i].sh_size};
	*hash = hash_pair(hash_bytes(&header, sizeof(header)),
			  hash_bytes(sections, header.e_shnum * sizeof(*sections)));
	return count;
}

/* ---- the copy ---- */

struct link {
	const struct memory_reader *memory;
	uint8_t *bytes;
	uint64_t size; /* of the image as registered */
	Elf64_Ehdr header;
	Elf64_Shdr *sections; /* a copy, aligned; written back at the end */
	uint64_t budget;      /* bytes of sections that may still be looked at */
};

static bool has_bytes(const struct link *link, const Elf64_Shdr *section)
{
	return section->sh_type != SHT_NOBITS &&
	       inside(section->sh_offset, section->sh_size, link->size);
}

/* Sections of one image do not overlap: together they are no larger than it is. */
static bool spend(struct link *link, uint64_t bytes)
{
	if (bytes > link->budget)
		return false;
	link->budget -= bytes;
	return true;
}

static const char *section_name(const struct link *link, const Elf64_Shdr *section)
{
	const Elf64_Shdr *names = link->header.e_shstrndx < link->header.e_shnum
					  ? &link->sections[link->header.e_shstrndx]
					  : NULL;
	if (!names || !has_bytes(link, names) || section->sh_name >= names->sh_size)
		return "";
	const char *name = (const char *)link->bytes + names->sh_offset + section->sh_name;
	return memchr(name, '\0', names->sh_size - section->sh_name) ? name : "";
}

/* An .eh_frame that was not given a place gets one behind the code, so that it can be found. */
static void place_eh_frame(struct link *link)
{
	uint64_t end = 0;
	for (size_t i = 0; i < link->header.e_shnum; i++) {
		const Elf64_Shdr *section = &link->sections[i];
		if (is_code(section) &&
		    inside(section->sh_addr, section->sh_size, UINT64_C(1) << 46))
			end = section->sh_addr + section->sh_size > end
				      ? section->sh_addr + section->sh_size
				      : end;
	}
	for (size_t i = 0; end && i < link->header.e_shnum; i++) {
		Elf64_Shdr *section = &link->sections[i];
		if (!section->sh_addr && strcmp(section_name(link, section), ".eh_frame") == 0)
			section->sh_addr = (end + TARGET_PAGE) & ~(uint64_t)(TARGET_PAGE - 1);
	}
}

/* ---- relocations ---- */

/* The run-time address of a symbol; false: it is not of this image. */
static bool symbol_address(const struct link *link, const Elf64_Shdr *symbols, uint64_t index,
			   uint64_t *address)
{
	Elf64_Sym symbol;
	if (index >= symbols->sh_size / sizeof(symbol))
		return false;
	memcpy(&symbol, link->bytes + symbols->sh_offset + index * sizeof(symbol), sizeof(symbol));
	*address = symbol.st_value;
	if (symbol.st_shndx == SHN_ABS)
		return true;
	if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= link->header.e_shnum)
		return false;
	*address += link->sections[symbol.st_shndx].sh_addr;
	return true;
}

/* Those that assemblers use in unwind tables and debug sections. 0: another one. */
static size_t relocated_size(uint32_t type)
{
	switch (type) {
	case R_X86_64_64:
	case R_X86_64_PC64:
		return 8;
	case R_X86_64_32:
	case R_X86_64_32S:
	case R_X86_64_PC32:
		return 4;
	default:
		return 0;
	}
}

static void relocate_one(struct link *link, const Elf64_Shdr *section, const Elf64_Shdr *symbols,
			 const Elf64_Rela *relocation)
{
	const uint32_t type = ELF64_R_TYPE(relocation->r_info);
	const size_t size = relocated_size(type);
	uint64_t value;
	if (!size || !inside(relocation->r_offset, size, section->sh_size) ||
	    !symbol_address(link, symbols, ELF64_R_SYM(relocation->r_info), &value))
		return;
	value += (uint64_t)relocation->r_addend;
	if (type == R_X86_64_PC32 || type == R_X86_64_PC64)
		value -= section->sh_addr + relocation->r_offset;
	memcpy(link->bytes + section->sh_offset + relocation->r_offset, &value, size);
}

/* Of what describes the code; the code itself is as the target has it. */
static void relocate(struct link *link, const Elf64_Shdr *relocations)
{
	Elf64_Rela relocation;
	if (relocations->sh_type != SHT_RELA || relocations->sh_info >= link->header.e_shnum ||
	    relocations->sh_link >= link->header.e_shnum)
		return;
	const Elf64_Shdr *section = &link->sections[relocations->sh_info];
	const Elf64_Shdr *symbols = &link->sections[relocations->sh_link];
	if ((section->sh_flags & SHF_EXECINSTR) || symbols->sh_type != SHT_SYMTAB ||
	    !has_bytes(link, section) || !has_bytes(link, symbols) ||
	    !has_bytes(link, relocations) || !spend(link, relocations->sh_size))
		return;
	for (uint64_t at = 0; at + sizeof(relocation) <= relocations->sh_size;
	     at += sizeof(relocation)) {
		memcpy(&relocation, link->bytes + relocations->sh_offset + at, sizeof(relocation));
		relocate_one(link, section, symbols, &relocation);
	}
}

/* ---- symbols ---- */

static const Elf64_Shdr *find_symbols(const struct link *link)
{
	for (size_t i = 0; i < link->header.e_shnum; i++)
		if (link->sections[i].sh_type == SHT_SYMTAB && has_bytes(link, &link->sections[i]))
			return &link->sections[i];
	return NULL;
}

/* In a relocatable object a symbol's value is counted from its section's start. */
static void place_symbols(struct link *link)
{
	const Elf64_Shdr *symbols = find_symbols(link);
	for (uint64_t i = 0; symbols && i < symbols->sh_size / sizeof(Elf64_Sym); i++) {
		uint8_t *at = link->bytes + symbols->sh_offset + i * sizeof(Elf64_Sym);
		uint64_t address;
		if (symbol_address(link, symbols, i, &address))
			memcpy(at + offsetof(Elf64_Sym, st_value), &address, sizeof(address));
	}
}

/* CPython calls all that it makes at run time "py::something": its JIT's code "py::jit:executor".
 */
static bool is_of_python(const struct link *link)
{
	const Elf64_Shdr *symbols = find_symbols(link);
	if (!symbols || symbols->sh_link >= link->header.e_shnum)
		return false;
	const Elf64_Shdr *names = &link->sections[symbols->sh_link];
	for (uint64_t i = 0; i < symbols->sh_size / sizeof(Elf64_Sym); i++) {
		Elf64_Sym symbol;
		memcpy(&symbol, link->bytes + symbols->sh_offset + i * sizeof(symbol),
		       sizeof(symbol));
		if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC)
			return has_bytes(link, names) &&
			       inside(symbol.st_name, 4, names->sh_size) &&
			       memcmp(link->bytes + names->sh_offset + symbol.st_name, "py::", 4) ==
				       0;
	}
	return false;
}

/* ---- code and program headers ---- */

static void take_code(struct link *link)
{
	for (size_t i = 0; i < link->header.e_shnum; i++) {
		const Elf64_Shdr *section = &link->sections[i];
		if (is_code(section) && has_bytes(link, section) && spend(link, section->sh_size))
			(void)!memory_read(link->memory, section->sh_addr,
					   link->bytes + section->sh_offset, section->sh_size,
					   NULL);
	}
}

static size_t write_segments(const struct link *link, uint8_t *at)
{
	size_t count = 0;
	for (size_t i = 0; i < link->header.e_shnum && count < SEGMENTS_LIMIT; i++) {
		const Elf64_Shdr *section = &link->sections[i];
		if (!(section->sh_flags & SHF_ALLOC) || !section->sh_addr || !section->sh_size ||
		    !has_bytes(link, section))
			continue;
		const Elf64_Phdr segment = {
			.p_type = PT_LOAD,
			.p_flags = PF_R | (section->sh_flags & SHF_EXECINSTR ? PF_X : 0u),
			.p_offset = section->sh_offset,
			.p_vaddr = section->sh_addr,
			.p_filesz = section->sh_size,
			.p_memsz = section->sh_size,
		};
		memcpy(at + count++ * sizeof(segment), &segment, sizeof(segment));
	}
	return count;
}

static void finish(struct link *link, struct jit_image *image)
{
	const size_t segments = (link->size + 7) & ~(uint64_t)7;
	memcpy(link->bytes + link->header.e_shoff, link->sections,
	       link->header.e_shnum * sizeof(*link->sections));
	link->header.e_phnum = (Elf64_Half)write_segments(link, link->bytes + segments);
	link->header.e_phoff = segments;
	link->header.e_phentsize = sizeof(Elf64_Phdr);
	link->header.e_type = ET_DYN;
	link->header.e_entry = 0;
	memcpy(link->bytes, &link->header, sizeof(link->header));
	image->bytes = link->bytes;
	image->size = segments + link->header.e_phnum * sizeof(Elf64_Phdr);
	link->bytes = NULL;
}

static bool copy(struct link *link, remote_addr address, struct error *error)
{
	link->bytes = alloc_zeroed(1, link->size + 8 + SEGMENTS_LIMIT * sizeof(Elf64_Phdr));
	if (!memory_read(link->memory, address, link->bytes, link->size, error))
		return false;
	memcpy(&link->header, link->bytes, sizeof(link->header));
	if (!check_header(&link->header, link->size))
		return error_set(error, ERROR_CORRUPT, "a JIT's image is no ELF file for x86-64");
	link->sections = alloc_zeroed(link->header.e_shnum, sizeof(*link->sections));
	memcpy(link->sections, link->bytes + link->header.e_shoff,
	       link->header.e_shnum * sizeof(*link->sections));
	return true;
}

bool jit_image_link(const struct memory_reader *memory, remote_addr address, uint64_t size,
		    struct jit_image *image, struct error *error)
{
	if (size < sizeof(Elf64_Ehdr) || size > JIT_IMAGE_LIMIT)
		return error_set(error, ERROR_CORRUPT, "a JIT's image has %llu bytes",
				 (unsigned long long)size);
	struct link link = {.memory = memory, .size = size, .budget = size};
	const bool copied = copy(&link, address, error);
	if (copied) {
		place_eh_frame(&link);
		for (size_t i = 0; link.header.e_type == ET_REL && i < link.header.e_shnum; i++)
			relocate(&link, &link.sections[i]);
		if (link.header.e_type == ET_REL)
			place_symbols(&link);
		image->python = is_of_python(&link);
		take_code(&link);
		finish(&link, image);
	}
	free(link.bytes);
	free(link.sections);
	return copied;
}

/* ---- a function without an image ---- */

enum { FUNCTION_TEXT = 1, FUNCTION_FRAMES, FUNCTION_SYMBOLS, FUNCTION_STRINGS, FUNCTION_NAMES };

/* What is written of it; behind it: the name, the code as the target has it, the unwind table. */
struct function_image {
	Elf64_Ehdr header;
	Elf64_Phdr segments[2];
	Elf64_Shdr sections[FUNCTION_NAMES + 1];
	Elf64_Sym symbols[2];
	char names[48];
};

static const char function_names[] = "\0.text\0.eh_frame\0.symtab\0.strtab\0.shstrtab";

/* A section with contents that are mapped, and its segment. */
static void place_part(struct function_image *image, unsigned section, uint64_t offset,
		       remote_addr address, uint64_t size, uint64_t memory_size)
{
	const bool code = section == FUNCTION_TEXT;
	image->sections[section] = (Elf64_Shdr){
		.sh_name = code ? 1 : 7,
		.sh_type = SHT_PROGBITS,
		.sh_flags = SHF_ALLOC | (code ? SHF_EXECINSTR : 0u),
		.sh_addr = address,
		.sh_offset = offset,
		.sh_size = size,
		.sh_addralign = 1,
	};
	image->segments[image->header.e_phnum++] = (Elf64_Phdr){
		.p_type = PT_LOAD,
		.p_flags = PF_R | (code ? PF_X : 0u),
		.p_offset = offset,
		.p_vaddr = address,
		.p_filesz = size,
		.p_memsz = memory_size,
	};
}

static void describe_names(struct function_image *image, const struct jit_function *function)
{
	image->sections[FUNCTION_SYMBOLS] = (Elf64_Shdr){
		.sh_name = 17,
		.sh_type = SHT_SYMTAB,
		.sh_offset = offsetof(struct function_image, symbols),
		.sh_size = sizeof(image->symbols),
		.sh_link = FUNCTION_STRINGS,
		.sh_info = 1,
		.sh_addralign = 8,
		.sh_entsize = sizeof(Elf64_Sym),
	};
	image->sections[FUNCTION_STRINGS] = (Elf64_Shdr){
		.sh_name = 25,
		.sh_type = SHT_STRTAB,
		.sh_offset = sizeof(*image),
		.sh_size = strlen(function->name) + 2,
		.sh_addralign = 1,
	};
	image->sections[FUNCTION_NAMES] = (Elf64_Shdr){
		.sh_name = 33,
		.sh_type = SHT_STRTAB,
		.sh_offset = offsetof(struct function_image, names),
		.sh_size = sizeof(function_names),
		.sh_addralign = 1,
	};
	image->symbols[1] = (Elf64_Sym){
		.st_name = 1,
		.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
		.st_shndx = FUNCTION_TEXT,
		.st_value = function->start,
		.st_size = function->size,
	};
	memcpy(image->names, function_names, sizeof(function_names));
}

void jit_image_of_function(const struct memory_reader *memory, const struct jit_function *function,
			   struct jit_image *image)
{
	enum { CODE_LIMIT = 64 << 10 };
	const struct jit_table *table = &function->table;
	const size_t name_size = strlen(function->name);
	const uint64_t code_size = function->size < CODE_LIMIT ? function->size : CODE_LIMIT;
	const uint64_t code = sizeof(struct function_image) + name_size + 2;
	struct function_image described = {
		.header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			   .e_type = ET_DYN,
			   .e_machine = EM_X86_64,
			   .e_version = EV_CURRENT,
			   .e_phoff = offsetof(struct function_image, segments),
			   .e_shoff = offsetof(struct function_image, sections),
			   .e_ehsize = sizeof(Elf64_Ehdr),
			   .e_phentsize = sizeof(Elf64_Phdr),
			   .e_shentsize = sizeof(Elf64_Shdr),
			   .e_shnum = FUNCTION_NAMES + 1,
			   .e_shstrndx = FUNCTION_NAMES},
	};
	place_part(&described, FUNCTION_TEXT, code, function->start, code_size, function->size);
	if (table->bytes)
		place_part(&described, FUNCTION_FRAMES, code + code_size, table->address,
			   table->size, table->size);
	describe_names(&described, function);
	image->size = code + code_size + table->size;
	image->bytes = alloc_zeroed(1, image->size);
	image->python = false;
	memcpy(image->bytes, &described, sizeof(described));
	memcpy(image->bytes + sizeof(described) + 1, function->name, name_size);
	(void)!memory_read(memory, function->start, image->bytes + code, code_size, NULL);
	if (table->bytes)
		memcpy(image->bytes + code + code_size, table->bytes, table->size);
}
