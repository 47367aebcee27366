/* SPDX-License-Identifier: MIT */
/* Python stacks made by hand in a fake memory, one world for each layout. */
#ifndef TESTS_PYTHON_WORLD_H
#define TESTS_PYTHON_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "python/internal.h"

enum {
	MEMORY = 1 << 20,
	RUNTIME = 0x1000,
	TSTATE = 0x8000,
	BASE_FRAME = TSTATE + 0x1000,
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
	FRAME_SIZE = 128, /* in the chunk */
};

struct world {
	struct memory_reader reader;
	struct python_runtime runtime;
	uint8_t bytes[MEMORY];
	uint8_t copied[MEMORY]; /* 1: was read */
	bool only_copied;
	size_t reads, fail_at; /* fail_at: the number of the read that fails, 0: none */
	remote_addr heap;
	remote_addr codes[CODES]; /* of code_names */
	struct interner *interner;
	struct python_code_cache *cache;
	struct python_stack stack;
	struct error error;
};

static inline bool read_world(const struct memory_reader *reader, remote_addr address, void *buffer,
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

static const char *const code_names[] = {"f0", "f1", "f2", "f3", "f4", "f5"};

static inline void put64(struct world *world, remote_addr address, uint64_t value)
{
	memcpy(world->bytes + address, &value, 8);
}

static inline void put32(struct world *world, remote_addr address, uint32_t value)
{
	memcpy(world->bytes + address, &value, 4);
}

static inline remote_addr take(struct world *world, size_t size)
{
	remote_addr address = world->heap;
	world->heap += (size + 31) & ~(size_t)31;
	return address;
}

static inline remote_addr make_string(struct world *world, const char *text)
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

static inline remote_addr make_code(struct world *world, const char *name)
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
	if (layout->code_framesize != LAYOUT_ABSENT)
		put32(world, code + layout->code_framesize, FRAME_SIZE / 8);
	if (layout->code_stacksize != LAYOUT_ABSENT)
		put32(world, code + layout->code_stacksize,
		      (FRAME_SIZE - layout->iframe_size) / 8 + 1);
	if (layout->code_version != LAYOUT_ABSENT)
		put32(world, code + layout->code_version, 1);
	return code;
}

/* Another code object in its memory, with its strings in that of its strings: "g5" for "f5". */
static inline void remake_code(struct world *world, remote_addr code)
{
	const struct python_layout *layout = &world->runtime.layout;
	remote_addr name;
	memcpy(&name, world->bytes + code + layout->code_name, sizeof(name));
	world->bytes[name + (layout->string_form == STRINGS_BYTES ? layout->bytes_data
								  : layout->unicode_ascii_size)] = 'g';
	put64(world, name + layout->unicode_hash, 0x1234567);
	if (layout->code_version != LAYOUT_ABSENT)
		put32(world, code + layout->code_version, 2);
}

static inline bool has_frame_objects(const struct python_layout *layout)
{
	return layout->chain == CHAIN_FRAMES;
}

/* Frame number N, in the chunk from 3.11 on. */
static inline remote_addr frame_at(const struct world *world, unsigned number)
{
	return has_frame_objects(&world->runtime.layout) ? 0x60000 + number * 0x200u
							 : CHUNK + 32 + number * FRAME_SIZE;
}

static inline remote_addr make_frame(struct world *world, unsigned number, remote_addr previous,
				     bool entry)
{
	const struct python_layout *layout = &world->runtime.layout;
	remote_addr frame = frame_at(world, number), code = world->codes[number % CODES];
	if (has_frame_objects(layout)) {
		put64(world, frame + layout->object_type - 8, 1); /* ob_refcnt */
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
static inline remote_addr record_at(unsigned activation)
{
	return STACK + 0x7c00 - activation * 0x400u;
}

static inline remote_addr shim_at(unsigned activation)
{
	return record_at(activation) + 0x80;
}

static inline void make_record(struct world *world, unsigned activation, remote_addr current_frame)
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

/* Where the chain ends; 0 where it just ends. */
static inline remote_addr make_base_frame(struct world *world)
{
	const struct python_layout *layout = &world->runtime.layout;
	if (layout->tstate_base_frame == LAYOUT_ABSENT)
		return 0;
	put64(world, TSTATE + layout->tstate_base_frame, BASE_FRAME);
	world->bytes[BASE_FRAME + layout->iframe_owner] = 3;
	return BASE_FRAME;
}

static inline void make_shim(struct world *world, unsigned activation, remote_addr previous)
{
	const struct python_layout *layout = &world->runtime.layout;
	world->bytes[shim_at(activation) + layout->iframe_owner] = 3;
	put64(world, shim_at(activation) + layout->iframe_previous, previous);
}

/*
 * Three activations of two frames each (one each up to 3.10: six): innermost first f5 f4 | f3 f2
 * | f1 f0.
 */
static inline void make_stack(struct world *world)
{
	const struct python_layout *layout = &world->runtime.layout;
	remote_addr previous = make_base_frame(world);
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

static inline void make_chunk(struct world *world)
{
	const struct python_layout *layout = &world->runtime.layout;
	if (layout->tstate_datastack_chunk == LAYOUT_ABSENT)
		return;
	put64(world, CHUNK + layout->chunk_length, CHUNK_SIZE);
	put64(world, TSTATE + layout->tstate_datastack_chunk, CHUNK);
	put64(world, TSTATE + layout->tstate_datastack_top, frame_at(world, 6));
}

static inline void make_world(struct world *world, const struct python_layout *layout)
{
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
		world->codes[i] = make_code(world, code_names[i]);
	make_chunk(world);
	make_stack(world);
	world->interner = interner_new();
	world->cache = python_code_cache_new(world->interner);
	python_stack_init(&world->stack);
}

static inline void release_world(struct world *world)
{
	python_stack_release(&world->stack);
	python_code_cache_free(world->cache);
	interner_free(world->interner);
}

static const struct python_native_frame slices[] = {
	/* Innermost first; activation 2, a C function, activations 1 and 0. */
	{.sp = STACK + 0x7300, .cfa = STACK + 0x7600},
	{.sp = STACK + 0x7600, .cfa = STACK + 0x7700},
	{.sp = STACK + 0x7700, .cfa = STACK + 0x7b00},
	{.sp = STACK + 0x7b00, .cfa = STACK + 0x7f00},
};

static inline bool read_stack(struct world *world, bool with_slices)
{
	memset(&world->error, 0, sizeof(world->error));
	return python_stack_read(&world->runtime, &world->reader, TSTATE,
				 with_slices ? slices : NULL, with_slices ? 4 : 0, world->cache,
				 &world->stack, &world->error);
}

/* "f5 f4 | f3 f2 | f1 f0" */
static inline void describe(const struct python_stack *stack, char *text, size_t size)
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

static inline void expect_stack(struct world *world, bool with_slices, const char *expected)
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

static inline void expect_failure(struct world *world, bool with_slices, enum error_kind kind)
{
	if (read_stack(world, with_slices))
		fail_msg("%u.%u: read", world->runtime.layout.major, world->runtime.layout.minor);
	if (world->error.kind != kind)
		fail_msg("%u.%u: %s", world->runtime.layout.major, world->runtime.layout.minor,
			 world->error.message);
	assert_int_equal(world->stack.count, 0);
}

static inline struct world *world_of_row(const struct python_layout *layout)
{
	static struct world world;
	/* All code is the interpreter's. */
	static struct module_segment code = {.flags = PF_X, .memory_size = UINT64_MAX};
	static struct module module = {.segments = &code, .segment_count = 1};
	make_world(&world, layout);
	world.runtime.module = &module;
	return &world;
}

static inline struct world *world_of(unsigned minor)
{
	return world_of_row(python_layout_find(3, minor, false));
}

#endif
