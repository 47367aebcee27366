/* SPDX-License-Identifier: MIT */
/*
 * Python stacks of 1,000 to 100,000 frames: whole, and with a number of reads and bytes that grows
 * as the depth does.
 */
#include "tests/unit/python_world.h"

enum {
	FRAME = FRAME_SIZE,
	FRAME_OBJECT = 512,
	HEADER = 32,
	PER_CHUNK = (CHUNK_SIZE - HEADER) / FRAME
};

/* More frames, inside of those of a world: in chunks and, each so many-th, a generator's own. */
struct deep_memory {
	struct memory_reader reader;
	struct world *world;
	uint8_t *bytes; /* at DEEP */
	size_t size, reads, read_bytes;
	size_t depth, each_generator; /* 0: none */
	remote_addr generators, records;
};

static const remote_addr DEEP = 1ull << 32;

static bool read_deep(const struct memory_reader *reader, remote_addr address, void *buffer,
		      size_t size, struct error *error)
{
	struct deep_memory *deep = (struct deep_memory *)reader;
	deep->reads++;
	deep->read_bytes += size;
	if (address < DEEP)
		return memory_read(&deep->world->reader, address, buffer, size, error);
	if (address - DEEP > deep->size || size > deep->size - (address - DEEP))
		return error_set(error, ERROR_GONE, "not mapped");
	memcpy(buffer, deep->bytes + (address - DEEP), size);
	return true;
}

static void deep_put64(struct deep_memory *deep, remote_addr address, uint64_t value)
{
	memcpy(deep->bytes + (address - DEEP), &value, sizeof(value));
}

static bool is_generator(const struct deep_memory *deep, size_t number)
{
	return deep->each_generator && number % deep->each_generator == 1;
}

/* Its place among the frames of the chunks, which stand end to end: a generator's own is elsewhere.
 */
static size_t slot_of(const struct deep_memory *deep, size_t number)
{
	size_t each = deep->each_generator;
	return each && number > 1 ? number - ((number - 2) / each + 1) : number;
}

/* Chunks lie in an order of their own; a chunk's frames stand one above the other. */
static remote_addr chunk_address(const struct deep_memory *deep, size_t chunk)
{
	size_t count = deep->depth / PER_CHUNK + 1;
	return DEEP + (chunk * 7919 % count) * CHUNK_SIZE;
}

/* Number 0 is the innermost. */
static remote_addr deep_frame(const struct deep_memory *deep, size_t number)
{
	if (has_frame_objects(&deep->world->runtime.layout))
		return DEEP + number * FRAME_OBJECT;
	if (is_generator(deep, number))
		return deep->generators + number * FRAME;
	size_t slot = slot_of(deep, number);
	return chunk_address(deep, slot / PER_CHUNK) + HEADER +
	       (PER_CHUNK - 1 - slot % PER_CHUNK) * FRAME;
}

static void make_deep_frames(struct deep_memory *deep)
{
	const struct python_layout *layout = &deep->world->runtime.layout;
	for (size_t i = 0; i < deep->depth; i++) {
		remote_addr frame = deep_frame(deep, i), code = deep->world->codes[i % CODES];
		remote_addr outer =
			i + 1 < deep->depth ? deep_frame(deep, i + 1) : frame_at(deep->world, 5);
		if (has_frame_objects(layout)) {
			uint32_t instruction = 4u / layout->lasti_unit;
			deep_put64(deep, frame + layout->object_type - 8, 1); /* ob_refcnt */
			deep_put64(deep, frame + layout->frame_back, outer);
			deep_put64(deep, frame + layout->frame_code, code);
			memcpy(deep->bytes + (frame + layout->frame_lasti - DEEP), &instruction, 4);
			continue;
		}
		deep_put64(deep, frame + layout->iframe_code, code | (layout->tag_mask & 1));
		deep_put64(deep, frame + layout->iframe_previous, outer);
		deep_put64(deep, frame + layout->iframe_instruction,
			   code + layout->code_bytecode + 4);
		deep->bytes[frame + layout->iframe_owner - DEEP] = is_generator(deep, i);
	}
}

static void make_deep_chunks(struct deep_memory *deep)
{
	const struct python_layout *layout = &deep->world->runtime.layout;
	size_t count = (deep->depth + PER_CHUNK - 1) / PER_CHUNK;
	if (layout->tstate_datastack_chunk == LAYOUT_ABSENT)
		return;
	for (size_t i = 0; i < count; i++) {
		remote_addr chunk = chunk_address(deep, i);
		deep_put64(deep, chunk + layout->chunk_length, CHUNK_SIZE);
		deep_put64(deep, chunk + layout->chunk_previous,
			   i + 1 < count ? chunk_address(deep, i + 1) : CHUNK);
	}
	put64(deep->world, TSTATE + layout->tstate_datastack_chunk, chunk_address(deep, 0));
	put64(deep->world, TSTATE + layout->tstate_datastack_top,
	      chunk_address(deep, 0) + HEADER + PER_CHUNK * FRAME);
}

static void make_deep(struct deep_memory *deep, const struct python_layout *layout, size_t depth,
		      size_t each_generator)
{
	memset(deep, 0, sizeof(*deep));
	deep->reader.read = read_deep;
	deep->world = world_of_row(layout);
	deep->depth = depth;
	deep->each_generator = each_generator;
	deep->generators = DEEP + depth * FRAME_OBJECT + CHUNK_SIZE;
	deep->records = deep->generators + depth * FRAME;
	deep->size = deep->records + depth * FRAME - DEEP;
	deep->bytes = alloc_zeroed(deep->size, 1);
	make_deep_frames(deep);
	make_deep_chunks(deep);
	remote_addr innermost = deep_frame(deep, 0);
	if (has_frame_objects(layout))
		put64(deep->world, TSTATE + layout->tstate_frame, innermost);
	else if (layout->chain == CHAIN_SHIM)
		put64(deep->world, TSTATE + layout->tstate_current_frame, innermost);
	else
		put64(deep->world, record_at(2) + layout->cframe_current_frame, innermost);
}

static void release_deep(struct deep_memory *deep)
{
	release_world(deep->world);
	free(deep->bytes);
}

/* What one walk of so many frames may cost. */
struct cost {
	size_t reads, bytes;
};

static struct cost allowed(const struct deep_memory *deep)
{
	const struct python_layout *layout = &deep->world->runtime.layout;
	size_t generators = deep->each_generator ? deep->depth / deep->each_generator : 0;
	/* One read a frame object, two a generator's frame (3.11, 3.12: the newest
	 * record is tried first) and a chunk. */
	size_t apart = has_frame_objects(layout) ? deep->depth : 2 * generators;
	size_t chunks = has_frame_objects(layout) ? 0 : deep->depth / PER_CHUNK + 1;
	return (struct cost){200 + apart + 2 * chunks,
			     24000 + apart * FRAME_OBJECT / 2 + chunks * (CHUNK_SIZE + HEADER)};
}

static void expect_cost(const struct deep_memory *deep, const char *what)
{
	const struct python_layout *layout = &deep->world->runtime.layout;
	struct cost most = allowed(deep);
	if (deep->reads > most.reads || deep->read_bytes > most.bytes)
		fail_msg("%s %zu frames of %u.%u%s: %zu reads (%zu allowed), %zu bytes (%zu)", what,
			 deep->depth, layout->major, layout->minor,
			 layout->free_threaded ? "t" : "", deep->reads, most.reads,
			 deep->read_bytes, most.bytes);
}

static void walk(const struct python_layout *layout, size_t depth, size_t each_generator)
{
	static struct deep_memory deep;
	make_deep(&deep, layout, depth, each_generator);
	struct world *world = deep.world;
	struct python_known_codes *known = python_known_codes_new();
	if (!python_stack_touch(&world->runtime, &deep.reader, TSTATE, NULL, known, &world->error))
		fail_msg("%u.%u: %s", layout->major, layout->minor, world->error.message);
	expect_cost(&deep, "touching");
	python_known_codes_free(known);
	deep.reads = deep.read_bytes = 0;
	if (!python_stack_read(&world->runtime, &deep.reader, TSTATE, NULL, 0, world->cache,
			       &world->stack, &world->error))
		fail_msg("%u.%u: %s", layout->major, layout->minor, world->error.message);
	expect_cost(&deep, "reading");
	assert_int_equal(world->stack.count, depth + CODES);
	for (size_t i = 0; i < depth; i++) {
		assert_int_equal(world->stack.frames[i].address, deep_frame(&deep, i));
		assert_string_equal(world->stack.frames[i].code->name, code_names[i % CODES]);
		assert_int_equal(world->stack.frames[i].line, 7);
	}
	release_deep(&deep);
}

static void deep_stacks_cost_as_much_as_they_have_frames(void **state)
{
	(void)state;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = python_layout_row(row)) != NULL; row++)
		for (size_t depth = 1000; depth <= 100000; depth *= 10)
			walk(layout, depth, 0);
}

static void generators_between_do_not_cost_more(void **state)
{
	(void)state;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = python_layout_row(row)) != NULL; row++)
		for (size_t depth = 1000; depth <= 100000 && !has_frame_objects(layout);
		     depth *= 10)
			for (size_t each = 2; each <= 50; each *= 5)
				walk(layout, depth, each);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deep_stacks_cost_as_much_as_they_have_frames),
		cmocka_unit_test(generators_between_do_not_cost_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
