/* SPDX-License-Identifier: MIT */
/* _Py_DebugOffsets as CPython 3.13.0 writes it, and as a hostile target may. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "python/internal.h"

enum { WORDS = 73, VERSION_3130 = 0x030d00f0 };

/* From a live 3.13.0; the comments name the groups. */
static const uint64_t sound[WORDS] = {
	0,
	VERSION_3130,
	0,
	/* runtime_state */ 0,
	608,
	632,
	/* interpreter_state */
	0,
	7272,
	7264,
	7344,
	7400,
	7656,
	7640,
	7648,
	16,
	7752,
	0,
	7768,
	7760,
	/* thread_state */ 304,
	0,
	8,
	16,
	72,
	152,
	160,
	232,
	32,
	/* interpreter_frame */ 80,
	8,
	0,
	56,
	72,
	70,
	/* code_object */ 208,
	112,
	120,
	128,
	136,
	68,
	52,
	96,
	104,
	200,
	/* pyobject */ 16,
	8,
	/* type_object */ 416,
	24,
	88,
	168,
	/* tuple_object */ 32,
	24,
	16,
	/* list_object */ 40,
	24,
	16,
	/* dict_object */ 48,
	32,
	40,
	/* float_object */ 24,
	16,
	/* long_object */ 32,
	16,
	24,
	/* bytes_object */ 40,
	16,
	32,
	/* unicode_object */ 64,
	32,
	16,
	40,
	/* gc */ 240,
	200,
};

struct words {
	struct memory_reader reader;
	uint64_t word[WORDS];
	size_t size;
};

static bool read_words(const struct memory_reader *reader, remote_addr address, void *buffer,
		       size_t size, struct error *error)
{
	const struct words *words = (const struct words *)reader;
	if (address != 4096 || size > words->size)
		return error_set(error, ERROR_GONE, "not mapped");
	memcpy(buffer, words->word, size);
	return true;
}

static void set_sound(struct words *words)
{
	words->reader.read = read_words;
	words->size = sizeof(words->word);
	memcpy(words->word, sound, sizeof(sound));
	memcpy(words->word, "xdebugpy", 8);
}

static bool apply(const struct words *words, struct python_layout *layout, struct error *error)
{
	*layout = *python_layout_find(3, 13, false);
	memset(error, 0, sizeof(*error));
	return python_debug_offsets_apply(layout, &words->reader, 4096, VERSION_3130, error);
}

static void offsets_of_a_live_interpreter_equal_the_row(void **state)
{
	(void)state;
	struct words words;
	struct python_layout layout;
	struct error error;
	set_sound(&words);
	if (!apply(&words, &layout, &error))
		fail_msg("%s", error.message);
	assert_memory_equal(&layout, python_layout_find(3, 13, false), sizeof(layout));
}

static void offsets_are_taken_from_the_target(void **state)
{
	(void)state;
	struct words words;
	struct python_layout layout;
	struct error error;
	set_sound(&words);
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
		set_sound(&words);
		words.word[cases[i].word] = cases[i].value;
		bool ok = apply(&words, &layout, &error);
		if (ok || error.kind != cases[i].kind)
			fail_msg("word %zu = %llu: %s", cases[i].word,
				 (unsigned long long)cases[i].value, ok ? "taken" : error.message);
		assert_memory_equal(&layout, python_layout_find(3, 13, false), sizeof(layout));
	}
}

static void offsets_that_cannot_be_read_are_an_error(void **state)
{
	(void)state;
	struct words words;
	struct python_layout layout;
	struct error error;
	set_sound(&words);
	words.size = 100;
	assert_false(apply(&words, &layout, &error));
	assert_int_equal(error.kind, ERROR_GONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(offsets_of_a_live_interpreter_equal_the_row),
		cmocka_unit_test(offsets_are_taken_from_the_target),
		cmocka_unit_test(offsets_that_cannot_be_are_refused),
		cmocka_unit_test(offsets_that_cannot_be_read_are_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
