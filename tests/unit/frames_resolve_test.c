/* SPDX-License-Identifier: MIT */
/*
 * Addresses of a module, compiled here as if Cython had written it, become the frames of a stack:
 * helpers and the code of Python's headers are left out, what is one call is one frame.
 */
#include "tests/unit/symbolize_fixture.h"

#include "frames/internal.h"

static const char source[] =
	"#define MARK(name) asm volatile(\"mark_\" #name \": nop\")\n"
	"#define NOIPA __attribute__((noipa))\n"
	"#define INLINED static inline __attribute__((always_inline)) void\n"
	"INLINED Py_DECREF(void) { MARK(decref); }\n"
	"INLINED _PyObject_Free(void) { MARK(object_free); }\n"
	"INLINED own_inline(void) { MARK(own); }\n"
	"NOIPA void __Pyx_Call(void) { MARK(helper); }\n"
	"NOIPA void __pyx_pf_3mod_3Ext___cinit__(void) { MARK(body); Py_DECREF(); _PyObject_Free();\n"
	"	own_inline(); }\n"
	"NOIPA void __pyx_pw_3mod_3Ext_1__cinit__(void) { MARK(wrapper); }\n"
	"NOIPA void __pyx_tp_new__initialisation_3mod_Ext(void) { MARK(second_slot); }\n"
	"NOIPA void __pyx_tp_new_3mod_Ext(void) { MARK(slot); }\n"
	"NOIPA void __pyx_f_3mod_other(void) { MARK(other); }\n"
	"typedef float __pyx_t_3mod_real;\n"
	"NOIPA void __pyx_fuse_0__pyx_pw_3mod_3axpy(void) { int __pyx_v_x; (void)__pyx_v_x; MARK(fused_wrapper); }\n"
	"NOIPA void __pyx_fuse_1__pyx_pw_3mod_5axpy(void) { }\n"
	"NOIPA void __pyx_pf_3mod_2axpy(int *__pyx_v_x) { (void)__pyx_v_x; MARK(fused); }\n"
	"NOIPA void __pyx_pf_3mod_4axpy(const __pyx_t_3mod_real *__pyx_v_x) { (void)__pyx_v_x; MARK(fused_too); }\n"
	"void region(void) asm(\".omp_outlined..3\"); NOIPA void region(void) { MARK(region); }\n"
	"void region_body(void) asm(\".omp_outlined._debug__.2\");\n"
	"NOIPA void region_body(void) { MARK(region_body); }\n"
	"void CPyDef_mod_____top_level__(void) { }\n"
	"void CPyDef_mod_____mypyc__Ext_setup(void) { }\n"
	"NOIPA void CPyPy_mod___Ext___go(void) { MARK(my_wrapper); }\n"
	"NOIPA void CPyDef_mod___Ext___go(void) { MARK(my_body); }\n"
	"NOIPA void CPyDunder___len__mod___Ext(void) { MARK(my_slot); }\n"
	"NOIPA void CPyDef_mod___Ext_____len__(void) { MARK(my_len); }\n"
	"NOIPA void spam(void) { MARK(spam); }\n"
	"NOIPA void eval(void) { MARK(eval); }\n"
	"struct { const char *name; void *function; int flags; const char *doc; } methods[] =\n"
	"	{{\"spam\", spam, 4, 0}, {0}};\n"
	"asm(\".text\\n nop\\nmark_bare: nop\\n nop\\nmark_bare_call: nop\\n ret\\n nop\");\n"
	"asm(\".cfi_startproc\\n nop\\nmark_fde: nop\\n ret\\n.cfi_endproc\");\n"
	"void PyInit_mod(void) { }\n";

static struct world {
	char folder[64], path[100];
	struct interner *strings;
	struct module module;
	struct frame_table table;
	struct resolver *resolver[2]; /* [1]: with internals */
} world;

static int set_up(void **state)
{
	(void)state;
	make_folder(world.folder);
	write_file(world.folder, "mod.c", source);
	snprintf(world.path, sizeof(world.path), "%s/mod.so", world.folder);
	if (shell("cd %s && gcc -g -O1 -w -shared -fPIC mod.c -o mod.so", world.folder) != 0)
		return -1;
	world.strings = interner_new();
	world.module = (struct module){.path = world.path, .name = "mod.so",
				       .fd = open(world.path, O_RDONLY | O_CLOEXEC)};
	for (int i = 0; i < 2; i++)
		world.resolver[i] = resolver_new(NULL, world.strings, i);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		resolver_free(world.resolver[i]);
	frame_table_release(&world.table);
	close(world.module.fd);
	interner_free(world.strings);
	return shell("rm -r %s", world.folder);
}

/* "?eval": in an interpreter, hidden if no program can name it. */
static uint32_t frame_at(const char *mark)
{
	char label[64];
	const bool undecided = *mark == '?';
	snprintf(label, sizeof(label), "mark_%s", mark + undecided);
	const struct raw_frame frame = {.kind = RAW_NATIVE, .module = &world.module, .exact = true,
					.undecided = undecided, .interpreter = undecided,
					.offset = mark_address(world.path, label)};
	return frame_table_native(&world.table, &frame);
}

/* The names of a stack of marks, both outermost first. */
static void check(bool internals, const char *const *marks, const char *wanted)
{
	uint32_t ids[8];
	size_t depth = 0, count = 0, capacity = 0;
	for (; depth < 8 && marks[depth]; depth++)
		ids[depth] = frame_at(marks[depth]);
	struct frame *frames = NULL;
	struct resolver *resolver = world.resolver[internals];
	resolver_run(resolver, &world.table);
	resolver_stack(resolver, &world.table, ids, depth, &frames, &count, &capacity);
	char text[1000] = "";
	for (size_t i = 0; i < count; i++) {
		strcat(text, i ? ";" : "");
		strcat(text, frames[i].name);
	}
	free(frames);
	assert_string_equal(text, wanted);
}

static void one_call_is_one_frame(void **state)
{
	(void)state;
	static const struct { const char *marks[8], *wanted; } cases[] = {
		{{"wrapper", "body"}, "Ext.__cinit__"},
		{{"slot", "second_slot", "wrapper", "body"}, "Ext.__cinit__"},
		{{"slot", "second_slot"}, "Ext.__new__"},
		{{"other", "slot", "wrapper", "body", "other"}, "other;Ext.__cinit__;other"},
		{{"body", "wrapper", "body"}, "Ext.__cinit__;Ext.__cinit__"},
		{{"other", "other"}, "other;other"},
		{{"my_wrapper", "my_body"}, "Ext.go"},
		{{"my_body", "my_body"}, "Ext.go;Ext.go"},
		{{"other", "my_slot", "my_len", "my_wrapper", "my_body"},
		 "other;Ext.__len__;Ext.go"},
		{{"my_slot", "my_wrapper"}, "Ext.__len__;Ext.go"},
		{{"region", "region_body"}, "omp_outlined.2 [omp]"},
		{{"region", "other", "region", "region_body", "region"},
		 "omp_outlined.3 [omp];other;omp_outlined.2 [omp];omp_outlined.3 [omp]"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		check(false, cases[i].marks, cases[i].wanted);
}

static void helpers_are_left_out(void **state)
{
	(void)state;
	check(false, (const char *[]){"other", "helper", NULL}, "other");
	check(false, (const char *[]){"slot", "helper", "wrapper", "helper", "body", NULL},
	      "Ext.__cinit__");
	check(true, (const char *[]){"other", "helper", "wrapper", NULL},
	      "other;__Pyx_Call;Ext.__cinit__");
}

static void code_of_pythons_headers_is_left_out(void **state)
{
	(void)state;
	check(false, (const char *[]){"decref", NULL}, "Ext.__cinit__");
	check(false, (const char *[]){"object_free", NULL}, "Ext.__cinit__");
	check(false, (const char *[]){"own", NULL}, "Ext.__cinit__;own_inline");
	check(true, (const char *[]){"decref", NULL}, "Ext.__cinit__;Py_DECREF");
}

static void specialisations_have_their_types(void **state)
{
	(void)state;
	check(false, (const char *[]){"fused_wrapper", "fused", NULL}, "axpy[int]");
	check(false, (const char *[]){"fused_too", NULL}, "axpy[real]");
}

static void what_a_program_can_name_is_found_out_last(void **state)
{
	(void)state;
	const char *const marks[] = {"?eval", "?spam", "other", "?eval", NULL};
	for (int ahead = 0; ahead < 2; ahead++) {
		check(false, marks, "spam;other");
		check(true, marks, "eval;spam;other;eval");
		world.module.build_id = (struct build_id){.bytes = {1}, .size = 1};
		for (int i = 0; i < 2; i++) {
			resolver_free(world.resolver[i]);
			world.resolver[i] = resolver_new(NULL, world.strings, i);
			resolver_read_ahead(world.resolver[i], &world.module);
		}
	}
}

static uint64_t address_of(const char *mark)
{
	return mark_address(world.path, mark);
}

/* The text of one frame, of which the unwinder says that its function begins at this address. */
static void check_start(const char *mark, uint64_t function, bool guessed, const char *wanted)
{
	const struct raw_frame raw = {.kind = RAW_NATIVE, .module = &world.module, .exact = true,
				      .guessed = guessed, .offset = address_of(mark),
				      .function = function};
	struct frame_table table = {0};
	struct resolver *resolver = resolver_new(NULL, world.strings, false);
	struct frame *frames = NULL;
	size_t count = 0, capacity = 0;
	const uint32_t id = frame_table_native(&table, &raw);
	resolver_run(resolver, &table);
	resolver_stack(resolver, &table, &id, 1, &frames, &count, &capacity);
	assert_int_equal(count, 1);
	_cleanup_strbuf_ struct strbuf text;
	strbuf_init(&text);
	frame_text(&text, &frames[0], false, false);
	assert_string_equal(text.text, wanted);
	free(frames);
	resolver_free(resolver);
	frame_table_release(&table);
}

/* Neither symbol nor FDE: by where analysis says that it begins, never by the PC; by the name of
 * that place, if it has one. */
static void code_without_a_symbol_is_its_library_and_start(void **state)
{
	(void)state;
	const uint64_t named = address_of("mark_bare"), other = address_of("mark_spam");
	const uint64_t start = named - 1; /* the nop before */
	char plain[64], guessed[64], fde[64];
	snprintf(plain, sizeof(plain), "mod.so+0x%lx", start);
	snprintf(guessed, sizeof(guessed), "mod.so+0x%lx [guessed]", start);
	snprintf(fde, sizeof(fde), "mod.so+0x%lx [guessed]", address_of("mark_fde") - 1);
	check_start("mark_bare_call", 0, false, "mod.so [guessed]");
	check_start("mark_bare_call", 0, true, "mod.so [guessed]");
	check_start("mark_bare_call", start, false, plain);
	check_start("mark_bare_call", start, true, guessed);
	check_start("mark_bare", start, true, guessed);
	check_start("mark_bare_call", named, false, "mark_bare (mod.so)");
	check_start("mark_bare", named, true, "mark_bare (mod.so) [guessed]");
	check_start("mark_fde", other, true, fde);
	check_start("mark_eval", other, true, "eval (mod.c) [guessed]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(specialisations_have_their_types),
		cmocka_unit_test(one_call_is_one_frame),
		cmocka_unit_test(helpers_are_left_out),
		cmocka_unit_test(code_of_pythons_headers_is_left_out),
		cmocka_unit_test(what_a_program_can_name_is_found_out_last),
		cmocka_unit_test(code_without_a_symbol_is_its_library_and_start),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
