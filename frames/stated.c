/* SPDX-License-Identifier: MIT */
/*
 * What the tables of modules state of their functions, and what their symbols call the addresses
 * that were met, for a capture: where that is replayed there may be a debug file of them, which has
 * no tables, or nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "frames/internal.h"
#include "symbolize/symbolize.h"

static int by_value(const void *left, const void *right)
{
	const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
	return (a > b) - (a < b);
}

/* malloc'ed; NULL: nothing. */
static void *copy_of(const struct strbuf *bytes, size_t *size)
{
	*size = bytes->size;
	return bytes->size ? memcpy(alloc_zeroed(1, bytes->size), bytes->text, bytes->size) : NULL;
}

/* Where functions begin whose symbols say no size, sorted; malloc'ed. They are met, too. */
static uint64_t *sizeless_starts(struct module_record *record, size_t *count)
{
	uint64_t *const starts = alloc_zeroed(record->function_count + 1, sizeof(*starts));
	*count = 0;
	for (size_t i = 0; i < record->function_count; i++)
		if (!record->functions[i].size) {
			starts[(*count)++] = record->functions[i].vaddr;
			module_record_pc(record, record->functions[i].vaddr);
		}
	qsort(starts, *count, sizeof(*starts), by_value);
	return starts;
}

static void note(const struct module *module, const struct target *target,
		 struct symbolizer *symbolizer)
{
	const struct symbolize_module source = module_to_symbolize(module, target);
	struct module_record *const record = module->record;
	_cleanup_strbuf_ struct strbuf bytes;
	strbuf_init(&bytes);
	if (!symbolizer_open(symbolizer, &source, NULL))
		return;
	symbolizer_write_stated(symbolizer, &bytes);
	record->stated = copy_of(&bytes, &record->stated_size);
	strbuf_reset(&bytes);
	size_t start_count;
	_cleanup_free_ uint64_t *starts = sizeless_starts(record, &start_count);
	qsort(record->pcs, record->pc_count, sizeof(*record->pcs), by_value);
	symbolizer_write_symbols(symbolizer, record->pcs, record->pc_count, starts, start_count,
				 &bytes);
	record->kept = copy_of(&bytes, &record->kept_size);
}

void stated_names_note(const struct module_table *modules, const struct target *target,
		       struct interner *strings)
{
	struct symbolizer *symbolizer = symbolizer_new(strings);
	for (size_t i = 0; i < modules->module_count; i++) {
		const struct module *module = modules->modules[i];
		if (module_record_is_used(module->record) && !module->record->stated &&
		    !module->record->replayed)
			note(module, target, symbolizer);
	}
	symbolizer_free(symbolizer);
}
