/* SPDX-License-Identifier: MIT */
/*
 * Which Python thread is this OS thread? Four kinds of evidence, best first: the kernel's thread
 * id that CPython 3.11+ stores; pthread_self() in fs_base; pthread_self() in RBX of the outermost
 * frames; the thread id inside glibc's struct pthread.
 */
#include "copy/internal.h"

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
	table_clear(&join->by_tid);
	table_clear(&join->by_thread_id);
	join->threads = NULL;
	join->count = join->roaming_count = 0;
	join->valid = false;
}

void join_release(struct join *join)
{
	forget(join);
	table_release(&join->by_tid);
	table_release(&join->by_thread_id);
}

static pid_t read_pthread_tid(const struct target *target, uint64_t thread_id)
{
	uint32_t tid;
	if (!memory_read_u32(target_memory(target), thread_id + PTHREAD_TID_OFFSET, &tid, NULL))
		return 0;
	return (pid_t)tid;
}

static bool layout_contains(const pid_t *pthread_tids, size_t count, uint64_t main_tid)
{
	for (size_t i = 0; i < count && main_tid; i++)
		if ((uint64_t)pthread_tids[i] == main_tid)
			return true;
	return false;
}

static bool is_listed(const struct target_thread *living, size_t count, pid_t namespace_tid)
{
	for (size_t i = 0; i < count; i++)
		if (living[i].namespace_tid == namespace_tid)
			return true;
	return false;
}

/* Some, and all of those that have one: who has ended has 0. */
static bool are_living(const struct target *target, const pid_t *tids, size_t count)
{
	enum { ENOUGH = 16 };
	struct target_thread *living;
	size_t living_count, found = 0;
	bool all = true;
	if (!target_threads(target, &living, &living_count, NULL))
		return false;
	for (size_t i = 0; i < count && all && found < ENOUGH; i++) {
		if (!tids[i])
			continue;
		all = is_listed(living, living_count, tids[i]);
		found++;
	}
	free(living);
	return all && found > 0;
}

/* Of two states with one kernel id, the one whose pthread_self() another thread has. */
static struct python_thread *other_of(const struct target *target, struct python_thread *one,
				      struct python_thread *two)
{
	const bool first = read_pthread_tid(target, one->thread_id) == (pid_t)one->native_thread_id;
	const bool second =
		read_pthread_tid(target, two->thread_id) == (pid_t)two->native_thread_id;
	if (first == second)
		return NULL;
	return first ? two : one;
}

/*
 * A state is made with the ids of the thread that makes it, and the one that starts with it writes
 * its own over them, pthread_self() first (CPython 3.11 Modules/_threadmodule.c, thread_run()).
 * Read between the two, it has one of each: its kernel id is not known yet.
 */
static void forget_makers_ids(struct join *join, const struct target *target)
{
	struct table seen = {0};
	for (size_t i = 0; i < join->count; i++) {
		struct python_thread *thread = &join->threads[i], *other;
		uint32_t index;
		if (!thread->native_thread_id)
			continue;
		if (!table_find(&seen, thread->native_thread_id, 0, &index)) {
			table_put(&seen, thread->native_thread_id, 0, (uint32_t)i);
			continue;
		}
		if (join->threads[index].thread_id != thread->thread_id &&
		    (other = other_of(target, &join->threads[index], thread)))
			other->native_thread_id = 0;
	}
	table_release(&seen);
}

static bool lacks_native_ids(const struct join *join)
{
	for (size_t i = 0; i < join->count; i++)
		if (!join->threads[i].native_thread_id)
			return true;
	return false;
}

/* True if the thread ids that CPython stores leave a thread out that struct pthread may know. */
static bool needs_pthread_tids(const struct join *join, uint64_t main_tid)
{
	bool main = false;
	if (join->method != JOIN_AUTO)
		return join->method == JOIN_PTHREAD_TID;
	for (size_t i = 0; i < join->count; i++)
		main |= join->threads[i].native_thread_id == main_tid;
	return !main || lacks_native_ids(join);
}

/*
 * The layout of struct pthread is private: believe it only if it gives the main thread's id, or
 * where that has ended, or runs no Python, those of other threads that live.
 */
static bool is_believed(const struct join *join, const struct target *target, const pid_t *tids,
			uint64_t main_tid)
{
	return layout_contains(tids, join->count, main_tid) ||
	       (lacks_native_ids(join) && are_living(target, tids, join->count));
}

/* struct pthread.tid of each thread; NULL: not needed, or not to be believed. */
static pid_t *read_pthread_tids(const struct join *join, const struct target *target,
				uint64_t main_tid)
{
	if (!needs_pthread_tids(join, main_tid))
		return NULL;
	pid_t *tids = alloc_zeroed(join->count, sizeof(*tids));
	for (size_t i = 0; i < join->count; i++)
		tids[i] = read_pthread_tid(target, join->threads[i].thread_id);
	if (is_believed(join, target, tids, main_tid))
		return tids;
	free(tids);
	return NULL;
}

/*
 * pthread_self() of the main thread, by either kind of evidence; 0: not known. A child that C code
 * has forked has one thread, with the parent's native_thread_id until Python learns of the fork
 * (PyOS_AfterFork_Child), if ever; fork(2) in the C library sets struct pthread.tid.
 */
static uint64_t find_main(const struct join *join, const pid_t *pthread_tids, uint64_t main_tid)
{
	for (size_t i = 0; i < join->count && main_tid; i++)
		if (join->threads[i].native_thread_id == main_tid ||
		    (pthread_tids && (uint64_t)pthread_tids[i] == main_tid))
			return join->threads[i].thread_id;
	return 0;
}

/* The ids of the main thread, as far as they are known. */
struct main_ids {
	uint64_t tid, thread_id;
};

/* The kernel's id of thread i, by what the method takes for evidence; 0: not known yet. */
static uint64_t tid_of(const struct join *join, size_t i, const pid_t *pthread_tids,
		       const struct main_ids *main)
{
	uint64_t native = join->threads[i].native_thread_id;
	uint64_t by_pthread = pthread_tids ? (uint64_t)pthread_tids[i] : 0;
	switch (join->method) {
	case JOIN_AUTO:
		/* pthread_self() of the main thread is its own as long as the process lives. */
		if (main->thread_id && join->threads[i].thread_id == main->thread_id)
			return main->tid;
		return native ? native : by_pthread;
	case JOIN_NATIVE_ID:
		return native;
	case JOIN_PTHREAD_TID:
		return by_pthread;
	case JOIN_FS_BASE: /* known when it is stopped */
	case JOIN_RBX:	   /* known when it is unwound */
		break;
	}
	return 0;
}

static void enter(struct table *table, uint64_t number, size_t index)
{
	uint32_t taken;
	for (uint64_t k = 0; number && k < RAW_MAX_TSTATES; k++) {
		if (table_find(table, number, k, &taken))
			continue;
		table_put(table, number, k, (uint32_t)index);
		return;
	}
}

/* The main interpreter is the oldest one, the last in the list. */
static void list_roaming(struct join *join)
{
	for (size_t i = 0; i < join->count && join->roaming_count < RAW_MAX_TSTATES; i++)
		if (join->threads[i].interpreter != join->threads[join->count - 1].interpreter)
			join->roaming[join->roaming_count++] = join->threads[i].tstate;
}

/* Threads that start and end change the lists while they are read. */
static bool read_lists(const struct python_runtime *runtime, const struct memory_reader *memory,
		       struct python_thread **threads, size_t *count, struct error *error)
{
	enum { TRIES = 8 };
	struct error torn;
	bool read = false;
	for (int i = 0; i < TRIES && !read; i++) {
		read = python_threads(runtime, memory, threads, count, &torn);
		if (!read && torn.kind != ERROR_TORN)
			break;
	}
	if (!read && error)
		*error = torn;
	return read;
}

bool join_refresh(struct join *join, const struct python_runtime *runtime,
		  const struct target *target, struct error *error)
{
	struct python_thread *threads;
	size_t count;
	uint64_t stamp;
	struct target_thread main_thread = {0};
	if (!python_threads_stamp(runtime, target_memory(target), &stamp, error) ||
	    !read_lists(runtime, target_memory(target), &threads, &count, error))
		return false;
	forget(join);
	join->threads = threads;
	join->count = count;
	join->stamp = stamp;
	join->valid = true;
	join->tids_known = true;
	list_roaming(join);
	forget_makers_ids(join, target);
	if (!target_thread_read(target, target_pid(target), &main_thread, NULL))
		main_thread.namespace_tid = 0;
	struct main_ids main = {.tid = (uint64_t)main_thread.namespace_tid};
	pid_t *pthread_tids = read_pthread_tids(join, target, main.tid);
	main.thread_id = find_main(join, pthread_tids, main.tid);
	for (size_t i = 0; i < count; i++) {
		const uint64_t tid = tid_of(join, i, pthread_tids, &main);
		join->tids_known &= tid != 0;
		enter(&join->by_tid, tid, i);
		enter(&join->by_thread_id, threads[i].thread_id, i);
	}
	free(pthread_tids);
	return true;
}

static uint32_t tstates_of(const struct join *join, const struct table *table, uint64_t number,
			   remote_addr tstates[RAW_MAX_TSTATES])
{
	uint32_t found = 0, index;
	while (number && found < RAW_MAX_TSTATES && table_find(table, number, found, &index))
		tstates[found++] = join->threads[index].tstate;
	return found;
}

void join_thread(const struct join *join, struct copy_state *state)
{
	remote_addr learned = atomic_load(&state->advice.learned);
	bool by_rbx = join->method == JOIN_RBX;
	const struct table *table = by_rbx ? &join->by_thread_id : &join->by_tid;
	uint64_t number = by_rbx ? learned : (uint64_t)state->namespace_tid;
	uint32_t index;
	state->tstate_count = tstates_of(join, table, number, state->tstates);
	state->thread_id = state->tstate_count && table_find(table, number, 0, &index)
				   ? join->threads[index].thread_id
				   : 0;
}

uint32_t join_by_thread_id(const struct join *join, uint64_t thread_id,
			   remote_addr tstates[RAW_MAX_TSTATES])
{
	return tstates_of(join, &join->by_thread_id, thread_id, tstates);
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

pid_t join_required_tid(const struct copy_state *state, const struct target *target)
{
	return state->tid == target_pid(target) ? 0 : state->namespace_tid;
}
