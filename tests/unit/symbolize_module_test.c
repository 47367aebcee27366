/* SPDX-License-Identifier: MIT */
/*
 * Addresses of known source lines in small libraries, built in all the ways that debug information
 * is shipped: DWARF 4 and 5, compressed, split by link or build ID, without an index, not at all.
 */
#include "tests/unit/symbolize_fixture.h"

#include <sys/inotify.h>

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

struct expected {
	const char *mark;
	size_t count;
	struct {
		const char *name, *linkage, *file;
		int line;
	} frames[3];
};

static const struct expected c_frames[] = {
	{"mark_inner",
	 3,
	 {{"inner", "inner", "x.c", 4},
	  {"middle", "middle", "x.c", 9},
	  {"outer", "outer", "x.c", 13}}},
	{"mark_outer", 1, {{"outer", "outer", "x.c", 14}}},
	{"mark_cold", 1, {{"split", "split.cold", "x.c", 21}}},
	{"mark_hidden", 1, {{"hidden", "hidden", "x.c", 27}}},
	{"mark_mapped", 1, {{"mapped", "mapped", "pkg/mod.pyx", 77}}},
};

static const struct expected cxx_frames[] = {
	{"mark_box", 1, {{"shop::Box<int>::get", "_ZN4shop3BoxIiE3getEi", "y.cc", 11}}},
	{"mark_secret",
	 1,
	 {{"shop::(anonymous namespace)::secret", "_ZN4shop12_GLOBAL__N_16secretEi", "y.cc", 16}}},
	{"mark_local", 1, {{"local(int)::L::go", "_ZZ5localiEN1L2goEi", "y.cc", 21}}},
};

/* Compiles to full.so, then runs the commands that make x.so of it, in the folder. */
static void build(const char *compiler, const char *source, const char *flags, const char *commands)
{
	assert_int_equal(shell("cd '%s' && rm -rf *.so *.debug .debug usr && %s -O2 -g -fPIC "
			       "-shared -Wl,--build-id %s -o full.so %s && cp full.so x.so && %s",
			       folder, compiler, flags, source, commands),
			 0);
}

static struct symbolizer *open_module(struct interner *interner, const char *root, const char *path)
{
	struct symbolizer *symbolizer = symbolizer_new(interner);
	struct symbolize_module module = {.path = path, .fd = open(path, O_RDONLY), .root_fd = -1};
	struct error error;

	assert_true(module.fd >= 0);
	if (root)
		module.root_fd = open(root, O_PATH | O_DIRECTORY);
	assert_true(symbolizer_open(symbolizer, &module, &error));
	close(module.fd);
	return symbolizer; /* root_fd stays open until the test ends */
}

static uint64_t mark_of(const char *mark)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/full.so", folder);
	return mark_address(path, mark);
}

static void expect(struct symbolizer *symbolizer, const struct expected *expected, bool lines)
{
	struct symbolize_result result;
	const size_t skipped = lines ? 0 : expected->count - 1;

	/* A return address is the one after; the mark's nop is one byte long. */
	symbolize_pc(symbolizer, mark_of(expected->mark) + 1, false, 0, &result);
	assert_int_equal(result.count, expected->count - skipped);
	assert_true(result.has_function);
	for (size_t i = 0; i < result.count; i++) {
		const struct symbolize_frame *frame = &result.frames[i];
		assert_string_equal(frame->name, expected->frames[i + skipped].name);
		assert_string_equal(frame->linkage, expected->frames[i + skipped].linkage);
		assert_int_equal(frame->inlined, i + 1 < result.count);
		if (!lines)
			continue;
		assert_string_equal(frame->file, expected->frames[i].file);
		assert_int_equal(frame->line, expected->frames[i].line);
		assert_string_equal(frame->directory, folder);
	}
}

static void expect_all(const struct expected *expected, size_t count, const char *root, bool lines)
{
	struct interner *interner = interner_new();
	char path[128];

	snprintf(path, sizeof(path), "%s/x.so", folder);
	struct symbolizer *symbolizer = open_module(interner, root, path);
	for (size_t i = 0; i < count; i++)
		expect(symbolizer, &expected[i], lines);
	symbolizer_free(symbolizer);
	interner_free(interner);
}

static const char to_build_id[] =
	"id=$(readelf -n full.so | sed -n 's/.*Build ID: //p') && "
	"d=usr/lib/debug/.build-id/$(echo $id | cut -c1-2) && mkdir -p $d && "
	"objcopy --only-keep-debug full.so $d/$(echo $id | cut -c3-).debug && strip x.so";
static const char to_link[] = "objcopy --only-keep-debug full.so x.debug && strip x.so && "
			      "objcopy --add-gnu-debuglink=x.debug x.so";

static const struct {
	const char *flags, *commands;
	bool root, lines;
} ways[] = {
	{"-gdwarf-4", ":", false, true},
	{"-gdwarf-5", ":", false, true},
	{"-gz", ":", false, true},
	{"-gz=zlib-gnu", ":", false, true},
	{"", "objcopy --remove-section=.debug_aranges x.so", false, true},
	{"", to_link, false, true},
	{"-Wl,--build-id=none", to_link, false, true},
	{"-Wl,--build-id=none -gz", to_link, false, true},
	{"", to_build_id, true, true},
	{"-fno-asynchronous-unwind-tables -fdebug-types-section", ":", false, true},
	{"", "strip -g x.so", false, false},
};

static void functions_inlines_and_lines_are_found_however_they_are_shipped(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		build("gcc", "x.c", ways[i].flags, ways[i].commands);
		expect_all(c_frames, sizeof(c_frames) / sizeof(*c_frames),
			   ways[i].root ? folder : NULL, ways[i].lines);
	}
}

static void cxx_names_have_namespaces_and_arguments_but_no_parameters(void **state)
{
	(void)state;
	build("g++", "y.cc", "", ":");
	expect_all(cxx_frames, sizeof(cxx_frames) / sizeof(*cxx_frames), NULL, true);
	build("g++", "y.cc", "", to_link);
	expect_all(cxx_frames, sizeof(cxx_frames) / sizeof(*cxx_frames), NULL, true);
}

static void a_debug_file_is_found_in_the_folder_beside_and_by_path(void **state)
{
	static const char *const commands[] = {
		"mkdir .debug && mv x.debug .debug",
		"mkdir -p usr/lib/debug$PWD && mv x.debug usr/lib/debug$PWD",
	};
	(void)state;
	for (int i = 0; i < 2; i++) {
		char text[512];
		snprintf(text, sizeof(text), "%s && %s", to_link, commands[i]);
		build("gcc", "x.c", "", text);
		expect_all(c_frames, 3, folder, true);
	}
}

/* Beside it in our root there may be anything: the module's path is one of another root. */
static void files_beside_a_module_of_another_root_are_not_opened(void **state)
{
	static const char *const commands[] = {
		to_link,
		/* The same by an absolute path of a .dwo, and by one beside it. */
		"gcc -O2 -g -gsplit-dwarf -fPIC -c -o x.o x.c && gcc -shared -o full.so x.o && "
		"strip -o x.so -K mark_outer full.so && cp full.so x.so",
	};
	(void)state;
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		char events[4096], path[128];
		build("gcc", "x.c", "", commands[i]);
		const int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
		snprintf(path, sizeof(path), "%s/%s", folder, i ? "x.dwo" : "x.debug");
		assert_true(inotify_add_watch(watch, path, IN_OPEN) >= 0);
		expect_all(&c_frames[1], 1, "/proc", false);
		assert_int_equal(read(watch, events, sizeof(events)), -1);
		/* It is found in its own. */
		expect_all(&c_frames[1], 1, folder, true);
		assert_true(read(watch, events, sizeof(events)) > 0);
		close(watch);
	}
}

/* Symbols of the dynamic table are all that is left, so no line may be told. */
static void a_debug_file_of_another_build_is_not_believed(void **state)
{
	static const char *const commands[] = {
		"strip x.so && objcopy --add-gnu-debuglink=x.debug x.so && "
		"gcc -O1 -g -fPIC -shared -Wl,--build-id -o other.so x.c && "
		"objcopy --only-keep-debug other.so x.debug",
		"strip x.so && objcopy --add-gnu-debuglink=x.debug x.so && "
		"objcopy -R .note.gnu.build-id full.so x.debug && echo >> x.debug",
		"strip x.so && objcopy --add-gnu-debuglink=x.debug x.so && rm x.debug && "
		"mkfifo x.debug",
		"strip x.so && objcopy --add-gnu-debuglink=x.debug x.so && rm x.debug && "
		"mkdir x.debug",
	};
	(void)state;
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		char text[1024];
		snprintf(text, sizeof(text), "objcopy --only-keep-debug full.so x.debug && %s",
			 commands[i]);
		build("gcc", "x.c", "", text);
		expect_all(&c_frames[1], 1, NULL, false);
		expect_all(&c_frames[1], 1, folder, false);
	}
}

static void a_symbol_counts_only_where_it_covers_the_address(void **state)
{
	struct interner *interner = interner_new();
	struct symbolize_result result;
	char path[128];

	(void)state;
	build("gcc", "x.c", "-g0", "strip x.so");
	snprintf(path, sizeof(path), "%s/x.so", folder);
	struct symbolizer *symbolizer = open_module(interner, NULL, path);
	symbolize_pc(symbolizer, mark_of("mark_sizeless"), true, 0, &result);
	assert_int_equal(result.count, 1);
	assert_string_equal(result.frames[0].name, "sizeless");
	assert_int_equal(result.function_start, mark_of("sizeless"));
	/* No size and no FDE: nothing is known, though `bare` is the nearest below. */
	symbolize_pc(symbolizer, mark_of("mark_bare"), true, 0, &result);
	assert_int_equal(result.count, 0);
	assert_false(result.has_function);
	/* But for who knows that the code leads from there to here. */
	symbolize_pc(symbolizer, mark_of("mark_bare"), true, mark_of("bare"), &result);
	assert_int_equal(result.count, 1);
	assert_string_equal(result.frames[0].name, "bare");
	assert_int_equal(result.function_start, mark_of("bare"));
	symbolize_pc(symbolizer, mark_of("mark_bare"), true, mark_of("bare") + 1, &result);
	assert_int_equal(result.count, 0);
	/* Static and stripped: no name, but the FDE tells where it starts. */
	symbolize_pc(symbolizer, mark_of("mark_hidden"), true, 0, &result);
	assert_int_equal(result.count, 0);
	assert_true(result.has_function);
	assert_int_equal(result.function_start, mark_of("hidden"));
	symbolizer_free(symbolizer);
	interner_free(interner);
}

static const char openmp_source[] =
	"static __attribute__((noipa)) void parallel_for(double *v, long n)\n"
	"{\n"
	"#pragma omp parallel for\n"
	"	for (long i = 0; i < n; i++)\n"
	"		asm volatile(\"mark_loop: nop\" : : \"r\"(v + i));\n"
	"}\n"
	"void use(double *v, long n) { parallel_for(v, n); }\n";

/* GCC's DWARF calls them by their symbols: "_ZL12parallel_forPdl._omp_fn.0". */
static void bodies_of_parallel_regions_are_named_after_their_functions(void **state)
{
	static const struct expected body = {
		"mark_loop",
		1,
		{{"parallel_for [omp]", "_ZL12parallel_forPdl._omp_fn.0", "z.cc", 5}}};
	(void)state;
	write_file(folder, "z.cc", openmp_source);
	build("g++", "z.cc", "-fopenmp", ":");
	expect_all(&body, 1, NULL, true);
	build("g++", "z.cc", "-fopenmp", "strip -g x.so");
	expect_all(&body, 1, NULL, false);
}

/*
 * What link-time optimization leaves beside a function's own name, which may be weak: a local
 * alias, through which a thunk reaches it (".LTHUNK485.lto_priv.0": libparquet).
 */
static const struct {
	const char *symbols; /* BINDING:TYPE:NAME, in the order of the symbol table */
	const char *name;
} aliases[] = {
	{"weak:function:own local:function:.LTHUNK485.lto_priv.0", "own"},
	{"local:function:.LTHUNK485.lto_priv.0 weak:function:own", "own"},
	{"local:function:.LTHUNK1.lto_priv.0 local:function:own.lto_priv.0", "own"},
	{"local:function:.LTHUNK1.lto_priv.0 globl:notype:_own", "_own"},
	{"local:function:.LTHUNK1.lto_priv.0", NULL},
	{"local:notype:.annobin_own.c local:function:.L5", NULL},
	{"local:function:.helper weak:notype:own", "own"},
	{"local:function:.helper", ".helper"},
	{"weak:function:own local:function:own.localalias", "own"},
	{"local:function:__GI_own globl:function:own", "own"},
};

static void add_alias(FILE *source, const char *symbol, bool sized)
{
	char binding[16], type[16], name[64];

	assert_int_equal(sscanf(symbol, "%15[^:]:%15[^:]:%63s", binding, type, name), 3);
	if (strcmp(binding, "local"))
		fprintf(source, ".%s %s\n", binding, name);
	fprintf(source, ".type %s, @%s\n.set %s, mark_here\n", name, type, name);
	if (sized)
		fprintf(source, ".size %s, 3\n", name);
}

static void expect_alias(const char *symbols, const char *name, bool sized)
{
	char path[128], words[256], *rest = NULL;
	struct symbolize_result result;

	snprintf(path, sizeof(path), "%s/alias.s", folder);
	FILE *source = fopen(path, "w");
	assert_non_null(source);
	fputs(".text\n.cfi_startproc\nmark_here: nop\n nop\n ret\n.cfi_endproc\n", source);
	snprintf(words, sizeof(words), "%s", symbols);
	for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		add_alias(source, word, sized);
	fclose(source);
	assert_int_equal(shell("cd '%s' && gcc -shared -nostdlib -Wa,-L -o full.so alias.s && "
			       "objcopy -N mark_here full.so x.so",
			       folder),
			 0);
	struct interner *interner = interner_new();
	snprintf(path, sizeof(path), "%s/x.so", folder);
	struct symbolizer *symbolizer = open_module(interner, NULL, path);
	symbolize_pc(symbolizer, mark_of("mark_here"), true, 0, &result);
	if (!name != !result.count || (name && strcmp(name, result.frames[0].name)))
		fail_msg("%s: %s", symbols, result.count ? result.frames[0].name : "no name");
	assert_true(result.has_function);
	symbolizer_free(symbolizer);
	interner_free(interner);
}

static void aliases_that_tools_make_lose_to_the_authors_names(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(aliases) / sizeof(*aliases); i++) {
		expect_alias(aliases[i].symbols, aliases[i].name, true);
		expect_alias(aliases[i].symbols, aliases[i].name, false);
	}
}

static void bytes_without_section_headers_are_symbolized_as_far_as_they_go(void **state)
{
	struct interner *interner = interner_new();
	struct symbolizer *symbolizer = symbolizer_new(interner);
	struct symbolize_result result;
	struct error error;
	static char bytes[1 << 20];
	char path[128];

	(void)state;
	build("gcc", "x.c", "", ":");
	snprintf(path, sizeof(path), "%s/x.so", folder);
	FILE *file = fopen(path, "r");
	const size_t size = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	struct symbolize_module module = {
		.path = "[x]", .fd = -1, .bytes = bytes, .bytes_size = size, .root_fd = -1};
	assert_true(symbolizer_open(symbolizer, &module, &error));
	expect(symbolizer, &c_frames[0], true);
	memset(bytes + 0x28, 0, 8); /* e_shoff */
	memset(bytes + 0x3c, 0, 4); /* e_shnum, e_shstrndx */
	assert_true(symbolizer_open(symbolizer, &module, &error));
	symbolize_pc(symbolizer, mark_of("mark_hidden"), true, 0, &result);
	assert_int_equal(result.count, 0);
	assert_int_equal(result.function_start, mark_of("hidden"));
	symbolizer_free(symbolizer);
	interner_free(interner);
}

/* Without file and bytes nothing could be opened anew, so success means that it was not. */
static void the_module_that_is_open_is_not_opened_again(void **state)
{
	struct interner *interner = interner_new();
	struct symbolizer *symbolizer = symbolizer_new(interner);
	struct error error;
	char path[128];

	(void)state;
	build("gcc", "x.c", "", ":");
	snprintf(path, sizeof(path), "%s/x.so", folder);
	struct symbolize_module module = {.path = path,
					  .fd = open(path, O_RDONLY),
					  .root_fd = -1,
					  .build_id = {.bytes = {1, 2, 3}, .size = 20}};
	assert_true(symbolizer_open(symbolizer, &module, &error));
	close(module.fd);
	module.fd = -1;
	assert_true(symbolizer_open(symbolizer, &module, &error));
	expect(symbolizer, &c_frames[0], true);
	module.build_id.bytes[0] = 9;
	assert_false(symbolizer_open(symbolizer, &module, &error));
	symbolizer_free(symbolizer);
	interner_free(interner);
}

static void what_is_not_an_elf_file_is_refused(void **state)
{
	static const char *const texts[] = {"", "#!/bin/sh\n", "\177ELF", "\177ELF\1\1\1"};
	struct interner *interner = interner_new();
	struct symbolizer *symbolizer = symbolizer_new(interner);
	struct symbolize_result result;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct symbolize_module module = {.path = "x",
						  .fd = -1,
						  .bytes = texts[i],
						  .bytes_size = strlen(texts[i]),
						  .root_fd = -1};
		struct error error = {.kind = ERROR_NONE};
		assert_false(symbolizer_open(symbolizer, &module, &error));
		assert_int_equal(error.kind, ERROR_CORRUPT);
		symbolize_pc(symbolizer, 0, false, 0, &result);
		assert_int_equal(result.count, 0);
	}
	symbolizer_free(symbolizer);
	interner_free(interner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_inlines_and_lines_are_found_however_they_are_shipped),
		cmocka_unit_test(cxx_names_have_namespaces_and_arguments_but_no_parameters),
		cmocka_unit_test(a_debug_file_is_found_in_the_folder_beside_and_by_path),
		cmocka_unit_test(files_beside_a_module_of_another_root_are_not_opened),
		cmocka_unit_test(a_debug_file_of_another_build_is_not_believed),
		cmocka_unit_test(a_symbol_counts_only_where_it_covers_the_address),
		cmocka_unit_test(bodies_of_parallel_regions_are_named_after_their_functions),
		cmocka_unit_test(aliases_that_tools_make_lose_to_the_authors_names),
		cmocka_unit_test(bytes_without_section_headers_are_symbolized_as_far_as_they_go),
		cmocka_unit_test(the_module_that_is_open_is_not_opened_again),
		cmocka_unit_test(what_is_not_an_elf_file_is_refused),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
