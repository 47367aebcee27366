/* SPDX-License-Identifier: MIT */
/*
 * The name of a thread that is new, read by the taker just before its sample, or else behind it:
 * when the worker comes to the sample, a thread that serves one request has ended. Not in the
 * pause, which it would double.
 */
#include "copy/internal.h"

#include <string.h>

enum { TRIES = 4 }; /* the threading module may change its dict of threads meanwhile */
static const uint64_t NAMELESS_MIN_NS = 1000000;   /* a name may come later: the first wait ... */
static const uint64_t NAMELESS_MAX_NS = 500000000; /* ... which doubles up to this one */

bool thread_name(const struct target *target, const struct python_runtime *runtime,
		 const struct python_thread *thread, pid_t tid, char name[PYTHON_NAME_SIZE])
{
	struct python_thread own = *thread;
	own.main = tid == target_pid(target);
	/* After a fork the main thread's Thread object has its parent's. */
	if (own.main)
		own.native_thread_id = 0;
	for (int i = 0; i < TRIES; i++)
		if (python_thread_name(runtime, target_memory(target), &own, name))
			return true;
	return false;
}

/*
 * The thread state is the thread's, and it is not over: the name of the thread of that id.
 * `claimed`: the state has the ids of another thread, which made it (claim.c).
 */
static bool read_name(const struct taker *taker, const struct copy_state *state, remote_addr tstate,
		      uint64_t thread_id, bool claimed, struct early_name *name)
{
	struct python_thread thread;
	struct target_wait ignored;
	const struct memory_reader *memory = target_memory(taker->target);
	if (!python_thread_read(taker->runtime, memory, tstate, &thread))
		return false;
	if (claimed && thread_id)
		thread.thread_id = thread_id;
	if (thread_id && thread.thread_id != thread_id)
		return false;
	thread.native_thread_id = (uint64_t)state->namespace_tid;
	name->thread_id = thread.thread_id;
	/* pthread_self() is the next thread's once this one has ended. */
	return thread_name(taker->target, taker->runtime, &thread, state->tid, name->text) &&
	       target_thread_wait(state->files, &ignored, NULL);
}

static bool is_wanted(const struct taker *taker, const struct copy_state *state, uint64_t now)
{
	return !state->named && taker->runtime && now >= state->name_due_ns && taker->options.names;
}

void take_name_early(struct taker *taker, const struct copy_state *state, uint64_t now)
{
	remote_addr tstates[RAW_MAX_TSTATES] = {state->tstates[0]};
	bool all;
	taker->early.thread_id = 0;
	if (!is_wanted(taker, state, now))
		return;
	if (state->tstate_count == 0 &&
	    !python_threads_newest(taker->runtime, target_memory(taker->target), 0,
				   (uint64_t)state->namespace_tid, tstates, RAW_MAX_TSTATES, &all))
		return;
	if (!read_name(taker, state, tstates[0], state->thread_id, false, &taker->early))
		taker->early.thread_id = 0;
}

void take_name(struct taker *taker, struct copy_state *state, struct raw_sample *raw)
{
	struct early_name *early = &taker->early;
	if (raw->who.tstate_count == 0 || !is_wanted(taker, state, raw->time_ns))
		return;
	state->named = early->thread_id && early->thread_id == raw->who.thread_id;
	/* The oldest interpreter first: it has most likely started the thread. */
	for (uint32_t i = raw->who.tstate_count; i > 0 && !state->named; i--)
		state->named = read_name(taker, state, raw->who.tstates[i - 1], raw->who.thread_id,
					 raw->who.claimed >> (i - 1) & 1, early);
	if (state->named)
		memcpy(raw->name, early->text, sizeof(raw->name));
	state->nameless_ns = state->nameless_ns ? 2 * state->nameless_ns : NAMELESS_MIN_NS;
	if (state->nameless_ns > NAMELESS_MAX_NS)
		state->nameless_ns = NAMELESS_MAX_NS;
	state->name_due_ns = raw->time_ns + state->nameless_ns;
}
