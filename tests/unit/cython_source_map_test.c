/* SPDX-License-Identifier: MIT */
/*
 * Lines of generated C files and the .pyx lines they come from. The truth is Cython's own: a file
 * made with --line-directives says the origin of every line; the same file without the
 * directives is what the map must do with. The environment variable CYTHON names another Cython.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "cython/cython.h"
#include "cython/internal.h"

static struct interner *interner;
static char folder[] = "/tmp/cython_source_map_XXXXXX";

static int set_up(void **state)
{
	(void)state;
	interner = interner_new();
	return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	char command[200];
	interner_free(interner);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static void read_file(const char *path, struct strbuf *text)
{
	_cleanup_fclose_ FILE *file = fopen(path, "r");
	assert_non_null(file);
	char block[4096];
	size_t got;
	while ((got = fread(block, 1, sizeof(block), file)) > 0)
		strbuf_add(text, block, got);
}

/* ------------------------------------------------------------ a small committed file */

static void each_rule_of_the_map_holds(void **state)
{
	(void)state;
	static const struct { int c_line; const char *file; int line; } cases[] = {
		{0, NULL, 0}, {-1, NULL, 0}, {2, NULL, 0},
		{15, "pkg/mod.pyx", 7},  /* the head: the block in front of it */
		{16, "pkg/mod.pyx", 7},
		{20, "pkg/mod.pyx", 8},
		{21, "pkg/mod.pyx", 8},
		{24, "pkg/mod.pyx", 9},
		{26, "pkg/mod.pyx", 9},
		{29, "pkg/mod.pxd", 11}, /* no block: the line of __PYX_ERR */
		{33, "pkg/mod.pyx", 9},  /* neither: the last block in the file */
		{39, NULL, 0},           /* a helper, though there is a block */
		{43, NULL, 0},           /* a slot that Cython wrote */
		{49, NULL, 0},           /* a pseudo file */
		{59, "pkg/mod.pyx", 40}, /* a head over several lines */
		{66, "pkg/mod.pyx", 40}, /* a head with a comment behind it */
		{69, "pkg/mod.pyx", 50},
		{74, NULL, 0},           /* a helper, whatever stands behind its head */
		{78, NULL, 0}, {79, NULL, 0}, {2147483647, NULL, 0},
	};
	_cleanup_close_ int fd = open("tests/data/cython/small.c", O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	struct source_map *map = source_map_read(interner, fd);
	assert_non_null(map);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct cython_line line = {0};
		bool found = source_map_find(map, cases[i].c_line, &line);
		if (found != (cases[i].file != NULL) || line.line != cases[i].line)
			print_error("C line %d: %s:%d\n", cases[i].c_line,
				    line.file ? line.file : "none", line.line);
		assert_int_equal(found, cases[i].file != NULL);
		assert_int_equal(line.line, cases[i].line);
		if (found)
			assert_string_equal(line.file, cases[i].file);
	}
	source_map_free(map);
}

/* ------------------------------------------------------------ the #line truth */

struct truth {
	struct strbuf text; /* without the directives */
	struct cython_line *lines; /* [c_line]; line 0: not said */
	int count;
};

static bool read_directive(const char *at, char path[256], int *line)
{
	return sscanf(at, "#line %d \"%255[^\"]\"", line, path) == 2;
}

/* Takes the directives out of the file and keeps what each says about the line after it. */
static void read_truth(const char *path, struct truth *truth)
{
	_cleanup_strbuf_ struct strbuf all;
	strbuf_init(&all);
	strbuf_init(&truth->text);
	read_file(path, &all);
	size_t room = 1;
	for (size_t i = 0; i < all.size; i++)
		room += all.text[i] == '\n';
	truth->lines = calloc(room + 2, sizeof(*truth->lines));
	truth->count = 0;
	struct cython_line next = {0};
	for (char *at = all.text, *end; (end = strchr(at, '\n')); at = end + 1) {
		char file[256];
		int line;
		if (read_directive(at, file, &line)) {
			next = (struct cython_line){.file = intern_text(interner, file), .line = line};
			continue;
		}
		strbuf_add(&truth->text, at, (size_t)(end + 1 - at));
		truth->lines[++truth->count] = next;
		next = (struct cython_line){0};
	}
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/*
 * The kind of the function whose head this line is; false: no head. Slots count as nothing: the
 * author wrote none, and for want of better the directives give them the last line of the file.
 */
static bool read_function_head(const char *at, const char *end, enum cython_kind *kind)
{
	char symbol[512];
	const char *open = memchr(at, '(', (size_t)(end - at));
	/* Prototypes are told by a ';', behind which there may be a comment. */
	if (!open || strchr(" \t#/}\"*", *at) || memchr(at, ';', (size_t)(end - at)))
		return false;
	const char *start = open;
	while (start > at && start[-1] != ' ' && start[-1] != '*')
		start--;
	snprintf(symbol, sizeof(symbol), "%.*s", (int)(open - start), start);
	struct cython_name name = cython_demangle(interner, symbol, "zoo");
	bool slot = strstr(symbol, "__pyx_pw_") == NULL && name.kind == CYTHON_WRAPPER;
	*kind = slot ? CYTHON_NOT : name.kind;
	return true;
}

struct score {
	int statements, exact; /* of user functions */
	int helper_lines, helper_mapped;
};

static bool is_statement(const char *at, const char *end)
{
	while (at < end && *at == ' ')
		at++;
	return at < end && !strchr("/*#", *at);
}

static void judge(const struct truth *truth, const struct source_map *map, int c_line,
		  enum cython_kind kind, struct score *score)
{
	struct cython_line line = {0}, want = truth->lines[c_line];
	bool found = source_map_find(map, c_line, &line);
	if (kind == CYTHON_HELPER) {
		score->helper_lines++;
		score->helper_mapped += found;
		if (found && getenv("CYTHON_SHOW"))
			print_message("C line %d: helper, got %d\n", c_line, line.line);
	} else if (kind != CYTHON_NOT && want.file && strstr(want.file, ".pyx")) {
		bool exact = found && line.line == want.line &&
			     strcmp(base_name(line.file), base_name(want.file)) == 0;
		score->statements++;
		score->exact += exact;
		if (!exact && getenv("CYTHON_SHOW"))
			print_message("C line %d: %s:%d, got %d\n", c_line, want.file, want.line,
				      found ? line.line : 0);
	}
}

static struct score compare(const struct truth *truth)
{
	struct score score = {0};
	struct source_map *map =
		source_map_parse(interner, truth->text.text, truth->text.size);
	assert_non_null(map);
	assert_int_equal(source_map_line_count(map), truth->count);
	enum cython_kind kind = CYTHON_NOT;
	int c_line = 0;
	for (const char *at = truth->text.text, *end; (end = strchr(at, '\n')); at = end + 1) {
		c_line++;
		if (end == at)
			continue;
		if (*at == '}')
			kind = CYTHON_NOT;
		else if (!read_function_head(at, end, &kind) && *at == ' ' &&
			 is_statement(at, end))
			judge(truth, map, c_line, kind, &score);
	}
	source_map_free(map);
	return score;
}

static const char *cython_command(void)
{
	const char *command = getenv("CYTHON");
	return command ? command : "cython3";
}

static bool generate(const char *options, const char *output)
{
	char command[1000];
	snprintf(command, sizeof(command), "%s -3 %s tests/data/cython/zoo.pyx -o %s/%s >%s/log 2>&1",
		 cython_command(), options, folder, output, folder);
	return system(command) == 0;
}

static bool has_cython(void)
{
	static int known = -1;
	if (known < 0)
		known = generate("--line-directives", "lines.c") && generate("", "zoo.c");
	if (!known)
		print_message("skip: %s is not installed or cannot translate the example\n",
			      cython_command());
	return known;
}

static void lines_agree_with_the_directives(void **state)
{
	(void)state;
	if (!has_cython())
		skip();
	char path[100];
	struct truth truth;
	snprintf(path, sizeof(path), "%s/lines.c", folder);
	read_truth(path, &truth);
	struct score score = compare(&truth);
	print_message("%d of %d statements exact, %d of %d helper lines mapped\n", score.exact,
		      score.statements, score.helper_mapped, score.helper_lines);
	assert_true(score.statements > 500);
	assert_true(score.exact >= score.statements * 99 / 100);
	assert_true(score.helper_lines > 500);
	assert_int_equal(score.helper_mapped, 0);
	strbuf_release(&truth.text);
	free(truth.lines);
}

/* ------------------------------------------------------------ finding the file */

static int opened;

static int open_plain(void *context, const char *path)
{
	(void)context;
	opened++;
	return open(path, O_RDONLY | O_CLOEXEC);
}

static void write_file(const char *name, const char *text)
{
	char path[200];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	_cleanup_fclose_ FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
}

static const char tiny[] = "/* Generated by Cython 3.0.12 */\n"
			   "/* \"pkg/mod.pyx\":3\n"
			   " */\n"
			   "static int __pyx_f_3mod_run(int x) {\n"
			   "  return x;\n"
			   "}\n";

static bool map_line_of(struct cython_sources *sources, const struct cython_name *name,
			const char *c_file, const char *directory, const char *extension,
			int c_line, int declared, struct cython_line *line)
{
	const struct cython_place place = {.c_file = c_file, .directory = directory,
					   .extension = extension, .c_line = c_line,
					   .declared = declared};
	return cython_map_line(sources, name, &place, line);
}

static bool map_line(struct cython_sources *sources, const char *c_file, const char *directory,
		     const char *extension, int c_line, struct cython_line *line)
{
	return map_line_of(sources, NULL, c_file, directory, extension, c_line, 0, line);
}

static void the_c_file_is_found_where_builds_leave_it(void **state)
{
	(void)state;
	char path[300];
	static const char *const folders[] = {"site", "site/pkg", "build", "build/pkg"};
	for (size_t i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, folders[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	write_file("site/pkg/mod.c", tiny);
	write_file("site/pkg/other.cpp", tiny);
	write_file("site/pkg/plain.c", "int main(void) { return 0; }\n\n\n\n\n\n");
	write_file("build/pkg/far.c", tiny);
	static const struct { const char *c_file, *directory, *extension; bool found; } cases[] = {
		{"pkg/mod.c", "/project", "%s/site/pkg/mod.cpython-311-x86_64-linux-gnu.so", true},
		{"src/pkg/mod.c", "/project", "%s/site/pkg/mod.so", true},
		{"/project/mod_renamed.c", "/project", "%s/site/pkg/mod.so", true},
		{"pkg/mod.c", "/project", "%s/site/elsewhere/deep/x.so", true},
		{"other.cpp", "", "%s/site/pkg/x.so", true},
		{"pkg/absent.c", "/project", "%s/site/pkg/absent.so", false},
		{"pkg/plain.c", "/project", "%s/site/pkg/plain.so", false},
		{"pkg/far.c", "%s/build", "/nowhere/far.so", true},
		{"far.c", "%s/build/pkg", "/nowhere/far.so", true},
		{"%s/build/pkg/far.c", "/nowhere", "/nowhere/far.so", true},
		{"pkg/far.c", "/nowhere", "/nowhere/far.so", false},
		{"pkg/mod.rs", "/project", "%s/site/pkg/mod.so", false},
	};
	struct cython_sources *sources = cython_sources_new(interner, open_plain, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char text[3][300];
		const char *const in[] = {cases[i].c_file, cases[i].directory, cases[i].extension};
		for (size_t k = 0; k < 3; k++) {
			bool own = strncmp(in[k], "%s", 2) == 0;
			snprintf(text[k], sizeof(text[k]), "%s%s", own ? folder : "",
				 in[k] + (own ? 2 : 0));
		}
		struct cython_line line = {0};
		bool found = map_line(sources, text[0], text[1], text[2], 5, &line);
		if (found != cases[i].found)
			print_error("%s\n", in[0]);
		assert_int_equal(found, cases[i].found);
		if (found) {
			assert_string_equal(line.file, "pkg/mod.pyx");
			assert_int_equal(line.line, 3);
		}
	}
	cython_sources_free(sources);
}

static void a_file_too_short_for_the_line_is_refused(void **state)
{
	(void)state;
	char extension[200];
	struct cython_line line;
	struct cython_sources *sources = cython_sources_new(interner, open_plain, NULL);
	write_file("short.c", tiny);
	snprintf(extension, sizeof(extension), "%s/short.so", folder);
	assert_true(map_line(sources, "short.c", "/project", extension, 5, &line));
	opened = 0;
	assert_true(map_line(sources, "short.c", "/project", extension, 4, &line));
	assert_int_equal(opened, 0);
	assert_false(map_line(sources, "short.c", "/project", extension, 7, &line));
	/* Nothing it says is right, then. */
	assert_false(map_line(sources, "short.c", "/project", extension, 5, &line));
	cython_sources_free(sources);
	cython_sources_free(NULL);
}

/* The function has to be where the debug information says, and the file no newer than the library. */
static void a_file_that_does_not_fit_is_refused(void **state)
{
	(void)state;
	static const char text[] =
		"/* Generated by Cython 3.0.12 */\n"
		"static PyObject *__pyx_pf_3mod_run(PyObject *self) {\n"
		"  /* \"mod.pyx\":3\n"
		"*/\n"
		"  work();\n"
		"}\n"
		"static PyObject *__pyx_pf_3mod_2rest(PyObject *self) {\n"
		"  /* \"mod.pyx\":7\n"
		"*/\n"
		"  work();\n"
		"}\n";
	static const struct { const char *symbol; int c_line, declared, newer, shown; } cases[] = {
		{"__pyx_pf_3mod_run", 5, 2, 0, 3},
		{"__pyx_pf_3mod_run", 5, 0, 0, 3},
		{"__pyx_pf_3mod_run.isra.0.cold", 5, 2, 0, 3},
		{"_ZL17__pyx_pf_3mod_runP7_object", 5, 2, 0, 3},
		{NULL, 5, 0, 0, 3},
		{"_ZN13__pyx_t_3mod_X2goEv", 5, 1, 0, 3}, /* heads of methods are spelled otherwise */
		{"__pyx_pf_3mod_2rest", 10, 7, 0, 7},
		{"__pyx_pf_3mod_run", 5, 1, 0, 0},  /* the head is elsewhere */
		{"__pyx_pf_3mod_run", 10, 2, 0, 0}, /* the line is in another function */
		{"__pyx_pf_3mod_4more", 10, 0, 0, 0},
		{"__pyx_pf_3mod_run", 5, 2, 1, 3},
		{"__pyx_pf_3mod_run", 5, 2, 60, 0},
	};
	write_file("mod.c", text);
	write_file("mod.so", "");
	char extension[200], c_file[200];
	snprintf(extension, sizeof(extension), "%s/mod.so", folder);
	snprintf(c_file, sizeof(c_file), "%s/mod.c", folder);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct timespec now = {1000000, 0}, later = {1000000 + cases[i].newer, 0};
		assert_int_equal(utimensat(AT_FDCWD, extension, (struct timespec[]){now, now}, 0), 0);
		assert_int_equal(utimensat(AT_FDCWD, c_file, (struct timespec[]){now, later}, 0), 0);
		const struct cython_place place = {.symbol = cases[i].symbol, .c_file = "mod.c",
						   .directory = "/project", .extension = extension,
						   .c_line = cases[i].c_line,
						   .declared = cases[i].declared};
		struct cython_sources *sources = cython_sources_new(interner, open_plain, NULL);
		struct cython_line line = {0};
		bool found = cython_map_line(sources, NULL, &place, &line);
		if (found != (cases[i].shown != 0) || line.line != cases[i].shown)
			print_error("case %zu: line %d\n", i, line.line);
		assert_int_equal(found, cases[i].shown != 0);
		assert_int_equal(line.line, cases[i].shown);
		cython_sources_free(sources);
	}
}

/* What begins in column 0 inside of a function, and classes that have functions inside. */
static void functions_end_where_they_end(void **state)
{
	(void)state;
	static const char text[] =
		"/* Generated by Cython 0.29 */\n"
		"struct __pyx_t_3mod_Grinder {\n"
		"  /* \"mod.pyx\":2\n"
		"*/\n"
		"  __pyx_t_3mod_Grinder(int size) {\n"
		"  }\n"
		"};\n"
		"double __pyx_t_3mod_Grinder::ground(double by) {\n"
		"  /* \"mod.pyx\":5\n"
		"*/\n"
		"  work();\n"
		"}\n"
		"static CYTHON_SMALL_CODE int __pyx_pymod_exec_mod(PyObject *m)\n"
		"{\n"
		"  /* \"mod.pyx\":8\n"
		"*/\n"
		"#if CYTHON_REFNANNY\n"
		"if (!__Pyx_RefNanny) {\n"
		"  work();\n"
		"}\n"
		"#endif\n"
		"  work();\n"
		"  PyObject *all[2] = {0\n"
		"};\n"
		"  work();\n"
		"}\n"
		"static int __Pyx_helper(void) {\n"
		"  work();\n"
		"}\n";
	static const struct { int c_line, line; } cases[] = {
		{5, 2}, {11, 5}, {19, 8}, {22, 8}, {25, 8}, {28, 0},
	};
	struct source_map *map = source_map_parse(interner, text, sizeof(text) - 1);
	assert_non_null(map);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct cython_line line = {0};
		source_map_find(map, cases[i].c_line, &line);
		if (line.line != cases[i].line)
			print_error("C line %d: %d\n", cases[i].c_line, line.line);
		assert_int_equal(line.line, cases[i].line);
	}
	source_map_free(map);
}

/* In the folder of the build, else the longest end of the path at or above the extension. */
static void the_authors_file_is_found(void **state)
{
	(void)state;
	char command[600];
	snprintf(command, sizeof(command),
		 "cd %s && mkdir -p up/site/pkg/sub up/site/numpy up/build/src/pkg", folder);
	assert_int_equal(system(command), 0);
	static const char *const files[] = {"up/site/pkg/sub/mod.pyx", "up/site/pkg/inner.pxi",
					    "up/site/numpy/__init__.pxd", "up/site/pkg/__init__.pxd",
					    "up/build/src/pkg/own.pyx", "up/site/own.pyx"};
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		write_file(files[i], "");
	static const struct { const char *file, *directory, *found; } cases[] = {
		{"pkg/sub/mod.pyx", "/project", "up/site/pkg/sub/mod.pyx"},
		{"src/pkg/sub/mod.pyx", "/project", "up/site/pkg/sub/mod.pyx"},
		{"mod.pyx", "", "up/site/pkg/sub/mod.pyx"},
		{"/project/pkg/inner.pxi", NULL, "up/site/pkg/inner.pxi"},
		{"../tmp/env/numpy/__init__.pxd", "/project", "up/site/numpy/__init__.pxd"},
		{"src/pkg/own.pyx", "%s/up/build", "up/build/src/pkg/own.pyx"},
		{"pkg/absent.pyx", "/project", NULL},
	};
	char extension[200], directory[200], wanted[200];
	snprintf(extension, sizeof(extension), "%s/up/site/pkg/sub/mod.so", folder);
	struct cython_sources *sources = cython_sources_new(interner, open_plain, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *build = cases[i].directory;
		bool own = build && strncmp(build, "%s", 2) == 0;
		snprintf(directory, sizeof(directory), "%s%s", own ? folder : "",
			 build ? build + (own ? 2 : 0) : "");
		const struct cython_place place = {.c_file = cases[i].file, .extension = extension,
						   .directory = build ? directory : NULL,
						   .c_line = 3};
		struct cython_line line = {0};
		assert_true(cython_map_line(sources, NULL, &place, &line));
		assert_string_equal(line.file, cases[i].file);
		snprintf(wanted, sizeof(wanted), "%s/%s", folder, cases[i].found ? cases[i].found : "");
		assert_int_equal(line.path != NULL, cases[i].found != NULL);
		if (line.path)
			assert_string_equal(line.path, wanted);
		/* Each is looked for once. */
		opened = 0;
		assert_true(cython_map_line(sources, NULL, &place, &line));
		assert_int_equal(opened, 0);
	}
	cython_sources_free(sources);
}

static void pyx_lines_are_given_back_as_they_are(void **state)
{
	(void)state;
	struct cython_line line = {0};
	struct cython_sources *sources = cython_sources_new(interner, open_plain, NULL);
	assert_true(map_line(sources, "pkg/mod.pyx", "/project", "/x/mod.so", 12, &line));
	assert_string_equal(line.file, "pkg/mod.pyx");
	assert_int_equal(line.line, 12);
	assert_true(map_line(sources, "/a/b.pxd", NULL, NULL, 1, &line));
	assert_true(map_line(sources, "/a/pure.py", NULL, NULL, 1, &line));
	opened = 0;
	static const char *const pseudo[] = {"cython_utility", "(tree fragment)", "", "x.pyx.o",
					     "View.MemoryView", "<stringsource>", "stringsource"};
	for (size_t i = 0; i < sizeof(pseudo) / sizeof(*pseudo); i++)
		assert_false(map_line(sources, pseudo[i], "/p", "/x/m.so", 1, &line));
	assert_false(map_line(sources, "a.pyx", "/p", "/x/m.so", 0, &line));
	assert_false(map_line(sources, NULL, "/p", "/x/m.so", 1, &line));
	assert_int_equal(opened, 0);
	cython_sources_free(sources);
}

/* Lines of slots are counted on from a directive that was meant for something else. */
static void slots_have_no_line_by_directive(void **state)
{
	(void)state;
	static const struct { const char *symbol; bool has_line; } cases[] = {
		{"__pyx_getprop_3mod_3Ext_size", false},
		{"__pyx_setprop_3mod_3Ext_size", false},
		{"__pyx_tp_dealloc_3mod_Ext", false},
		{"__pyx_sq_item_3mod_Ext", false},
		{"__pyx_mp_ass_subscript_3mod_Ext", false},
		{"__pyx_specialmethod___pyx_pw_3mod_3Ext_1__next__", false},
		{"__pyx_pw_3mod_3Ext_4size_1__get__", true},
		{"__pyx_pw_3mod_1run", true},
		{"__pyx_pf_3mod_run", true},
		{"__pyx_f_3mod_run", true},
		{"__pyx_gb_3mod_2generator", true},
		{"__pyx_pymod_exec_mod", true},
	};
	char extension[200];
	write_file("watched_threads.c", tiny);
	snprintf(extension, sizeof(extension), "%s/slots.so", folder);
	struct cython_sources *sources = cython_sources_new(interner, open_plain, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct cython_line line;
		struct cython_name name = cython_demangle(interner, cases[i].symbol, "mod");
		assert_int_not_equal(name.kind, CYTHON_NOT);
		bool found = map_line_of(sources, &name, "mod.pyx", "/p", extension, 9,
						0, &line);
		if (found != cases[i].has_line)
			print_error("%s\n", cases[i].symbol);
		assert_int_equal(found, cases[i].has_line);
		/* The generated file itself knows better. */
		assert_true(map_line_of(sources, &name, "watched_threads.c", "/p", extension, 5, 0,
					       &line));
		assert_false(map_line_of(sources, &name, NULL, "/p", extension, 5, 0,
						&line));
	}
	cython_sources_free(sources);
}

/* The head of a wrapper has more lines in C than in the .pyx file. */
static void wrappers_have_the_line_of_their_definition(void **state)
{
	(void)state;
	static const struct { const char *symbol, *file; int line, declared, shown; } cases[] = {
		{"__pyx_pw_3mod_1run", "mod.pyx", 57, 51, 51},
		{"__pyx_pw_3mod_1run", "mod.pyx", 51, 51, 51},
		{"__pyx_pw_3mod_1run", "mod.pyx", 57, 0, 57},
		{"__pyx_pw_3mod_1run", "mod.pyx", 50, 51, 50},
		{"__pyx_pf_3mod_run", "mod.pyx", 57, 51, 57},
		{"__pyx_pw_3mod_1run", "declared.c", 5, 4, 3},
	};
	char extension[200];
	write_file("declared.c", tiny);
	snprintf(extension, sizeof(extension), "%s/declared.so", folder);
	struct cython_sources *sources = cython_sources_new(interner, open_plain, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct cython_line line;
		struct cython_name name = cython_demangle(interner, cases[i].symbol, "mod");
		assert_true(map_line_of(sources, &name, cases[i].file, "/p", extension,
					       cases[i].line, cases[i].declared, &line));
		assert_int_equal(line.line, cases[i].shown);
	}
	cython_sources_free(sources);
}

/* ------------------------------------------------------------ hostile files and large ones */

static void query_everywhere(const struct source_map *map)
{
	struct cython_line line;
	int lines = source_map_line_count(map);
	for (int i = -1; i <= lines + 1; i += 1 + lines / 5000)
		if (source_map_find(map, i, &line))
			assert_true(line.line > 0 && line.file);
}

static void damaged_files_do_no_harm(void **state)
{
	(void)state;
	static const char letters[] = "}{\"*/:(),\n 0129_pP\xff";
	_cleanup_strbuf_ struct strbuf text;
	strbuf_init(&text);
	read_file("tests/data/cython/small.c", &text);
	uint32_t random = 99;
	for (int round = 0; round < 3000; round++) {
		_cleanup_free_ char *copy = malloc(text.size);
		memcpy(copy, text.text, text.size);
		for (int edit = 0; edit < 8; edit++) {
			random = random * 1664525u + 1013904223u;
			copy[40 + (random >> 8) % (text.size - 40)] =
				letters[(random >> 4) % (sizeof(letters) - 1)];
		}
		struct source_map *map =
			source_map_parse(interner, copy, text.size - random % 100);
		assert_non_null(map);
		query_everywhere(map);
		source_map_free(map);
	}
}

static double milliseconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Repeats the text up to the size, behind the mark of a generated file. */
static void parse_repeated(const char *text, size_t size, const char *what)
{
	_cleanup_strbuf_ struct strbuf all;
	strbuf_init(&all);
	strbuf_add_text(&all, "/* Generated by Cython 3.0.12 */\n");
	while (all.size < size)
		strbuf_add_text(&all, text);
	double start = milliseconds();
	struct source_map *map = source_map_parse(interner, all.text, all.size);
	double spent = milliseconds() - start;
	print_message("%zu bytes of %s: %.1f ms\n", all.size, what, spent);
	assert_non_null(map);
	query_everywhere(map);
	source_map_free(map);
	assert_true(spent < 5000); /* linear, even under a sanitizer */
}

static void large_files_take_linear_time(void **state)
{
	(void)state;
	parse_repeated("xxxxxxxxxx", 10 << 20, "one line");
	parse_repeated("  __PYX_ERR(", 10 << 20, "open errors in one line");
	parse_repeated("/* \"a\":\"", 10 << 20, "an open comment");
	parse_repeated("}\n", 6 << 20, "ends of functions");
	parse_repeated("/* \"a.pyx\":1\n", 10 << 20, "blocks");
	parse_repeated("  __PYX_ERR(0, 0, x)\n", 10 << 20, "errors without a line");
	_cleanup_strbuf_ struct strbuf many;
	strbuf_init(&many);
	strbuf_add_text(&many, "/* Generated by Cython 3.0.12 */");
	for (int i = 0; i < (4 << 20) + 10; i++)
		strbuf_add_char(&many, '\n');
	assert_null(source_map_parse(interner, many.text, many.size));
	assert_null(source_map_parse(interner, "", 0));
}

static void a_file_of_100000_lines_is_read_quickly(void **state)
{
	(void)state;
	if (!has_cython())
		skip();
	char path[100];
	_cleanup_strbuf_ struct strbuf text;
	strbuf_init(&text);
	snprintf(path, sizeof(path), "%s/zoo.c", folder);
	read_file(path, &text);
	parse_repeated(text.text, text.size * 5, "generated C");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_rule_of_the_map_holds),
		cmocka_unit_test(lines_agree_with_the_directives),
		cmocka_unit_test(the_c_file_is_found_where_builds_leave_it),
		cmocka_unit_test(a_file_too_short_for_the_line_is_refused),
		cmocka_unit_test(a_file_that_does_not_fit_is_refused),
		cmocka_unit_test(the_authors_file_is_found),
		cmocka_unit_test(functions_end_where_they_end),
		cmocka_unit_test(pyx_lines_are_given_back_as_they_are),
		cmocka_unit_test(slots_have_no_line_by_directive),
		cmocka_unit_test(wrappers_have_the_line_of_their_definition),
		cmocka_unit_test(damaged_files_do_no_harm),
		cmocka_unit_test(large_files_take_linear_time),
		cmocka_unit_test(a_file_of_100000_lines_is_read_quickly),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
