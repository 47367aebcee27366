/* SPDX-License-Identifier: MIT */
/*
 * Programs compiled at test time, with labels ("mark_...") at the instructions of which the
 * function, file and line are known from the source.
 */
#ifndef TESTS_UNIT_SYMBOLIZE_FIXTURE_H
#define TESTS_UNIT_SYMBOLIZE_FIXTURE_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbolize/symbolize.h"

static const char c_source[] =
	"static volatile int sink;\n"
	"static inline __attribute__((always_inline)) void inner(void)\n"
	"{\n"
	"	asm volatile(\"mark_inner: nop\");\n" /* line 4 */
	"}\n"
	"static inline __attribute__((always_inline)) void middle(void)\n"
	"{\n"
	"	sink++;\n"
	"	inner();\n" /* line 9 */
	"}\n"
	"__attribute__((noinline)) void outer(void)\n"
	"{\n"
	"	middle();\n" /* line 13 */
	"	asm volatile(\"mark_outer: nop\");\n"
	"}\n"
	"__attribute__((cold, noipa)) void chill(void) { sink++; }\n"
	"int split(int x)\n"
	"{\n"
	"	if (x > 3) {\n"
	"		chill();\n" /* first: only then the block is sure to be unlikely */
	"		asm volatile(\"mark_cold: nop\");\n" /* line 21 */
	"	}\n"
	"	return x * 3;\n"
	"}\n"
	"static __attribute__((noipa)) int hidden(int x)\n"
	"{\n"
	"	asm volatile(\"mark_hidden: nop\");\n" /* line 27 */
	"	return x + sink;\n"
	"}\n"
	"int use(int x) { return hidden(x) + 1; }\n"
	"asm(\".text\\n.globl sizeless\\nsizeless: .cfi_startproc\\n nop\\nmark_sizeless: nop\\n\"\n"
	"    \" ret\\n.cfi_endproc\\n nop\\n.globl bare\\nbare: nop\\nmark_bare: nop\\n ret\\n\");\n"
	"#line 77 \"pkg/mod.pyx\"\n"
	"void mapped(void) { asm volatile(\"mark_mapped: nop\"); }\n";

static const char cxx_source[] =
	"#include <algorithm>\n#include <map>\n#include <string>\n#include <vector>\n"
	"namespace shop {\n"
	"template <class T> struct Box {\n"
	"	__attribute__((noipa)) T get(T x);\n"
	"};\n"
	"template <class T> T Box<T>::get(T x)\n"
	"{\n"
	"	asm volatile(\"mark_box: nop\");\n" /* line 11 */
	"	return x;\n"
	"}\n"
	"namespace { __attribute__((noipa)) int secret(int x)\n"
	"{\n"
	"	asm volatile(\"mark_secret: nop\"); return x;\n" /* line 16 */
	"} }\n"
	"}\n"
	"int both(int x) { shop::Box<int> box; return box.get(x) + shop::secret(x); }\n"
	"int local(int x) { struct L { __attribute__((noipa)) static int go(int y)\n"
	"	{ asm volatile(\"mark_local: nop\"); return y; } }; return L::go(x) + 1; }\n" /* 21 */
	"int busy(std::vector<std::string> &v)\n"
	"{\n"
	"	std::map<std::string, int> m;\n"
	"	std::sort(v.begin(), v.end());\n"
	"	for (auto &s : v) m[s] += (int)s.size();\n"
	"	return m.size() ? m.begin()->second : 0;\n"
	"}\n";

static int shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int shell(const char *format, ...)
{
	char command[8192];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(command, sizeof(command), format, arguments);
	va_end(arguments);
	return system(command);
}

static void write_file(const char *folder, const char *name, const char *text)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

/* Makes a folder with x.c and y.cc; the caller removes it. */
/* It may also be a module's root: the folder's own path leads to itself there. */
static inline void make_folder(char folder[64])
{
	char link[160];

	strcpy(folder, "/tmp/symbolize_test.XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(link, sizeof(link), "%s/tmp", folder);
	assert_int_equal(mkdir(link, 0755), 0);
	snprintf(link, sizeof(link), "%s%s", folder, folder);
	assert_int_equal(symlink("/", link), 0);
	write_file(folder, "x.c", c_source);
	write_file(folder, "y.cc", cxx_source);
}

/* The address of a label, as nm tells it; the file must have its symbols. */
static inline uint64_t mark_address(const char *path, const char *mark)
{
	char command[640];
	unsigned long address = 0;

	snprintf(command, sizeof(command), "nm '%s' | sed -n 's/ [a-zA-Z] %s$//p'", path, mark);
	FILE *pipe = popen(command, "r");
	assert_non_null(pipe);
	assert_int_equal(fscanf(pipe, "%lx", &address), 1);
	pclose(pipe);
	return address;
}

#endif
