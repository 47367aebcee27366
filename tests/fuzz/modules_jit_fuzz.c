/* SPDX-License-Identifier: MIT */
/*
 * GDB's JIT interface: the input is all of a target's memory, over and over. It begins with an
 * image and ends with a descriptor and an entry of its list.
 */
#include "modules/jit.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/module_symbol.h"

#define START UINT64_C(0x1000000)

enum { LIST_SIZE = 24 + 32 };

static void use_image(const struct jit_image *image)
{
	struct module_table table;
	struct module *module;
	struct error error;
	uint64_t value, size;

	module_table_init(&table);
	if (module_table_add_made(&table, image->bytes, image->size, MODULE_OF_JIT, &module,
				  &error)) {
		bool well = module_symbol(module, "f", &value, &size, &error);
		well &= module_read(module, module->base, &value, sizeof(value), &error);
		(void)well;
	}
	module_table_release(&table);
}

static void link_at(const struct memory_reader *memory, remote_addr address, uint64_t size)
{
	struct jit_image image;
	struct jit_span spans[JIT_IMAGE_SPANS];
	struct error error;
	uint64_t hash;

	if (jit_image_spans(memory, address, size, spans, &hash) > JIT_IMAGE_SPANS)
		abort();
	if (!jit_image_link(memory, address, size, &image, &error))
		return;
	use_image(&image);
	free(image.bytes);
}

static void follow_list(const struct memory_reader *memory, remote_addr address)
{
	struct jit_list list = {.descriptors = {{.at = address}}, .descriptor_count = 1};

	jit_list_read(&list, memory, false);
	for (size_t i = 0; i < list.count && i < 4; i++)
		link_at(memory, list.entries[i].image, list.entries[i].size);
	(void)jit_list_is_stale(&list, memory);
	jit_list_read(&list, memory, true);
	if (list.count > JIT_ENTRIES)
		abort();
	jit_list_release(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct fuzz_memory memory = fuzz_memory_of((struct fuzz_input){data, size});

	if (!size)
		return 0;
	const remote_addr start = START - START % size + size;
	link_at(&memory.reader, start, size);
	follow_list(&memory.reader, start + (size > LIST_SIZE ? size - LIST_SIZE : 0));
	return 0;
}
