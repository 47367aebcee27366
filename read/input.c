/* SPDX-License-Identifier: MIT */
/* The bytes of a file by lines or as a whole; zlib reads what is not compressed as it is. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "files/given_file.h"
#include "read/internal.h"

enum { STEP = 256 << 10 };

bool input_open(struct input *input, const char *path, struct error *error)
{
	const bool is_stdin = strcmp(path, "-") == 0;
	*input = (struct input){.name = is_stdin ? "standard input" : path};
	errno = 0;
	const int fd = is_stdin ? dup(STDIN_FILENO) : given_file_open(path, 0);
	input->file = fd < 0 ? NULL : gzdopen(fd, "rb");
	if (!input->file)
		return error_set_errno(error, errno, "cannot read %.120s", input->name);
	gzbuffer(input->file, STEP);
	input->bytes = alloc_room(NULL, &input->capacity, STEP, 1);
	const char *bytes;
	if (input_peek(input, 1, &bytes) > 0 || !input->damaged)
		return true;
	const int failure = errno;
	int status;
	gzerror(input->file, &status);
	const z_off_t at = gzoffset(input->file);
	const char *const name = input->name;
	input_close(input);
	if (status == Z_ERRNO)
		return error_set_errno(error, failure, "cannot read %.120s", name);
	if (at < 0) /* of a pipe */
		return error_set(error, ERROR_CORRUPT, "%.120s: its compressed data are damaged",
				 name);
	return error_set(error, ERROR_CORRUPT,
			 "%.120s: its compressed data are damaged, before byte %lld", name,
			 (long long)at);
}

void input_close(struct input *input)
{
	if (input->file)
		gzclose(input->file);
	free(input->bytes);
	*input = (struct input){0};
}

/* False: there is no more. */
static bool read_more(struct input *input)
{
	if (input->over)
		return false;
	memmove(input->bytes, input->bytes + input->at, input->size - input->at);
	input->size -= input->at;
	input->at = 0;
	input->bytes = alloc_room(input->bytes, &input->capacity, input->size + STEP, 1);
	const int got = gzread(input->file, input->bytes + input->size, STEP);
	int status = Z_OK;
	if (got < STEP)
		gzerror(input->file, &status);
	/* What can be had of a file that is cut off comes first. */
	input->damaged = got < 0 || (status != Z_OK && status != Z_STREAM_END);
	input->over = got <= 0 || input->damaged;
	input->size += got > 0 ? (size_t)got : 0;
	return got > 0;
}

size_t input_peek(struct input *input, size_t size, const char **bytes)
{
	while (input->size - input->at < size && read_more(input))
		;
	const size_t there = input->size - input->at;
	*bytes = input->bytes + input->at;
	return there < size ? there : size;
}

bool input_line(struct input *input, const char **line, size_t *size, bool *whole,
		struct error *error)
{
	size_t seen = 0;
	const char *end;
	if (error)
		error->kind = ERROR_NONE;
	for (;;) {
		const size_t there = input->size - input->at;
		end = there > seen ? memchr(input->bytes + input->at + seen, '\n', there - seen)
				   : NULL;
		seen = there;
		if (end || seen > INPUT_LONGEST_LINE || !read_more(input))
			break;
	}
	*line = input->bytes + input->at;
	*size = end ? (size_t)(end - *line) : seen;
	*whole = end != NULL;
	if (*size == 0 && !end)
		return false;
	input->line++;
	if (*size > INPUT_LONGEST_LINE)
		return input_fail(input, error, "longer than a line can be");
	input->at += *size + *whole;
	*size -= *size > 0 && (*line)[*size - 1] == '\r';
	return true;
}

bool input_all(struct input *input, const char **bytes, size_t *size, struct error *error)
{
	while (input->size - input->at <= INPUT_LARGEST_WHOLE && read_more(input))
		;
	*bytes = input->bytes + input->at;
	*size = input->size - input->at;
	if (*size > INPUT_LARGEST_WHOLE)
		return error_set(error, ERROR_UNSUPPORTED, "%.120s: larger than 1 GiB",
				 input->name);
	input->at = input->size;
	return !input->damaged ||
	       error_set(error, ERROR_CORRUPT, "%.120s: cut off, or damaged, behind byte %zu",
			 input->name, *size);
}

bool input_fail(const struct input *input, struct error *error, const char *format, ...)
{
	char text[120];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	return error_set(error, ERROR_CORRUPT, "%.60s, line %llu: %s", input->name,
			 (unsigned long long)input->line, text);
}
