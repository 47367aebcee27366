/* SPDX-License-Identifier: MIT */
/*
 * Which Python thread is this OS thread? Four kinds of evidence, best first: the kernel's thread
 * id that CPython 3.11+ stores; pthread_self() in fs_base; pthread_self() in RBX of the outermost
 * frames; the thread id inside glibc's struct pthread.
 */
#include "sample/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum {
	/* glibc x86-64: struct pthread.tid (nptl/descr.h), verified before it is believed. */
	PTHREAD_TID_OFFSET = 0x2d0,
	/* glibc <= 2.33 keeps pthread_self() in RBX of the outermost frame, 2.36 one further in:
	 * there the outermost is clone3, whose RBX is start_thread's address. */
	RBX_FRAMES = 3,
};

void join_init(struct join *join, enum join_method method)
{
	memset(join, 0, sizeof(*join));
	join->method = method;
}

static void forget(struct join *join)
{
	free(join->threads);
	free(join->pthread_tids);
	join->threads = NULL;
	join->pthread_tids = NULL;
	join->count = 0;
	join->valid = false;
}

void join_release(struct join *join)
{
	forget(join);
}

static pid_t read_pthread_tid(const struct target *target, uint64_t thread_id)
{
	uint32_t tid;
	if (!memory_read_u32(target_memory(target), thread_id + PTHREAD_TID_OFFSET, &tid, NULL))
		return 0;
	return (pid_t)tid;
}

/* The layout of struct pthread is private: believe it only if it gives the main thread's id. */
static bool layout_holds(const struct join *join, const struct target *target)
{
	struct target_thread *threads;
	size_t count;
	if (!target_threads(target, &threads, &count, NULL))
		return false;
	pid_t main_tid = 0;
	for (size_t i = 0; i < count; i++)
		if (threads[i].tid == target_pid(target))
			main_tid = threads[i].namespace_tid;
	free(threads);
	for (size_t i = 0; i < join->count; i++)
		if (join->pthread_tids[i] == main_tid)
			return true;
	return false;
}

bool join_refresh(struct join *join, const struct python_runtime *runtime,
		  const struct target *target, struct error *error)
{
	struct python_thread *threads;
	size_t count;
	uint64_t stamp;
	if (!python_threads_stamp(runtime, target_memory(target), &stamp, error) ||
	    !python_threads(runtime, target_memory(target), &threads, &count, error))
		return false;
	forget(join);
	join->threads = threads;
	join->count = count;
	join->stamp = stamp;
	join->valid = true;
	join->pthread_tids = alloc_zeroed(count, sizeof(*join->pthread_tids));
	for (size_t i = 0; i < count; i++)
		join->pthread_tids[i] = read_pthread_tid(target, threads[i].thread_id);
	join->pthread_tid_trusted = layout_holds(join, target);
	return true;
}

static bool is_native_id(const struct join *join, size_t i, const struct thread_slot *slot)
{
	return join->threads[i].native_thread_id == (uint64_t)slot->namespace_tid;
}

static bool is_pthread_tid(const struct join *join, size_t i, const struct thread_slot *slot)
{
	return join->pthread_tid_trusted && join->pthread_tids[i] == slot->namespace_tid;
}

static bool belongs(const struct join *join, size_t i, const struct thread_slot *slot)
{
	switch (join->method) {
	case JOIN_AUTO:
		return join->threads[i].native_thread_id ? is_native_id(join, i, slot)
							 : is_pthread_tid(join, i, slot);
	case JOIN_NATIVE_ID:
		return is_native_id(join, i, slot);
	case JOIN_PTHREAD_TID:
		return is_pthread_tid(join, i, slot);
	case JOIN_FS_BASE: /* known when it is stopped */
	case JOIN_RBX:	   /* known when it is unwound */
		break;
	}
	return false;
}

static void add_tstate(struct thread_slot *slot, const struct python_thread *thread)
{
	slot->tstates[slot->tstate_count++] = thread->tstate;
	slot->thread_id = thread->thread_id;
}

void join_slot(const struct join *join, struct thread_slot *slot)
{
	slot->tstate_count = 0;
	slot->thread_id = 0;
	remote_addr learned = atomic_load(&slot->learned);
	for (size_t i = 0; i < join->count && slot->tstate_count < RAW_MAX_TSTATES; i++)
		if (belongs(join, i, slot) ||
		    (join->method == JOIN_RBX && learned && join->threads[i].thread_id == learned))
			add_tstate(slot, &join->threads[i]);
}

uint32_t join_by_thread_id(const struct join *join, uint64_t thread_id,
			   remote_addr tstates[RAW_MAX_TSTATES])
{
	uint32_t found = 0;
	for (size_t i = 0; i < join->count && found < RAW_MAX_TSTATES; i++)
		if (thread_id && join->threads[i].thread_id == thread_id)
			tstates[found++] = join->threads[i].tstate;
	return found;
}

uint64_t join_rbx(const struct join *join, const struct unwind_stack *native)
{
	if (native->end != UNWIND_END_OUTERMOST)
		return 0;
	for (size_t k = 1; k <= RBX_FRAMES && k <= native->count; k++) {
		const struct unwind_frame *frame = &native->frames[native->count - k];
		if (!(frame->saved_known & 1u << UNWIND_RBX))
			continue;
		remote_addr tstates[RAW_MAX_TSTATES];
		if (join_by_thread_id(join, frame->saved[UNWIND_RBX], tstates))
			return frame->saved[UNWIND_RBX];
	}
	return 0;
}
