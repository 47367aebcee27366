/* SPDX-License-Identifier: MIT */
/* Stacks that greenlet is copying back are known by the function that does it. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sample/internal.h"

/* The names are of local symbols. */
static const char source[] =
	"static __attribute__((noinline, used)) int %s(int n) { asm(\"\"); return n; }\n"
	"int other(int n) { asm(\"\"); return n + 1; }\n"
	"void *the_function(void) { return (void *)%s; }\n";

static char directory[] = "/tmp/stack_switch_test.XXXXXX";

/* Loads a library of that file name that has such a function; *function: where. */
static void *load(const char *file, const char *name, remote_addr *function)
{
	char path[200], command[500];
	snprintf(path, sizeof(path), "%s/f.c", directory);
	FILE *out = fopen(path, "w");
	assert_non_null(out);
	fprintf(out, source, name, name);
	fclose(out);
	snprintf(command, sizeof(command), "cc -O1 -shared -fPIC -o %s/%s %s", directory, file,
		 path);
	assert_int_equal(system(command), 0);
	snprintf(path, sizeof(path), "%s/%s", directory, file);
	void *handle = dlopen(path, RTLD_NOW);
	assert_non_null(handle);
	void *(*get)(void) = (void *(*)(void))dlsym(handle, "the_function");
	*function = (remote_addr)(uintptr_t)get();
	return handle;
}

/* Whether a stack of frames of these functions, innermost first, is being replaced. */
static bool is_replaced(struct stack_switch *known, const struct module_table *modules,
			const remote_addr *functions, size_t count)
{
	struct unwind_frame frames[16];
	assert_true(count <= sizeof(frames) / sizeof(*frames));
	memset(frames, 0, sizeof(frames));
	for (size_t i = 0; i < count; i++)
		frames[i].function = functions[i];
	const struct unwind_stack stack = {.frames = frames, .count = count};
	return stack_switch_under_way(known, modules, &stack);
}

static void refresh(struct module_table *modules, struct target *target)
{
	assert_true(module_table_refresh(modules, target, NULL, NULL));
}

static void the_copying_function_is_found(void **state)
{
	struct target *target;
	struct module_table modules;
	struct stack_switch known = {0};
	remote_addr newer, older, foreign;
	(void)state;
	assert_true(target_open(getpid(), &target, NULL));
	module_table_init(&modules);
	refresh(&modules, target);
	const remote_addr none[] = {0, 1, 2};
	assert_false(is_replaced(&known, &modules, none, 3));

	void *libraries[] = {
		load("_greenlet.cpython-39-x86_64-linux-gnu.so", "slp_restore_state_trampoline",
		     &newer),
		load("greenlet.so", "slp_restore_state", &older),
		load("another.so", "slp_restore_state", &foreign),
	};
	refresh(&modules, target);
	const remote_addr leaf[] = {newer, 1}, old_leaf[] = {older, 1}, other[] = {foreign, 1};
	const remote_addr caller[] = {1, 2, 3, newer, 4}, none_now[] = {newer + 1, older - 1};
	const remote_addr far[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, newer};
	assert_true(is_replaced(&known, &modules, leaf, 2));
	assert_true(is_replaced(&known, &modules, old_leaf, 2));
	assert_true(is_replaced(&known, &modules, caller, 5));
	assert_false(is_replaced(&known, &modules, other, 2)); /* not greenlet's */
	assert_false(is_replaced(&known, &modules, none_now, 2));
	assert_false(is_replaced(&known, &modules, far, 10));
	assert_false(is_replaced(&known, &modules, leaf, 0));
	/* Each module has been looked at once. */
	assert_int_equal(known.looked_at, modules.module_count);

	for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++)
		dlclose(libraries[i]);
	module_table_release(&modules);
	target_free(target);
}

static int set_up(void **state)
{
	(void)state;
	return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[100];
	(void)state;
	snprintf(command, sizeof(command), "rm -r '%s'", directory);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_copying_function_is_found),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
