/* SPDX-License-Identifier: MIT */
/* A target that is a core file: its threads, and memory that comes from it or from what was mapped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "target/core.h"
#include "tests/unit/core_bytes.h"

static struct target *open_made(size_t size)
{
	struct core_bytes *made = core_bytes_new();
	const int fd = core_bytes_file(made->bytes, size ? size : made->size);
	char path[64];
	struct target *target;
	struct error error;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	const struct target_core_options options = {.path = path};
	assert_true(target_open_core(&options, &target, &error));
	close(fd);
	free(made);
	return target;
}

/* Each byte tells its offset. */
static int mapped_file(void)
{
	uint8_t bytes[0x8000];
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i >> 8 ^ i);
	return core_bytes_file(bytes, sizeof(bytes));
}

static uint8_t in_file(size_t offset)
{
	return (uint8_t)(offset >> 8 ^ offset);
}

static void memory_comes_from_the_file_that_was_mapped(void **state)
{
	struct target *target = open_made(0);
	const struct memory_reader *memory = target_memory(target);
	const int fd = mapped_file();
	uint8_t bytes[64];
	struct error error;
	(void)state;
	assert_false(memory_read(memory, CORE_BYTES_RODATA, bytes, 8, &error));
	assert_int_equal(error.kind, ERROR_ABSENT);
	target_core_use_file(target, 1, fd);
	close(fd);
	assert_true(memory_read(memory, CORE_BYTES_RODATA + 0x123, bytes, 8, &error));
	assert_int_equal(bytes[0], in_file(0x4123));
	/* What was written down goes first: it may have been changed. */
	assert_true(memory_read(memory, CORE_BYTES_TEXT + 0xfe0, bytes, 64, &error));
	for (size_t i = 0; i < 32; i++)
		assert_int_equal(bytes[i], core_bytes_at(0, 0xfe0 + i));
	for (size_t i = 32; i < 64; i++)
		assert_int_equal(bytes[i], in_file(0xfe0 + i));
	assert_false(memory_read(memory, CORE_BYTES_LOST, bytes, 1, &error));
	assert_false(target_core_read(target, CORE_BYTES_RODATA, bytes, 1));
	target_free(target);
}

/* A page that the process may have changed, and that was cut off, is not as it is in the file. */
static void what_is_cut_off_is_not_made_up(void **state)
{
	struct target *target = open_made(0x1000 + 0x800);
	const int fd = mapped_file();
	uint8_t byte;
	(void)state;
	target_core_use_file(target, 1, fd);
	close(fd);
	assert_true(target_core_is_cut_off(target));
	assert_true(memory_read(target_memory(target), CORE_BYTES_TEXT + 0x7ff, &byte, 1, NULL));
	assert_int_equal(byte, core_bytes_at(0, 0x7ff));
	assert_false(memory_read(target_memory(target), CORE_BYTES_TEXT + 0x800, &byte, 1, NULL));
	assert_true(memory_read(target_memory(target), CORE_BYTES_TEXT + 0x1000, &byte, 1, NULL));
	assert_int_equal(byte, in_file(0x1000));
	target_free(target);
}

static void ranges_end_at_the_first_hole(void **state)
{
	struct target *target = open_made(0);
	const struct target_range ranges[] = {{CORE_BYTES_STACK, 16},
					      {CORE_BYTES_STACK + 0x1ff8, 16},
					      {CORE_BYTES_STACK + 64, 8}};
	uint8_t bytes[64];
	(void)state;
	assert_int_equal(target_read_ranges(target, ranges, 3, bytes), 24);
	assert_int_equal(bytes[16], core_bytes_at(3, 0x1ff8));
	target_free(target);
}

static void threads_have_their_registers(void **state)
{
	struct target *target = open_made(0);
	struct target_thread_files *files;
	struct target_crash crash;
	struct registers registers;
	struct target_wait wait;
	pid_t *tids;
	size_t count;
	(void)state;
	assert_int_equal(target_pid(target), CORE_BYTES_FIRST);
	assert_string_equal(target_command_line(target), "python3 train.py");
	assert_string_equal(target_executable(target), core_bytes_path);
	assert_true(target_thread_list(target, &tids, &count, NULL));
	assert_int_equal(count, 2);
	assert_int_equal(tids[0], CORE_BYTES_FIRST);
	free(tids);
	assert_true(target_core_crash(target, CORE_BYTES_FIRST, &crash));
	assert_int_equal(crash.number, SIGSEGV);
	assert_int_equal(crash.address, 0x10);
	assert_false(target_core_crash(target, CORE_BYTES_SECOND, &crash));
	assert_true(target_core_registers(target, CORE_BYTES_SECOND, &registers));
	assert_int_equal(registers.value[REGISTER_RSP], CORE_BYTES_STACK + 512);
	assert_int_equal(registers.fs_base, CORE_BYTES_STACK + 64);
	assert_false(target_core_registers(target, 1, &registers));
	assert_true(target_thread_files_open(target, CORE_BYTES_FIRST, &files, NULL));
	assert_true(target_thread_wait(files, &wait, NULL));
	assert_true(wait.running);
	target_thread_files_close(files);
	assert_true(target_thread_files_open(target, CORE_BYTES_SECOND, &files, NULL));
	assert_true(target_thread_wait(files, &wait, NULL));
	assert_false(wait.running);
	assert_int_equal(wait.number, 202);
	target_thread_files_close(files);
	target_free(target);
}

static void mappings_are_as_in_proc(void **state)
{
	struct target *target = open_made(0);
	size_t size;
	char *text = target_core_maps(target, &size);
	(void)state;
	assert_string_equal(text, "7f0000000000-7f0000004000 r-xp 0 00:00 1 /usr/lib/libone.so\n"
				  "7f0000004000-7f0000006000 r--p 4000 00:00 1 /usr/lib/libone.so\n"
				  "7f0000008000-7f0000009000 r--p 0 00:00 0 \n"
				  "7ffd00000000-7ffd00002000 rw-p 0 00:00 0 \n");
	assert_int_equal(size, strlen(text));
	free(text);
	target_free(target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_comes_from_the_file_that_was_mapped),
		cmocka_unit_test(what_is_cut_off_is_not_made_up),
		cmocka_unit_test(ranges_end_at_the_first_hole),
		cmocka_unit_test(threads_have_their_registers),
		cmocka_unit_test(mappings_are_as_in_proc),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
