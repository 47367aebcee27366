/* SPDX-License-Identifier: MIT */
/* Which of the interpreter's own functions are shown, and under which names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/strbuf.h"
#include "sample/internal.h"

struct function {
	const char *name, *module;
	enum symbolize_evidence evidence;
	bool uncertain;
	const char *shown; /* NULL: hidden */
};

static const struct function functions[] = {
	{"sorted", "builtins", SYMBOLIZE_METHOD, false, "sorted"},
	{"sorted", "__builtin__", SYMBOLIZE_METHOD, false, "sorted"},
	{"sqrt", "math", SYMBOLIZE_METHOD, false, "math.sqrt"},
	{"list.sort", NULL, SYMBOLIZE_METHOD, false, "list.sort"},
	{"OSError.characters_written", NULL, SYMBOLIZE_PROPERTY, false,
	 "OSError.characters_written"},
	{"map.__next__", NULL, SYMBOLIZE_SLOT, false, "map.__next__"},
	{"Decimal.__add__", "decimal", SYMBOLIZE_SLOT, false, "decimal.Decimal.__add__"},
	/* a guess */
	{"sorted", "builtins", SYMBOLIZE_METHOD, true, NULL},
	{"map.__next__", NULL, SYMBOLIZE_SLOT, true, NULL},
	/* how calls are made, and what nobody calls by a name */
	{"type.__call__", NULL, SYMBOLIZE_SLOT, false, NULL},
	{"generator.__next__", NULL, SYMBOLIZE_SLOT, false, NULL},
	{"object.__getattribute__", NULL, SYMBOLIZE_SLOT, false, NULL},
	{"list.tp_dealloc", NULL, SYMBOLIZE_SLOT, false, NULL},
	{"exec", "math", SYMBOLIZE_MODULE_SLOT, false, NULL},
};

static void those_that_a_program_can_name_are_shown(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		const struct function *function = &functions[i];
		const struct symbolize_stated stated = {.name = function->name,
							.module = function->module,
							.evidence = function->evidence,
							.uncertain = function->uncertain};
		_cleanup_strbuf_ struct strbuf name;
		strbuf_init(&name);
		c_function_name(&stated, &name);
		if (c_function_is_shown(&stated) != !!function->shown)
			fail_msg("%s, case %zu", function->name, i);
		if (function->shown)
			assert_string_equal(name.text, function->shown);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(those_that_a_program_can_name_are_shown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
