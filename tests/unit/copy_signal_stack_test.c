/* SPDX-License-Identifier: MIT */
/* Signal handlers on stacks of their own: what was interrupted is found by what the kernel left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "copy/internal.h"

enum { FLAGS, LINK, STACK, STACK_FLAGS, SIZE, RSP = 20, SELECTORS = 23, WORDS };

static const remote_addr COPY = 0x700000; /* the handler's stack: 64 KiB, of which half are live */
enum { COPY_SIZE = 32 << 10, STACK_SIZE = 64 << 10 };

struct row {
	size_t at;	   /* of the ucontext in the copy */
	size_t change;	   /* a word of it that is other than the kernel would have it ... */
	uint64_t value;	   /* ... this; 0: all is right */
	remote_addr found; /* what SP was */
};

static remote_addr find(const struct row *row, remote_addr sp)
{
	struct raw_sample *raw = raw_sample_new();
	uint8_t *bytes = raw_sample_add(raw, COPY, COPY_SIZE);
	memset(bytes, 0, COPY_SIZE);
	uint64_t context[WORDS] = {[FLAGS] = 7,
				   [STACK] = COPY - COPY_SIZE,
				   [SIZE] = STACK_SIZE,
				   [RSP] = 0x7ffc00001238,
				   [SELECTORS] = 0x002b000000000033};
	if (row->value)
		context[row->change] = row->value;
	const size_t size = COPY_SIZE - row->at;
	memcpy(bytes + row->at, context, size < sizeof(context) ? size : sizeof(context));
	const remote_addr found = signal_stack_left(raw, sp, 0);
	raw_sample_free(raw);
	return found;
}

static void the_interrupted_stack_is_found(void **state)
{
	static const struct row rows[] = {
		{0, 0, 0, 0x7ffc00001238},
		{0x1230, 0, 0, 0x7ffc00001238},
		{COPY_SIZE - sizeof(uint64_t[WORDS]), 0, 0, 0x7ffc00001238},
		{COPY_SIZE - 176, 0, 0, 0},		 /* ends beyond what was copied */
		{0x1238, 0, 0, 0},			 /* the kernel aligns it */
		{0x1230, RSP, COPY + 0x4000, 0},	 /* interrupted on the same stack */
		{0x1230, RSP, COPY - 0x10, COPY - 0x10}, /* or further in */
		{0x1230, RSP, COPY + COPY_SIZE, COPY + COPY_SIZE},
		{0x1230, FLAGS, 0x55555555, 0},
		{0x1230, LINK, 1, 0},
		{0x1230, STACK, COPY + 0x8000, 0}, /* of another stack */
		{0x1230, STACK, UINT64_MAX - 16, 0},
		{0x1230, SIZE, 16, 0},
		{0x1230, SIZE, UINT64_MAX, 0x7ffc00001238},
		{0x1230, SELECTORS, 0x23, 0}, /* 32-bit code */
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		assert_int_equal(find(&rows[i], COPY), rows[i].found);
	/* SP need not be aligned; what was not copied is not looked at. */
	assert_int_equal(find(&rows[1], COPY + 3), rows[1].found);
	assert_int_equal(find(&rows[1], COPY + COPY_SIZE - 8), 0);
	assert_int_equal(find(&rows[1], COPY - 1), 0);
	assert_int_equal(find(&rows[1], 0), 0);
	assert_int_equal(find(&rows[1], UINT64_MAX), 0);
}

/* A kernel's workspace in the heap, and a copy of that alone: words of it, as from SP on. */
static void the_old_stack_pointer_of_a_workspace_is_found(void **state)
{
	enum { WORK = 0x500000, TOP = 0x7f0000100000, WORK_WORDS = 64 };
	static const struct {
		uint64_t first, second; /* words 3 and 15 */
		remote_addr sp, top, found;
	} cases[] = {
		{0, TOP - 0x2000, WORK, TOP, TOP - 0x2000},
		{TOP - 0x100, TOP - 0x2000, WORK, TOP, TOP - 0x2000}, /* an argument's address, too */
		{TOP - 0x3000, TOP - 0x2000, WORK, TOP, TOP - 0x3000},
		{0, TOP + 8, WORK, TOP, 0},
		{0, TOP - 0x2001, WORK, TOP, 0},
		{0, TOP - ((uint64_t)RAW_MAX_GUESS + 8), WORK, TOP, 0},
		{0, TOP - 0x2000, WORK, 0, 0},			    /* the top is not known */
		{0, TOP - 0x2000, WORK + 16 * 8, TOP, 0},	    /* behind them */
		{0, WORK + 8, WORK, WORK + WORK_WORDS * 8, 0},	    /* its own stack */
		{0, TOP - 0x2000, WORK + 4, TOP, 0}, {0, TOP - 0x2000, 0x400000, TOP, 0},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct raw_sample *raw = raw_sample_new();
		uint64_t words[WORK_WORDS] = {[3] = cases[i].first, [15] = cases[i].second};
		memcpy(raw_sample_add(raw, WORK, sizeof(words)), words, sizeof(words));
		assert_int_equal(signal_stack_left(raw, cases[i].sp, cases[i].top),
				 cases[i].found);
		raw_sample_free(raw);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_interrupted_stack_is_found),
		cmocka_unit_test(the_old_stack_pointer_of_a_workspace_is_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
