/* SPDX-License-Identifier: MIT */
/*
 * The variable that a function returns, told from its code: as compilers make it for libraries and
 * executables, with and without a frame pointer and endbr64; and from code that does anything else.
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

#include <cmocka.h>

#include "python/locate.h"
#include "tests/unit/module_symbol.h"

static char directory[] = "/tmp/python_locate_testXXXXXX";
static struct module_table table;

static bool read_own(const struct memory_reader *memory, remote_addr address, void *buffer,
		     size_t size, struct error *error)
{
	(void)memory, (void)error;
	memcpy(buffer, (const void *)(uintptr_t)address, size);
	return true;
}

static const struct memory_reader own = {.read = read_own};

static const char source[] =
	"struct state { long first[3]; long *head; long more[200]; long *current; };"
	"static long *hidden_head; long *shown_head; struct state state;"
	"long *get_hidden(void) { return hidden_head; }"
	"long *get_shown(void) { return shown_head; }"
	"long *get_near(void) { return state.head; }"
	"long *get_far(void) { return state.current; }"
	"long *get_loaded(void) { return *hidden_head ? hidden_head : shown_head; }"
	"long get_sum(void) { return state.first[0] + 1; }"
	"long get_deep(void) { return *state.head; }"
	"void set(long *to) { hidden_head = to; }"
	"void *hidden_place(void) { return &hidden_head; }";

struct library {
	void *handle;
	const struct module *module;
};

static struct library build(const char *name, const char *options)
{
	char command[2048], path[128];
	struct library library;
	struct link_map *map;
	struct module *module;
	struct error error;
	snprintf(path, sizeof(path), "%s/%s.so", directory, name);
	snprintf(command, sizeof(command), "cd %s && echo '%s' > %s.c && gcc -shared %s -o %s %s.c",
		 directory, source, name, options, path, name);
	assert_int_equal(system(command), 0);
	library.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(library.handle);
	assert_int_equal(dlinfo(library.handle, RTLD_DI_LINKMAP, &map), 0);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	if (!module_table_add(&table, path, fd, NULL, 0, map->l_addr, &module, &error))
		fail_msg("%s", error.message);
	library.module = module;
	return library;
}

static remote_addr variable_of(const struct library *library, uint64_t vaddr)
{
	struct error error = {0};
	const remote_addr variable = python_returned_variable(library->module, vaddr, &own, &error);
	assert_int_equal(error.kind, ERROR_NONE);
	return variable;
}

static remote_addr returned(const struct library *library, const char *function)
{
	uint64_t vaddr;
	struct error error;
	if (!module_symbol(library->module, function, &vaddr, NULL, &error))
		fail_msg("%s", error.message);
	return variable_of(library, vaddr);
}

static remote_addr place_of(const struct library *library, const char *variable)
{
	return (uintptr_t)dlsym(library->handle, variable);
}

static void variables_are_told_from_code(void **state)
{
	(void)state;
	static const char *const options[] = {
		"-O2 -fPIC",
		"-O1 -fPIC -fno-omit-frame-pointer",
		"-O2 -fPIC -fcf-protection=full",
		"-O2 -fPIC -fcf-protection=full -fno-omit-frame-pointer",
		"-O2 -fPIC -fvisibility=hidden -Wl,-Bsymbolic",
		"-O0 -fPIC",
	};
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		char name[16];
		snprintf(name, sizeof(name), "code%zu", i);
		struct library library = build(name, options[i]);
		uint64_t hidden;
		struct error error;
		assert_true(module_symbol(library.module, "hidden_head", &hidden, NULL, &error));
		assert_int_equal(returned(&library, "get_hidden"),
				 library.module->load_bias + hidden);
		if (i != 4) {
			remote_addr place = place_of(&library, "state");
			assert_int_equal(returned(&library, "get_shown"),
					 place_of(&library, "shown_head"));
			assert_int_equal(returned(&library, "get_near"), place + 24);
			assert_int_equal(returned(&library, "get_far"), place + 32 + 200 * 8);
		}
		assert_int_equal(returned(&library, "get_loaded"), 0);
		assert_int_equal(returned(&library, "get_sum"), 0);
		assert_int_equal(returned(&library, "get_deep"), 0);
		assert_int_equal(returned(&library, "set"), 0);
		assert_int_equal(returned(&library, "hidden_place"), 0);
		assert_int_equal(variable_of(&library, UINT64_MAX - 64), 0);
		dlclose(library.handle);
	}
}

static bool withhold(const struct memory_reader *reader, remote_addr address, void *buffer,
		     size_t size, struct error *error)
{
	(void)reader, (void)address, (void)buffer, (void)size;
	return error_set(error, ERROR_BUSY, "it does not come");
}

static void a_failed_read_is_no_answer(void **state)
{
	(void)state;
	static const struct memory_reader withheld = {.read = withhold};
	struct library library = build("unread", "-O2 -fPIC");
	struct error error = {0};
	uint64_t vaddr;
	assert_true(module_symbol(library.module, "get_shown", &vaddr, NULL, &error));
	assert_int_equal(python_returned_variable(library.module, vaddr, &withheld, &error), 0);
	assert_int_equal(error.kind, ERROR_BUSY);
	dlclose(library.handle);
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
		cmocka_unit_test(variables_are_told_from_code),
		cmocka_unit_test(a_failed_read_is_no_answer),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
