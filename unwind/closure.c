/* SPDX-License-Identifier: MIT */
/*
 * From an instruction of a closure's trampoline to the caller. libffi writes one for each C
 * callback (ctypes', cffi's) to memory of its own: it loads R10 and jumps on, so that the return
 * address stays where RSP is. No file describes it, and a search of the stack may find others.
 * libffi, src/x86/ffi64.c: `trampoline` and, up to 3.2.1, ffi_prep_closure_loc.
 */
#include "unwind/internal.h"

#include <string.h>

enum { TRAMPOLINE_BYTES = 24, TRAMPOLINE_STARTS = 4 };

/* Free ones are a list, ctypes' at least: these bytes of each then lead to the next one. It may
 * have become free since the thread was in it. */
enum { TRAMPOLINE_LINK = 8 };

static const struct trampoline {
	uint8_t bytes[TRAMPOLINE_BYTES], mask[TRAMPOLINE_BYTES]; /* from TRAMPOLINE_LINK on */
	uint8_t size;
	uint8_t starts[TRAMPOLINE_STARTS]; /* of its instructions, the first of which is at 0 */
} trampolines[] = {
	/* endbr64; lea -11(%rip),%r10; jmp *7(%rip); nop */
	{.bytes =
		 "\xf3\x0f\x1e\xfa\x4c\x8d\x15\xf5\xff\xff\xff\xff\x25\7\0\0\0\x0f\x1f\x80\0\0\0\0",
	 .mask = "\0\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
	 .size = 24,
	 .starts = {0, 4, 11}},
	/* lea -7(%rip),%r10; jmp *3(%rip); nop */
	{.bytes = "\x4c\x8d\x15\xf9\xff\xff\xff\xff\x25\3\0\0\0\x0f\x1f",
	 .mask = "\0\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff",
	 .size = 15,
	 .starts = {0, 7}},
	/* movabs $handler,%r11; movabs $closure,%r10; clc or stc; jmp *%r11 */
	{.bytes = "\x49\xbb\0\0\0\0\0\0\0\0\x49\xba\0\0\0\0\0\0\0\0\xf8\x49\xff\xe3",
	 .mask = "\0\0\0\0\0\0\0\0\0\0\xff\xff\0\0\0\0\0\0\0\0\xfe\xff\xff\xff",
	 .size = 24,
	 .starts = {0, 10, 20, 21}},
};

static bool stands_at(const struct unwinder *unwinder, const struct trampoline *trampoline,
		      remote_addr address)
{
	uint8_t bytes[CODE_LIVE_BYTES] = {0};
	if (code_read_live(unwinder, address, bytes) < trampoline->size)
		return false;
	for (size_t i = TRAMPOLINE_LINK; i < trampoline->size; i++)
		if ((bytes[i] & trampoline->mask[i]) != trampoline->bytes[i])
			return false;
	return true;
}

static bool is_in_trampoline(const struct unwinder *unwinder, remote_addr pc)
{
	for (size_t i = 0; i < sizeof(trampolines) / sizeof(*trampolines); i++)
		for (size_t k = 0; k < TRAMPOLINE_STARTS; k++)
			if ((k == 0 || trampolines[i].starts[k]) &&
			    stands_at(unwinder, &trampolines[i], pc - trampolines[i].starts[k]))
				return true;
	return false;
}

bool closure_caller(const struct unwinder *unwinder, struct registers *registers, bool *exact)
{
	uint64_t *const sp = &registers->value[REGISTER_RSP];
	uint64_t address;
	if (!*exact || !is_in_trampoline(unwinder, registers->value[REGISTER_RIP]) ||
	    !memory_read_u64(unwinder->memory, *sp, &address, NULL))
		return false;
	registers->value[REGISTER_RIP] = address;
	*sp += 8;
	*exact = false;
	return true;
}
