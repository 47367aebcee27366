/* SPDX-License-Identifier: MIT */
/* What x86/ finds out of functions: they are assembled here, and labels say where to look. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "x86/x86.h"

#define L(name) ".globl " name "\n" name ":\n"

/* Each begins at fn_NAME; what follows the last one is never reached. */
asm(".text\n.balign 16\n.globl functions_begin\nfunctions_begin:\n"
    L("fn_pushes") "push %rbx\n" L("pushes_1") "push %r12\nsub $24,%rsp\n" L("pushes_body")
    "nop\ncall fn_plain\n" L("pushes_called") "nop\nadd $24,%rsp\npop %r12\n" L("pushes_2")
    "pop %rbx\n" L("pushes_ret") "ret\n"
    L("fn_plain") "ret\n"
    /* As OpenBLAS's dgemm_kernel_HASWELL: the stack pointer is aligned, RBX has the old one. */
    L("fn_aligned") "sub $96,%rsp\nmov %rbx,(%rsp)\nmov %rbp,8(%rsp)\nmov %r12,16(%rsp)\n"
    "mov %rsp,%rbx\nsub $30000,%rsp\nand $-4096,%rsp\n" L("aligned_body") "xor %ebp,%ebp\n"
    "mov $5,%r12\n1: dec %r12\njnz 1b\n" L("aligned_loop") "mov %rbx,%rsp\nmov (%rsp),%rbx\n"
    "mov 8(%rsp),%rbp\nmov 16(%rsp),%r12\nadd $96,%rsp\n" L("aligned_ret") "ret\n"
    /* The old stack pointer is on the new stack alone. */
    L("fn_spilled") "mov %rsp,%rax\nand $-64,%rsp\npush %rax\nsub $120,%rsp\n" L("spilled_body")
    "xor %eax,%eax\nadd $120,%rsp\npop %rsp\nret\n"
    L("fn_frame") "push %rbp\nmov %rsp,%rbp\nand $-32,%rsp\nsub %rdi,%rsp\n" L("frame_body")
    "nop\nleave\n" L("frame_ret") "ret\n"
    L("fn_framed") "push %rbp\nmov %rsp,%rbp\npush %rbx\nsub $40,%rsp\n" L("framed_body")
    "nop\nleave\nret\n"
    /* Its size is in a register that is known. */
    L("fn_large") "mov $0x12340,%eax\nsub %rax,%rsp\n" L("large_body") "nop\nadd $0x12340,%rsp\nret\n"
    /* Behind a call that never returns the stack pointer would be another one. */
    L("fn_endless") "test %edi,%edi\njne 1f\nsub $8,%rsp\ncall fn_plain\n"
    "1: push %rbx\n" L("endless_body") "nop\npop %rbx\nret\n"
    /* A switch: GCC's table of distances. */
    L("fn_switch") "push %r13\ncmp $2,%edi\nja 9f\nmov %edi,%edi\nlea 7f(%rip),%rdx\n"
    "movslq (%rdx,%rdi,4),%rax\nadd %rdx,%rax\njmp *%rax\n"
    "1: push %r14\n" L("switch_1") "nop\npop %r14\npop %r13\nret\n"
    "2: nop\n" L("switch_2") "pop %r13\nret\n9: " L("switch_other") "pop %r13\nret\n"
    "7: .long 1b-7b,2b-7b,9b-7b\n"
    /* Without the comparison it is not known where it goes. */
    L("fn_unbounded") "push %r13\nlea 7f(%rip),%rdx\nmovslq (%rdx,%rdi,4),%rax\nadd %rdx,%rax\n"
    "jmp *%rax\n1: " L("unbounded_1") "pop %r13\nret\n7: .long 1b-7b\n"
    /* Two ways that cannot both be. */
    L("fn_odd") "test %edi,%edi\njne 1f\npush %rax\n1: " L("odd_body") "nop\njmp fn_odd_on\n"
    L("fn_odd_on") "nop\nud2\n"
    /* The register's slot is used again, for something else. */
    L("fn_reused") "push %rbx\nsub $16,%rsp\nmov %rbp,8(%rsp)\n" L("reused_1") "nop\n"
    "movq $0,8(%rsp)\nxor %ebp,%ebp\n" L("reused_2") "nop\nadd $16,%rsp\npop %rbx\nret\n"
    L("fn_exchanged") "xchg %rbx,%rax\n" L("exchanged_body") "nop\nxchg %rax,%rbx\nret\n"
    L("fn_jumps") "nop\npush %rcx\nret\n"
    /* At first its register is saved nowhere, from the second time on it is. */
    L("fn_loop") "sub $24,%rsp\nnop\n1: nop\n" L("loop_first") "nop\nmov %rbx,8(%rsp)\n"
    L("loop_saved") "nop\ndec %edi\njnz 1b\nadd $24,%rsp\nret\n"
    /* Two words of arguments are on the stack when it calls, and off it where exceptions land. */
    L("fn_lands") "push %rbx\nsub $16,%rsp\nmov %rdi,%rbx\npush %rax\npush %rax\ncall fn_plain\n"
    L("lands_called") "add $32,%rsp\npop %rbx\nret\n" L("lands_pad") "mov %rax,%rdi\n"
    L("lands_on") "call fn_plain\nud2\n"
    /* What it calls throws, and never returns. */
    L("fn_throws") "push %rbx\ncall fn_never\n" L("throws_called") "nop\nud2\n"
    L("throws_pad") "nop\npop %rbx\nret\n" L("fn_never") "ud2\n"
    /* Two calls land at one pad, from another stack pointer each. */
    L("fn_two") "call fn_plain\n" L("two_first") "push %rax\ncall fn_plain\n"
    L("two_second") "pop %rax\nret\n" L("two_pad") "nop\nud2\n"
    /* As x264's: the old stack pointer is in RCX, which what it calls leaves alone. */
    L("fn_custom") "mov %rsp,%rcx\nand $-32,%rsp\nsub $96,%rsp\ncall fn_leaf\n" L("custom_called")
    "sub $64,%rsp\ncall fn_leaf\n" L("custom_again") "nop\nmov %rcx,%rsp\n" L("custom_ret") "ret\n"
    L("fn_leaf") "mov (%rdi),%eax\ntest %eax,%eax\njne 1f\nmov $1,%eax\n" L("leaf_body") "nop\n1: ret\n"
    /* Others may not: one changes it, one calls, one goes where nobody knows. */
    L("fn_changed") "mov %rsp,%rcx\nand $-32,%rsp\ncall 1f\n" L("changed_called") "nop\nmov %rcx,%rsp\nret\n"
    "1: test %eax,%eax\njne 2f\nret\n2: inc %ecx\nret\n"
    L("fn_calling") "mov %rsp,%rcx\nand $-32,%rsp\ncall 1f\n" L("calling_called") "nop\nmov %rcx,%rsp\nret\n"
    "1: call fn_plain\nret\n"
    L("fn_leaving") "mov %rsp,%rcx\nand $-32,%rsp\ncall 1f\n" L("leaving_called") "nop\nmov %rcx,%rsp\nret\n"
    "1: jmp *%rax\n"
    ".globl functions_end\nfunctions_end: .long 0\n");

#define NOWHERE INT32_MIN

/* offset of the CFA from a register; where RBX, RBP, R12, R13 were saved, from the CFA. */
struct expected {
	const char *function, *at;
	bool is_return;
	unsigned known; /* 0: all */
	int kind, base, offset, more;
	int rbx, rbp, r12, r13; /* 0: in the register itself */
};

#define V X86_PLACE_VALUE
#define M X86_PLACE_MEMORY

static const struct expected table[] = {
	{"fn_pushes", "fn_pushes", false, 0, V, X86_RSP, 8, 0, 0, 0, 0, 0},
	{"fn_pushes", "pushes_1", false, 0, V, X86_RSP, 16, 0, 0, 0, 0, 0},
	{"fn_pushes", "pushes_body", false, 0, V, X86_RSP, 48, 0, 0, 0, 0, 0},
	{"fn_pushes", "pushes_called", true, 0, V, X86_RSP, 48, 0, 0, 0, 0, 0},
	{"fn_pushes", "pushes_2", false, 0, V, X86_RSP, 16, 0, 0, 0, 0, 0},
	{"fn_pushes", "pushes_ret", false, 0, V, X86_RSP, 8, 0, 0, 0, 0, 0},
	/* Of a thread that is blocked only the stack pointer is known. */
	{"fn_pushes", "pushes_body", false, X86_BIT(X86_RSP), V, X86_RSP, 48, 0, -16, NOWHERE, -24,
	 NOWHERE},
	{"fn_aligned", "aligned_body", false, 0, V, X86_RBX, 104, 0, -104, 0, 0, 0},
	{"fn_aligned", "aligned_loop", false, 0, V, X86_RBX, 104, 0, -104, -96, -88, 0},
	{"fn_aligned", "aligned_ret", false, 0, V, X86_RSP, 8, 0, 0, 0, 0, 0},
	{"fn_spilled", "spilled_body", false, 0, V, X86_RAX, 8, 0, 0, 0, 0, 0},
	{"fn_spilled", "spilled_body", false, X86_CALLEE_SAVED | X86_BIT(X86_RSP), M, X86_RSP, 120,
	 8, 0, 0, 0, 0},
	{"fn_frame", "frame_body", false, 0, V, X86_RBP, 16, 0, 0, -16, 0, 0},
	{"fn_frame", "frame_ret", false, 0, V, X86_RSP, 8, 0, 0, 0, 0, 0},
	{"fn_large", "large_body", false, 0, V, X86_RSP, 0x12348, 0, 0, 0, 0, 0},
	{"fn_endless", "endless_body", false, 0, V, X86_RSP, 16, 0, 0, 0, 0, 0},
	{"fn_switch", "switch_1", false, 0, V, X86_RSP, 24, 0, 0, 0, 0, 0},
	{"fn_switch", "switch_2", false, 0, V, X86_RSP, 16, 0, 0, 0, 0, 0},
	{"fn_switch", "switch_other", false, 0, V, X86_RSP, 16, 0, 0, 0, 0, 0},
	{"fn_custom", "custom_called", true, 0, V, X86_RCX, 8, 0, 0, 0, 0, 0},
	{"fn_custom", "custom_again", true, 0, V, X86_RCX, 8, 0, 0, 0, 0, 0},
	{"fn_custom", "custom_ret", false, 0, V, X86_RSP, 8, 0, 0, 0, 0, 0},
	{"fn_reused", "reused_1", false, 0, V, X86_RSP, 32, 0, 0, 0, 0, 0},
	{"fn_reused", "reused_2", false, 0, V, X86_RSP, 32, 0, 0, NOWHERE, 0, 0},
	{"fn_exchanged", "exchanged_body", false, 0, V, X86_RSP, 8, 0, X86_RAX + 1, 0, 0, 0},
	{"fn_loop", "loop_first", false, X86_BIT(X86_RSP), V, X86_RSP, 32, 0, NOWHERE, NOWHERE,
	 NOWHERE, NOWHERE},
	{"fn_loop", "loop_saved", false, X86_BIT(X86_RSP), V, X86_RSP, 32, 0, -24, NOWHERE,
	 NOWHERE, NOWHERE},
	{"fn_lands", "lands_called", true, 0, V, X86_RSP, 48, 0, -16, 0, 0, 0},
	{"fn_lands", "lands_pad", false, 0, V, X86_RSP, 32, 0, -16, 0, 0, 0},
	{"fn_lands", "lands_on", false, 0, V, X86_RSP, 32, 0, -16, 0, 0, 0},
	{"fn_throws", "throws_pad", false, 0, V, X86_RSP, 16, 0, 0, 0, 0, 0},
};

/* Functions and places of which nothing must be said. */
static const struct expected undecided[] = {
	{.function = "fn_custom", .at = "custom_called", .is_return = true, .known = X86_CALLEE_SAVED | X86_BIT(X86_RSP)},
	{.function = "fn_changed", .at = "changed_called", .is_return = true},
	{.function = "fn_calling", .at = "calling_called", .is_return = true},
	{.function = "fn_leaving", .at = "leaving_called", .is_return = true},
	{"fn_unbounded", "unbounded_1", .base = 0},
	{"fn_odd", "odd_body", .base = 0},
	{"fn_odd", "fn_odd_on", .base = 0},
	{"fn_pushes", "fn_plain", .base = 0},		      /* another function */
	{"fn_pushes", "pushes_2", .is_return = true},	      /* no call ends there */
	{"fn_frame", "frame_body", .known = X86_BIT(X86_RSP)}, /* by the frame pointer alone */
	{"fn_aligned", "aligned_body", .known = X86_BIT(X86_RSP)},
	{"fn_throws", "throws_called", .base = 0},
	{"fn_two", "two_pad", .base = 0},
};

#define LABELS(X) \
	X(fn_pushes) X(pushes_1) X(pushes_body) X(pushes_called) X(pushes_2) X(pushes_ret) \
	X(fn_plain) X(fn_aligned) X(aligned_body) X(aligned_loop) X(aligned_ret) X(fn_spilled) \
	X(spilled_body) X(fn_frame) X(frame_body) X(frame_ret) X(fn_large) X(large_body) \
	X(fn_endless) X(endless_body) X(fn_switch) X(switch_1) X(switch_2) X(switch_other) \
	X(fn_unbounded) X(unbounded_1) X(fn_odd) X(odd_body) X(fn_odd_on) X(fn_reused) \
	X(reused_1) X(reused_2) X(fn_exchanged) X(exchanged_body) X(functions_begin) \
	X(functions_end) X(fn_jumps) X(fn_lands) X(lands_called) X(lands_pad) X(lands_on) \
	X(fn_throws) X(throws_called) X(throws_pad) X(fn_never) X(fn_two) X(two_first) \
	X(two_second) X(two_pad) X(fn_loop) X(loop_first) X(loop_saved) X(fn_framed) X(framed_body) \
	X(fn_custom) X(custom_called) X(custom_again) X(custom_ret) X(fn_leaf) X(leaf_body) \
	X(fn_changed) X(changed_called) X(fn_calling) X(calling_called) X(fn_leaving) \
	X(leaving_called)

#define DECLARE(name) extern const char name[];
LABELS(DECLARE)

static uint64_t find(const char *wanted)
{
#define COMPARE(name) \
	if (strcmp(wanted, #name) == 0) \
		return (uint64_t)(uintptr_t)name;
	LABELS(COMPARE)
	fail_msg("no label %s", wanted);
	return 0;
}

static bool read_here(const struct memory_reader *reader, remote_addr address, void *buffer,
		      size_t size, struct error *error)
{
	(void)reader;
	if (address < find("functions_begin") || address + size > find("functions_end") + 4)
		return error_set(error, ERROR_ABSENT, "not a function");
	memcpy(buffer, (const void *)(uintptr_t)address, size);
	return true;
}

static const struct memory_reader here = {.read = read_here};

static bool never_returns(void *context, uint64_t target)
{
	assert_null(context);
	return target == find("fn_never");
}

static bool lands(void *context, uint64_t after, struct x86_landing *landing)
{
	static const struct {
		const char *after, *pad;
		uint64_t popped;
	} all[] = {{"lands_called", "lands_pad", 16}, {"throws_called", "throws_pad", 0},
		   {"two_first", "two_pad", 0}, {"two_second", "two_pad", 0}};
	assert_null(context);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		if (after != find(all[i].after))
			continue;
		*landing = (struct x86_landing){find(all[i].pad), all[i].popped};
		return true;
	}
	return false;
}

static bool look(const struct expected *expected, struct x86_row *row)
{
	const struct x86_code code = {.reader = &here,
				      .start = find("functions_begin"),
				      .end = find("functions_end"),
				      .never_returns = never_returns,
				      .lands = lands};
	struct x86_function *const function = x86_function_new(&code, find(expected->function));
	const bool found =
		x86_function_row(function, &code, find(expected->at), expected->is_return,
				 expected->known ? expected->known : 0xffff, row);
	x86_function_free(function);
	return found;
}

/* NOWHERE; 0: the register itself; below 0: from the CFA; above: the register of that number. */
static void check_saved(const struct x86_row *row, int number, int expected, const char *at)
{
	const struct x86_place *const place = &row->saved[number];
	bool well;
	if (expected == NOWHERE)
		well = place->kind == X86_PLACE_UNKNOWN;
	else if (expected < 0)
		well = place->kind == X86_PLACE_MEMORY && place->base == X86_CFA &&
		       place->offset == expected;
	else
		well = place->kind == X86_PLACE_VALUE && place->offset == 0 &&
		       place->base == (expected ? expected - 1 : number);
	if (!well)
		fail_msg("%s: register %d: kind %d, base %d, offset %d", at, number, place->kind,
			 place->base, place->offset);
}

static void rows_are_what_the_code_does(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		const struct expected *const expected = &table[i];
		struct x86_row row;
		if (!look(expected, &row))
			fail_msg("%s: not decided", expected->at);
		if (row.cfa.kind != expected->kind || row.cfa.base != expected->base ||
		    row.cfa.offset != expected->offset || row.cfa.more != expected->more)
			fail_msg("%s: CFA %d:%d%+d%+d", expected->at, row.cfa.kind, row.cfa.base,
				 row.cfa.offset, row.cfa.more);
		check_saved(&row, X86_RBX, expected->rbx, expected->at);
		check_saved(&row, X86_RBP, expected->rbp, expected->at);
		check_saved(&row, X86_R12, expected->r12, expected->at);
		check_saved(&row, X86_R13, expected->r13, expected->at);
	}
}

static void what_is_not_decided_is_said(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(undecided) / sizeof(*undecided); i++) {
		struct x86_row row;
		if (look(&undecided[i], &row))
			fail_msg("%s in %s: CFA %d:%d%+d", undecided[i].at, undecided[i].function,
				 row.cfa.kind, row.cfa.base, row.cfa.offset);
	}
}

static void what_a_function_leaves_as_it_is_is_told(void **state)
{
	static const struct expected leaf = {.function = "fn_leaf", .at = "leaf_body"},
				     calls = {.function = "fn_pushes", .at = "pushes_body"},
				     custom = {.function = "fn_custom", .at = "custom_ret"};
	struct x86_row row;
	(void)state;
	assert_true(look(&leaf, &row));
	assert_int_equal(row.kept, 0xffff & ~(X86_CALLEE_SAVED | X86_BIT(X86_RSP) | X86_BIT(X86_RAX)));
	assert_true(look(&calls, &row));
	assert_int_equal(row.kept, 0);
	assert_true(look(&custom, &row));
	assert_int_equal(row.kept, 0);
}

static void a_register_is_found_by_others(void **state)
{
	static const struct {
		const char *function, *at;
		unsigned known, number;
		int kind, base, offset, more; /* kind X86_PLACE_UNKNOWN: it is not found */
		bool frame;
	} cases[] = {
		{"fn_framed", "framed_body", X86_BIT(X86_RSP), X86_RBP, V, X86_RSP, 48, 0, true},
		{"fn_framed", "framed_body", 0, X86_RBP, 0, 0, 0, 0, true},
		/* The stack pointer was moved by a variable. */
		{"fn_frame", "frame_body", X86_BIT(X86_RSP), X86_RBP, 0, 0, 0, 0, true},
		{"fn_spilled", "spilled_body", X86_BIT(X86_RSP), X86_RAX, M, X86_RSP, 120, 0, true},
		{"fn_aligned", "aligned_body", X86_BIT(X86_RSP), X86_RBX, 0, 0, 0, 0, true},
		/* As it was at first, or what nobody knows. */
		{"fn_pushes", "pushes_body", X86_BIT(X86_RSP), X86_RBP, 0, 0, 0, 0, false},
		{"fn_aligned", "aligned_loop", X86_BIT(X86_RSP), X86_RBP, 0, 0, 0, 0, false},
		{"fn_odd", "odd_body", X86_BIT(X86_RSP), X86_RBP, 0, 0, 0, 0, false},
	};
	const struct x86_code code = {
		.reader = &here, .start = find("functions_begin"), .end = find("functions_end")};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct x86_function *const function =
			x86_function_new(&code, find(cases[i].function));
		struct x86_place place = {0};
		bool frame;
		const bool found =
			x86_function_register(function, &code, find(cases[i].at), false,
					      cases[i].known, cases[i].number, &place, &frame);
		x86_function_free(function);
		if (found != (cases[i].kind != X86_PLACE_UNKNOWN) || frame != cases[i].frame ||
		    (found && (place.kind != cases[i].kind || place.base != cases[i].base ||
			       place.offset != cases[i].offset || place.more != cases[i].more)))
			fail_msg("case %zu, %s: %d, %d:%d%+d%+d, frame %d", i, cases[i].at, found,
				 place.kind, place.base, place.offset, place.more, frame);
	}
}

static void epilogues_need_no_entry(void **state)
{
	static const struct {
		const char *at;
		int base, offset, rbx;
	} cases[] = {
		{"pushes_called", X86_RSP, 48, 32}, {"pushes_2", X86_RSP, 16, 0},
		{"fn_plain", X86_RSP, 8, -1},	    {"frame_body", X86_RBP, 16, -1},
		{"unbounded_1", X86_RSP, 16, -1},
	};
	const struct x86_code code = {
		.reader = &here, .start = find("functions_begin"), .end = find("functions_end")};
	struct x86_row row;
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (!x86_epilogue_row(&code, find(cases[i].at), 0xffff, &row))
			fail_msg("%s: not decided", cases[i].at);
		assert_int_equal(row.cfa.base, cases[i].base);
		assert_int_equal(row.cfa.offset, cases[i].offset);
		if (cases[i].rbx >= 0) {
			assert_int_equal(row.saved[X86_RBX].kind, X86_PLACE_MEMORY);
			assert_int_equal(row.saved[X86_RBX].base, X86_RSP);
			assert_int_equal(row.saved[X86_RBX].offset, cases[i].rbx);
		}
	}
	assert_false(x86_epilogue_row(&code, find("fn_odd_on"), 0xffff, &row));
	assert_false(x86_epilogue_row(&code, find("fn_jumps"), 0xffff, &row));
}

/* Any bytes: in bounded time, without a read outside of what there is. */
struct noise {
	struct memory_reader reader;
	uint8_t bytes[1 << 14];
};

static bool read_noise(const struct memory_reader *reader, remote_addr address, void *buffer,
		       size_t size, struct error *error)
{
	const struct noise *const noise = (const struct noise *)reader;
	if (address < 0x1000 || address - 0x1000 + size > sizeof(noise->bytes))
		return error_set(error, ERROR_ABSENT, "none");
	memcpy(buffer, noise->bytes + (address - 0x1000), size);
	return true;
}

/* Anywhere, with any number of arguments. */
static bool land_anywhere(void *context, uint64_t after, struct x86_landing *landing)
{
	const uint64_t mixed = after * UINT64_C(0x9e3779b97f4a7c15);
	(void)context;
	*landing = (struct x86_landing){0x1000 + (mixed >> 50), mixed >> (mixed & 63)};
	return mixed >> 20 & 1;
}

static void any_bytes_end_in_bounded_time(void **state)
{
	static struct noise noise = {.reader = {.read = read_noise}};
	const struct x86_code code = {.reader = &noise.reader,
				      .start = 0x1000,
				      .end = 0x1000 + sizeof(noise.bytes),
				      .lands = land_anywhere};
	uint32_t seed = 1;
	(void)state;
	for (int round = 0; round < 60; round++) {
		for (size_t i = 0; i < sizeof(noise.bytes); i++) {
			seed = seed * 1664525 + 1013904223;
			/* Jumps, pushes and branches more often than chance has them. */
			static const uint8_t often[] = {0x50, 0x75, 0xeb, 0x74, 0xe8, 0xc3, 0x48, 0x83};
			noise.bytes[i] = seed >> 31 ? often[seed >> 24 & 7] : (uint8_t)(seed >> 16);
		}
		struct x86_function *const function = x86_function_new(&code, 0x1000);
		struct x86_row row;
		for (uint64_t pc = 0x1000; pc < 0x1400; pc++)
			if (x86_function_row(function, &code, pc, pc & 1, 0xffff, &row))
				assert_true(row.cfa.base < X86_REGISTERS);
		x86_function_free(function);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_what_the_code_does),
		cmocka_unit_test(what_is_not_decided_is_said),
		cmocka_unit_test(what_a_function_leaves_as_it_is_is_told),
		cmocka_unit_test(a_register_is_found_by_others),
		cmocka_unit_test(epilogues_need_no_entry),
		cmocka_unit_test(any_bytes_end_in_bounded_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
