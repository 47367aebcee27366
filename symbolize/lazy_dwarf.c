/* SPDX-License-Identifier: MIT */
/*
 * From an ELF file with compressed debug sections to an ELF image in memory in which .debug_info,
 * .debug_line and .debug_abbrev are inflated only as far as units are asked for: libdw would
 * inflate them whole, which takes longer than all the rest when a few addresses of libc are named.
 * The image has the sections in their full size from the start (memory that is not written costs
 * nothing), so what libdw has remembered of it stays true as it fills up. Must never let libdw look
 * beyond what is inflated: units that refer to others are refused, then everything has to be filled
 * in.
 */
#include <dwarf.h>
#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "base/alloc.h"
#include "symbolize/internal.h"

enum { SECTION_INFO, SECTION_LINE, SECTION_ABBREV, SECTION_OTHER, SECTION_COUNT = 10 };
enum {
	INPUT_SIZE = 64 << 10,
	ABBREV_STEP = 8 << 10,
	DEFLATE_LIMIT = 1100 /* times smaller, at best */
};
static const uint64_t IMAGE_LIMIT = UINT64_C(1) << 31, MIN_SIZE = 256 << 10;

static const char *const names[SECTION_COUNT] = {
	".debug_info",	      ".debug_line",	 ".debug_abbrev", ".debug_str",
	".debug_line_str",    ".debug_rnglists", ".debug_ranges", ".debug_aranges",
	".debug_str_offsets", ".debug_addr",
};

struct lazy_section {
	bool compressed, failed;
	uint64_t at, end; /* what of the file is still to be read */
	uint8_t *out;
	uint64_t size, done; /* of out */
	z_stream stream;
	uint8_t *input;
};

struct lazy_dwarf {
	int fd;
	uint8_t *image;
	size_t image_size;
	struct lazy_section sections[SECTION_COUNT];
};

struct image_head {
	Elf64_Ehdr header;
	Elf64_Shdr sections[SECTION_COUNT + 2]; /* none, ours, names */
	char names[256];
};

/* ---- one section -------------------------------------------------------------------------- */

static bool read_fully(int fd, uint64_t at, uint8_t *buffer, size_t size)
{
	while (size) {
		const ssize_t got = pread(fd, buffer, size, (off_t)at);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		buffer += got;
		at += (uint64_t)got;
		size -= (size_t)got;
	}
	return true;
}

static bool refill(struct lazy_section *section, int fd)
{
	const uint64_t left = section->end - section->at;
	const size_t size = left < INPUT_SIZE ? (size_t)left : INPUT_SIZE;

	if (!size || !read_fully(fd, section->at, section->input, size))
		return false;
	section->at += size;
	section->stream.next_in = section->input;
	section->stream.avail_in = (uInt)size;
	return true;
}

/* Inflates up to `limit` bytes; the checksum at the end is not looked at: mostly it is not read. */
static bool inflate_to(struct lazy_section *section, int fd, uint64_t limit)
{
	while (section->done < limit) {
		const uint64_t room = limit - section->done;
		z_stream *stream = &section->stream;
		if (!stream->avail_in && !refill(section, fd))
			return false;
		stream->next_out = section->out + section->done;
		stream->avail_out = room < INT32_MAX ? (uInt)room : INT32_MAX;
		const int status = inflate(stream, Z_NO_FLUSH);
		section->done = (uint64_t)(stream->next_out - section->out);
		if (status != Z_OK && (status != Z_STREAM_END || section->done < limit))
			return false;
	}
	return true;
}

static bool need(struct lazy_dwarf *lazy, int index, uint64_t start, uint64_t size)
{
	struct lazy_section *section = &lazy->sections[index];

	if (start > section->size || size > section->size - start || section->failed)
		return false;
	if (start + size <= section->done)
		return true;
	if (section->compressed)
		section->failed = !inflate_to(section, lazy->fd, start + size);
	else if (read_fully(lazy->fd, section->at, section->out, section->size))
		section->done = section->size;
	else
		section->failed = true;
	return !section->failed;
}

/* Where the section is and how large it will be; false: this is not for us. */
static bool plan_section(struct lazy_section *section, int fd, const GElf_Shdr *header)
{
	struct {
		Elf64_Chdr compression;
		uint8_t zlib[2];
	} start;

	section->at = header->sh_offset;
	section->size = header->sh_size;
	if (header->sh_offset > INT64_MAX || header->sh_size > INT64_MAX - header->sh_offset)
		return false;
	section->end = section->at + header->sh_size;
	section->compressed = header->sh_flags & SHF_COMPRESSED;
	if (!section->compressed)
		return section->size < IMAGE_LIMIT;
	const size_t head = sizeof(start.compression) + sizeof(start.zlib);
	if (header->sh_size < head || !read_fully(fd, section->at, (uint8_t *)&start, head))
		return false;
	/* RFC 1950: method 8 in the low four bits; bit 5 of the second byte: a dictionary */
	if (start.compression.ch_type != ELFCOMPRESS_ZLIB || (start.zlib[0] & 0x0f) != 8 ||
	    start.zlib[1] & 0x20 || start.compression.ch_size / DEFLATE_LIMIT > header->sh_size)
		return false;
	section->at += head;
	section->size = start.compression.ch_size;
	return section->size < IMAGE_LIMIT;
}

static bool plan(struct lazy_dwarf *lazy, Elf *elf)
{
	for (int i = 0; i < SECTION_COUNT; i++) {
		GElf_Shdr header;
		if (!elf_find_section(elf, names[i], &header) || header.sh_type == SHT_NOBITS)
			continue;
		if (!plan_section(&lazy->sections[i], lazy->fd, &header))
			return false;
	}
	const struct lazy_section *info = &lazy->sections[SECTION_INFO];
	return info->compressed && info->size >= MIN_SIZE;
}

/* ---- the image ---------------------------------------------------------------------------- */

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

static bool start_streams(struct lazy_dwarf *lazy)
{
	for (int i = 0; i < SECTION_COUNT; i++) {
		struct lazy_section *section = &lazy->sections[i];
		if (!section->compressed)
			continue;
		if (inflateInit2(&section->stream, -MAX_WBITS) != Z_OK)
			return false;
		section->input = alloc_zeroed(1, INPUT_SIZE);
	}
	/* All but the large ones are there from the start. */
	for (int i = SECTION_OTHER; i < SECTION_COUNT; i++)
		if (!need(lazy, i, 0, lazy->sections[i].size))
			return false;
	return true;
}

struct lazy_dwarf *lazy_dwarf_new(int fd, Elf *elf, Elf **image)
{
	struct lazy_dwarf *lazy = alloc_zeroed(1, sizeof(*lazy));
	uint64_t size = aligned(sizeof(struct image_head));
	struct elf_bytes link;

	lazy->fd = fd;
	if (fd < 0 || elf_section_bytes(elf, ".gnu_debugaltlink", &link) || !plan(lazy, elf))
		goto refuse;
	for (int i = 0; i < SECTION_COUNT; i++)
		size += aligned(lazy->sections[i].size);
	if (size > IMAGE_LIMIT)
		goto refuse;
	/* May fail: a file names the size. */
	lazy->image_size = size;
	lazy->image = mmap(NULL, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (lazy->image == MAP_FAILED) {
		lazy->image = NULL;
		goto refuse;
	}
	madvise(lazy->image, size, MADV_HUGEPAGE); /* page faults would take a tenth of the time */
	describe(lazy, (struct image_head *)lazy->image);
	if (!start_streams(lazy))
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
	for (int i = 0; i < SECTION_COUNT; i++) {
		struct lazy_section *section = &lazy->sections[i];
		if (section->compressed)
			inflateEnd(&section->stream); /* harmless where none was started */
		free(section->input);
	}
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
static bool need_unit(struct lazy_dwarf *lazy, int index, uint64_t start, uint64_t *body,
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
	return need(lazy, index, *body, *length);
}

/* A number of .debug_abbrev. */
static bool take_uleb(struct lazy_dwarf *lazy, uint64_t *at, uint64_t *value)
{
	const struct lazy_section *section = &lazy->sections[SECTION_ABBREV];

	*value = 0;
	for (unsigned shift = 0; *at < section->size; shift += 7) {
		const uint64_t left = section->size - *at;
		if (*at >= section->done &&
		    !need(lazy, SECTION_ABBREV, *at, left < ABBREV_STEP ? left : ABBREV_STEP))
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

	while (take_uleb(lazy, &at, &code)) {
		if (!code)
			return true;
		if (!take_uleb(lazy, &at, &tag))
			return false;
		at++; /* DW_CHILDREN_yes or no */
		do {
			if (!take_uleb(lazy, &at, &name) || !take_uleb(lazy, &at, &form) ||
			    (form == DW_FORM_implicit_const && !take_uleb(lazy, &at, &ignored)) ||
			    leads_out(form))
				return false;
		} while (name || form);
	}
	return false;
}

bool lazy_dwarf_need_unit(struct lazy_dwarf *lazy, uint64_t offset)
{
	const struct lazy_section *info = &lazy->sections[SECTION_INFO];
	uint64_t body, length;

	if (!need_unit(lazy, SECTION_INFO, offset, &body, &length) || length < 16)
		return false;
	/* version; 5: type of unit, size of addresses; offset of the abbreviations */
	const uint64_t field = body + (number_at(info, body, 2) >= 5 ? 4 : 2);
	return stays_inside(lazy, number_at(info, field, body - offset == 4 ? 4 : 8));
}

bool lazy_dwarf_need_lines(struct lazy_dwarf *lazy, uint64_t offset)
{
	uint64_t body, length;

	return need_unit(lazy, SECTION_LINE, offset, &body, &length);
}
