/* SPDX-License-Identifier: MIT */
/*
 * Greenlets share their thread's stack: greenlet copies away what is in the way of the one that
 * goes on, then copies its part back, already on its stack pointer. Until that is done, what stands
 * further out is another greenlet's: no stack that anybody has. The function that copies has had
 * these names, of local symbols: greenlet's source, slp_platformselect.h and what calls it. Before
 * and after the copy itself, in the same function, the stack is whole; so it may be in slp_switch,
 * which moves the stack pointer some instructions before the call: that makes no difference here.
 * A greenlet's stack begins in a function of greenlet's, too: outside of that there is another's.
 */
#include "merge/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"

enum {
	INNERMOST = 8,		/* frames: the function, and those through which it frees memory */
	SYMBOLS_MOST = 1 << 20, /* bytes of each table; greenlet's have some tens of thousands */
	COPIERS_MOST = 256,
};

/* The copier, by either name, what calls that, and what gives the thread its Python state
 * afterwards: until then the stack is that of one greenlet, and the state another's. */
static const char *const switch_names[] = {
	"slp_restore_state_trampoline", /* from 2.0 on */
	"slp_restore_state", "slp_switch",
	"_ZN8greenlet8Greenlet21g_switchstack_successEv", /* from 2.0 on */
};
enum { NAMES = sizeof(switch_names) / sizeof(*switch_names) };

static bool starts_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

bool stack_switch_is_greenlet(const struct module *module)
{
	return starts_with(module->name, "_greenlet.") || starts_with(module->name, "greenlet.");
}

static bool has_few_symbols(const struct module *module)
{
	static const char *const names[] = {".dynsym", ".dynstr", ".symtab", ".strtab"};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const struct module_section *section = module_section(module, names[i]);
		if (section && section->size > SYMBOLS_MOST)
			return false;
	}
	return true;
}

static struct stack_copier find_copier(const struct module *module)
{
	static const uint8_t parts[NAMES] = {0, 0, 1, 2}; /* of `code` */
	struct module_place places[NAMES];
	struct stack_copier copier = {.module = module->id};
	if (!has_few_symbols(module) || !module_find_symbols(module, switch_names, NAMES, places))
		return copier;
	for (size_t i = 0; i < NAMES; i++)
		if (places[i].found)
			copier.code[parts[i]] =
				(struct target_range){places[i].vaddr, places[i].size};
	return copier;
}

static void add_root(struct stack_switch *known, const struct module *module)
{
	/* From 2.0 on: greenlet::UserGreenlet::inner_bootstrap(...), the first one on its stack. */
	static const char *const start = "_ZN8greenlet12UserGreenlet15inner_bootstrap";
	enum { PARTS = 2 }; /* there is a cold one */
	_cleanup_free_ struct module_place *places = NULL;
	const size_t count = has_few_symbols(module)
				     ? module_find_functions(module, &start, 1, PARTS, &places)
				     : 0;
	if (known->root_count + count > COPIERS_MOST)
		known->root_count = 0;
	known->roots = alloc_room(known->roots, &known->root_capacity,
				  known->root_count + count + 1, sizeof(*known->roots));
	for (size_t i = 0; i < count; i++)
		known->roots[known->root_count++] = module->load_bias + places[i].vaddr;
}

/* The module's, which is looked up once. */
static const struct stack_copier *copier_of(struct stack_switch *known, const struct module *module)
{
	for (size_t i = 0; i < known->count; i++)
		if (known->copiers[i].module == module->id)
			return &known->copiers[i];
	if (known->count == COPIERS_MOST)
		known->count = 0;
	known->copiers = alloc_room(known->copiers, &known->capacity, known->count + 1,
				    sizeof(*known->copiers));
	known->copiers[known->count] = find_copier(module);
	return &known->copiers[known->count++];
}

static void note_code(struct stack_switch *known, const struct module *module)
{
	const struct stack_copier *copier = copier_of(known, module);
	for (size_t i = 0; i < COPY_SWITCHES && copier->code[0].size > 0; i++)
		if (copier->code[i].size > 0)
			known->code[i] = (struct target_range){
				module->load_bias + copier->code[i].address, copier->code[i].size};
}

bool stack_switch_follow(struct stack_switch *known, const struct module_table *modules)
{
	if (known->placements == modules->placements)
		return false;
	_cleanup_free_ remote_addr *before = known->roots;
	const size_t count = known->root_count;
	known->placements = modules->placements;
	known->roots = NULL;
	known->root_count = known->root_capacity = 0;
	memset(known->code, 0, sizeof(known->code));
	for (size_t i = 0; i < modules->module_count; i++) {
		const struct module *module = modules->modules[i];
		if (module->unplaced || !stack_switch_is_greenlet(module))
			continue;
		known->possible = true;
		add_root(known, module);
		note_code(known, module);
	}
	if (known->root_count != count ||
	    (count > 0 && memcmp(known->roots, before, count * sizeof(*before)) != 0))
		return true;
	/* The same, where their user has them. */
	remote_addr *const again = known->roots;
	known->roots = before;
	known->root_capacity = count;
	before = again;
	return false;
}

bool stack_switch_under_way(struct stack_switch *known, struct module_table *modules,
			    const struct unwind_stack *native)
{
	if (!known->possible)
		return false;
	for (size_t i = 0; i < native->count && i < INNERMOST; i++) {
		const remote_addr site = unwind_frame_site(&native->frames[i]);
		const struct mapping *mapping = module_table_find(modules, site);
		if (!mapping || !mapping->module || !stack_switch_is_greenlet(mapping->module))
			continue;
		const struct target_range *copier = copier_of(known, mapping->module)->code;
		if (site - mapping->module->load_bias - copier->address < copier->size)
			return true;
	}
	return false;
}

bool stack_switch_is_near(struct stack_switch *known, struct module_table *modules,
			  const struct unwind_stack *native)
{
	if (!known->possible)
		return false;
	for (size_t i = 0; i < native->count && i < INNERMOST; i++) {
		const struct mapping *mapping =
			module_table_find(modules, unwind_frame_site(&native->frames[i]));
		if (mapping && mapping->module && stack_switch_is_greenlet(mapping->module))
			return true;
	}
	return false;
}

void stack_switch_release(struct stack_switch *known)
{
	free(known->copiers);
	free(known->roots);
	memset(known, 0, sizeof(*known));
}
