/* SPDX-License-Identifier: MIT */
/* Some blocks of many bytes: what was put there is read, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/blocks.h"

/* Blocks at 0, 64, 192 and at the last address; byte i is i. */
static void fill(struct blocks *blocks)
{
	static const uint64_t starts[] = {192, 0, 64, -(uint64_t)BLOCKS_STEP};
	for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++) {
		uint8_t bytes[BLOCKS_STEP];
		for (size_t k = 0; k < sizeof(bytes); k++)
			bytes[k] = (uint8_t)(starts[i] + k);
		assert_true(blocks_put(blocks, starts[i], bytes));
		assert_false(blocks_put(blocks, starts[i], bytes));
	}
	assert_int_equal(blocks->count, sizeof(starts) / sizeof(*starts));
}

static void what_was_put_is_read(void **state)
{
	static const struct {
		uint64_t address;
		size_t size;
		bool whole;
	} cases[] = {
		{0, 1, true},
		{0, 128, true},
		{63, 2, true},
		{5, 100, true},
		{192, 64, true},
		{0, 0, true},
		{-(uint64_t)1, 1, true},
		{127, 2, false},  /* the end is not there */
		{191, 10, false}, /* the start */
		{0, 256, false},  /* the middle */
		{128, 64, false},
		{4096, 1, false},
	};
	struct blocks blocks = {0};
	(void)state;
	fill(&blocks);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint8_t bytes[256];
		memset(bytes, 0xff, sizeof(bytes));
		assert_int_equal(blocks_read(&blocks, cases[i].address, bytes, cases[i].size),
				 cases[i].whole);
		for (size_t k = 0; k < cases[i].size; k++) {
			const uint64_t at = cases[i].address + k;
			assert_int_equal(bytes[k], blocks_has(&blocks, at) ? (uint8_t)at : 0);
		}
	}
	blocks_release(&blocks);
}

static void other_bytes_replace_a_block(void **state)
{
	struct blocks blocks = {0};
	uint8_t bytes[BLOCKS_STEP] = {1};
	(void)state;
	assert_true(blocks_put(&blocks, 64, bytes));
	bytes[0] = 2;
	assert_true(blocks_put(&blocks, 64, bytes));
	assert_int_equal(blocks.count, 1);
	assert_true(blocks_read(&blocks, 64, bytes, 1));
	assert_int_equal(bytes[0], 2);
	blocks_release(&blocks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_put_is_read),
		cmocka_unit_test(other_bytes_replace_a_block),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
