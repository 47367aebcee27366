/* SPDX-License-Identifier: MIT */
/*
 * Greenlets share their thread's stack: greenlet copies away what is in the way of the one that
 * goes on, then copies its part back, already on its stack pointer. Until that is done, what stands
 * further out is another greenlet's: no stack that anybody has. The function that copies has had
 * these names, of local symbols: greenlet's source, slp_platformselect.h and what calls it. Before
 * and after the copy itself, in the same function, the stack is whole; so it may be in slp_switch,
 * which moves the stack pointer some instructions before the call: that is not told apart.
 */
#include "sample/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum {
	INNERMOST = 8,		/* frames: the function, and those through which it frees memory */
	SYMBOLS_MOST = 1 << 20, /* bytes of each table; greenlet's have some tens of thousands */
	COPIERS_MOST = 256,
};

static const char *const copier_names[] = {
	"slp_restore_state_trampoline", /* from 2.0 on */
	"slp_restore_state",
};
enum { NAMES = sizeof(copier_names) / sizeof(*copier_names) };

static bool starts_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

static bool is_greenlet(const struct module *module)
{
	return starts_with(module->name, "_greenlet.") || starts_with(module->name, "greenlet.");
}

/* Whether there has been any module of greenlet's. New ones are added at the table's end. */
static bool may_switch(struct stack_switch *known, const struct module_table *modules)
{
	while (!known->possible && known->looked_at < modules->module_count)
		known->possible = is_greenlet(modules->modules[known->looked_at++]);
	return known->possible;
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
	struct module_place places[NAMES];
	struct stack_copier copier = {.module = module->id};
	if (!has_few_symbols(module) || !module_find_symbols(module, copier_names, NAMES, places))
		return copier;
	for (size_t i = 0; i < NAMES; i++)
		if (places[i].found) {
			copier.vaddr = places[i].vaddr;
			copier.size = places[i].size;
		}
	return copier;
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

bool stack_switch_under_way(struct stack_switch *known, struct module_table *modules,
			    const struct unwind_stack *native)
{
	if (!may_switch(known, modules))
		return false;
	for (size_t i = 0; i < native->count && i < INNERMOST; i++) {
		const remote_addr site = unwind_frame_site(&native->frames[i]);
		const struct mapping *mapping = module_table_find(modules, site);
		if (!mapping || !mapping->module || !is_greenlet(mapping->module))
			continue;
		const struct stack_copier *copier = copier_of(known, mapping->module);
		if (site - mapping->module->load_bias - copier->vaddr < copier->size)
			return true;
	}
	return false;
}

void stack_switch_release(struct stack_switch *known)
{
	free(known->copiers);
	memset(known, 0, sizeof(*known));
}
