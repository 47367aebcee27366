/* SPDX-License-Identifier: MIT */
/* From bytes to notes, and from notes to a build ID. */
#include "elf/notes.h"

#include <elf.h>
#include <string.h>

static size_t align4(size_t size)
{
	return (size + 3) & ~(size_t)3;
}

bool elf_note_next(const uint8_t *notes, size_t size, size_t *at, struct elf_note *note)
{
	Elf64_Nhdr header;
	if (*at > size || size - *at < sizeof(header))
		return false;
	memcpy(&header, notes + *at, sizeof(header));
	const size_t owner = *at + sizeof(header);
	if (align4(header.n_namesz) > size - owner)
		return false;
	const size_t bytes = owner + align4(header.n_namesz);
	if (header.n_descsz > size - bytes)
		return false;
	*note = (struct elf_note){
		.type = header.n_type,
		.owner = (const char *)notes + owner,
		.owner_size = header.n_namesz,
		.bytes = notes + bytes,
		.size = header.n_descsz,
	};
	/* The last one's padding may be missing. */
	const size_t whole = align4(header.n_descsz);
	*at = whole < size - bytes ? bytes + whole : size;
	return true;
}

bool elf_note_is_of(const struct elf_note *note, const char *owner)
{
	const size_t length = strlen(owner);
	if (note->owner_size != length && note->owner_size != length + 1)
		return false;
	return memcmp(note->owner, owner, note->owner_size) == 0;
}

struct build_id elf_notes_build_id(const uint8_t *notes, size_t size)
{
	struct build_id id = {.size = 0};
	struct elf_note note;
	for (size_t at = 0; elf_note_next(notes, size, &at, &note);) {
		if (note.type != NT_GNU_BUILD_ID || !elf_note_is_of(&note, "GNU") || !note.size ||
		    note.size > sizeof(id.bytes))
			continue;
		memcpy(id.bytes, note.bytes, note.size);
		id.size = (uint8_t)note.size;
		break;
	}
	return id;
}

struct build_id elf_head_build_id(const uint8_t *head, size_t size)
{
	struct build_id id = {.size = 0};
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	if (size < sizeof(header))
		return id;
	memcpy(&header, head, sizeof(header));
	for (size_t i = 0; i < header.e_phnum && !id.size; i++) {
		if (header.e_phoff > size || size - header.e_phoff < (i + 1) * sizeof(segment))
			break;
		memcpy(&segment, head + header.e_phoff + i * sizeof(segment), sizeof(segment));
		if (segment.p_type == PT_NOTE && segment.p_offset <= size &&
		    segment.p_filesz <= size - segment.p_offset)
			id = elf_notes_build_id(head + segment.p_offset, segment.p_filesz);
	}
	return id;
}
