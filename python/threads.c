/* SPDX-License-Identifier: MIT */
/*
 * The runtime's list of interpreters and their lists of thread states, as they are at one
 * moment. The lists may change while they are read: whatever does not fit is TORN.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "python/internal.h"

/* What is looked at in the pause. */
enum { NEWEST_THREADS = 12, NEWEST_INTERPRETERS = 4 };

/* ---- lists ---- */

static bool endless(remote_addr address, const char *what, struct error *error)
{
	return error_set(error, ERROR_TORN, "the list of %s does not end: at %#llx", what,
			 (unsigned long long)address);
}

/* ---- one interpreter, in as few reads as its size allows ---- */

static const uint16_t *interpreter_fields(const struct python_layout *layout, uint16_t fields[4])
{
	fields[0] = layout->interp_next;
	fields[1] = layout->interp_threads_head;
	fields[2] = layout->interp_gc_collecting;
	fields[3] = layout->interp_gil;
	return fields;
}

void python_runtime_plan(struct python_runtime *runtime)
{
	enum { WORTH = 1024 };
	const struct python_layout *layout = &runtime->layout;
	uint16_t fields[4];
	runtime->window_count = 0;
	interpreter_fields(layout, fields);
	for (size_t done = 0; done < 4;) {
		/* The lowest field not yet in a window opens one, its neighbours join it. */
		uint16_t low = LAYOUT_ABSENT;
		const struct python_window *before =
			runtime->window_count ? &runtime->windows[runtime->window_count - 1] : NULL;
		uint32_t behind = before ? (uint32_t)before->offset + before->size : 0;
		for (size_t i = 0; i < 4; i++)
			if (fields[i] != LAYOUT_ABSENT && fields[i] >= behind && fields[i] < low)
				low = fields[i];
		if (low == LAYOUT_ABSENT)
			break;
		uint32_t end = low + 8u;
		for (size_t i = 0; i < 4; i++)
			if (fields[i] != LAYOUT_ABSENT && fields[i] + 8u > end &&
			    fields[i] + 8u - low <= WORTH)
				end = fields[i] + 8u;
		runtime->windows[runtime->window_count++] =
			(struct python_window){low, (uint16_t)(end - low)};
		done++;
	}
}

/* The word of a field that one of the windows holds; 0: the layout has no such field. */
static uint64_t word_of(const struct python_runtime *runtime, uint8_t bytes[WINDOWS][MAX_TSTATE],
			uint16_t offset)
{
	for (unsigned i = 0; offset != LAYOUT_ABSENT && i < runtime->window_count; i++) {
		const struct python_window *window = &runtime->windows[i];
		if (offset >= window->offset &&
		    offset + 8u <= (uint32_t)window->offset + window->size)
			return field_u64(bytes[i], (uint16_t)(offset - window->offset));
	}
	return 0;
}

bool python_interpreter_read(const struct python_runtime *runtime,
			     const struct memory_reader *memory, remote_addr address,
			     struct python_interpreter *interpreter, struct error *error)
{
	const struct python_layout *layout = &runtime->layout;
	uint8_t bytes[WINDOWS][MAX_TSTATE];
	if (address == 0 || address % 8 != 0)
		return error_set(error, ERROR_TORN, "no interpreter at %#llx",
				 (unsigned long long)address);
	for (unsigned i = 0; i < runtime->window_count; i++)
		if (!memory_read(memory, address + runtime->windows[i].offset, bytes[i],
				 runtime->windows[i].size, error))
			return false;
	interpreter->address = address;
	interpreter->next = word_of(runtime, bytes, layout->interp_next);
	interpreter->threads_head = word_of(runtime, bytes, layout->interp_threads_head);
	interpreter->gil = word_of(runtime, bytes, layout->interp_gil);
	interpreter->collecting = (uint32_t)word_of(runtime, bytes, layout->interp_gc_collecting);
	if (runtime->collecting) {
		/* One collector for all interpreters. */
		uint32_t collecting;
		if (!memory_read_u32(memory, runtime->collecting, &collecting, error))
			return false;
		interpreter->collecting = collecting != 0;
	}
	return true;
}

bool python_threads_stamp(const struct python_runtime *runtime, const struct memory_reader *memory,
			  uint64_t *stamp, struct error *error)
{
	remote_addr address;
	uint64_t mixed = 0;
	struct loop_guard guard = {0};
	if (!memory_read_u64(memory, runtime->head, &address, error))
		return false;
	while (address) {
		struct python_interpreter interpreter;
		if (loop_met(&guard, address, MAX_INTERPRETERS))
			return endless(address, "interpreters", error);
		if (!python_interpreter_read(runtime, memory, address, &interpreter, error))
			return false;
		mixed = hash_pair(hash_pair(mixed, address), interpreter.threads_head);
		address = interpreter.next;
	}
	*stamp = mixed;
	return true;
}

/* ---- thread states ---- */

struct thread_list {
	struct python_thread *threads;
	size_t count, capacity;
};

/* The list's other states beside one; previous, the newer one, is NOT_SAID in 2.7. */
struct links {
	remote_addr previous, next;
};
static const remote_addr NOT_SAID = UINT64_MAX;

static bool read_state(const struct python_layout *layout, const struct memory_reader *memory,
		       remote_addr address, struct python_thread *thread, struct links *links)
{
	uint8_t bytes[MAX_TSTATE];
	if (address == 0 || address % 8 != 0 ||
	    !memory_read(memory, address, bytes, layout->tstate_size, NULL))
		return false;
	*thread = (struct python_thread){
		.tstate = address,
		.interpreter = field_u64(bytes, layout->tstate_interp),
		.thread_id = field_u64(bytes, layout->tstate_thread_id),
		.native_thread_id = field_optional(bytes, layout->tstate_native_thread_id),
		.id = field_optional(bytes, layout->tstate_id),
	};
	links->next = field_u64(bytes, layout->tstate_next);
	/* CPython Include/cpython/pystate.h, struct _ts: `prev` is the word before, since 3.4. */
	links->previous = layout->tstate_next >= 8
				  ? field_u64(bytes, (uint16_t)(layout->tstate_next - 8))
				  : NOT_SAID;
	return true;
}

bool python_thread_read(const struct python_runtime *runtime, const struct memory_reader *memory,
			remote_addr tstate, struct python_thread *thread)
{
	struct links ignored;
	return read_state(&runtime->layout, memory, tstate, thread, &ignored);
}

/*
 * True for a state that the walk may have come to from `before` (0: from the head of the list). The
 * list changes while it is walked: one that was taken off it may be in use again already, for a
 * thread that is being started, and then leads past all the others.
 */
static bool is_behind(const struct python_runtime *runtime, const struct memory_reader *memory,
		      const struct python_thread *thread, const struct links *links,
		      remote_addr before)
{
	remote_addr head;
	if (before)
		return links->previous == NOT_SAID || links->previous == before;
	return links->next != 0 ||
	       (memory_read_u64(memory, thread->interpreter + runtime->layout.interp_threads_head,
				&head, NULL) &&
		head == thread->tstate);
}

static bool add_threads(const struct python_runtime *runtime, const struct memory_reader *memory,
			const struct python_interpreter *interpreter, struct thread_list *list,
			struct error *error)
{
	const struct python_layout *layout = &runtime->layout;
	struct loop_guard guard = {0};
	remote_addr before = 0;
	for (remote_addr address = interpreter->threads_head; address;) {
		struct python_thread thread;
		struct links links;
		if (loop_met(&guard, address, MAX_THREADS - list->count + guard.steps))
			return endless(address, "thread states", error);
		if (!read_state(layout, memory, address, &thread, &links) ||
		    thread.interpreter != interpreter->address ||
		    !is_behind(runtime, memory, &thread, &links, before))
			return error_set(error, ERROR_TORN, "no thread state at %#llx",
					 (unsigned long long)address);
		list->threads = alloc_room(list->threads, &list->capacity, list->count + 1,
					   sizeof(*list->threads));
		list->threads[list->count++] = thread;
		before = address;
		address = links.next;
	}
	return true;
}

bool python_threads(const struct python_runtime *runtime, const struct memory_reader *memory,
		    struct python_thread **threads, size_t *count, struct error *error)
{
	struct thread_list list = {NULL, 0, 0};
	struct loop_guard guard = {0};
	remote_addr address;
	bool ok = memory_read_u64(memory, runtime->head, &address, error);
	while (ok && address) {
		struct python_interpreter interpreter;
		if (loop_met(&guard, address, MAX_INTERPRETERS))
			ok = endless(address, "interpreters", error);
		else
			ok = python_interpreter_read(runtime, memory, address, &interpreter,
						     error) &&
			     add_threads(runtime, memory, &interpreter, &list, error);
		address = ok ? interpreter.next : 0;
	}
	if (!ok) {
		free(list.threads);
		return false;
	}
	*threads = list.threads;
	*count = list.count;
	return true;
}

bool python_thread_entry(const struct python_runtime *runtime, const struct memory_reader *memory,
			 remote_addr tstate, remote_addr *entry)
{
	const struct python_layout *layout = &runtime->layout;
	remote_addr newest;
	if (layout->tstate_cframe == LAYOUT_ABSENT ||
	    !memory_read_u64(memory, tstate + layout->tstate_cframe, &newest, NULL))
		return false;
	*entry = newest == tstate + layout->tstate_root_cframe ? 0 : newest;
	return true;
}

/* Of one interpreter; *all becomes false if not every one of its states was looked at. */
static uint32_t newest_of(const struct python_runtime *runtime, const struct memory_reader *memory,
			  const struct python_interpreter *interpreter, uint64_t thread_id,
			  uint64_t native_thread_id, remote_addr tstates[], uint32_t capacity,
			  bool *all)
{
	remote_addr address = interpreter->threads_head, before = 0;
	uint32_t found = 0;
	for (unsigned i = 0; i < NEWEST_THREADS && address && found < capacity; i++) {
		struct python_thread thread;
		struct links links;
		if (!read_state(&runtime->layout, memory, address, &thread, &links) ||
		    thread.interpreter != interpreter->address ||
		    !is_behind(runtime, memory, &thread, &links, before))
			break;
		if ((thread_id && thread.thread_id == thread_id) ||
		    (thread.native_thread_id && thread.native_thread_id == native_thread_id))
			tstates[found++] = address;
		before = address;
		address = links.next;
	}
	*all &= address == 0;
	return found;
}

uint32_t python_threads_newest(const struct python_runtime *runtime,
			       const struct memory_reader *memory, uint64_t thread_id,
			       uint64_t native_thread_id, remote_addr tstates[], uint32_t capacity,
			       bool *all)
{
	struct python_interpreter interpreter;
	remote_addr address;
	uint32_t found = 0;
	*all = false;
	if (!memory_read_u64(memory, runtime->head, &address, NULL))
		return 0;
	*all = true;
	for (unsigned i = 0; i < NEWEST_INTERPRETERS && address && found < capacity; i++) {
		if (!python_interpreter_read(runtime, memory, address, &interpreter, NULL))
			break;
		found += newest_of(runtime, memory, &interpreter, thread_id, native_thread_id,
				   tstates + found, capacity - found, all);
		address = interpreter.next;
	}
	*all &= address == 0;
	return found;
}
