/* SPDX-License-Identifier: MIT */
/*
 * What a thread waits for, where that is something of the interpreter's: the GIL, which it may also
 * be at work to get or to give up, or an import.
 */
#include "merge/internal.h"

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

static bool is_in_gil(const struct python_stack *python, uint64_t address)
{
	return python->gil && address - python->gil < python->gil_size;
}

static bool is_blocked_in_gil(const struct raw_sample *raw, const struct python_stack *python)
{
	/* A stop has the kernel resume the call as another one, with the same registers. */
	return !raw->stopped && !raw->wait.running &&
	       (raw->wait.number == SYS_futex || raw->wait.number == SYS_restart_syscall) &&
	       is_in_gil(python, raw->wait.arguments[0]);
}

static bool is_in_c_library(struct module_table *modules, remote_addr pc)
{
	const struct mapping *const mapping = module_table_find(modules, pc);
	return mapping && start_up_is_c_library(mapping->module);
}

/*
 * The C library is at work on a lock within the GIL, which is its functions' first argument, and
 * the kernel's; the interpreter has called it. The register alone says nothing: what runs next,
 * without the GIL, may leave it as it was.
 */
static bool works_on_gil(const struct raw_sample *raw, const struct python_stack *python,
			 const struct unwind_stack *native, struct module_table *modules)
{
	const struct registers *const registers = &raw->registers;
	size_t i = 0;
	if (!raw->stopped || !(registers->known & 1u << REGISTER_RDI) ||
	    !is_in_gil(python, registers->value[REGISTER_RDI]) ||
	    !is_in_c_library(modules, registers->value[REGISTER_RIP]))
		return false;
	while (native && i < native->count &&
	       is_in_c_library(modules, unwind_frame_site(&native->frames[i])))
		i++;
	return !native ||
	       (i < native->count &&
		python_runtime_owns(raw->runtime, unwind_frame_site(&native->frames[i])));
}

/* It runs in what gets or gives up the GIL, or in what that has called in the C library. */
static bool passes_gil(const struct raw_sample *raw, const struct python_stack *python,
		       const struct unwind_stack *native, struct module_table *modules)
{
	if (!python->has_gil)
		return false;
	if (works_on_gil(raw, python, native, modules))
		return true;
	for (size_t i = 0; native && i < native->count; i++) {
		const remote_addr pc = unwind_frame_site(&native->frames[i]);
		if (python_runtime_owns(raw->runtime, pc))
			return python_runtime_passes_gil(raw->runtime, pc);
	}
	return false;
}

enum wait_kind known_wait(const struct raw_sample *raw, const struct python_stack *python,
			  const struct unwind_stack *native, struct module_table *modules)
{
	if (is_blocked_in_gil(raw, python) || passes_gil(raw, python, native, modules))
		return WAIT_GIL;
	if (!waits_for_lock(raw))
		return WAIT_NONE;
	if ((python->count > 0 && python_code_locks_imports(python->frames[0].code)) ||
	    locks_imports(raw, native))
		return WAIT_IMPORT_LOCK;
	return WAIT_NONE;
}
