/* SPDX-License-Identifier: MIT */
/* _Py_DebugOffsets as CPython 3.13 to 3.15 write it, and as a hostile target may. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "python/internal.h"

enum { MAX_WORDS = 111, RUNTIME = 4096 };

/* From live interpreters and from headers; the comments name the groups. */
/* clang-format off */
static const uint64_t words_3130[] = {
	0, 0x30d00f0, 0,
	/* runtime_state */ 283320, 608, 632,
	/* interpreter_state */ 194968, 7272, 7264, 7344, 7400, 7656, 7640, 7648, 16, 7752, 0,
		7768, 7760,
	/* thread_state */ 304, 0, 8, 16, 72, 152, 160, 232, 32,
	/* interpreter_frame */ 80, 8, 0, 56, 72, 70,
	/* code_object */ 208, 112, 120, 128, 136, 68, 52, 96, 104, 200,
	/* pyobject */ 16, 8,
	/* type_object */ 416, 24, 88, 168,
	/* tuple_object */ 32, 24, 16,
	/* list_object */ 40, 24, 16,
	/* dict_object */ 48, 32, 40,
	/* float_object */ 24, 16,
	/* long_object */ 32, 16, 24,
	/* bytes_object */ 40, 16, 32,
	/* unicode_object */ 64, 32, 16, 40,
	/* gc */ 240, 200
};

static const uint64_t words_3143[] = {
	0, 0x30e03f0, 0,
	/* runtime_state */ 316576, 784, 808,
	/* interpreter_state */ 225824, 7280, 7272, 7344, 7360, 7408, 7664, 7648, 7656, 16,
		7760, 0, 7776, 7768, 7968, 0,
	/* thread_state */ 824, 0, 8, 16, 72, 152, 160, 232, 32,
	/* interpreter_frame */ 88, 8, 0, 56, 80, 74, 64, 0,
	/* code_object */ 216, 112, 120, 128, 136, 68, 52, 96, 104, 208, 0,
	/* pyobject */ 16, 8,
	/* type_object */ 416, 24, 88, 168,
	/* tuple_object */ 40, 32, 16,
	/* list_object */ 40, 24, 16,
	/* set_object */ 200, 24, 40, 32,
	/* dict_object */ 48, 32, 40,
	/* float_object */ 24, 16,
	/* long_object */ 32, 16, 24,
	/* bytes_object */ 40, 16, 32,
	/* unicode_object */ 64, 32, 16, 40,
	/* gc */ 240, 192,
	/* gen_object */ 160, 24, 72, 67,
	/* llist_node */ 0, 8,
	/* debugger_support */ 24, 304, 8052, 0, 4, 512
};

static const uint64_t words_3152t[] = {
	0, 0x30f02f0, 1,
	/* runtime_state */ 409296, 912, 936,
	/* interpreter_state */ 250328, 7272, 7264, 7336, 7352, 7400, 7592, 7576, 7584, 16,
		7736, 0, 7760, 7752, 7952, 17252,
	/* thread_state */ 888, 0, 8, 16, 72, 80, 88, 96, 176, 184, 256, 32, 36, 40, 136, 288,
	/* err_stackitem */ 0,
	/* interpreter_frame */ 88, 8, 0, 56, 80, 78, 64, 72,
	/* code_object */ 240, 128, 136, 144, 152, 84, 68, 112, 120, 232, 224,
	/* pyobject */ 32, 24,
	/* type_object */ 440, 40, 104, 184, 48, 304,
	/* heap_type_object */ 968, 904,
	/* tuple_object */ 56, 48, 32,
	/* list_object */ 56, 40, 32,
	/* set_object */ 216, 40, 56, 48,
	/* dict_object */ 64, 48, 56,
	/* float_object */ 40, 32,
	/* long_object */ 48, 32, 40,
	/* bytes_object */ 56, 32, 48,
	/* unicode_object */ 80, 48, 32, 56, 72,
	/* gc */ 176, 112, 120, 224, 104,
	/* gen_object */ 176, 40, 88, 83,
	/* llist_node */ 0, 8,
	/* debugger_support */ 24, 344, 8036, 0, 4, 512
};
/* clang-format on */

struct sound {
	unsigned minor;
	bool free_threaded;
	const uint64_t *words;
	size_t count;
	int moved_modules; /* against the row */
};

enum { SOUND_3130, SOUND_3143, SOUND_3152T, SOUND_COUNT };
static const struct sound sounds[SOUND_COUNT] = {
	[SOUND_3130] = {13, false, words_3130, sizeof(words_3130) / 8, 0},
	[SOUND_3143] = {14, false, words_3143, sizeof(words_3143) / 8, -24},
	[SOUND_3152T] = {15, true, words_3152t, sizeof(words_3152t) / 8, 0},
};

struct words {
	struct memory_reader reader;
	const struct sound *sound;
	uint64_t word[MAX_WORDS];
	size_t size;
};

static bool read_words(const struct memory_reader *reader, remote_addr address, void *buffer,
		       size_t size, struct error *error)
{
	const struct words *words = (const struct words *)reader;
	if (address != RUNTIME || size > words->size)
		return error_set(error, ERROR_GONE, "not mapped");
	memcpy(buffer, words->word, size);
	return true;
}

static void set_sound(struct words *words, size_t index)
{
	words->reader.read = read_words;
	words->sound = &sounds[index];
	words->size = 8 * words->sound->count;
	memcpy(words->word, words->sound->words, words->size);
	memcpy(words->word, "xdebugpy", 8);
}

static const struct python_layout *row_of(const struct words *words)
{
	return python_layout_find(3, words->sound->minor, words->sound->free_threaded);
}

static bool apply(const struct words *words, struct python_layout *layout, struct error *error)
{
	*layout = *row_of(words);
	memset(error, 0, sizeof(*error));
	return python_debug_offsets_apply(layout, &words->reader, RUNTIME,
					  (uint32_t)words->sound->words[1], error);
}

static void offsets_of_interpreters_complete_the_row(void **state)
{
	(void)state;
	for (size_t i = 0; i < SOUND_COUNT; i++) {
		struct words words;
		struct python_layout layout;
		struct error error;
		set_sound(&words, i);
		if (!apply(&words, &layout, &error))
			fail_msg("%s", error.message);
		struct python_layout expected = *row_of(&words);
		expected.interp_modules =
			(uint16_t)(expected.interp_modules + sounds[i].moved_modules);
		assert_memory_equal(&layout, &expected, sizeof(layout));
	}
}

static void members_that_move_together_are_followed(void **state)
{
	(void)state;
	struct words words;
	struct python_layout layout;
	struct error error;
	set_sound(&words, SOUND_3130);
	for (size_t at = 88; at <= 104; at += 8) /* imports_modules, sysdict, builtins */
		words.word[at / 8] -= 24;
	for (size_t at = 56; at <= 80; at += 8) /* id, next, threads_head, gc */
		words.word[at / 8] += 8;
	assert_true(apply(&words, &layout, &error));
	assert_int_equal(layout.interp_modules, 7656 - 24);
	assert_int_equal(layout.interp_id, 7272 + 8);
	assert_int_equal(layout.interp_next, 7264 + 8);
	assert_int_equal(layout.interp_threads_head, 7344 + 8);
	assert_int_equal(layout.interp_gc_collecting, 7600 + 8);
}

/* Not by so much, and not by a part of a word. */
static void members_that_move_too_far_are_refused(void **state)
{
	(void)state;
	static const int64_t moves[] = {4, 1, -2, 1032, -1032, 1 << 16, INT64_C(1) << 32};
	for (size_t i = 0; i < sizeof(moves) / sizeof(*moves); i++) {
		struct words words;
		struct python_layout layout;
		struct error error;
		set_sound(&words, SOUND_3130);
		for (size_t at = 88; at <= 104; at += 8)
			words.word[at / 8] += (uint64_t)moves[i];
		assert_false(apply(&words, &layout, &error));
		assert_int_equal(error.kind, ERROR_UNSUPPORTED);
	}
}

static void offsets_that_cannot_be_are_refused(void **state)
{
	(void)state;
	static const struct {
		size_t word;
		uint64_t value;
		enum error_kind kind;
	} cases[] = {
		{0, 0, ERROR_TORN},
		{1, 0x030d0000, ERROR_CORRUPT},
		{1, 0x10000030d00f0, ERROR_CORRUPT},
		{2, 1, ERROR_CORRUPT},
		{2, 2, ERROR_CORRUPT},
		{40 / 8, UINT64_MAX, ERROR_UNSUPPORTED},
		{64 / 8, 7272, ERROR_UNSUPPORTED}, /* next, alone */
		{80 / 8, UINT64_MAX - 100, ERROR_UNSUPPORTED},
		{80 / 8, 7408, ERROR_UNSUPPORTED},
		{576 / 8, UINT64_MAX - 100, ERROR_UNSUPPORTED},
		{88 / 8, 7664, ERROR_UNSUPPORTED}, /* modules, alone */
		{184 / 8, 80, ERROR_UNSUPPORTED},
		{224 / 8, 4096, ERROR_UNSUPPORTED},
		{232 / 8, 79, ERROR_UNSUPPORTED},
		{264 / 8, 80, ERROR_UNSUPPORTED},
		{344 / 8, 202, ERROR_UNSUPPORTED},
		{560 / 8, 0, ERROR_UNSUPPORTED},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct words words;
		struct python_layout layout;
		struct error error;
		set_sound(&words, SOUND_3130);
		words.word[cases[i].word] = cases[i].value;
		bool ok = apply(&words, &layout, &error);
		if (ok || error.kind != cases[i].kind)
			fail_msg("word %zu = %llu: %s", cases[i].word,
				 (unsigned long long)cases[i].value, ok ? "taken" : error.message);
		assert_memory_equal(&layout, row_of(&words), sizeof(layout));
	}
}

/* Each bit of each word wrong, and each word as its neighbour has it. */
static void no_wrong_word_changes_what_is_read(void **state)
{
	(void)state;
	for (size_t i = 0; i < SOUND_COUNT; i++) {
		struct words words;
		struct python_layout sound, layout;
		struct error error;
		set_sound(&words, i);
		assert_true(apply(&words, &sound, &error));
		for (size_t word = 0; word < sounds[i].count; word++) {
			const uint64_t right = words.word[word];
			for (unsigned bit = 0; bit <= 64; bit++) {
				words.word[word] = bit < 64 ? right ^ UINT64_C(1) << bit
							    : words.word[word ? word - 1 : 1];
				if (apply(&words, &layout, &error))
					assert_memory_equal(&layout, &sound, sizeof(layout));
			}
			words.word[word] = right;
		}
	}
}

/* The table of another version or build has its words elsewhere. */
static void offsets_of_another_build_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < SOUND_COUNT; i++) {
		struct words words;
		struct python_layout layout;
		struct error error;
		const struct python_layout *row;
		set_sound(&words, i);
		for (size_t j = 0; (row = python_layout_row(j)) != NULL; j++) {
			if (row == row_of(&words))
				continue;
			layout = *row;
			assert_false(python_debug_offsets_apply(&layout, &words.reader, RUNTIME,
								(uint32_t)sounds[i].words[1],
								&error));
			assert_memory_equal(&layout, row, sizeof(layout));
		}
	}
}

static void offsets_that_cannot_be_read_are_an_error(void **state)
{
	(void)state;
	struct words words;
	struct python_layout layout;
	struct error error;
	set_sound(&words, SOUND_3130);
	words.size = 100;
	assert_false(apply(&words, &layout, &error));
	assert_int_equal(error.kind, ERROR_GONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(offsets_of_interpreters_complete_the_row),
		cmocka_unit_test(members_that_move_together_are_followed),
		cmocka_unit_test(members_that_move_too_far_are_refused),
		cmocka_unit_test(offsets_that_cannot_be_are_refused),
		cmocka_unit_test(no_wrong_word_changes_what_is_read),
		cmocka_unit_test(offsets_of_another_build_are_refused),
		cmocka_unit_test(offsets_that_cannot_be_read_are_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
