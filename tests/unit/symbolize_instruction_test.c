/* SPDX-License-Identifier: MIT */
/*
 * The instruction decoder: lengths of all code of this very program and of the C library against
 * objdump's, meanings by example, and no byte sequence that leads it astray.
 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "symbolize/instruction.h"

enum { MAX_LENGTH = 15 };

/* "  401136:	f3 0f 1e fa          	endbr64" */
static size_t parse_line(const char *line, uint64_t *address, uint8_t *bytes)
{
	char *at;
	size_t count = 0;

	*address = strtoul(line, &at, 16);
	if (line[0] != ' ' || *at++ != ':')
		return 0;
	for (at++; count < MAX_LENGTH + 1; count++, at++) {
		char *end;
		const unsigned long byte = strtoul(at, &end, 16);
		if (end != at + 2 || !isxdigit((unsigned char)*at))
			break;
		bytes[count] = (uint8_t)byte;
		at = end;
	}
	return count;
}

static size_t check_lengths(const char *path)
{
	char command[300], line[4096];
	size_t instructions = 0;

	snprintf(command, sizeof(command), "objdump -d -w '%s' 2>/dev/null", path);
	FILE *pipe = popen(command, "r");
	assert_non_null(pipe);
	while (fgets(line, sizeof(line), pipe)) {
		/* What follows must not matter. */
		uint8_t bytes[2 * MAX_LENGTH + 2] = {0};
		uint64_t address;
		struct instruction instruction;
		const size_t length = parse_line(line, &address, bytes);
		if (!length || strstr(line, "(bad)"))
			continue;
		if (bytes[0] == 0x9b) /* objdump shows fwait and what it waits for as one */
			continue;
		instructions++;
		if (!instruction_read(bytes, sizeof(bytes), address, &instruction) ||
		    instruction.length != length)
			fail_msg("length %d, not %zu: %s", instruction.length, length, line);
		assert_false(instruction_read(bytes, length - 1, address, &instruction));
	}
	pclose(pipe);
	return instructions;
}

static void lengths_are_objdumps(void **state)
{
	(void)state;
	if (!check_lengths("/proc/self/exe"))
		skip();
	check_lengths("/lib/x86_64-linux-gnu/libm.so.6"); /* vector code of all kinds */
}

static const struct example {
	const char *bytes;
	size_t size;
	struct instruction wanted; /* at 0x1000 */
} examples[] = {
	{"\xe8\x10\x00\x00\x00", 5, {.operation = OPERATION_CALL, .value = 0x1015}},
	{"\xff\x15\x10\x00\x00\x00", 6, {.operation = OPERATION_CALL}},
	{"\xeb\xfe", 2, {.operation = OPERATION_JUMP, .value = 0x1000}},
	{"\xe9\xf6\xff\xff\xff", 5, {.operation = OPERATION_JUMP, .value = 0xffb}},
	{"\x3e\xff\xe0", 3, {.operation = OPERATION_JUMP}},
	{"\x74\x04", 2, {.operation = OPERATION_BRANCH, .value = 0x1006}},
	{"\x0f\x84\x00\x01\x00\x00", 6, {.operation = OPERATION_BRANCH, .value = 0x1106}},
	{"\xc3", 1, {.operation = OPERATION_END}},
	{"\x0f\x0b", 2, {.operation = OPERATION_END}},
	{"\x48\x8d\x3d\x10\x00\x00\x00",
	 7,
	 {.operation = OPERATION_SET, .to = REGISTER_RDI, .value = 0x1017}},
	{"\x41\xbc\xff\xff\xff\xff",
	 6,
	 {.operation = OPERATION_SET, .to = 12, .value = 0xffffffff}},
	{"\x48\xc7\xc0\xff\xff\xff\xff", 7, {.operation = OPERATION_SET, .value = UINT64_MAX}},
	{"\x45\x31\xc0", 3, {.operation = OPERATION_SET, .to = REGISTER_R8}},
	{"\x44\x89\xe2", 3, {.operation = OPERATION_COPY, .to = REGISTER_RDX, .from = 12}},
	{"\x4c\x8b\xf7", 3, {.operation = OPERATION_COPY, .to = 14, .from = REGISTER_RDI}},
	{"\xc7\x44\x24\x0c\x2a\x00\x00\x00",
	 8,
	 {.operation = OPERATION_STORE, .from = REGISTER_NONE, .slot = 12, .value = 42}},
	{"\x89\x45\xfc", 3, {.operation = OPERATION_STORE, .slot = SLOT_OF_RBP - 4}},
	{"\x8b\x54\x24\x0c", 4, {.operation = OPERATION_LOAD, .to = REGISTER_RDX, .slot = 12}},
};

static void meanings_are_told(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(examples) / sizeof(*examples); i++) {
		const struct example *example = &examples[i];
		struct instruction got;
		assert_true(instruction_read((const uint8_t *)example->bytes, example->size, 0x1000,
					     &got));
		assert_int_equal(got.length, example->size);
		assert_int_equal(got.operation, example->wanted.operation);
		assert_int_equal(got.value, example->wanted.value);
		if (got.operation >= OPERATION_SET && got.operation <= OPERATION_LOAD)
			assert_int_equal(got.to, example->wanted.to);
		if (got.operation == OPERATION_COPY || got.operation == OPERATION_STORE)
			assert_int_equal(got.from, example->wanted.from);
		if (got.operation == OPERATION_LOAD || got.operation == OPERATION_STORE)
			assert_int_equal(got.slot, example->wanted.slot);
	}
}

/* mov $7,%ebx; mov %ebx,0x8(%rsp); call; mov 0x8(%rsp),%edx; xor %ebx,%ebx; push %rax */
static void constants_survive_what_keeps_them(void **state)
{
	static const uint8_t code[] = "\xbb\x07\x00\x00\x00\x89\x5c\x24\x08\xe8\x00\x00\x00\x00"
				      "\x8b\x54\x24\x08\xbe\x01\x00\x00\x00\xe8\x00\x00\x00\x00\x50"
				      "\x8b\x54\x24\x08";
	struct constants constants;
	struct instruction instruction;
	uint64_t value;

	(void)state;
	constants_clear(&constants);
	for (size_t at = 0; at < sizeof(code) - 1; at += instruction.length) {
		assert_true(instruction_read(code + at, sizeof(code) - 1 - at, at, &instruction));
		constants_apply(&constants, &instruction);
		if (at == 14) {
			assert_true(constants_get(&constants, REGISTER_RDX, &value));
			assert_int_equal(value, 7);
		}
	}
	assert_true(constants_get(&constants, 3, &value)); /* rbx */
	assert_int_equal(value, 7);
	assert_false(constants_get(&constants, REGISTER_RSI, &value)); /* calls do not keep it */
	assert_false(constants_get(&constants, REGISTER_RDX, &value)); /* push moves the stack */
}

static void any_bytes_are_survived(void **state)
{
	uint8_t bytes[16];
	uint32_t seed = 1;

	(void)state;
	for (int i = 0; i < 300000; i++) {
		struct instruction instruction;
		for (size_t j = 0; j < sizeof(bytes); j++) {
			seed = seed * 1664525 + 1013904223;
			bytes[j] = (uint8_t)(seed >> 24);
		}
		const size_t size = seed >> 16 & 15;
		if (instruction_read(bytes, size, 0, &instruction)) {
			assert_in_range(instruction.length, 1, size);
			assert_true(instruction.to < REGISTERS);
			assert_true(instruction.from <= REGISTER_NONE);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lengths_are_objdumps),
		cmocka_unit_test(meanings_are_told),
		cmocka_unit_test(constants_survive_what_keeps_them),
		cmocka_unit_test(any_bytes_are_survived),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
