/* SPDX-License-Identifier: MIT */
/*
 * The interpreter's own functions that a Python program can name: "sorted", "list.sort",
 * "math.sqrt". They are told by the tables that Python itself finds them in, so that they have the
 * same names whether the file is stripped or not, and whether a module of the standard library is
 * in the interpreter or a file of its own. Everything else in the interpreter is hidden.
 */
#include "sample/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/sorted.h"
#include "base/strbuf.h"

/* The functions of one module that are shown, in order. */
struct shown_functions {
	const struct module *module;
	struct range {
		uint64_t start, end;
	} * ranges;
	size_t count, capacity;
};

struct c_functions {
	struct interner *strings;
	int root;
	struct shown_functions *modules; /* interpreters: there is one, hardly ever two */
	size_t count, capacity;
};

struct c_functions *c_functions_new(const struct target *target, struct interner *strings)
{
	struct c_functions *functions = alloc_zeroed(1, sizeof(*functions));
	functions->strings = strings;
	functions->root = target ? target_root(target) : -1;
	return functions;
}

void c_functions_free(struct c_functions *functions)
{
	if (!functions)
		return;
	for (size_t i = 0; i < functions->count; i++)
		free(functions->modules[i].ranges);
	free(functions->modules);
	free(functions);
}

/*
 * How the interpreter calls what it is asked to call, looks attributes up and goes through
 * generators: a part of every stack, named in none.
 */
static bool is_machinery(const char *type, size_t size)
{
	static const char *const types[] = {
		"object",
		"type",
		"super",
		"function",
		"method",
		"builtin_function_or_method",
		"classmethod",
		"method_descriptor",
		"classmethod_descriptor",
		"staticmethod",
		"wrapper_descriptor",
		"method-wrapper",
		"property",
		"member_descriptor",
		"getset_descriptor",
		"instance",
		"instancemethod",
		"classobj",
		"generator",
		"coroutine",
		"coroutine_wrapper",
		"module",
		"async_generator",
		"async_generator_asend",
	};
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (strlen(types[i]) == size && memcmp(types[i], type, size) == 0)
			return true;
	return false;
}

/* "tp_dealloc": nobody calls it by a name. */
static bool is_operation(const struct symbolize_stated *stated)
{
	const char *dot = strrchr(stated->name, '.');
	return dot && strncmp(dot, ".__", 3) == 0 &&
	       !is_machinery(stated->name, (size_t)(dot - stated->name));
}

bool c_function_is_shown(const struct symbolize_stated *stated)
{
	if (stated->uncertain)
		return false;
	return stated->evidence == SYMBOLIZE_METHOD || stated->evidence == SYMBOLIZE_PROPERTY ||
	       (stated->evidence == SYMBOLIZE_SLOT && is_operation(stated));
}

static void add_shown(void *context, const struct symbolize_stated *stated)
{
	struct shown_functions *shown = context;
	if (!c_function_is_shown(stated))
		return;
	shown->ranges = alloc_room(shown->ranges, &shown->capacity, shown->count + 1,
				   sizeof(*shown->ranges));
	shown->ranges[shown->count++] = (struct range){stated->start, stated->end};
}

/* Nothing of the file is kept: while sampling we are to be small. */
static void read_tables(const struct c_functions *functions, struct shown_functions *shown)
{
	const struct symbolize_module source = module_to_symbolize(shown->module, functions->root);
	struct symbolizer *symbolizer = symbolizer_new(functions->strings);
	struct error error;
	if (symbolizer_open(symbolizer, &source, &error))
		symbolizer_each_stated(symbolizer, add_shown, shown);
	else
		log_debug("sample", "%s: %s", shown->module->path, error.message);
	symbolizer_free(symbolizer);
}

static const struct shown_functions *shown_of(struct c_functions *functions,
					      const struct module *module)
{
	for (size_t i = 0; i < functions->count; i++)
		if (functions->modules[i].module == module)
			return &functions->modules[i];
	functions->modules = alloc_room(functions->modules, &functions->capacity,
					functions->count + 1, sizeof(*functions->modules));
	struct shown_functions *shown = &functions->modules[functions->count++];
	*shown = (struct shown_functions){.module = module};
	read_tables(functions, shown);
	return shown;
}

bool c_functions_hold(struct c_functions *functions, const struct module *module, uint64_t address)
{
	const struct shown_functions *shown = shown_of(functions, module);
	size_t until = sorted_count_until(shown->ranges, shown->count, sizeof(struct range),
					  offsetof(struct range, start), address);
	return until > 0 && address < shown->ranges[until - 1].end;
}

void c_function_name(const struct symbolize_stated *stated, struct strbuf *name)
{
	/* "__builtin__": Python 2 */
	if (stated->module && strcmp(stated->module, "builtins") != 0 &&
	    strcmp(stated->module, "__builtin__") != 0)
		strbuf_printf(name, "%s.", stated->module);
	strbuf_add_text(name, stated->name);
}
