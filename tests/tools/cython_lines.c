/* SPDX-License-Identifier: MIT */
/*
 * Prints what becomes of every address that the line table of an extension module has:
 *
 *   cython_lines SO
 *
 * One line a level of the inlined chain, innermost first, tabs between:
 *
 *   ADDRESS LEVEL KIND NAME SYMBOL FILE LINE RAW_FILE RAW_LINE
 *
 * FILE LINE is what the author wrote ("-" 0: none is shown), RAW_ what the debug information says.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <elfutils/libdw.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "cython/cython.h"
#include "symbolize/symbolize.h"

struct judge {
	const char *path, *module;
	struct interner *strings;
	struct symbolizer *symbolizer;
	struct cython_symbols *symbols;
	struct cython_sources *sources;
};

static int open_source(void *context, const char *path)
{
	(void)context;
	return open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
}

static void add_symbol(void *context, const char *name)
{
	cython_symbols_add(context, name);
}

static const char *text_or_dash(const char *text)
{
	return text && *text ? text : "-";
}

/* As frames/resolve.c does it. */
static void print_level(struct judge *judge, uint64_t address, size_t level,
			const struct symbolize_frame *frame)
{
	static const char *const kinds[] = {"not", "function", "wrapper", "module", "helper"};
	const char *linkage = frame->linkage ? frame->linkage : frame->name;
	struct cython_name name = {.kind = CYTHON_NOT};
	struct cython_line line = {0};
	if (linkage)
		name = cython_demangle_in(judge->strings, judge->symbols, linkage, judge->module);
	const struct cython_place place = {
		.symbol = linkage,
		.c_file = frame->file,
		.directory = frame->directory,
		.extension = judge->path,
		.c_line = frame->line,
		.declared = frame->declared,
	};
	if (name.kind == CYTHON_NOT || name.kind == CYTHON_HELPER ||
	    !cython_map_line(judge->sources, &name, &place, &line))
		line = (struct cython_line){0};
	printf("%#llx\t%zu\t%s\t%s\t%s\t%s\t%d\t%s\t%d\n", (unsigned long long)address, level,
	       name.slot ? "slot" : kinds[name.kind], text_or_dash(name.name),
	       text_or_dash(linkage), text_or_dash(line.file), line.line, text_or_dash(frame->file),
	       frame->line);
}

static void print_address(struct judge *judge, uint64_t address)
{
	struct symbolize_result result;
	symbolize_pc(judge->symbolizer, address, true, 0, &result);
	for (size_t i = 0; i < result.count; i++)
		print_level(judge, address, i, &result.frames[i]);
}

static void print_unit(struct judge *judge, Dwarf_Die *unit)
{
	Dwarf_Lines *lines;
	size_t count;
	if (dwarf_getsrclines(unit, &lines, &count) != 0)
		return;
	Dwarf_Addr last = 0;
	for (size_t i = 0; i < count; i++) {
		Dwarf_Line *line = dwarf_onesrcline(lines, i);
		Dwarf_Addr address;
		bool end;
		if (dwarf_lineendsequence(line, &end) != 0 || end ||
		    dwarf_lineaddr(line, &address) != 0 || address == last)
			continue;
		last = address;
		print_address(judge, address);
	}
}

static bool print_all(struct judge *judge, int fd)
{
	Dwarf *dwarf = dwarf_begin(fd, DWARF_C_READ);
	if (!dwarf)
		return false;
	Dwarf_Off at = 0, next;
	size_t header;
	while (dwarf_nextcu(dwarf, at, &next, &header, NULL, NULL, NULL) == 0) {
		Dwarf_Die unit;
		if (dwarf_offdie(dwarf, at + header, &unit))
			print_unit(judge, &unit);
		at = next;
	}
	dwarf_end(dwarf);
	return true;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	_cleanup_close_ int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	const struct symbolize_module module = {.path = argv[1], .fd = fd, .root_fd = -1};
	struct judge judge = {.path = argv[1], .strings = interner_new()};
	struct error error;
	judge.symbolizer = symbolizer_new(judge.strings);
	judge.module = cython_module_of_path(judge.strings, argv[1]);
	judge.sources = cython_sources_new(judge.strings, open_source, NULL);
	judge.symbols = cython_symbols_new();
	bool done = fd >= 0 && symbolizer_open(judge.symbolizer, &module, &error);
	if (done) {
		symbolizer_each_symbol(judge.symbolizer, add_symbol, judge.symbols);
		done = print_all(&judge, fd);
	}
	cython_sources_free(judge.sources);
	cython_symbols_free(judge.symbols);
	symbolizer_free(judge.symbolizer);
	interner_free(judge.strings);
	if (!done)
		fprintf(stderr, "%s: no debug information\n", argv[1]);
	return done ? 0 : 1;
}
