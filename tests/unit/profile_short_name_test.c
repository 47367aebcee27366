/* SPDX-License-Identifier: MIT */
/* Names with long template arguments left out, and all the brackets that are none of arguments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/strbuf.h"
#include "profile/profile.h"

#define LONG "std::pair<int const, std::string>"

static const char *const cases[][2] = {
	{"shop::Box<int>::get", "shop::Box<int>::get"},
	{"std::vector<int, std::allocator<int> >::push_back", "std::vector<...>::push_back"},
	{"f<" LONG ">", "f<...>"},
	{"f<" LONG ">::g<" LONG ">", "f<...>::g<...>"},
	{"f<int>::g<" LONG ">::h", "f<int>::g<...>::h"},
	{"local(std::vector<" LONG ">)::L::go", "local(std::vector<...>)::L::go"},
	{"f<decltype (((int*)0)->x), " LONG ">::g", "f<...>::g"},
	/* operators */
	{"shop::operator<<", "shop::operator<<"},
	{"shop::operator<=>", "shop::operator<=>"},
	{"shop::Box::operator->", "shop::Box::operator->"},
	{"std::operator<< <std::char_traits<char>, std::allocator<char> >",
	 "std::operator<< <std::char_traits<char>, std::allocator<char> >"},
	{"std::map<" LONG ">::operator<", "std::map<...>::operator<"},
	{"f<&shop::operator<, " LONG ">", "f<...>"},
	{"myoperator<" LONG ">", "myoperator<...>"},
	/* Rust: a type in front is the name itself */
	{"<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop",
	 "<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop"},
	{"<hashbrown::raw::RawTable<(alloc::string::String, usize)> as core::ops::Drop>::drop",
	 "<hashbrown::raw::RawTable<...> as core::ops::Drop>::drop"},
	{"core::slice::<impl [alloc::string::String]>::iter",
	 "core::slice::<impl [alloc::string::String]>::iter"},
	{"core::mem::align_of::<alloc::string::String, f64>", "core::mem::align_of::<...>"},
	/* Python, Cython, the interpreter's */
	{"<module>", "<module>"},
	{"f.<locals>.<lambda>", "f.<locals>.<lambda>"},
	{"<import lock wait for somebody else>", "<import lock wait for somebody else>"},
	{"axpy[float]", "axpy[float]"},
	/* Go */
	{"main.(*T).Run", "main.(*T).Run"},
	/* brackets that do not match */
	{"f<" LONG, "f<" LONG},
	{"g<" LONG ">::f<" LONG, "g<...>::f<" LONG},
	{"f<", "f<"},
	{"<", "<"},
	{"", ""},
};

static void long_arguments_are_left_out(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct strbuf _cleanup_strbuf_ text;
		strbuf_init(&text);
		short_name_add(&text, cases[i][0]);
		assert_string_equal(text.text, cases[i][1]);
	}
}

/* Names are a megabyte at most, so that even a square of that would take hours. */
static void names_of_brackets_alone_end(void **state)
{
	static const char *const units[] = {"a<", "<", ">", "operator<", "a<b>", "::<", "->"};
	const size_t size = 16 << 10;
	const clock_t before = clock();
	(void)state;
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		struct strbuf _cleanup_strbuf_ name, _cleanup_strbuf_ text;
		strbuf_init(&name);
		strbuf_init(&text);
		while (name.size < size)
			strbuf_add_text(&name, units[i]);
		short_name_add(&text, name.text);
		assert_true(text.size <= name.size);
	}
	assert_true(clock() - before < 20 * CLOCKS_PER_SEC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(long_arguments_are_left_out),
		cmocka_unit_test(names_of_brackets_alone_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
