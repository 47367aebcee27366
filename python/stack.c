/* SPDX-License-Identifier: MIT */
/*
 * A thread state's Python stack: touched in the pause so that all of it is copied, read from
 * the copy afterwards. Both go through walk.c. python_stack_touch must not print, open
 * files, or allocate once every code object and the depth have been seen.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "python/internal.h"
#include "python/walk.h"

enum { GIL_SIZE = 256 }; /* of struct _gil_runtime_state with its condition variables and mutexes */

struct known_code {
	remote_addr address;
	uint64_t identity;
};

struct python_known_codes {
	struct table table;	    /* address -> check_of() the identity of what is there */
	struct known_code *pending; /* read in this walk; known when all of it has succeeded */
	size_t pending_count, pending_capacity;
	uint64_t added; /* since it was made */
	struct strbuf scratch;
	struct walk_room room;
};

static uint32_t check_of(uint64_t identity)
{
	return (uint32_t)(identity ^ identity >> 32);
}

struct python_known_codes *python_known_codes_new(void)
{
	struct python_known_codes *known = alloc_zeroed(1, sizeof(*known));
	table_init(&known->table);
	strbuf_init(&known->scratch);
	return known;
}

void python_known_codes_clear(struct python_known_codes *known)
{
	table_clear(&known->table);
}

uint64_t python_known_codes_added(const struct python_known_codes *known)
{
	return known->added;
}

void python_known_codes_drop(struct python_known_codes *known, uint64_t added_before)
{
	if (known->added != added_before)
		python_known_codes_clear(known);
}

void python_known_codes_free(struct python_known_codes *known)
{
	if (!known)
		return;
	table_release(&known->table);
	free(known->pending);
	strbuf_release(&known->scratch);
	walk_room_release(&known->room);
	free(known);
}

/* ---- the GIL and the collector ---- */

struct state_words {
	bool has_gil, holds_gil, gc_running;
	remote_addr gil;
};

/* The GIL's own struct: whether it is locked, and by whom. A free-threaded build has it, too, but
 * uses it only if it was told to, or since it imported a module that needs it. */
static void read_gil(const struct python_layout *layout, const struct memory_reader *memory,
		     remote_addr tstate, remote_addr gil, struct state_words *state)
{
	uint8_t bytes[MAX_TSTATE];
	if (!gil || !memory_read(memory, gil, bytes, layout->gil_locked + sizeof(uint32_t), NULL))
		return;
	state->gil = gil;
	state->has_gil =
		layout->gil_enabled == LAYOUT_ABSENT || field_u32(bytes, layout->gil_enabled) != 0;
	state->holds_gil = state->has_gil && field_u32(bytes, layout->gil_locked) == 1 &&
			   field_u64(bytes, layout->gil_last_holder) == tstate;
}

/* `thread` is the thread state's bytes. Not being able to tell is no reason to lose a stack. */
static void read_state(const struct python_runtime *runtime, const struct memory_reader *memory,
		       remote_addr tstate, const uint8_t *thread, struct state_words *state)
{
	const struct python_layout *layout = &runtime->layout;
	struct python_interpreter interpreter;
	remote_addr holder;
	uint32_t collecting;
	memset(state, 0, sizeof(*state));
	state->has_gil = !layout->free_threaded;
	if (!python_interpreter_read(runtime, memory, field_u64(thread, layout->tstate_interp),
				     &interpreter, NULL))
		return;
	switch (layout->gc_place) {
	case GC_BY_VARIABLE:
	case GC_IN_RUNTIME:
		state->gc_running =
			runtime->collecting &&
			memory_read_u32(memory, runtime->collecting, &collecting, NULL) &&
			collecting != 0;
		break;
	case GC_BY_INTERPRETER:
		state->gc_running = interpreter.collecting;
		break;
	}
	switch (layout->gil_place) {
	case GIL_BY_VARIABLE:
	case GIL_IN_RUNTIME:
		if (layout->runtime_gil != LAYOUT_ABSENT)
			state->gil = runtime->address + layout->runtime_gil;
		state->holds_gil = memory_read_u64(memory, runtime->current, &holder, NULL) &&
				   holder == tstate;
		break;
	case GIL_BY_INTERPRETER:
		read_gil(layout, memory, tstate, interpreter.gil, state);
		break;
	}
}

/* ---- touching ---- */

bool python_codes_read(const struct python_runtime *runtime, const struct memory_reader *memory,
		       struct python_known_codes *known, struct walk_room *room,
		       struct error *error)
{
	known->pending_count = 0;
	/* Only what python_stack_read will decode becomes known: not what a record that was
	 * dropped led to. */
	for (size_t i = 0; i < room->frame_count; i++)
		room->codes.items[room->frames[i].code].used = true;
	for (size_t i = 0; i < room->codes.count; i++) {
		const struct python_code_header *code = &room->codes.items[i];
		uint32_t check;
		if (!code->used || (table_find(&known->table, code->address, 0, &check) &&
				    check == check_of(code->identity)))
			continue;
		if (!python_code_touch(runtime, memory, code, &known->scratch, error))
			return false;
		known->pending = alloc_room(known->pending, &known->pending_capacity,
					    known->pending_count + 1, sizeof(*known->pending));
		known->pending[known->pending_count++] =
			(struct known_code){code->address, code->identity};
	}
	return true;
}

bool python_stack_finish(const struct python_runtime *runtime, const struct memory_reader *memory,
			 remote_addr tstate, struct python_known_codes *known,
			 const struct walk_room *room, struct error *error)
{
	struct state_words ignored;
	uint64_t stamp;
	for (size_t i = 0; i < known->pending_count; i++)
		table_put(&known->table, known->pending[i].address, 0,
			  check_of(known->pending[i].identity));
	known->added += known->pending_count;
	if (!python_threads_stamp(runtime, memory, &stamp, error))
		return false;
	read_state(runtime, memory, tstate, room->tstate, &ignored);
	return true;
}

bool python_stack_touch(const struct python_runtime *runtime, const struct memory_reader *memory,
			remote_addr tstate, const struct python_native *native,
			struct python_known_codes *known, struct error *error)
{
	static const struct python_native nothing;
	struct walk_room *room = &known->room;
	return walk_touch(runtime, memory, tstate, native ? native : &nothing, room, error) &&
	       python_codes_read(runtime, memory, known, room, error) &&
	       python_stack_finish(runtime, memory, tstate, known, room, error);
}

/* ---- reading ---- */

void python_stack_init(struct python_stack *stack)
{
	memset(stack, 0, sizeof(*stack));
}

void python_stack_release(struct python_stack *stack)
{
	free(stack->frames);
	free(stack->activations);
	python_stack_init(stack);
}

/* Strings come but once, in the copy that saw the code object first: they are kept even when the
 * stack itself turns out to be of no use. */
static void learn_codes(const struct python_runtime *runtime, const struct memory_reader *memory,
			struct walk_room *room, struct python_code_cache *codes)
{
	for (size_t i = 0; i < room->codes.count; i++) {
		struct python_code_header *header = &room->codes.items[i];
		if (!python_code_resolve(codes, runtime, memory, header, &header->code, NULL))
			header->code = NULL;
	}
}

void python_codes_learn(const struct python_runtime *runtime, const struct memory_reader *memory,
			remote_addr tstate, const struct python_native *native,
			struct python_code_cache *codes)
{
	struct walk_room *room = python_code_cache_room(codes);
	room->frame_cache = NULL;
	if (walk_touch(runtime, memory, tstate, native, room, NULL))
		learn_codes(runtime, memory, room, codes);
}

static bool resolve_frames(const struct python_runtime *runtime, const struct memory_reader *memory,
			   const struct walk_room *room, struct python_code_cache *codes,
			   struct python_stack *stack, struct error *error)
{
	const struct python_frame *outer;
	const size_t reused = frame_cache_frames(room, &outer, &stack->reused_from);
	const size_t fresh = room->frame_count - reused;
	stack->frames = alloc_room(stack->frames, &stack->frame_capacity, room->frame_count + 1,
				   sizeof(*stack->frames));
	if (reused)
		memcpy(stack->frames + fresh, outer, reused * sizeof(*outer));
	for (size_t i = 0; i < fresh; i++) {
		const struct walked_frame *raw = &room->frames[i];
		struct python_frame *frame = &stack->frames[i];
		frame->address = raw->address;
		frame->instruction = raw->instruction;
		const struct python_code_header *header = &room->codes.items[raw->code];
		frame->code = header->code;
		/* Once more, for the reason. */
		if (!frame->code &&
		    !python_code_resolve(codes, runtime, memory, header, &frame->code, error))
			return false;
		frame->line = python_code_line(codes, frame->code, runtime->layout.lines,
					       raw->instruction);
	}
	stack->count = room->frame_count;
	stack->reused = reused;
	return true;
}

/* Entry records that lie below the stack pointer belong to calls that have returned: the newest was
 * linked while what it holds was still left from before. */
static bool is_live(const struct walk_room *room, const struct python_native_frame *native_frames,
		    size_t native_frame_count)
{
	enum { NEAR = 16 << 10 }; /* farther away it is on another stack, a coroutine's say */
	if (native_frame_count == 0 || room->activation_count == 0)
		return true;
	remote_addr record = room->activations[0].record;
	return record == 0 || record >= native_frames[0].sp || native_frames[0].sp - record > NEAR;
}

/*
 * An entry record is a local of the eval function. One that lies in a native frame of other code
 * was left there: the thread is switching native stacks (greenlets copy them).
 */
static bool stands_in_eval(const struct python_runtime *runtime, const struct walk_room *room,
			   const struct python_native_frame *native_frames,
			   size_t native_frame_count)
{
	size_t at = 0;
	for (size_t i = 0; i < room->activation_count; i++) {
		if (!python_find_slice(native_frames, native_frame_count,
				       room->activations[i].record, &at))
			continue;
		/* One that runs nothing may be a greenlet's own. */
		if (room->activations[i].count > 0 && !native_frames[at].guessed &&
		    !python_runtime_owns(runtime, native_frames[at].pc))
			return false;
	}
	return true;
}

bool python_stack_read(const struct python_runtime *runtime, const struct memory_reader *memory,
		       remote_addr tstate, const struct python_native_frame *native_frames,
		       size_t native_frame_count, struct python_code_cache *codes,
		       struct python_stack *stack, struct error *error)
{
	const struct python_layout *layout = &runtime->layout;
	struct walk_room *room = python_code_cache_room(codes);
	struct state_words state;
	stack->count = stack->activation_count = stack->reused = 0;
	stack->reused_from = 0;
	stack->walk = ++room->walks;
	room->frame_cache = python_code_cache_frames(codes, tstate);
	memset(room->tstate, 0, sizeof(room->tstate));
	bool ok =
		walk_stack(runtime, memory, tstate, native_frames, native_frame_count, room, error);
	learn_codes(runtime, memory, room, codes);
	stack->thread_id = field_u64(room->tstate, layout->tstate_thread_id);
	stack->native_thread_id = field_optional(room->tstate, layout->tstate_native_thread_id);
	if (!ok)
		return false;
	if (!is_live(room, native_frames, native_frame_count))
		return error_set(error, ERROR_TORN, "newest entry record is below the stack");
	if (room->mixed || !stands_in_eval(runtime, room, native_frames, native_frame_count))
		return error_set(error, ERROR_TORN, "the native stack is another greenlet's");
	if (!resolve_frames(runtime, memory, room, codes, stack, error))
		return false;
	stack->activations = alloc_room(stack->activations, &stack->activation_capacity,
					room->activation_count, sizeof(*stack->activations));
	if (room->activation_count)
		memcpy(stack->activations, room->activations,
		       room->activation_count * sizeof(*stack->activations));
	stack->activation_count = room->activation_count;
	stack->of_objects = layout->chain == CHAIN_FRAMES;
	stack->cut = room->cut;
	stack->skipped_records = room->rebuild.skipped;
	stack->rebuilt_records = room->rebuild.rebuilt;
	read_state(runtime, memory, tstate, room->tstate, &state);
	stack->holds_gil = state.holds_gil;
	stack->gc_running = state.gc_running;
	stack->has_gil = state.has_gil;
	stack->gil = state.gil;
	stack->gil_size = state.gil ? GIL_SIZE : 0;
	if (room->frame_cache)
		frame_cache_keep(runtime, memory, tstate, room, stack);
	return true;
}

struct python_position python_frame_position(const struct python_runtime *runtime,
					     const struct python_frame *frame)
{
	const struct python_code *code = frame->code;
	return python_position_of(runtime->layout.lines, code->line_table, code->line_table_size,
				  code->first_line, frame->instruction);
}
