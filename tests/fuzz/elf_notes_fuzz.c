/* SPDX-License-Identifier: MIT */
/* Notes, and an image's beginning that leads to some: what is given lies within the bytes. */
#include "elf/notes.h"
#include "tests/fuzz/fuzz.h"

static bool is_within(const void *part, size_t part_size, const uint8_t *data, size_t size)
{
	const uint8_t *const start = part;
	return start >= data && start <= data + size && part_size <= (size_t)(data + size - start);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_note note;
	size_t at = 0, before = 0;
	while (elf_note_next(data, size, &at, &note)) {
		if (at <= before || at > size ||
		    !is_within(note.owner, note.owner_size, data, size) ||
		    !is_within(note.bytes, note.size, data, size))
			abort();
		(void)elf_note_is_of(&note, "CORE");
		before = at;
	}
	const struct build_id ids[] = {elf_notes_build_id(data, size),
				       elf_head_build_id(data, size)};
	if (ids[0].size > sizeof(ids[0].bytes) || ids[1].size > sizeof(ids[1].bytes))
		abort();
	return 0;
}
