/* SPDX-License-Identifier: MIT */
/*
 * The variables of functions and what their types are called: "real *__pyx_v_values" is "values" of
 * type "real". Looks at the functions that stand directly in their unit, and in these at what
 * is declared outermost.
 */
#include <dwarf.h>
#include <string.h>

#include "symbolize/internal.h"

enum {
	UNIT_LIMIT = 4096,
	DIE_LIMIT = 1 << 21, /* of all units */
	TYPE_DEPTH = 16,
};

struct variables {
	struct debug_info *info;
	struct interner *interner;
	const char *part;
	symbolize_visit_variable visit;
	void *context;
	size_t dies;
};

static const char *name_of(const struct variables *variables, Dwarf_Die *die)
{
	Dwarf_Attribute attribute;
	size_t size;
	const char *name = debug_info_string(
		variables->info,
		dwarf_formstring(dwarf_attr_integrate(die, DW_AT_name, &attribute)), &size);

	return name ? intern_clean(variables->interner, name, size) : NULL;
}

/* The first type with a name behind pointers, arrays and qualifiers. */
static const char *type_of(const struct variables *variables, Dwarf_Die *die)
{
	Dwarf_Die at = *die;

	for (int depth = 0; depth < TYPE_DEPTH; depth++) {
		Dwarf_Attribute attribute;
		Dwarf_Die type;
		if (!dwarf_formref_die(dwarf_attr_integrate(&at, DW_AT_type, &attribute), &type))
			return NULL;
		const char *name = name_of(variables, &type);
		if (name)
			return name;
		at = type;
	}
	return NULL;
}

static bool spend(struct variables *variables)
{
	return variables->dies++ < DIE_LIMIT;
}

static void visit_function(struct variables *variables, Dwarf_Die *function, const char *name)
{
	Dwarf_Die child;

	if (dwarf_child(function, &child))
		return;
	do {
		const int tag = dwarf_tag(&child);
		if (tag != DW_TAG_formal_parameter && tag != DW_TAG_variable)
			continue;
		const char *variable = name_of(variables, &child);
		const char *type = variable ? type_of(variables, &child) : NULL;
		if (type)
			variables->visit(variables->context, name, variable, type);
	} while (spend(variables) && !dwarf_siblingof(&child, &child));
}

static void visit_unit(struct variables *variables, Dwarf_Die *unit)
{
	Dwarf_Die child;

	if (dwarf_child(unit, &child))
		return;
	do {
		/* One that was inlined, too, has its name in the abstract instance alone. */
		if (dwarf_tag(&child) != DW_TAG_subprogram || !dwarf_hasattr(&child, DW_AT_name))
			continue;
		const char *name = name_of(variables, &child);
		if (name && strstr(name, variables->part))
			visit_function(variables, &child, name);
	} while (spend(variables) && !dwarf_siblingof(&child, &child));
}

void debug_info_each_variable(struct debug_info *info, struct interner *interner, const char *part,
			      symbolize_visit_variable visit, void *context)
{
	struct variables variables = {info, interner, part, visit, context, 0};
	Dwarf_Off at = 0, next;
	size_t header;

	if (!info->dwarf || (info->lazy && !lazy_dwarf_fill(info->lazy)))
		return;
	for (int i = 0; i < UNIT_LIMIT && variables.dies < DIE_LIMIT &&
			!dwarf_nextcu(info->dwarf, at, &next, &header, NULL, NULL, NULL);
	     i++) {
		Dwarf_Die unit;
		if (dwarf_offdie(info->dwarf, at + header, &unit))
			visit_unit(&variables, &unit);
		at = next;
	}
}
