/* SPDX-License-Identifier: MIT */
/* Where functions seem to begin in code of which nothing is known; and that it is read once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "x86/x86.h"

enum { BASE = 0x1000, SIZE = 256 };

struct code {
	struct memory_reader reader;
	uint8_t bytes[SIZE];
	unsigned reads;
};

static bool read_code(const struct memory_reader *reader, remote_addr address, void *buffer,
		      size_t size, struct error *error)
{
	struct code *const code = (struct code *)(uintptr_t)reader;
	(void)error;
	code->reads++;
	if (address < BASE || address - BASE > SIZE || size > SIZE - (address - BASE))
		return false;
	memcpy(buffer, code->bytes + (address - BASE), size);
	return true;
}

/* Functions of "push %rax; pop %rax; ret" at 0, 32 and 64, with int3 between them. */
static void set_up(struct code *code)
{
	static const uint8_t function[] = {0x50, 0x58, 0xc3};
	*code = (struct code){.reader = {.read = read_code}};
	memset(code->bytes, 0xcc, SIZE);
	for (size_t at = 0; at <= 64; at += 32)
		memcpy(code->bytes + at, function, sizeof(function));
}

static void functions_begin_behind_padding(void **state)
{
	struct code code;
	struct x86_sweeps *const sweeps = x86_sweeps_new(NULL);
	(void)state;
	set_up(&code);
	const struct x86_starts *found =
		x86_sweeps_find(sweeps, &code.reader, BASE, BASE + 65, true);
	assert_int_equal(found->first, BASE);
	assert_int_equal(found->last[0], BASE + 64);
	assert_int_equal(found->last[1], BASE + 32);
	assert_int_equal(found->last[2], BASE);
	assert_int_equal(found->last[3], 0);
	x86_sweeps_free(sweeps);
}

static void it_is_read_once(void **state)
{
	struct code code;
	struct x86_sweeps *const sweeps = x86_sweeps_new(NULL);
	(void)state;
	set_up(&code);
	(void)x86_sweeps_find(sweeps, &code.reader, BASE, BASE + 65, true);
	const unsigned reads = code.reads;
	assert_true(reads > 0);
	(void)x86_sweeps_find(sweeps, &code.reader, BASE, BASE + 65, true);
	assert_int_equal(code.reads, reads);
	/* Within a function it is another question. */
	assert_int_equal(x86_sweeps_find(sweeps, &code.reader, BASE, BASE + 65, false)->last[2], 0);
	assert_true(code.reads > reads);
	x86_sweeps_clear(sweeps);
	const unsigned before = code.reads;
	(void)x86_sweeps_find(sweeps, &code.reader, BASE, BASE + 65, true);
	assert_true(code.reads > before);
	x86_sweeps_free(sweeps);
}

/* One sweep for all sites: it goes on where it ended, and says of each what is known up to there. */
static void sites_share_what_was_read(void **state)
{
	struct code code;
	struct x86_sweeps *const sweeps = x86_sweeps_new(NULL);
	(void)state;
	set_up(&code);
	const struct x86_starts *found =
		x86_sweeps_find(sweeps, &code.reader, BASE, BASE + 33, true);
	assert_int_equal(found->last[0], BASE + 32);
	assert_int_equal(found->last[1], BASE);
	assert_int_equal(found->last[2], 0);
	found = x86_sweeps_find(sweeps, &code.reader, BASE, BASE + 65, true);
	assert_int_equal(found->first, BASE);
	assert_int_equal(found->last[0], BASE + 64);
	assert_int_equal(found->last[2], BASE);
	const unsigned reads = code.reads;
	found = x86_sweeps_find(sweeps, &code.reader, BASE, BASE + 2, true);
	assert_int_equal(found->first, BASE);
	assert_int_equal(found->last[0], BASE);
	assert_int_equal(found->last[1], 0);
	assert_int_equal(code.reads, reads);
	assert_true(found->complete);
	/* Beyond what can be read. */
	found = x86_sweeps_find(sweeps, &code.reader, BASE, BASE + SIZE + 1, true);
	assert_int_equal(found->last[0], BASE + 64);
	assert_false(found->complete);
	x86_sweeps_free(sweeps);
}

/* More starts than are kept. */
static void what_is_kept_is_bounded(void **state)
{
	struct code code;
	struct x86_sweeps *const sweeps = x86_sweeps_new(NULL);
	(void)state;
	set_up(&code);
	for (uint64_t start = BASE; start < BASE + 5000; start++)
		(void)x86_sweeps_find(sweeps, &code.reader, start, BASE + 64, true);
	assert_int_equal(x86_sweeps_find(sweeps, &code.reader, BASE + 64, BASE + 66, true)->first,
			 BASE + 64);
	x86_sweeps_free(sweeps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_begin_behind_padding),
		cmocka_unit_test(it_is_read_once),
		cmocka_unit_test(sites_share_what_was_read),
		cmocka_unit_test(what_is_kept_is_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
