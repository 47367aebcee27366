/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "files/far_file.h"

enum { SIZE = 3000000 };

static int make_file(uint8_t **bytes)
{
	const int fd = memfd_create("given", MFD_CLOEXEC);
	*bytes = malloc(SIZE);
	assert_non_null(*bytes);
	for (int i = 0; i < SIZE; i++)
		(*bytes)[i] = (uint8_t)(i * 31 + i / 251);
	for (ssize_t at = 0, got; at < SIZE; at += got) {
		got = write(fd, *bytes + at, (size_t)(SIZE - at));
		assert_true(got > 0);
	}
	return fd;
}

static void bytes_are_those_of_the_file_before_and_after_it_is_copied(void **state)
{
	uint8_t *bytes, read[5000];
	struct far_file *const file = far_file_new(make_file(&bytes));
	(void)state;
	for (off_t i = 0; i < 40; i++) {
		const off_t at = i * 74989;
		assert_int_equal(far_file_read(file, read, sizeof(read), at), sizeof(read));
		assert_memory_equal(read, bytes + at, sizeof(read));
	}
	assert_int_equal(far_file_read(file, read, sizeof(read), SIZE - 7), 7);
	assert_int_equal(far_file_read(file, read, sizeof(read), SIZE), 0);
	far_file_free(file);
	free(bytes);
}

static void copy_is_whole_and_made_once(void **state)
{
	uint8_t *bytes, *const read = malloc(SIZE + 1);
	struct far_file *const file = far_file_new(make_file(&bytes));
	const int copy = far_file_copy(file);
	(void)state;
	assert_non_null(read);
	assert_true(copy >= 0);
	assert_int_equal(far_file_copy(file), copy);
	assert_int_equal(pread(copy, read, SIZE + 1, 0), SIZE);
	assert_memory_equal(read, bytes, SIZE);
	far_file_free(file);
	assert_int_equal(fcntl(copy, F_GETFD), -1);
	free(read);
	free(bytes);
}

static void what_cannot_be_read_is_an_error(void **state)
{
	uint8_t byte;
	struct far_file *const file = far_file_new(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	(void)state;
	assert_int_equal(far_file_read(file, &byte, 1, 0), -1);
	assert_int_equal(errno, EISDIR);
	assert_int_equal(far_file_copy(file), -1);
	assert_int_equal(errno, EISDIR);
	far_file_free(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_those_of_the_file_before_and_after_it_is_copied),
		cmocka_unit_test(copy_is_whole_and_made_once),
		cmocka_unit_test(what_cannot_be_read_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
