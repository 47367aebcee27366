/* SPDX-License-Identifier: MIT */
/* A dynamic section, with its hash tables, symbols and relocations: whatever is found is there. */
#include "elf/dynamic.h"
#include "tests/fuzz/fuzz.h"

struct file {
	struct memory_reader reader;
	struct fuzz_input input;
};

static bool read_file(const struct memory_reader *reader, remote_addr address, void *buffer,
		      size_t size, struct error *error)
{
	const struct fuzz_input *const input = &((const struct file *)reader)->input;
	if (address > input->size || size > input->size - address)
		return error_set(error, ERROR_ABSENT, "beyond the end");
	memcpy(buffer, input->at + address, size);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	const uint64_t slot = fuzz_number(&input, 2), dynamic_size = fuzz_number(&input, 2);
	const struct file file = {{read_file, NULL}, input};
	struct elf_dynamic dynamic;
	Elf64_Sym symbol;
	Elf64_Rela relocation;
	char name[ELF_NAME];

	elf_dynamic_read(&dynamic, &file.reader, 0, dynamic_size);
	if (elf_dynamic_slot(&dynamic, &file.reader, slot, &relocation) &&
	    relocation.r_offset != slot)
		abort();
	const uint64_t count = elf_dynamic_count(&dynamic, &file.reader);
	for (uint32_t i = 0; i < count && i < 1000; i++) {
		if (!elf_dynamic_symbol(&dynamic, &file.reader, i, &symbol) ||
		    !elf_dynamic_name(&dynamic, &file.reader, symbol.st_name, name))
			break;
		if (elf_dynamic_find(&dynamic, &file.reader, name, &symbol) &&
		    symbol.st_shndx == SHN_UNDEF)
			abort();
	}
	return 0;
}
