/* SPDX-License-Identifier: MIT */
/*
 * One debug section of a file, of which parts get into memory as they are asked for: compressed
 * ones are inflated from their start on, of large ones the pieces are read that are needed.
 * libdeflate inflates two to three times as fast as zlib (libc's .debug_info: 9 ms, not 21), but
 * only all at once.
 */
#include "symbolize/lazy_section.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef HAVE_LIBDEFLATE
#include <libdeflate.h>
#endif

#include "base/alloc.h"

enum {
	INPUT_SIZE = 64 << 10,
	PIECE = 4 << 10,
	DEFLATE_LIMIT = 1100, /* times smaller, at best */
	AT_ONCE = 32 << 20,   /* bytes; of a larger one not so much is needed */
	AT_ONCE_SHARE = 3,    /* so many times what is asked for takes as long */
};

static bool read_fully(int fd, uint64_t at, uint8_t *buffer, size_t size)
{
	while (size) {
		const ssize_t got = pread(fd, buffer, size, (off_t)at);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		buffer += got;
		at += (uint64_t)got;
		size -= (size_t)got;
	}
	return true;
}

static bool refill(struct lazy_section *section, int fd)
{
	const uint64_t left = section->end - section->at;
	const size_t size = left < INPUT_SIZE ? (size_t)left : INPUT_SIZE;

	if (!size || !read_fully(fd, section->at, section->input, size))
		return false;
	section->at += size;
	section->stream.next_in = section->input;
	section->stream.avail_in = (uInt)size;
	return true;
}

#ifdef HAVE_LIBDEFLATE
static bool inflate_bytes(const uint8_t *input, size_t input_size, uint8_t *out, size_t size)
{
	struct libdeflate_decompressor *decompressor = libdeflate_alloc_decompressor();

	if (!decompressor)
		return false;
	const enum libdeflate_result result =
		libdeflate_deflate_decompress(decompressor, input, input_size, out, size, NULL);
	libdeflate_free_decompressor(decompressor);
	return result == LIBDEFLATE_SUCCESS;
}

/*
 * All of a section; false: not in this way. A damaged one has a part that can be had. The file may
 * be another one than it was: what is there already stays as it is, for libdw has looked at it.
 */
static bool inflate_whole(struct lazy_section *section, int fd)
{
	const size_t size = (size_t)(section->end - section->packed);
	const size_t done = (size_t)section->done, whole = (size_t)section->size;
	uint8_t *input = alloc_zeroed(1, size);
	uint8_t *out = done ? alloc_zeroed(1, whole) : section->out;
	const bool well = read_fully(fd, section->packed, input, size) &&
			  inflate_bytes(input, size, out, whole) &&
			  memcmp(out, section->out, done) == 0;

	if (well && done)
		memcpy(section->out + done, out + done, whole - done);
	else if (!well && !done)
		memset(section->out, 0, whole);
	if (done)
		free(out);
	free(input);
	if (well) {
		section->filled = section->done = section->size;
		section->at = section->end;
	}
	return well;
}

static bool is_for_whole(const struct lazy_section *section, uint64_t limit)
{
	return section->size <= AT_ONCE && section->end - section->packed <= AT_ONCE &&
	       limit - section->done > section->size / AT_ONCE_SHARE;
}
#else
static bool inflate_whole(struct lazy_section *section, int fd)
{
	(void)section, (void)fd;
	return false;
}

static bool is_for_whole(const struct lazy_section *section, uint64_t limit)
{
	(void)section, (void)limit;
	return false;
}
#endif

/* Inflates up to `limit` bytes; the checksum at the end is not looked at: mostly it is not read. */
static bool inflate_to(struct lazy_section *section, int fd, uint64_t limit)
{
	while (section->done < limit) {
		const uint64_t room = limit - section->done;
		z_stream *stream = &section->stream;
		if (!stream->avail_in && !refill(section, fd))
			return false;
		stream->next_out = section->out + section->done;
		stream->avail_out = room < INT32_MAX ? (uInt)room : INT32_MAX;
		const int status = inflate(stream, Z_NO_FLUSH);
		section->filled += (uint64_t)(stream->next_out - section->out) - section->done;
		section->done = (uint64_t)(stream->next_out - section->out);
		if (status != Z_OK && (status != Z_STREAM_END || section->done < limit))
			return false;
	}
	return true;
}

static bool has_piece(const struct lazy_section *section, uint64_t piece)
{
	return section->pieces[piece / 8] >> piece % 8 & 1;
}

/* Reads what is not there of a part that is inside the section: neighbours at once. */
static bool read_pieces(struct lazy_section *section, int fd, uint64_t start, uint64_t size)
{
	const uint64_t end = (start + size + PIECE - 1) / PIECE;

	for (uint64_t piece = start / PIECE; piece < end; piece++) {
		uint64_t last = piece;
		while (last < end && !has_piece(section, last))
			last++;
		const uint64_t from = piece * PIECE;
		const uint64_t to = last * PIECE < section->size ? last * PIECE : section->size;
		if (last > piece &&
		    !read_fully(fd, section->at + from, section->out + from, to - from))
			return false;
		section->filled += last > piece ? to - from : 0;
		for (; piece < last; piece++)
			section->pieces[piece / 8] |= (uint8_t)(1 << piece % 8);
	}
	return true;
}

bool lazy_section_need(struct lazy_section *section, int fd, uint64_t start, uint64_t size)
{
	if (start > section->size || size > section->size - start || section->failed)
		return false;
	if (start + size <= section->done)
		return true;
	if (section->pieces)
		section->failed = !read_pieces(section, fd, start, size);
	else if (section->compressed)
		section->failed =
			!(is_for_whole(section, start + size) && inflate_whole(section, fd)) &&
			!inflate_to(section, fd, start + size);
	else if (read_fully(fd, section->at, section->out, section->size))
		section->done = section->size;
	else
		section->failed = true;
	return !section->failed;
}

bool lazy_section_plan(struct lazy_section *section, int fd, const GElf_Shdr *header)
{
	struct {
		Elf64_Chdr compression;
		uint8_t zlib[2];
	} start;

	section->at = header->sh_offset;
	section->size = header->sh_size;
	if (header->sh_offset > INT64_MAX || header->sh_size > INT64_MAX - header->sh_offset)
		return false;
	section->end = section->at + header->sh_size;
	section->compressed = header->sh_flags & SHF_COMPRESSED;
	if (!section->compressed)
		return section->size < LAZY_IMAGE_LIMIT;
	const size_t head = sizeof(start.compression) + sizeof(start.zlib);
	if (header->sh_size < head || !read_fully(fd, section->at, (uint8_t *)&start, head))
		return false;
	/* RFC 1950: method 8 in the low four bits; bit 5 of the second byte: a dictionary */
	if (start.compression.ch_type != ELFCOMPRESS_ZLIB || (start.zlib[0] & 0x0f) != 8 ||
	    start.zlib[1] & 0x20 || start.compression.ch_size / DEFLATE_LIMIT > header->sh_size)
		return false;
	section->packed = section->at += head;
	section->size = start.compression.ch_size;
	return section->size < LAZY_IMAGE_LIMIT;
}

bool lazy_section_start(struct lazy_section *section, bool large)
{
	if (section->compressed) {
		if (inflateInit2(&section->stream, -MAX_WBITS) != Z_OK)
			return false;
		section->input = alloc_zeroed(1, INPUT_SIZE);
	} else if (large && section->size) {
		section->pieces = alloc_zeroed(section->size / PIECE / 8 + 1, 1);
	}
	return true;
}

void lazy_section_release(struct lazy_section *section)
{
	if (section->compressed)
		inflateEnd(&section->stream); /* harmless where none was started */
	free(section->input);
	free(section->pieces);
}
