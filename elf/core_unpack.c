/* SPDX-License-Identifier: MIT */
/*
 * Core files as systemd-coredump, apport and people keep them: packed by gzip or zstd. They are
 * unpacked into a file without a name, since all of it is read at random; what is zero stays a
 * hole. How much comes of it is the packer's choice: a part of the disk is left free.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zlib.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#include "base/alloc.h"
#include "base/cleanup.h"
#include "elf/core_file.h"
#include "files/given_file.h"

enum {
	STEP = 256 << 10,
	PAGE = 4096,
	CHECK_EVERY = 256, /* steps between two looks at how much of the disk is free */
	KEEP_FREE = 20,	   /* one part of so many */
};

struct output {
	int fd;
	uint64_t size, limit;
	unsigned steps;
	uint8_t bytes[STEP];
};

static bool is_zero(const uint8_t *bytes, size_t size)
{
	return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

static bool write_at(int fd, uint64_t offset, const uint8_t *bytes, size_t size,
		     struct error *error)
{
	while (size) {
		const ssize_t done = pwrite(fd, bytes, size, (off_t)offset);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return error_set_errno(error, done < 0 ? errno : ENOSPC,
					       "cannot unpack the core file");
		bytes += done;
		offset += (uint64_t)done;
		size -= (size_t)done;
	}
	return true;
}

static bool leaves_room(const struct output *output, struct error *error)
{
	struct statvfs disk;
	if (fstatvfs(output->fd, &disk) < 0 || disk.f_bavail >= disk.f_blocks / KEEP_FREE)
		return true;
	return error_set_errno(error, ENOSPC, "cannot unpack the core file (see TMPDIR)");
}

/* Adds the first `size` of output->bytes. */
static bool put(struct output *output, size_t size, struct error *error)
{
	if (size > output->limit - output->size)
		return error_set(error, ERROR_CORRUPT, "the core file is too large when unpacked");
	if (output->steps++ % CHECK_EVERY == 0 && !leaves_room(output, error))
		return false;
	for (size_t at = 0; at < size; at += PAGE) {
		const size_t part = size - at < PAGE ? size - at : PAGE;
		if (!is_zero(output->bytes + at, part) &&
		    !write_at(output->fd, output->size + at, output->bytes + at, part, error))
			return false;
	}
	output->size += size;
	return true;
}

/* ---- gzip ---- */

static bool unpack_gzip(int fd, struct output *output, bool *cut, struct error *error)
{
	const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	gzFile file = copy < 0 ? NULL : gzdopen(copy, "rb");
	int got, problem = Z_OK;
	bool well = true;
	if (!file) {
		if (copy >= 0)
			close(copy);
		return error_set_errno(error, errno, "cannot read the core file");
	}
	while (well && (got = gzread(file, output->bytes, STEP)) > 0)
		well = put(output, (size_t)got, error);
	if (well)
		(void)gzerror(file, &problem);
	*cut |= problem != Z_OK && problem != Z_STREAM_END;
	gzclose_r(file);
	return well;
}

/* ---- zstd ---- */

#ifdef HAVE_ZSTD
static bool unpack_frames(int fd, ZSTD_DStream *stream, uint8_t *packed, struct output *output,
			  bool *cut, struct error *error)
{
	size_t want = 1;
	ssize_t size;
	while ((size = read(fd, packed, STEP)) > 0) {
		ZSTD_inBuffer in = {packed, (size_t)size, 0};
		ZSTD_outBuffer out;
		do {
			out = (ZSTD_outBuffer){output->bytes, STEP, 0};
			want = ZSTD_decompressStream(stream, &out, &in);
			*cut |= ZSTD_isError(want) != 0;
			if (!put(output, out.pos, error))
				return false;
		} while (!*cut && (in.pos < in.size || out.pos == out.size));
		if (*cut)
			return true;
	}
	*cut |= size < 0 || want != 0; /* within a frame */
	return true;
}

static bool unpack_zstd(int fd, struct output *output, bool *cut, struct error *error)
{
	ZSTD_DStream *stream = ZSTD_createDStream();
	_cleanup_free_ uint8_t *packed = alloc_zeroed(1, STEP);
	if (!stream)
		return error_set_errno(error, ENOMEM, "cannot unpack the core file");
	const bool well = unpack_frames(fd, stream, packed, output, cut, error);
	ZSTD_freeDStream(stream);
	return well;
}
#else
static bool unpack_zstd(int fd, struct output *output, bool *cut, struct error *error)
{
	(void)fd;
	(void)output;
	(void)cut;
	return error_set(error, ERROR_SYSTEM,
			 "the core file is packed by zstd, which this build cannot read: unpack it"
			 " first (zstd -d)");
}
#endif

/* ---- which? ---- */

typedef bool unpack_function(int fd, struct output *output, bool *cut, struct error *error);

/* *unpack NULL: not packed. */
static bool choose(int fd, unpack_function **unpack, struct error *error)
{
	static const struct {
		const char *name;
		uint8_t magic[6];
		uint8_t size;
		unpack_function *unpack; /* NULL: not read here */
	} ways[] = {
		{"gzip", {0x1f, 0x8b}, 2, unpack_gzip},
		{"zstd", {0x28, 0xb5, 0x2f, 0xfd}, 4, unpack_zstd},
		{"xz", {0xfd, '7', 'z', 'X', 'Z', 0}, 6, NULL},
		{"lz4", {0x04, 0x22, 0x4d, 0x18}, 4, NULL},
		{"bzip2", {'B', 'Z', 'h'}, 3, NULL},
	};
	uint8_t magic[6] = {0};
	*unpack = NULL;
	if (pread(fd, magic, sizeof(magic), 0) < 0)
		return error_set_errno(error, errno, "cannot read the core file");
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		if (memcmp(magic, ways[i].magic, ways[i].size) != 0)
			continue;
		*unpack = ways[i].unpack;
		return *unpack ||
		       error_set(error, ERROR_SYSTEM,
				 "the core file is packed by %s: unpack it first", ways[i].name);
	}
	return true;
}

bool core_unpack(int *fd, uint64_t limit, bool *cut, struct error *error)
{
	unpack_function *unpack;
	if (!choose(*fd, &unpack, error))
		return false;
	if (!unpack)
		return true;
	_cleanup_free_ struct output *output = alloc_zeroed(1, sizeof(*output));
	output->limit = limit;
	output->fd = given_file_scratch();
	if (output->fd < 0)
		return error_set_errno(error, errno, "no folder to unpack the core file in");
	(void)lseek(*fd, 0, SEEK_SET);
	bool well = unpack(*fd, output, cut, error);
	if (well && ftruncate(output->fd, (off_t)output->size) < 0)
		well = error_set_errno(error, errno, "cannot unpack the core file");
	if (!well) {
		close(output->fd);
		return false;
	}
	close(*fd);
	*fd = output->fd;
	return true;
}
