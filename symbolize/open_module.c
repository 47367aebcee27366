/* SPDX-License-Identifier: MIT */
/*
 * Opens a module: its own file, bytes, or the debug file of one that is not here; then, when asked
 * for, its DWARF and symbol tables. Must never let libdw open a file by itself: paths in files are
 * the target's to choose.
 */
#include "symbolize/open_module.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

/* Bytes that the units of one module may take, if they can be had again. */
enum { MOST_OF_UNITS = 32 << 20 };

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

void open_module_close(struct symbolizer *symbolizer)
{
	end_dwarf(symbolizer);
	symbol_table_release(&symbolizer->symbols);
	interval_list_release(&symbolizer->functions.fdes);
	recovered_names_release(&symbolizer->recovered);
	kept_symbols_release(&symbolizer->where.kept);
	image_release(&symbolizer->code);
	debug_files_release(&symbolizer->files);
	mini_debug_close(&symbolizer->mini);
	elf_end(symbolizer->elf);
	if (symbolizer->fd >= 0)
		close(symbolizer->fd);
	if (symbolizer->where.root.fd >= 0)
		close(symbolizer->where.root.fd);
	free(symbolizer->bytes);
	free(symbolizer->path);
	*symbolizer = (struct symbolizer){
		.interner = symbolizer->interner,
		.fd = -1,
		.where = {.root = {.fd = -1}},
		.files = symbolizer->files,
		.debuginfod = symbolizer->debuginfod,
		.problems = symbolizer->problems,
		.ahead = symbolizer->ahead,
	};
}

static void note(struct symbolizer *symbolizer, enum debug_problem problem, const char *path)
{
	debug_problems_add(&symbolizer->problems, symbolizer->interner, problem, path);
}

/* Only a build ID makes sure that it is the same; without one it is opened anew. */
static bool is_open(const struct symbolizer *symbolizer, const struct symbolize_module *module)
{
	return symbolizer->open && build_id_equal(&symbolizer->build_id, &module->build_id) &&
	       strcmp(symbolizer->path, module->path) == 0;
}

/* A module that is not here: its debug file has the names and lines of it. */
static void open_bare(struct symbolizer *symbolizer, const struct symbolize_module *module)
{
	struct debug_files *files = &symbolizer->files;

	if (!debug_files_stand_in(files, -1, module)) {
		const int fd =
			debuginfod_fetch(symbolizer->debuginfod, &module->build_id, module->path);
		if (fd < 0 || !debug_files_stand_in(files, fd, module))
			return;
	}
	symbolizer->fd = files->debug.fd;
	symbolizer->elf = files->debug.elf;
	files->debug = (struct debug_file){.fd = -1};
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
	} else if (!module->bytes &&
		   (module->build_id.size || module->stated_size || module->kept_size)) {
		symbolizer->where.bare = true;
		open_bare(symbolizer, module);
		if (!symbolizer->elf && (module->stated_size || module->kept_size))
			return true;
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

/* Its units may be in a .dwp file, all together. */
void open_module_note_missing_dwo(struct symbolizer *symbolizer)
{
	char path[PATH_MAX];
	int fd = -1;

	if (snprintf(path, sizeof(path), "%s.dwp", symbolizer->path) < (int)sizeof(path))
		fd = foreign_file_open(symbolizer->where.root, path);
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
				symbolizer->where.root);
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

void open_module_forget_units(struct symbolizer *symbolizer, uint64_t pc)
{
	const struct debug_info old = symbolizer->info;

	symbolizer->order.lookups++;
	symbolizer->order.turns_back += pc < symbolizer->order.last_pc;
	symbolizer->order.last_pc = pc;
	if (!symbolizer->lazy || lazy_dwarf_cost(symbolizer->lazy) < MOST_OF_UNITS ||
	    symbolizer->order.turns_back > symbolizer->order.lookups / 8)
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
	open_module_close(symbolizer);
	if (!open_elf(symbolizer, module, error)) {
		open_module_close(symbolizer);
		return false;
	}
	symbolizer->path = alloc_string(module->path);
	symbolizer->where = (struct where){
		.root = {.fd = module->root_fd, .user = module->root_user, .far = module->root_far},
		.symbols = module->symbols,
		.find_debug = module->find_debug,
		.find_function = module->find_function,
		.context = module->context,
		.stated = module->stated,
		.stated_size = module->stated_size,
		.bare = symbolizer->where.bare};
	if (symbolizer->where.bare)
		kept_symbols_read(&symbolizer->where.kept, module->kept, module->kept_size);
	if (module->root_fd >= 0) {
		const int root = fcntl(module->root_fd, F_DUPFD_CLOEXEC, 0);
		symbolizer->where.root.fd = root >= 0 ? root : FOREIGN_NOWHERE;
	}
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

void open_module_need_tables(struct symbolizer *symbolizer)
{
	const struct symbolize_module module = {.path = symbolizer->path,
						.fd = symbolizer->fd,
						.build_id = symbolizer->build_id,
						.root_fd = symbolizer->where.root.fd,
						.root_user = symbolizer->where.root.user,
						.root_far = symbolizer->where.root.far,
						.symbols = symbolizer->where.symbols,
						.find_debug = symbolizer->where.find_debug,
						.context = symbolizer->where.context};
	struct elf_bytes bytes;

	if (symbolizer->tables_built)
		return;
	symbolizer->tables_built = symbolizer->functions.walked = true;
	if (!symbolizer->elf)
		return;
	open_dwarf(symbolizer, &module);
	Elf *elf = symbolizer->elf, *debug = symbolizer->files.debug.elf;
	if (!symbol_table_add(&symbolizer->symbols, elf, SHT_SYMTAB) &&
	    !(debug && symbol_table_add(&symbolizer->symbols, debug, SHT_SYMTAB)))
		add_mini_debug(symbolizer);
	symbol_table_add(&symbolizer->symbols, elf, SHT_DYNSYM);
	/* Of a debug file the segments are not in it. */
	symbolizer->functions.walked =
		symbolizer->where.bare || !elf_eh_frame_bytes(elf, &symbolizer->functions.eh_frame);
	if (elf_section_bytes(elf, ".debug_frame", &bytes))
		fde_table_add(&symbolizer->functions.fdes, elf, &bytes, false);
	if (debug && elf_section_bytes(debug, ".debug_frame", &bytes))
		fde_table_add(&symbolizer->functions.fdes, debug, &bytes, false);
	interval_sort(&symbolizer->functions.fdes);
}
