/* SPDX-License-Identifier: MIT */
/*
 * The address of one symbol by name: a handful of look-ups a process, so tables are read through
 * pread, searched from front to back and dropped. Every offset is checked: symbol tables are as
 * hostile as the file they stand in.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "target/internal.h"

enum {
	STRINGS_LIMIT = 256 * 1024 * 1024,
	SYMBOLS_LIMIT = 16 * 1024 * 1024,
	SYMBOLS_STEP = 1024,
	DYNAMIC_LIMIT = 4096,
};

/* Where a symbol table and its names are; by offset in the file, or by ELF address. */
struct symbol_table {
	uint64_t symbols, count, strings, strings_size;
	bool by_address;
};

static bool read_at(const struct module *module, const struct symbol_table *table, uint64_t at,
		    void *buffer, size_t size)
{
	return table->by_address ? module_read(module, at, buffer, size, NULL)
				 : module_read_file(module, at, buffer, size, NULL);
}

static bool is_match(const Elf64_Sym *symbol, const char *strings, size_t strings_size,
		     const char *name, size_t name_size)
{
	unsigned type = ELF64_ST_TYPE(symbol->st_info);
	if (symbol->st_shndx == SHN_UNDEF || !symbol->st_value || type == STT_TLS ||
	    type == STT_FILE || type == STT_SECTION)
		return false;
	return symbol->st_name < strings_size && name_size <= strings_size - symbol->st_name &&
	       memcmp(strings + symbol->st_name, name, name_size) == 0;
}

static bool search_table(const struct module *module, const struct symbol_table *table,
			 const char *name, uint64_t *vaddr, uint64_t *size)
{
	if (!table->count || table->count > SYMBOLS_LIMIT || !table->strings_size ||
	    table->strings_size > STRINGS_LIMIT)
		return false;
	_cleanup_free_ char *strings = malloc(table->strings_size);
	Elf64_Sym symbols[SYMBOLS_STEP];
	if (!strings || !read_at(module, table, table->strings, strings, table->strings_size))
		return false;
	for (uint64_t done = 0; done < table->count; done += SYMBOLS_STEP) {
		uint64_t left = table->count - done;
		size_t step = left < SYMBOLS_STEP ? (size_t)left : SYMBOLS_STEP;
		if (!read_at(module, table, table->symbols + done * sizeof(symbols[0]), symbols,
			     step * sizeof(symbols[0])))
			return false;
		for (size_t i = 0; i < step; i++) {
			if (!is_match(&symbols[i], strings, table->strings_size, name,
				      strlen(name) + 1))
				continue;
			*vaddr = symbols[i].st_value;
			if (size)
				*size = symbols[i].st_size;
			return true;
		}
	}
	return false;
}

static bool search_sections(const struct module *module, const char *symbols, const char *strings,
			    const char *name, uint64_t *vaddr, uint64_t *size)
{
	const struct module_section *table = module_section(module, symbols);
	const struct module_section *names = module_section(module, strings);
	if (!table || !names || table->type == SHT_NOBITS || names->type == SHT_NOBITS)
		return false;
	struct symbol_table where = {
		.symbols = table->file_offset,
		.count = table->size / sizeof(Elf64_Sym),
		.strings = names->file_offset,
		.strings_size = names->size,
	};
	return search_table(module, &where, name, vaddr, size);
}

/* ---- without section headers ---- */

/* A DT_GNU_HASH table knows no count: it is one more than the last symbol of the last chain. */
static uint64_t count_gnu_hash(const struct module *module, uint64_t hash)
{
	uint32_t header[4]; /* buckets, first symbol, words of the filter, shift */
	uint64_t last = 0;
	if (!module_read(module, hash, header, sizeof(header), NULL) || header[0] > SYMBOLS_LIMIT ||
	    header[2] > SYMBOLS_LIMIT)
		return 0;
	uint64_t buckets = hash + sizeof(header) + UINT64_C(8) * header[2];
	for (uint32_t i = 0; i < header[0]; i++) {
		uint32_t first;
		if (!module_read(module, buckets + UINT64_C(4) * i, &first, sizeof(first), NULL))
			return 0;
		if (first > last)
			last = first;
	}
	uint64_t chains = buckets + UINT64_C(4) * header[0];
	for (; last >= header[1] && last < SYMBOLS_LIMIT; last++) {
		uint32_t link;
		if (!module_read(module, chains + 4 * (last - header[1]), &link, sizeof(link),
				 NULL))
			return 0;
		if (link & 1)
			return last + 1;
	}
	return 0;
}

static uint64_t count_hash(const struct module *module, uint64_t hash)
{
	uint32_t header[2]; /* buckets, symbols */
	return module_read(module, hash, header, sizeof(header), NULL) ? header[1] : 0;
}

/* In an image copied from memory the loader has made some of these run-time addresses. */
static uint64_t elf_address(const struct module *module, uint64_t value)
{
	return !module->fixed && module->load_bias && value >= module->load_bias
		       ? value - module->load_bias : value;
}

static bool search_dynamic(const struct module *module, const char *name, uint64_t *vaddr,
			   uint64_t *size)
{
	uint64_t hash = 0, gnu_hash = 0;
	struct symbol_table where = {.by_address = true};
	for (size_t i = 0; i < DYNAMIC_LIMIT && i < module->dynamic_size / sizeof(Elf64_Dyn); i++) {
		Elf64_Dyn entry;
		if (!module_read(module, module->dynamic + i * sizeof(entry), &entry,
				 sizeof(entry), NULL) || entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag == DT_SYMTAB)
			where.symbols = elf_address(module, entry.d_un.d_ptr);
		else if (entry.d_tag == DT_STRTAB)
			where.strings = elf_address(module, entry.d_un.d_ptr);
		else if (entry.d_tag == DT_STRSZ)
			where.strings_size = entry.d_un.d_val;
		else if (entry.d_tag == DT_HASH)
			hash = elf_address(module, entry.d_un.d_ptr);
		else if (entry.d_tag == DT_GNU_HASH)
			gnu_hash = elf_address(module, entry.d_un.d_ptr);
	}
	if (!where.symbols || !where.strings)
		return false;
	where.count = hash ? count_hash(module, hash) : 0;
	if (!where.count && gnu_hash)
		where.count = count_gnu_hash(module, gnu_hash);
	return search_table(module, &where, name, vaddr, size);
}

/* ---- the separate debug file ---- */

static bool search_debug_file(const struct module *module, const char *name, uint64_t *vaddr,
			      uint64_t *size)
{
	char hex[65], path[128];
	if (module->build_id.size < 2)
		return false;
	build_id_hex(&module->build_id, hex);
	snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%.2s/%s.debug", hex, hex + 2);
	int fd = proc_open_regular(AT_FDCWD, path);
	if (fd < 0)
		return false;
	struct module *debug = module_new(path);
	debug->fd = fd;
	bool found = module_read_sections(debug) && debug->build_id.size == module->build_id.size &&
		     memcmp(debug->build_id.bytes, module->build_id.bytes,
			    module->build_id.size) == 0 &&
		     search_sections(debug, ".symtab", ".strtab", name, vaddr, size);
	module_free(debug);
	return found;
}

bool module_symbol(const struct module *module, const char *name, uint64_t *vaddr, uint64_t *size,
		   struct error *error)
{
	bool found = module_section(module, ".dynsym")
		? search_sections(module, ".dynsym", ".dynstr", name, vaddr, size)
		: search_dynamic(module, name, vaddr, size);
	if (found || search_sections(module, ".symtab", ".strtab", name, vaddr, size) ||
	    search_debug_file(module, name, vaddr, size))
		return true;
	return error_set(error, ERROR_ABSENT, "%s has no symbol %s", module->path, name);
}
