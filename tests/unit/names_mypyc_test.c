/* SPDX-License-Identifier: MIT */
/* The names of a library that mypyc made, against those of its source; names that are none of
 * mypyc's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "names/names.h"

enum { MOST = 1024 };

static struct row {
	char symbol[256], name[256], function[256];
	int layer;
} rows[MOST];

static size_t row_count;

static int set_up(void **state)
{
	char line[1024];
	FILE *file = fopen("tests/data/mypyc_names.tsv", "r");

	if (!file)
		return -1;
	while (row_count < MOST && fgets(line, sizeof(line), file)) {
		struct row *row = &rows[row_count];
		row_count += line[0] != '#' &&
			     sscanf(line, "%255[^\t]\t%255[^\t]\t%255[^\t]\t%d", row->symbol,
				    row->name, row->function, &row->layer) == 4;
	}
	fclose(file);
	struct names_mypyc *mypyc = names_mypyc_new();
	for (size_t i = 0; i < row_count; i++)
		names_mypyc_add(mypyc, rows[i].symbol);
	*state = mypyc;
	return 0;
}

static int tear_down(void **state)
{
	names_mypyc_free(*state);
	return 0;
}

static void every_function_has_its_authors_name(void **state)
{
	assert_true(row_count > 300);
	for (size_t i = 0; i < row_count; i++) {
		const struct row *row = &rows[i];
		struct names_author author;
		if (!names_mypyc_name(*state, row->symbol, &author))
			fail_msg("%s: none", row->symbol);
		if (strcmp(author.name, row->name) || strcmp(author.function, row->function) ||
		    author.layer != row->layer)
			fail_msg("%s: %s, %s, %d", row->symbol, author.name, author.function,
				 author.layer);
	}
}

static const struct {
	const char *symbol, *name; /* NULL: none */
} others[] = {
	{"CPyDef_mod___Point___go.cold", "Point.go"},
	{"CPyDef_mod___Point___go__Point_glue", "Point.go"},
	{"CPyDef_mod___Point_new", "Point_new"}, /* a function of that name */
	{"CPyDef_other___A___m.isra.0", "A.m"},
	{"CPyExec_pkg___mod", "<module>"},
	/* of no module that is known */
	{"CPyDef_more___f", NULL},
	{"CPyDef_", NULL},
	{"CPyDef____", NULL},
	{"CPyPy_mod", NULL},
	{"CPyDunder_", NULL},
	{"CPyDunder___len__", NULL},
	/* of mypyc's library, and of nobody */
	{"CPyDict_GetItem", NULL},
	{"CPyTagged_Add_", NULL},
	{"mod___nobody", NULL},
	{"mod___Point_other", NULL},
	{"a___b", NULL},
	{"", NULL},
};

static void names_that_are_not_certain_are_none(void **state)
{
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		struct names_author author;
		const bool found = names_mypyc_name(*state, others[i].symbol, &author);
		if (found != !!others[i].name || (found && strcmp(author.name, others[i].name)))
			fail_msg("%s: %s", others[i].symbol, found ? author.name : "none");
	}
}

/* "c_a_b_obj": "c" in a function "a_b", or "c_a" in "b"; both have inner functions. */
static void inner_functions_that_can_be_read_in_two_ways_keep_their_names(void **state)
{
	static const char *const symbols[] = {
		"CPyDef_m_____top_level__",
		"CPyDef_m___a_b",
		"CPyDef_m___b",
		"CPyDef_m_____mypyc__a_b_env_setup",
		"CPyDef_m_____mypyc__b_env_setup",
		"CPyDef_m_____mypyc__c_a_b_obj_setup",
	};
	struct names_mypyc *mypyc = names_mypyc_new();
	struct names_author author;

	(void)state;
	for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++)
		names_mypyc_add(mypyc, symbols[i]);
	assert_true(names_mypyc_name(mypyc, "CPyDef_m___c_a_b_obj_____call__", &author));
	assert_string_equal(author.name, "c_a_b_obj.__call__");
	names_mypyc_free(mypyc);
}

/* What they would take is more than a person waits for. */
static void a_table_that_takes_too_long_has_no_names(void **state)
{
	struct names_mypyc *mypyc = names_mypyc_new();
	struct names_author author;
	char text[1000];

	(void)state;
	names_mypyc_add(mypyc, "CPyDef_m_____top_level__");
	for (int i = 0; i < 10000; i++) {
		memset(text, 'a', sizeof(text) - 1);
		snprintf(text + sizeof(text) - 8, 8, "%07d", i);
		memcpy(text, "CPyDef_m___", 11);
		names_mypyc_add(mypyc, text);
	}
	assert_false(names_mypyc_name(mypyc, "CPyDef_m___f", &author));
	assert_false(names_mypyc_name(mypyc, "CPyExec_m", &author));
	names_mypyc_free(mypyc);
}

static void symbols_of_any_kind_are_survived(void **state)
{
	struct names_mypyc *mypyc = names_mypyc_new();
	struct names_author author;
	char text[2048];

	(void)state;
	for (size_t size = 0; size < sizeof(text); size = size * 3 + 1) {
		memset(text, '_', size);
		text[size] = '\0';
		memcpy(text, "CPyDef_m", size < 8 ? size : 8);
		names_mypyc_add(mypyc, text);
		if (size > 40)
			strcpy(text + size - 16, "_____top_level__");
		names_mypyc_add(mypyc, text);
		if (size > 60)
			strcpy(text + size - 16, "__mypyc_x_setup");
		names_mypyc_add(mypyc, text);
	}
	for (size_t size = 0; size < sizeof(text); size++) {
		memset(text, '_', size);
		text[size] = '\0';
		memcpy(text, "CPyDef_m", size < 8 ? size : 8);
		(void)!names_mypyc_name(mypyc, text, &author);
	}
	names_mypyc_free(mypyc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_function_has_its_authors_name),
		cmocka_unit_test(names_that_are_not_certain_are_none),
		cmocka_unit_test(inner_functions_that_can_be_read_in_two_ways_keep_their_names),
		cmocka_unit_test(a_table_that_takes_too_long_has_no_names),
		cmocka_unit_test(symbols_of_any_kind_are_survived),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
