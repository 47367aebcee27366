/* SPDX-License-Identifier: MIT */
/* Which of the interpreter's own functions are shown, and under which names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/strbuf.h"
#include "frames/internal.h"

struct function {
	const char *name, *module;
	enum name_evidence evidence;
	bool uncertain;
	const char *shown; /* NULL: hidden */
};

static const struct function functions[] = {
	{"sorted", "builtins", EVIDENCE_METHOD, false, "sorted"},
	{"sorted", "__builtin__", EVIDENCE_METHOD, false, "sorted"},
	{"sqrt", "math", EVIDENCE_METHOD, false, "math.sqrt"},
	{"list.sort", NULL, EVIDENCE_METHOD, false, "list.sort"},
	{"OSError.characters_written", NULL, EVIDENCE_PROPERTY, false,
	 "OSError.characters_written"},
	{"map.__next__", NULL, EVIDENCE_SLOT, false, "map.__next__"},
	{"Decimal.__add__", "decimal", EVIDENCE_SLOT, false, "decimal.Decimal.__add__"},
	/* a guess */
	{"sorted", "builtins", EVIDENCE_METHOD, true, NULL},
	{"map.__next__", NULL, EVIDENCE_SLOT, true, NULL},
	/* how calls are made, and what nobody calls by a name */
	{"type.__call__", NULL, EVIDENCE_SLOT, false, NULL},
	{"generator.__next__", NULL, EVIDENCE_SLOT, false, NULL},
	{"object.__getattribute__", NULL, EVIDENCE_SLOT, false, NULL},
	{"list.tp_dealloc", NULL, EVIDENCE_SLOT, false, NULL},
	{"exec", "math", EVIDENCE_MODULE_SLOT, false, NULL},
};

static void those_that_a_program_can_name_are_shown(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		const struct function *function = &functions[i];
		const struct recovered_name recovered = {.name = function->name,
							.module = function->module,
							.evidence = function->evidence,
							.uncertain = function->uncertain};
		_cleanup_strbuf_ struct strbuf name;
		strbuf_init(&name);
		c_function_name(&recovered, &name);
		if (c_function_is_shown(&recovered) != !!function->shown)
			fail_msg("%s, case %zu", function->name, i);
		if (function->shown)
			assert_string_equal(name.text, function->shown);
	}
}

/* What stands before a return address: "call *operand", or another call. */
static const struct {
	const char *bytes;
	bool by_pointer;
} calls[] = {
	{"\x90\x90\x90\x90\x90\xff\xd0", true},	 /* call *%rax */
	{"\x90\x90\x90\x90\x41\xff\xd3", true},	 /* call *%r11 */
	{"\x90\x90\x90\x90\x90\xff\x13", true},	 /* call *(%rbx) */
	{"\x90\x90\x90\x90\xff\x53\x18", true},	 /* call *0x18(%rbx) */
	{"\x90\x90\x90\xff\x54\xc8\x10", true},	 /* call *0x10(%rax,%rcx,8) */
	{"\x90\xff\x90\x80\x01\x00\x00", true},	 /* call *0x180(%rax) */
	{"\xff\x94\xc8\x80\x01\x00\x00", true},	 /* call *0x180(%rax,%rcx,8) */
	{"\x90\xff\x15\x10\x20\x00\x00", false}, /* call *0x2010(%rip): the GOT */
	{"\x90\x90\xe8\x10\x20\x00\x00", false}, /* call */
	{"\x90\x90\xe8\x10\x20\xff\xd0", false}, /* call, or call *%rax */
	{"\x90\x90\x90\x90\x90\xff\xe0", false}, /* jmp *%rax */
	{"\x90\x90\x90\x90\x90\x90\x90", false},
};

static void calls_through_pointers_are_told_from_others(void **state)
{
	struct c_functions *all = c_functions_new(NULL, NULL);
	(void)state;
	for (uint32_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		struct module_segment segment = {.vaddr = 4096, .file_size = 7, .memory_size = 7};
		const struct module module = {.id = i,
					      .fd = -1,
					      .bytes = (void *)calls[i].bytes,
					      .bytes_size = 7,
					      .segments = &segment,
					      .segment_count = 1};
		for (int again = 0; again < 2; again++)
			if (c_functions_by_pointer(all, &module, 4096 + 7) != calls[i].by_pointer)
				fail_msg("case %u", i);
		assert_false(c_functions_by_pointer(all, &module, 4096 + 6));
		assert_false(c_functions_by_pointer(all, &module, 0));
	}
	c_functions_free(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_through_pointers_are_told_from_others),
		cmocka_unit_test(those_that_a_program_can_name_are_shown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
