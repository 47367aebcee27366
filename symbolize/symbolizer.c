/* SPDX-License-Identifier: MIT */
/*
 * From an open module and an address to names and lines: joins what DWARF, the symbol tables and
 * the FDEs say. Tables are built when first asked for. Must never let libdw open a file by
 * itself: paths in files are the target's to choose.
 */
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "symbolize/stated.h"

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

/* Bytes that the units of one module may take, if they can be had again. */
enum { MOST_OF_UNITS = 32 << 20 };

struct symbolizer {
	struct interner *interner;
	bool open, tables_built;
	char *path; /* with the build ID: which module is open */
	struct build_id build_id;
	int fd;	     /* ours: a duplicate; -1: bytes */
	int root_fd; /* ours: a duplicate; -1: none */
	void *bytes; /* ours: a copy */
	Elf *elf;
	struct debug_files files;
	struct debuginfod *debuginfod; /* NULL: not to be asked */
	struct mini_debug mini;
	struct debug_problems problems; /* of all modules so far */
	struct lazy_dwarf *lazy;	/* what info reads, where that is large */
	Elf *lazy_elf;
	Elf *debug_elf; /* the file that has .debug_info */
	int debug_fd;
	struct debug_info info;
	uint64_t last_pc, lookups, turns_back; /* of the module: are addresses in order? */
	struct symbol_table symbols;
	struct elf_bytes eh_frame;
	bool walked; /* the FDEs of .eh_frame are in the list */
	struct interval_list fdes;
	bool stated_built;
	struct stated_names stated;
	struct stated_ahead *ahead; /* of a module to be opened later; NULL: none */
	struct elf_image code;	    /* for lines of calls in stated functions; once it is needed */
};

struct symbolizer *symbolizer_new(struct interner *interner)
{
	struct symbolizer *symbolizer = alloc_zeroed(1, sizeof(*symbolizer));

	elf_version(EV_CURRENT);
	symbolizer->interner = interner;
	symbolizer->fd = symbolizer->root_fd = -1;
	debug_files_init(&symbolizer->files);
	debug_problems_init(&symbolizer->problems);
	return symbolizer;
}

static void end_dwarf(struct symbolizer *symbolizer)
{
	Dwarf *dwarf = symbolizer->info.dwarf;

	debug_info_release(&symbolizer->info);
	if (dwarf)
		dwarf_end(dwarf);
	elf_end(symbolizer->lazy_elf);
	symbolizer->lazy_elf = NULL;
	lazy_dwarf_free(symbolizer->lazy);
	symbolizer->lazy = NULL;
}

static void close_module(struct symbolizer *symbolizer)
{
	end_dwarf(symbolizer);
	symbol_table_release(&symbolizer->symbols);
	interval_list_release(&symbolizer->fdes);
	stated_names_release(&symbolizer->stated);
	image_release(&symbolizer->code);
	debug_files_release(&symbolizer->files);
	mini_debug_close(&symbolizer->mini);
	elf_end(symbolizer->elf);
	if (symbolizer->fd >= 0)
		close(symbolizer->fd);
	if (symbolizer->root_fd >= 0)
		close(symbolizer->root_fd);
	free(symbolizer->bytes);
	free(symbolizer->path);
	*symbolizer = (struct symbolizer){
		.interner = symbolizer->interner,
		.fd = -1,
		.root_fd = -1,
		.files = symbolizer->files,
		.debuginfod = symbolizer->debuginfod,
		.problems = symbolizer->problems,
		.ahead = symbolizer->ahead,
	};
}

void symbolizer_free(struct symbolizer *symbolizer)
{
	if (!symbolizer)
		return;
	close_module(symbolizer);
	stated_ahead_free(symbolizer->ahead);
	debug_problems_release(&symbolizer->problems);
	debuginfod_free(symbolizer->debuginfod);
	free(symbolizer);
}

static void note(struct symbolizer *symbolizer, enum debug_problem problem, const char *path)
{
	debug_problems_add(&symbolizer->problems, symbolizer->interner, problem, path);
}

void symbolizer_add_problems(const struct symbolizer *symbolizer, struct strbuf *text)
{
	debug_problems_describe(&symbolizer->problems, text);
	const char *note = debuginfod_note(symbolizer->debuginfod);
	if (*note)
		strbuf_printf(text, "%sdebuginfod: %s", text->size ? "\n" : "", note);
}

void symbolizer_set_fetch(struct symbolizer *symbolizer, const struct symbolize_fetch *fetch)
{
	debuginfod_free(symbolizer->debuginfod);
	symbolizer->debuginfod = debuginfod_new(fetch);
}

/* Only a build ID makes sure that it is the same; without one it is opened anew. */
static bool is_open(const struct symbolizer *symbolizer, const struct symbolize_module *module)
{
	return symbolizer->open && build_id_equal(&symbolizer->build_id, &module->build_id) &&
	       !strcmp(symbolizer->path, module->path);
}

static bool open_elf(struct symbolizer *symbolizer, const struct symbolize_module *module,
		     struct error *error)
{
	if (module->fd >= 0) {
		/*
		 * Read, not mapped: a file that is truncated meanwhile would kill us with SIGBUS.
		 */
		symbolizer->fd = fcntl(module->fd, F_DUPFD_CLOEXEC, 0);
		if (symbolizer->fd < 0)
			return error_set_errno(error, errno, "cannot open module %s", module->path);
		symbolizer->elf = elf_begin(symbolizer->fd, ELF_C_READ, NULL);
	} else if (module->bytes && module->bytes_size) {
		symbolizer->bytes = alloc_zeroed(1, module->bytes_size);
		memcpy(symbolizer->bytes, module->bytes, module->bytes_size);
		symbolizer->elf = elf_memory(symbolizer->bytes, module->bytes_size);
	}
	if (!elf_is_supported(symbolizer->elf))
		return error_set(error, ERROR_CORRUPT, "module %s: not a 64-bit ELF file",
				 module->path);
	return true;
}

static bool has_content(Elf *elf, const char *name)
{
	GElf_Shdr header;

	return elf_find_section(elf, name, &header) && header.sh_type != SHT_NOBITS &&
	       header.sh_size;
}

/* Why libdw could not take this file. */
static enum debug_problem problem_of(Elf *elf)
{
	uint32_t type;

	if (!elf_section_compressed(elf, ".debug_info", &type) || type == ELFCOMPRESS_ZLIB)
		return DEBUG_PROBLEM_DAMAGED;
	return type == ELFCOMPRESS_ZSTD ? DEBUG_PROBLEM_ZSTD : DEBUG_PROBLEM_COMPRESSION;
}

/* Its units may stand in a .dwp file, all together. */
static void note_missing_dwo(struct symbolizer *symbolizer)
{
	char path[PATH_MAX];
	int fd = -1;

	if (snprintf(path, sizeof(path), "%s.dwp", symbolizer->path) < (int)sizeof(path))
		fd = debug_file_open(symbolizer->root_fd, path);
	note(symbolizer, fd >= 0 ? DEBUG_PROBLEM_DWP : DEBUG_PROBLEM_DWO, symbolizer->path);
	if (fd >= 0)
		close(fd);
	symbolizer->info.dwo_missing = false;
}

static bool fetch_debug_file(struct symbolizer *symbolizer, const struct symbolize_module *module)
{
	const int fd = debuginfod_fetch(symbolizer->debuginfod, &module->build_id, module->path);

	if (fd < 0)
		return false;
	if (debug_files_take(&symbolizer->files, fd, module, symbolizer->elf))
		return true;
	note(symbolizer, DEBUG_PROBLEM_FETCHED, module->path);
	return false;
}

/* libdw (0.188) reads strings that files are named by up to their NUL, be it beyond the section. */
static bool texts_have_an_end(Elf *elf)
{
	static const char *const names[] = {".debug_line_str", ".debug_str"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct elf_bytes bytes;
		if (elf_section_bytes(elf, names[i], &bytes) && bytes.data[bytes.size - 1])
			return false;
	}
	return true;
}

static Dwarf *begin_dwarf(struct symbolizer *symbolizer, Elf *elf, int fd)
{
	symbolizer->debug_elf = elf;
	symbolizer->debug_fd = fd;
	symbolizer->lazy = lazy_dwarf_new(fd, elf, &symbolizer->lazy_elf);
	if (symbolizer->lazy)
		elf = symbolizer->lazy_elf;
	else
		elf_hide_unused(elf);
	Dwarf *dwarf = texts_have_an_end(elf) ? dwarf_begin_elf(elf, DWARF_C_READ, NULL) : NULL;
	if (dwarf)
		debug_info_init(&symbolizer->info, dwarf, elf, symbolizer->lazy, symbolizer->path,
				symbolizer->root_fd);
	return dwarf;
}

/* The file that has .debug_info: the module itself, its debug file, or (lines only) neither. */
static void open_dwarf(struct symbolizer *symbolizer, const struct symbolize_module *module)
{
	Elf *elf = symbolizer->elf;
	int fd = symbolizer->fd;

	if (!has_content(elf, ".debug_info") && !has_content(elf, ".zdebug_info")) {
		if (!debug_files_find(&symbolizer->files, module, elf) &&
		    !fetch_debug_file(symbolizer, module))
			return;
		elf = symbolizer->files.debug.elf;
		fd = symbolizer->files.debug.fd;
	}
	Dwarf *dwarf = begin_dwarf(symbolizer, elf, fd);
	if (dwarf && !debug_files_set_alternate(&symbolizer->files, module, dwarf))
		note(symbolizer, DEBUG_PROBLEM_ALTERNATE, module->path);
	debug_texts_init(&symbolizer->info.alternate, symbolizer->files.alternate.elf);
	if (!symbolizer->info.has_units)
		note(symbolizer, problem_of(elf), module->path);
}

/*
 * What libdw has made of a large library's units is hundreds of megabytes. When addresses come in
 * their order, most units are done with once the next one is asked for: then all is let go of now
 * and then. In another order that would only take time, again and again.
 */
static void forget_units(struct symbolizer *symbolizer, uint64_t pc)
{
	const struct debug_info old = symbolizer->info;

	symbolizer->lookups++;
	symbolizer->turns_back += pc < symbolizer->last_pc;
	symbolizer->last_pc = pc;
	if (!symbolizer->lazy || lazy_dwarf_cost(symbolizer->lazy) < MOST_OF_UNITS ||
	    symbolizer->turns_back > symbolizer->lookups / 8)
		return;
	end_dwarf(symbolizer);
	malloc_trim(0);
	begin_dwarf(symbolizer, symbolizer->debug_elf, symbolizer->debug_fd);
	symbolizer->info.budget = old.budget; /* no file keeps us busy for long */
	symbolizer->info.split_count = old.split_count;
}

bool symbolizer_open(struct symbolizer *symbolizer, const struct symbolize_module *module,
		     struct error *error)
{
	if (is_open(symbolizer, module))
		return true;
	close_module(symbolizer);
	if (!open_elf(symbolizer, module, error)) {
		close_module(symbolizer);
		return false;
	}
	symbolizer->path = alloc_string(module->path);
	if (module->root_fd >= 0)
		symbolizer->root_fd = fcntl(module->root_fd, F_DUPFD_CLOEXEC, 0);
	symbolizer->build_id = module->build_id;
	symbolizer->open = true;
	return true;
}

static void add_mini_debug(struct symbolizer *symbolizer)
{
	enum debug_problem problem;

	if (!mini_debug_open(&symbolizer->mini, symbolizer->elf, &problem))
		note(symbolizer, problem, symbolizer->path);
	if (symbolizer->mini.elf)
		symbol_table_add(&symbolizer->symbols, symbolizer->mini.elf, SHT_SYMTAB);
}

static void build_tables(struct symbolizer *symbolizer)
{
	const struct symbolize_module module = {.path = symbolizer->path,
						.fd = symbolizer->fd,
						.build_id = symbolizer->build_id,
						.root_fd = symbolizer->root_fd};
	struct elf_bytes bytes;

	symbolizer->tables_built = true;
	open_dwarf(symbolizer, &module);
	Elf *elf = symbolizer->elf, *debug = symbolizer->files.debug.elf;
	if (!symbol_table_add(&symbolizer->symbols, elf, SHT_SYMTAB) &&
	    !(debug && symbol_table_add(&symbolizer->symbols, debug, SHT_SYMTAB)))
		add_mini_debug(symbolizer);
	symbol_table_add(&symbolizer->symbols, elf, SHT_DYNSYM);
	symbolizer->walked = !elf_eh_frame_bytes(elf, &symbolizer->eh_frame);
	if (elf_section_bytes(elf, ".debug_frame", &bytes))
		fde_table_add(&symbolizer->fdes, elf, &bytes, false);
	if (debug && elf_section_bytes(debug, ".debug_frame", &bytes))
		fde_table_add(&symbolizer->fdes, debug, &bytes, false);
	interval_sort(&symbolizer->fdes);
}

/* By the linker's sorted table; only where there is none, all FDEs are walked and sorted. */
static bool find_fde(struct symbolizer *symbolizer, uint64_t pc, struct interval *fde)
{
	struct interval_list *fdes = &symbolizer->fdes;

	if (!symbolizer->walked &&
	    !fde_table_search(symbolizer->elf, &symbolizer->eh_frame, pc, fde)) {
		symbolizer->walked = true;
		fde_table_add(fdes, symbolizer->elf, &symbolizer->eh_frame, true);
		interval_sort(fdes);
	} else if (!symbolizer->walked && fde->end) {
		return true;
	}
	const ssize_t at = interval_find(fdes, pc, fdes->count);
	if (at >= 0)
		*fde = fdes->items[at];
	return at >= 0;
}

void symbolizer_each_symbol(struct symbolizer *symbolizer,
			    void (*visit)(void *context, const char *name), void *context)
{
	if (!symbolizer->open)
		return;
	if (!symbolizer->tables_built)
		build_tables(symbolizer);
	symbol_table_each(&symbolizer->symbols, visit, context);
}

void symbolizer_each_variable(struct symbolizer *symbolizer, const char *part,
			      symbolize_visit_variable visit, void *context)
{
	if (!symbolizer->open)
		return;
	if (!symbolizer->tables_built)
		build_tables(symbolizer);
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
	const bool told = outermost->name &&
			  (strncmp(match->name, "_Z", 2) || !strncmp(outermost->linkage, "_Z", 2));
	outermost->linkage = intern_clean(symbolizer->interner, match->name, match->size);
	if (!told)
		outermost->name = symbolize_demangle(symbolizer->interner, outermost->linkage);
}

/* "memcpy@plt", as debuggers call it. False: no stub is there. */
static bool add_stub(struct symbolizer *symbolizer, uint64_t pc, struct symbolize_result *result)
{
	struct interner *interner = symbolizer->interner;
	struct plt_stub stub;
	_cleanup_strbuf_ struct strbuf name;

	strbuf_init(&name);
	if (result->count || !plt_stub_find(symbolizer->elf, pc, &stub))
		return false;
	const char *symbol = intern_clean(interner, stub.symbol, strlen(stub.symbol));
	strbuf_printf(&name, "%s@plt", symbolize_demangle(interner, symbol));
	result->frames[result->count++] =
		(struct symbolize_frame){.name = intern_bytes(interner, name.text, name.size)};
	result->has_function = true;
	result->function_start = stub.start;
	return true;
}

void symbolizer_read_ahead(struct symbolizer *symbolizer, const struct symbolize_module *module)
{
	stated_ahead_free(symbolizer->ahead);
	symbolizer->ahead = stated_ahead_start(module);
}

static void need_stated(struct symbolizer *symbolizer)
{
	if (!symbolizer->stated_built &&
	    !stated_ahead_take(symbolizer->ahead, symbolizer->path, &symbolizer->build_id,
			       &symbolizer->stated))
		stated_names_load(&symbolizer->stated, symbolizer->elf);
	symbolizer->stated_built = true;
}

void symbolizer_each_stated(struct symbolizer *symbolizer,
			    void (*visit)(void *context, const struct symbolize_stated *stated),
			    void *context)
{
	if (!symbolizer->open)
		return;
	need_stated(symbolizer);
	stated_names_each(&symbolizer->stated, symbolizer->interner, visit, context);
}

bool symbolize_stated_name(struct symbolizer *symbolizer, uint64_t address,
			   struct symbolize_stated *stated)
{
	if (!symbolizer->open)
		return false;
	need_stated(symbolizer);
	return stated_names_find(&symbolizer->stated, symbolizer->interner, address, stated);
}

bool symbolize_estimated_line(struct symbolizer *symbolizer, uint64_t address, const char **file,
			      int *line)
{
	struct symbolize_stated stated;
	struct stated_line found;

	if (!address || !symbolize_stated_name(symbolizer, address - 1, &stated))
		return false;
	stated_line_find(&symbolizer->stated, symbolizer->interner, symbolizer->elf,
			 &symbolizer->code, &stated, address, &found);
	if (!found.line)
		return false;
	*file = found.file;
	*line = found.line;
	return true;
}

/* `site`: the return address of the call; 0: none. */
static void add_stated(struct symbolizer *symbolizer, uint64_t pc, uint64_t site,
		       struct symbolize_result *result)
{
	struct stated_line line = {.line = 0};

	if (result->count || !symbolize_stated_name(symbolizer, pc, &result->stated))
		return;
	if (site)
		stated_line_find(&symbolizer->stated, symbolizer->interner, symbolizer->elf,
				 &symbolizer->code, &result->stated, site, &line);
	result->frames[result->count++] = (struct symbolize_frame){
		.name = result->stated.name,
		.file = line.file,
		.line = line.line,
		.stated = &result->stated,
	};
}

void symbolize_pc(struct symbolizer *symbolizer, uint64_t address, bool exact,
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
	if (!symbolizer->tables_built)
		build_tables(symbolizer);
	struct interval range;
	const struct interval *fde = find_fde(symbolizer, pc, &range) ? &range : NULL;
	forget_units(symbolizer, pc);
	inline_chain_resolve(&symbolizer->info, symbolizer->interner, pc, result);
	if (symbolizer->info.dwo_missing)
		note_missing_dwo(symbolizer);
	const char *wanted = result->count ? result->frames[result->count - 1].linkage : NULL;
	const bool found = symbol_table_find(&symbolizer->symbols, pc, fde, wanted, &match);
	if (found)
		add_symbol(symbolizer, &match, result);
	if (add_stub(symbolizer, pc, result))
		return;
	add_stated(symbolizer, pc, exact ? 0 : address, result);
	result->has_function = fde || found;
	if (result->has_function)
		result->function_start = fde ? fde->start : match.start;
}
