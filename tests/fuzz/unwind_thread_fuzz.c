/* SPDX-License-Identifier: MIT */
/*
 * Stacks over hostile unwind information and code. The input: a number N of 16 bits, N bytes of
 * stack, an ELF file. Small words of the stack are made addresses in the code, and those whose
 * highest byte is 1 addresses in the stack.
 */
#include "cfi/cfi.h"
#include "tests/fuzz/fuzz.h"
#include "unwind/unwind.h"

enum { LOOKS = 8, SEGMENTS = 4, MAX_MAPPING = 4 << 20, STACK_SIZE = 32 << 10 };
#define BIAS UINT64_C(0x7f0000000000)
#define STACK UINT64_C(0x7ffd00000000)

static bool read_stack(const struct memory_reader *reader, remote_addr address, void *buffer,
		       size_t size, struct error *error)
{
	const struct fuzz_memory *memory = (const struct fuzz_memory *)reader;

	if (address < STACK - 128 || address > STACK + STACK_SIZE)
		return error_set(error, ERROR_ABSENT, "not in the copy");
	memset(buffer, 0, size);
	if (!fuzz_memory_read(reader, address, buffer, size, error) || size != 8)
		return memory->input.size;
	uint64_t word;
	memcpy(&word, buffer, 8);
	if (word < MAX_MAPPING)
		word += BIAS;
	else if (word >> 56 == 1)
		word = STACK + (word & 0xffff);
	memcpy(buffer, &word, 8);
	return true;
}

static void unwind_from(struct unwinder *unwinder, const struct fuzz_memory *stack_memory,
			remote_addr pc)
{
	struct registers registers = {.known = (1u << REGISTER_COUNT) - 1};
	struct unwind_stack stack;
	struct error error;

	for (int i = 0; i < REGISTER_COUNT; i++)
		registers.value[i] = STACK + (uint64_t)i * 24;
	registers.value[REGISTER_RSP] = STACK;
	registers.value[REGISTER_RIP] = pc;
	unwind_stack_init(&stack);
	const struct unwind_request request = {.registers = &registers,
					       .memory = &stack_memory->reader};
	if (unwind_thread(unwinder, &request, &stack, &error) && !stack.count)
		abort();
	unwind_stack_release(&stack);
}

static void unwind_in(struct module_table *table, struct module *module,
		      const struct fuzz_memory *memory)
{
	struct unwinder *unwinder = unwinder_new(table);
	uint64_t start, size;

	for (size_t i = 0, looked = 0; i < module->segment_count && looked < SEGMENTS; i++) {
		const struct module_segment *segment = &module->segments[i];
		if (!(segment->flags & 1))
			continue;
		looked++;
		for (uint64_t j = 0; j < LOOKS; j++) {
			const uint64_t at = segment->vaddr + segment->memory_size / LOOKS * j;
			unwind_from(unwinder, memory, BIAS + at);
			/* A hostile function may begin below the module: modulo 2^64. */
			if (frame_index_function(module, at, &start, &size) &&
			    at - start >= size)
				abort();
		}
	}
	unwinder_free(unwinder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	struct fuzz_memory memory = {{read_stack, NULL}, fuzz_part(&input, fuzz_number(&input, 2))};
	struct module_table table;
	struct module *module;
	struct error error;

	module_table_init(&table);
	if (module_table_add(&table, "/fuzz/x.so", -1, input.at, input.size, BIAS, &module,
			     &error)) {
		const struct mapping mapping = {.start = BIAS,
						.end = BIAS + MAX_MAPPING,
						.protection = PROT_READ | PROT_EXEC,
						.module = module,
						.path = "/fuzz/x.so"};
		module_table_set_mappings(&table, &mapping, 1);
		unwind_in(&table, module, &memory);
	}
	module_table_release(&table);
	return 0;
}
