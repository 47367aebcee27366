/* SPDX-License-Identifier: MIT */
/*
 * A thread's stack that is right but for some words. The first byte chooses the version, the second
 * what is done with it; each eight bytes that follow are one wrong word: what it is in, which of
 * the layout's fields, what it points at, and how far behind that, or a number.
 */
#include "python/probe.h"
#include "tests/fuzz/fuzz.h"

#include "tests/unit/python_world.h"

enum { WITH_SLICES = 1, LOOK = 2 };

static remote_addr place_of(const struct world *world, uint8_t choice)
{
	static const remote_addr places[] = {TSTATE,	     BASE_FRAME,  INTERPRETER, CHUNK,
					     CODE_TYPE,	     STRING_TYPE, GIL,	       RUNTIME,
					     STACK + 0x7000, HEAP,	  0,	       MEMORY - 64};
	const unsigned count = sizeof(places) / sizeof(*places);
	if (choice < count)
		return places[choice];
	if (choice < 64)
		return frame_at(world, choice % 6);
	if (choice < 96)
		return record_at(choice % 6);
	if (choice < 128)
		return shim_at(choice % 6);
	return world->codes[choice % CODES];
}

static uint16_t field_of(const struct world *world, uint8_t choice)
{
	size_t count;
	const struct python_layout_field *fields = python_layout_fields(&count);
	uint16_t offset;
	if (choice >= count)
		return (uint16_t)(choice * 8);
	memcpy(&offset, (const char *)&world->runtime.layout + fields[choice].offset,
	       sizeof(offset));
	return offset;
}

static void put_wrong_word(struct world *world, struct fuzz_input *input)
{
	const remote_addr place = place_of(world, (uint8_t)fuzz_number(input, 1));
	const remote_addr address = place + field_of(world, (uint8_t)fuzz_number(input, 1));
	const uint8_t target = (uint8_t)fuzz_number(input, 1);
	const uint8_t how = (uint8_t)fuzz_number(input, 1);
	const uint64_t more = fuzz_number(input, 4);
	uint64_t value = more;
	if (how & 1)
		value = place_of(world, target) + (more & 0xffff);
	else if (how & 2)
		value = more << 32 | target;
	if (address <= MEMORY - 8)
		memcpy(world->bytes + address, &value, how & 4 ? 4 : 8);
}

static void read_it(struct world *world, unsigned how)
{
	struct python_known_codes *known = python_known_codes_new();
	struct python_recent recent = {.outermost = frame_at(world, 0)};
	const struct python_view view = {&world->runtime, &world->reader, TSTATE, known, &recent};
	struct error error;
	const struct python_native native = {slices, how & LOOK ? slices[0].cfa : 0};
	bool well = python_stack_touch(&world->runtime, &world->reader, TSTATE,
				       how & WITH_SLICES ? &native : NULL, known, &error);
	if (how & LOOK) {
		struct python_probe *look = python_probe_new();
		well = python_probe_take(look, &view, &error) &&
		       python_probe_keep(look, &view, &error);
		python_probe_free(look);
	}
	(void)well;
	if (read_stack(world, how & WITH_SLICES) && world->stack.count > MAX_FRAMES)
		abort();
	for (size_t i = 0; i < world->stack.count; i++)
		python_frame_position(&world->runtime, &world->stack.frames[i]);
	python_known_codes_free(known);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	const struct python_layout *layout = python_layout_row((uint8_t)fuzz_number(&input, 1));
	const unsigned how = (unsigned)fuzz_number(&input, 1);
	if (!layout)
		return 0;
	struct world *world = world_of_row(layout);
	while (input.size)
		put_wrong_word(world, &input);
	read_it(world, how);
	release_world(world);
	return 0;
}
