/* SPDX-License-Identifier: MIT */
/*
 * Python stacks made by hand in a fake memory, one world for each layout: sound ones, ones that
 * are caught while they change, hostile ones, and every read failing once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "python/internal.h"

enum {
	MEMORY = 1 << 20,
	RUNTIME = 0x1000,
	TSTATE = 0x8000,
	INTERPRETER = 0x10000, /* up to 64 KiB */
	CHUNK = 0x20000,
	CHUNK_SIZE = 0x4000,
	STACK = 0x30000, /* native: grows down from STACK + 0x8000 */
	HEAP = 0x40000,
	CODE_TYPE = 0x900,
	STRING_TYPE = 0xa00,
	HEAD = 0x3000, /* variables of versions without _PyRuntime */
	CURRENT = 0x3008,
	COLLECTING = 0x3010,
	GIL = 0x4000,
	CODES = 6,
};

struct world {
	struct memory_reader reader;
	struct python_runtime runtime;
	uint8_t bytes[MEMORY];
	uint8_t copied[MEMORY]; /* 1: was read */
	bool only_copied;
	size_t reads, fail_at; /* fail_at: the number of the read that fails, 0: none */
	remote_addr heap;
	remote_addr codes[CODES]; /* "f0" ... "f5" */
	struct interner *interner;
	struct python_code_cache *cache;
	struct python_stack stack;
	struct error error;
};

static bool read_world(const struct memory_reader *reader, remote_addr address, void *buffer,
		       size_t size, struct error *error)
{
	struct world *world = (struct world *)reader;
	if (++world->reads == world->fail_at)
		return error_set(error, ERROR_GONE, "this read fails");
	if (address < 4096 / 2 || address > MEMORY || size > MEMORY - address)
		return error_set(error, ERROR_GONE, "not mapped");
	for (size_t i = 0; i < size; i++) {
		if (world->only_copied && !world->copied[address + i])
			return error_set(error, ERROR_ABSENT, "not in the copy");
		world->copied[address + i] = 1;
	}
	memcpy(buffer, world->bytes + address, size);
	return true;
}

static void put64(struct world *world, remote_addr address, uint64_t value)
{
	memcpy(world->bytes + address, &value, 8);
}

static void put32(struct world *world, remote_addr address, uint32_t value)
{
	memcpy(world->bytes + address, &value, 4);
}

static remote_addr take(struct world *world, size_t size)
{
	remote_addr address = world->heap;
	world->heap += (size + 31) & ~(size_t)31;
	return address;
}

static remote_addr make_string(struct world *world, const char *text)
{
	const struct python_layout *layout = &world->runtime.layout;
	bool bytes = layout->string_form == STRINGS_BYTES;
	uint16_t data = bytes ? layout->bytes_data : layout->unicode_ascii_size;
	remote_addr object = take(world, data + strlen(text) + 1);
	put64(world, object + layout->object_type, STRING_TYPE);
	put64(world, STRING_TYPE + layout->type_flags, bytes ? 1 << 27 : 1 << 28);
	put64(world, object + (bytes ? layout->object_var_size : layout->unicode_length),
	      strlen(text));
	/* One byte a code point, compact, ASCII; behind a field of two bits or of eight. */
	uint32_t state = 1 | 1 << 3 | 1 << 4;
	if (!bytes)
		put32(world, object + layout->unicode_state,
		      state << (layout->string_form == STRINGS_COMPACT ? 2 : 8));
	memcpy(world->bytes + object + data, text, strlen(text));
	return object;
}

static remote_addr make_code(struct world *world, const char *name)
{
	const struct python_layout *layout = &world->runtime.layout;
	/* Line 7 for the first 16 bytes of code. */
	const char *table = layout->lines == PYTHON_LINES_311	? "\xef"
			    : layout->lines == PYTHON_LINES_310 ? "\x10"
								: "\x10\x01";
	remote_addr code = take(world, layout->code_size + 64), lines = take(world, 64);
	put64(world, lines + layout->object_var_size, 2);
	memcpy(world->bytes + lines + layout->bytes_data, table, 2);
	put64(world, code + layout->object_type, CODE_TYPE);
	put32(world, code + layout->code_firstlineno, 7);
	put64(world, code + layout->code_filename, make_string(world, "file.py"));
	put64(world, code + layout->code_name, make_string(world, name));
	put64(world, code + layout->code_linetable, lines);
	if (layout->code_firsttraceable != LAYOUT_ABSENT)
		put32(world, code + layout->code_firsttraceable, 1);
	return code;
}

static bool has_frame_objects(const struct python_layout *layout)
{
	return layout->chain == CHAIN_FRAMES || layout->chain == CHAIN_HEAP_FRAMES;
}

/* Frame number N, in the chunk from 3.11 on. */
static remote_addr frame_at(const struct world *world, unsigned number)
{
	return has_frame_objects(&world->runtime.layout) ? 0x60000 + number * 0x200u
							 : CHUNK + 64 + number * 128u;
}

static remote_addr make_frame(struct world *world, unsigned number, remote_addr previous,
			      bool entry)
{
	const struct python_layout *layout = &world->runtime.layout;
	remote_addr frame = frame_at(world, number), code = world->codes[number % CODES];
	if (has_frame_objects(layout)) {
		put64(world, frame + layout->frame_back, previous);
		put64(world, frame + layout->frame_code, code);
		put32(world, frame + layout->frame_lasti, 4u / layout->lasti_unit);
		return frame;
	}
	put64(world, frame + layout->iframe_code, code | (layout->tag_mask & 1));
	put64(world, frame + layout->iframe_previous, previous);
	put64(world, frame + layout->iframe_instruction, code + layout->code_bytecode + 4);
	world->bytes[frame + layout->iframe_owner] = 0;
	if (layout->iframe_is_entry != LAYOUT_ABSENT)
		world->bytes[frame + layout->iframe_is_entry] = entry;
	return frame;
}

/* A native frame's locals are 0x400 bytes apart; activation 0 is the outermost. */
static remote_addr record_at(unsigned activation)
{
	return STACK + 0x7c00 - activation * 0x400u;
}

static remote_addr shim_at(unsigned activation)
{
	return record_at(activation) + 0x80;
}

static void make_record(struct world *world, unsigned activation, remote_addr current_frame)
{
	const struct python_layout *layout = &world->runtime.layout;
	remote_addr outer = activation ? record_at(activation - 1)
				       : (remote_addr)TSTATE + layout->tstate_root_cframe;
	if (layout->cframe_previous == LAYOUT_ABSENT)
		return;
	put64(world, record_at(activation) + layout->cframe_previous, outer);
	if (layout->cframe_current_frame != LAYOUT_ABSENT)
		put64(world, record_at(activation) + layout->cframe_current_frame, current_frame);
	put64(world, TSTATE + layout->tstate_cframe, record_at(activation));
}

static void make_shim(struct world *world, unsigned activation, remote_addr previous)
{
	const struct python_layout *layout = &world->runtime.layout;
	world->bytes[shim_at(activation) + layout->iframe_owner] = 3;
	put64(world, shim_at(activation) + layout->iframe_previous, previous);
}

/*
 * Three activations of two frames each (one each up to 3.10: six): innermost first f5 f4 | f3 f2
 * | f1 f0.
 */
static void make_stack(struct world *world)
{
	const struct python_layout *layout = &world->runtime.layout;
	remote_addr previous = 0;
	for (unsigned i = 0; i < 6; i++) {
		bool starts = i % 2 == 0;
		bool shims = layout->chain == CHAIN_CFRAME_SHIM || layout->chain == CHAIN_SHIM;
		if (starts && shims) {
			make_shim(world, i / 2, previous);
			previous = shim_at(i / 2);
		}
		previous = make_frame(world, i, previous, starts);
		if (has_frame_objects(layout))
			make_record(world, i, 0);
		else
			make_record(world, i / 2, previous);
	}
	if (has_frame_objects(layout))
		put64(world, TSTATE + layout->tstate_frame, previous);
	if (layout->chain == CHAIN_SHIM)
		put64(world, TSTATE + layout->tstate_current_frame, previous);
}

static void make_chunk(struct world *world)
{
	const struct python_layout *layout = &world->runtime.layout;
	if (layout->tstate_datastack_chunk == LAYOUT_ABSENT)
		return;
	put64(world, CHUNK + layout->chunk_length, CHUNK_SIZE);
	put64(world, TSTATE + layout->tstate_datastack_chunk, CHUNK);
	put64(world, TSTATE + layout->tstate_datastack_top, frame_at(world, 6));
}

static void make_world(struct world *world, const struct python_layout *layout)
{
	static const char *const names[CODES] = {"f0", "f1", "f2", "f3", "f4", "f5"};
	memset(world, 0, sizeof(*world));
	world->reader.read = read_world;
	world->runtime.layout = *layout;
	bool variables = layout->root == ROOT_VARIABLES;
	world->runtime.address = variables ? 0 : RUNTIME;
	world->runtime.head = variables ? HEAD : RUNTIME + layout->runtime_interpreters_head;
	world->runtime.current = variables ? CURRENT : RUNTIME + layout->runtime_tstate_current;
	world->runtime.code_type = CODE_TYPE;
	world->heap = HEAP;
	python_runtime_plan(&world->runtime);
	put64(world, world->runtime.head, INTERPRETER);
	put64(world, INTERPRETER + layout->interp_threads_head, TSTATE);
	put64(world, TSTATE + layout->tstate_interp, INTERPRETER);
	put64(world, TSTATE + layout->tstate_thread_id, 77);
	if (layout->tstate_id != LAYOUT_ABSENT)
		put64(world, TSTATE + layout->tstate_id, 5);
	if (layout->gil_place != GIL_BY_INTERPRETER) {
		put64(world, world->runtime.current, TSTATE);
	} else {
		put64(world, INTERPRETER + layout->interp_gil, GIL);
		if (layout->gil_enabled != LAYOUT_ABSENT)
			put32(world, GIL + layout->gil_enabled, INT32_MAX);
		put64(world, GIL + layout->gil_last_holder, TSTATE);
		put32(world, GIL + layout->gil_locked, 1);
	}
	for (unsigned i = 0; i < CODES; i++)
		world->codes[i] = make_code(world, names[i]);
	make_chunk(world);
	make_stack(world);
	world->interner = interner_new();
	world->cache = python_code_cache_new(world->interner);
	python_stack_init(&world->stack);
}

static void release_world(struct world *world)
{
	python_stack_release(&world->stack);
	python_code_cache_free(world->cache);
	interner_free(world->interner);
}

static const struct python_slice slices[] = {
	/* Innermost first; activation 2, a C function, activations 1 and 0. */
	{.sp = STACK + 0x7300, .cfa = STACK + 0x7600},
	{.sp = STACK + 0x7600, .cfa = STACK + 0x7700},
	{.sp = STACK + 0x7700, .cfa = STACK + 0x7b00},
	{.sp = STACK + 0x7b00, .cfa = STACK + 0x7f00},
};

static bool read_stack(struct world *world, bool with_slices)
{
	memset(&world->error, 0, sizeof(world->error));
	return python_stack_read(&world->runtime, &world->reader, TSTATE,
				 with_slices ? slices : NULL, with_slices ? 4 : 0, world->cache,
				 &world->stack, &world->error);
}

/* "f5 f4 | f3 f2 | f1 f0" */
static void describe(const struct python_stack *stack, char *text, size_t size)
{
	size_t at = 0;
	text[0] = '\0';
	for (size_t i = 0; i < stack->activation_count; i++) {
		const struct python_activation *activation = &stack->activations[i];
		if (i)
			at += (size_t)snprintf(text + at, size - at, "| ");
		for (uint32_t j = 0; j < activation->count; j++)
			at += (size_t)snprintf(text + at, size - at, "%s ",
					       stack->frames[activation->first + j].code->name);
	}
}

static void expect_stack(struct world *world, bool with_slices, const char *expected)
{
	char text[256];
	if (!read_stack(world, with_slices))
		fail_msg("%u.%u: %s", world->runtime.layout.major, world->runtime.layout.minor,
			 world->error.message);
	describe(&world->stack, text, sizeof(text));
	if (strcmp(text, expected) != 0)
		fail_msg("%u.%u: \"%s\", not \"%s\"", world->runtime.layout.major,
			 world->runtime.layout.minor, text, expected);
}

static void expect_failure(struct world *world, bool with_slices, enum error_kind kind)
{
	if (read_stack(world, with_slices))
		fail_msg("%u.%u: read", world->runtime.layout.major, world->runtime.layout.minor);
	if (world->error.kind != kind)
		fail_msg("%u.%u: %s", world->runtime.layout.major, world->runtime.layout.minor,
			 world->error.message);
	assert_int_equal(world->stack.count, 0);
}

static struct world *world_of_row(const struct python_layout *layout)
{
	static struct world world;
	make_world(&world, layout);
	return &world;
}

static struct world *world_of(unsigned minor)
{
	return world_of_row(python_layout_find(3, minor, false));
}

/* ---- sound stacks ---- */

static void stacks_of_every_chain_are_read(void **state)
{
	(void)state;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = python_layout_row(row)) != NULL; row++) {
		struct world *world = world_of_row(layout);
		expect_stack(world, false,
			     has_frame_objects(layout) ? "f5 | f4 | f3 | f2 | f1 | f0 "
						       : "f5 f4 | f3 f2 | f1 f0 ");
		const struct python_stack *stack = &world->stack;
		assert_int_equal(stack->frames[0].line, 7);
		assert_int_equal(stack->frames[0].instruction, 4);
		assert_string_equal(stack->frames[0].code->file, "file.py");
		assert_int_equal(stack->thread_id, 77);
		assert_true(stack->holds_gil && stack->has_gil && !stack->gc_running);
		bool shims = layout->chain == CHAIN_SHIM || layout->chain == CHAIN_CFRAME_SHIM;
		remote_addr record = layout->chain == CHAIN_FRAMES ? 0 : record_at(0);
		assert_int_equal(stack->activations[stack->activation_count - 1].record,
				 shims ? shim_at(0) : record);
		release_world(world);
	}
}

static void expect_state(struct world *world, bool has_gil, bool holds_gil, bool gc_running)
{
	const struct python_layout *layout = &world->runtime.layout;
	assert_true(read_stack(world, false));
	if (world->stack.has_gil != has_gil || world->stack.holds_gil != holds_gil ||
	    world->stack.gc_running != gc_running)
		fail_msg("%u.%u%s: has %d, holds %d, gc %d", layout->major, layout->minor,
			 layout->free_threaded ? "t" : "", world->stack.has_gil,
			 world->stack.holds_gil, world->stack.gc_running);
}

static void the_gil_and_the_collector_are_told(void **state)
{
	(void)state;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = python_layout_row(row)) != NULL; row++) {
		struct world *world = world_of_row(layout);
		bool by_interpreter = layout->gil_place == GIL_BY_INTERPRETER;
		remote_addr holder = by_interpreter ? (remote_addr)GIL + layout->gil_last_holder
						    : world->runtime.current;
		remote_addr collecting = COLLECTING;
		if (layout->gc_place == GC_BY_INTERPRETER)
			collecting = (remote_addr)INTERPRETER + layout->interp_gc_collecting;
		else
			world->runtime.collecting = COLLECTING;
		put32(world, collecting, 1);
		expect_state(world, true, true, true);
		put32(world, collecting, 0);
		put64(world, holder, TSTATE + 0x400);
		expect_state(world, true, false, false);
		put64(world, holder, 0);
		expect_state(world, true, false, false);
		put64(world, holder, TSTATE);
		if (by_interpreter) { /* who held it last does not hold it any more */
			put32(world, GIL + layout->gil_locked, 0);
			expect_state(world, true, false, false);
			put32(world, GIL + layout->gil_locked, 1);
		}
		expect_state(world, true, true, false);
		if (layout->free_threaded) {
			put32(world, GIL + layout->gil_enabled, 0);
			expect_state(world, false, false, false);
		}
		/* Not to be read: no reason to lose the stack. */
		world->runtime.current = MEMORY;
		world->runtime.collecting = MEMORY;
		if (by_interpreter)
			put64(world, INTERPRETER + layout->interp_gil, MEMORY);
		expect_state(world, !layout->free_threaded, false, false);
		release_world(world);
	}
}

static void no_frames_is_a_stack_too(void **state)
{
	(void)state;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = python_layout_row(row)) != NULL; row++) {
		struct world *world = world_of_row(layout);
		if (layout->tstate_frame != LAYOUT_ABSENT)
			put64(world, TSTATE + layout->tstate_frame, 0);
		if (layout->tstate_current_frame != LAYOUT_ABSENT)
			put64(world, TSTATE + layout->tstate_current_frame, 0);
		if (layout->tstate_cframe != LAYOUT_ABSENT)
			put64(world, TSTATE + layout->tstate_cframe,
			      (remote_addr)TSTATE + layout->tstate_root_cframe);
		expect_stack(world, false, "");
		release_world(world);
	}
}

/* What touching reads is all that reading needs, also when the code objects are known already. */
static void touching_reads_all_that_reading_needs(void **state)
{
	(void)state;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = python_layout_row(row)) != NULL; row++) {
		struct world *world = world_of_row(layout);
		struct python_known_codes *known = python_known_codes_new();
		for (int round = 0; round < 2; round++) {
			memset(world->copied, 0, sizeof(world->copied));
			world->only_copied = false;
			uint64_t before = 0;
			if (round == 1)
				before = alloc_count();
			assert_true(python_stack_touch(&world->runtime, &world->reader, TSTATE,
						       known, &world->error));
			if (round == 1)
				assert_int_equal(alloc_count(), before);
			world->only_copied = true;
			uint64_t stamp;
			assert_true(read_stack(world, false));
			assert_int_equal(world->stack.count, 6);
			assert_true(python_threads_stamp(&world->runtime, &world->reader, &stamp,
							 &world->error));
		}
		/* Another cache has never seen the strings. */
		python_code_cache_free(world->cache);
		world->cache = python_code_cache_new(world->interner);
		expect_failure(world, false, ERROR_TORN);
		python_known_codes_free(known);
		release_world(world);
	}
}

static void code_at_a_reused_address_is_another_code(void **state)
{
	(void)state;
	struct world *world = world_of(12);
	expect_stack(world, false, "f5 f4 | f3 f2 | f1 f0 ");
	put64(world, world->codes[5] + world->runtime.layout.code_name,
	      make_string(world, "another"));
	expect_stack(world, false, "another f4 | f3 f2 | f1 f0 ");
	release_world(world);
}

static void frames_that_have_not_started_are_hidden(void **state)
{
	(void)state;
	for (unsigned minor = 11; minor <= 13; minor++) {
		struct world *world = world_of(minor);
		const struct python_layout *layout = &world->runtime.layout;
		remote_addr start = world->codes[5] + layout->code_bytecode;
		put64(world, frame_at(world, 5) + layout->iframe_instruction, start);
		expect_stack(world, false, "f4 | f3 f2 | f1 f0 ");
		/* A generator that has not started is shown. */
		world->bytes[frame_at(world, 5) + layout->iframe_owner] = 1;
		expect_stack(world, false, "f5 f4 | f3 f2 | f1 f0 ");
		release_world(world);
	}
}

/* ---- stacks that are changing ---- */

static void records_not_filled_yet_are_skipped(void **state)
{
	(void)state;
	for (unsigned minor = 11; minor <= 12; minor++) {
		struct world *world = world_of(minor);
		const struct python_layout *layout = &world->runtime.layout;
		const remote_addr stale[] = {0, 0x123456789,	    0x7000,
					     3, frame_at(world, 1), frame_at(world, 3)};
		for (size_t i = 0; i < sizeof(stale) / sizeof(*stale); i++) {
			put64(world, record_at(2) + layout->cframe_current_frame, stale[i]);
			expect_stack(world, true, "| f3 f2 | f1 f0 ");
			assert_int_equal(world->stack.skipped_records, 1);
			assert_int_equal(world->stack.activations[0].record, record_at(2));
			expect_stack(world, false, "| f3 f2 | f1 f0 ");
		}
		release_world(world);
	}
}

/* The newest record's `previous` is left from before: garbage, or a record too far out. */
static void records_are_rebuilt_from_the_root(void **state)
{
	(void)state;
	for (unsigned minor = 11; minor <= 12; minor++) {
		struct world *world = world_of(minor);
		const struct python_layout *layout = &world->runtime.layout;
		const remote_addr stale[] = {0,
					     0x123456789,
					     STACK + 0x7e00,
					     record_at(2),
					     record_at(0),
					     STACK + 1,
					     (remote_addr)TSTATE + layout->tstate_root_cframe};
		put64(world, record_at(2) + layout->cframe_current_frame, 0x55);
		for (size_t i = 0; i < sizeof(stale) / sizeof(*stale); i++) {
			put64(world, record_at(2) + layout->cframe_previous, stale[i]);
			/* A spilled copy of the address is no record. */
			put64(world, STACK + 0x7720, record_at(0));
			expect_stack(world, true, "| f3 f2 | f1 f0 ");
			assert_true(world->stack.rebuilt_records >= 1);
			/* Touching finds them without slices, and reads what is needed. */
			memset(world->copied, 0, sizeof(world->copied));
			memset(world->copied + STACK, 1, 0x8000);
			assert_true(python_stack_touch(&world->runtime, &world->reader, TSTATE,
						       NULL, &world->error));
			world->only_copied = true;
			expect_stack(world, true, "| f3 f2 | f1 f0 ");
			world->only_copied = false;
		}
		put64(world, record_at(2) + layout->cframe_previous, 0x123456789);
		expect_failure(world, false, ERROR_TORN);
		release_world(world);
	}
}

static void popped_frames_are_not_shown(void **state)
{
	(void)state;
	struct world *world = world_of(11);
	const struct python_layout *layout = &world->runtime.layout;
	/* f5 has been popped, but its record still leads to it. */
	put64(world, TSTATE + layout->tstate_datastack_top, frame_at(world, 5));
	expect_stack(world, false, "f4 | f3 f2 | f1 f0 ");
	/* f4, an entry, has been popped: the record is left from a call that returned. */
	put64(world, TSTATE + layout->tstate_datastack_top, frame_at(world, 4));
	put64(world, record_at(2) + layout->cframe_current_frame, frame_at(world, 4));
	expect_stack(world, false, "| f3 f2 | f1 f0 ");
	release_world(world);
}

static void heap_frames_are_paired_from_the_outermost(void **state)
{
	(void)state;
	struct world *world = world_of(10);
	const struct python_layout *layout = &world->runtime.layout;
	/* Being entered: a record more. */
	put64(world, TSTATE + layout->tstate_frame, frame_at(world, 4));
	expect_stack(world, false, "| f4 | f3 | f2 | f1 | f0 ");
	assert_int_equal(world->stack.activations[1].record, record_at(4));
	/* Being left: a frame more. */
	put64(world, TSTATE + layout->tstate_frame, frame_at(world, 5));
	put64(world, TSTATE + layout->tstate_cframe, record_at(4));
	expect_stack(world, false, "f4 | f3 | f2 | f1 | f0 ");
	assert_int_equal(world->stack.activations[0].record, record_at(4));
	/* `previous` of the newest is no record. */
	put64(world, TSTATE + layout->tstate_cframe, record_at(5));
	put64(world, record_at(5) + layout->cframe_previous, 0x123456789);
	expect_failure(world, false, ERROR_TORN);
	release_world(world);
}

static void shims_below_the_stack_pointer_are_torn(void **state)
{
	(void)state;
	struct world *world = world_of(13);
	const struct python_slice above = {.sp = shim_at(2) + 0x100, .cfa = STACK + 0x7f00};
	assert_false(python_stack_read(&world->runtime, &world->reader, TSTATE, &above, 1,
				       world->cache, &world->stack, &world->error));
	assert_int_equal(world->error.kind, ERROR_TORN);
	release_world(world);
}

/* ---- hostile ones ---- */

static void loops_are_corrupt(void **state)
{
	(void)state;
	for (unsigned minor = 10; minor <= 13; minor++) {
		struct world *world = world_of(minor);
		const struct python_layout *layout = &world->runtime.layout;
		if (minor == 10)
			put64(world, frame_at(world, 0) + layout->frame_back, frame_at(world, 5));
		else
			put64(world, frame_at(world, 1) + layout->iframe_previous,
			      frame_at(world, 1));
		expect_failure(world, false, ERROR_CORRUPT);
		release_world(world);
	}
}

static void loops_of_records_are_torn(void **state)
{
	(void)state;
	for (unsigned minor = 10; minor <= 12; minor++) {
		struct world *world = world_of(minor);
		put64(world, record_at(0) + world->runtime.layout.cframe_previous, record_at(1));
		expect_failure(world, false, ERROR_TORN);
		release_world(world);
	}
}

static void chunks_may_say_anything(void **state)
{
	(void)state;
	for (unsigned minor = 11; minor <= 13; minor++) {
		struct world *world = world_of(minor);
		const struct python_layout *layout = &world->runtime.layout;
		const uint64_t sizes[] = {0, 1, UINT64_MAX, MAX_CHUNK + 1ull, MAX_CHUNK};
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			put64(world, CHUNK + layout->chunk_length, sizes[i]);
			expect_stack(world, false, "f5 f4 | f3 f2 | f1 f0 ");
		}
		put64(world, CHUNK + layout->chunk_length, CHUNK_SIZE);
		put64(world, CHUNK + layout->chunk_previous, CHUNK);
		expect_stack(world, false, "f5 f4 | f3 f2 | f1 f0 ");
		release_world(world);
	}
}

static void frames_without_a_code_object_are_torn(void **state)
{
	(void)state;
	for (unsigned minor = 10; minor <= 13; minor++) {
		struct world *world = world_of(minor);
		/* An outer one: the innermost record alone may be unfinished. */
		put64(world, world->codes[0] + world->runtime.layout.object_type, 0x800);
		expect_failure(world, false, ERROR_TORN);
		release_world(world);
	}
}

/* Whichever read fails, a kind of error comes out, or a stack that is none of the worse for it. */
static void every_read_may_fail(void **state)
{
	(void)state;
	for (unsigned minor = 10; minor <= 13; minor++) {
		struct world *world = world_of(minor);
		/* The slices are those of the stack with three activations. */
		const bool with_slices = minor != 10;
		assert_true(read_stack(world, with_slices));
		size_t failures = 0, total = world->reads;
		release_world(world);
		for (size_t n = 1; n <= total; n++) {
			char text[256];
			world = world_of(minor);
			world->fail_at = n;
			if (read_stack(world, with_slices)) {
				describe(&world->stack, text, sizeof(text));
				assert_true(strstr(text, "f3 ") && strstr(text, "f0 "));
			} else {
				failures++;
				assert_int_not_equal(world->error.kind, ERROR_NONE);
				assert_int_equal(world->stack.count, 0);
			}
			release_world(world);
			world = world_of(minor);
			world->fail_at = n;
			if (!python_stack_touch(&world->runtime, &world->reader, TSTATE, NULL,
						&world->error))
				assert_int_not_equal(world->error.kind, ERROR_NONE);
			release_world(world);
		}
		assert_true(total > 40 && failures > 0);
	}
}

static void random_words_never_crash(void **state)
{
	(void)state;
	uint32_t seed = 7;
	for (int round = 0; round < 400; round++) {
		struct world *world = world_of(10 + (unsigned)round % 4);
		for (int i = 0; i < 3; i++) {
			seed = seed * 1664525 + 1013904223;
			remote_addr places[] = {TSTATE + (seed >> 8) % 45 * 8,
						STACK + 0x7000 + (seed >> 8) % 512 * 8,
						CHUNK + (seed >> 8) % 128 * 8,
						HEAP + (seed >> 8) % 256 * 8};
			seed = seed * 1664525 + 1013904223;
			uint64_t values[] = {0,
					     seed,
					     (uint64_t)seed << 32,
					     STACK + 0x7800,
					     frame_at(world, seed % 6),
					     UINT64_MAX,
					     TSTATE};
			put64(world, places[seed >> 16 & 3], values[(seed >> 20) % 7]);
		}
		if (!read_stack(world, true))
			assert_int_not_equal(world->error.kind, ERROR_NONE);
		release_world(world);
	}
}

/* ---- threads ---- */

static void threads_are_listed_and_checked(void **state)
{
	(void)state;
	for (unsigned minor = 10; minor <= 13; minor++) {
		struct world *world = world_of(minor);
		const struct python_layout *layout = &world->runtime.layout;
		struct python_thread *threads;
		size_t count;
		uint64_t before, after;
		assert_true(python_threads_stamp(&world->runtime, &world->reader, &before, NULL));
		assert_true(
			python_threads(&world->runtime, &world->reader, &threads, &count, NULL));
		assert_int_equal(count, 1);
		assert_int_equal(threads[0].thread_id, 77);
		assert_int_equal(threads[0].id, 5);
		free(threads);
		/* A loop, then a thread state of nobody. */
		put64(world, TSTATE + layout->tstate_next, TSTATE);
		assert_false(python_threads(&world->runtime, &world->reader, &threads, &count,
					    &world->error));
		assert_int_equal(world->error.kind, ERROR_TORN);
		put64(world, TSTATE + layout->tstate_next, STACK);
		assert_false(python_threads(&world->runtime, &world->reader, &threads, &count,
					    &world->error));
		assert_int_equal(world->error.kind, ERROR_TORN);
		put64(world, INTERPRETER + layout->interp_threads_head, STACK);
		assert_true(python_threads_stamp(&world->runtime, &world->reader, &after, NULL));
		assert_true(before != after);
		put64(world, INTERPRETER + layout->interp_next, INTERPRETER);
		assert_false(python_threads_stamp(&world->runtime, &world->reader, &after, NULL));
		release_world(world);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_of_every_chain_are_read),
		cmocka_unit_test(the_gil_and_the_collector_are_told),
		cmocka_unit_test(no_frames_is_a_stack_too),
		cmocka_unit_test(touching_reads_all_that_reading_needs),
		cmocka_unit_test(code_at_a_reused_address_is_another_code),
		cmocka_unit_test(frames_that_have_not_started_are_hidden),
		cmocka_unit_test(records_not_filled_yet_are_skipped),
		cmocka_unit_test(records_are_rebuilt_from_the_root),
		cmocka_unit_test(popped_frames_are_not_shown),
		cmocka_unit_test(heap_frames_are_paired_from_the_outermost),
		cmocka_unit_test(shims_below_the_stack_pointer_are_torn),
		cmocka_unit_test(loops_are_corrupt),
		cmocka_unit_test(loops_of_records_are_torn),
		cmocka_unit_test(chunks_may_say_anything),
		cmocka_unit_test(frames_without_a_code_object_are_torn),
		cmocka_unit_test(every_read_may_fail),
		cmocka_unit_test(random_words_never_crash),
		cmocka_unit_test(threads_are_listed_and_checked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
