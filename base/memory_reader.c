/* SPDX-License-Identifier: MIT */
/* Reads of more than plain bytes through any memory_reader. */
#include "base/memory_reader.h"

#include <string.h>

enum { STRING_STEP = 64 };

bool memory_read_string(const struct memory_reader *reader, remote_addr address, char *text,
			size_t size, struct error *error)
{
	size_t used = 0;
	while (used < size) {
		/* Never across a page's end: the string may be the last thing before a hole. */
		size_t step = 4096 - ((address + used) & 4095);
		if (step > STRING_STEP)
			step = STRING_STEP;
		if (step > size - used)
			step = size - used;
		if (!memory_read(reader, address + used, text + used, step, error))
			return false;
		if (memchr(text + used, '\0', step))
			return true;
		used += step;
	}
	return error_set(error, ERROR_CORRUPT, "no end of the string at 0x%llx",
			 (unsigned long long)address);
}
