/* SPDX-License-Identifier: MIT */
/* Names that Cython 0.29 to 3.3 generate, from wheels and own builds, and what they stand for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "cython/cython.h"
#include "cython/internal.h"

static const char names_file[] = "tests/data/cython_names.tsv";
static const char context_file[] = "tests/data/cython_names_in_context.tsv";
static const char symbols_file[] = "tests/data/cython_symbols.tsv";
static struct interner *interner;

static int set_up(void **state)
{
	(void)state;
	interner = interner_new();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	interner_free(interner);
	return 0;
}

static const char *const kind_names[] = {"not", "function", "wrapper", "module", "helper"};

struct row {
	char *symbol, *expected, *kind, *module;
};

static bool split(char *line, struct row *row)
{
	char *rest = line;
	line[strcspn(line, "\n")] = '\0';
	row->symbol = strsep(&rest, "\t");
	row->expected = strsep(&rest, "\t");
	row->kind = strsep(&rest, "\t");
	row->module = strsep(&rest, "\t");
	return row->module && *row->symbol != '#' && strcmp(row->symbol, "symbol") != 0;
}

/* Calls check for each row; returns how many there were. */
static size_t each_row_of(const char *path, size_t (*check)(const struct row *row), size_t *bad)
{
	_cleanup_fclose_ FILE *file = fopen(path, "r");
	assert_non_null(file);
	_cleanup_free_ char *line = NULL;
	size_t room = 0, rows = 0;
	while (getline(&line, &room, file) > 0) {
		struct row row;
		if (!split(line, &row))
			continue;
		rows++;
		*bad += check(&row);
	}
	return rows;
}

static size_t each_row(size_t (*check)(const struct row *row), size_t *bad)
{
	return each_row_of(names_file, check, bad);
}

static size_t check_row_among(const struct cython_symbols *symbols, const struct row *row)
{
	struct cython_name got =
		cython_demangle_in(interner, symbols, row->symbol, row->module);
	if (got.name && strcmp(got.name, row->expected) == 0 &&
	    strcmp(kind_names[got.kind], row->kind) == 0)
		return 0;
	print_error("%s: expected %s (%s), got %s (%s)\n", row->symbol, row->expected, row->kind,
		    got.name ? got.name : "nothing", kind_names[got.kind]);
	return 1;
}

static size_t check_row(const struct row *row)
{
	return check_row_among(NULL, row);
}

static void every_name_of_the_table_is_demangled(void **state)
{
	(void)state;
	size_t bad = 0, rows = each_row(check_row, &bad);
	assert_true(rows >= 490);
	assert_int_equal(bad, 0);
}

/* The symbols of one module: lines "module symbol". */
static struct cython_symbols *symbols_of(const char *module)
{
	_cleanup_fclose_ FILE *file = fopen(symbols_file, "r");
	assert_non_null(file);
	_cleanup_free_ char *line = NULL;
	size_t room = 0, size = strlen(module);
	struct cython_symbols *symbols = cython_symbols_new();
	while (getline(&line, &room, file) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, module, size) == 0 && line[size] == '\t')
			cython_symbols_add(symbols, line + size + 1);
	}
	return symbols;
}

static size_t check_row_in_its_module(const struct row *row)
{
	struct cython_symbols *symbols = symbols_of(row->module);
	size_t bad = check_row_among(symbols, row);
	cython_symbols_free(symbols);
	return bad;
}

static void names_are_demangled_in_their_context(void **state)
{
	(void)state;
	size_t bad = 0, rows = each_row_of(context_file, check_row_in_its_module, &bad);
	assert_true(rows >= 56);
	assert_int_equal(bad, 0);
}

/* An extension's path says more than its dotted name. */
static size_t check_row_below_directories(const struct row *row)
{
	char module[512];
	snprintf(module, sizeof(module), "usr.lib.python3.11.site-packages.%s", row->module);
	struct row deep = *row;
	deep.module = module;
	return check_row(&deep);
}

static void directories_before_the_package_change_nothing(void **state)
{
	(void)state;
	size_t bad = 0;
	each_row(check_row_below_directories, &bad);
	assert_int_equal(bad, 0);
}

static void the_module_is_matched_by_any_suffix(void **state)
{
	(void)state;
	static const struct { const char *module, *symbol, *name; } cases[] = {
		{"a.b.pkg.mod", "__pyx_f_3pkg_3mod_3Ext_go", "Ext.go"},
		{"mod", "__pyx_f_3pkg_3mod_3Ext_go", "Ext.go"},
		{"moved.mod", "__pyx_f_3pkg_3mod_3Ext_go", "Ext.go"},
		{"mod", "__pyx_f_3mod_3Ext_go", "Ext.go"},
		{"site.cymem.cymem", "__pyx_f_5cymem_5cymem_4Pool_alloc", "Pool.alloc"},
		{"cymem.cymem", "__pyx_f_5cymem_5cymem_4Pool_alloc", "Pool.alloc"},
		{"cymem", "__pyx_f_5cymem_5cymem_4Pool_alloc", "cymem.Pool.alloc"},
		{"x.pkg.other", "__pyx_f_3pkg_3mod_inl", "inl"},
		{"x.alien", "__pyx_f_3pkg_3mod_inl", "pkg.mod.inl"},
		{NULL, "__pyx_f_3pkg_3mod_inl", "pkg.mod.inl"},
		{"", "__pyx_f_3pkg_3mod_inl", "pkg.mod.inl"},
		{"...", "__pyx_f_3pkg_3mod_inl", "pkg.mod.inl"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_string_equal(
			cython_demangle(interner, cases[i].symbol, cases[i].module).name,
			cases[i].name);
}

static void what_is_not_cython_is_not_claimed(void **state)
{
	(void)state;
	static const char *const symbols[] = {
		"", "_", "main", "PyInit_mod", "_ZN4core3fmt5WriteE", "_ZL3foov", "_Z3fooi",
		"_ZL99__pyx_pw_3mod_1x", "pyx_pw_3mod_1x", "_PyEval_EvalFrameDefault", "_ZN", "_ZL",
		"_ZN9999999999x", "_ZN19__pyx_t_4cppk_MyCpp",
	};
	for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
		struct cython_name name = cython_demangle(interner, symbols[i], "mod");
		assert_int_equal(name.kind, CYTHON_NOT);
		assert_null(name.name);
	}
}

static void what_supports_the_code_is_a_helper(void **state)
{
	(void)state;
	static const char *const symbols[] = {
		"__Pyx_PyObject_Call", "__Pyx_CyFunction_Vectorcall_FASTCALL_KEYWORDS",
		"_ZL19__Pyx_PyObject_CallP7_objectS0_S0_", "__pyx_memoryview___getitem__",
		"__pyx_array_new", "__pyx_FusedFunction_call", "__pyx_pymod_create",
		"__pyx_tp_dealloc_3mod___pyx_scope_struct_1_gen", "__pyx_memoryview_slice_copy",
		"__pyx_pw_15View_dot_MemoryView_10memoryview_4base_1__get__", "__pyx_",
		"__pyx_pw_99999999999_x", "__pyx_pw_", "__pyx_gb_3mod_", "__pyx_fuse_",
		"__pyx_U", "__pyx_fuse_1__pyx_", "__pyx_Upw_zzzzzzzzzzzzz", "__pyx_tp_new_",
		"__Pyx_Generator_Next.part.0", "__pyx_getprop___pyx_memoryview_size",
		"__pyx_specialmethod___pyx_MemviewEnum___repr__",
	};
	for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
		struct cython_name name = cython_demangle(interner, symbols[i], "mod");
		if (name.kind != CYTHON_HELPER)
			print_error("%s\n", symbols[i]);
		assert_int_equal(name.kind, CYTHON_HELPER);
		assert_non_null(name.name);
		assert_non_null(name.base);
	}
}

/* Frames of one call, outermost first. */
static void wrapper_and_body_are_one_call(void **state)
{
	(void)state;
	static const char *const calls[][4] = {
		{"__pyx_pw_3pkg_3mod_1run", "__pyx_pf_3pkg_3mod_run", "__pyx_f_3pkg_3mod_run"},
		{"__pyx_pw_3pkg_3mod_6Hopper_5go", "__pyx_pf_3pkg_3mod_6Hopper_4go.isra.0",
		 "__pyx_f_3pkg_3mod_6Hopper_go", "__pyx_f_3pkg_3mod_6Hopper_go.part.0"},
		{"__pyx_tp_new_3pkg_3mod_Ext", "__pyx_pw_3pkg_3mod_3Ext_1__cinit__",
		 "__pyx_pf_3pkg_3mod_3Ext___cinit__"},
		{"__pyx_getprop_3pkg_3mod_3Ext_prop", "__pyx_pw_3pkg_3mod_3Ext_4prop_1__get__",
		 "__pyx_pf_3pkg_3mod_3Ext_4prop___get__"},
		{"__pyx_nb_add_3pkg_3mod_Ext", "__pyx_pw_3pkg_3mod_3Ext_27__add__"},
		{"__pyx_nb_add_3pkg_3mod_Ext", "__pyx_pw_3pkg_3mod_3Ext_29__radd__"},
		{"__pyx_tp_richcompare_3pkg_3mod_Ext", "__pyx_pw_3pkg_3mod_3Ext_9__lt__",
		 "__pyx_pf_3pkg_3mod_3Ext_8__lt__"},
		{"__pyx_mp_ass_subscript_3pkg_3mod_Ext", "__pyx_pw_3pkg_3mod_3Ext_9__delitem__"},
		{"__pyx_tp_new_3pkg_3mod_Ext", "__pyx_tp_new_vectorcall_3pkg_3mod_Ext",
		 "__pyx_tp_new__initialisation_3pkg_3mod_Ext", "__pyx_pw_3pkg_3mod_3Ext_1__cinit__"},
		{"__pyx_setprop_3pkg_3mod_3Ext_prop", "__pyx_pw_3pkg_3mod_3Ext_4prop_3__set__"},
		{"__pyx_tp_getattro_3pkg_3mod_Ext", "__pyx_getprop_3pkg_3mod_3Ext_prop",
		 "__pyx_pw_3pkg_3mod_3Ext_4prop_1__get__"},
		{"__pyx_tp_vectorcall_3pkg_3mod_Ext", "__pyx_tp_new_3pkg_3mod_Ext",
		 "__pyx_pw_3pkg_3mod_3Ext_1__cinit__"},
		{"__pyx_setprop_3pkg_3mod_3Ext_prop", "__pyx_pw_3pkg_3mod_3Ext_4prop_5__del__"},
		{"__pyx_pw_3pkg_3mod_3Ext_3lam_lambda7", "__pyx_lambda_funcdef_lambda7"},
		{"__pyx_fuse_0_1__pyx_pw_3pkg_3mod_57fused", "__pyx_pf_3pkg_3mod_56fused"},
		{"__pyx_pw_3pkg_3mod_49__pyx_fuse_0__pyx_f_3pkg_3mod_fcp",
		 "__pyx_pf_3pkg_3mod_48__pyx_fuse_0fcp", "__pyx_fuse_0__pyx_f_3pkg_3mod_fcp"},
		{"__pyx_specialmethod___pyx_pw_3pkg_3mod_3Ext_7__next__",
		 "__pyx_pw_3pkg_3mod_3Ext_7__next__", "__pyx_pf_3pkg_3mod_3Ext_6__next__"},
		{"_ZL23__pyx_pw_3pkg_3mod_1runP7_object", "_ZL22__pyx_pf_3pkg_3mod_runP7_objectS0_"},
	};
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		struct cython_name outer = cython_demangle(interner, calls[i][0], "x.pkg.mod");
		for (size_t k = 1; k < 4 && calls[i][k]; k++) {
			struct cython_name inner =
				cython_demangle(interner, calls[i][k], "x.pkg.mod");
			if (!cython_same_call(&outer, &inner))
				print_error("%s: %s, %s: %s\n", calls[i][0], outer.base,
					    calls[i][k], inner.base);
			assert_true(cython_same_call(&outer, &inner));
			assert_false(cython_same_call(&inner, &outer));
			outer = inner;
		}
	}
}

static void other_calls_are_frames_of_their_own(void **state)
{
	(void)state;
	static const char *const pairs[][2] = {
		{"__pyx_pw_1a_1run", "__pyx_f_1b_run"},
		{"__pyx_f_1a_run", "__pyx_f_1a_run2"},
		{"__pyx_pf_1a_run", "__pyx_pw_1a_1run"}, /* it calls itself */
		{"__pyx_f_1a_run", "__pyx_f_1a_run"},
		{"__pyx_pf_1a_1X_run", "__pyx_pf_1a_1Y_run"},
		{"__pyx_pf_1a_3par", "__pyx_pf_1a_3par._omp_fn.0"},
		{"__pyx_lambda_funcdef_lambda", "__pyx_lambda_funcdef_lambda1"},
		{"__pyx_tp_dealloc_1a_X", "__pyx_tp_dealloc_1a_X"},
		{"__pyx_tp_dealloc_1a_X", "__pyx_tp_dealloc_1a_Y"},
		{"__pyx_tp_dealloc_1a_X", "__pyx_tp_dealloc_1a_XY"},
		{"__pyx_tp_dealloc_1a_X", "__pyx_pw_1a_1Y_1__dealloc__"},
		{"__pyx_tp_dealloc_1a_X", "__pyx_pw_1a_1X_1close"},
		{"__pyx_pw_1a_1X_1__repr__", "__pyx_tp_new_1a_X"},
		{"__pyx_tp_new_1a_X", "__Pyx_PyObject_Call"},
		{"__pyx_tp_new_1a_X", "malloc"},
	};
	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		struct cython_name outer = cython_demangle(interner, pairs[i][0], "a");
		struct cython_name inner = cython_demangle(interner, pairs[i][1], "a");
		if (cython_same_call(&outer, &inner))
			print_error("%s, %s\n", pairs[i][0], pairs[i][1]);
		assert_false(cython_same_call(&outer, &inner));
	}
}

static void a_generator_body_has_no_name_of_its_own(void **state)
{
	(void)state;
	struct cython_name name =
		cython_demangle(interner, "__pyx_gb_3mod_5outer_8generator7", "mod");
	assert_int_equal(name.kind, CYTHON_FUNCTION);
	assert_string_equal(name.name, "outer.<genexpr>");
	/* Raw UTF-8: the length counts letters (2 bytes each here). */
	name = cython_demangle(interner, "__pyx_gb_3mod_5\xce\x9a\xce\xbb\xce\xac\xcf\x83\xce\xb7"
			       "_2generator", "mod");
	assert_string_equal(name.name, "\xce\x9a\xce\xbb\xce\xac\xcf\x83\xce\xb7.<genexpr>");
}

/* What one name leaves open the others of the module decide. */
static void the_symbol_table_settles_ambiguous_names(void **state)
{
	(void)state;
	static const char *const table[] = {
		"__pyx_pf_3mod_2is_scale.isra.0", "__pyx_pw_3mod_3is_scale", /* not is.scale */
		"__pyx_pf_3mod_5outer_inner", "__pyx_pw_3mod_5outer_1inner",
		"__pyx_pf_3mod_4cpopt", "__pyx_pw_3mod_5cpopt",
		"__pyx_pf_3mod_22gen", "__pyx_pw_3mod_23gen", "__pyx_gb_3mod_24generator",
		"_ZL26__pyx_pw_3mod_3Ext_51gmethP7_object", "__pyx_gb_3mod_3Ext_52generator5",
		"__pyx_pf_3mod_5outer_6genexpr", "__pyx_gb_3mod_5outer_8generator7",
		"__pyx_pw_3mod_3Ext_3lam_lambda7", "__pyx_lambda_funcdef_lambda7",
		"__pyx_getprop_3mod_3Ext_prop", "__pyx_gb_3mod_3Ext_4prop_2generator2",
		"__pyx_fuse_1__pyx_pw_3mod_9is_things", "__pyx_pf_3mod_8is_things",
		"main", "__pyx_pw_", "__pyx_Upw_zz", "",
	};
	static const char *const cases[][2] = {
		{"__pyx_pf_3mod_2is_scale", "is_scale"},
		{"__pyx_pf_3mod_2is_scale.isra.0", "is_scale"},
		{"__pyx_pw_3mod_3is_scale", "is_scale"},
		{"__pyx_pf_3mod_5outer_inner", "outer.inner"},
		{"__pyx_pw_3mod_5outer_1inner", "outer.inner"},
		{"__pyx_gb_3mod_24generator", "gen"},
		{"__pyx_gb_3mod_24generator.cold", "gen"},
		{"__pyx_gb_3mod_3Ext_52generator5", "Ext.gmeth"},
		{"__pyx_gb_3mod_5outer_8generator7", "outer.<genexpr>"},
		{"__pyx_gb_3mod_99generator9", "<genexpr>"},
		{"__pyx_gb_3mod_3Ext_4prop_2generator2", "Ext.prop.__get__"},
		{"__pyx_lambda_funcdef_lambda7", "Ext.lam.<lambda>"},
		{"__pyx_lambda_funcdef_lambda8", "<lambda>"},
		{"__pyx_fuse_1__pyx_pw_3mod_9is_things", "is_things[1]"},
	};
	struct cython_symbols *symbols = cython_symbols_new();
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		cython_symbols_add(symbols, table[i]);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_string_equal(
			cython_demangle_in(interner, symbols, cases[i][0], "x.mod").name,
			cases[i][1]);
	struct cython_name outer = cython_demangle_in(interner, symbols, table[13], "x.mod");
	struct cython_name inner = cython_demangle_in(interner, symbols, table[14], "x.mod");
	assert_ptr_equal(outer.base, inner.base);
	cython_symbols_free(symbols);
	cython_symbols_free(NULL);
}

/* Numbers are shown as what the variables of the specialisations differ in. */
static void specialisations_are_shown_by_their_types(void **state)
{
	(void)state;
	static const char *const table[] = {
		"__pyx_fuse_0__pyx_f_3mod_axpy", "__pyx_fuse_1__pyx_f_3mod_axpy",
		"__pyx_fuse_0_0__pyx_pw_3mod_3two", "__pyx_pf_3mod_2two",
		"__pyx_fuse_1_0__pyx_pw_3mod_5two", "__pyx_pf_3mod_4two",
		"__pyx_fuse_1_1__pyx_pw_3mod_7two", "__pyx_pf_3mod_6two",
		"_ZL28__pyx_fuse_0__pyx_f_3mod_sumP7_objectPimS0_",
		"_ZL28__pyx_fuse_1__pyx_f_3mod_sumP7_objectPKdmS0_",
		"_ZL28__pyx_fuse_2__pyx_f_3mod_sumP3FooPfmS_.isra.0",
		"__pyx_fuse_0__pyx_f_3mod_view", "__pyx_fuse_1__pyx_f_3mod_view",
	};
	static const char *const variables[][3] = {
		{"__pyx_fuse_0__pyx_f_3mod_axpy", "__pyx_v_n", "int"},
		{"__pyx_fuse_0__pyx_f_3mod_axpy", "__pyx_t_1", "long int"},
		{"__pyx_fuse_0__pyx_f_3mod_axpy", "__pyx_v_x", "float"},
		{"__pyx_fuse_1__pyx_f_3mod_axpy", "__pyx_v_n", "int"},
		{"__pyx_fuse_1__pyx_f_3mod_axpy", "__pyx_t_1", "int"},
		{"__pyx_fuse_1__pyx_f_3mod_axpy", "__pyx_v_x", "__pyx_t_3pkg_5types_real_t"},
		{"__pyx_pf_3mod_2two", "__pyx_v_a", "char"},
		{"__pyx_pf_3mod_2two", "__pyx_v_b", "long int"},
		{"__pyx_pf_3mod_4two", "__pyx_v_a", "PyObject"},
		{"__pyx_pf_3mod_4two", "__pyx_v_b", "long int"},
		{"__pyx_pf_3mod_6two", "__pyx_v_a", "PyObject"},
		{"__pyx_pf_3mod_6two", "__pyx_v_b", "__pyx_t_double_complex"},
		{"__pyx_fuse_0__pyx_f_3mod_view", "__pyx_v_cells", "__Pyx_memviewslice"},
		{"__pyx_fuse_1__pyx_f_3mod_view", "__pyx_v_cells", "__Pyx_memviewslice"},
		{"__pyx_pf_3mod_8other", "__pyx_v_x", "int"},
		{"main", "__pyx_v_x", "int"},
	};
	static const char *const cases[][3] = {
		{"__pyx_fuse_0__pyx_f_3mod_axpy", "axpy[0]", "axpy[float]"},
		{"__pyx_fuse_1__pyx_f_3mod_axpy.cold", "axpy[1]", "axpy[real_t]"},
		{"__pyx_fuse_1__pyx_f_3mod_axpy._omp_fn.0", "axpy[1] [omp]", "axpy[real_t] [omp]"},
		/* No other one differs from it in the second number alone. */
		{"__pyx_fuse_0_0__pyx_pw_3mod_3two", "two[0_0]", "two[0_0]"},
		{"__pyx_fuse_1_0__pyx_pw_3mod_5two", "two[1_0]", "two[object, long]"},
		{"__pyx_pf_3mod_4two", "two", "two[object, long]"},
		{"__pyx_fuse_1_1__pyx_pw_3mod_7two", "two[1_1]", "two[1_1]"},
		{"_ZL28__pyx_fuse_0__pyx_f_3mod_sumP7_objectPimS0_", "sum[0]", "sum[int]"},
		{"_ZL28__pyx_fuse_1__pyx_f_3mod_sumP7_objectPKdmS0_", "sum[1]", "sum[double]"},
		{"_ZL28__pyx_fuse_2__pyx_f_3mod_sumP3FooPfmS_.isra.0", "sum[2]", "sum[float]"},
		{"__pyx_fuse_1__pyx_f_3mod_view", "view[1]", "view[1]"},
		{"__pyx_pf_3mod_8other", "other", "other"},
	};
	struct cython_symbols *symbols = cython_symbols_new();
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		cython_symbols_add(symbols, table[i]);
	for (int typed = 0; typed < 2; typed++) {
		for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
			assert_string_equal(
				cython_demangle_in(interner, symbols, cases[i][0], "mod").name,
				cases[i][1 + typed]);
		cython_symbols_show_types(symbols);
		for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++)
			cython_symbols_add_variable(symbols, variables[i][0], variables[i][1],
						    variables[i][2]);
	}
	assert_true(cython_demangle_in(interner, symbols, "__pyx_pf_3mod_4two", "mod").fused);
	assert_false(cython_demangle_in(interner, symbols, "__pyx_pf_3mod_8other", "mod").fused);
	cython_symbols_free(symbols);
}

static void paths_become_dotted_names(void **state)
{
	(void)state;
	static const char *const cases[][2] = {
		{"/usr/lib/implicit/_als.cpython-311-x86_64-linux-gnu.so", "usr.lib.implicit._als"},
		{"/x/pkg/mod.abi3.so", "x.pkg.mod"},
		{"/x/pkg/__init__.cpython-312-x86_64-linux-gnu.so", "x.pkg"},
		{"./mod.so", "mod"},
		{"mod.so (deleted)", "mod"},
		{"", ""},
		{"//a//b.so", "a.b"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_string_equal(cython_module_of_path(interner, cases[i][0]), cases[i][1]);
}

static void punycode_is_decoded(void **state)
{
	(void)state;
	/* All but the last: RFC 3492, section 7.1. */
	static const struct { const char *in, *out; } cases[] = {
		{"ihqwcrb4cv8a8dqg056pqjye", "他们为什么不说中文"},
		{"ihqwctvzc91f659drss3x8bo0yb", "他們爲什麽不說中文"},
		{"Proprostnemluvesky-uyb24dma41a", "Pročprostěnemluvíčesky"},
		{"4dbcagdahymbxekheh6e0a7fei0b", "למההםפשוטלאמדבריםעברית"},
		{"b1abfaaepdrnnbgefbaDotcwatmq2g4l", "почемужеонинеговорятпорусски"},
		{"PorqunopuedensimplementehablarenEspaol-fmd56a",
		 "PorquénopuedensimplementehablarenEspañol"},
		{"3B-ww4c5e180e575a65lsy2b", "3年B組金八先生"},
		{"-> $1.00 <--", "-> $1.00 <-"},
		{"fnc-hoa", "fünc"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		_cleanup_strbuf_ struct strbuf out;
		strbuf_init(&out);
		assert_true(punycode_decode(cases[i].in, strlen(cases[i].in), '-', &out));
		assert_string_equal(out.text, cases[i].out);
	}
	static const char *const bad[] = {"x-9", "x-99999999", "a-\xc3\xa9", "-99999999999999"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		_cleanup_strbuf_ struct strbuf out;
		strbuf_init(&out);
		assert_false(punycode_decode(bad[i], strlen(bad[i]), '-', &out));
		assert_string_equal(out.text, "");
	}
}

static void huge_names_are_refused_or_bounded(void **state)
{
	(void)state;
	size_t size = 9000;
	_cleanup_free_ char *symbol = malloc(size + 1);
	for (size_t pattern = 0; pattern < 3; pattern++) {
		static const char *const fillers[] = {"1a_", "5_dot_", "9"};
		strcpy(symbol, pattern == 2 ? "__pyx_Upw_" : "__pyx_pw_");
		for (size_t at = strlen(symbol); at < size; at++)
			symbol[at] = fillers[pattern][at % strlen(fillers[pattern])];
		symbol[size] = '\0';
		assert_int_equal(cython_demangle(interner, symbol, "a.a").kind, CYTHON_NOT);
		symbol[8000] = '\0';
		assert_int_not_equal(cython_demangle(interner, symbol, "a.a").kind, CYTHON_NOT);
	}
}

static uint32_t random_state = 12345;

static uint32_t random_next(uint32_t limit)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (random_state >> 8) % limit;
}

static struct cython_symbols *damaged;

/* Any bytes in: no crash, and names are there for all kinds but NOT. */
static size_t mutate_row(const struct row *row)
{
	static const char letters[] = "0123456789_.UNLZ\x80\xc3\xff";
	size_t size = strlen(row->symbol);
	for (int round = 0; round < 40; round++) {
		_cleanup_free_ char *copy = strdup(row->symbol);
		for (uint32_t edits = 1 + random_next(3); edits; edits--)
			copy[random_next((uint32_t)size)] =
				letters[random_next(sizeof(letters) - 1)];
		if (random_next(4) == 0)
			copy[random_next((uint32_t)size)] = '\0';
		cython_symbols_add(damaged, copy);
		cython_symbols_add_variable(damaged, copy, "__pyx_v_x", row->expected);
		struct cython_name name =
			cython_demangle_in(interner, damaged, copy, row->module);
		assert_int_equal(name.kind == CYTHON_NOT, name.name == NULL);
		assert_int_equal(name.kind == CYTHON_NOT, name.base == NULL);
	}
	return 0;
}

static void damaged_names_do_no_harm(void **state)
{
	(void)state;
	size_t bad = 0;
	damaged = cython_symbols_new();
	each_row(mutate_row, &bad);
	cython_symbols_show_types(damaged);
	each_row(mutate_row, &bad);
	cython_symbols_free(damaged);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_name_of_the_table_is_demangled),
		cmocka_unit_test(names_are_demangled_in_their_context),
		cmocka_unit_test(directories_before_the_package_change_nothing),
		cmocka_unit_test(the_module_is_matched_by_any_suffix),
		cmocka_unit_test(what_is_not_cython_is_not_claimed),
		cmocka_unit_test(what_supports_the_code_is_a_helper),
		cmocka_unit_test(wrapper_and_body_are_one_call),
		cmocka_unit_test(other_calls_are_frames_of_their_own),
		cmocka_unit_test(a_generator_body_has_no_name_of_its_own),
		cmocka_unit_test(the_symbol_table_settles_ambiguous_names),
		cmocka_unit_test(specialisations_are_shown_by_their_types),
		cmocka_unit_test(paths_become_dotted_names),
		cmocka_unit_test(punycode_is_decoded),
		cmocka_unit_test(huge_names_are_refused_or_bounded),
		cmocka_unit_test(damaged_names_do_no_harm),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
