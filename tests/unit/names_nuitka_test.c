/* SPDX-License-Identifier: MIT */
/* Names as Nuitka 4.3 makes them, and what only looks so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/intern.h"
#include "names/names.h"

static const struct {
	const char *linkage, *file, *name;
} cases[] = {
	{"impl___main__$$$function__1_crunch", NULL, "crunch"},
	{"impl___main__$$$function__1_crunch.part.0", NULL, "crunch"},
	{"impl_a$b$$$function__12_crunch_2", NULL, "crunch_2"},
	{"impl___main__$$$function__9___dunder__", NULL, "__dunder__"},
	{"impl___main__$$$function__3_deep__er$$$function__1_local_fn", NULL, "local_fn"},
	{"impl___main__$$$function__11_main$$$function__1_lambda", NULL, "<lambda>"},
	{"impl___main__$$$function__8_unicod$$233$", NULL, "unicod\xc3\xa9"},
	{"impl_multiprocessing$$45$postLoad$$$function__3__fix", NULL, "_fix"},
	{"__main__$$$function__4_gen$$$genobj__1_gen_context", NULL, "gen"},
	{"__main__$$$function__5_co$$$coroutine__1_co_context", NULL, "co"},
	{"__main__$$$function__6_agen$$$asyncgen__1_agen_context.cold", NULL, "agen"},
	{"__main__$$$function__11_main$$$genexpr__1_genexpr_context", NULL, "<genexpr>"},
	{"module_code___main__", "/tmp/prog.build/module.__main__.c", "<module>"},
	{"modulecode_json$decoder", "module.json.decoder.c", "<module>"},
	/* not what the author wrote, or not certain */
	{"module_code___main__", NULL, NULL},
	{"module_code_of_mine", "main.c", NULL},
	{"MAKE_FUNCTION___main__$$$function__1_crunch", NULL, NULL},
	{"MAKE_GENERATOR___main__$$$function__4_gen$$$genobj__1_gen", NULL, NULL},
	{"impl___main__$$$helper_function_complex_call_helper_star_dict", NULL, NULL},
	{"impl___main__$$$function__crunch", NULL, NULL},
	{"impl___main__$$$function__1_", NULL, NULL},
	{"impl___main__$$$function__1", NULL, NULL},
	{"impl___main__$$$function__1_a$b", NULL, NULL},
	{"impl___main__$$$function__1_a$$233", NULL, NULL},
	{"impl___main__$$$function__1_a$$99999999999999999999$", NULL, NULL},
	{"impl___main__$$$function__1_a$$10$", NULL, "a "},
	{"__main__$$$function__4_gen$$$genobj__1_context", NULL, NULL},
	{"$$$", NULL, NULL},
	{"crunch", NULL, NULL},
	{"", NULL, NULL},
};

static void names_are_the_authors(void **state)
{
	(void)state;
	struct interner *strings = interner_new();
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *name = names_nuitka(strings, cases[i].linkage, cases[i].file);
		if (!cases[i].name && name)
			fail_msg("%s: %s", cases[i].linkage, name);
		if (cases[i].name)
			assert_string_equal(name ? name : "(none)", cases[i].name);
	}
	interner_free(strings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(names_are_the_authors)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
