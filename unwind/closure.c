/* SPDX-License-Identifier: MIT */
/*
 * From an instruction of a closure's trampoline to the caller. libffi writes one for each C
 * callback to memory that ctypes has or that it maps: it loads R10 and jumps on, so that the return
 * address stays where RSP is. No file describes it, and a search of the stack may find others.
 * libffi, src/x86/ffi64.c, `trampoline`. Those that newer ones map from their own file, and what
 * 3.2.1 and earlier wrote, are left to the search; as are all in a replay, which has not the bytes.
 */
#include "unwind/internal.h"

#include <string.h>
#include <sys/mman.h>

enum { TRAMPOLINE_BYTES = 24, TRAMPOLINE_STARTS = 3, LAST_START = 11 };

/* Free ones are a list, ctypes' at least: the first bytes then lead to the next one. It may have
 * become free since the thread was in it. */
enum { LINK_BYTES = 8 };

/* The address that it jumps to is behind it. */
static const struct trampoline {
	uint8_t bytes[TRAMPOLINE_BYTES], size;
	uint8_t starts[TRAMPOLINE_STARTS], count; /* of its instructions */
} trampolines[] = {
	/* endbr64; lea -11(%rip),%r10; jmp *7(%rip); nop */
	{{0xf3, 0x0f, 0x1e, 0xfa, 0x4c, 0x8d, 0x15, 0xf5, 0xff, 0xff, 0xff, 0xff,
	  0x25, 0x07, 0x00, 0x00, 0x00, 0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00},
	 24,
	 {0, 4, LAST_START},
	 3},
	/* lea -7(%rip),%r10; jmp *3(%rip); nop */
	{{0x4c, 0x8d, 0x15, 0xf9, 0xff, 0xff, 0xff, 0xff, 0x25, 0x03, 0x00, 0x00, 0x00, 0x0f, 0x1f,
	  0x00},
	 16,
	 {0, 7},
	 2},
};

/* The code around a PC. */
struct window {
	uint8_t bytes[CODE_LIVE_BYTES];
	size_t size;
	size_t pc; /* the PC's place in it */
};

static bool read_window(const struct unwinder *unwinder, remote_addr pc, struct window *window)
{
	const struct mapping *const mapping = module_table_find(unwinder->modules, pc);
	if (!mapping || mapping->module)
		return false;
	window->pc = pc - mapping->start < LAST_START ? pc - mapping->start : LAST_START;
	window->size = code_read_live(unwinder, pc - window->pc, window->bytes);
	return window->size > 0;
}

static bool is_link(const uint8_t *bytes)
{
	uint64_t next;
	memcpy(&next, bytes, sizeof(next));
	return next % 8 == 0 && next >> 47 == 0;
}

/* It jumps into libffi, wherever that is linked to: to code of a file. */
static bool jumps_to_file(const struct unwinder *unwinder, const uint8_t *target)
{
	uint64_t address;
	memcpy(&address, target, sizeof(address));
	const struct mapping *const mapping = module_table_find(unwinder->modules, address);
	return mapping && mapping->module && mapping->module->origin == MODULE_OF_FILE &&
	       (mapping->protection & PROT_EXEC);
}

static bool stands_at(const struct unwinder *unwinder, const struct trampoline *trampoline,
		      const struct window *window, size_t at)
{
	const uint8_t *const bytes = window->bytes + at;
	if (at + trampoline->size + sizeof(uint64_t) > window->size)
		return false;
	const size_t known = is_link(bytes) ? LINK_BYTES : 0;
	return memcmp(bytes + known, trampoline->bytes + known, trampoline->size - known) == 0 &&
	       jumps_to_file(unwinder, bytes + trampoline->size);
}

static bool is_in_trampoline(const struct unwinder *unwinder, remote_addr pc)
{
	struct window window;
	if (!read_window(unwinder, pc, &window))
		return false;
	for (size_t i = 0; i < sizeof(trampolines) / sizeof(*trampolines); i++)
		for (size_t k = 0; k < trampolines[i].count; k++)
			if (trampolines[i].starts[k] <= window.pc &&
			    stands_at(unwinder, &trampolines[i], &window,
				      window.pc - trampolines[i].starts[k]))
				return true;
	return false;
}

bool closure_caller(const struct unwinder *unwinder, struct registers *registers, bool *exact)
{
	uint64_t *const sp = &registers->value[REGISTER_RSP];
	uint64_t address;
	if (!*exact || !is_in_trampoline(unwinder, registers->value[REGISTER_RIP]) ||
	    !memory_read_u64(unwinder->request.memory, *sp, &address, NULL))
		return false;
	registers->value[REGISTER_RIP] = address;
	*sp += 8;
	*exact = false;
	return true;
}
