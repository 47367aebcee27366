/* SPDX-License-Identifier: MIT */
/*
 * A signal handler may run on a stack of its own (sigaltstack): then the thread's frames are on two
 * stacks; so they are where the stack pointer is used for something else. What the kernel leaves on
 * the handler's leads to the other one: all registers of the interrupted code, and where the
 * handler's stack begins and ends. It is looked for in what was copied, by that. In the pause:
 * allocates nothing, reads the target once more. All bytes are hostile; what is mistaken for such a
 * record costs a copy that nobody looks at.
 */
#include "copy/internal.h"

#include <string.h>

/* Linux arch/x86/include/uapi/asm/ucontext.h and sigcontext.h, in words of eight bytes. */
enum ucontext_word {
	UC_FLAGS,
	UC_LINK,
	UC_STACK_START,
	UC_STACK_FLAGS,
	UC_STACK_SIZE,
	UC_RSP = 20,
	UC_SELECTORS = 23, /* CS, GS, FS, SS */
	UC_WORDS
};

enum { MOST_BYTES = 128 << 10, ALIGNMENT = 16, MOST_FLAGS = 7 };

/* __USER_CS and __USER_DS: of 64-bit code. */
static const uint64_t SELECTORS = UINT64_C(0x002b000000000033);

/* The kernel left this where a handler's stack begins: SP is on that, what was interrupted is not.
 */
static bool leads_away(const uint64_t *context, remote_addr at, remote_addr sp, remote_addr end)
{
	const remote_addr stack = context[UC_STACK_START], interrupted = context[UC_RSP];
	const uint64_t size = context[UC_STACK_SIZE];
	return context[UC_FLAGS] <= MOST_FLAGS && context[UC_LINK] == 0 && at - stack < size &&
	       sp - stack < size && (interrupted < sp || interrupted >= end);
}

/*
 * Some kernels use the stack pointer for a workspace in the heap (oneDNN's sgemm), and keep the old
 * one among its first words: the lowest that points into the thread's own stack.
 */
static remote_addr find_old_pointer(struct raw_sample *raw, remote_addr sp, remote_addr top)
{
	enum { WORDS = 32 };
	uint64_t words[WORDS];
	remote_addr lowest = 0;
	if (!top || sp % 8 || raw_sample_contains(raw, top - 8, 8) ||
	    !memory_read(&raw->reader, sp, words, sizeof(words), NULL))
		return 0;
	for (size_t i = 0; i < WORDS; i++)
		if (words[i] < top && top - words[i] <= RAW_MAX_GUESS && words[i] % 8 == 0 &&
		    (!lowest || words[i] < lowest))
			lowest = words[i];
	return lowest;
}

static remote_addr find_interrupted(struct raw_sample *raw, remote_addr start)
{
	const remote_addr end = raw_sample_end_of(raw, start);
	size_t size = end > start ? end - start : 0;
	if (size > MOST_BYTES)
		size = MOST_BYTES;
	const uint8_t *bytes = size ? memory_view(&raw->reader, start, size) : NULL;
	uint64_t context[UC_WORDS];
	for (size_t at = -start & (ALIGNMENT - 1); bytes && at + sizeof(context) <= size;
	     at += ALIGNMENT) {
		memcpy(&context[UC_SELECTORS], bytes + at + UC_SELECTORS * sizeof(uint64_t),
		       sizeof(uint64_t));
		if (context[UC_SELECTORS] != SELECTORS)
			continue;
		memcpy(context, bytes + at, sizeof(context));
		if (leads_away(context, start + at, start, end))
			return context[UC_RSP];
	}
	return 0;
}

remote_addr signal_stack_left(struct raw_sample *raw, remote_addr sp, remote_addr top)
{
	const remote_addr interrupted = find_interrupted(raw, sp);
	return interrupted ? interrupted : find_old_pointer(raw, sp, top);
}
