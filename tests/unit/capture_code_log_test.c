/* SPDX-License-Identifier: MIT */
/* Code that was read is kept as it was read last, and said once to be new. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "capture/capture.h"

enum { START = 0x10000, SIZE = 4096 };

static uint8_t memory[SIZE];

static bool read_memory(const struct memory_reader *reader, remote_addr address, void *buffer,
			size_t size, struct error *error)
{
	(void)reader;
	if (address < START || address - START > SIZE || size > SIZE - (address - START))
		return error_set(error, ERROR_GONE, "nothing is there");
	memcpy(buffer, memory + (address - START), size);
	return true;
}

static void what_was_read_is_kept(void **state)
{
	/* In order; `poke`: a byte is changed before. */
	static const struct {
		uint64_t offset;
		size_t size, fresh;
		int poke;
		bool written, well;
	} steps[] = {
		{.offset = 70, .size = 4, .fresh = 1, .poke = -1, .well = true},
		{.offset = 70, .size = 60, .fresh = 2, .poke = -1, .well = true},
		{.offset = 70, .size = 60, .fresh = 2, .poke = 80, .well = true},
		{.offset = 70, .size = 4, .fresh = 0, .poke = -1, .written = true, .well = true},
		{.offset = 70, .size = 4, .fresh = 1, .poke = 127, .well = true},
		{.offset = 128, .size = 1, .fresh = 1, .poke = -1, .well = true},
		{.offset = SIZE - 1, .size = 1, .fresh = 2, .poke = -1, .well = true},
		{.offset = SIZE - 1, .size = 2, .fresh = 2, .poke = -1, .well = false},
	};
	const struct memory_reader live = {.read = read_memory};
	struct code_log log;
	(void)state;
	code_log_init(&log, &live);
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		uint8_t bytes[64];
		if (steps[i].poke >= 0)
			memory[steps[i].poke]++;
		if (steps[i].written)
			code_log_written(&log);
		const uint64_t address = START + steps[i].offset;
		assert_int_equal(memory_read(&log.reader, address, bytes, steps[i].size, NULL),
				 steps[i].well);
		assert_int_equal(log.fresh_count, steps[i].fresh);
		if (!steps[i].well)
			continue;
		assert_memory_equal(bytes, memory + steps[i].offset, steps[i].size);
		assert_true(blocks_read(&log.blocks, address, bytes, steps[i].size));
		assert_memory_equal(bytes, memory + steps[i].offset, steps[i].size);
	}
	/* As in a replay. */
	uint8_t byte;
	log.live = NULL;
	assert_true(memory_read(&log.reader, START + 70, &byte, 1, NULL));
	assert_false(memory_read(&log.reader, START + 1024, &byte, 1, NULL));
	code_log_release(&log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(what_was_read_is_kept)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
