/* SPDX-License-Identifier: MIT */
/*
 * From an ELF file to an ELF image in memory in which the large debug sections are filled in only
 * as far as units are asked for. libdw would inflate compressed ones whole, which takes longer than
 * all the rest when a few addresses of libc are named, and would read others whole, which takes
 * hundreds of megabytes for a large C++ library: of those the pieces that are needed are read.
 * The image has the sections in their full size from the start (memory that is not written costs
 * nothing), so what libdw has remembered of it stays true as it fills up. Must never let libdw look
 * beyond what is filled in: units that refer to others are refused, then everything has to be.
 */
#include <dwarf.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "symbolize/internal.h"
#include "symbolize/lazy_section.h"

enum { SECTION_INFO, SECTION_LINE, SECTION_ABBREV, SECTION_STR, SECTION_OTHER, SECTION_COUNT = 10 };
enum {
	UNIT_HEAD = 4 << 10, /* a unit's header and first DIE, which libdw looks at */
	ABBREV_STEP = 8 << 10,
	TEXT_STEP = 4 << 10,
	LINE_COST = 18, /* libdw makes so many bytes of each byte of .debug_line */
};
static const uint64_t MIN_SIZE = 256 << 10;

static const char *const names[SECTION_COUNT] = {
	".debug_info",	      ".debug_line",	 ".debug_abbrev", ".debug_str",
	".debug_line_str",    ".debug_rnglists", ".debug_ranges", ".debug_aranges",
	".debug_str_offsets", ".debug_addr",
};

struct lazy_dwarf {
	int fd;
	uint8_t *image;
	size_t image_size;
	uint64_t heads; /* of .debug_info, in pieces: all units before have their heads there */
	struct lazy_section sections[SECTION_COUNT];
};

struct image_head {
	Elf64_Ehdr header;
	Elf64_Shdr sections[SECTION_COUNT + 2]; /* none, ours, names */
	char names[256];
};

/* ---- the image ---------------------------------------------------------------------------- */

static bool need(struct lazy_dwarf *lazy, int index, uint64_t start, uint64_t size)
{
	return lazy_section_need(&lazy->sections[index], lazy->fd, start, size);
}

static bool plan(struct lazy_dwarf *lazy, Elf *elf)
{
	for (int i = 0; i < SECTION_COUNT; i++) {
		GElf_Shdr header;
		if (!elf_find_section(elf, names[i], &header) || header.sh_type == SHT_NOBITS)
			continue;
		if (!lazy_section_plan(&lazy->sections[i], lazy->fd, &header))
			return false;
	}
	return lazy->sections[SECTION_INFO].size >= MIN_SIZE;
}

static uint64_t aligned(uint64_t size)
{
	return (size + 15) & ~UINT64_C(15);
}

static void describe(struct lazy_dwarf *lazy, struct image_head *head)
{
	uint64_t offset = aligned(sizeof(*head));
	uint32_t name = 1;

	head->header =
		(Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			     .e_type = ET_DYN,
			     .e_machine = EM_X86_64,
			     .e_version = EV_CURRENT,
			     .e_shoff = offsetof(struct image_head, sections),
			     .e_ehsize = sizeof(Elf64_Ehdr),
			     .e_shentsize = sizeof(Elf64_Shdr),
			     .e_shnum = SECTION_COUNT + 2,
			     .e_shstrndx = SECTION_COUNT + 1};
	for (int i = 0; i < SECTION_COUNT; i++) {
		struct lazy_section *section = &lazy->sections[i];
		const size_t size = strlen(names[i]) + 1;
		memcpy(head->names + name, names[i], size);
		head->sections[i + 1] =
			(Elf64_Shdr){.sh_name = name,
				     .sh_type = section->size ? SHT_PROGBITS : SHT_NOBITS,
				     .sh_offset = offset,
				     .sh_size = section->size,
				     .sh_addralign = 1};
		section->out = lazy->image + offset;
		offset += aligned(section->size);
		name += (uint32_t)size;
	}
	head->sections[SECTION_COUNT + 1] =
		(Elf64_Shdr){.sh_type = SHT_STRTAB,
			     .sh_offset = offsetof(struct image_head, names),
			     .sh_size = sizeof(head->names),
			     .sh_addralign = 1};
}

static bool start_section(struct lazy_dwarf *lazy, int index)
{
	struct lazy_section *section = &lazy->sections[index];
	const bool large = index == SECTION_INFO || index == SECTION_LINE || index == SECTION_STR;

	if (!lazy_section_start(section, large))
		return false;
	if (section->compressed && index < SECTION_STR)
		return true;
	/* libdw looks for the end of the last string. */
	return section->pieces ? need(lazy, index, section->size - 1, 1)
			       : need(lazy, index, 0, section->size);
}

/* All but the large ones are there from the start. */
static bool start_sections(struct lazy_dwarf *lazy)
{
	for (int i = 0; i < SECTION_COUNT; i++)
		if (!start_section(lazy, i))
			return false;
	/* Page faults would take a tenth of the time. Of pieces it would be megabytes for each. */
	if (lazy->sections[SECTION_INFO].compressed)
		madvise(lazy->image, lazy->image_size, MADV_HUGEPAGE);
	return true;
}

static bool leads_out_of_file(Elf *elf)
{
	GElf_Shdr header;

	return elf_find_section(elf, ".gnu_debugaltlink", &header) ||
	       elf_find_section(elf, ".debug_types", &header);
}

struct lazy_dwarf *lazy_dwarf_new(int fd, Elf *elf, Elf **image)
{
	struct lazy_dwarf *lazy = alloc_zeroed(1, sizeof(*lazy));
	uint64_t size = aligned(sizeof(struct image_head));

	lazy->fd = fd;
	if (fd < 0 || leads_out_of_file(elf) || !plan(lazy, elf))
		goto refuse;
	for (int i = 0; i < SECTION_COUNT; i++)
		size += aligned(lazy->sections[i].size);
	if (size > LAZY_IMAGE_LIMIT)
		goto refuse;
	/* May fail: a file names the size. */
	lazy->image_size = size;
	lazy->image = mmap(NULL, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (lazy->image == MAP_FAILED) {
		lazy->image = NULL;
		goto refuse;
	}
	describe(lazy, (struct image_head *)lazy->image);
	if (!start_sections(lazy))
		goto refuse;
	*image = elf_memory((char *)lazy->image, size);
	if (*image)
		return lazy;
refuse:
	lazy_dwarf_free(lazy);
	return NULL;
}

void lazy_dwarf_free(struct lazy_dwarf *lazy)
{
	if (!lazy)
		return;
	for (int i = 0; i < SECTION_COUNT; i++)
		lazy_section_release(&lazy->sections[i]);
	if (lazy->image)
		munmap(lazy->image, lazy->image_size);
	free(lazy);
}

bool lazy_dwarf_fill(struct lazy_dwarf *lazy)
{
	bool well = true;

	for (int i = 0; i < SECTION_OTHER; i++)
		well &= need(lazy, i, 0, lazy->sections[i].size);
	return well;
}

/* ---- units -------------------------------------------------------------------------------- */

static uint64_t number_at(const struct lazy_section *section, uint64_t at, size_t size)
{
	uint64_t number = 0;

	memcpy(&number, section->out + at, size);
	return number;
}

/* Units and line tables both start with their length, in 4 bytes or, after ~0, in 8 more. */
static bool unit_size(struct lazy_dwarf *lazy, int index, uint64_t start, uint64_t *body,
		      uint64_t *length)
{
	if (!need(lazy, index, start, 12))
		return false;
	*length = number_at(&lazy->sections[index], start, 4);
	*body = start + 4;
	if (*length == UINT32_MAX) {
		*length = number_at(&lazy->sections[index], start + 4, 8);
		*body = start + 12;
	}
	return *length <= lazy->sections[index].size;
}

static bool need_unit(struct lazy_dwarf *lazy, int index, uint64_t start, uint64_t *body,
		      uint64_t *length)
{
	return unit_size(lazy, index, start, body, length) && need(lazy, index, *body, *length);
}

static bool take_uleb(struct lazy_dwarf *lazy, int index, uint64_t *at, uint64_t *value)
{
	const struct lazy_section *section = &lazy->sections[index];

	*value = 0;
	for (unsigned shift = 0; *at < section->size; shift += 7) {
		const uint64_t left = section->size - *at;
		if (*at >= section->done &&
		    !need(lazy, index, *at, left < ABBREV_STEP ? left : ABBREV_STEP))
			return false;
		const uint8_t byte = section->out[(*at)++];
		if (shift < 64)
			*value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

static bool leads_out(uint64_t form)
{
	switch (form) {
	case DW_FORM_ref_addr:
	case DW_FORM_ref_sig8:
	case DW_FORM_ref_sup4:
	case DW_FORM_ref_sup8:
	case DW_FORM_GNU_ref_alt:
	case DW_FORM_indirect:
		return true;
	default:
		return false;
	}
}

/* No DIE of this abbreviation table refers to another unit. Bounded by the section's end. */
static bool stays_inside(struct lazy_dwarf *lazy, uint64_t at)
{
	uint64_t code, tag, name, form, ignored;

	while (take_uleb(lazy, SECTION_ABBREV, &at, &code)) {
		if (!code)
			return true;
		if (!take_uleb(lazy, SECTION_ABBREV, &at, &tag))
			return false;
		at++; /* DW_CHILDREN_yes or no */
		do {
			if (!take_uleb(lazy, SECTION_ABBREV, &at, &name) ||
			    !take_uleb(lazy, SECTION_ABBREV, &at, &form) ||
			    (form == DW_FORM_implicit_const &&
			     !take_uleb(lazy, SECTION_ABBREV, &at, &ignored)) ||
			    leads_out(form))
				return false;
		} while (name || form);
	}
	return false;
}

/* libdw goes from the first unit to the one that it is asked for. */
static bool need_heads(struct lazy_dwarf *lazy, uint64_t end)
{
	const struct lazy_section *info = &lazy->sections[SECTION_INFO];
	uint64_t body, length;

	while (info->pieces && lazy->heads < end && lazy->heads + 12 <= info->size) {
		const uint64_t left = info->size - lazy->heads;
		if (!need(lazy, SECTION_INFO, lazy->heads, left < UNIT_HEAD ? left : UNIT_HEAD) ||
		    !unit_size(lazy, SECTION_INFO, lazy->heads, &body, &length))
			return false;
		lazy->heads = body + length;
	}
	return true;
}

bool lazy_dwarf_need_heads(struct lazy_dwarf *lazy)
{
	if (!lazy->sections[SECTION_INFO].pieces)
		return lazy_dwarf_fill(lazy);
	return need_heads(lazy, lazy->sections[SECTION_INFO].size);
}

bool lazy_dwarf_need_unit(struct lazy_dwarf *lazy, uint64_t offset)
{
	const struct lazy_section *info = &lazy->sections[SECTION_INFO];
	uint64_t body, length;

	if (!need_heads(lazy, offset) || !need_unit(lazy, SECTION_INFO, offset, &body, &length) ||
	    length < 16)
		return false;
	/* version; 5: type of unit, size of addresses; offset of the abbreviations */
	const uint64_t field = body + (number_at(info, body, 2) >= 5 ? 4 : 2);
	return stays_inside(lazy, number_at(info, field, body - offset == 4 ? 4 : 8));
}

/* In DWARF 5, of the table whose contents start here: names of folders are in .debug_str. Nobody
 * keeps those of files in another way. */
static bool names_are_elsewhere(struct lazy_dwarf *lazy, uint64_t body, bool large)
{
	const struct lazy_section *lines = &lazy->sections[SECTION_LINE];
	/* version, sizes of addresses and segments, header_length, five bytes, opcode_base */
	uint64_t at = body + 4 + (large ? 8 : 4) + 5, kind, form;

	if (at >= lines->size || number_at(lines, body, 2) < 5)
		return false;
	at += lines->out[at] ? lines->out[at] : 1; /* itself, and a byte for each but the first */
	for (int left = at < lines->size ? lines->out[at++] : 0; left > 0; left--)
		if (!take_uleb(lazy, SECTION_LINE, &at, &kind) ||
		    !take_uleb(lazy, SECTION_LINE, &at, &form) || form == DW_FORM_strp)
			return true;
	return false;
}

bool lazy_dwarf_need_lines(struct lazy_dwarf *lazy, uint64_t offset)
{
	const struct lazy_section *texts = &lazy->sections[SECTION_STR];
	uint64_t body, length;

	return need_unit(lazy, SECTION_LINE, offset, &body, &length) &&
	       (length < 16 || !names_are_elsewhere(lazy, body, body - offset > 4) ||
		need(lazy, SECTION_STR, 0, texts->size));
}

size_t lazy_dwarf_text(struct lazy_dwarf *lazy, const char *text, size_t limit)
{
	const struct lazy_section *texts = &lazy->sections[SECTION_STR];
	const uintptr_t start = (uintptr_t)texts->out, at = (uintptr_t)text;

	if (!texts->out || at < start || at - start >= texts->size)
		return limit;
	uint64_t from = at - start, end = texts->size;
	if (end - from > limit)
		end = from + limit;
	for (uint64_t to; from < end; from = to) {
		to = (from / TEXT_STEP + 1) * TEXT_STEP < end ? (from / TEXT_STEP + 1) * TEXT_STEP
							      : end;
		if (!need(lazy, SECTION_STR, from, to - from))
			return from - (at - start);
		if (memchr(texts->out + from, '\0', to - from))
			break;
	}
	return end - (at - start);
}

size_t lazy_dwarf_cost(const struct lazy_dwarf *lazy)
{
	if (lazy->sections[SECTION_INFO].compressed)
		return 0; /* it would have to be inflated again from its start on */
	return lazy->sections[SECTION_INFO].filled + lazy->sections[SECTION_STR].filled +
	       LINE_COST * lazy->sections[SECTION_LINE].filled;
}
