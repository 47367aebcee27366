/* SPDX-License-Identifier: MIT */
/*
 * Memory of a target, wherever it is: a live process, a raw sample, a core file, a test's array.
 * Implementations embed struct memory_reader as their first member and fill in read().
 */
#ifndef BASE_MEMORY_READER_H
#define BASE_MEMORY_READER_H

#include <stdbool.h>

#include "base/error.h"
#include "base/types.h"

struct memory_reader {
	/*
	 * Copies exactly `size` bytes at `address`: all or nothing. On failure the buffer's content
	 * is undefined and *error (may be NULL) says GONE (not mapped, process ended), ABSENT (not
	 * part of this copy) or DENIED.
	 */
	bool (*read)(const struct memory_reader *reader, remote_addr address, void *buffer,
		     size_t size, struct error *error);
	/*
	 * The same bytes where they are, until more of the memory is asked for than was ever
	 * copied; NULL: they are not in one piece, read() may still have them. May be left
	 * NULL itself: they are nowhere.
	 */
	const void *(*view)(const struct memory_reader *reader, remote_addr address, size_t size);
};

static inline bool MUST_CHECK memory_read(const struct memory_reader *reader, remote_addr address,
					  void *buffer, size_t size, struct error *error)
{
	return reader->read(reader, address, buffer, size, error);
}

static inline const void *memory_view(const struct memory_reader *reader, remote_addr address,
				      size_t size)
{
	return reader->view ? reader->view(reader, address, size) : NULL;
}

static inline bool MUST_CHECK memory_read_u64(const struct memory_reader *reader,
					      remote_addr address, uint64_t *value,
					      struct error *error)
{
	return reader->read(reader, address, value, sizeof(*value), error);
}

static inline bool MUST_CHECK memory_read_u32(const struct memory_reader *reader,
					      remote_addr address, uint32_t *value,
					      struct error *error)
{
	return reader->read(reader, address, value, sizeof(*value), error);
}

#endif
