/* SPDX-License-Identifier: MIT */
/*
 * The addresses of symbols by name: a handful of look-ups a process, so tables are read through
 * pread, searched from front to back, once for all names, and dropped. Every offset is checked:
 * symbol tables are as hostile as the file they are in.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "elf/dynamic.h"
#include "elf/elf.h"
#include "modules/internal.h"

enum {
	STRINGS_LIMIT = 256 * 1024 * 1024,
	SYMBOLS_LIMIT = 16 * 1024 * 1024,
	SYMBOLS_STEP = 4096,
};

/* Where a symbol table and its names are; by offset in the file, or by ELF address. */
struct table_place {
	uint64_t symbols, count, strings, strings_size;
	bool by_address;
};

static bool read_at(const struct module *module, const struct table_place *table, uint64_t at,
		    void *buffer, size_t size)
{
	return table->by_address ? module_read(module, at, buffer, size, NULL)
				 : module_read_file(module, at, buffer, size, NULL);
}

/* A name that is looked for, and its first bytes as a number: there most symbols differ. */
struct wanted_name {
	const char *text;
	size_t size;
	uint64_t first, mask;
};

enum { FIRST_BYTES = sizeof(uint64_t) };

struct symbol_search {
	const char *const *names;
	struct wanted_name *wanted; /* the same */
	struct module_place *places;
	size_t count, missing;
	/* Looking for parts: those found so far, and room for them. */
	struct module_place *parts;
	size_t part_count, part_capacity;
	bool all; /* what begins with a name is a part, and there is always more room */
};

static bool is_definition(const Elf64_Sym *symbol)
{
	unsigned type = ELF64_ST_TYPE(symbol->st_info);
	return symbol->st_shndx != SHN_UNDEF && symbol->st_value && type != STT_TLS &&
	       type != STT_FILE && type != STT_SECTION;
}

static struct wanted_name *wanted_names(const char *const names[], size_t count)
{
	struct wanted_name *const wanted = alloc_zeroed(count + 1, sizeof(*wanted));
	for (size_t i = 0; i < count; i++) {
		const size_t size = strlen(names[i]);
		const size_t compared = size < FIRST_BYTES ? size : FIRST_BYTES;
		wanted[i].text = names[i];
		wanted[i].size = size;
		memcpy(&wanted[i].first, names[i], compared);
		memset(&wanted[i].mask, 0xff, compared);
	}
	return wanted;
}

/* Behind the text are FIRST_BYTES more, the table's or zeros; `room`: bytes of the table. */
static bool begins_with(const char *text, uint64_t room, const struct wanted_name *wanted)
{
	uint64_t first;
	memcpy(&first, text, sizeof(first));
	return (first & wanted->mask) == wanted->first && wanted->size < room &&
	       memcmp(text, wanted->text, wanted->size) == 0;
}

static void compare_names(struct symbol_search *search, const Elf64_Sym *symbol,
			  const char *strings, uint64_t strings_size)
{
	const char *text = strings + symbol->st_name;
	uint64_t room = strings_size - symbol->st_name;
	for (size_t i = 0; i < search->count; i++) {
		const struct wanted_name *const wanted = &search->wanted[i];
		if (!begins_with(text, room, wanted) || text[wanted->size] != '\0' ||
		    search->places[i].found)
			continue;
		search->places[i] =
			(struct module_place){symbol->st_value, symbol->st_size, true, (uint32_t)i};
		search->missing--;
	}
}

/* "name" itself and "name.cold", not "name_of_another". */
static bool is_part(const char *text, uint64_t room, const struct wanted_name *wanted)
{
	return begins_with(text, room, wanted) &&
	       (text[wanted->size] == '\0' || text[wanted->size] == '.');
}

static void compare_starts(struct symbol_search *search, const Elf64_Sym *symbol,
			   const char *strings, uint64_t strings_size)
{
	size_t name = 0, room = search->part_count + search->missing;
	while (name < search->count &&
	       !begins_with(strings + symbol->st_name, strings_size - symbol->st_name,
			    &search->wanted[name]))
		name++;
	if (name == search->count || !symbol->st_size || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
		return;
	search->parts = alloc_room(search->parts, &search->part_capacity, search->part_count + 1,
				   sizeof(*search->parts));
	search->parts[search->part_count++] =
		(struct module_place){symbol->st_value, symbol->st_size, true, (uint32_t)name};
	search->missing = room - search->part_count;
}

static void compare_parts(struct symbol_search *search, const Elf64_Sym *symbol,
			  const char *strings, uint64_t strings_size)
{
	size_t name = 0;
	while (name < search->count &&
	       !is_part(strings + symbol->st_name, strings_size - symbol->st_name,
			&search->wanted[name]))
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

/* The same for what was found when the samples were captured. */
static void take_answer(struct symbol_search *search, const struct module_place *place)
{
	if (place->name >= search->count || !search->missing)
		return;
	if (search->places) {
		search->missing -= !search->places[place->name].found;
		search->places[place->name] = *place;
		return;
	}
	if (search->all)
		search->parts = alloc_room(search->parts, &search->part_capacity,
					   search->part_count + 1, sizeof(*search->parts));
	search->parts[search->part_count++] = *place;
	search->missing =
		search->all ? search->missing - 1 : search->part_count < search->part_capacity;
}

static void compare(struct symbol_search *search, const Elf64_Sym *symbol, const char *strings,
		    uint64_t strings_size)
{
	if (search->all)
		compare_starts(search, symbol, strings, strings_size);
	else if (!search->parts)
		compare_names(search, symbol, strings, strings_size);
	else if (search->missing)
		compare_parts(search, symbol, strings, strings_size);
}

/* Where the names are in the file; false: elsewhere, zeros that a header asks for included. */
static bool find_names(const struct module *module, const struct table_place *table,
		       uint64_t *file_offset)
{
	*file_offset = table->strings;
	if (!table->by_address)
		return true;
	for (size_t i = 0; i < module->segment_count; i++) {
		const struct module_segment *segment = &module->segments[i];
		const uint64_t into = table->strings - segment->vaddr;
		if (table->strings < segment->vaddr || into > segment->file_size ||
		    table->strings_size > segment->file_size - into)
			continue;
		*file_offset = segment->file_offset + into;
		return true;
	}
	return false;
}

/* Room is only made for names that the file reaches to the end of; zeros follow them. */
static char *read_names(const struct module *module, const struct table_place *table)
{
	const uint64_t size = table->strings_size;
	uint64_t at;
	char last;
	if (!size || size > STRINGS_LIMIT || !find_names(module, table, &at) ||
	    at > INT64_MAX - size || !module_read_file(module, at + size - 1, &last, 1, NULL))
		return NULL;
	char *names = malloc(size + FIRST_BYTES);
	if (names && module_read_file(module, at, names, size, NULL)) {
		memset(names + size, 0, FIRST_BYTES);
		return names;
	}
	free(names);
	return NULL;
}

static void search_table(const struct module *module, const struct table_place *table,
			 struct symbol_search *search)
{
	if (!table->count || table->count > SYMBOLS_LIMIT)
		return;
	_cleanup_free_ char *strings = read_names(module, table);
	_cleanup_free_ Elf64_Sym *symbols = malloc(SYMBOLS_STEP * sizeof(*symbols));
	if (!strings || !symbols)
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
			    struct symbol_search *search)
{
	const struct module_section *table = module_section(module, symbols);
	const struct module_section *names = module_section(module, strings);
	if (!search->missing || !table || !names || table->type == SHT_NOBITS ||
	    names->type == SHT_NOBITS)
		return;
	struct table_place where = {
		.symbols = table->file_offset,
		.count = table->size / sizeof(Elf64_Sym),
		.strings = names->file_offset,
		.strings_size = names->size,
	};
	search_table(module, &where, search);
}

/* ---- without section headers ---- */

/* In an image copied from memory the loader has made some of these run-time addresses. */
static uint64_t elf_address(const struct module *module, uint64_t value)
{
	return !module->headers.fixed && module->load_bias && value >= module->load_bias
		       ? value - module->load_bias
		       : value;
}

static void search_dynamic(const struct module *module, struct symbol_search *search)
{
	struct elf_dynamic dynamic;
	const struct module_image image = module_image(module);
	elf_dynamic_read(&dynamic, &image.reader, module->headers.dynamic,
			 module->headers.dynamic_size);
	dynamic.hash = elf_address(module, dynamic.hash);
	dynamic.gnu_hash = elf_address(module, dynamic.gnu_hash);
	const struct table_place where = {
		.symbols = elf_address(module, dynamic.symbols),
		.strings = elf_address(module, dynamic.strings),
		.strings_size = dynamic.strings_size,
		.count = elf_dynamic_count(&dynamic, &image.reader),
		.by_address = true,
	};
	if (where.symbols && where.strings)
		search_table(module, &where, search);
}

/* ---- the separate debug file ---- */

static void search_debug_file(const struct module *module, struct symbol_search *search)
{
	char path[128];
	if (!search->missing ||
	    !elf_debug_path("/usr/lib/debug", &module->build_id, path, sizeof(path)))
		return;
	/* The path is of this machine's own; nothing in it is the target's but the number. */
	int fd = foreign_file_open((struct foreign_root){.fd = FOREIGN_OUR_ROOT}, path);
	if (fd < 0)
		return;
	struct module *debug = module_new(path);
	debug->fd = fd;
	if (module_read_sections(debug) && build_id_equal(&debug->build_id, &module->build_id))
		search_sections(debug, ".symtab", ".strtab", search);
	module_free(debug);
}

static void search_exported(const struct module *module, struct symbol_search *search)
{
	if (module_section(module, ".dynsym"))
		search_sections(module, ".dynsym", ".dynstr", search);
	else
		search_dynamic(module, search);
}

static void search_all(const struct module *module, struct symbol_search *search)
{
	search_exported(module, search);
	search_sections(module, ".symtab", ".strtab", search);
	search_debug_file(module, search);
}

/* ---- questions ---- */

enum question {
	QUESTION_SYMBOLS = 's',
	QUESTION_EXPORTED = 'e',
	QUESTION_PARTS = 'p',
	QUESTION_FUNCTIONS = 'f'
};

static void search_names(const struct module *module, enum question kind,
			 struct symbol_search *search)
{
	const struct module plain = module_unrecorded(module);
	const uint64_t question = module_question((char)kind, search->names, search->count);
	const struct module_answer *answer;
	if (module->record && module->record->replayed) {
		answer = module_record_find(module->record, question);
		for (size_t i = 0; answer && i < answer->count; i++)
			take_answer(search, &answer->places[i]);
		return;
	}
	_cleanup_free_ struct wanted_name *wanted = wanted_names(search->names, search->count);
	search->wanted = wanted;
	if (kind == QUESTION_EXPORTED)
		search_exported(&plain, search);
	else
		search_all(&plain, search);
	if (module->record)
		module_record_add(module->record, question,
				  search->places ? search->places : search->parts,
				  search->places ? search->count : search->part_count);
}

size_t module_find_symbols(const struct module *module, const char *const names[], size_t count,
			   struct module_place places[])
{
	struct symbol_search search = {
		.names = names, .places = places, .count = count, .missing = count};
	memset(places, 0, count * sizeof(*places));
	search_names(module, QUESTION_SYMBOLS, &search);
	return count - search.missing;
}

size_t module_find_exported(const struct module *module, const char *const names[], size_t count,
			    struct module_place places[])
{
	struct symbol_search search = {
		.names = names, .places = places, .count = count, .missing = count};
	memset(places, 0, count * sizeof(*places));
	search_names(module, QUESTION_EXPORTED, &search);
	return count - search.missing;
}

size_t module_find_parts(const struct module *module, const char *const names[], size_t count,
			 struct module_place parts[], size_t capacity)
{
	struct symbol_search search = {.names = names,
				       .count = count,
				       .missing = capacity > 0,
				       .parts = parts,
				       .part_capacity = capacity};
	search_names(module, QUESTION_PARTS, &search);
	return search.part_count;
}

static int by_address(const void *left, const void *right)
{
	const struct module_place *a = left, *b = right;
	return a->vaddr < b->vaddr ? -1 : a->vaddr > b->vaddr;
}

size_t module_find_functions(const struct module *module, const char *const starts[], size_t count,
			     size_t most, struct module_place **places)
{
	struct symbol_search search = {
		.names = starts, .count = count, .missing = most, .all = true};
	search_names(module, QUESTION_FUNCTIONS, &search);
	if (search.part_count > 0)
		qsort(search.parts, search.part_count, sizeof(*search.parts), by_address);
	*places = search.parts;
	return search.part_count;
}
