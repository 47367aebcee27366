/* SPDX-License-Identifier: MIT */
/* Notes made here: whose they are, where they end, and what is no build ID. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <elf.h>

#include "elf/notes.h"

struct made {
	uint8_t bytes[512];
	size_t size;
};

static void put(struct made *made, const void *bytes, size_t size)
{
	memcpy(made->bytes + made->size, bytes, size);
	made->size = (made->size + size + 3) & ~(size_t)3;
}

static void put_note(struct made *made, const char *owner, size_t owner_size, uint32_t type,
		     const void *bytes, size_t size)
{
	const Elf64_Nhdr header = {(Elf64_Word)owner_size, (Elf64_Word)size, type};
	put(made, &header, sizeof(header));
	put(made, owner, owner_size);
	put(made, bytes, size);
}

static const uint8_t contents[40] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

static void notes_come_in_order_with_their_owners(void **state)
{
	struct made made = {.size = 0};
	struct elf_note note;
	size_t at = 0;
	(void)state;
	put_note(&made, "CORE", 5, 1, contents, 7);
	put_note(&made, "LINUX", 6, 2, contents, 0);
	put_note(&made, "CORE", 4, 3, contents, 2);
	assert_true(elf_note_next(made.bytes, made.size, &at, &note));
	assert_true(elf_note_is_of(&note, "CORE"));
	assert_false(elf_note_is_of(&note, "COR"));
	assert_int_equal(note.type, 1);
	assert_int_equal(note.size, 7);
	assert_memory_equal(note.bytes, contents, 7);
	assert_true(elf_note_next(made.bytes, made.size, &at, &note));
	assert_true(elf_note_is_of(&note, "LINUX"));
	assert_false(elf_note_is_of(&note, "CORE"));
	assert_int_equal(note.size, 0);
	/* An owner without its NUL, and contents without their padding. */
	assert_true(elf_note_next(made.bytes, made.size - 2, &at, &note));
	assert_true(elf_note_is_of(&note, "CORE"));
	assert_int_equal(note.size, 2);
	assert_int_equal(at, made.size - 2);
	assert_false(elf_note_next(made.bytes, made.size - 2, &at, &note));
}

static void a_note_that_does_not_fit_ends_them(void **state)
{
	static const Elf64_Nhdr heads[] = {
		{UINT32_MAX, 4, 3}, {4, UINT32_MAX, 3}, {65, 0, 3}, {4, 61, 3}, {0, 65, 3}};
	struct elf_note note;
	(void)state;
	for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++) {
		uint8_t bytes[sizeof(Elf64_Nhdr) + 64] = {0};
		size_t at = 0;
		memcpy(bytes, &heads[i], sizeof(heads[i]));
		assert_false(elf_note_next(bytes, sizeof(bytes), &at, &note));
		assert_int_equal(at, 0);
	}
}

static void only_gnus_note_is_the_build_id(void **state)
{
	struct made made = {.size = 0};
	(void)state;
	put_note(&made, "GNU", 4, NT_GNU_ABI_TAG, contents, 16);
	put_note(&made, "Go\0", 4, NT_GNU_BUILD_ID, contents, 20);
	put_note(&made, "GNU", 4, NT_GNU_BUILD_ID, contents, 0);
	put_note(&made, "GNU", 4, NT_GNU_BUILD_ID, contents, 33);
	assert_int_equal(elf_notes_build_id(made.bytes, made.size).size, 0);
	put_note(&made, "GNU", 4, NT_GNU_BUILD_ID, contents + 1, 20);
	put_note(&made, "GNU", 4, NT_GNU_BUILD_ID, contents, 20);
	const struct build_id id = elf_notes_build_id(made.bytes, made.size);
	assert_int_equal(id.size, 20);
	assert_memory_equal(id.bytes, contents + 1, 20);
}

static void an_images_beginning_leads_to_it(void **state)
{
	struct made made = {.size = 0};
	Elf64_Ehdr header = {.e_phoff = sizeof(header), .e_phnum = 3};
	Elf64_Phdr segments[3] = {{.p_type = PT_LOAD}, {.p_type = PT_NOTE}, {.p_type = PT_NOTE}};
	(void)state;
	put(&made, &header, sizeof(header));
	put(&made, segments, sizeof(segments));
	segments[1].p_offset = sizeof(made.bytes); /* not in the beginning */
	segments[1].p_filesz = 1;
	segments[2].p_offset = made.size;
	put_note(&made, "GNU", 4, NT_GNU_BUILD_ID, contents, 20);
	segments[2].p_filesz = made.size - segments[2].p_offset;
	memcpy(made.bytes + sizeof(header), segments, sizeof(segments));
	for (size_t size = 0; size < made.size; size++)
		assert_int_equal(elf_head_build_id(made.bytes, size).size, 0);
	const struct build_id id = elf_head_build_id(made.bytes, made.size);
	assert_int_equal(id.size, 20);
	assert_memory_equal(id.bytes, contents, 20);
	header.e_phoff = UINT64_MAX - 8;
	memcpy(made.bytes, &header, sizeof(header));
	assert_int_equal(elf_head_build_id(made.bytes, made.size).size, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(notes_come_in_order_with_their_owners),
		cmocka_unit_test(a_note_that_does_not_fit_ends_them),
		cmocka_unit_test(only_gnus_note_is_the_build_id),
		cmocka_unit_test(an_images_beginning_leads_to_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
