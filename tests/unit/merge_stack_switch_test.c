/* SPDX-License-Identifier: MIT */
/* Stacks that greenlet may be copying back are known by the function that does it. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "merge/internal.h"

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

/* Whether a stack is being replaced that is at these places, innermost first. */
static bool is_replaced(struct stack_switch *known, struct module_table *modules,
			const remote_addr *places, size_t count)
{
	struct unwind_frame frames[16];
	assert_true(count <= sizeof(frames) / sizeof(*frames));
	memset(frames, 0, sizeof(frames));
	for (size_t i = 0; i < count; i++) {
		frames[i].pc = places[i] + (i > 0);
		frames[i].pc_kind = i > 0 ? UNWIND_PC_RETURN : UNWIND_PC_EXACT;
	}
	const struct unwind_stack stack = {.frames = frames, .count = count};
	stack_switch_follow(known, modules);
	return stack_switch_under_way(known, modules, &stack);
}

static void refresh(struct module_table *modules, struct target *target)
{
	assert_true(module_table_refresh(modules, target, NULL, NULL));
}

static void the_copying_function_is_found(void **state)
{
	/* That it is once again another module is what exec does, too. */
	static const struct {
		const char *file, *name;
		bool found;
	} cases[] = {
		{"_greenlet.cpython-39-x86_64-linux-gnu.so", "slp_restore_state_trampoline", true},
		{"greenlet.so", "slp_restore_state", true},
		{"greenlet.cpython-27.so", "slp_restore_state", true},
		{"_greenlet.abi3.so", "slp_restore_state_trampoline", true},
		{"_greenlet.other.so", "slp_save_state_trampoline", false},
		{"another.so", "slp_restore_state", false},
		{"_gevent_c_greenlet_primitives.so", "slp_restore_state", false},
	};
	enum { CASES = sizeof(cases) / sizeof(*cases) };
	struct target *target;
	struct module_table modules;
	struct stack_switch known = {0};
	remote_addr functions[CASES];
	void *libraries[CASES];
	(void)state;
	assert_true(target_open(getpid(), &target, NULL));
	module_table_init(&modules);
	refresh(&modules, target);
	const remote_addr ours = (remote_addr)(uintptr_t)is_replaced;
	assert_false(is_replaced(&known, &modules, (const remote_addr[]){ours, 0, 1}, 3));
	assert_false(known.possible);

	for (size_t i = 0; i < CASES; i++)
		libraries[i] = load(cases[i].file, cases[i].name, &functions[i]);
	refresh(&modules, target);
	for (int twice = 0; twice < 2; twice++)
		for (size_t i = 0; i < CASES; i++) {
			const remote_addr at = functions[i];
			assert_int_equal(is_replaced(&known, &modules, &at, 1), cases[i].found);
			const remote_addr below[] = {ours, ours, ours, at, ours};
			assert_int_equal(is_replaced(&known, &modules, below, 5), cases[i].found);
			const remote_addr far[] = {ours, ours, ours, ours, ours,
						   ours, ours, ours, at};
			assert_false(is_replaced(&known, &modules, far, 9));
		}
	assert_int_equal(known.count, 5); /* each module of greenlet's, once */
	/* Its own code only, from its first byte to its last one. */
	const remote_addr start = known.code[0].address, end = start + known.code[0].size,
			  before = start - 1, last = end - 1;
	assert_false(is_replaced(&known, &modules, &before, 1));
	assert_true(is_replaced(&known, &modules, &start, 1));
	assert_true(is_replaced(&known, &modules, &last, 1));
	assert_false(is_replaced(&known, &modules, &end, 1));
	assert_false(is_replaced(&known, &modules, NULL, 0));

	for (size_t i = 0; i < CASES; i++)
		dlclose(libraries[i]);
	stack_switch_release(&known);
	module_table_release(&modules);
	target_free(target);
}

static void a_greenlets_first_function_is_found_once_a_module(void **state)
{
	static const struct {
		const char *file, *name;
		bool found;
	} cases[] = {
		{"_greenlet.cpython-313-x86_64-linux-gnu.so",
		 "_ZN8greenlet12UserGreenlet15inner_bootstrapEP9_greenletP7_object", true},
		{"_greenlet.cpython-39-x86_64.so",
		 "_ZN8greenlet12UserGreenlet15inner_bootstrapEPNS_9PyGreenletE", true},
		{"_greenlet.abi4.so", "g_initialstub", false},
		{"_gevent.so", "_ZN8greenlet12UserGreenlet15inner_bootstrapEP9_greenlet", false},
	};
	struct target *target;
	struct module_table modules;
	struct stack_switch known = {0};
	(void)state;
	assert_true(target_open(getpid(), &target, NULL));
	module_table_init(&modules);
	for (size_t i = 0, roots = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		remote_addr function;
		load(cases[i].file, cases[i].name, &function);
		refresh(&modules, target);
		assert_int_equal(stack_switch_follow(&known, &modules), cases[i].found);
		roots += cases[i].found;
		assert_int_equal(known.root_count, roots);
		if (cases[i].found)
			assert_int_equal(known.roots[roots - 1], function);
		assert_false(stack_switch_follow(&known, &modules));
	}
	stack_switch_release(&known);
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
		cmocka_unit_test(a_greenlets_first_function_is_found_once_a_module),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
