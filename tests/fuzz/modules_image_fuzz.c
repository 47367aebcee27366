/* SPDX-License-Identifier: MIT */
/* ELF files as target/ reads them: headers, sections, symbols. */
#include "modules/jit.h"
#include "tests/fuzz/fuzz.h"

static void find_symbols(const struct module *module)
{
	static const char *const names[] = {"_PyRuntime", "_PyEval_EvalFrameDefault", "f", "main"};
	enum { COUNT = sizeof(names) / sizeof(*names), PARTS = 8 };
	struct module_place places[COUNT], parts[PARTS];

	uint64_t vaddr;

	(void)symbol_scan(module, "f", &vaddr);
	module_find_symbols(module, names, COUNT, places);
	module_find_exported(module, names, COUNT, places);
	if (module_find_parts(module, names, COUNT, parts, PARTS) > PARTS)
		abort();
}

static void read_all(const struct module *module)
{
	uint8_t bytes[64];
	uint64_t biases[4];

	for (size_t i = 0; i < module->segment_count && i < 64; i++) {
		const struct module_segment *segment = &module->segments[i];
		const uint64_t last = segment->vaddr + segment->memory_size - sizeof(bytes);
		struct error error;
		bool well = module_read(module, segment->vaddr, bytes, sizeof(bytes), &error);
		well &= module_read(module, last, bytes, sizeof(bytes), &error);
		well &= module_read_file(module, segment->file_offset, bytes, sizeof(bytes),
					 &error);
		(void)well;
		module_biases(module, 0x7f0000000000, segment->file_offset, true, biases, 4);
	}
	(void)module_section(module, ".text");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct module_table table;
	struct module *module;
	struct error error;

	module_table_init(&table);
	if (module_table_add(&table, "/fuzz/x.so", -1, data, size, 0, &module, &error)) {
		find_symbols(module);
		read_all(module);
	}
	module_table_release(&table);
	return 0;
}
