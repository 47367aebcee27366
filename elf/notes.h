/* SPDX-License-Identifier: MIT */
/*
 * ELF notes, of programs and of core files: a header, the owner's name, then what it says, each
 * padded to four bytes. All of it is a stranger's.
 */
#ifndef ELF_NOTES_H
#define ELF_NOTES_H

#include "base/types.h"

struct elf_note {
	uint32_t type;
	const char *owner; /* "GNU"; its NUL may be missing */
	size_t owner_size;
	const uint8_t *bytes; /* within the notes */
	size_t size;
};

/*
 * Gives the note at *at and moves *at behind it; *at is 0 at first. False: the end, or a note that
 * does not fit, which ends them.
 */
bool MUST_CHECK elf_note_next(const uint8_t *notes, size_t size, size_t *at, struct elf_note *note);

bool elf_note_is_of(const struct elf_note *note, const char *owner);

/* The build ID among the notes; size 0: none. */
struct build_id elf_notes_build_id(const uint8_t *notes, size_t size);

/* The build ID of an image of which only the beginning is here; size 0: it is not in that. */
struct build_id elf_head_build_id(const uint8_t *head, size_t size);

#endif
