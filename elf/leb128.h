/* SPDX-License-Identifier: MIT */
/* LEB128, one byte after the other: where they come from is the caller's. At most ten, as 64 bits
 * need. */
#ifndef ELF_LEB128_H
#define ELF_LEB128_H

#include <stdbool.h>
#include <stdint.h>

/* All zero at first. */
struct leb128 {
	uint64_t value;
	unsigned shift;
};

enum leb128_state { LEB128_MORE, LEB128_END, LEB128_BAD };

static inline enum leb128_state leb128_add(struct leb128 *number, uint8_t byte, bool is_signed)
{
	number->value |= (uint64_t)(byte & 0x7f) << number->shift;
	number->shift += 7;
	if (byte & 0x80)
		return number->shift < 70 ? LEB128_MORE : LEB128_BAD;
	if (is_signed && byte & 0x40 && number->shift < 64)
		number->value |= UINT64_MAX << number->shift;
	return LEB128_END;
}

#endif
