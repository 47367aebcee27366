/* SPDX-License-Identifier: MIT */
/* Bytes to a file, whole or not at all (files/new_file.h), compressed where its name says so. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <zlib.h>

#include "files/new_file.h"
#include "files/write_all.h"
#include "output/internal.h"

enum { GZIP_WINDOW = 15 + 16, CHUNK = 1 << 16 };

static bool wants_gzip(const char *path)
{
	size_t size = strlen(path);
	return size > 3 && strcasecmp(path + size - 3, ".gz") == 0;
}

static bool compress_bytes(struct strbuf *out, const unsigned char *bytes, size_t size,
			   struct error *error)
{
	z_stream stream = {0};
	if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return error_set(error, ERROR_SYSTEM, "cannot start zlib");
	unsigned char chunk[CHUNK];
	int result = Z_OK;
	while (result == Z_OK) {
		/* zlib counts in unsigned int; the bytes may be more. */
		size_t part = size < INT_MAX ? size : INT_MAX;
		stream.next_in = (unsigned char *)bytes;
		stream.avail_in = (unsigned)part;
		stream.next_out = chunk;
		stream.avail_out = sizeof(chunk);
		result = deflate(&stream, part == size ? Z_FINISH : Z_NO_FLUSH);
		size_t taken = part - stream.avail_in;
		bytes += taken;
		size -= taken;
		strbuf_add(out, chunk, sizeof(chunk) - stream.avail_out);
	}
	deflateEnd(&stream);
	if (result != Z_STREAM_END)
		return error_set(error, ERROR_SYSTEM, "cannot compress (zlib error %d)", result);
	return true;
}

static bool put(int fd, const char *path, const char *bytes, size_t size, struct error *error)
{
	return write_all(fd, bytes, size) || error_set_errno(error, errno, "cannot write %s", path);
}

bool output_file_write(const char *path, const void *bytes, size_t size, struct error *error)
{
	struct strbuf _cleanup_strbuf_ packed;
	strbuf_init(&packed);
	struct strbuf plain = {.text = (char *)bytes, .size = size};
	const struct strbuf *content = &plain;
	if (strcmp(path, "-") == 0)
		return put(STDOUT_FILENO, "standard output", bytes, size, error);
	if (wants_gzip(path)) {
		if (!compress_bytes(&packed, bytes, size, error))
			return false;
		content = &packed;
	}
	struct new_file file;
	if (!new_file_open(&file, path, error))
		return false;
	if (put(file.fd, path, content->text, content->size, error))
		return new_file_commit(&file, path, error);
	new_file_drop(&file);
	return false;
}

bool output_file_check(const char *path, struct error *error)
{
	return strcmp(path, "-") == 0 || new_file_check(path, error);
}
