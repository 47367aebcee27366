/* SPDX-License-Identifier: MIT */
/* Modules into a table: an open file, bytes, what was read of one, and code made at run time. */
#include <stdlib.h>
#include <string.h>

#include "modules/internal.h"

void module_table_take(struct module_table *table, struct module *module)
{
	table->modules = alloc_room(table->modules, &table->module_capacity,
				    table->module_count + 1, sizeof(*table->modules));
	module->id = (uint32_t)table->module_count;
	table->placements++;
	table->modules[table->module_count++] = module;
}

static bool add(struct module_table *table, struct module *module, struct module **out,
		struct error *error)
{
	if (!module_read_headers(module, error)) {
		module_free(module);
		return false;
	}
	module_table_take(table, module);
	*out = module;
	return true;
}

bool module_table_add(struct module_table *table, const char *path, int fd, const void *bytes,
		      size_t bytes_size, uint64_t load_bias, struct module **out,
		      struct error *error)
{
	struct module *module = module_new(path);
	module->fd = fd;
	if (fd < 0) {
		void *copy = alloc_zeroed(1, bytes_size ? bytes_size : 1);
		if (bytes_size)
			memcpy(copy, bytes, bytes_size);
		module->bytes = copy;
		module->bytes_size = bytes_size;
	}
	module->load_bias = load_bias;
	return add(table, module, out, error);
}

bool module_table_add_recorded(struct module_table *table, const char *path,
			       struct module_record *record, uint64_t load_bias,
			       struct module **out, struct error *error)
{
	struct module *module = module_new(path);
	module->record = record;
	module->load_bias = load_bias;
	record->replayed = true;
	return add(table, module, out, error);
}

/* Code that no file has begins at a lowest address; there is nothing in it but code. */
static remote_addr lowest_code(const struct module *module)
{
	remote_addr lowest = UINT64_MAX;
	for (size_t i = 0; i < module->segment_count; i++)
		if ((module->segments[i].flags & PF_X) && module->segments[i].vaddr < lowest)
			lowest = module->segments[i].vaddr;
	return lowest == UINT64_MAX ? 0 : lowest;
}

bool module_table_add_made(struct module_table *table, const void *bytes, size_t bytes_size,
			   enum module_origin origin, struct module **out, struct error *error)
{
	if (!module_table_add(table, "[jit]", -1, bytes, bytes_size, 0, out, error))
		return false;
	(*out)->origin = origin;
	(*out)->base = lowest_code(*out);
	(*out)->build_id.size = 0; /* names no file: it must not pass for another image */
	(*out)->no_python = (*out)->no_python_text = true;
	return true;
}
