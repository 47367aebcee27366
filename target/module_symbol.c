/* SPDX-License-Identifier: MIT */
/*
 * The addresses of symbols by name: a handful of look-ups a process, so tables are read through
 * pread, searched from front to back, once for all names, and dropped. Every offset is checked:
 * symbol tables are as hostile as the file they stand in.
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
	SYMBOLS_STEP = 4096,
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

struct search {
	const char *const *names;
	struct module_place *places;
	size_t count, missing;
	/* Looking for parts: those found so far, and room for them. */
	struct module_place *parts;
	size_t part_count, part_capacity;
};

static bool is_definition(const Elf64_Sym *symbol)
{
	unsigned type = ELF64_ST_TYPE(symbol->st_info);
	return symbol->st_shndx != SHN_UNDEF && symbol->st_value && type != STT_TLS &&
	       type != STT_FILE && type != STT_SECTION;
}

static void compare_names(struct search *search, const Elf64_Sym *symbol, const char *strings,
			  uint64_t strings_size)
{
	const char *text = strings + symbol->st_name;
	uint64_t room = strings_size - symbol->st_name;
	for (size_t i = 0; i < search->count; i++) {
		const char *name = search->names[i];
		if (*text != *name || search->places[i].found)
			continue;
		size_t size = strlen(name) + 1;
		if (size > room || memcmp(text, name, size) != 0)
			continue;
		search->places[i] =
			(struct module_place){symbol->st_value, symbol->st_size, true, (uint32_t)i};
		search->missing--;
	}
}

/* "name" itself and "name.cold", not "name_of_another". */
static bool is_part(const char *text, uint64_t room, const char *name)
{
	if (*text != *name)
		return false;
	size_t size = strlen(name);
	return size < room && memcmp(text, name, size) == 0 &&
	       (text[size] == '\0' || text[size] == '.');
}

static void compare_parts(struct search *search, const Elf64_Sym *symbol, const char *strings,
			  uint64_t strings_size)
{
	size_t name = 0;
	while (name < search->count &&
	       !is_part(strings + symbol->st_name, strings_size - symbol->st_name,
			search->names[name]))
		name++;
	if (name == search->count || !symbol->st_size || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
		return;
	for (size_t i = 0; i < search->part_count; i++)
		if (search->parts[i].vaddr == symbol->st_value)
			return;
	search->parts[search->part_count++] =
		(struct module_place){symbol->st_value, symbol->st_size, true, (uint32_t)name};
	search->missing = search->part_count < search->part_capacity;
}

static void compare(struct search *search, const Elf64_Sym *symbol, const char *strings,
		    uint64_t strings_size)
{
	if (!search->parts)
		compare_names(search, symbol, strings, strings_size);
	else if (search->missing)
		compare_parts(search, symbol, strings, strings_size);
}

static void search_table(const struct module *module, const struct symbol_table *table,
			 struct search *search)
{
	if (!table->count || table->count > SYMBOLS_LIMIT || !table->strings_size ||
	    table->strings_size > STRINGS_LIMIT)
		return;
	_cleanup_free_ char *strings = malloc(table->strings_size);
	_cleanup_free_ Elf64_Sym *symbols = malloc(SYMBOLS_STEP * sizeof(*symbols));
	if (!strings || !symbols ||
	    !read_at(module, table, table->strings, strings, table->strings_size))
		return;
	for (uint64_t done = 0; done < table->count && search->missing; done += SYMBOLS_STEP) {
		uint64_t left = table->count - done;
		size_t step = left < SYMBOLS_STEP ? (size_t)left : SYMBOLS_STEP;
		if (!read_at(module, table, table->symbols + done * sizeof(*symbols), symbols,
			     step * sizeof(*symbols)))
			return;
		for (size_t i = 0; i < step; i++)
			if (symbols[i].st_name < table->strings_size && is_definition(&symbols[i]))
				compare(search, &symbols[i], strings, table->strings_size);
	}
}

static void search_sections(const struct module *module, const char *symbols, const char *strings,
			    struct search *search)
{
	const struct module_section *table = module_section(module, symbols);
	const struct module_section *names = module_section(module, strings);
	if (!search->missing || !table || !names || table->type == SHT_NOBITS ||
	    names->type == SHT_NOBITS)
		return;
	struct symbol_table where = {
		.symbols = table->file_offset,
		.count = table->size / sizeof(Elf64_Sym),
		.strings = names->file_offset,
		.strings_size = names->size,
	};
	search_table(module, &where, search);
}

/* ---- without section headers ---- */

/* The words of a table one after the other, read in blocks: a hostile one is as long as it likes.
 */
struct words {
	const struct module *module;
	uint64_t next; /* address of the next block */
	uint32_t block[1024];
	size_t count, at;
};

static bool next_word(struct words *words, uint32_t *word)
{
	if (words->at == words->count) {
		const size_t size = sizeof(words->block);
		words->count = sizeof(words->block) / sizeof(*words->block);
		/* Near the end of a segment there are fewer than that. */
		if (!module_read(words->module, words->next, words->block, size, NULL)) {
			words->count = 1;
			if (!module_read(words->module, words->next, words->block, 4, NULL))
				return false;
		} else if (!words->block[0] &&
			   memcmp(words->block, words->block + 1, size - 4) == 0)
			return false; /* memory without bytes in the file: no table is so empty */
		words->next += 4 * words->count;
		words->at = 0;
	}
	*word = words->block[words->at++];
	return true;
}

/* A DT_GNU_HASH table knows no count: it is one more than the last symbol of the last chain. */
static uint64_t count_gnu_hash(const struct module *module, uint64_t hash)
{
	uint32_t header[4]; /* buckets, first symbol, words of the filter, shift */
	uint64_t last = 0;
	if (!module_read(module, hash, header, sizeof(header), NULL) || header[0] > SYMBOLS_LIMIT ||
	    header[2] > SYMBOLS_LIMIT)
		return 0;
	struct words words = {.module = module,
			      .next = hash + sizeof(header) + UINT64_C(8) * header[2]};
	const uint64_t chains = words.next + UINT64_C(4) * header[0];
	for (uint32_t i = 0; i < header[0]; i++) {
		uint32_t first;
		if (!next_word(&words, &first))
			return 0;
		if (first > last)
			last = first;
	}
	words = (struct words){.module = module, .next = chains + 4 * (last - header[1])};
	for (; last >= header[1] && last < SYMBOLS_LIMIT; last++) {
		uint32_t link;
		if (!next_word(&words, &link))
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
		       ? value - module->load_bias
		       : value;
}

static void search_dynamic(const struct module *module, struct search *search)
{
	uint64_t hash = 0, gnu_hash = 0;
	struct symbol_table where = {.by_address = true};
	for (size_t i = 0; i < DYNAMIC_LIMIT && i < module->dynamic_size / sizeof(Elf64_Dyn); i++) {
		Elf64_Dyn entry;
		if (!module_read(module, module->dynamic + i * sizeof(entry), &entry, sizeof(entry),
				 NULL) ||
		    entry.d_tag == DT_NULL)
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
		return;
	where.count = hash ? count_hash(module, hash) : 0;
	if (!where.count && gnu_hash)
		where.count = count_gnu_hash(module, gnu_hash);
	search_table(module, &where, search);
}

/* ---- the separate debug file ---- */

static void search_debug_file(const struct module *module, struct search *search)
{
	char hex[65], path[128];
	if (!search->missing || module->build_id.size < 2)
		return;
	build_id_hex(&module->build_id, hex);
	snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%.2s/%s.debug", hex, hex + 2);
	int fd = proc_open_regular(AT_FDCWD, path);
	if (fd < 0)
		return;
	struct module *debug = module_new(path);
	debug->fd = fd;
	if (module_read_sections(debug) && build_id_equal(&debug->build_id, &module->build_id))
		search_sections(debug, ".symtab", ".strtab", search);
	module_free(debug);
}

static void search_exported(const struct module *module, struct search *search)
{
	if (module_section(module, ".dynsym"))
		search_sections(module, ".dynsym", ".dynstr", search);
	else
		search_dynamic(module, search);
}

static void search_all(const struct module *module, struct search *search)
{
	search_exported(module, search);
	search_sections(module, ".symtab", ".strtab", search);
	search_debug_file(module, search);
}

size_t module_find_symbols(const struct module *module, const char *const names[], size_t count,
			   struct module_place places[])
{
	struct search search = {.names = names, .places = places, .count = count, .missing = count};
	memset(places, 0, count * sizeof(*places));
	search_all(module, &search);
	return count - search.missing;
}

size_t module_find_exported(const struct module *module, const char *const names[], size_t count,
			    struct module_place places[])
{
	struct search search = {.names = names, .places = places, .count = count, .missing = count};
	memset(places, 0, count * sizeof(*places));
	search_exported(module, &search);
	return count - search.missing;
}

size_t module_find_parts(const struct module *module, const char *const names[], size_t count,
			 struct module_place parts[], size_t capacity)
{
	struct search search = {.names = names,
				.count = count,
				.missing = capacity > 0,
				.parts = parts,
				.part_capacity = capacity};
	search_all(module, &search);
	return search.part_count;
}

bool module_symbol(const struct module *module, const char *name, uint64_t *vaddr, uint64_t *size,
		   struct error *error)
{
	struct module_place place;
	if (!module_find_symbols(module, &name, 1, &place))
		return error_set(error, ERROR_ABSENT, "%s has no symbol %s", module->path, name);
	*vaddr = place.vaddr;
	if (size)
		*size = place.size;
	return true;
}
