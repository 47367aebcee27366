/* SPDX-License-Identifier: MIT */
/*
 * What the fuzz targets share. Each gives LLVMFuzzerTestOneInput, which libFuzzer calls with what
 * it makes up (make fuzz). The unit tests build the same file with a main of its own, which calls
 * it with every file of tests/fuzz/corpus/TARGET/: what was found once stays tested where there is
 * no clang.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input, taken from its front; what is not there is zero. */
struct fuzz_input {
	const uint8_t *at;
	size_t size;
};

static inline uint64_t fuzz_number(struct fuzz_input *input, size_t size)
{
	uint64_t number = 0;
	size_t got = size < input->size ? size : input->size;
	memcpy(&number, input->at, got);
	input->at += got;
	input->size -= got;
	return number;
}

/* At most `size` bytes. */
static inline struct fuzz_input fuzz_part(struct fuzz_input *input, size_t size)
{
	struct fuzz_input part = {input->at, size < input->size ? size : input->size};
	input->at += part.size;
	input->size -= part.size;
	return part;
}

/* The bytes as a string on the heap, where the sanitizer sees what is read behind its end. */
static inline char *fuzz_text(struct fuzz_input input)
{
	char *text = malloc(input.size + 1);
	memcpy(text, input.at, input.size);
	text[input.size] = '\0';
	return text;
}

/* A file with these bytes. */
static inline int fuzz_file(struct fuzz_input input)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || write(fd, input.at, input.size) != (ssize_t)input.size)
		abort();
	lseek(fd, 0, SEEK_SET);
	return fd;
}

/*
 * A target's memory that has the input everywhere, over and over: any word of it is a pointer that
 * leads back into it, so that lists and trees have no end but those that the reader sets.
 */
struct fuzz_memory {
	struct memory_reader reader;
	struct fuzz_input input;
};

static inline bool fuzz_memory_read(const struct memory_reader *reader, remote_addr address,
				    void *buffer, size_t size, struct error *error)
{
	const struct fuzz_memory *memory = (const struct fuzz_memory *)reader;
	if (address < 4096 || !memory->input.size)
		return error_set(error, ERROR_GONE, "not mapped");
	for (size_t done = 0; done < size;) {
		const size_t from = (address + done) % memory->input.size;
		const size_t left = memory->input.size - from;
		const size_t part = left < size - done ? left : size - done;
		memcpy((char *)buffer + done, memory->input.at + from, part);
		done += part;
	}
	return true;
}

static inline struct fuzz_memory fuzz_memory_of(struct fuzz_input input)
{
	return (struct fuzz_memory){{fuzz_memory_read, NULL}, input};
}

#ifdef FUZZ_REPLAY
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { FUZZ_MAX_INPUT = 1 << 20, FUZZ_PATIENCE_SECONDS = 60 };

static void try_file(const char *path)
{
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	uint8_t *bytes = malloc(FUZZ_MAX_INPUT);
	const size_t size = fread(bytes, 1, FUZZ_MAX_INPUT, file);
	fclose(file);
	uint8_t *exact = malloc(size ? size : 1);
	memcpy(exact, bytes, size);
	free(bytes);
	alarm(FUZZ_PATIENCE_SECONDS);
	assert_int_equal(LLVMFuzzerTestOneInput(exact, size), 0);
	alarm(0);
	free(exact);
}

static void the_corpus_does_no_harm(void **state)
{
	static const char folder[] = "tests/fuzz/corpus/" FUZZ_REPLAY;
	struct dirent *entry;
	size_t count = 0;
	(void)state;
	DIR *list = opendir(folder);
	assert_non_null(list);
	while ((entry = readdir(list))) {
		char path[sizeof(folder) + sizeof(entry->d_name) + 1];
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		print_message("%s\n", path); /* the last one is the culprit */
		try_file(path);
		count++;
	}
	closedir(list);
	assert_true(count > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_corpus_does_no_harm)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif

#endif
