/* SPDX-License-Identifier: MIT */
/*
 * The ways to copy a thread that runs, in the order in which they are tried: what disturbs the
 * thread least comes first. Each is in the file that its declaration names; a new one is one more
 * file and one more line here.
 */
#include "copy/internal.h"

static const struct copy_method *const methods[] = {
	&copy_core, &copy_unstopped, &copy_interrupt, &copy_hold, &copy_stop,
};

enum { METHODS = sizeof(methods) / sizeof(*methods) };

enum copy_result copy_running(struct taker *taker, struct copy_state *state, struct raw_sample *raw)
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
