/* SPDX-License-Identifier: MIT */
/*
 * Which thread states of sub-interpreters a thread runs, by where their newest entry records are.
 * Up to CPython 3.12 such a state has the ids of the thread that made the interpreter, whoever runs
 * it: _xxsubinterpreters.create() in one thread, run_string() in another. An entry record is a
 * local of the eval function (3.10 to 3.12), and so lies on the stack of the thread that runs the
 * state. Runs in the pause: neither allocates nor prints.
 */
#include "copy/internal.h"

#include <string.h>

/* The lowest end of a stack above the address, of those of all threads that Python knows. */
static remote_addr next_top(const struct taker *taker, remote_addr address)
{
	const struct join *join = &taker->join;
	remote_addr next = taker->main_stack_end > address ? taker->main_stack_end : UINT64_MAX;
	for (size_t i = 0; i < join->count; i++)
		if (join->threads[i].thread_id > address && join->threads[i].thread_id < next)
			next = join->threads[i].thread_id;
	return next;
}

/* The end of the thread's own stack; 0: not known. pthread_create puts struct pthread there. */
static remote_addr top_of(const struct taker *taker, const struct raw_sample *raw)
{
	return raw->tid == target_pid(taker->target) ? taker->main_stack_end : raw->who.thread_id;
}

/* True when the address is on the thread's stack, which ends at `top`. */
static bool stands_on(const struct taker *taker, const struct raw_sample *raw, remote_addr top,
		      remote_addr address)
{
	const bool known = raw->registers.known >> REGISTER_RSP & 1;
	const remote_addr sp = raw->registers.value[REGISTER_RSP];
	/* It may be on another stack, a signal handler's say. */
	if (known && sp < top && top - sp <= RAW_MAX_STACK)
		return address >= sp && address < top;
	return address < top && next_top(taker, address) == top;
}

static bool holds(const remote_addr *states, uint32_t count, remote_addr state)
{
	for (uint32_t i = 0; i < count; i++)
		if (states[i] == state)
			return true;
	return false;
}

void claim_states(const struct taker *taker, struct raw_sample *raw)
{
	const struct join *join = &taker->join;
	const remote_addr top = top_of(taker, raw);
	remote_addr states[RAW_MAX_TSTATES];
	uint32_t count = 0;
	raw->who.claimed = 0;
	if (!join->roaming_count || !taker->runtime || !top)
		return;
	for (uint32_t i = 0; i < join->roaming_count; i++) {
		const remote_addr state = join->roaming[i];
		const bool own = holds(raw->who.tstates, raw->who.tstate_count, state);
		remote_addr entry = 0;
		const bool known = python_thread_entry(taker->runtime, &raw->reader, state, &entry);
		if (known && entry ? !stands_on(taker, raw, top, entry) : !own)
			continue;
		raw->who.claimed |= (uint64_t)!own << count;
		states[count++] = state;
	}
	for (uint32_t i = 0; i < raw->who.tstate_count && count < RAW_MAX_TSTATES; i++)
		if (!holds(join->roaming, join->roaming_count, raw->who.tstates[i]))
			states[count++] = raw->who.tstates[i];
	memcpy(raw->who.tstates, states, count * sizeof(*states));
	raw->who.tstate_count = count;
}
