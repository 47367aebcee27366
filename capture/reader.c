/* SPDX-License-Identifier: MIT */
/*
 * A file of raw samples, record by record. Whoever wrote it may have been anybody: what it says of
 * its sizes is believed as far as there are bytes, and every error says where it is.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "capture/capture.h"
#include "capture/format.h"
#include "files/given_file.h"

static const char *name_of(uint32_t type)
{
	static const char *const names[] = {
		[CAPTURE_MODULES] = "modules",	    [CAPTURE_RUNTIME] = "interpreter",
		[CAPTURE_THREAD] = "thread",	    [CAPTURE_SAMPLE] = "sample",
		[CAPTURE_REPEAT] = "repeat",	    [CAPTURE_END] = "end",
		[CAPTURE_JIT] = "code made",	    [CAPTURE_IMAGE] = "image",
		[CAPTURE_CODE] = "code of no file", [CAPTURE_LINES] = "sample",
		[CAPTURE_NAMES] = "names",	    [CAPTURE_MADE] = "origin",
		[CAPTURE_SYMBOLS] = "symbols",
	};
	return type < sizeof(names) / sizeof(*names) && names[type] ? names[type] : "unknown";
}

bool capture_damaged(const struct capture_reader *reader, struct error *error)
{
	return error_set(error, ERROR_CORRUPT,
			 "%s: damaged raw samples: record %llu (%s), at byte %llu unpacked",
			 reader->path, (unsigned long long)reader->number, name_of(reader->type),
			 (unsigned long long)reader->start);
}

static bool ends_early(const struct capture_reader *reader, struct error *error)
{
	int status;
	const char *why = gzerror(reader->file, &status);
	const bool packed_badly = status == Z_DATA_ERROR;
	return error_set(error, ERROR_CORRUPT, "%s: %s in record %llu, at byte %llu unpacked%s%s",
			 reader->path, packed_badly ? "damaged raw samples:" : "raw samples end",
			 (unsigned long long)reader->number, (unsigned long long)reader->start,
			 packed_badly ? ": " : "", packed_badly ? why : "");
}

static bool read_exactly(struct capture_reader *reader, void *buffer, size_t size)
{
	if (gzread(reader->file, buffer, (unsigned)size) != (int)size)
		return false;
	reader->end += size;
	return true;
}

static bool read_magic(struct capture_reader *reader, struct error *error)
{
	char magic[sizeof(CAPTURE_MAGIC) - 1];
	reader->number = reader->end = reader->start = 0;
	const bool well = read_exactly(reader, magic, sizeof(magic));
	if (well && (memcmp(magic, CAPTURE_MAGIC, sizeof(magic)) == 0 ||
		     memcmp(magic, CAPTURE_MAGIC_2, sizeof(magic)) == 0))
		return true;
	return error_set(error, ERROR_CORRUPT,
			 well && memcmp(magic, CAPTURE_MAGIC, CAPTURE_NAME_SIZE) == 0
				 ? "%s: raw samples of another version of this program"
				 : "%s: not a file of raw samples",
			 reader->path);
}

bool capture_reader_open(struct capture_reader *reader, const char *path, struct error *error)
{
	const int fd = given_file_open(path, 0);
	*reader = (struct capture_reader){.path = path, .file = fd < 0 ? NULL : gzdopen(fd, "rb")};
	if (!reader->file)
		return error_set_errno(error, errno, "cannot read %s", path);
	if (read_magic(reader, error))
		return true;
	capture_reader_close(reader);
	return false;
}

void capture_reader_close(struct capture_reader *reader)
{
	if (reader->file)
		gzclose(reader->file);
	free(reader->record);
	*reader = (struct capture_reader){0};
}

bool capture_reader_rewind(struct capture_reader *reader, struct error *error)
{
	if (gzrewind(reader->file) != 0)
		return error_set(error, ERROR_SYSTEM, "cannot read %s again", reader->path);
	return read_magic(reader, error);
}

/* In steps: see above. */
static bool read_payload(struct capture_reader *reader, size_t size)
{
	enum { STEP = 1 << 20 };
	reader->size = reader->at = 0;
	reader->overrun = false;
	reader->record = alloc_room(reader->record, &reader->capacity, 1, 1);
	while (reader->size < size) {
		const size_t left = size - reader->size, step = left < STEP ? left : STEP;
		reader->record =
			alloc_room(reader->record, &reader->capacity, reader->size + step, 1);
		if (!read_exactly(reader, reader->record + reader->size, step))
			return false;
		reader->size += step;
	}
	return true;
}

/* That is where the checksum of what was packed is looked at. */
static bool is_at_end(struct capture_reader *reader)
{
	char more;
	int status;
	if (gzread(reader->file, &more, 1) != 0)
		return false;
	gzerror(reader->file, &status);
	return status == Z_OK || status == Z_STREAM_END;
}

bool capture_reader_next(struct capture_reader *reader, struct error *error)
{
	uint64_t size;
	reader->number++;
	reader->start = reader->end;
	reader->type = 0;
	if (!read_exactly(reader, &reader->type, sizeof(reader->type)) ||
	    !read_exactly(reader, &size, sizeof(size)))
		return ends_early(reader, error);
	if (size > CAPTURE_MAX_RECORD)
		return capture_damaged(reader, error);
	if (!read_payload(reader, size))
		return ends_early(reader, error);
	if (reader->type == CAPTURE_END && !is_at_end(reader))
		return capture_damaged(reader, error);
	return true;
}

const void *capture_take(struct capture_reader *reader, size_t size)
{
	if (size > reader->size - reader->at) {
		reader->overrun = true;
		return NULL;
	}
	const void *bytes = reader->record + reader->at;
	reader->at += size;
	return bytes;
}

uint64_t capture_get(struct capture_reader *reader, size_t size)
{
	uint64_t value = 0;
	const void *bytes = capture_take(reader, size);
	if (bytes)
		memcpy(&value, bytes, size);
	return value;
}

const void *capture_get_bytes(struct capture_reader *reader, size_t *size)
{
	*size = capture_get(reader, 4);
	const void *bytes = capture_take(reader, *size);
	if (!bytes)
		*size = 0;
	return bytes ? bytes : "";
}

uint64_t capture_number(struct capture_reader *reader)
{
	uint64_t value = 0;
	for (unsigned shift = 0; shift < 64; shift += 7) {
		const uint64_t byte = capture_get(reader, 1);
		value |= (byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	reader->overrun = true;
	return 0;
}
