/* SPDX-License-Identifier: MIT */
/*
 * From /proc/TID/stack and wchan to the names of the kernel's functions that a blocked thread is
 * in. A line of the former (Linux fs/proc/base.c, proc_pid_stack):
 *     [<0>] futex_wait_queue+0x60/0x90
 *     [<0>] nfs_wait_bit_killable+0x1e/0x90 [nfs]
 * What compilers add to a name (".constprop.0") and how the call got into the kernel says nothing.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "target/internal.h"

enum { STACK_SIZE = 8192, WCHAN_SIZE = 128 };

/* The way from the instruction to the call's own function (Linux arch/x86/entry). */
static bool is_entry(const char *name, size_t size)
{
	static const char *const entries[] = {"entry_",	      "do_syscall_", "x64_sys_call",
					      "__x64_sys_",   "__do_sys_",   "__se_sys_",
					      "ret_from_fork"};
	for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++) {
		size_t length = strlen(entries[i]);
		if (size >= length && memcmp(name, entries[i], length) == 0)
			return true;
	}
	return false;
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
	if (!isdigit((unsigned char)*name) && !is_entry(name, size))
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
