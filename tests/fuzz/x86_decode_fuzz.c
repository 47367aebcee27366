/* SPDX-License-Identifier: MIT */
/*
 * Machine code, instruction by instruction and once more from each byte of it: the decoder that
 * remembers must say what the other one says, whatever it has met, and nothing reads on behind the
 * end.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/x86.h"

/* How far to go on; 0: no instruction. */
static size_t decode(struct x86_decoder *decoder, const uint8_t *bytes, size_t size,
		     struct x86_constants *constants)
{
	struct x86_instruction instruction, remembered;
	const uint64_t address = (uint64_t)size << 61; /* also where addresses wrap */
	const bool decoded = x86_decode(bytes, size, address, &instruction);

	if (decoded != x86_decoder_read(decoder, bytes, size, address, &remembered))
		abort();
	if (!decoded)
		return 0;
	if (!is_same(&instruction, &remembered) || !instruction.length ||
	    instruction.length > size || instruction.length > X86_LENGTH ||
	    instruction.to > X86_NO_REGISTER || instruction.from > X86_NO_REGISTER ||
	    (instruction.stored && !instruction.has_memory))
		abort();
	x86_constants_apply(constants, &instruction, size & 1);
	return instruction.length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { ENOUGH = 1 << 14 };
	struct x86_decoder *decoder = x86_decoder_new();
	struct x86_instruction jump;
	struct x86_constants constants;

	if (size > ENOUGH)
		size = ENOUGH;
	x86_constants_clear(&constants);
	for (size_t at = 0, length; at < size; at += length ? length : 1)
		length = decode(decoder, data + at, size - at, &constants);
	for (size_t at = 0; at < size; at++) {
		decode(decoder, data + at, size - at, &constants);
		if (x86_decode_jump(decoder, data + at, size - at, at, &jump) &&
		    jump.flow != X86_JUMP)
			abort();
	}
	x86_decoder_free(decoder);
	return 0;
}
