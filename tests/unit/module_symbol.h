/* SPDX-License-Identifier: MIT */
/* One symbol, as tests ask for it. */
#ifndef TESTS_UNIT_MODULE_SYMBOL_H
#define TESTS_UNIT_MODULE_SYMBOL_H

#include "modules/module.h"

/* Its ELF address; *size may be NULL. ABSENT, and zeros, when the module has none. */
static inline bool MUST_CHECK module_symbol(const struct module *module, const char *name,
					    uint64_t *vaddr, uint64_t *size, struct error *error)
{
	struct module_place place;
	const bool found = module_find_symbols(module, &name, 1, &place) == 1;

	*vaddr = place.vaddr;
	if (size)
		*size = place.size;
	return found ||
	       error_set(error, ERROR_ABSENT, "%s has no symbol %s", module->path, name);
}

#endif
