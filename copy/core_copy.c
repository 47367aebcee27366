/* SPDX-License-Identifier: MIT */
/* A thread of a core file: it has all its registers, and stands still for ever. */
#include "copy/internal.h"
#include "target/core.h"

static bool is_core(const struct taker *taker)
{
	return target_is_core(taker->target);
}

static enum copy_result copy_from_core(struct taker *taker, struct copy_state *state,
				       struct raw_sample *raw)
{
	raw_sample_reset(raw);
	if (!target_core_registers(taker->target, state->tid, &raw->registers) ||
	    !target_thread_wait(state->files, &raw->wait, NULL))
		return COPY_GONE;
	raw->stopped = raw->wait.running;
	take_still(taker, state, raw);
	/* Nobody makes a thread state for it any more. */
	raw->who.maybe_python = false;
	return COPY_OK;
}

const struct copy_method copy_core = {
	.name = "core",
	.usable = is_core,
	.copy = copy_from_core,
};
