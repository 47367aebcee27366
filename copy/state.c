/* SPDX-License-Identifier: MIT */
/* One thread as it is copied: what is open for it, and whether it sleeps on. */
#include "copy/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void copy_state_init(struct copy_state *state, pid_t tid, pid_t namespace_tid,
		     struct target_thread_files *files)
{
	memset(state, 0, sizeof(*state));
	state->tid = tid;
	state->namespace_tid = namespace_tid;
	state->files = files;
	state->past = alloc_zeroed(1, sizeof(*state->past));
}

void copy_state_end(struct copy_state *state)
{
	target_thread_files_close(state->files);
	state->files = NULL;
	copy_methods_release(state);
}

void copy_state_release(struct copy_state *state)
{
	struct copy_past *past = state->past;
	copy_state_end(state);
	prediction_release(&past->prediction);
	free(past->noted);
	free(past->stopped_call);
	free(past);
}

bool copy_state_is_followed(const struct copy_state *state)
{
	return state->past->hold.trusted;
}

bool copy_state_sleeps_on(const struct copy_state *state)
{
	uint64_t runs;
	if (!state->blocked)
		return false;
	if (state->past->hold.trusted)
		return cpu_hold_position(&state->past->hold) == state->blocked_position;
	return target_thread_runs(state->files, &runs, NULL) && runs == state->blocked_runs;
}

void copy_state_note_blocked(struct copy_state *state)
{
	struct target_wait wait;
	state->blocked_position = cpu_hold_position(&state->past->hold);
	state->blocked = target_thread_runs(state->files, &state->blocked_runs, NULL) &&
			 target_thread_wait(state->files, &wait, NULL) && !wait.running;
}

bool copy_state_is_as_sampled(const struct copy_state *state)
{
	const struct stillness *sampled = &state->sampled;
	const struct cpu_hold *hold = &state->past->hold;
	uint64_t runs;
	switch (sampled->by) {
	case STILL_BY_LOG:
		return hold->trusted && cpu_hold_position(hold) == sampled->value;
	case STILL_BY_RUNS:
		return target_thread_runs(state->files, &runs, NULL) && runs == sampled->value;
	case STILL_UNKNOWN:
		break;
	}
	return false;
}

uint64_t copy_state_position(const struct copy_state *state)
{
	return cpu_hold_position(&state->past->hold);
}

size_t copy_state_switches(const struct copy_state *state, uint64_t position,
			   struct thread_change *changes, size_t capacity, bool *all)
{
	return switch_log_since(state->past->hold.log, position, changes, capacity, all);
}
