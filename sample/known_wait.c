/* SPDX-License-Identifier: MIT */
/* What a blocked thread waits for, where that is something of the interpreter's: the GIL, an
 * import. */
#include "sample/internal.h"

#include <linux/futex.h>
#include <sys/syscall.h>

/* Blocked in futex(2) to wait, not to wake others. */
static bool waits_for_lock(const struct raw_sample *raw)
{
	uint64_t operation = raw->wait.arguments[1] & FUTEX_CMD_MASK;
	return !raw->stopped && !raw->wait.running && raw->wait.number == SYS_futex &&
	       (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET);
}

/* The frames between the C library's and the next that is not the interpreter's acquire the lock of
 * all imports (the only one before 3.3). */
static bool locks_imports(const struct raw_sample *raw, const struct unwind_stack *native)
{
	bool inside = false;
	for (size_t i = 0; native && i < native->count; i++) {
		remote_addr pc = native->frames[i].pc - 1;
		bool interpreter = python_runtime_owns(raw->runtime, pc);
		if (inside && !interpreter)
			return false;
		inside |= interpreter;
		if (python_runtime_locks_imports(raw->runtime, pc))
			return true;
	}
	return false;
}

/* On a word inside the GIL's struct, or on an import lock. */
enum merged_kind known_wait(const struct raw_sample *raw, const struct python_stack *python,
			    const struct unwind_stack *native)
{
	if (!waits_for_lock(raw))
		return MERGED_NATIVE;
	if (python->gil && raw->wait.arguments[0] - python->gil < python->gil_size)
		return MERGED_GIL_WAIT;
	if ((python->count > 0 && python_code_locks_imports(python->frames[0].code)) ||
	    locks_imports(raw, native))
		return MERGED_IMPORT_WAIT;
	return MERGED_NATIVE;
}
