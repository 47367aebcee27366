/* SPDX-License-Identifier: MIT */
/* str objects, dicts, attributes and thread names: the first byte chooses the version, the rest is
 * memory. */
#include "python/internal.h"
#include "tests/fuzz/fuzz.h"

static void read_objects(const struct python_layout *layout, const struct memory_reader *memory)
{
	const struct python_objects objects = {layout, memory};
	const struct object_key key = {.integer = 7}, text = {.text = "_name"};
	struct object_index index = {0};
	uint64_t value;

	object_dict_value(&objects, 0x1008, &key);
	object_dict_value(&objects, 0x1010, &text);
	object_attribute(&objects, 0x1018, "_name");
	object_integer(&objects, 0x1020, &value);
	for (uint64_t i = 0; i < 3; i++)
		object_dict_indexed(&objects, 0x1028, i, &index);
	object_index_release(&index);
}

static void read_strings(const struct python_layout *layout, const struct memory_reader *memory)
{
	struct strbuf text;
	struct error error;

	strbuf_init(&text);
	if (python_string_read(layout, memory, 0x1000, &text, &error) && text.size > 3 * MAX_STRING)
		abort();
	python_is_string(layout, memory, 0x1000);
	python_string_is(layout, memory, 0x1000, "wanted");
	strbuf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	const uint8_t choice = (uint8_t)fuzz_number(&input, 1);
	const struct python_layout *layout = python_layout_row(choice);
	const struct fuzz_memory memory = fuzz_memory_of(input);

	if (!layout)
		return 0;
	read_strings(layout, &memory.reader);
	read_objects(layout, &memory.reader);
	return 0;
}
