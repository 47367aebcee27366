/* SPDX-License-Identifier: MIT */
/* What a blocked thread waits in, from texts as the kernel writes them and as it should not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "target/internal.h"

struct text {
	const char *stack, *wchan, *call, *wanted;
};

static const struct text texts[] = {
	{"[<0>] futex_wait_queue+0x60/0x90\n"
	 "[<0>] futex_wait+0x189/0x270\n"
	 "[<0>] do_futex+0xc6/0x190\n"
	 "[<0>] __x64_sys_futex+0x127/0x1e0\n"
	 "[<0>] x64_sys_call+0x1c6/0x20d0\n"
	 "[<0>] do_syscall_64+0x58/0xc0\n"
	 "[<0>] entry_SYSCALL_64_after_hwframe+0x64/0xce\n",
	 "futex_wait_queue", "futex", "futex_wait_queue\nfutex_wait\ndo_futex\nfutex\n"},
	/* the same wait in other kernels' builds: 6.18, the call's own function inlined */
	{"[<0>] do_wait+0x5f/0x130\n"
	 "[<0>] kernel_wait4+0xb8/0x150\n"
	 "[<0>] __x64_sys_wait4+0x8a/0xa0\n"
	 "[<0>] do_syscall_64+0x71/0x280\n"
	 "[<0>] entry_SYSCALL_64_after_hwframe+0x76/0x7e\n",
	 "do_wait", "wait4", "do_wait\nkernel_wait4\nwait4\n"},
	/* 6.1, its wrapper inlined */
	{"[<0>] do_wait+0x15d/0x300\n"
	 "[<0>] kernel_wait4+0xaf/0x150\n"
	 "[<0>] __do_sys_wait4+0x85/0xa0\n"
	 "[<0>] do_syscall_64+0x58/0xc0\n"
	 "[<0>] entry_SYSCALL_64_after_hwframe+0x64/0xce\n",
	 "do_wait", "wait4", "do_wait\nkernel_wait4\nwait4\n"},
	/* 5.4, nothing inlined */
	{"[<0>] do_wait+0x1cb/0x230\n"
	 "[<0>] kernel_wait4+0x89/0x120\n"
	 "[<0>] __do_sys_wait4+0x85/0x90\n"
	 "[<0>] __se_sys_wait4+0x1c/0x20\n"
	 "[<0>] __x64_sys_wait4+0x1e/0x20\n"
	 "[<0>] do_syscall_64+0x57/0x190\n"
	 "[<0>] entry_SYSCALL_64_after_hwframe+0x44/0xa9\n",
	 "do_wait", "wait4", "do_wait\nkernel_wait4\nwait4\n"},
	/* ... but the function that waits, in the one that wchan tells of */
	{NULL, "__do_sys_pause", "pause", "pause\n"},
	{NULL, "__x64_sys_pause", "pause", "pause\n"},
	/* 4.15, and a frame that is none at the end */
	{"[<0>] do_wait+0x1c7/0x230\n"
	 "[<0>] kernel_wait4+0x8d/0x120\n"
	 "[<0>] SYSC_wait4+0x8b/0xa0\n"
	 "[<0>] SyS_wait4+0xe/0x10\n"
	 "[<0>] do_syscall_64+0x73/0x130\n"
	 "[<0>] entry_SYSCALL_64_after_hwframe+0x3d/0xa2\n"
	 "[<0>] 0xffffffffffffffff\n",
	 "do_wait", "wait4", "do_wait\nkernel_wait4\nwait4\n"},
	/* 3.10 */
	{"[<ffffffff8109d2d6>] do_wait+0x1f6/0x260\n"
	 "[<ffffffff8109e3a6>] sys_wait4+0x76/0xf0\n"
	 "[<ffffffff816b89c9>] system_call_fastpath+0x16/0x1b\n"
	 "[<ffffffffffffffff>] 0xffffffffffffffff\n",
	 "do_wait", "wait4", "do_wait\nwait4\n"},
	/* a 32-bit program's, new and old */
	{"[<0>] do_wait+0x1c1/0x240\n"
	 "[<0>] kernel_wait4+0xb8/0x150\n"
	 "[<0>] __do_compat_sys_wait4+0x8d/0xa0\n"
	 "[<0>] __ia32_compat_sys_wait4+0x1e/0x20\n"
	 "[<0>] ia32_sys_call+0x2d4/0x2940\n"
	 "[<0>] __do_fast_syscall_32+0x61/0x110\n"
	 "[<0>] do_fast_syscall_32+0x34/0x80\n"
	 "[<0>] do_SYSENTER_32+0x1f/0x30\n"
	 "[<0>] entry_SYSENTER_compat_after_hwframe+0x84/0x96\n",
	 "do_wait", "wait4", "do_wait\nkernel_wait4\nwait4\n"},
	{"[<0>] do_wait+0x1c7/0x230\n[<0>] C_SYSC_wait4+0x9b/0xb0\n"
	 "[<0>] compat_SyS_wait4+0xe/0x10\n[<0>] do_int80_syscall_32+0x6f/0x120\n",
	 "do_wait", "wait4", "do_wait\nwait4\n"},
	/* functions that the call's own calls */
	{"[<0>] do_sys_poll+0x4a3/0x600\n[<0>] ksys_read+0x66/0xe0\n"
	 "[<0>] __sys_accept4+0x5c/0xc0\n[<0>] do_compat_pselect+0x1/0x2\n"
	 "[<0>] __x64_sys_ppoll+0xd3/0x140\n",
	 NULL, "ppoll", "do_sys_poll\nksys_read\n__sys_accept4\ndo_compat_pselect\nppoll\n"},
	/* compilers' additions, and a function of a kernel module */
	{"[<0>] poll_schedule_timeout.constprop.0+0x37/0x90\n", NULL, "poll",
	 "poll_schedule_timeout\npoll\n"},
	{"[<0>] nfs_wait_bit_killable+0x1e/0x90 [nfs]\n", NULL, "read",
	 "nfs_wait_bit_killable\nread\n"},
	/* older kernels gave addresses */
	{"[<ffffffff810b1a35>] pipe_wait+0x6a/0xa0\n[<ffffffff810b1a35>] 0xffffffff810b1a35\n"
	 "[<ffffffffffffffff>] 0xffffffffffffffff\n",
	 NULL, "read", "pipe_wait\nread\n"},
	/* no stack for us: the innermost function */
	{"", "hrtimer_nanosleep", "clock_nanosleep", "hrtimer_nanosleep\nclock_nanosleep\n"},
	{NULL, "0", "read", "read\n"},
	{NULL, "ffffffff810b1a35", "read", "ffffffff810b1a35\nread\n"},
	{NULL, "", "read", "read\n"},
	{NULL, NULL, NULL, ""},
	/* blocked, but in no call: on a page */
	{"[<0>] folio_wait_bit_common+0x13d/0x350\n[<0>] filemap_fault+0x5ae/0xb80\n", NULL, NULL,
	 "folio_wait_bit_common\nfilemap_fault\n"},
	{"[<0>] folio_wait_bit_common+0x13d/0x350\n[<0>] exc_page_fault+0x70/0x170\n"
	 "[<0>] asm_exc_page_fault+0x22/0x30\n",
	 NULL, NULL, "folio_wait_bit_common\nexc_page_fault\n"},
	/* what it does not look like */
	{"\n\n[<0>] \n[<0>]\nfutex\n[<\n>] x\n[<0>] \x1b[31m;a b\n", NULL, "read", "read\n"},
};

static void texts_give_the_functions(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		char text[TARGET_KERNEL_SIZE];
		kernel_stack_text(texts[i].stack, texts[i].wchan, texts[i].call, text);
		assert_string_equal(text, texts[i].wanted);
	}
}

/* However long it is, what comes out is whole lines within the room there is. */
static void long_stacks_are_cut_between_names(void **state)
{
	(void)state;
	char stack[8192] = "", text[TARGET_KERNEL_SIZE];
	for (int i = 0; i < 200; i++)
		strcat(stack, "[<0>] a_function_of_the_kernel+0x1/0x2\n");
	kernel_stack_text(stack, NULL, "read", text);
	assert_true(strlen(text) < TARGET_KERNEL_SIZE);
	assert_true(strlen(text) > TARGET_KERNEL_SIZE - 64);
	assert_int_equal(text[strlen(text) - 1], '\n');
	for (const char *line = text; *line; line = strchr(line, '\n') + 1)
		assert_true(strncmp(line, "a_function_of_the_kernel\n", 25) == 0 ||
			    strncmp(line, "read\n", 5) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_give_the_functions),
		cmocka_unit_test(long_stacks_are_cut_between_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
