/* SPDX-License-Identifier: MIT */
/*
 * Names of exported functions in texts that are packed as Cython 3.3 packs them, in modules made
 * here: the compressed text, the array of functions, and what must not be taken for it.
 */
#include "tests/unit/symbolize_fixture.h"

/* For each function the array has, in order; half_1 and half_0 stand in it twice. */
#define TYPES "double (double)\0\0\0\0int (int, double)\0\0\0\0"
#define NAMES                                                                                      \
	"__pyx_fuse_1half\0half[double *]\0__pyx_fuse_0half\0half[float]\0one\0two\0two_more\0"    \
	"third"
#define IMPORTS "int (void)\0\0helper\0other_helper"
#define BEGIN "what a module says. what a module says of itself __pyx_capi__ "

static const char module_source[] =
	"struct method { const char *name; void *function; int flags; const char *doc; };\n"
	"extern long PyModule_Create2(), PyObject_Call();\n"
	"extern char *PyBytes_FromStringAndSize(const char *, long);\n"
	"const char *runtime(void) { return \"cython_runtime\"; }\n"
	"#define F(n) static __attribute__((noipa, used)) long n(long x) { return x * __LINE__; }\n"
	"F(half_1)\nF(half_0)\nF(one)\nF(two)\nF(two_more)\nF(third)\nF(method)\n"
	"static struct method mdef = {\"method\", method, 4, 0};\n"
	"static void *const array[] = {ARRAY, 0};\n"
	"__attribute__((noipa)) static long constants(void) {\n"
	"	char *room = PyBytes_FromStringAndSize(0, sizeof(text));\n"
	"	return PyObject_Call(room, packed, array); }\n"
	"long PyInit_mod(void) { return constants() + PyModule_Create2(&mdef); }\n";

#define ALL "half_1, half_1, half_0, half_0, one, two, two_more, third"

struct expected {
	const char *symbol, *name; /* NULL: it has none */
};

/* ---- packing ------------------------------------------------------------------------------ */

/* The longest match before `at`; 0: none. */
static size_t longest(const char *text, size_t at, size_t size, size_t *back)
{
	size_t best = 0;

	for (size_t from = 0; from < at; from++) {
		size_t length = 0;
		while (from + length < at && at + length < size && length < 250 &&
		       text[from + length] == text[at + length])
			length++;
		if (length >= best) {
			best = length;
			*back = at - from - length;
		}
	}
	return best >= 3 ? best : 0;
}

static size_t put_match(uint8_t *out, size_t back, size_t length)
{
	if (back < 0x80) {
		out[0] = (uint8_t)back;
		out[1] = (uint8_t)(length - 3);
		return 2;
	}
	back -= 0x80;
	out[0] = (uint8_t)(0x80 | (back & 0x7f));
	if (back < 0x200 && length - 3 < 0x20) {
		out[1] = (uint8_t)((back >> 2 & 0x60) | (length - 3));
		return 2;
	}
	out[1] = (uint8_t)(0x80 | back >> 7);
	out[2] = (uint8_t)(length - 3);
	return 3;
}

static size_t pack(const char *text, size_t size, uint8_t *out)
{
	size_t done = 0;

	for (size_t at = 0; at < size;) {
		uint8_t *flags = &out[done++];
		*flags = 0;
		for (int bit = 0; bit < 8 && at < size; bit++) {
			size_t back = 0, length = longest(text, at, size, &back);
			if (length) {
				done += put_match(out + done, back, length);
				at += length;
			} else {
				*flags |= (uint8_t)(1 << bit);
				out[done++] = (uint8_t)text[at++];
			}
		}
	}
	return done;
}

/* ---- modules ------------------------------------------------------------------------------ */

static void write_bytes(FILE *file, const char *name, const uint8_t *bytes, size_t size)
{
	fprintf(file, "static const unsigned char %s[] = {", name);
	for (size_t i = 0; i < size; i++)
		fprintf(file, "%u,", bytes[i]);
	fprintf(file, "};\n");
}

static void check(const char *array, const char *text, size_t size, const struct expected *expected)
{
	char folder[64] = "/tmp/symbolize_test.XXXXXX", path[128];
	uint8_t packed[4096];
	struct interner *interner = interner_new();
	struct symbolizer *symbolizer = symbolizer_new(interner);
	struct error error;

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/m.c", folder);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	write_bytes(file, "packed", packed, pack(text, size, packed));
	fprintf(file, "static char text[%zu];\n#define ARRAY %s\n%s", size, array, module_source);
	fclose(file);
	assert_int_equal(
		shell("cd '%s' && gcc -w -O2 -shared -fPIC -nostartfiles -Wl,--build-id=none -o "
		      "full.so m.c -Wl,--unresolved-symbols=ignore-all && strip -o x.so full.so",
		      folder),
		0);
	snprintf(path, sizeof(path), "%s/x.so", folder);
	const struct symbolize_module module = {
		.path = path, .fd = open(path, O_RDONLY), .root_fd = -1};
	assert_true(symbolizer_open(symbolizer, &module, &error));
	close(module.fd);
	snprintf(path, sizeof(path), "%s/full.so", folder);
	for (; expected->symbol; expected++) {
		struct recovered_name recovered = {.name = NULL};
		symbolize_recovered_name(symbolizer, mark_address(path, expected->symbol), &recovered);
		if (!recovered.name != !expected->name ||
		    (recovered.name && strcmp(recovered.name, expected->name)))
			fail_msg("%s: %s", expected->symbol, recovered.name ? recovered.name : "none");
		assert_false(recovered.uncertain);
		if (recovered.name)
			assert_int_equal(recovered.evidence, EVIDENCE_EXPORT);
	}
	symbolizer_free(symbolizer);
	interner_free(interner);
	shell("rm -r '%s'", folder);
}

/* ---- tests -------------------------------------------------------------------------------- */

static const struct expected no_names[] = {{"half_1", NULL}, {"one", NULL}, {"third", NULL}, {0}};

/* Letters without order. */
static size_t add_noise(char *text, size_t size)
{
	uint32_t number = 1;

	for (size_t i = 0; i < size; i++) {
		number = number * 1664525 + 1013904223;
		text[i] = (char)('A' + (number >> 24) % 26);
	}
	return size;
}

/* Parts of the names stand far before them, too: matches are told in three ways, by distance. */
static void names_go_with_the_functions_of_the_array(void **state)
{
	static const char far[] = BEGIN "_two_more_", near[] = "_double *]_";
	static const char end[] = IMPORTS TYPES NAMES "\200\001 what a module";
	static const struct expected expected[] = {{"half_1", "half[double]"},
						   {"half_0", "half[float]"},
						   {"one", "one"},
						   {"two", "two"},
						   {"two_more", "two_more"},
						   {"third", "third"},
						   {0}};
	char text[2048];
	size_t size = 0;

	(void)state;
	memcpy(text, far, sizeof(far) - 1);
	size = sizeof(far) - 1;
	size += add_noise(text + size, 500);
	memcpy(text + size, near, sizeof(near) - 1);
	size += sizeof(near) - 1;
	size += add_noise(text + size, 250);
	memcpy(text + size, end, sizeof(end) - 1);
	check(ALL, text, size + sizeof(end) - 1, expected);
}

/* Other constants that follow look like a part of the last name: that one is left out. */
static void a_name_without_an_end_is_none(void **state)
{
	static const char text[] = BEGIN TYPES NAMES "bytes of the program";
	static const struct expected expected[] = {
		{"half_1", "half[double]"}, {"two_more", "two_more"}, {"third", NULL}, {0}};

	(void)state;
	check(ALL, text, sizeof(text) - 1, expected);
}

/* Terminals and the cache of names see no control characters. */
static void what_stands_between_brackets_is_cleaned(void **state)
{
	static const char text[] = BEGIN TYPES
		"__pyx_fuse_1half\0half[\033c]\0__pyx_fuse_0half\0half[a\xffz]\0one\0two\0"
		"two_more\0third\200\001";
	static const struct expected expected[] = {
		{"half_1", "half[ c]"}, {"half_0", "half[a\xef\xbf\xbdz]"}, {"one", "one"}, {0}};

	(void)state;
	check(ALL, text, sizeof(text) - 1, expected);
}

static void an_array_of_another_size_is_not_theirs(void **state)
{
	static const char text[] = BEGIN TYPES NAMES "\200\001";

	(void)state;
	check("half_1, half_0, one, two, two_more, third, third", text, sizeof(text) - 1, no_names);
}

/* Any table may have two functions in a row. */
static void a_few_functions_prove_nothing(void **state)
{
	static const char text[] = BEGIN "int (int)\0\0one\0two\200";

	(void)state;
	check("one, two", text, sizeof(text) - 1, no_names);
}

static void without_the_dict_s_name_it_is_another_text(void **state)
{
	static const char text[] = "what a module says " TYPES NAMES "\200\001";

	(void)state;
	check(ALL, text, sizeof(text) - 1, no_names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_go_with_the_functions_of_the_array),
		cmocka_unit_test(a_name_without_an_end_is_none),
		cmocka_unit_test(what_stands_between_brackets_is_cleaned),
		cmocka_unit_test(an_array_of_another_size_is_not_theirs),
		cmocka_unit_test(a_few_functions_prove_nothing),
		cmocka_unit_test(without_the_dict_s_name_it_is_another_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
