/* SPDX-License-Identifier: MIT */
/*
 * Finding an interpreter in a hostile module and memory. The input: a number N of 16 bits, N bytes
 * of memory (it has them over and over), an ELF file.
 */
#include "python/python.h"
#include "tests/fuzz/fuzz.h"

#define BIAS UINT64_C(0x10000)

static bool add_module(struct module_table *table, struct fuzz_input file)
{
	struct mapping mapping = {.start = BIAS,
				  .end = BIAS + (1 << 20),
				  .protection = PROT_READ | PROT_EXEC,
				  .path = "/fuzz/python3"};
	struct error error;

	if (!module_table_add(table, mapping.path, -1, file.at, file.size, BIAS, &mapping.module,
			      &error))
		return false;
	module_table_set_mappings(table, &mapping, 1);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	const struct fuzz_memory memory = fuzz_memory_of(fuzz_part(&input, fuzz_number(&input, 2)));
	struct python_runtime *runtime;
	struct module_table table;
	struct error error;

	module_table_init(&table);
	if (add_module(&table, input) &&
	    python_runtime_open(&table, &memory.reader, &runtime, &error)) {
		python_runtime_owns(runtime, BIAS + 0x1000);
		python_runtime_evaluates(runtime, BIAS + 0x1000);
		python_runtime_collects(runtime, BIAS + 0x1000);
		python_runtime_free(runtime);
	}
	module_table_release(&table);
	return 0;
}
