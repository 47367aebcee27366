/* SPDX-License-Identifier: MIT */
/*
 * Several symbols looked up at once: found in the dynamic table, the full one, without section
 * headers, in the separate debug file; and in tables that are damaged.
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
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "modules/jit.h"
#include "tests/unit/module_symbol.h"

enum { PUBLIC, HIDDEN, DATA, IMPORTED, ABSENT, COUNT, ROUNDS = 3000 };

static const char *const names[COUNT] = {"public_one", "hidden_one", "some_data", "puts",
					 "public_on"};
static char directory[] = "/tmp/modules_symbol_testXXXXXX";
static struct module_table table;

static struct module *add(const char *path)
{
	struct module *module;
	struct error error;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	if (!module_table_add(&table, path, fd, NULL, 0, 0, &module, &error))
		fail_msg("%s", error.message);
	return module;
}

static struct module *build(const char *name, const char *commands)
{
	char command[1024], path[128];
	snprintf(path, sizeof(path), "%s/%s.so", directory, name);
	snprintf(command, sizeof(command),
		 "cd %s && echo 'int puts(const char *); int some_data[4] = {1};"
		 "__attribute__((noipa)) static int hidden_one(int x) { return x + some_data[0]; }"
		 "int public_one(int x) { puts(\"\"); return hidden_one(x) + 2; }' > x.c && "
		 "gcc -O1 -shared -fPIC -Wl,--hash-style=gnu -o %s.so x.c && %s",
		 directory, name, commands);
	assert_int_equal(system(command), 0);
	return add(path);
}

static void assert_exported(const struct module *module, const bool expected[COUNT])
{
	struct module_place places[COUNT];
	module_find_exported(module, names, COUNT, places);
	for (size_t i = 0; i < COUNT; i++)
		assert_int_equal(places[i].found, expected[i]);
}

static void assert_found(const struct module *module, const bool expected[COUNT])
{
	struct module_place places[COUNT];
	size_t found = 0;
	memset(places, 0x55, sizeof(places));
	size_t count = module_find_symbols(module, names, COUNT, places);
	for (size_t i = 0; i < COUNT; i++) {
		struct error error;
		uint64_t vaddr = 0, size = 0;
		assert_int_equal(places[i].found, expected[i]);
		/* One at a time gives the same. */
		assert_int_equal(module_symbol(module, names[i], &vaddr, &size, &error),
				 expected[i]);
		assert_int_equal(places[i].vaddr, vaddr);
		assert_int_equal(places[i].size, size);
		assert_int_equal(size > 0, expected[i]);
		if (!expected[i])
			assert_int_equal(error.kind, ERROR_ABSENT);
		found += expected[i];
	}
	assert_int_equal(count, found);
}

static void each_table_gives_what_it_has(void **state)
{
	(void)state;
	static const bool all[COUNT] = {true, true, true}, dynamic[COUNT] = {true, false, true};
	struct module *module = build("full", "true");
	assert_found(module, all);
	assert_exported(module, dynamic);
	assert_found(build("stripped", "strip stripped.so"), dynamic);
	/* Without section headers the dynamic segment tells where the table is. */
	module = build("headless", "strip headless.so");
	module->section_count = 0;
	assert_found(module, dynamic);
	assert_exported(module, dynamic);
}

/* Also where the name lies across the pieces that are read, or is another's end. */
static void one_symbol_is_found_cheaply(void **state)
{
	(void)state;
	static const struct {
		const char *build, *name;
		bool there;
	} cases[] = {{"true", "public_one", true},
		     {"true", "hidden_one", true},
		     {"true", "some_data", true},
		     {"true", "puts", false},
		     {"true", "public_on", false},
		     {"true", "ublic_one", false},
		     {"strip cheap.so", "hidden_one", false},
		     {"strip cheap.so", "public_one", true}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint64_t vaddr = 0, wanted = 0;
		struct module *module = build("cheap", cases[i].build);
		assert_int_equal(symbol_scan(module, cases[i].name, &vaddr), cases[i].there);
		if (cases[i].there)
			assert_true(module_symbol(module, cases[i].name, &wanted, NULL, NULL));
		assert_int_equal(vaddr, wanted);
	}
	/* Two megabytes of names, in steps that do not fit the pieces. */
	char command[512], name[64], path[128];
	snprintf(path, sizeof(path), "%s/many.so", directory);
	snprintf(command, sizeof(command),
		 "cd %s && { for i in $(seq 100000 140000); do"
		 " echo \".globl name_of_a_symbol_that_is_rather_long_$i;"
		 "name_of_a_symbol_that_is_rather_long_$i: .byte 1\"; done; } > m.s &&"
		 " gcc -shared -nostdlib -o many.so m.s",
		 directory);
	assert_int_equal(system(command), 0);
	struct module *module = add(path);
	for (int i = 100000; i <= 140000; i += 37) {
		uint64_t vaddr = 0;
		snprintf(name, sizeof(name), "name_of_a_symbol_that_is_rather_long_%d", i);
		assert_true(symbol_scan(module, name, &vaddr));
		if (i > 100000 + 37 * 60 && i < 140000 - 37 * 60)
			i += 37 * 20;
	}
}

static void what_only_the_debug_file_has_is_found_there(void **state)
{
	(void)state;
	/* glibc's caller of main is local to libc. */
	static const char *const wanted[] = {"abort", "__libc_start_call_main", "no such name"};
	struct module_place places[3];
	struct link_map *map;
	void *library = dlopen("libc.so.6", RTLD_NOW);
	assert_int_equal(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
	struct module *module = add(map->l_name);
	char hex[65], path[128];
	assert_non_null(module);
	build_id_hex(&module->build_id, hex);
	snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%.2s/%s.debug", hex, hex + 2);
	size_t found = module_find_symbols(module, wanted, 3, places);
	assert_true(places[0].found);
	assert_int_equal(places[0].vaddr + map->l_addr, (uintptr_t)abort);
	assert_false(places[2].found);
	dlclose(library);
	if (access(path, R_OK) != 0) {
		print_message("skipped: libc has no debug file here\n");
		return;
	}
	assert_int_equal(found, 2);
	assert_true(places[1].found);
	assert_true(places[1].size > 0);
}

/* What compilers name the parts of a function like, and what only looks so. */
static void a_function_is_found_with_all_its_parts(void **state)
{
	const char *wanted[] = {"work", "wor"};
	(void)state;
	struct module_place parts[8], place;
	const char *const cold = "work.cold.3";
	char command[1024], path[128];
	snprintf(path, sizeof(path), "%s/parts.so", directory);
	snprintf(command, sizeof(command),
		 "cd %s && echo 'int work(int x) { return x; } int work_of_others(void) { return "
		 "2; }"
		 "__attribute__((used)) static int a(int) __asm__(\"work.cold.3\");"
		 "static int a(int x) { return x + 3; }"
		 "__attribute__((used)) static int b(int) __asm__(\"work.part.0\");"
		 "static int b(int x) { return x + 4; }"
		 "__attribute__((used)) static int work_data __asm__(\"work.data\") = 3;' > p.c && "
		 "gcc -O1 -shared -fPIC -o parts.so p.c",
		 directory);
	assert_int_equal(system(command), 0);
	struct module *module = add(path);
	assert_int_equal(module_find_parts(module, wanted, 1, parts, 8), 3);
	assert_int_equal(module_find_symbols(module, &cold, 1, &place), 1);
	bool seen = false;
	for (size_t i = 0; i < 3; i++) {
		assert_true(parts[i].found && parts[i].size > 0);
		seen |= parts[i].vaddr == place.vaddr && parts[i].size == place.size;
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(parts[i].vaddr, parts[k].vaddr);
	}
	assert_true(seen);
	assert_int_equal(module_find_parts(module, wanted, 1, parts, 2), 2);
	assert_int_equal(module_find_parts(module, wanted, 1, parts, 0), 0);
	assert_int_equal(module_find_parts(module, &wanted[1], 1, parts, 8), 0);
	wanted[1] = "work_of_others";
	assert_int_equal(module_find_parts(module, wanted, 2, parts, 8), 4);
}

static void nothing_is_asked_and_nothing_is_found(void **state)
{
	(void)state;
	struct module_place place;
	struct module *module = build("none", "true");
	const char *const empty[] = {""};
	assert_int_equal(module_find_symbols(module, names, 0, &place), 0);
	/* Unnamed symbols are sections and the like, not what the name "" asks for. */
	assert_int_equal(module_find_symbols(module, empty, 1, &place), 0);
}

/* Random bytes in the symbol tables and their names; a name table that does not end. */
static void damaged_tables_do_no_harm(void **state)
{
	(void)state;
	struct module *module = build("damaged", "true");
	struct stat status;
	assert_int_equal(fstat(module->fd, &status), 0);
	size_t size = (size_t)status.st_size;
	unsigned char *original = alloc_zeroed(1, size), *bytes = alloc_zeroed(1, size);
	assert_int_equal(pread(module->fd, original, size, 0), size);
	static const char *const sections[] = {".dynsym", ".dynstr", ".symtab", ".strtab"};
	unsigned seed = 3;
	for (int round = 0; round < ROUNDS; round++) {
		struct module_table one;
		struct module *damaged;
		struct module_place places[COUNT];
		struct error error;
		const struct module_section *section = module_section(module, sections[round % 4]);
		memcpy(bytes, original, size);
		for (int i = 0; i < 40; i++) {
			seed = seed * 1103515245 + 12345;
			bytes[section->file_offset + (seed >> 8) % section->size] =
				round % 8 < 4 ? 'p' : (unsigned char)(seed >> 4);
		}
		module_table_init(&one);
		assert_true(module_table_add(&one, "x", -1, bytes, size, 0, &damaged, &error));
		size_t found = module_find_symbols(damaged, names, COUNT, places), seen = 0;
		for (size_t i = 0; i < COUNT; i++)
			seen += places[i].found;
		assert_int_equal(seen, found);
		damaged->section_count = round % 2 ? 0 : damaged->section_count;
		module_find_symbols(damaged, names, COUNT, places);
		module_table_release(&one);
	}
	free(original);
	free(bytes);
}

static int set_up(void **state)
{
	(void)state;
	module_table_init(&table);
	return !mkdtemp(directory);
}

static int tear_down(void **state)
{
	(void)state;
	char command[300];
	module_table_release(&table);
	snprintf(command, sizeof(command), "rm -r '%s'", directory);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_table_gives_what_it_has),
		cmocka_unit_test(one_symbol_is_found_cheaply),
		cmocka_unit_test(what_only_the_debug_file_has_is_found_there),
		cmocka_unit_test(a_function_is_found_with_all_its_parts),
		cmocka_unit_test(nothing_is_asked_and_nothing_is_found),
		cmocka_unit_test(damaged_tables_do_no_harm),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
