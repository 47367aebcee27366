/* SPDX-License-Identifier: MIT */
/*
 * A sample of a thread that runs on while it is read (--nonblocking). Its frames are copied, which
 * takes tens of microseconds, then where the innermost ones change, twice in one call, then all of
 * it again. What stands still in all of these was the thread's stack at a moment; inner frames that
 * do not are left out (python/probe.c has the argument). When nothing does, it is done again, a few
 * times, and then the sample is torn.
 *
 *      ---[ all, as predicted; chase ]---[top][top]---[ all again ]--->  time
 *                  base                  first second     again
 */
#include "copy/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"

enum {
	STARTS = 200,	   /* reads of the innermost frame, until one finds it */
	ROUNDS = 5,	   /* copies of the top, before all is copied anew */
	MAX_STANDING = 16, /* frames that may be cut off the base when no round succeeds */
	MAX_TOP = 1 + PYTHON_RECENT, /* ranges */
	TOP_SIZE = 32 << 10,
	REPEATS = 3, /* of a look, when it missed something that had to be copied late */
};

struct unstopped {
	struct python_probe *base, *first, *second, *again;
	const struct python_probe *latest; /* which says where the top is, even if it failed */
	bool base_holds;		   /* its frames could be followed to the end */
	struct target_range top[2 * MAX_TOP];
	size_t top_count, top_size;
	uint8_t bytes[2 * TOP_SIZE];
	struct python_recent recent[RAW_MAX_TSTATES]; /* of a thread that has several */
};

/* Of one thread state at a time. */
struct attempt {
	struct unstopped *looks;
	const struct target *target;
	struct raw_sample *raw;
	size_t reads; /* of the thread states before */
	struct python_view view;
};

struct unstopped *unstopped_new(void)
{
	struct unstopped *looks = alloc_zeroed(1, sizeof(*looks));
	looks->base = python_probe_new();
	looks->first = python_probe_new();
	looks->second = python_probe_new();
	looks->again = python_probe_new();
	return looks;
}

void unstopped_free(struct unstopped *looks)
{
	if (!looks)
		return;
	python_probe_free(looks->base);
	python_probe_free(looks->first);
	python_probe_free(looks->second);
	python_probe_free(looks->again);
	free(looks);
}

/* ---- copies ---- */

static bool look(const struct attempt *attempt, struct python_probe *into)
{
	struct error error;
	if (python_probe_take(into, &attempt->view, &error))
		return true;
	log_debug("sample", "%s", error.message);
	return false;
}

/* Leaves out the ranges that cannot be read: what is beside a record may not be mapped. */
static void drop_unreadable(const struct attempt *attempt)
{
	struct unstopped *looks = attempt->looks;
	size_t kept = 0;
	for (size_t i = 0; i < looks->top_count; i++)
		if (looks->top[i].size <= TOP_SIZE &&
		    target_read_ranges(attempt->target, &looks->top[i], 1, looks->bytes) ==
			    (ssize_t)looks->top[i].size)
			looks->top[kept++] = looks->top[i];
	looks->top_count = kept;
}

/* One call, so that as little time as can be lies between the two copies. */
static bool read_twice(const struct attempt *attempt)
{
	struct unstopped *looks = attempt->looks;
	looks->top_size = 0;
	for (size_t i = 0; i < looks->top_count; i++)
		looks->top_size += looks->top[i].size;
	if (looks->top_count == 0 || looks->top_size > TOP_SIZE)
		return false;
	memcpy(&looks->top[looks->top_count], looks->top, looks->top_count * sizeof(*looks->top));
	return target_read_ranges(attempt->target, looks->top, 2 * looks->top_count,
				  looks->bytes) == (ssize_t)(2 * looks->top_size);
}

static bool copy_top(const struct attempt *attempt)
{
	struct unstopped *looks = attempt->looks;
	looks->top_count =
		python_probe_top(looks->latest, attempt->view.recent, looks->top, MAX_TOP);
	if (read_twice(attempt))
		return true;
	drop_unreadable(attempt);
	return read_twice(attempt);
}

/* Puts the first (0) or the second (1) copy of the top into the sample. */
static bool show_top(const struct attempt *attempt, unsigned which)
{
	const struct unstopped *looks = attempt->looks;
	const uint8_t *bytes = looks->bytes + which * looks->top_size;
	for (size_t i = 0; i < looks->top_count; bytes += looks->top[i++].size)
		if (!raw_sample_overwrite(attempt->raw, looks->top[i].address, bytes,
					  looks->top[i].size))
			return false;
	return true;
}

/*
 * A look at the sample with that copy of the top. What it needs and was not copied is read late,
 * and part of it may be the top's: so that is put over it once more.
 */
static bool look_at_top(const struct attempt *attempt, unsigned which, struct python_probe *into)
{
	for (unsigned i = 0; i < REPEATS; i++) {
		size_t ranges = attempt->raw->store.range_count;
		if (!show_top(attempt, which) || !look(attempt, into))
			return false;
		if (attempt->raw->store.range_count == ranges)
			return true;
	}
	return false;
}

static bool rests(const struct unstopped *looks, const struct python_probe *look)
{
	return python_probe_rests_on(look, looks->base, looks->top, looks->top_count);
}

/* ---- what stood still ---- */

enum outcome { CHANGED, WHOLE, SHORTENED };

static bool apply(const struct attempt *attempt, const struct python_cut *cut)
{
	for (size_t i = 0; i < cut->patch_count; i++)
		if (!raw_sample_overwrite(attempt->raw, cut->patches[i].address,
					  &cut->patches[i].value, sizeof(cut->patches[i].value)))
			return false;
	return true;
}

/* The sample as it is shows the thread's stack: all of that must be in the copy by now. */
static enum outcome keep(const struct attempt *attempt, enum outcome outcome)
{
	struct raw_sample *raw = attempt->raw;
	struct error error;
	size_t ranges = raw->store.range_count;
	raw->reads.count = attempt->reads; /* the next sample needs those of this look */
	if (!look(attempt, attempt->looks->again) || raw->store.range_count != ranges)
		return CHANGED;
	return python_probe_keep(attempt->looks->again, &attempt->view, &error) ? outcome : CHANGED;
}

static enum outcome rebase(struct unstopped *looks)
{
	struct python_probe *base = looks->base;
	looks->base = looks->first;
	looks->first = base;
	looks->latest = looks->base;
	looks->base_holds = true;
	return CHANGED;
}

/* Looks at the top twice, then at all again. */
static enum outcome look_around(const struct attempt *attempt)
{
	struct unstopped *looks = attempt->looks;
	struct python_cut cut, rest;
	looks->latest = looks->first;
	if (!look_at_top(attempt, 0, looks->first))
		return CHANGED;
	if (!looks->base_holds || !rests(looks, looks->first))
		return rebase(looks);
	if (!look_at_top(attempt, 1, looks->second) || !rests(looks, looks->second))
		return rebase(looks);
	enum python_agreement top = python_probes_agree(looks->first, looks->second, &cut);
	raw_sample_refresh(attempt->raw, attempt->target);
	if (top == PYTHON_LOOKS_DIFFER || !look_at_top(attempt, 1, looks->again))
		return rebase(looks);
	enum python_agreement all = python_probes_agree(looks->second, looks->again, &rest);
	if (all == PYTHON_LOOKS_DIFFER)
		return CHANGED;
	bool less = rest.kept < cut.kept;
	enum outcome outcome = (less ? all : top) == PYTHON_LOOKS_AGREE ? WHOLE : SHORTENED;
	return apply(attempt, less ? &rest : &cut) ? keep(attempt, outcome) : CHANGED;
}

/*
 * No look at the top came to anything. But those frames of the base that are as they were are the
 * thread's still, and the frame that called the first one that is not was the innermost meanwhile.
 */
static enum outcome keep_standing(const struct attempt *attempt)
{
	struct unstopped *looks = attempt->looks;
	size_t count = python_probe_frames(looks->base);
	struct python_cut cut;
	raw_sample_refresh(attempt->raw, attempt->target);
	for (size_t i = 0; i < count && i <= MAX_STANDING; i++) {
		python_probe_cut(looks->base, i, &cut);
		if (!apply(attempt, &cut) || !look(attempt, looks->again))
			continue;
		if (python_probes_agree(looks->base, looks->again, &cut) == PYTHON_LOOKS_AGREE &&
		    cut.patch_count == 0)
			return keep(attempt, SHORTENED);
	}
	return CHANGED;
}

/* Most calls of a busy program are over before a second read: the first one must find a frame. */
static void start(const struct attempt *attempt)
{
	struct target_range ranges[PYTHON_START_RANGES];
	uint8_t bytes[PYTHON_START_SIZE];
	for (unsigned i = 0; i < STARTS; i++) {
		if (!python_probe_start(&attempt->view, ranges))
			return;
		const size_t size = ranges[0].size + ranges[1].size + ranges[2].size;
		if (target_read_ranges(attempt->target, ranges, PYTHON_START_RANGES, bytes) !=
		    (ssize_t)size)
			return; /* the frame seen last is in memory that has been given back */
		if (!python_probe_started(&attempt->view, ranges, bytes))
			continue;
		if (!raw_sample_overwrite(attempt->raw, ranges[0].address, bytes, ranges[0].size) ||
		    !raw_sample_overwrite(attempt->raw, ranges[1].address, bytes + ranges[0].size,
					  ranges[1].size))
			log_debug("sample", "no room for the frame to begin with");
		return;
	}
}

static enum outcome settle(const struct attempt *attempt, uint64_t until_ns)
{
	struct unstopped *looks = attempt->looks;
	enum outcome outcome = CHANGED;
	start(attempt);
	looks->base_holds = look(attempt, looks->base);
	looks->latest = looks->base;
	for (unsigned i = 0; i < ROUNDS && outcome == CHANGED; i++) {
		if (clock_now_ns() > until_ns || !copy_top(attempt))
			break;
		outcome = look_around(attempt);
	}
	if (outcome == CHANGED && looks->base_holds)
		outcome = keep_standing(attempt);
	return outcome;
}

/* ---- the sample ---- */

static void begin(const struct taker *taker, struct copy_state *state, struct raw_sample *raw)
{
	raw_sample_reset(raw);
	raw->tid = state->tid;
	raw->who.kernel_tid = state->namespace_tid;
	raw->time_ns = clock_now_ns();
	raw->wait = (struct target_wait){.running = true, .number = -1};
	raw->runtime = taker->runtime;
	raw->who.tstate_count = state->tstate_count;
	memcpy(raw->who.tstates, state->tstates, sizeof(raw->who.tstates));
	raw->who.namespace_tid = join_required_tid(state, taker->target);
	raw->who.thread_id = state->thread_id;
	raw->live = taker->target;
	raw_sample_prefetch(raw, taker->target, state->past->prediction.spans,
			    state->past->prediction.span_count);
	claim_states(taker, raw);
}

/* What each thread state shows now, without regard to the copy. */
static void stamp_all(struct attempt attempt, uint64_t stamps[RAW_MAX_TSTATES])
{
	attempt.view.memory = target_memory(attempt.target);
	for (uint32_t i = 0; i < attempt.raw->who.tstate_count; i++) {
		attempt.view.tstate = attempt.raw->who.tstates[i];
		attempt.view.recent = &attempt.looks->recent[i];
		stamps[i] = look(&attempt, attempt.looks->again)
				    ? python_probe_stamp(attempt.looks->again)
				    : 0;
	}
}

/*
 * Several thread states of one OS thread (sub-interpreters): it runs one of them, and all others
 * must have stood still from before until after all were copied.
 */
static bool others_stood_still(const struct raw_sample *raw, const uint64_t before[RAW_MAX_TSTATES],
			       const uint64_t after[RAW_MAX_TSTATES])
{
	uint32_t changed = 0;
	for (uint32_t i = 0; i < raw->who.tstate_count; i++)
		changed += before[i] == 0 || before[i] != after[i];
	return changed <= 1;
}

static enum outcome settle_all(struct taker *taker, struct copy_state *state,
			       struct raw_sample *raw, uint64_t until_ns)
{
	struct attempt attempt = {
		taker->unstopped,
		taker->target,
		raw,
		0,
		{taker->runtime, &raw->reader, 0, taker->known, &state->past->recent}};
	uint64_t before[RAW_MAX_TSTATES], after[RAW_MAX_TSTATES];
	bool several = raw->who.tstate_count > 1;
	enum outcome outcome = WHOLE;
	if (several)
		stamp_all(attempt, before);
	for (uint32_t i = 0; i < raw->who.tstate_count && outcome == WHOLE; i++) {
		attempt.view.tstate = raw->who.tstates[i];
		attempt.reads = raw->reads.count;
		if (several)
			attempt.view.recent = &taker->unstopped->recent[i];
		outcome = settle(&attempt, until_ns);
	}
	if (!several)
		return outcome;
	stamp_all(attempt, after);
	if (outcome == WHOLE && others_stood_still(raw, before, after))
		return WHOLE;
	/* Some may have been kept: their code objects were copied for nothing. */
	python_known_codes_clear(taker->known);
	return CHANGED;
}

static bool can_look(const struct taker *taker)
{
	return taker->unstopped != NULL;
}

static enum copy_result copy_as_it_runs(struct taker *taker, struct copy_state *state,
					struct raw_sample *raw)
{
	const struct patience *patience = &taker->patience;
	uint64_t until_ns = clock_now_ns() + patience->ns;
	struct target_wait now;
	memset(taker->unstopped->recent, 0, sizeof(taker->unstopped->recent));
	for (unsigned i = 0; i < patience->tries; i++) {
		begin(taker, state, raw);
		enum outcome outcome = settle_all(taker, state, raw, until_ns);
		bool last = i >= patience->for_whole || clock_now_ns() > until_ns;
		raw->shortened = outcome == SHORTENED;
		raw->live = NULL;
		if (outcome == WHOLE || (outcome == SHORTENED && last))
			return COPY_OK;
		if (clock_now_ns() > until_ns)
			break;
		prediction_learn_from(&state->past->prediction, raw);
	}
	return target_thread_wait(state->files, &now, NULL) ? COPY_TORN : COPY_GONE;
}

const struct copy_method copy_unstopped = {
	.name = "unstopped",
	.usable = can_look,
	.copy = copy_as_it_runs,
};
