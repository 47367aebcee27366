/* SPDX-License-Identifier: MIT */
#include "elf/dynamic.h"

#include <string.h>

enum {
	ENTRIES_LIMIT = 4096,
	STEP = 128,
	SYMBOLS_LIMIT = 16 * 1024 * 1024,
	RELOCATIONS_LIMIT = 1 << 18,
	CHAIN_LIMIT = 64,
};

static void note(struct elf_dynamic *dynamic, const Elf64_Dyn *entry)
{
	static const struct {
		int64_t tag;
		size_t field;
	} fields[] = {
		{DT_SYMTAB, offsetof(struct elf_dynamic, symbols)},
		{DT_STRTAB, offsetof(struct elf_dynamic, strings)},
		{DT_STRSZ, offsetof(struct elf_dynamic, strings_size)},
		{DT_HASH, offsetof(struct elf_dynamic, hash)},
		{DT_GNU_HASH, offsetof(struct elf_dynamic, gnu_hash)},
		{DT_JMPREL, offsetof(struct elf_dynamic, jmprel)},
		{DT_PLTRELSZ, offsetof(struct elf_dynamic, jmprel_size)},
		{DT_RELA, offsetof(struct elf_dynamic, rela)},
		{DT_RELASZ, offsetof(struct elf_dynamic, rela_size)},
		{DT_RELACOUNT, offsetof(struct elf_dynamic, rela_count)},
	};
	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
		if (fields[i].tag == entry->d_tag)
			memcpy((char *)dynamic + fields[i].field, &entry->d_un.d_val,
			       sizeof(entry->d_un.d_val));
}

void elf_dynamic_read(struct elf_dynamic *dynamic, const struct memory_reader *image,
		      uint64_t address, uint64_t size)
{
	Elf64_Dyn entries[STEP];
	uint64_t left = size / sizeof(*entries);
	size_t step = STEP;
	memset(dynamic, 0, sizeof(*dynamic));
	if (left > ENTRIES_LIMIT)
		left = ENTRIES_LIMIT;
	while (left) {
		const size_t count = left < step ? left : step;
		if (!memory_read(image, address, entries, count * sizeof(*entries), NULL)) {
			/* It may end earlier than it says. */
			step = count / 2;
			if (step == 0)
				return;
			continue;
		}
		for (size_t i = 0; i < count; i++) {
			if (entries[i].d_tag == DT_NULL)
				return;
			note(dynamic, &entries[i]);
		}
		address += count * sizeof(*entries);
		left -= count;
	}
}

/* ---- symbols ---- */

bool elf_dynamic_symbol(const struct elf_dynamic *dynamic, const struct memory_reader *image,
			uint32_t index, Elf64_Sym *symbol)
{
	return memory_read(image, dynamic->symbols + sizeof(*symbol) * (uint64_t)index, symbol,
			   sizeof(*symbol), NULL);
}

bool elf_dynamic_name(const struct elf_dynamic *dynamic, const struct memory_reader *image,
		      uint32_t at, char name[ELF_NAME])
{
	if (at >= dynamic->strings_size)
		return false;
	const uint64_t left = dynamic->strings_size - at;
	const size_t size = left < ELF_NAME ? left : ELF_NAME;
	return memory_read(image, dynamic->strings + at, name, size, NULL) &&
	       memchr(name, '\0', size);
}

/* DT_GNU_HASH: buckets, symbol offset, bloom size, shift; bloom; buckets; chains (glibc,
 * elf/dl-lookup.c: do_lookup_x). */
struct gnu_hash {
	uint32_t bucket_count, first;
	uint64_t buckets, chains;
};

static bool open_gnu_hash(const struct elf_dynamic *dynamic, const struct memory_reader *image,
			  struct gnu_hash *table)
{
	uint32_t header[4];
	if (!dynamic->gnu_hash ||
	    !memory_read(image, dynamic->gnu_hash, header, sizeof(header), NULL) ||
	    header[0] == 0 || header[0] > SYMBOLS_LIMIT || header[2] > SYMBOLS_LIMIT)
		return false;
	table->bucket_count = header[0];
	table->first = header[1];
	table->buckets = dynamic->gnu_hash + sizeof(header) + UINT64_C(8) * header[2];
	table->chains = table->buckets + UINT64_C(4) * header[0];
	return true;
}

static bool is_named(const struct elf_dynamic *dynamic, const struct memory_reader *image,
		     uint32_t index, const char *name, Elf64_Sym *symbol)
{
	char other[ELF_NAME];
	return elf_dynamic_symbol(dynamic, image, index, symbol) && symbol->st_shndx != SHN_UNDEF &&
	       elf_dynamic_name(dynamic, image, symbol->st_name, other) && strcmp(name, other) == 0;
}

bool elf_dynamic_find(const struct elf_dynamic *dynamic, const struct memory_reader *image,
		      const char *name, Elf64_Sym *symbol)
{
	struct gnu_hash table;
	uint32_t hash = 5381, index, link;
	if (!open_gnu_hash(dynamic, image, &table))
		return false;
	for (const char *at = name; *at; at++)
		hash = hash * 33 + (uint8_t)*at;
	if (!memory_read_u32(image, table.buckets + UINT64_C(4) * (hash % table.bucket_count),
			     &index, NULL) ||
	    index < table.first)
		return false;
	for (int i = 0; i < CHAIN_LIMIT; i++, index++) {
		if (!memory_read_u32(image, table.chains + UINT64_C(4) * (index - table.first),
				     &link, NULL))
			return false;
		if ((link | 1) == (hash | 1) && is_named(dynamic, image, index, name, symbol))
			return true;
		if (link & 1)
			break;
	}
	return false;
}

/* The words of a table one after the other, read in blocks: a hostile one is as long as it likes.
 */
struct words {
	const struct memory_reader *image;
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
		if (!memory_read(words->image, words->next, words->block, size, NULL)) {
			words->count = 1;
			if (!memory_read(words->image, words->next, words->block, 4, NULL))
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

/* The table has no count: it is one more than the last symbol of the last chain. */
static uint64_t count_gnu_hash(const struct elf_dynamic *dynamic, const struct memory_reader *image)
{
	struct gnu_hash table;
	uint64_t last = 0;
	if (!open_gnu_hash(dynamic, image, &table))
		return 0;
	struct words words = {.image = image, .next = table.buckets};
	for (uint32_t i = 0; i < table.bucket_count; i++) {
		uint32_t first;
		if (!next_word(&words, &first))
			return 0;
		if (first > last)
			last = first;
	}
	words = (struct words){.image = image, .next = table.chains + 4 * (last - table.first)};
	for (; last >= table.first && last < SYMBOLS_LIMIT; last++) {
		uint32_t link;
		if (!next_word(&words, &link))
			return 0;
		if (link & 1)
			return last + 1;
	}
	return 0;
}

uint64_t elf_dynamic_count(const struct elf_dynamic *dynamic, const struct memory_reader *image)
{
	uint32_t header[2]; /* buckets, symbols */
	if (dynamic->hash && memory_read(image, dynamic->hash, header, sizeof(header), NULL) &&
	    header[1])
		return header[1];
	return count_gnu_hash(dynamic, image);
}

/* ---- relocations ---- */

static bool find_relocation(const struct memory_reader *image, uint64_t table, uint64_t size,
			    uint64_t slot, Elf64_Rela *found)
{
	Elf64_Rela part[STEP];
	uint64_t left = size / sizeof(*part);
	if (left > RELOCATIONS_LIMIT)
		left = RELOCATIONS_LIMIT;
	while (left) {
		const size_t count = left < STEP ? left : STEP;
		if (!memory_read(image, table, part, count * sizeof(*part), NULL))
			return false;
		for (size_t i = 0; i < count; i++) {
			if (part[i].r_offset != slot)
				continue;
			*found = part[i];
			return true;
		}
		left -= count;
		table += count * sizeof(*part);
	}
	return false;
}

bool elf_dynamic_slot(const struct elf_dynamic *dynamic, const struct memory_reader *image,
		      uint64_t slot, Elf64_Rela *relocation)
{
	/* Linkers put the relative ones, which are no functions' names, first: DT_RELACOUNT. */
	const uint64_t skipped = dynamic->rela_count <= dynamic->rela_size / sizeof(*relocation)
					 ? dynamic->rela_count * sizeof(*relocation)
					 : dynamic->rela_size;
	return find_relocation(image, dynamic->jmprel, dynamic->jmprel_size, slot, relocation) ||
	       find_relocation(image, dynamic->rela + skipped, dynamic->rela_size - skipped, slot,
			       relocation);
}
