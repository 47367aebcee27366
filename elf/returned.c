/* SPDX-License-Identifier: MIT */
/* From the code of a small function to the variable whose value it returns. */
#include <string.h>

#include "elf/returned.h"

static bool skip(const uint8_t **at, const uint8_t *end, const void *bytes, size_t size)
{
	if ((size_t)(end - *at) < size || memcmp(*at, bytes, size) != 0)
		return false;
	*at += size;
	return true;
}

static bool is_return(const uint8_t *at, const uint8_t *end)
{
	skip(&at, end, "\x5d", 1); /* pop %rbp */
	skip(&at, end, "\xf3", 1); /* repz */
	return skip(&at, end, "\xc3", 1);
}

static int64_t take_signed(const uint8_t **at, size_t size)
{
	int8_t byte;
	int32_t word;
	if (size == 1)
		memcpy(&byte, *at, 1);
	else
		memcpy(&word, *at, 4);
	*at += size;
	return size == 1 ? byte : word;
}

/* "mov 24(%rax),%rax" with a displacement of 0, 1 or 4 bytes. */
static bool skip_member(const uint8_t **at, const uint8_t *end, int64_t *offset)
{
	*offset = 0;
	if (skip(at, end, "\x48\x8b\x00", 3))
		return true;
	if (skip(at, end, "\x48\x8b\x40", 3) && end - *at >= 1)
		*offset = take_signed(at, 1);
	else if (skip(at, end, "\x48\x8b\x80", 3) && end - *at >= 4)
		*offset = take_signed(at, 4);
	else
		return false;
	return true;
}

bool elf_returned_variable(const uint8_t *code, size_t size, uint64_t address, bool fixed,
			   struct elf_returned *returned)
{
	const uint8_t *at = code, *const end = code + size;
	*returned = (struct elf_returned){0};
	skip(&at, end, "\xf3\x0f\x1e\xfa", 4); /* endbr64 */
	skip(&at, end, "\x55\x48\x89\xe5", 4); /* push %rbp; mov %rsp,%rbp */
	if (skip(&at, end, "\x48\x8b\x05", 3) && end - at >= 4) {
		const int64_t displacement = take_signed(&at, 4);
		returned->variable = address + (uint64_t)(at - code) + (uint64_t)displacement;
	} else if (fixed && skip(&at, end, "\x48\x8b\x04\x25", 4) && end - at >= 4) {
		returned->variable = (uint64_t)take_signed(&at, 4);
	} else {
		return false;
	}
	if (is_return(at, end))
		return true;
	returned->is_member = true;
	return skip_member(&at, end, &returned->offset) && is_return(at, end);
}
