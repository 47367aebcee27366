/* SPDX-License-Identifier: MIT */
/*
 * The module table against the dynamic loader's own list, over libraries that are built here in
 * every layout: GNU ld's two, lld's, a deleted one, one loaded twice. And hostile maps and files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "modules/internal.h"
#include "tests/unit/module_symbol.h"

static char directory[] = "/tmp/modules_module_testXXXXXX";
static struct target *self;
static struct module_table table;

/* Builds lib<name>.so with one function and some data; false: that linker is not here. */
static bool build(const char *name, const char *flags, char path[256])
{
	char command[1024];
	snprintf(path, 256, "%s/lib%s.so", directory, name);
	snprintf(command, sizeof(command),
		 "echo 'int data = 3; int bss[9000]; const int ro[999] = {1};"
		 "int answer_%s(void) { return data + bss[0] + ro[0]; }' > %s/x.c && "
		 "cc -shared -fPIC -g -Wl,--build-id -o '%s' %s/x.c %s 2>/dev/null",
		 name, directory, path, directory, flags);
	return system(command) == 0;
}

static void refresh(bool *changed)
{
	struct error error = {0};
	if (!module_table_refresh(&table, self, changed, &error))
		fail_msg("%s", error.message);
}

static struct module *module_at(const void *address)
{
	const struct mapping *mapping = module_table_find(&table, (uintptr_t)address);
	return mapping ? mapping->module : NULL;
}

static struct module *module_of_vdso(void)
{
	return module_at((void *)getauxval(AT_SYSINFO_EHDR));
}

static int check_module(struct dl_phdr_info *info, size_t size, void *count)
{
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
			continue;
		struct module *module = module_at((void *)(info->dlpi_addr + segment->p_vaddr));
		if (!module) {
			print_error("no module for %s\n", info->dlpi_name);
			return 1;
		}
		if (module->load_bias != info->dlpi_addr) {
			print_error("%s: bias %lx, should be %lx\n", module->path,
				    (unsigned long)module->load_bias,
				    (unsigned long)info->dlpi_addr);
			return 1;
		}
		(*(size_t *)count)++;
	}
	return 0;
}

static void assert_biases_agree(void)
{
	size_t count = 0;
	refresh(NULL);
	assert_int_equal(dl_iterate_phdr(check_module, &count), 0);
	assert_true(count >= 4);
}

/* The symbol through our eyes is where the loader says it is, and its bytes are the same. */
static void assert_symbol_agrees(const char *name, const void *address)
{
	struct module *module = module_at(address);
	struct error error = {0};
	uint64_t vaddr, size;
	unsigned char bytes[16];
	assert_non_null(module);
	if (!module_symbol(module, name, &vaddr, &size, &error) ||
	    !module_read(module, vaddr, bytes, sizeof(bytes), &error))
		fail_msg("%s", error.message);
	assert_int_equal(vaddr + module->load_bias, (uintptr_t)address);
	assert_true(size > 0);
	assert_memory_equal(bytes, address, sizeof(bytes));
	assert_true(module->build_id.size > 0);
	assert_true(module->headers.eh_frame_hdr_size > 0);
	assert_true((uintptr_t)address >= module->start && (uintptr_t)address < module->end);
}

static void every_library_has_the_loaders_bias(void **state)
{
	(void)state;
	assert_biases_agree();
}

static void every_layout_has_the_loaders_bias(void **state)
{
	(void)state;
	static const struct {
		const char *name, *flags;
	} rows[] = {
		{"plain", ""},
		{"noseparate", "-Wl,-z,noseparate-code"},
		{"lld", "-fuse-ld=lld -Wl,-z,noseparate-code"},
		{"lldrosegment", "-fuse-ld=lld -Wl,--no-rosegment"},
		{"lldseparate", "-fuse-ld=lld -Wl,-z,separate-loadable-segments"},
		{"norelro", "-Wl,-z,norelro"},
		{"nosections", "-Wl,-s"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char path[256], symbol[64];
		if (!build(rows[i].name, rows[i].flags, path)) {
			print_message("skipped: cannot build with %s\n", rows[i].flags);
			continue;
		}
		void *library = dlopen(path, RTLD_NOW);
		assert_non_null(library);
		snprintf(symbol, sizeof(symbol), "answer_%s", rows[i].name);
		assert_biases_agree();
		assert_symbol_agrees(symbol, dlsym(library, symbol));
		/* All mappings of it belong to it. */
		struct module *module = module_at(dlsym(library, symbol));
		for (size_t k = 0; k < table.mapping_count; k++)
			if (strcmp(table.mappings[k].path, path) == 0)
				assert_ptr_equal(table.mappings[k].module, module);
		assert_string_equal(module->path, path);
		assert_string_equal(module->name, strrchr(path, '/') + 1);
	}
}

static void one_file_loaded_twice_is_two_modules(void **state)
{
	(void)state;
	char path[256];
	assert_true(build("twice", "", path));
	void *first = dlopen(path, RTLD_NOW), *second = dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
	if (!second) {
		print_message("skipped: dlmopen: %s\n", dlerror());
		return;
	}
	refresh(NULL);
	struct module *a = module_at(dlsym(first, "answer_twice"));
	struct module *b = module_at(dlsym(second, "answer_twice"));
	assert_non_null(a);
	assert_non_null(b);
	assert_ptr_not_equal(a, b);
	assert_symbol_agrees("answer_twice", dlsym(first, "answer_twice"));
	assert_symbol_agrees("answer_twice", dlsym(second, "answer_twice"));
	assert_true(a->end <= b->start || b->end <= a->start);
}

static void a_deleted_file_is_still_read(void **state)
{
	(void)state;
	char path[256];
	assert_true(build("deleted", "", path));
	void *library = dlopen(path, RTLD_NOW);
	assert_non_null(library);
	unlink(path);
	refresh(NULL);
	const void *address = dlsym(library, "answer_deleted");
	assert_symbol_agrees("answer_deleted", address);
	assert_string_equal(module_at(address)->name, "libdeleted.so");
}

/* A file in memory is on no file system that is mounted: it may never answer. */
static void a_file_that_may_never_answer_is_opened_later(void **state)
{
	(void)state;
	char path[256], in_memory[64];
	uint8_t bytes[65536];
	assert_true(build("far", "", path));
	const int from = open(path, O_RDONLY | O_CLOEXEC);
	const int file = memfd_create("libfar.so", MFD_CLOEXEC);
	const ssize_t size = read(from, bytes, sizeof(bytes));
	assert_true(from >= 0 && size > 0 && write(file, bytes, (size_t)size) == size);
	close(from);
	snprintf(in_memory, sizeof(in_memory), "/proc/self/fd/%d", file);
	void *library = dlopen(in_memory, RTLD_NOW);
	assert_non_null(library);
	const void *address = dlsym(library, "answer_far");

	table.near_alone = true;
	refresh(NULL);
	table.near_alone = false;
	assert_true(table.has_put_off);
	assert_null(module_at(address));
	assert_non_null(module_of_vdso());
	refresh(NULL);
	assert_false(table.has_put_off);
	assert_symbol_agrees("answer_far", address);
	assert_int_equal(dlclose(library), 0);
	close(file);
}

/* As when there is neither a path nor the privilege for map_files. */
static void an_image_is_read_out_of_memory(void **state)
{
	(void)state;
	char path[256];
	assert_true(build("memory", "", path));
	void *library = dlopen(path, RTLD_NOW);
	assert_non_null(library);
	refresh(NULL);
	const void *address = dlsym(library, "answer_memory");
	struct maps_line lines[16];
	size_t count = 0;
	for (size_t i = 0; i < table.mapping_count && count < 16; i++) {
		const struct mapping *mapping = &table.mappings[i];
		if (strcmp(mapping->path, path) != 0)
			continue;
		/* No such file, no such range in map_files. */
		lines[count++] =
			(struct maps_line){mapping->start,	mapping->end, mapping->offset, 1, 1,
					   mapping->protection, "/none"};
	}
	struct module *module = NULL;
	struct error error = {0};
	struct maps_line split = lines[0];
	assert_true(count > 2);
	/* The first line's name in map_files must not exist: its end is moved by a page. */
	lines[0].end = split.start + 4096 < split.end ? split.end - 4096 : split.end + 4096;
	assert_false(module_open(self, lines, count, false, 100, &module, &error));
	assert_int_equal(error.kind, ERROR_ABSENT);
	if (!module_open(self, lines, count, false, 1 << 20, &module, &error))
		fail_msg("%s", error.message);
	assert_int_equal(module->fd, -1);
	module->load_bias = module_at(address)->load_bias;
	uint64_t vaddr;
	unsigned char bytes[16];
	assert_true(module_symbol(module, "answer_memory", &vaddr, NULL, &error));
	assert_int_equal(vaddr + module->load_bias, (uintptr_t)address);
	assert_true(module_read(module, vaddr, bytes, sizeof(bytes), &error));
	assert_memory_equal(bytes, address, sizeof(bytes));
	assert_int_equal(module->build_id.size, module_at(address)->build_id.size);
	module_free(module);
}

static void the_vdso_is_a_module(void **state)
{
	(void)state;
	const char *start = (const char *)getauxval(AT_SYSINFO_EHDR);
	uint64_t vaddr;
	struct error error = {0};
	if (!start) {
		print_message("skipped: no vDSO here\n");
		return;
	}
	refresh(NULL);
	struct module *module = module_at(start);
	assert_non_null(module);
	assert_string_equal(module->name, "[vdso]");
	assert_int_equal(module->load_bias, (uintptr_t)start);
	assert_true(module_symbol(module, "__vdso_clock_gettime", &vaddr, NULL, &error));
	assert_true(module->headers.eh_frame_hdr_size > 0);
}

static void the_generation_moves_with_code_alone(void **state)
{
	(void)state;
	char path[256];
	bool changed;
	refresh(NULL);
	refresh(&changed);
	assert_false(changed);
	uint64_t generation = table.generation;
	void *data = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	refresh(&changed);
	assert_false(changed);
	assert_non_null(module_table_find(&table, (uintptr_t)data));
	assert_true(build("generation", "", path));
	void *library = dlopen(path, RTLD_NOW);
	const void *address = dlsym(library, "answer_generation");
	refresh(&changed);
	assert_true(changed);
	assert_true(table.generation > generation);
	struct module *module = module_at(address);
	dlclose(library);
	refresh(&changed);
	assert_true(changed);
	assert_null(module_at(address));
	/* It is still there for samples taken before, and again when it comes back. */
	assert_string_equal(module->path, path);
	library = dlopen(path, RTLD_NOW);
	refresh(&changed);
	if (dlsym(library, "answer_generation") == address)
		assert_ptr_equal(module_at(address), module);
	munmap(data, 1 << 20);
}

static void lines_are_parsed_whatever_the_path(void **state)
{
	(void)state;
	static const struct {
		const char *text, *path;
		uint64_t start, offset, inode;
	} rows[] = {
		{"7f00-8000 r-xp 00001000 fe:01 42      /usr/lib/a b.so", "/usr/lib/a b.so", 0x7f00,
		 0x1000, 42},
		{"7f00-8000 rw-p 00000000 00:00 0 ", "", 0x7f00, 0, 0},
		{"7f00-8000 rw-p 00000000 00:00 0", "", 0x7f00, 0, 0},
		{"7f00-8000 r--s 00000000 00:05 7 /x\\012y (deleted)", "/x\ny (deleted)", 0x7f00, 0,
		 7},
		{"7f00-8000 r--s 00000000 00:05 7 /\xff\xfe", "/\xff\xfe", 0x7f00, 0, 7},
		{"7f00-8000 r--p 00000000 00:00 0  [vdso]", "[vdso]", 0x7f00, 0, 0},
	};
	static const char *const bad[] = {
		"",
		"7f00",
		"7f00-",
		"7f00-8000",
		"7f00-8000 r-x",
		"7f00-8000 r-xp",
		"7f00-8000 r-xp 0 fe",
		"7f00-8000 r-xp 0 fe:1",
		"7f00-8000 r-xp 0 fe:1 ",
		"8000-7f00 r-xp 0 fe:1 4 /x",
		"zz-yy r-xp 0 fe:1 4 /x",
		"7f00-8000 r-xp0 fe:1 4 /x",
	};
	struct maps_line line;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *text = alloc_string(rows[i].text);
		assert_true(maps_parse_line(text, &line));
		assert_string_equal(line.path, rows[i].path);
		assert_int_equal(line.start, rows[i].start);
		assert_int_equal(line.offset, rows[i].offset);
		assert_int_equal(line.inode, rows[i].inode);
		free(text);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char *text = alloc_string(bad[i]);
		assert_false(maps_parse_line(text, &line));
		free(text);
	}
}

/* Every byte of the headers set to every of some values, and every truncation: an error or a
 * module, never a crash; what is found can be asked for. */
static void a_hostile_file_does_no_harm(void **state)
{
	(void)state;
	static const unsigned char values[] = {0, 1, 0x7f, 0x80, 0xff};
	char path[256];
	assert_true(build("hostile", "", path));
	int fd = open(path, O_RDONLY);
	struct stat status;
	assert_int_equal(fstat(fd, &status), 0);
	size_t size = (size_t)status.st_size;
	unsigned char *bytes = alloc_zeroed(1, size);
	assert_int_equal(read(fd, bytes, size), size);
	close(fd);
	uint64_t vaddr;
	char word[8];
	for (size_t at = 0; at < 1024; at++) {
		unsigned char saved = bytes[at];
		for (size_t i = 0; i < sizeof(values); i++) {
			struct module_table one;
			struct module *module;
			struct error error = {0};
			module_table_init(&one);
			bytes[at] = values[i];
			size_t part = i == 0 ? size * at / 1024 : size;
			if (module_table_add(&one, "hostile", -1, bytes, part, 0, &module,
					     &error)) {
				(void)!module_symbol(module, "none", &vaddr, NULL, &error);
				(void)!module_read(module, module->segments[0].vaddr, word, 8,
						   NULL);
				module->section_count = 0;
				(void)!module_symbol(module, "none", &vaddr, NULL, &error);
			} else {
				assert_int_equal(error.kind, ERROR_CORRUPT);
			}
			module_table_release(&one);
		}
		bytes[at] = saved;
	}
	free(bytes);
}

static void reads_outside_of_the_segments_are_refused(void **state)
{
	(void)state;
	char path[256], word[8];
	struct error error = {0};
	struct module *module;
	struct module_table one;
	module_table_init(&one);
	assert_true(build("bounds", "", path));
	assert_true(
		module_table_add(&one, path, open(path, O_RDONLY), NULL, 0, 0, &module, &error));
	const struct module_segment *last = &module->segments[module->segment_count - 1];
	/* The end of .bss reads as zeros. */
	assert_true(module_read(module, last->vaddr + last->memory_size - 8, word, 8, &error));
	assert_memory_equal(word, "\0\0\0\0\0\0\0\0", 8);
	assert_false(module_read(module, last->vaddr + last->memory_size - 4, word, 8, &error));
	assert_int_equal(error.kind, ERROR_CORRUPT);
	assert_false(module_read(module, UINT64_MAX - 3, word, 8, &error));
	assert_false(module_read_file(module, UINT64_MAX - 3, word, 8, &error));
	assert_false(module_read_file(module, 1 << 30, word, 8, &error));
	/* Truncated under us: an error, not a signal. */
	assert_int_equal(truncate(path, 100), 0);
	assert_false(module_read(module, last->vaddr, word, 8, &error));
	assert_int_equal(error.kind, ERROR_CORRUPT);
	module_table_release(&one);
}

/* Loads it where it was not loaded before. */
static void *load_elsewhere(const char *path, void *handle, const void *former)
{
	void *const page = (void *)((uintptr_t)former & ~(uintptr_t)0xfff);
	dlclose(handle);
	assert_ptr_equal(mmap(page, 4096, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
			 page);
	handle = dlopen(path, RTLD_NOW);
	assert_non_null(handle);
	return handle;
}

static void the_next_program_shares_what_has_not_changed(void **state)
{
	(void)state;
	char path[256];
	assert_true(build("program", "", path));
	void *handle = dlopen(path, RTLD_NOW);
	void *address = dlsym(handle, "answer_program");
	refresh(NULL);
	struct module *const before = module_at(address), *const vdso = module_of_vdso();
	const size_t count = table.module_count;
	const uint64_t bias = before->load_bias;
	handle = load_elsewhere(path, handle, address);
	address = dlsym(handle, "answer_program");
	module_table_forget_program(&table);
	assert_null(module_at(address));
	refresh(NULL);
	assert_ptr_equal(module_at(address), before);
	assert_ptr_equal(module_of_vdso(), vdso);
	assert_int_not_equal(before->load_bias, bias);
	assert_int_equal(table.module_count, count);
	assert_biases_agree();
	/* Written to since it was opened: the same file, other contents perhaps. */
	const int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_int_equal(write(fd, "", 1), 1);
	close(fd);
	module_table_forget_program(&table);
	refresh(NULL);
	assert_ptr_not_equal(module_at(address), before);
	assert_ptr_equal(module_of_vdso(), vdso);
	assert_int_equal(table.module_count, count + 1);
	assert_biases_agree();
	dlclose(handle);
}

static int set_up(void **state)
{
	(void)state;
	struct error error;
	module_table_init(&table);
	return !mkdtemp(directory) || !target_open(getpid(), &self, &error);
}

static int tear_down(void **state)
{
	(void)state;
	char command[300];
	module_table_release(&table);
	target_free(self);
	snprintf(command, sizeof(command), "rm -r '%s'", directory);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_library_has_the_loaders_bias),
		cmocka_unit_test(every_layout_has_the_loaders_bias),
		cmocka_unit_test(one_file_loaded_twice_is_two_modules),
		cmocka_unit_test(a_deleted_file_is_still_read),
		cmocka_unit_test(a_file_that_may_never_answer_is_opened_later),
		cmocka_unit_test(an_image_is_read_out_of_memory),
		cmocka_unit_test(the_vdso_is_a_module),
		cmocka_unit_test(the_generation_moves_with_code_alone),
		cmocka_unit_test(lines_are_parsed_whatever_the_path),
		cmocka_unit_test(a_hostile_file_does_no_harm),
		cmocka_unit_test(reads_outside_of_the_segments_are_refused),
		cmocka_unit_test(the_next_program_shares_what_has_not_changed),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
