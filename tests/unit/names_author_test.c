/* SPDX-License-Identifier: MIT */
/* What PyO3, pybind11, nanobind and clang make around an author's functions, by their symbols in
 * wheels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "names/names.h"

#define RUST "_ZN1m17h0123456789abcdefE"
#define CALL "::{lambda(pybind11::detail::function_call&)#3}::_FUN"

static const struct {
	const char *linkage, *name;
	const char *author, *function; /* NULL: as it is */
	int layer;
	bool found;
} cases[] = {
	/* PyO3: wrapper and function are one call. */
	{RUST, "m::Point::__pymethod_go__", "m::Point::go", "m::Point::go", 0, true},
	{RUST, "m::Point::go", NULL, "m::Point::go", 1, true},
	{RUST ".llvm.123", "m::Point::go", NULL, "m::Point::go", 1, true},
	{RUST, "m::Point::__pymethod___repr____", "m::Point::__repr__", "m::Point::__repr__", 0,
	 true},
	{RUST, "m::_::<impl m::x::Point>::__pymethod_go__", "m::x::Point::go", "m::x::Point::go", 0,
	 true},
	{RUST, "<m::Point as n::Go>::__pymethod_go__", "<m::Point as n::Go>::go",
	 "<m::Point as n::Go>::go", 0, true},
	{"_RNvMs_C1mNtB4_5Point15___pymethod_go__", "<m::Point>::__pymethod_go__", "<m::Point>::go",
	 "<m::Point>::go", 0, true},
	{RUST, "m::__pyfunction_busy", "m::busy", "m::busy", 0, true},
	/* a getter of "x", or a method "get_x" */
	{RUST, "m::Point::__pymethod_get_x__", NULL, "m::Point::__pymethod_get_x__", 1, true},
	{RUST, "m::Point::__pymethod___default___len______", NULL,
	 "m::Point::__pymethod___default___len______", 1, true},
	{RUST, "m::Point::__pymethod___", NULL, "m::Point::__pymethod___", 1, true},
	/* pybind11 */
	{"_ZZN",
	 "pybind11::cpp_function::initialize<int (*&)(int, pybind11::object), int, int, "
	 "pybind11::object, "
	 "pybind11::name>(int (*&)(int, pybind11::object), pybind11::name const&)" CALL,
	 "int (*)(int, pybind11::object) [pybind11]", "int (*)(int, pybind11::object) [pybind11]",
	 0, true},
	{"_ZZN",
	 "pybind11::cpp_function::initialize<pybind11_init_m(pybind11::module_&)::{lambda(Point&, "
	 "pybind11::object)#2}, int, Point&>(int)" CALL,
	 "pybind11_init_m(pybind11::module_&)::{lambda(Point&, pybind11::object)#2} [pybind11]",
	 "pybind11_init_m(pybind11::module_&)::{lambda(Point&, pybind11::object)#2} [pybind11]", 0,
	 true},
	{"_ZZN",
	 "pybind11::cpp_function::initialize<pybind11::cpp_function::initialize<int, Point, "
	 "std::vector<int> >(int (Point::*)(std::vector<int>) const, pybind11::name "
	 "const&)::{lambda(Point*, std::vector<int>)#1}, int, Point*>(int)" CALL,
	 "int (Point::*)(std::vector<int>) const [pybind11]",
	 "int (Point::*)(std::vector<int>) const [pybind11]", 0, true},
	{"_ZZN", "pybind11::cpp_function::initialize<void (*&)()>()::{lambda(int)#1}::operator()",
	 NULL, NULL, 0, false},
	{"_ZZN", "pybind11::cpp_function::initialize<" CALL, NULL, NULL, 0, false},
	{"_ZZN", "pybind11::cpp_function::initialize<pybind11::cpp_function::initialize<a" CALL,
	 NULL, NULL, 0, false},
	{"_ZN8pybind1112cpp_function10dispatcherEP7_objectS2_S2_",
	 "pybind11::cpp_function::dispatcher", NULL, NULL, 0, false},
	/* nanobind */
	{"_ZZN",
	 "nanobind::detail::func_create<false, true, nanobind__m_impl(nanobind::module_)::"
	 "{lambda(nanobind::list)#7}, nanobind::list>(int)::{lambda(void*)#1}::_FUN",
	 "nanobind__m_impl(nanobind::module_)::{lambda(nanobind::list)#7} [nanobind]",
	 "nanobind__m_impl(nanobind::module_)::{lambda(nanobind::list)#7} [nanobind]", 0, true},
	{"_ZZN", "nanobind::detail::func_create<false, true>(int)::{lambda(void*)#1}::_FUN", NULL,
	 NULL, 0, false},
	/* clang */
	{".omp_outlined..3", "omp_outlined.3 [omp]", NULL, ".omp_outlined", 0, true},
	{".omp_outlined._debug__.2", "omp_outlined.2 [omp]", NULL, ".omp_outlined", 1, true},
	/* others */
	{"_ZN5Point2goEv", "Point::go", NULL, NULL, 0, false},
	{"main", NULL, NULL, NULL, 0, false},
	{"", "", NULL, NULL, 0, false},
};

static bool same(const char *one, const char *two)
{
	return one && two ? strcmp(one, two) == 0 : one == two;
}

static void what_tools_make_around_a_function_goes_by_its_name(void **state)
{
	struct interner *interner = interner_new();

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct names_author author;
		const char *name = cases[i].name ? intern_text(interner, cases[i].name) : NULL;
		const bool found = names_author(interner, cases[i].linkage, name, &author);
		if (found != cases[i].found || !same(author.name, cases[i].author) ||
		    !same(author.function, cases[i].function) || author.layer != cases[i].layer)
			fail_msg("case %zu, %s: %s, %s, %d", i, name ? name : "",
				 author.name ? author.name : "none",
				 author.function ? author.function : "none", author.layer);
	}
	interner_free(interner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_tools_make_around_a_function_goes_by_its_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
