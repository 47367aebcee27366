/* SPDX-License-Identifier: MIT */
/*
 * From /proc/TID/stack and wchan to the names of the kernel's functions that a blocked thread is
 * in. A line of the former (Linux fs/proc/base.c, proc_pid_stack):
 *     [<0>] futex_wait_queue+0x60/0x90
 *     [<0>] nfs_wait_bit_killable+0x1e/0x90 [nfs]
 * What compilers add to a name (".constprop.0") and how the call got into the kernel says nothing,
 * and differs from one kernel's build to another's.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "target/internal.h"

enum { STACK_SIZE = 8192, WCHAN_SIZE = 128 };

/* Returns what follows the prefix in the name; NULL: it begins with something else. */
static const char *after(const char *name, const char *prefix)
{
	const size_t length = strlen(prefix);
	return strncmp(name, prefix, length) == 0 ? name + length : NULL;
}

static bool begins_with_any(const char *name, const char *const *prefixes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (after(name, prefixes[i]))
			return true;
	return false;
}

/*
 * The call's own function, which the call's name stands for. It is made of several, of which a
 * kernel's build inlines some or others, so that one of them or all are there:
 *     __x64_sys_wait4 __se_sys_wait4 __do_sys_wait4	(Linux 4.17 and later, syscall_wrapper.h)
 *     __ia32_compat_sys_wait4 __do_compat_sys_wait4	(of a 32-bit program)
 *     SyS_wait4 SYSC_wait4 sys_wait4			(earlier ones, include/linux/syscalls.h)
 * What that calls, as kernel_wait4 or do_sys_poll, is none.
 */
static bool is_own_function(const char *name)
{
	static const char *const wrappers[] = {"__x64_", "__ia32_", "__x32_", "__se_", "__do_"};
	static const char *const calls[] = {"sys_", "SyS_", "SYSC_"};
	const char *rest = name;
	for (size_t i = 0; i < sizeof(wrappers) / sizeof(*wrappers) && rest == name; i++)
		rest = after(name, wrappers[i]) ? after(name, wrappers[i]) : name;
	rest = after(rest, "compat_") ? after(rest, "compat_") : rest;
	rest = after(rest, "C_SYSC_") ? after(rest, "C_") : rest;
	return begins_with_any(rest, calls, sizeof(calls) / sizeof(*calls));
}

/* The way from the instruction to that function (Linux arch/x86/entry). */
static bool is_entry(const char *name)
{
	static const char *const entries[] = {"entry_",
					      "do_syscall_",
					      "x64_sys_call",
					      "x32_sys_call",
					      "do_int80_",
					      "ia32_sys_call",
					      "do_fast_syscall_",
					      "__do_fast_syscall_",
					      "do_SYSENTER",
					      "system_call",
					      "asm_",
					      "ret_from_fork"};
	return begins_with_any(name, entries, sizeof(entries) / sizeof(*entries)) ||
	       is_own_function(name);
}

static size_t name_size(const char *name)
{
	size_t size = 0;
	while (isalnum((unsigned char)name[size]) || name[size] == '_')
		size++;
	return size;
}

static void add_name(char text[TARGET_KERNEL_SIZE], const char *name, size_t size)
{
	size_t used = strlen(text);
	if (size > 0 && used + size + 2 <= TARGET_KERNEL_SIZE)
		snprintf(text + used, TARGET_KERNEL_SIZE - used, "%.*s\n", (int)size, name);
}

/* Addresses, where the kernel gives those instead of names, are left out. */
static void add_function(char text[TARGET_KERNEL_SIZE], const char *name)
{
	size_t size = name_size(name);
	if (!isdigit((unsigned char)*name) && !is_entry(name))
		add_name(text, name, size);
}

void kernel_stack_text(const char *stack, const char *wchan, const char *call,
		       char text[TARGET_KERNEL_SIZE])
{
	text[0] = '\0';
	for (const char *line = stack, *end; line && *line; line = *end ? end + 1 : end) {
		end = strchrnul(line, '\n');
		const char *name = memmem(line, (size_t)(end - line), ">] ", 3);
		if (name && strncmp(line, "[<", 2) == 0)
			add_function(text, name + 3);
	}
	if (!text[0] && wchan)
		add_function(text, wchan);
	if (call)
		add_name(text, call, strlen(call));
}

void target_thread_kernel(const struct target_thread_files *files, const struct target_wait *wait,
			  char text[TARGET_KERNEL_SIZE])
{
	char stack[STACK_SIZE], wchan[WCHAN_SIZE], number[32];
	const char *call = target_syscall_name(wait->number);
	if (!call && wait->number >= 0) {
		snprintf(number, sizeof(number), "syscall %ld", wait->number);
		call = number;
	}
	bool whole = thread_read_look(files, -1, "stack", stack, sizeof(stack), NULL);
	bool innermost = !whole && thread_read_look(files, -1, "wchan", wchan, sizeof(wchan), NULL);
	kernel_stack_text(whole ? stack : NULL, innermost ? wchan : NULL, call, text);
}
