/* SPDX-License-Identifier: MIT */
/* Names as numba 0.56 to 0.68 makes them, and what only looks so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/intern.h"
#include "names/names.h"

#define TAGS "B2v1B38c8tJTIeFIjxB2IKSgI4CrvQClQZ6FczSBAA_3d"

static const struct {
	const char *linkage, *file, *name;
	bool wrapper;
} cases[] = {
	{"_ZN8__main__4work" TAGS "Ex", NULL, "work", false},
	{"_ZN8__main__4work" TAGS "Ex", "/home/a/job.py", "work", false},
	{"_ZN7cpython8__main__4work" TAGS "Ex", NULL, "work", true},
	{"cfunc._ZN8__main__4work" TAGS "Ex", NULL, "work", true},
	{"__gufunc__._ZN8__main__4work" TAGS "Ex", NULL, "work", true},
	{"_ZN3pkg3mod4work" TAGS "Ex", NULL, "pkg.mod.work", false},
	{"_ZN3pkg3mod4work" TAGS "Ex", "/lib/pkg/mod.py", "work", false},
	{"_ZN3pkg3mod6Solver4step" TAGS "Ex", "mod.py", "Solver.step", false},
	{"_ZN8__main__4make12_3clocals_3e8my_3func" TAGS "Ex", NULL, "make.<locals>.my_3func",
	 false},
	{"_Z4work" TAGS "x", NULL, "work", false},
	{"_ZN13_3cdynamic_3e36__numba_parfor_gufunc_0x7f52b64b5000" TAGS "Ex", NULL,
	 "__numba_parfor_gufunc", false},
	{"_ZN8__main__4workB5cxx11Ex", NULL, NULL, false},
	{"_ZN8__main__4workEx", NULL, NULL, false},
	{"_ZN8__main__9999999999999999999999work" TAGS "E", NULL, NULL, false},
	{"_ZN", NULL, NULL, false},
	{"work", NULL, NULL, false},
	{"", NULL, NULL, false},
};

static void names_are_those_of_the_python_functions(void **state)
{
	(void)state;
	struct interner *strings = interner_new();
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct names_numba numba = {NULL, NULL, false};
		const bool known =
			names_numba(strings, cases[i].linkage, cases[i].file, &numba);
		assert_int_equal(known, cases[i].name != NULL);
		if (!known)
			continue;
		assert_string_equal(numba.name, cases[i].name);
		assert_int_equal(numba.wrapper, cases[i].wrapper);
	}
	interner_free(strings);
}

static void wrapper_and_function_are_one(void **state)
{
	(void)state;
	struct interner *strings = interner_new();
	struct names_numba inner, outer, c, other;
	assert_true(names_numba(strings, "_ZN8__main__4work" TAGS "Ex", "a/b.py", &inner));
	assert_true(names_numba(strings, "_ZN7cpython8__main__4work" TAGS "Ex", NULL, &outer));
	assert_true(names_numba(strings, "cfunc._ZN8__main__4work" TAGS "Ex", NULL, &c));
	assert_true(names_numba(strings, "_ZN8__main__4workB2v2B3abcEx", NULL, &other));
	assert_ptr_equal(inner.function, outer.function);
	assert_ptr_equal(inner.function, c.function);
	assert_ptr_not_equal(inner.function, other.function);
	interner_free(strings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_those_of_the_python_functions),
		cmocka_unit_test(wrapper_and_function_are_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
