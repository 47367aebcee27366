/* SPDX-License-Identifier: MIT */
/*
 * The decoder that remembers. A module has millions of instructions, but few thousand that differ
 * in more than their numbers: what Zydis said of such a one is kept by its first bytes, and the
 * numbers are read anew. The answer is that of x86_decode(), which the unit tests compare.
 *
 * How many bytes come before the numbers, only those tell: so all counts are tried that were met
 * with the same first byte, one or two mostly. A count that fits is right, as decoders read from
 * left to right and look at no number.
 */
#include "x86/shape.h"

#include <stdlib.h>

#include "base/alloc.h"

enum { ENTRY_BITS = 12 };

struct entry {
	uint64_t header; /* its bytes, and zeros */
	struct shape shape;
};

struct x86_decoder {
	uint8_t counts[256]; /* by the first byte: one bit a count, bit 0 for 1 */
	struct entry entries[1 << ENTRY_BITS];
};

struct x86_decoder *x86_decoder_new(void)
{
	return alloc_zeroed(1, sizeof(struct x86_decoder));
}

void x86_decoder_free(struct x86_decoder *decoder)
{
	free(decoder);
}

static uint64_t header_of(uint64_t word, unsigned count)
{
	return word & UINT64_MAX >> (64 - 8 * count);
}

static struct entry *entry_of(struct x86_decoder *decoder, uint64_t header)
{
	return &decoder->entries[header * UINT64_C(0x9e3779b97f4a7c15) >> (64 - ENTRY_BITS)];
}

static const struct shape *find(struct x86_decoder *decoder, uint64_t word)
{
	for (unsigned counts = decoder->counts[(uint8_t)word]; counts; counts &= counts - 1) {
		const unsigned count = (unsigned)__builtin_ctz(counts) + 1;
		const uint64_t header = header_of(word, count);
		const struct entry *const entry = entry_of(decoder, header);
		if (entry->header == header && entry->shape.header == count)
			return &entry->shape;
	}
	return NULL;
}

static void keep(struct x86_decoder *decoder, uint64_t word, const struct shape *shape)
{
	const uint64_t header = header_of(word, shape->header);
	decoder->counts[(uint8_t)word] |= (uint8_t)(1 << (shape->header - 1));
	*entry_of(decoder, header) = (struct entry){header, *shape};
}

bool x86_decoder_read(struct x86_decoder *decoder, const uint8_t *bytes, size_t size,
		      uint64_t address, struct x86_instruction *instruction)
{
	uint64_t word = 0;
	struct shape read;
	if (!decoder)
		return x86_decode(bytes, size, address, instruction);
	if (size >= sizeof(word))
		memcpy(&word, bytes, sizeof(word));
	else
		memcpy(&word, bytes, size);
	const struct shape *shape = find(decoder, word);
	if (!shape) {
		if (!shape_read(&read, bytes, size))
			return false;
		if (read.header)
			keep(decoder, word, &read);
		shape = &read;
	}
	if (shape->instruction.length > size)
		return false;
	shape_finish(shape, bytes, address, instruction);
	return true;
}

bool x86_decode_jump(struct x86_decoder *decoder, const uint8_t *bytes, size_t size,
		     uint64_t address, struct x86_instruction *jump)
{
	if (!x86_decoder_read(decoder, bytes, size, address, jump))
		return false;
	if (jump->is_endbr) {
		const size_t at = jump->length;
		if (!x86_decoder_read(decoder, bytes + at, size - at, address + at, jump))
			return false;
	}
	return jump->flow == X86_JUMP;
}
