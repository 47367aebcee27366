/* SPDX-License-Identifier: MIT */
/*
 * What the dynamic linker goes by, by ELF addresses alone: the dynamic section, its symbols by
 * number and by name (DT_GNU_HASH), and what it puts into a slot. For images with and without
 * section headers. `image` reads at ELF addresses; all of it is a stranger's, every number is
 * bounded.
 */
#ifndef ELF_DYNAMIC_H
#define ELF_DYNAMIC_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory_reader.h"

enum { ELF_NAME = 256 }; /* longest name, with its end */

/* Zeros where there is none. */
struct elf_dynamic {
	uint64_t symbols, strings, strings_size, hash, gnu_hash;
	uint64_t jmprel, jmprel_size, rela, rela_size, rela_count;
};

/* `size` bytes at `address`. */
void elf_dynamic_read(struct elf_dynamic *dynamic, const struct memory_reader *image,
		      uint64_t address, uint64_t size);

/* How many symbols there are, as a hash table has it; 0: not known. */
uint64_t elf_dynamic_count(const struct elf_dynamic *dynamic, const struct memory_reader *image);

bool MUST_CHECK elf_dynamic_symbol(const struct elf_dynamic *dynamic,
				   const struct memory_reader *image, uint32_t index,
				   Elf64_Sym *symbol);

/* The name at that offset of the strings. False: it does not end in time. */
bool MUST_CHECK elf_dynamic_name(const struct elf_dynamic *dynamic,
				 const struct memory_reader *image, uint32_t at,
				 char name[ELF_NAME]);

/* The symbol of that name which others can see. */
bool MUST_CHECK elf_dynamic_find(const struct elf_dynamic *dynamic,
				 const struct memory_reader *image, const char *name,
				 Elf64_Sym *symbol);

/* The relocation of the word at that ELF address that may name a function. */
bool MUST_CHECK elf_dynamic_slot(const struct elf_dynamic *dynamic,
				 const struct memory_reader *image, uint64_t slot,
				 Elf64_Rela *relocation);

#endif
