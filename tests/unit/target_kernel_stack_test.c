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
