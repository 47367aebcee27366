/* SPDX-License-Identifier: MIT */
/*
 * Debug sections are read, and inflated where they are compressed, as far as they are needed: the
 * answers must be those of the same library read whole, in whatever order addresses are asked for;
 * damaged ones must do no harm. What is compressed in the old way (.zdebug_info) libdw reads whole.
 */
#include <sys/stat.h>
#include <zlib.h>

#include "base/alloc.h"
#include "symbolize/internal.h"
#include "symbolize/lazy_section.h"
#include "tests/unit/symbolize_fixture.h"

enum { ROUNDS = 100, MAX_BYTES = 4 << 20, STEP = 7 };

static char folder[64];

/* big.h makes .debug_info large enough; the units differ by their names. */
static int set_up(void **state)
{
	(void)state;
	make_folder(folder);
	return shell(
		"cd '%s' && for i in $(seq 1500); do echo "
		"\"struct s$i { int a, *b; struct s$i *c; }; struct s$i N(v$i);\"; done > big.h;"
		"for u in a b c; do printf '%%s\n' '#define N(x) '$u'##x\n#define P(x) "
		"'$u'##x\n#include \"big.h\"\n"
		"static inline int twice(int x) { return x ? x * 2 + '$u'v1.a : 3; }\n"
		"__attribute__((noinline)) int P(far)(int x) { return twice(x) ^ 5; }\n"
		"int P(near)(int x)\n{\n\tfor (int i = 0; i < x; i++)\n\t\tx ^= P(far)(twice(i));\n"
		"\treturn x;\n}' > $u.c; done",
		folder);
}

static int tear_down(void **state)
{
	(void)state;
	return shell("rm -rf '%s'", folder);
}

static void path_of(char path[128], const char *name)
{
	snprintf(path, 128, "%s/%s", folder, name);
}

static struct symbolizer *open_library(struct interner *interner, const char *name)
{
	struct symbolizer *symbolizer = symbolizer_new(interner);
	struct error error;
	char path[128];

	path_of(path, name);
	struct symbolize_module module = {.path = path, .fd = open(path, O_RDONLY), .root_fd = -1};
	if (!symbolizer_open(symbolizer, &module, &error))
		fail_msg("%s", error.message);
	close(module.fd);
	return symbolizer;
}

static void text_range(const char *name, unsigned long *start, unsigned long *size)
{
	char command[256];

	snprintf(command, sizeof(command),
		 "readelf -SW '%s/%s' | sed -n 's/.* .text *PROGBITS *//p'", folder, name);
	FILE *pipe = popen(command, "r");
	assert_int_equal(fscanf(pipe, "%lx %*x %lx", start, size), 2);
	pclose(pipe);
}

/* Strings are interned, so equal ones are the same. */
static void assert_same(const struct symbolize_result *left, const struct symbolize_result *right)
{
	assert_int_equal(left->count, right->count);
	assert_int_equal(left->has_function, right->has_function);
	assert_int_equal(left->function_start, right->function_start);
	for (size_t i = 0; i < left->count; i++) {
		const struct symbolize_frame *a = &left->frames[i], *b = &right->frames[i];
		assert_ptr_equal(a->linkage, b->linkage);
		assert_ptr_equal(a->name, b->name);
		assert_ptr_equal(a->file, b->file);
		assert_ptr_equal(a->directory, b->directory);
		assert_int_equal(a->line, b->line);
		assert_int_equal(a->inlined, b->inlined);
	}
}

static void compare_all(const char *library, int first, int step)
{
	struct interner *interner = interner_new();
	struct symbolizer *whole = open_library(interner, "whole.so");
	struct symbolizer *lazy = open_library(interner, library);
	struct symbolize_result wanted, got;
	unsigned long start, size;
	size_t lines = 0;

	text_range("plain.so", &start, &size);
	const int count = (int)(size / STEP);
	for (int i = 0; i < count; i++) {
		/* `step` and the number of addresses may share factors: then some come twice. */
		const uint64_t pc = start + STEP * (uint64_t)((first + i * step) % count);
		symbolize_pc(whole, pc, true, 0, &wanted);
		symbolize_pc(lazy, pc, true, 0, &got);
		assert_same(&got, &wanted);
		lines += got.count && got.frames[0].line > 0;
	}
	assert_true(lines > 5);
	symbolizer_free(whole);
	symbolizer_free(lazy);
	interner_free(interner);
}

static void answers_are_those_of_the_library_read_whole(void **state)
{
	static const struct {
		const char *flags, *removed;
	} rows[] = {
		{"-gdwarf-5", ".none"},		 {"-gdwarf-4", ".none"},
		{"-gdwarf-5 -flto", ".none"},	 {"-gdwarf-5 -O0", ".none"},
		{"-gdwarf-5", ".debug_aranges"}, {"-gdwarf-5", ".eh_frame_hdr"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (shell("cd '%s' && rm -f *.so && gcc -O2 %s -fPIC -shared -w -o plain.so "
			  "a.c x.c b.c c.c 2>/dev/null && objcopy -R %s plain.so && objcopy "
			  "--compress-debug-sections=zlib plain.so compressed.so && objcopy "
			  "--compress-debug-sections=zlib-gnu plain.so whole.so",
			  folder, rows[i].flags, rows[i].removed)) {
			printf("skipped: cannot build with %s\n", rows[i].flags);
			continue;
		}
		static const char *const libraries[] = {"plain.so", "compressed.so"};
		for (size_t j = 0; j < 2; j++) {
			compare_all(libraries[j], 0, 1);
			compare_all(libraries[j], 5, 3);
			compare_all(libraries[j], 40, 11);
		}
	}
}

static size_t unit_offsets(uint64_t *offsets, size_t size)
{
	char command[256];
	size_t count = 0;

	snprintf(command, sizeof(command),
		 "readelf --debug-dump=info --dwarf-depth=1 '%s/plain.so' "
		 "| sed -n 's/.*Compilation Unit @ offset \\(0x\\)*\\([0-9a-f]*\\):/\\2/p'",
		 folder);
	FILE *pipe = popen(command, "r");
	while (count < size && fscanf(pipe, "%lx", &offsets[count]) == 1)
		count++;
	pclose(pipe);
	return count;
}

/* Something of the unit but its head, which is read with the end of the one before. */
static bool has_body(const struct elf_bytes *info, uint64_t offset)
{
	enum { HEAD = 8192, SOME = 8192 };
	const uint8_t *body = info->data + offset + HEAD;

	return body[0] || memcmp(body, body + 1, SOME);
}

/* `at_once`: a third of the section is enough to be given all of it. */
static void check_units(const char *library, const uint64_t offsets[3], bool at_once)
{
	char path[128];
	Elf *image;
	struct elf_bytes info;

	path_of(path, library);
	elf_version(EV_CURRENT);
	const int fd = open(path, O_RDONLY);
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	struct lazy_dwarf *lazy = lazy_dwarf_new(fd, elf, &image);
	assert_non_null(lazy);
	assert_true(elf_section_bytes(image, ".debug_info", &info));
	assert_false(has_body(&info, offsets[1]));
	assert_false(has_body(&info, offsets[2]));
	assert_true(lazy_dwarf_need_unit(lazy, offsets[1]));
	assert_int_equal(info.data[offsets[1] + 4], 5); /* the version of DWARF */
	assert_true(has_body(&info, offsets[1]));
	assert_int_equal(has_body(&info, offsets[2]), at_once);
	assert_false(lazy_dwarf_need_unit(lazy, info.size));
	assert_false(lazy_dwarf_need_unit(lazy, UINT64_MAX - 2));
	assert_false(lazy_dwarf_need_lines(lazy, UINT64_MAX));
	assert_true(lazy_dwarf_need_heads(lazy));
	assert_int_equal(info.data[offsets[2] + 4], 5);
	assert_true(lazy_dwarf_fill(lazy));
	assert_true(has_body(&info, offsets[2]));
	elf_end(image);
	lazy_dwarf_free(lazy);
	elf_end(elf);
	close(fd);
}

static void units_are_there_once_asked_for_and_others_are_not(void **state)
{
	uint64_t offsets[8];
#ifdef HAVE_LIBDEFLATE
	const bool at_once = true;
#else
	const bool at_once = false;
#endif

	(void)state;
	assert_int_equal(shell("cd '%s' && gcc -g -O2 -fPIC -shared -w -o plain.so a.c b.c c.c && "
			       "objcopy --compress-debug-sections=zlib plain.so compressed.so",
			       folder),
			 0);
	assert_int_equal(unit_offsets(offsets, 8), 3);
	check_units("plain.so", offsets, false);
	check_units("compressed.so", offsets, at_once);
}

static unsigned next_random(unsigned *seed)
{
	*seed = *seed * 1103515245 + 12345;
	return *seed >> 8;
}

/* A section of random bytes, compressed; the first ones are all `first`. */
static void write_section(uint8_t first, size_t cut)
{
	char path[128];
	static uint8_t bytes[40 << 10], packed[48 << 10];
	unsigned seed = 1;
	uLongf size = sizeof(packed);
	Elf64_Chdr head = {.ch_type = ELFCOMPRESS_ZLIB, .ch_size = sizeof(bytes)};

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = i < 8192 ? first : (uint8_t)next_random(&seed);
	assert_int_equal(compress2(packed, &size, bytes, sizeof(bytes), 6), Z_OK);
	memset(packed + size - cut, 0xff, cut);
	path_of(path, "section");
	FILE *file = fopen(path, "w");
	assert_int_equal(fwrite(&head, sizeof(head), 1, file), 1);
	assert_int_equal(fwrite(packed, size, 1, file), 1);
	fclose(file);
}

static void start_section(struct lazy_section *section, int *fd)
{
	struct stat status;
	char path[128];

	path_of(path, "section");
	*fd = open(path, O_RDONLY);
	assert_int_equal(fstat(*fd, &status), 0);
	const GElf_Shdr header = {.sh_size = (uint64_t)status.st_size,
				  .sh_flags = SHF_COMPRESSED};
	*section = (struct lazy_section){0};
	assert_true(lazy_section_plan(section, *fd, &header));
	section->out = alloc_zeroed(1, section->size);
	assert_true(lazy_section_start(section, false));
}

static void end_section(struct lazy_section *section, int fd)
{
	lazy_section_release(section);
	free(section->out);
	close(fd);
}

/* libdw remembers what it has checked: the file may be written anew, the bytes that it was given
 * may not. */
static void bytes_once_given_stay_as_they_are(void **state)
{
	enum { SMALL = 4096, PLACE = 100 };
	struct lazy_section section;
	int fd;

	(void)state;
	write_section('A', 0);
	start_section(&section, &fd);
	assert_true(lazy_section_need(&section, fd, 0, SMALL));
	assert_int_equal(section.out[PLACE], 'A');
	write_section('B', 0);
	(void)lazy_section_need(&section, fd, section.size - SMALL, SMALL);
	assert_int_equal(section.out[PLACE], 'A');
	end_section(&section, fd);
	/* As it was: all of it can be had. */
	start_section(&section, &fd);
	assert_true(lazy_section_need(&section, fd, 0, SMALL));
	assert_true(lazy_section_need(&section, fd, section.size - SMALL, SMALL));
	assert_int_equal(section.out[PLACE], 'B');
	assert_int_equal(section.done, section.size);
	end_section(&section, fd);
}

/* Not all at once, then. */
static void a_section_with_a_damaged_end_has_a_beginning(void **state)
{
	enum { MOST = 24 << 10, PLACE = 100 };
	struct lazy_section section;
	int fd;

	(void)state;
	write_section('A', 4096);
	start_section(&section, &fd);
	assert_true(lazy_section_need(&section, fd, 0, MOST));
	assert_int_equal(section.out[PLACE], 'A');
	for (uint64_t i = section.done; i < section.size; i++)
		assert_int_equal(section.out[i], 0);
	assert_false(lazy_section_need(&section, fd, 0, section.size));
	end_section(&section, fd);
}

static void damage(const char *library)
{
	static char original[MAX_BYTES], bytes[MAX_BYTES];
	char path[128];
	unsigned long start, size;
	unsigned seed = 11;

	assert_int_equal(
		shell("cd '%s' && gcc -g -O2 -fPIC -shared -w -o plain.so a.c x.c b.c c.c && "
		      "objcopy --compress-debug-sections=zlib plain.so compressed.so",
		      folder),
		0);
	text_range("plain.so", &start, &size);
	path_of(path, library);
	FILE *file = fopen(path, "r");
	const size_t length = fread(original, 1, MAX_BYTES, file);
	fclose(file);
	for (int round = 0; round < ROUNDS; round++) {
		struct interner *interner = interner_new();
		struct symbolizer *symbolizer = symbolizer_new(interner);
		struct symbolize_result result;
		struct error error;
		memcpy(bytes, original, length);
		for (int i = 0; i < 1 + round % 10; i++) {
			const size_t from = round % 3 ? 0x2000 : length - 3000;
			bytes[from + next_random(&seed) % (length - from)] =
				(char)next_random(&seed);
		}
		path_of(path, "damaged.so");
		file = fopen(path, "w");
		fwrite(bytes, 1, round % 10 == 9 ? length / 2 : length, file);
		fclose(file);
		struct symbolize_module module = {
			.path = path, .fd = open(path, O_RDONLY), .root_fd = -1};
		if (symbolizer_open(symbolizer, &module, &error))
			for (uint64_t pc = start; pc < start + size; pc += STEP)
				symbolize_pc(symbolizer, pc, true, 0, &result);
		close(module.fd);
		symbolizer_free(symbolizer);
		interner_free(interner);
	}
}

static void damaged_sections_do_no_harm(void **state)
{
	(void)state;
	alarm(120);
	damage("compressed.so");
	damage("plain.so");
	alarm(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_are_those_of_the_library_read_whole),
		cmocka_unit_test(units_are_there_once_asked_for_and_others_are_not),
		cmocka_unit_test(bytes_once_given_stay_as_they_are),
		cmocka_unit_test(a_section_with_a_damaged_end_has_a_beginning),
		cmocka_unit_test(damaged_sections_do_no_harm),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
