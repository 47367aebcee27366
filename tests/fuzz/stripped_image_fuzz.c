/* SPDX-License-Identifier: MIT */
/*
 * ELF files without symbols, with what they say of their functions to Python; and the same bytes as
 * a capture has such names. What is found can be asked for, line by line.
 */
#include "stripped/stripped.h"
#include "base/strbuf.h"
#include "tests/fuzz/fuzz.h"

struct visit {
	const struct recovered_names *names;
	struct interner *interner;
	Elf *elf; /* NULL: there is no code */
	struct elf_image code;
};

static void look_at(void *context, const struct recovered_name *recovered)
{
	struct visit *visit = context;
	struct recovered_line line;
	struct recovered_name found;
	if (!*recovered->name || recovered->start > recovered->end)
		abort();
	if (recovered->start < recovered->end &&
	    !recovered_names_find(visit->names, visit->interner, recovered->start, &found))
		abort();
	if (visit->elf)
		recovered_line_find(visit->names, visit->interner, visit->elf, &visit->code,
				    recovered, recovered->start + 9, &line);
}

static void look_at_all(const struct recovered_names *names, Elf *elf)
{
	struct visit visit = {.names = names, .interner = interner_new(), .elf = elf};
	recovered_names_each(names, visit.interner, look_at, &visit);
	image_release(&visit.code);
	interner_free(visit.interner);
}

/* As a capture has them: what was found is found again. */
static void write_and_read(const struct recovered_names *names)
{
	struct recovered_names again;
	struct strbuf bytes;
	strbuf_init(&bytes);
	recovered_names_write(names, &bytes);
	if (bytes.size) {
		if (!recovered_names_read(&again, bytes.text, bytes.size) ||
		    again.count != names->count)
			abort();
		recovered_names_release(&again);
	}
	strbuf_release(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct recovered_names names = {0};
	char *image = malloc(size + 1);
	memcpy(image, data, size);
	elf_version(EV_CURRENT);
	Elf *elf = elf_memory(image, size);
	if (elf && elf_kind(elf) == ELF_K_ELF) {
		recovered_names_build(&names, elf);
		look_at_all(&names, elf);
		write_and_read(&names);
		recovered_names_release(&names);
	}
	elf_end(elf);
	if (recovered_names_read(&names, image, size)) {
		look_at_all(&names, NULL);
		recovered_names_release(&names);
	}
	free(image);
	return 0;
}
