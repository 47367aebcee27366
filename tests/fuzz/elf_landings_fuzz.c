/* SPDX-License-Identifier: MIT */
/* A language-specific data area, of a function of any size: its parts are in order and within it. */
#include "elf/elf.h"
#include "tests/fuzz/fuzz.h"

enum { AREA = 0x10000 };

struct area {
	struct memory_reader reader;
	struct fuzz_input input;
};

static bool read_area(const struct memory_reader *reader, remote_addr address, void *buffer,
		      size_t size, struct error *error)
{
	const struct fuzz_input *const input = &((const struct area *)reader)->input;
	if (address < AREA || address - AREA > input->size || size > input->size - (address - AREA))
		return error_set(error, ERROR_ABSENT, "beyond the end");
	memcpy(buffer, input->at + (address - AREA), size);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	const uint64_t start = fuzz_number(&input, 8), end = start + fuzz_number(&input, 3);
	const struct area area = {{read_area, NULL}, input};
	struct elf_landings landings = {0};
	uint64_t before = start;

	if (!elf_landings_read(&landings, &area.reader, AREA, start, end) && landings.items)
		abort();
	for (size_t i = 0; i < landings.count; i++) {
		const struct elf_landing *const item = &landings.items[i];
		if (item->start < before || item->end <= item->start || item->end > end ||
		    elf_landings_find(&landings, item->start) != item ||
		    elf_landings_find(&landings, item->end - 1) != item ||
		    elf_landings_find(&landings, item->end) == item)
			abort();
		before = item->end;
	}
	elf_landings_release(&landings);
	return 0;
}
