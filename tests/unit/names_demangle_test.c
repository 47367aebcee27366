/* SPDX-License-Identifier: MIT */
/* Names as the linker sees them against names as people wrote them; hostile names end quickly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "names/names.h"

static const char *const cases[][2] = {
	{"main", "main"},
	{"_PyEval_EvalFrameDefault", "_PyEval_EvalFrameDefault"},
	{"_PyEval_EvalFrameDefault.cold", "_PyEval_EvalFrameDefault"},
	{"f.isra.0.part.1", "f"},
	{"f.constprop.0.cold", "f"},
	{"run._omp_fn.0", "run [omp]"},
	{"run._omp_fn.1.cold", "run [omp]"},
	{"run._omp_cpyfn.2", "run [omp]"},
	{"_ZL12parallel_forlPd._omp_fn.0", "parallel_for [omp]"},
	{"_Z12parallel_forIZ4mainEUllE_EvlRKT_._omp_fn.0",
	 "parallel_for<main::{lambda(long)#1}> [omp]"},
	{"_ZN4shop3Box3runEv._omp_fn.12", "shop::Box::run [omp]"},
	{"run.omp_outlined", "run [omp]"},
	{"run.omp_outlined.3", "run [omp]"},
	{"run.omp_outlined_debug__", "run [omp]"},
	{"_Z3runPdl.omp_outlined_debug__.1", "run [omp]"},
	{".omp_outlined.", "omp_outlined [omp]"},
	{".omp_outlined..3", "omp_outlined.3 [omp]"},
	{".omp_outlined._debug__", "omp_outlined [omp]"},
	{".omp_outlined._debug__.2", "omp_outlined.2 [omp]"},
	{".omp_task_entry.", "omp_task_entry [omp]"},
	{".omp_task_entry..7", "omp_task_entry.7 [omp]"},
	{"my_omp_fn", "my_omp_fn"},
	{"f.llvm.123456", "f"},
	{"main.main", "main.main"},
	{"main.(*T).Run", "main.(*T).Run"},
	{"main.main.func1", "main.main.func1"},
	{"main.apply[go.shape.int]", "main.apply[go.shape.int]"},
	{"_ZN3foo3barEv", "foo::bar"},
	{"_ZN3foo3barEv.cold", "foo::bar"},
	{"_ZN3foo3barEv.part.0.cold", "foo::bar"},
	{"_Z3fooIiEvT_", "foo<int>"},
	{"_Z4axpyIfET_S0_S0_", "axpy<float>"},
	{"_ZNK3foo3Bar3bazEv", "foo::Bar::baz"},
	{"_ZN3FooC4Ev", "Foo::Foo"},
	{"_ZN3FooD2Ev", "Foo::~Foo"},
	{"_ZN3FooplERKS_", "Foo::operator+"},
	{"_ZN12_GLOBAL__N_13barEi", "(anonymous namespace)::bar"},
	{"_ZN3foo3barB5cxx11Ev", "foo::bar"},
	{"_ZSt4sortIPiEvT_S1_", "std::sort<int*>"},
	{"_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int, std::allocator<int> >::push_back"},
	{"_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"},
	{"_ZN58_$LT$alloc..string..String$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE",
	 "<alloc::string::String as core::fmt::Debug>::fmt"},
	{"_RNvCskwGfYPst2Cb_3foo16example_function", "foo::example_function"},
	{"_RNvMs_CskwGfYPst2Cb_3fooNtB4_3Bar3new", "<foo::Bar>::new"},
	{"_D4demo3fooFiZv", "demo.foo"},
	{"_Zgarbage", "_Zgarbage"},
	/* What libiberty cannot read. */
	{"_ZL12parallel_forIZN3fooQ.._omp_fn.0", "parallel_for<...> [omp]"},
	{"_Z4stepQ", "step"},
	{"_Z6stepQ", "_Z6stepQ"}, /* cut off */
	{"_Z9999999999999999999999stepQ", "_Z9999999999999999999999stepQ"},
	{"_Z0Q", "_Z0Q"},
	{"_ZN12_GLOBAL__N_110._anon_183D1Ev.cold",
	 "(anonymous namespace)::._anon_183::~._anon_183"},
	{"_Z", "_Z"},
	{"_R", "_R"},
	{"_RNvMC0FG_RL0_hEu3bar", "<for<'a> fn(&'a u8)>::bar"},
	{"_RNvMC0FGzzzzzzz_RL0_hEu3bar", "_RNvMC0FGzzzzzzz_RL0_hEu3bar"},
	{"_", "_"},
	{"", ""},
	{".text", ".text"},
	{"bad\xff"
	 "byte",
	 "bad\xef\xbf\xbd"
	 "byte"},
	{"two\nlines", "two lines"},
};

static void linkage_names_become_names_without_parameters(void **state)
{
	struct interner *interner = interner_new();

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *name = names_demangle(interner, cases[i][0]);
		assert_string_equal(name, cases[i][1]);
		assert_ptr_equal(name, intern_text(interner, cases[i][1]));
	}
	interner_free(interner);
}

/* f<pair<int,int>, pair<S1,S1>, pair<S2,S2>, ...>: every argument is twice as long as the last. */
static void a_name_that_stands_for_gigabytes_is_shown_without_arguments(void **state)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	struct interner *interner = interner_new();
	char name[1024] = "_Z1fISt4pairIiiE";
	const clock_t before = clock();

	(void)state;
	for (int i = 1; i < 30; i++) {
		char part[32];
		snprintf(part, sizeof(part), "S0_IS%c_S%c_E", digits[i], digits[i]);
		strcat(name, part);
		if (i == 2) {
			char whole[1024];
			snprintf(whole, sizeof(whole), "%sEvv", name);
			assert_memory_equal(names_demangle(interner, whole), "f<std::pair<",
					    12);
		}
	}
	strcat(name, "Evv");
	assert_string_equal(names_demangle(interner, name), "f<...>");
	assert_true(clock() - before < 2 * CLOCKS_PER_SEC);
	interner_free(interner);
}

static void names_of_any_length_and_depth_are_survived(void **state)
{
	static const char *const units[] = {"P",  "N3foo", "I",	 "F", "1a",	  "X", "S_",
					    "T_", "L",	   "_R", "C", "INvC1a1b", "(", "."};
	struct interner *interner = interner_new();
	const size_t size = 1 << 20;
	char *name = malloc(size + 16);

	(void)state;
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		for (size_t length = 15; length < size; length *= 8) {
			static const char *const starts[] = {"_Z1f", "_ZN", "_R", "_D4"};
			for (int start = 0; start < 4; start++) {
				size_t at = strlen(strcpy(name, starts[start]));
				while (at + strlen(units[i]) < length)
					at += strlen(strcpy(name + at, units[i]));
				assert_non_null(names_demangle(interner, name));
			}
		}
	}
	free(name);
	interner_free(interner);
}

static void random_changes_to_mangled_names_are_survived(void **state)
{
	struct interner *interner = interner_new();
	unsigned seed = 1;
	size_t first = 0;

	(void)state;
	while (strcmp(cases[first][0], "_ZN3foo3barEv"))
		first++;
	for (int round = 0; round < 20000; round++) {
		const char *from = cases[first + round % 18][0];
		char name[256];
		strncpy(name, from, sizeof(name) - 1);
		name[sizeof(name) - 1] = '\0';
		const size_t size = strlen(name);
		for (int i = 0; i < 1 + round % 3; i++) {
			seed = seed * 1103515245 + 12345;
			const size_t at = 2 + (seed >> 8) % (size - 2);
			seed = seed * 1103515245 + 12345;
			name[at] = "SITENKRZPLX0123456789_$.abv"[(seed >> 16) % 27];
		}
		assert_non_null(names_demangle(interner, name));
	}
	interner_free(interner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(linkage_names_become_names_without_parameters),
		cmocka_unit_test(a_name_that_stands_for_gigabytes_is_shown_without_arguments),
		cmocka_unit_test(names_of_any_length_and_depth_are_survived),
		cmocka_unit_test(random_changes_to_mangled_names_are_survived),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
