/* SPDX-License-Identifier: MIT */
/*
 * The interpreter's own functions that a Python program can name: "sorted", "list.sort",
 * "math.sqrt". They are told by the tables that Python itself finds them in, so that they have the
 * same names whether the file is stripped or not, and whether a module of the standard library is
 * in the interpreter or a file of its own. Everything else in the interpreter is hidden.
 */
#include "frames/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/sorted.h"
#include "base/strbuf.h"
#include "files/far_file.h"
#include "target/core.h"

/* The functions of one module that are shown, in order. */
struct shown_functions {
	const struct module *module;
	struct range {
		uint64_t start, end;
		bool tail; /* where it was called through a pointer alone */
	} * ranges;
	size_t count, capacity;
};

struct c_functions {
	struct interner *strings;
	const struct target *target;	 /* NULL: none */
	struct shown_functions *modules; /* interpreters: there is one, hardly ever two */
	size_t count, capacity;
	struct table sites; /* return addresses in modules -> c_functions_by_pointer */
};

struct c_functions *c_functions_new(const struct target *target, struct interner *strings)
{
	struct c_functions *functions = alloc_zeroed(1, sizeof(*functions));
	functions->strings = strings;
	functions->target = target;
	table_init(&functions->sites);
	return functions;
}

void c_functions_free(struct c_functions *functions)
{
	if (!functions)
		return;
	for (size_t i = 0; i < functions->count; i++)
		free(functions->modules[i].ranges);
	free(functions->modules);
	table_release(&functions->sites);
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
static bool is_operation(const struct recovered_name *recovered)
{
	const char *dot = strrchr(recovered->name, '.');
	return dot && strncmp(dot, ".__", 3) == 0 &&
	       !is_machinery(recovered->name, (size_t)(dot - recovered->name));
}

bool c_function_is_shown(const struct recovered_name *recovered)
{
	if (recovered->uncertain)
		return false;
	return recovered->evidence == EVIDENCE_METHOD || recovered->evidence == EVIDENCE_PROPERTY ||
	       (recovered->evidence == EVIDENCE_SLOT && is_operation(recovered));
}

static void add_shown(void *context, const struct recovered_name *recovered)
{
	struct shown_functions *shown = context;
	if (!c_function_is_shown(recovered))
		return;
	shown->ranges = alloc_room(shown->ranges, &shown->capacity, shown->count + 1,
				   sizeof(*shown->ranges));
	shown->ranges[shown->count++] =
		(struct range){recovered->start, recovered->end, recovered->tail};
}

/* Nothing of the file is kept: while sampling we are to be small. */
static void read_tables(const struct c_functions *functions, struct shown_functions *shown)
{
	const struct symbolize_module source =
		module_to_symbolize(shown->module, functions->target);
	struct symbolizer *symbolizer = symbolizer_new(functions->strings);
	struct error error;
	if (symbolizer_open(symbolizer, &source, &error))
		symbolizer_each_recovered(symbolizer, add_shown, shown);
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

/* "call *operand", which ends where `end` points to: opcode 0xff, /2 (Intel SDM, volume 2). */
static bool is_call_by_pointer(const uint8_t *end)
{
	enum { REGISTER_FORM = 3, WITH_SIB = 4, RIP_RELATIVE = 5 };
	static const uint8_t displacements[] = {0, 1, 4, 0};
	for (int size = 2; size <= 7; size++) {
		const uint8_t *at = end - size;
		const unsigned form = at[1] >> 6, operand = at[1] & 7;
		const bool sib = form != REGISTER_FORM && operand == WITH_SIB;
		/* A slot of the GOT is no pointer that a table has. */
		if (at[0] == 0xff && (at[1] >> 3 & 7) == 2 &&
		    !(form == 0 && operand == RIP_RELATIVE) &&
		    size == 2 + sib + displacements[form])
			return true;
	}
	return false;
}

bool c_functions_by_pointer(struct c_functions *functions, const struct module *module,
			    uint64_t site)
{
	enum { DIRECT_CALL = 0xe8, DIRECT_SIZE = 5, LONGEST = 7 };
	uint8_t bytes[LONGEST];
	uint32_t known;
	if (table_find(&functions->sites, site, module->id, &known))
		return known;
	/* What can be read both ways is not sure. */
	const bool by_pointer =
		site >= LONGEST && module_read(module, site - LONGEST, bytes, LONGEST, NULL) &&
		bytes[LONGEST - DIRECT_SIZE] != DIRECT_CALL && is_call_by_pointer(bytes + LONGEST);
	table_put(&functions->sites, site, module->id, by_pointer);
	return by_pointer;
}

bool c_functions_hold(struct c_functions *functions, const struct module *module, uint64_t address,
		      uint64_t site)
{
	const struct shown_functions *shown = shown_of(functions, module);
	size_t until = upper_bound(shown->ranges, shown->count, sizeof(struct range),
				   offsetof(struct range, start), address);
	if (until == 0 || address >= shown->ranges[until - 1].end)
		return false;
	return !shown->ranges[until - 1].tail || c_functions_by_pointer(functions, module, site);
}

void c_function_name(const struct recovered_name *recovered, struct strbuf *name)
{
	/* "__builtin__": Python 2 */
	if (recovered->module && strcmp(recovered->module, "builtins") != 0 &&
	    strcmp(recovered->module, "__builtin__") != 0)
		strbuf_printf(name, "%s.", recovered->module);
	strbuf_add_text(name, recovered->name);
}

struct symbolize_module module_to_symbolize(const struct module *module,
					    const struct target *target)
{
	struct foreign_root root = {.fd = FOREIGN_OUR_ROOT};
	if (target)
		root = target_files(target);
	if (module->in_our_root)
		root.fd = FOREIGN_OUR_ROOT;
	return (struct symbolize_module){
		.path = module->path,
		.fd = module->far ? far_file_copy(module->far) : module->fd,
		.bytes = module->bytes,
		.bytes_size = module->bytes_size,
		.build_id = module->build_id,
		.root_fd = root.fd,
		.root_user = root.user,
		.root_far = module->file.far,
		.symbols = target ? target_symbols(target) : NULL,
		.stated = module->record ? module->record->stated : NULL,
		.stated_size = module->record ? module->record->stated_size : 0,
		.kept = module->record ? module->record->kept : NULL,
		.kept_size = module->record ? module->record->kept_size : 0,
	};
}
