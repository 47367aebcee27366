/* SPDX-License-Identifier: MIT */
/*
 * The two words every folder shares: an address in the target, which must never be
 * dereferenced here, and the mark of a result that must be looked at.
 */
#ifndef BASE_TYPES_H
#define BASE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* An address in the target's address space. An integer, so that it cannot be dereferenced. */
typedef uint64_t remote_addr;

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))

/* The GNU build ID of an ELF file: its identity across machines and paths. size 0: none. */
struct build_id {
	uint8_t bytes[32];
	uint8_t size;
};

/* Whether both are known, and the same. */
static inline bool build_id_equal(const struct build_id *a, const struct build_id *b)
{
	return a->size && a->size == b->size && a->size <= sizeof(a->bytes) &&
	       memcmp(a->bytes, b->bytes, a->size) == 0;
}

/* Writes the build ID as lower-case hex into text (65 bytes); "" when there is none. */
static inline void build_id_hex(const struct build_id *id, char text[65])
{
	static const char digits[] = "0123456789abcdef";
	size_t i;
	for (i = 0; i < id->size && i < sizeof(id->bytes); i++) {
		text[2 * i] = digits[id->bytes[i] >> 4];
		text[2 * i + 1] = digits[id->bytes[i] & 15];
	}
	text[2 * i] = '\0';
}

#endif
