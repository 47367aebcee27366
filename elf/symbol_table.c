/* SPDX-License-Identifier: MIT */
/*
 * From .symtab and .dynsym to the function symbol that covers an address. A symbol that merely is
 * the nearest below never counts: in stripped libraries it names the wrong function.
 */
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "elf/elf.h"

enum { MAX_SECTIONS = 65536, MAX_SYMBOLS = 8 << 20, MAX_SAME_START = 4096, MAX_NAME = 16 << 10 };

/* Sorting costs as much as about this many passes over all symbols. */
enum { UNSORTED_LOOKS = 20 };

struct symbol {
	Elf *elf;
	uint32_t strings; /* index of the string section */
	uint32_t name;
	uint8_t rank; /* lower is better */
};

void symbol_table_release(struct symbol_table *table)
{
	interval_list_release(&table->ranges);
	free(table->symbols);
	*table = (struct symbol_table){0};
}

/* Functions before labels, global before local before weak; -1: not code of this file. */
static int rank_of(const GElf_Sym *symbol)
{
	const int type = GELF_ST_TYPE(symbol->st_info), binding = GELF_ST_BIND(symbol->st_info);

	if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS || !symbol->st_name)
		return -1;
	if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
		return -1;
	return (type == STT_NOTYPE ? 3 : 0) + (binding == STB_LOCAL  ? 1
					       : binding == STB_WEAK ? 2
								     : 0);
}

static void add_section(struct symbol_table *table, Elf *elf, Elf_Scn *section,
			const GElf_Shdr *header)
{
	Elf_Data *data = elf_getdata(section, NULL);
	const size_t count = data ? data->d_size / sizeof(Elf64_Sym) : 0;

	for (size_t i = 1; i < count && table->count < MAX_SYMBOLS; i++) {
		GElf_Sym symbol;
		if (!gelf_getsym(data, (int)i, &symbol))
			return;
		const int rank = rank_of(&symbol);
		const uint64_t end = symbol.st_value + symbol.st_size;
		if (rank < 0 || end < symbol.st_value)
			continue;
		table->symbols = alloc_room(table->symbols, &table->capacity, table->count + 1,
					    sizeof(*table->symbols));
		table->symbols[table->count] =
			(struct symbol){elf, header->sh_link, symbol.st_name, (uint8_t)rank};
		interval_add(&table->ranges, symbol.st_value, end, table->count++);
	}
}

bool symbol_table_add(struct symbol_table *table, Elf *elf, uint32_t section_type)
{
	const size_t before = table->count;
	Elf_Scn *section = NULL;

	for (int i = 0; i < MAX_SECTIONS && (section = elf_nextscn(elf, section)); i++) {
		GElf_Shdr header;
		if (gelf_getshdr(section, &header) && header.sh_type == section_type)
			add_section(table, elf, section, &header);
	}
	table->sorted = false;
	return table->count > before;
}

void symbol_table_each(const struct symbol_table *table,
		       void (*visit)(void *context, const char *name), void *context)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct symbol *symbol = &table->symbols[i];
		const char *text = elf_strptr(symbol->elf, symbol->strings, symbol->name);
		if (text && *text)
			visit(context, text);
	}
}

/* Labels of tools, which name no function: local ones of the assembler, of GCC's annobin plugin. */
static bool is_label(const char *text)
{
	return strncmp(text, ".L", 2) == 0 || strncmp(text, ".annobin_", 9) == 0;
}

/* "memcpy@@GLIBC_2.14" -> "memcpy" */
static bool symbol_name(const struct symbol *symbol, uint64_t start, struct symbol_match *match)
{
	const char *text = elf_strptr(symbol->elf, symbol->strings, symbol->name);

	if (!text || !*text || is_label(text))
		return false;
	const size_t size = strnlen(text, MAX_NAME);
	const char *version = memchr(text + 1, '@', size - 1);
	/* "get node_modules/@babel/core/lib.js:12", of a perf map, has none. */
	if (version && strcspn(version, "/ :") < size - (size_t)(version - text))
		version = NULL;
	*match = (struct symbol_match){text, version ? (size_t)(version - text) : size, start};
	return true;
}

/* 0: the name itself, or with a suffix (".cold"); 1: another one. */
static int differs(const struct symbol_match *match, const char *wanted)
{
	const size_t size = wanted ? strlen(wanted) : 0;

	return !wanted || match->size < size || memcmp(match->name, wanted, size) ||
	       (match->size > size && match->name[size] != '.');
}

static size_t underscores(const struct symbol_match *match)
{
	size_t count = 0;

	while (count < match->size && match->name[count] == '_')
		count++;
	return count;
}

static bool better(const struct symbol_match *left, int left_rank, const struct symbol_match *right,
		   int right_rank, const char *wanted)
{
	const int left_differs = differs(left, wanted), right_differs = differs(right, wanted);

	if (left_differs != right_differs)
		return left_differs < right_differs;
	/* Authors' names begin with no dot: ".omp_outlined." is the compiler's. */
	if ((left->name[0] == '.') != (right->name[0] == '.'))
		return right->name[0] == '.';
	if (left_rank != right_rank)
		return left_rank < right_rank;
	return underscores(left) < underscores(right);
}

/* The best of those that start at `start` and cover pc (sized) or have no size (not sized). */
static bool choose_among(const struct symbol_table *table, const struct interval_list *ranges,
			 uint64_t start, uint64_t pc, bool sized, const char *wanted,
			 struct symbol_match *match)
{
	const size_t first = interval_lower(ranges, start);
	bool found = false;
	int best = 0;

	for (size_t i = first; i < ranges->count && i - first < MAX_SAME_START; i++) {
		const struct interval *range = &ranges->items[i];
		struct symbol_match candidate;
		if (range->start != start)
			break;
		if (sized ? range->end <= pc : range->end != start)
			continue;
		const struct symbol *symbol = &table->symbols[range->value];
		if (!symbol_name(symbol, start, &candidate))
			continue;
		if (found && !better(&candidate, symbol->rank, match, best, wanted))
			continue;
		*match = candidate;
		best = symbol->rank;
		found = true;
	}
	return found;
}

/* Where the ranges are not sorted, those that start at `start` are picked out first. */
static bool choose(const struct symbol_table *table, uint64_t start, uint64_t pc, bool sized,
		   const char *wanted, struct symbol_match *match)
{
	struct interval_list same = {0};

	if (table->sorted)
		return choose_among(table, &table->ranges, start, pc, sized, wanted, match);
	for (size_t i = 0; i < table->ranges.count && same.count < MAX_SAME_START; i++) {
		const struct interval *range = &table->ranges.items[i];
		if (range->start == start)
			interval_add(&same, range->start, range->end, range->value);
	}
	interval_sort(&same);
	const bool found = choose_among(table, &same, start, pc, sized, wanted, match);
	interval_list_release(&same);
	return found;
}

/* The start of the innermost symbol that covers pc. */
static bool covering_start(const struct symbol_table *table, uint64_t pc, uint64_t *start)
{
	const struct interval_list *ranges = &table->ranges;
	bool found = false;

	if (table->sorted) {
		const ssize_t at = interval_find(ranges, pc, ranges->count);
		if (at >= 0)
			*start = ranges->items[at].start;
		return at >= 0;
	}
	for (size_t i = 0; i < ranges->count; i++) {
		const struct interval *range = &ranges->items[i];
		if (pc >= range->start && pc < range->end && (!found || range->start > *start)) {
			*start = range->start;
			found = true;
		}
	}
	return found;
}

bool symbol_table_find(struct symbol_table *table, uint64_t pc, const struct interval *fde,
		       const char *wanted, struct symbol_match *match)
{
	uint64_t start = 0;

	if (!table->sorted && ++table->looks > UNSORTED_LOOKS) {
		interval_sort(&table->ranges);
		table->sorted = true;
	}
	if (covering_start(table, pc, &start) && choose(table, start, pc, true, wanted, match))
		return true;
	return fde && choose(table, fde->start, pc, false, wanted, match);
}
