/* SPDX-License-Identifier: MIT */
/*
 * Greenlets share their thread's stack: greenlet copies away what is in the way of the one that
 * goes on, then copies its part back, already on its stack pointer. Until that is done, what stands
 * further out is another greenlet's: no stack that anybody has. The copying function has had these
 * names, of local symbols: greenlet's source, slp_platformselect.h and its callers.
 */
#include "sample/internal.h"

#include <string.h>

/* Through which the function frees or allocates memory, or copies. */
enum { CALLEES = 8 };

static const char *const copier_names[STACK_COPIERS] = {
	"slp_restore_state_trampoline", /* from 2.0 on */
	"slp_restore_state",
};

static void find_copiers(struct stack_switch *known, const struct module *module)
{
	struct module_place places[STACK_COPIERS];
	if (!module_find_symbols(module, copier_names, STACK_COPIERS, places))
		return;
	for (size_t i = 0; i < STACK_COPIERS; i++)
		if (places[i].found && known->count < STACK_COPIERS)
			known->copiers[known->count++] = module->load_bias + places[i].vaddr;
}

/* Modules are added at the end of the table, and keep their place. */
static void look_at_new_modules(struct stack_switch *known, const struct module_table *modules)
{
	for (; known->looked_at < modules->module_count; known->looked_at++) {
		const struct module *module = modules->modules[known->looked_at];
		if (strstr(module->name, "greenlet"))
			find_copiers(known, module);
	}
}

bool stack_switch_under_way(struct stack_switch *known, const struct module_table *modules,
			    const struct unwind_stack *native)
{
	look_at_new_modules(known, modules);
	const size_t last = native->count < CALLEES ? native->count : CALLEES;
	for (size_t i = 0; known->count > 0 && i < last; i++)
		for (size_t k = 0; k < known->count; k++)
			if (native->frames[i].function == known->copiers[k])
				return true;
	return false;
}
