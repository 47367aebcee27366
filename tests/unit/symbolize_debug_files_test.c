/* SPDX-License-Identifier: MIT */
/*
 * Debug information in the forms that distributions and compilers ship it in beside the usual ones:
 * every DWARF version of both compilers, shared by dwz, split, inside of a stripped file; and what
 * cannot be used is said.
 */
#include "tests/unit/symbolize_fixture.h"

#include "base/strbuf.h"

static char folder[64];

static int set_up(void **state)
{
	(void)state;
	make_folder(folder);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return shell("rm -rf '%s'", folder);
}

/* In an emptied folder; false: a tool is not here, or cannot do that. */
static bool build(const char *commands)
{
	return shell("cd '%s' && rm -rf *.so *.o *.dwo *.dwp *.debug usr sub && (%s) 2>/dev/null "
		     ">/dev/null", folder, commands) == 0;
}

/* What is known of one mark of x.so. */
struct found {
	struct symbolize_result result;
	char problems[512];
};

static void look(const char *mark, struct interner *interner, struct found *found)
{
	struct symbolizer *symbolizer = symbolizer_new(interner);
	struct strbuf problems;
	struct error error;
	char path[128];

	snprintf(path, sizeof(path), "%s/full.so", folder);
	const uint64_t address = mark_address(path, mark);
	snprintf(path, sizeof(path), "%s/x.so", folder);
	struct symbolize_module module = {.path = path, .fd = open(path, O_RDONLY),
					  .root_fd = open(folder, O_PATH | O_DIRECTORY)};
	assert_true(symbolizer_open(symbolizer, &module, &error));
	symbolize_pc(symbolizer, address, true, 0, &found->result);
	strbuf_init(&problems);
	symbolizer_add_problems(symbolizer, &problems);
	snprintf(found->problems, sizeof(found->problems), "%s", problems.text);
	strbuf_release(&problems);
	symbolizer_free(symbolizer);
	close(module.fd);
	close(module.root_fd);
}

struct expected {
	const char *mark;
	size_t count;
	const char *name;
	int line;
};

static void expect(const char *what, const struct expected *expected)
{
	struct interner *interner = interner_new();
	struct found found;

	look(expected->mark, interner, &found);
	const struct symbolize_frame *outer = &found.result.frames[found.result.count - 1];
	if (found.result.count != expected->count || found.problems[0] ||
	    strcmp(outer->name, expected->name) != 0 || outer->line != expected->line)
		fail_msg("%s: %s: %zu levels, %s:%d; %s", what, expected->mark, found.result.count,
			 found.result.count ? outer->name : "", found.result.count ? outer->line : 0,
			 found.problems);
	interner_free(interner);
}

static const struct expected c_marks[] = {
	{"mark_inner", 3, "outer", 13},
	{"mark_outer", 1, "outer", 14},
	{"mark_cold", 1, "split", 21},
	{"mark_hidden", 1, "hidden", 27},
	{"mark_mapped", 1, "mapped", 77},
};


static const struct expected cxx_marks[] = {
	{"mark_box", 1, "shop::Box<int>::get", 11},
	{"mark_secret", 1, "shop::(anonymous namespace)::secret", 16},
	{"mark_local", 1, "local(int)::L::go", 21},
};

/* False: skipped, and said so. */
static bool expect_all(const char *commands, bool cxx)
{
	const struct expected *marks = cxx ? cxx_marks : c_marks;
	const size_t count = cxx ? sizeof(cxx_marks) / sizeof(*cxx_marks)
				 : sizeof(c_marks) / sizeof(*c_marks);

	if (!build(commands)) {
		printf("skip: this machine cannot do: %s\n", commands);
		return false;
	}
	for (size_t i = 0; i < count; i++)
		/* clang makes no parts of functions. */
		if (!strstr(commands, "clang") || strcmp(marks[i].mark, "mark_cold") != 0)
			expect(commands, &marks[i]);
	return true;
}

#define GCC "gcc -O2 -g -fPIC -shared -Wl,--build-id "
/* dwz shares what two files have in common: the second one is another copy of the same. */
#define DWZ GCC "-o full.so x.c && " GCC "-Wl,-soname,other -o other.so x.c && cp full.so x.so && "

static void every_version_of_dwarf_is_read(void **state)
{
	static const char *const compilers[] = {"gcc", "clang"};

	(void)state;
	for (size_t i = 0; i < 2; i++)
		for (int version = 2; version <= 5; version++) {
			char text[256];
			snprintf(text, sizeof(text), "%s -Dnoipa=noinline -O2 -gdwarf-%d -fPIC "
				 "-shared -o full.so x.c "
				 "&& cp full.so x.so", compilers[i], version);
			expect_all(text, false);
			if (version < 5)
				continue;
			snprintf(text, sizeof(text), "%s++ -Dnoipa=noinline -O2 -gdwarf-%d -fPIC "
				 "-shared -o full.so y.cc && cp full.so x.so", i ? "clang" : "g", version);
			expect_all(text, true);
		}
}

static void what_dwz_has_moved_is_found(void **state)
{
	(void)state;
	expect_all(DWZ "dwz -m shared.debug -M \"$PWD/shared.debug\" x.so other.so && "
		   "readelf -SW x.so | grep gnu_debugaltlink", false);
	expect_all("g++ -O2 -g -fPIC -shared -o full.so y.cc && g++ -O2 -g -fPIC -shared -Wl,-soname,o "
		   "-o other.so y.cc && cp full.so x.so && dwz -m shared.debug "
		   "-M \"$PWD/shared.debug\" x.so other.so && readelf -SW shared.debug | grep info", true);
	/* As Debian has it: in the debug file, found by its build ID. */
	expect_all(DWZ "dwz -m shared.debug -M /nowhere/shared.debug x.so other.so && "
		   "id=$(readelf -n shared.debug | sed -n 's/.*Build ID: //p') && "
		   "d=usr/lib/debug/.build-id/$(echo $id | cut -c1-2) && mkdir -p $d && "
		   "mv shared.debug $d/$(echo $id | cut -c3-).debug && "
		   "objcopy --only-keep-debug x.so x.debug && strip x.so && "
		   "objcopy --add-gnu-debuglink=x.debug x.so", false);
}

static void split_units_are_found(void **state)
{
	static const char *const ways[] = {
		"gcc -gsplit-dwarf -gdwarf-5", "gcc -gsplit-dwarf -gdwarf-4",
		"gcc -gsplit-dwarf -gdwarf-5 -ffunction-sections",
		"gcc -gsplit-dwarf -gdwarf-4 -ffunction-sections -gz",
		"clang -Dnoipa=noinline -gsplit-dwarf -gdwarf-5",
		"clang -Dnoipa=noinline -gsplit-dwarf -gdwarf-4",
		"clang -Dnoipa=noinline -gsplit-dwarf -gdwarf-5 -ffunction-sections",
	};
	(void)state;
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		char text[512];
		snprintf(text, sizeof(text), "%s -O2 -fPIC -c -o x.o x.c && rm -f other.o && "
			 "echo 'int before(int x) { return x * 3; }' | gcc -O2 -fPIC -x c -c -o other.o - "
			 "&& gcc -shared -o full.so other.o x.o && cp full.so x.so", ways[i]);
		expect_all(text, false);
	}
	expect_all("g++ -O2 -g -gsplit-dwarf -fPIC -c -o y.o y.cc && g++ -shared -o full.so y.o && "
		   "cp full.so x.so", true);
	/* Where the compiler put it, which is not beside the module. */
	expect_all("mkdir -p obj && gcc -O2 -g -gsplit-dwarf -fPIC -c -o obj/x.o x.c && "
		   "gcc -shared -o full.so obj/x.o && cp full.so x.so && rm -f *.dwo", false);
	/* Moved away, together with the module. */
	expect_all("mkdir -p sub && cd sub && gcc -O2 -g -gsplit-dwarf -fPIC -c -o x.o ../x.c && "
		   "gcc -shared -o ../full.so x.o && cp ../full.so ../x.so && mv x.dwo ..", false);
}

/* All in one section, and inlined calls whose code is in several pieces. */
static const char pieces_source[] =
	"volatile int sink, other;\n"
	"static inline int clamp(int x, int most)\n"
	"{\n"
	"	if (x > most) {\n"
	"		sink = x;\n"
	"		x = most;\n"
	"	}\n"
	"	return x * other;\n"
	"}\n"
	"static inline int twice(int *v, int n)\n"
	"{\n"
	"	int sum = 0;\n"
	"	for (int i = 0; i < n; i++)\n"
	"		sum += clamp(v[i], 100) - clamp(v[i] + sink, 50);\n"
	"	return sum;\n"
	"}\n"
	"int first(int *v, int n) { return n > 3 ? twice(v, n) : clamp(n, 5); }\n"
	"int second(int *v, int n) { return twice(v, n) * twice(v + 1, n - 1) + clamp(*v, n); }\n";

static struct symbolizer *open_named(struct interner *interner, const char *name)
{
	struct symbolizer *symbolizer = symbolizer_new(interner);
	struct error error;
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	struct symbolize_module module = {.path = path, .fd = open(path, O_RDONLY), .root_fd = -1};
	assert_true(symbolizer_open(symbolizer, &module, &error));
	close(module.fd);
	return symbolizer;
}

static bool same_frames(const struct symbolize_result *left, const struct symbolize_result *right)
{
	bool same = left->count == right->count;

	for (size_t i = 0; same && i < left->count; i++)
		same = left->frames[i].name == right->frames[i].name &&
		       left->frames[i].file == right->frames[i].file &&
		       left->frames[i].line == right->frames[i].line;
	return same;
}

/* The same code with and without -gsplit-dwarf: nothing may be told apart but `declared`. */
static void split_units_tell_what_whole_ones_tell(void **state)
{
	static const char *const ways[] = {
		"gcc -gdwarf-5 pieces.c", "gcc -gdwarf-4 pieces.c", "clang -gdwarf-5 pieces.c",
		"clang -gdwarf-4 pieces.c", "g++ -gdwarf-5 y.cc",
	};
	(void)state;
	write_file(folder, "pieces.c", pieces_source);
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		struct interner *interner = interner_new();
		struct symbolize_result whole, split;
		char text[512];
		size_t inlined = 0;
		snprintf(text, sizeof(text),
			 "echo 'int before(int x) { return x * 3; }' | gcc -O2 -fPIC -x c -c -o b.o - && "
			 /* another unit, with ranges before ours */
			 "gcc -gdwarf-4 -O2 -fPIC -c -o c.o -Dfirst=one -Dsecond=two -Dsink=a -Dother=b "
			 "pieces.c && "
			 "%s -g -O2 -fPIC -c -o x.o && gcc -shared -o full.so b.o c.o x.o && "
			 "%s -gsplit-dwarf -O2 -fPIC -c -o x.o && gcc -shared -o x.so b.o c.o x.o",
			 ways[i], ways[i]);
		if (!build(text)) {
			printf("skip: this machine cannot do: %s\n", text);
			continue;
		}
		struct symbolizer *left = open_named(interner, "full.so");
		struct symbolizer *right = open_named(interner, "x.so");
		for (uint64_t pc = 0x1000; pc < 0x2000; pc++) {
			symbolize_pc(left, pc, true, 0, &whole);
			symbolize_pc(right, pc, true, 0, &split);
			inlined += whole.count > 1;
			if (!same_frames(&whole, &split))
				fail_msg("%s: 0x%lx: %zu levels, not %zu", ways[i],
					 (unsigned long)pc, split.count, whole.count);
		}
		assert_true(inlined > 100);
		symbolizer_free(left);
		symbolizer_free(right);
		interner_free(interner);
	}
}

static void symbols_inside_of_a_stripped_file_are_found(void **state)
{
	static const struct expected hidden = {"mark_hidden", 1, "hidden", 0};

	(void)state;
	if (!build(GCC "-o full.so x.c && nm full.so && objcopy --only-keep-debug full.so mini && "
		   "objcopy -S --remove-section .gdb_index --remove-section .comment --strip-debug "
		   "--keep-symbol=hidden --keep-symbol=outer mini mini && xz -f mini && "
		   "strip -o x.so full.so && objcopy --add-section .gnu_debugdata=mini.xz x.so"))
		printf("skip: this machine cannot make .gnu_debugdata\n");
	else
		expect("mini", &hidden);
}

#define MINI GCC "-o full.so x.c && objcopy --only-keep-debug full.so mini && strip -o x.so full.so && "

static const struct {
	const char *name, *commands, *problem;
} problems[] = {
	{"zstd", GCC "-o full.so x.c && objcopy --compress-debug-sections=zstd full.so x.so && "
	 "readelf -t x.so | grep -q -i zstd", "compressed by zstd"},
	{"an unknown compression", GCC "-gz -o full.so x.c && cp full.so x.so && "
	 "at=$(readelf -SW x.so | sed -n 's/.*\\.debug_info *PROGBITS *[0-9a-f]* *\\([0-9a-f]*\\).*/\\1/p') "
	 "&& printf '\\11' | dd of=x.so bs=1 seek=$((0x$at)) conv=notrunc", "compressed in an unknown way"},
	{"dwz's file missing", DWZ "dwz -m shared.debug x.so other.so && rm shared.debug",
	 "the file that dwz moved parts of it to is not here"},
	{"a missing .dwo", "gcc -O2 -g -gsplit-dwarf -fPIC -c -o x.o x.c && "
	 "gcc -shared -o full.so x.o && cp full.so x.so && rm -f *.dwo", "a .dwo file is not here"},
	{"the .dwo of another build", "gcc -O2 -g -gsplit-dwarf -fPIC -c -o x.o x.c && "
	 "gcc -shared -o full.so x.o && cp full.so x.so && "
	 "gcc -O1 -Dother -g -gsplit-dwarf -fPIC -c -o x.o x.c", "a .dwo file is not here"},
	{"a .dwp", "gcc -O2 -gdwarf-4 -gsplit-dwarf -fPIC -c -o x.o x.c && gcc -shared -o full.so x.o && "
	 "cp full.so x.so && dwp x.dwo -o x.so.dwp && rm -f *.dwo", "in a .dwp file"},
	{"a fifo in place of the .dwo", "gcc -O2 -g -gsplit-dwarf -fPIC -c -o x.o x.c && "
	 "gcc -shared -o full.so x.o && cp full.so x.so && rm -f *.dwo && mkfifo x.dwo",
	 "a .dwo file is not here"},
	{"symbols of 40 MB in a few KB", MINI "truncate -s 40M mini && xz -f -0 mini && "
	 "objcopy --add-section .gnu_debugdata=mini.xz x.so", "damaged"},
	{"a .gnu_debugdata without its end", MINI "xz -f mini && head -c -8 mini.xz > cut && "
	 "objcopy --add-section .gnu_debugdata=cut x.so", "damaged"},
	{"damaged .gnu_debugdata", GCC "-o full.so x.c && strip -o x.so full.so && echo no > bad && "
	 "objcopy --add-section .gnu_debugdata=bad x.so", "damaged"},
};

static void what_cannot_be_used_is_said(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(problems) / sizeof(*problems); i++) {
		struct interner *interner = interner_new();
		char expected[256];
		struct found found;
		if (!build(problems[i].commands)) {
			printf("skip: this machine cannot make: %s\n", problems[i].name);
			continue;
		}
		look("mark_outer", interner, &found);
		snprintf(expected, sizeof(expected),
			 "debug information of 1 file could not be used: %s", problems[i].problem);
		if (strncmp(found.problems, expected, strlen(expected)) != 0 ||
		    !strstr(found.problems, "(x.so)"))
			fail_msg("%s: \"%s\"", problems[i].name, found.problems);
		/* Its symbol is there, whatever else is not. */
		assert_true(found.result.has_function);
		assert_string_equal(found.result.frames[found.result.count - 1].name, "outer");
		interner_free(interner);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_version_of_dwarf_is_read),
		cmocka_unit_test(what_dwz_has_moved_is_found),
		cmocka_unit_test(split_units_are_found),
		cmocka_unit_test(split_units_tell_what_whole_ones_tell),
		cmocka_unit_test(symbols_inside_of_a_stripped_file_are_found),
		cmocka_unit_test(what_cannot_be_used_is_said),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
