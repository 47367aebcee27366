/* SPDX-License-Identifier: MIT */
/*
 * The interpreter's own functions that a Python program can name: "sorted", "list.sort",
 * "math.sqrt". They are told by the tables that Python itself finds them in, so that they have the
 * same names whether the file is stripped or not, and whether a module of the standard library is
 * in the interpreter or a file of its own. Everything else in the interpreter is hidden. Each
 * function is looked up once.
 */
#include "sample/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "symbolize/symbolize.h"

struct c_functions {
	struct symbolizer *symbolizer;
	const struct module *open; /* the module whose tables were read last */
	struct table known;	   /* (module and function) -> whether it is to be shown */
	int root;
};

struct c_functions *c_functions_new(const struct target *target, struct interner *strings)
{
	struct c_functions *functions = alloc_zeroed(1, sizeof(*functions));
	functions->symbolizer = symbolizer_new(strings);
	functions->root = target ? target_root(target) : -1;
	table_init(&functions->known);
	return functions;
}

void c_functions_free(struct c_functions *functions)
{
	if (!functions)
		return;
	symbolizer_free(functions->symbolizer);
	table_release(&functions->known);
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

static bool open_module(struct c_functions *functions, const struct module *module)
{
	struct symbolize_module source = module_to_symbolize(module, functions->root);
	struct error error;
	if (functions->open == module)
		return true;
	functions->open = NULL;
	if (!symbolizer_open(functions->symbolizer, &source, &error)) {
		log_debug("sample", "%s: %s", module->path, error.message);
		return false;
	}
	functions->open = module;
	return true;
}

bool c_functions_hold(struct c_functions *functions, const struct module *module, uint64_t function)
{
	struct symbolize_stated stated;
	uint32_t shown;
	if (table_find(&functions->known, function, module->id, &shown))
		return shown;
	shown = open_module(functions, module) &&
		symbolize_stated_name(functions->symbolizer, function, &stated) &&
		c_function_is_shown(&stated);
	table_put(&functions->known, function, module->id, shown);
	return shown;
}
