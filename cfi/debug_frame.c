/* SPDX-License-Identifier: MIT */
/*
 * Turns a module's .debug_frame into .eh_frame's form, so that one reader and libunwind serve both
 * (Debian's libunwind is built without .debug_frame). The differences (DWARF 4, 6.4.1; LSB):
 *   CIE: the id is 0xffffffff, not 0; version 4 has two more bytes after the augmentation;
 *   FDE: the CIE's place is counted from the section's start, not back from the field, and the
 *   code's address is the ELF one: it becomes the run-time one.
 * Entries keep their places. Only plain CIEs (augmentation "") are understood, others are left as
 * they are, which makes cfi_read pass over them. Bytes of the file are hostile.
 */
#include "cfi/cfi.h"

#include <elf.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/cleanup.h"

static uint32_t load32(const uint8_t *at)
{
	uint32_t value;
	memcpy(&value, at, sizeof(value));
	return value;
}

static void store32(uint8_t *at, uint32_t value)
{
	memcpy(at, &value, sizeof(value));
}

/* entry: from the id on, `size` bytes. Version 4 becomes 3: the address and segment sizes go. */
static void convert_cie(uint8_t *entry, size_t size)
{
	if (size < 9 || entry[5] != '\0')
		return;
	if (entry[4] == 4 && entry[6] == 8 && entry[7] == 0) {
		memmove(entry + 6, entry + 8, size - 8);
		memset(entry + size - 2, 0, 2); /* DW_CFA_nop */
		entry[4] = 3;
	}
	store32(entry, 0);
}

static void convert_fde(uint8_t *entry, size_t size, size_t offset, uint64_t load_bias)
{
	uint64_t code;
	if (size < 20)
		return;
	store32(entry, offset - load32(entry));
	memcpy(&code, entry + 4, sizeof(code));
	code += load_bias;
	memcpy(entry + 4, &code, sizeof(code));
}

static void convert(struct cfi_section *section, uint64_t load_bias)
{
	size_t at = 0;
	while (section->size - at >= 8) {
		const uint32_t length = load32(section->bytes + at);
		if (length < 4 || length >= 0xfffffff0 || length > section->size - at - 4)
			break;
		uint8_t *const entry = section->bytes + at + 4;
		if (load32(entry) == 0xffffffff)
			convert_cie(entry, length);
		else
			convert_fde(entry, length, at + 4, load_bias);
		at += 4 + (size_t)length;
	}
	section->size = at;
}

/* An SHF_COMPRESSED section: Elf64_Chdr, then a zlib stream. */
static bool decompress(const uint8_t *packed, size_t packed_size, struct cfi_section *section)
{
	Elf64_Chdr header;
	if (packed_size <= sizeof(header))
		return false;
	memcpy(&header, packed, sizeof(header));
	if (header.ch_type != ELFCOMPRESS_ZLIB || header.ch_size > CFI_SECTION_LIMIT)
		return false;
	uLongf size = header.ch_size;
	section->bytes = alloc_zeroed(size + 16, 1);
	if (uncompress(section->bytes, &size, packed + sizeof(header),
		       packed_size - sizeof(header)) != Z_OK) {
		free(section->bytes);
		section->bytes = NULL;
		return false;
	}
	section->size = size;
	return true;
}

void debug_frame_load(const struct module *module, struct cfi_section *section)
{
	const struct module_section *const found = module_section(module, ".debug_frame");
	*section = (struct cfi_section){.start = DEBUG_FRAME_ADDRESS};
	if (!found || found->type == SHT_NOBITS || found->size > CFI_SECTION_LIMIT)
		return;
	_cleanup_free_ uint8_t *bytes = alloc_zeroed(found->size + 16, 1);
	if (!module_read_file(module, found->file_offset, bytes, found->size, NULL))
		return;
	if (!(found->flags & SHF_COMPRESSED)) {
		section->bytes = bytes;
		section->size = found->size;
		bytes = NULL;
	} else if (!decompress(bytes, found->size, section)) {
		return;
	}
	convert(section, module->load_bias);
}
