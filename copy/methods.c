/* SPDX-License-Identifier: MIT */
/*
 * The ways to copy a thread that runs, in the order in which they are tried: what disturbs the
 * thread least comes first. Each is in the file that its declaration names; a new one is one more
 * file and one more line here.
 */
#include "copy/internal.h"

#include <time.h>

static const struct copy_method *const methods[] = {
	&copy_core, &copy_unstopped, &copy_interrupt, &copy_hold, &copy_stop,
};

enum { METHODS = sizeof(methods) / sizeof(*methods) };

/* Putting a stack back takes a microsecond or two. Where it is interrupted by losing its CPU, the
 * thread is in it for longer, and the sample is lost. Words: further out the eval function's frame
 * has what was left by switches before. */
enum { SWITCH_TRIES = 3, SWITCH_NS = 20000, SWITCH_WORDS = 12 };

/* In the code that replaces the stack, or in what it has called: what copies, what frees. */
static bool is_switching(const struct copy_state *state, const struct raw_sample *raw)
{
	remote_addr words[1 + SWITCH_WORDS] = {raw->registers.value[REGISTER_RIP]};
	bool read = false;
	for (size_t i = 0; i < COPY_SWITCHES; i++) {
		const remote_addr begin = atomic_load(&state->advice.switches[i].begin);
		const remote_addr size = atomic_load(&state->advice.switches[i].end) - begin;
		if (size == 0)
			continue;
		read = read || memory_read(&raw->reader, raw->registers.value[REGISTER_RSP],
					   words + 1, SWITCH_WORDS * sizeof(*words), NULL);
		for (size_t word = 0; word < (read ? 1 + SWITCH_WORDS : 1); word++)
			if (words[word] - begin < size)
				return true;
	}
	return false;
}

static enum copy_result copy_once(struct taker *taker, struct copy_state *state,
				  struct raw_sample *raw)
{
	for (size_t i = 0; i < METHODS; i++) {
		if (!methods[i]->usable(taker))
			continue;
		const enum copy_result result = methods[i]->copy(taker, state, raw);
		if (result != COPY_NEXT)
			return result;
	}
	return COPY_LATE;
}

enum copy_result copy_running(struct taker *taker, struct copy_state *state, struct raw_sample *raw)
{
	static const struct timespec rest = {.tv_nsec = SWITCH_NS};
	uint64_t pause_ns = 0;
	for (unsigned tries = 1;; tries++) {
		const uint64_t codes = python_known_codes_added(taker->known);
		const enum copy_result result = copy_once(taker, state, raw);
		raw->pause_ns += pause_ns;
		if (result != COPY_OK || tries == SWITCH_TRIES || !is_switching(state, raw))
			return result;
		pause_ns = raw->pause_ns;
		python_known_codes_drop(taker->known, codes);
		nanosleep(&rest, NULL);
	}
}

void copy_leave(struct taker *taker, struct copy_state *state)
{
	cpu_hold_leave(&taker->means->holder, &state->past->hold);
	bpf_copy_expect(taker, state);
}

bool copy_runs(const struct taker *taker, struct copy_state *state)
{
	return cpu_hold_runs(&taker->means->holder, &state->past->hold);
}

bool copy_waited(const struct taker *taker, const struct copy_state *state)
{
	return cpu_hold_waited(&taker->means->holder, &state->past->hold);
}

void copy_learn(struct taker *taker, struct copy_state *state, struct raw_sample *raw)
{
	prediction_learn_from(&state->past->prediction, raw);
	for (size_t i = 0; i < METHODS; i++)
		if (methods[i]->learn)
			methods[i]->learn(taker, state);
}

void copy_methods_release(struct copy_state *state)
{
	for (size_t i = 0; i < METHODS; i++)
		if (methods[i]->release)
			methods[i]->release(state);
}
