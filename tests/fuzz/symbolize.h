/* SPDX-License-Identifier: MIT */
/* Opens a hostile module and looks up addresses all over its code. */
#ifndef TESTS_FUZZ_SYMBOLIZE_H
#define TESTS_FUZZ_SYMBOLIZE_H

#include <elf.h>

#include "symbolize/symbolize.h"
#include "tests/fuzz/fuzz.h"

enum { FUZZ_LOOKS = 48, FUZZ_SEGMENTS = 4 };

static inline void fuzz_look_in(struct symbolizer *symbolizer, uint64_t start, uint64_t size)
{
	struct symbolize_result result;
	struct recovered_name recovered;

	for (uint64_t i = 0; i < FUZZ_LOOKS; i++) {
		symbolize_pc(symbolizer, start + size / FUZZ_LOOKS * i + i % 4, i & 1, 0, &result);
		if (result.count > SYMBOLIZE_MAX_INLINE)
			abort();
		for (size_t frame = 0; frame < result.count; frame++)
			if (result.frames[frame].name && !*result.frames[frame].name)
				abort();
		if (symbolize_recovered_name(symbolizer, start + size / FUZZ_LOOKS * i,
					     &recovered) &&
		    !*recovered.name)
			abort();
	}
}

/* By the segments as they stand in the bytes. */
static inline void fuzz_look_everywhere(struct symbolizer *symbolizer, struct fuzz_input file)
{
	Elf64_Ehdr header = {.e_phnum = 0};
	Elf64_Phdr segment;

	memcpy(&header, file.at, file.size < sizeof(header) ? file.size : sizeof(header));
	for (unsigned i = 0, looked = 0; i < header.e_phnum && looked < FUZZ_SEGMENTS; i++) {
		const uint64_t at = header.e_phoff + i * sizeof(segment);
		if (at > file.size || file.size - at < sizeof(segment))
			break;
		memcpy(&segment, file.at + at, sizeof(segment));
		if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X))
			continue;
		fuzz_look_in(symbolizer, segment.p_vaddr, segment.p_memsz);
		looked++;
	}
	fuzz_look_in(symbolizer, 0x1000, 0x200);
}

static inline void fuzz_visit_symbol(void *context, const char *name)
{
	*(size_t *)context += strlen(name);
}

static inline void fuzz_visit_variable(void *context, const char *function, const char *variable,
				       const char *type)
{
	*(size_t *)context += strlen(function) + strlen(variable) + strlen(type);
}

static inline void fuzz_symbolize(const struct symbolize_module *module, struct fuzz_input file)
{
	struct interner *interner = interner_new();
	struct symbolizer *symbolizer = symbolizer_new(interner);
	struct error error;
	size_t total = 0;

	setenv("XDG_CACHE_HOME", "/nonexistent", 1); /* no names are kept */

	if (symbolizer_open(symbolizer, module, &error)) {
		fuzz_look_everywhere(symbolizer, file);
		symbolizer_each_symbol(symbolizer, fuzz_visit_symbol, &total);
		symbolizer_each_variable(symbolizer, "f", fuzz_visit_variable, &total);
	}
	symbolizer_free(symbolizer);
	interner_free(interner);
}

#endif
