/* SPDX-License-Identifier: MIT */
/*
 * From an open module (open_module.c) and an address to names and lines: joins what DWARF, the
 * symbol tables and the FDEs say.
 */
#include "symbolize/open_module.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"

struct symbolizer *symbolizer_new(struct interner *interner)
{
	struct symbolizer *symbolizer = alloc_zeroed(1, sizeof(*symbolizer));

	elf_version(EV_CURRENT);
	symbolizer->interner = interner;
	symbolizer->fd = symbolizer->where.root.fd = -1;
	debug_files_init(&symbolizer->files);
	debug_problems_init(&symbolizer->problems);
	return symbolizer;
}

void symbolizer_free(struct symbolizer *symbolizer)
{
	if (!symbolizer)
		return;
	open_module_close(symbolizer);
	names_ahead_free(symbolizer->ahead);
	debug_problems_release(&symbolizer->problems);
	debuginfod_free(symbolizer->debuginfod);
	free(symbolizer);
}

void symbolizer_add_problems(const struct symbolizer *symbolizer, struct strbuf *text)
{
	debug_problems_describe(&symbolizer->problems, text);
	const char *note = debuginfod_note(symbolizer->debuginfod);
	if (*note)
		strbuf_printf(text, "%sdebuginfod: %s", text->size ? "; " : "", note);
}

void symbolizer_set_fetch(struct symbolizer *symbolizer, const struct symbolize_fetch *fetch)
{
	debuginfod_free(symbolizer->debuginfod);
	symbolizer->debuginfod = debuginfod_new(fetch);
}

static bool find_function(const struct symbolizer *symbolizer, uint64_t pc, struct interval *fde)
{
	const struct where *where = &symbolizer->where;
	uint64_t start, size;

	if (!where->bare || !where->find_function ||
	    !where->find_function(where->context, pc, &start, &size))
		return false;
	*fde = (struct interval){.start = start, .end = start + size};
	return true;
}

/* By the linker's sorted table; only where there is none, all FDEs are walked and sorted. */
static bool find_fde(struct symbolizer *symbolizer, uint64_t pc, struct interval *fde)
{
	struct interval_list *fdes = &symbolizer->functions.fdes;

	if (!symbolizer->functions.walked &&
	    !fde_table_search(symbolizer->elf, &symbolizer->functions.eh_frame, pc, fde)) {
		symbolizer->functions.walked = true;
		fde_table_add(fdes, symbolizer->elf, &symbolizer->functions.eh_frame, true);
		interval_sort(fdes);
	} else if (!symbolizer->functions.walked && fde->end) {
		return true;
	}
	const ssize_t at = interval_find(fdes, pc, fdes->count);
	if (at >= 0)
		*fde = fdes->items[at];
	return at >= 0 || find_function(symbolizer, pc, fde);
}

void symbolizer_each_symbol(struct symbolizer *symbolizer,
			    void (*visit)(void *context, const char *name), void *context)
{
	if (!symbolizer->open)
		return;
	open_module_need_tables(symbolizer);
	symbol_table_each(&symbolizer->symbols, visit, context);
}

void symbolizer_each_variable(struct symbolizer *symbolizer, const char *part,
			      symbolize_visit_variable visit, void *context)
{
	if (!symbolizer->open)
		return;
	open_module_need_tables(symbolizer);
	debug_info_each_variable(&symbolizer->info, symbolizer->interner, part, visit, context);
}

/* The symbol's suffixes (".cold", ".isra.0") are worth keeping; DWARF knows the source's name. */
static void add_symbol(struct symbolizer *symbolizer, const struct symbol_match *match,
		       struct symbolize_result *result)
{
	if (!result->count)
		result->frames[result->count++] = (struct symbolize_frame){0};
	struct symbolize_frame *outermost = &result->frames[result->count - 1];
	/* Members of local classes have no linkage name in GCC's DWARF, but their symbols tell all.
	 */
	const bool known = outermost->name && (strncmp(match->name, "_Z", 2) ||
					       strncmp(outermost->linkage, "_Z", 2) == 0);
	outermost->linkage = intern_clean(symbolizer->interner, match->name, match->size);
	if (!known)
		outermost->name = names_demangle(symbolizer->interner, outermost->linkage);
}

static bool find_stub(struct symbolizer *symbolizer, uint64_t pc, struct kept_symbol *found)
{
	struct plt_stub stub;

	if (symbolizer->where.bare) {
		const struct kept_symbol *kept = kept_symbols_find(&symbolizer->where.kept, pc);
		if (kept)
			*found = *kept;
		return kept && kept->stub;
	}
	if (!plt_stub_find(symbolizer->elf, pc, &stub))
		return false;
	*found = (struct kept_symbol){pc, pc, stub.start, stub.symbol, strlen(stub.symbol), true};
	return true;
}

/* "memcpy@plt", as debuggers call it. False: no stub is there. */
static bool add_stub(struct symbolizer *symbolizer, uint64_t pc, struct symbolize_result *result)
{
	struct interner *interner = symbolizer->interner;
	struct kept_symbol stub;
	_cleanup_strbuf_ struct strbuf name;

	strbuf_init(&name);
	if (result->count || !find_stub(symbolizer, pc, &stub))
		return false;
	const char *symbol = intern_clean(interner, stub.name, stub.size);
	strbuf_printf(&name, "%s@plt", names_demangle(interner, symbol));
	result->frames[result->count++] =
		(struct symbolize_frame){.name = intern_bytes(interner, name.text, name.size)};
	result->has_function = true;
	result->function_start = stub.start;
	return true;
}

void symbolizer_read_ahead(struct symbolizer *symbolizer, const struct symbolize_module *module)
{
	names_ahead_free(symbolizer->ahead);
	symbolizer->ahead = names_ahead_start(module);
}

static void need_recovered(struct symbolizer *symbolizer)
{
	if (!symbolizer->recovered_built && symbolizer->where.bare)
		(void)!recovered_names_read(&symbolizer->recovered, symbolizer->where.stated,
					    symbolizer->where.stated_size);
	else if (!symbolizer->recovered_built &&
		 !names_ahead_take(symbolizer->ahead, symbolizer->path, &symbolizer->build_id,
				   &symbolizer->recovered))
		recovered_names_load(&symbolizer->recovered, symbolizer->elf);
	symbolizer->recovered_built = true;
}

void symbolizer_write_stated(struct symbolizer *symbolizer, struct strbuf *bytes)
{
	if (!symbolizer->open)
		return;
	need_recovered(symbolizer);
	recovered_names_write(&symbolizer->recovered, bytes);
}

/* False: neither a symbol nor a stub is there. */
static bool find_symbol(struct symbolizer *symbolizer, uint64_t pc, const struct interval *fde,
			const char *wanted, struct symbol_match *match)
{
	if (symbol_table_find(&symbolizer->symbols, pc, fde, wanted, match))
		return true;
	const struct kept_symbol *kept = kept_symbols_find(&symbolizer->where.kept, pc);
	if (!kept || kept->stub)
		return false;
	*match = (struct symbol_match){kept->name, kept->size, kept->start};
	return true;
}

/* What no FDE covers begins at `function` (0: not known): what begins at pc alone is a label in it.
 */
static bool find_name(struct symbolizer *symbolizer, uint64_t pc, const struct interval *fde,
		      uint64_t function, const char *wanted, struct symbol_match *match)
{
	const struct interval begin = {.start = function, .end = function};
	if (fde || !function)
		return find_symbol(symbolizer, pc, fde, wanted, match);
	return (find_symbol(symbolizer, pc, &begin, wanted, match) &&
		(match->start != pc || pc == function)) ||
	       (find_symbol(symbolizer, function, &begin, wanted, match) &&
		match->start == function);
}

void symbolizer_write_symbols(struct symbolizer *symbolizer, const uint64_t *addresses,
			      size_t count, const uint64_t *starts, size_t start_count,
			      struct strbuf *bytes)
{
	struct kept_symbol open = {0}, next;
	size_t start = 0;

	if (!symbolizer->open)
		return;
	open_module_need_tables(symbolizer);
	for (size_t i = 0; i < count; i++) {
		const uint64_t pc = addresses[i];
		while (start < start_count && starts[start] < pc)
			start++;
		const bool begins = start < start_count && starts[start] == pc;
		struct interval range;
		struct symbol_match match;
		const struct interval *fde = find_fde(symbolizer, pc, &range) ? &range : NULL;
		if (find_name(symbolizer, pc, fde, begins ? pc : 0, NULL, &match))
			next = (struct kept_symbol){pc,		pc,	    match.start,
						    match.name, match.size, false};
		else if (!find_stub(symbolizer, pc, &next))
			continue;
		next.first = next.last = pc;
		kept_symbols_put(&open, &next, bytes);
	}
	kept_symbols_put(&open, NULL, bytes);
}

void symbolizer_each_recovered(struct symbolizer *symbolizer,
			       void (*visit)(void *context, const struct recovered_name *recovered),
			       void *context)
{
	if (!symbolizer->open)
		return;
	need_recovered(symbolizer);
	recovered_names_each(&symbolizer->recovered, symbolizer->interner, visit, context);
}

bool symbolize_recovered_name(struct symbolizer *symbolizer, uint64_t address,
			      struct recovered_name *recovered)
{
	if (!symbolizer->open)
		return false;
	need_recovered(symbolizer);
	return recovered_names_find(&symbolizer->recovered, symbolizer->interner, address,
				    recovered);
}

bool symbolize_estimated_line(struct symbolizer *symbolizer, uint64_t address, const char **file,
			      int *line)
{
	struct recovered_name recovered;
	struct recovered_line found;

	if (!address || symbolizer->where.bare ||
	    !symbolize_recovered_name(symbolizer, address - 1, &recovered))
		return false;
	recovered_line_find(&symbolizer->recovered, symbolizer->interner, symbolizer->elf,
			    &symbolizer->code, &recovered, address, &found);
	if (!found.line)
		return false;
	*file = found.file;
	*line = found.line;
	return true;
}

/* `site`: the return address of the call; 0: none. */
static void add_recovered(struct symbolizer *symbolizer, uint64_t pc, uint64_t site,
			  struct symbolize_result *result)
{
	struct recovered_line line = {.line = 0};

	if (result->count || !symbolize_recovered_name(symbolizer, pc, &result->recovered) ||
	    result->recovered.tail)
		return;
	if (site && !symbolizer->where.bare)
		recovered_line_find(&symbolizer->recovered, symbolizer->interner, symbolizer->elf,
				    &symbolizer->code, &result->recovered, site, &line);
	result->frames[result->count++] = (struct symbolize_frame){
		.name = result->recovered.name,
		.file = line.file,
		.line = line.line,
		.recovered = &result->recovered,
	};
}

void symbolize_pc(struct symbolizer *symbolizer, uint64_t address, bool exact, uint64_t function,
		  struct symbolize_result *result)
{
	/*
	 * A return address follows the call, and may already belong to the next line or function.
	 */
	const uint64_t pc = exact || !address ? address : address - 1;
	struct symbol_match match;

	result->count = 0;
	result->function_start = 0;
	result->has_function = false;
	if (!symbolizer->open)
		return;
	open_module_need_tables(symbolizer);
	struct interval range;
	const struct interval *fde = find_fde(symbolizer, pc, &range) ? &range : NULL;
	open_module_forget_units(symbolizer, pc);
	inline_chain_resolve(&symbolizer->info, symbolizer->interner, pc, result);
	if (symbolizer->info.dwo_missing)
		open_module_note_missing_dwo(symbolizer);
	const char *wanted = result->count ? result->frames[result->count - 1].linkage : NULL;
	const bool found = find_name(symbolizer, pc, fde, function, wanted, &match);
	if (found)
		add_symbol(symbolizer, &match, result);
	if (add_stub(symbolizer, pc, result))
		return;
	add_recovered(symbolizer, pc, exact ? 0 : address, result);
	result->has_function = fde || found;
	if (result->has_function)
		result->function_start = fde ? fde->start : match.start;
}
