/* SPDX-License-Identifier: MIT */
/*
 * Constants followed through code: what keeps them, what ends them, and what must not be taken for
 * one. Each example is code of which the end is looked at.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "x86/x86.h"

#define NOT_KNOWN UINT64_MAX

static const struct example {
	const char *assembly, *bytes;
	size_t size;
	unsigned number; /* of the register that is looked at, at the end */
	uint64_t wanted;
} examples[] = {
	{"mov $7,%ebx; call", "\xbb\x07\x00\x00\x00\xe8\x00\x00\x00\x00", 10, X86_RBX, 7},
	{"mov $7,%esi; call", "\xbe\x07\x00\x00\x00\xe8\x00\x00\x00\x00", 10, X86_RSI, NOT_KNOWN},
	{"mov $7,%ebx; jmp; mov %rbx,%rdx", "\xbb\x07\x00\x00\x00\xeb\x00\x48\x89\xda", 10, X86_RDX,
	 7},
	{"mov $-1,%rax; mov %eax,%edx", "\x48\xc7\xc0\xff\xff\xff\xff\x89\xc2", 9, X86_RDX,
	 0xffffffff},
	{"mov $7,%eax; mov $1,%al", "\xb8\x07\x00\x00\x00\xb0\x01", 7, X86_RAX, NOT_KNOWN},
	{"mov $7,%eax; mov %ecx,%eax", "\xb8\x07\x00\x00\x00\x89\xc8", 7, X86_RAX, NOT_KNOWN},
	{"mov $7,%eax; nop", "\xb8\x07\x00\x00\x00\x90", 6, X86_RAX, 7},
	{"mov $7,%edx; div %rcx", "\xba\x07\x00\x00\x00\x48\xf7\xf1", 8, X86_RDX, NOT_KNOWN},
	{"mov $7,%ebx; mov %ebx,8(%rsp); call; mov 8(%rsp),%edx",
	 "\xbb\x07\x00\x00\x00\x89\x5c\x24\x08\xe8\x00\x00\x00\x00\x8b\x54\x24\x08", 18, X86_RDX,
	 7},
	{"movq $-2,-8(%rbp); mov -8(%rbp),%rcx", "\x48\xc7\x45\xf8\xfe\xff\xff\xff\x48\x8b\x4d\xf8",
	 12, X86_RCX, (uint64_t)-2},
	{"movq $-2,-8(%rbp); mov -8(%rbp),%ecx", "\x48\xc7\x45\xf8\xfe\xff\xff\xff\x8b\x4d\xf8", 11,
	 X86_RCX, 0xfffffffe},
	{"movl $5,8(%rsp); mov 8(%rsp),%rdx",
	 "\xc7\x44\x24\x08\x05\x00\x00\x00\x48\x8b\x54\x24\x08", 13, X86_RDX, NOT_KNOWN},
	{"movl $5,8(%rsp); push %rax; mov 8(%rsp),%edx",
	 "\xc7\x44\x24\x08\x05\x00\x00\x00\x50\x8b\x54\x24\x08", 13, X86_RDX, NOT_KNOWN},
	{"movl $5,8(%rsp); mov %rsp,%rbp; mov 8(%rsp),%edx",
	 "\xc7\x44\x24\x08\x05\x00\x00\x00\x48\x89\xe5\x8b\x54\x24\x08", 15, X86_RDX, 5},
	{"movl $5,-8(%rbp); mov %rsp,%rbp; mov -8(%rbp),%edx",
	 "\xc7\x45\xf8\x05\x00\x00\x00\x48\x89\xe5\x8b\x55\xf8", 13, X86_RDX, NOT_KNOWN},
	{"movl $5,8(%rsp); movl $6,12(%rsp); mov 8(%rsp),%edx",
	 "\xc7\x44\x24\x08\x05\x00\x00\x00\xc7\x44\x24\x0c\x06\x00\x00\x00\x8b\x54\x24\x08", 20,
	 X86_RDX, 5},
	{"movl $5,8(%rsp); movq $6,4(%rsp); mov 8(%rsp),%edx",
	 "\xc7\x44\x24\x08\x05\x00\x00\x00\x48\xc7\x44\x24\x04\x06\x00\x00\x00\x8b\x54\x24\x08", 21,
	 X86_RDX, NOT_KNOWN},
	{"movl $5,8(%rsp); movups %xmm0,(%rsp); mov 8(%rsp),%edx",
	 "\xc7\x44\x24\x08\x05\x00\x00\x00\x0f\x11\x04\x24\x8b\x54\x24\x08", 16, X86_RDX,
	 NOT_KNOWN},
	{"movl $5,16(%rsp); movups %xmm0,(%rsp); mov 16(%rsp),%edx",
	 "\xc7\x44\x24\x10\x05\x00\x00\x00\x0f\x11\x04\x24\x8b\x54\x24\x10", 16, X86_RDX, 5},
	{"movl $5,8(%rsp); cmpl $1,8(%rsp); mov 8(%rsp),%edx",
	 "\xc7\x44\x24\x08\x05\x00\x00\x00\x83\x7c\x24\x08\x01\x8b\x54\x24\x08", 17, X86_RDX, 5},
	{"movl $5,8(%rsp); addl $1,8(%rsp); mov 8(%rsp),%edx",
	 "\xc7\x44\x24\x08\x05\x00\x00\x00\x83\x44\x24\x08\x01\x8b\x54\x24\x08", 17, X86_RDX,
	 NOT_KNOWN},
	{"movl $5,8(%rsp); movl $5,8(%rsp,%rax,1); mov 8(%rsp,%rax,1),%edx",
	 "\xc7\x44\x24\x08\x05\x00\x00\x00\xc7\x44\x04\x08\x05\x00\x00\x00\x8b\x54\x04\x08", 20,
	 X86_RDX, NOT_KNOWN},
};

static void follow(struct x86_constants *constants, const uint8_t *code, size_t size,
		   size_t marked_until)
{
	struct x86_instruction instruction;
	x86_constants_clear(constants);
	for (size_t at = 0; at < size; at += instruction.length) {
		assert_true(x86_decode(code + at, size - at, at, &instruction));
		x86_constants_apply(constants, &instruction, at < marked_until);
	}
}

static void constants_survive_what_keeps_them(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(examples) / sizeof(*examples); i++) {
		const struct example *example = &examples[i];
		struct x86_constants constants;
		uint64_t value = NOT_KNOWN;
		follow(&constants, (const uint8_t *)example->bytes, example->size, 0);
		x86_constants_get(&constants, example->number, &value);
		if (value != example->wanted)
			fail_msg("%s: %#llx, not %#llx", example->assembly,
				 (unsigned long long)value, (unsigned long long)example->wanted);
	}
}

/* mov $7,%ebx (marked); mov %ebx,8(%rsp); mov $7,%ecx (not); mov 8(%rsp),%edx; mov $7,%ebx (not) */
static void marks_go_where_constants_go(void **state)
{
	static const uint8_t code[] = "\xbb\x07\x00\x00\x00\x89\x5c\x24\x08\xb9\x07\x00\x00\x00"
				      "\x8b\x54\x24\x08\xbb\x07\x00\x00\x00";
	struct x86_constants constants;
	(void)state;
	follow(&constants, code, sizeof(code) - 1, 5);
	assert_true(x86_constants_has_mark(&constants, X86_RDX));
	assert_false(x86_constants_has_mark(&constants, X86_RCX));
	assert_false(x86_constants_has_mark(&constants, X86_RBX));
	assert_false(x86_constants_has_mark(&constants, X86_RAX)); /* it is not known */
}

/* More words than there are slots: the oldest are forgotten, none is taken for another. */
static void many_words_are_not_mixed_up(void **state)
{
	struct x86_constants constants;
	uint64_t value;
	(void)state;
	x86_constants_clear(&constants);
	for (int i = 0; i < 4 * X86_CONSTANT_SLOTS; i++) {
		const struct x86_instruction store = {.effect = X86_STORE,
						      .from = X86_NO_REGISTER,
						      .value = (uint64_t)i,
						      .stored = 8,
						      .has_memory = true,
						      .memory = {8 * i, X86_RSP, X86_NO_REGISTER, 1}};
		x86_constants_apply(&constants, &store, false);
	}
	for (int i = 0; i < 4 * X86_CONSTANT_SLOTS; i++) {
		const struct x86_instruction load = {.effect = X86_LOAD,
						     .to = X86_RAX,
						     .written = X86_BIT(X86_RAX),
						     .has_memory = true,
						     .memory = {8 * i, X86_RSP, X86_NO_REGISTER, 1}};
		x86_constants_apply(&constants, &load, false);
		const bool known = x86_constants_get(&constants, X86_RAX, &value);
		assert_int_equal(known, i >= 3 * X86_CONSTANT_SLOTS);
		if (known)
			assert_int_equal(value, i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(constants_survive_what_keeps_them),
		cmocka_unit_test(marks_go_where_constants_go),
		cmocka_unit_test(many_words_are_not_mixed_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
