/* SPDX-License-Identifier: MIT */
/*
 * Is there this symbol in a file? Asked of every module of a process for the sake of the one that
 * has it, so the names are looked through first, a piece at a time: a library like LLVM's has 16 MB
 * of them. Only where the name occurs the table of symbols is read. Every number is the file's to
 * choose.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "modules/jit.h"

enum { PIECE = 1 << 20, PLACES = 8, SYMBOLS_STEP = 2048 };

/* Offsets in a string table at which a string ends with the name: linkers let names share ends. */
struct places {
	uint32_t offsets[PLACES];
	size_t count;
};

static void find_in_piece(const char *piece, size_t size, uint64_t base, const char *name,
			  struct places *places)
{
	const size_t wanted = strlen(name) + 1;
	const char *at = piece;
	while (places->count < PLACES &&
	       (at = memmem(at, size - (size_t)(at - piece), name, wanted))) {
		places->offsets[places->count++] = (uint32_t)(base + (uint64_t)(at - piece));
		at++;
	}
}

static void find_name(const struct module *module, const struct module_section *strings,
		      const char *name, struct places *places)
{
	const size_t overlap = strlen(name);
	_cleanup_free_ char *piece = alloc_zeroed(1, PIECE);
	for (uint64_t at = 0; at < strings->size && at < UINT32_MAX; at += PIECE - overlap) {
		const uint64_t left = strings->size - at;
		const size_t size = left < PIECE ? (size_t)left : PIECE;
		if (!module_read_file(module, strings->file_offset + at, piece, size, NULL))
			return;
		find_in_piece(piece, size, at, name, places);
		if (left <= PIECE)
			return;
	}
}

static bool is_named(const Elf64_Sym *symbol, const struct places *places)
{
	for (size_t i = 0; i < places->count; i++)
		if (symbol->st_name == places->offsets[i])
			return symbol->st_shndx != SHN_UNDEF && symbol->st_value;
	return false;
}

static bool find_symbol(const struct module *module, const struct module_section *table,
			const struct places *places, uint64_t *vaddr)
{
	_cleanup_free_ Elf64_Sym *symbols = alloc_zeroed(SYMBOLS_STEP, sizeof(*symbols));
	const uint64_t count = table->size / sizeof(*symbols);
	for (uint64_t done = 0; done < count; done += SYMBOLS_STEP) {
		const size_t step =
			count - done < SYMBOLS_STEP ? (size_t)(count - done) : SYMBOLS_STEP;
		if (!module_read_file(module, table->file_offset + done * sizeof(*symbols), symbols,
				      step * sizeof(*symbols), NULL))
			return false;
		for (size_t i = 0; i < step; i++)
			if (is_named(&symbols[i], places)) {
				*vaddr = symbols[i].st_value;
				return true;
			}
	}
	return false;
}

static bool scan_table(const struct module *module, const char *symbols, const char *strings,
		       const char *name, uint64_t *vaddr)
{
	const struct module_section *table = module_section(module, symbols);
	const struct module_section *names = module_section(module, strings);
	struct places places = {.count = 0};
	if (!table || !names || table->type == SHT_NOBITS || names->type == SHT_NOBITS)
		return false;
	find_name(module, names, name, &places);
	return places.count && find_symbol(module, table, &places, vaddr);
}

bool symbol_scan(const struct module *module, const char *name, uint64_t *vaddr)
{
	const struct module plain = module_unrecorded(module);
	struct module_place place;
	if (scan_table(&plain, ".dynsym", ".dynstr", name, vaddr) ||
	    scan_table(&plain, ".symtab", ".strtab", name, vaddr))
		return true;
	/* Without section headers there is but what is exported. */
	if (module->section_count || !module_find_exported(module, &name, 1, &place))
		return false;
	*vaddr = place.vaddr;
	return true;
}
