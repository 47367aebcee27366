/* SPDX-License-Identifier: MIT */
/*
 * The pause: stop a thread, copy what its stack is made of, let it run on. This is the one file
 * to review for what happens while a thread of the target stands still. Between tracer_stop and
 * tracer_resume nothing here may allocate, print, open a file or wait; what is read is bounded
 * by the raw sample's reserved memory. (A code object seen for the first time is remembered in
 * python/'s table, which may grow: after warm-up it does not.) The same holds between
 * cpu_hold_begin and cpu_hold_end. A held thread stands still until the taker sleeps: what that
 * does besides in a tick is to be short, but may allocate.
 */
#include "copy/internal.h"

#include <string.h>
#include <sys/syscall.h>

#include "base/alloc.h"
#include "base/table.h"
#include "copy/innermost.h"
#include "target/tracer.h"

enum {
	PATIENCE_US = 20000, /* a thread that has not stopped by then is uninterruptible ... */
	ASLEEP_US = 2000,    /* ... if that is so a moment later, too ... */
	STARVED_TRIES = 10,  /* ... or has no CPU: then it has so many times as long */
	REHEARSED_STACK = 256 << 10, /* bytes; more do not stay in a cache */
};

/* After that time without a copy of a thread the next one is rehearsed. */
static const uint64_t COLD_NS = 500000;

/* One gathered read: a stack whose end is known and what the last sample of this thread needed. */
static void copy_predicted(const struct taker *taker, struct copy_state *state,
			   const struct target_range *stack, struct raw_sample *raw)
{
	size_t count = 0;
	const struct target_range *ranges = NULL;
	if (stack->size)
		ranges = prediction_with_stack(&state->past->prediction, *stack, &count);
	if (!ranges) {
		ranges = state->past->prediction.spans;
		count = state->past->prediction.span_count;
	}
	raw_sample_prefetch(raw, taker->target, ranges, count);
}

/*
 * Copies what the pause will most likely copy, and forgets it: the target's memory is then in this
 * CPU's cache, and so is the kernel's way to it. Measured with 70 frames: 5 us of the pause at 1000
 * Hz for 15 us of our own time; at 10,000 Hz, where they are still there, 1 us for 12.
 */
static void rehearse(const struct taker *taker, struct copy_state *state, struct raw_sample *raw)
{
	if (state->past->copied_stack.size == 0 ||
	    state->past->copied_stack.size > REHEARSED_STACK ||
	    clock_now_ns() - state->past->copied_ns < COLD_NS)
		return;
	copy_predicted(taker, state, &state->past->copied_stack, raw);
	raw_sample_reset(raw);
}

static void copy_interrupted(const struct taker *taker, const struct copy_state *state,
			     struct raw_sample *raw)
{
	struct registers registers = raw->registers;
	const remote_addr sp = signal_stack_left(raw, raw->registers.value[REGISTER_RSP],
						 take_stack_top(taker, state, &raw->registers));
	bool sure;
	if (!sp)
		return;
	registers.value[REGISTER_RSP] = sp;
	const struct target_range stack = {sp - TAKE_RED_ZONE,
					   take_stack_size(taker, state, &registers, &sure) +
						   TAKE_RED_ZONE};
	raw->interrupted_sp = sp;
	raw_sample_prefetch_some(raw, taker->target, &stack);
}

/*
 * Up to the first hole. That may be near (a stack made for a callback, just begun), and in a range
 * of less than RAW_LARGE bytes single words are not found: so it begins further down, if it can.
 */
static void copy_stack_alone(const struct taker *taker, const struct target_range *stack,
			     struct raw_sample *raw)
{
	const size_t more = RAW_LARGE - TAKE_RED_ZONE;
	const struct target_range wide = {stack->address - more, stack->size + more};
	raw_sample_prefetch_some(raw, taker->target, &wide);
	if (!raw_sample_contains(raw, stack->address, 1))
		raw_sample_prefetch_some(raw, taker->target, stack);
}

/*
 * The stack and the rest at once; but a read stops at the first hole, so a stack whose end is a
 * guess comes by itself, and last.
 */
static void copy_memory(const struct taker *taker, struct copy_state *state, struct raw_sample *raw)
{
	bool sure;
	size_t size = take_stack_size(taker, state, &raw->registers, &sure);
	struct target_range stack = {raw->registers.value[REGISTER_RSP] - TAKE_RED_ZONE,
				     size + TAKE_RED_ZONE};
	state->past->copied_stack = (struct target_range){stack.address, sure ? stack.size : 0};
	copy_predicted(taker, state, &state->past->copied_stack, raw);
	/* Its end was not known, or there is a hole before it (another stack than the thread's
	 * own). */
	if (!raw_sample_contains(raw, stack.address, 1))
		copy_stack_alone(taker, &stack, raw);
	copy_interrupted(taker, state, raw);
}

/*
 * Python may know a young thread by now. A thread enters its ids into its thread state before it
 * runs Python code in it, and takes the state off the list after the last of it: one that stands
 * still, and whose ids are in no state, runs none.
 */
static void look_for_young(const struct taker *taker, const struct copy_state *state,
			   struct raw_sample *raw)
{
	const uint64_t fs_base = raw->registers.fs_base;
	bool all;
	raw->who.tstate_count = python_threads_newest(taker->runtime, target_memory(taker->target),
						      fs_base, (uint64_t)state->namespace_tid,
						      raw->who.tstates, RAW_MAX_TSTATES, &all);
	if (all && raw->stopped && fs_base)
		raw->who.maybe_python = false;
}

/* Who this is in Python: known from before, or by fs_base now that it is stopped. */
static void identify(const struct taker *taker, const struct copy_state *state,
		     struct raw_sample *raw)
{
	enum join_method method = taker->join.method;
	raw->who.tstate_count = state->tstate_count;
	memcpy(raw->who.tstates, state->tstates, sizeof(raw->who.tstates));
	raw->who.namespace_tid = join_required_tid(state, taker->target);
	raw->who.thread_id = raw->registers.fs_base ? raw->registers.fs_base : state->thread_id;
	raw->who.maybe_python = raw->who.tstate_count == 0 && state->unjoined_scans < YOUNG_SCANS;
	if (raw->who.tstate_count > 0 || (method != JOIN_AUTO && method != JOIN_FS_BASE))
		return;
	raw->who.tstate_count =
		join_by_thread_id(&taker->join, raw->registers.fs_base, raw->who.tstates);
	if (raw->who.tstate_count == 0 && raw->who.maybe_python && taker->runtime &&
	    !raw->no_live_reads)
		look_for_young(taker, state, raw);
}

/* Copies what belongs to the Python stack, by reading all of it through the raw sample. */
static void copy_python(const struct taker *taker, struct raw_sample *raw)
{
	struct python_native_frame innermost;
	struct python_native native;
	raw_sample_native(raw, &innermost, &native);
	const uint64_t codes = python_known_codes_added(taker->known);
	raw->runtime = taker->runtime;
	for (uint32_t i = 0; i < raw->who.tstate_count && taker->runtime; i++) {
		/* What could not be read is missing in the copy, too: the decoder says TORN. */
		struct error ignored;
		if (!python_stack_touch(taker->runtime, &raw->reader, raw->who.tstates[i], &native,
					taker->known, &ignored))
			continue;
	}
	raw->store.brings_codes = python_known_codes_added(taker->known) != codes;
}

static bool same_place(const struct target_wait *a, const struct target_wait *b)
{
	return a->sp == b->sp && a->pc == b->pc &&
	       memcmp(a->arguments, b->arguments, sizeof(a->arguments)) == 0;
}

static bool same_wait(const struct target_wait *a, const struct target_wait *b)
{
	return a->running == b->running && a->number == b->number && same_place(a, b);
}

/*
 * Some calls that a stop has interrupted are resumed by another one, restart_syscall(2). What the
 * same place was seen to wait in before the stop says more.
 */
static bool resumes(const struct target_wait *wait, const struct target_wait *before)
{
	return wait->number == SYS_restart_syscall && same_place(wait, before);
}

void take_note_wait(const struct taker *taker, struct copy_state *state,
		    const struct target_wait *wait)
{
	if (!taker->options.kernel)
		return;
	if (!state->past->noted) {
		state->past->noted = alloc_zeroed(1, sizeof(*state->past->noted));
		state->past->noted->wait.running = true;
	}
	struct noted_wait *noted = state->past->noted;
	if (wait->running || resumes(wait, &noted->wait)) {
		noted->wait.running = wait->running;
		return;
	}
	noted->wait = *wait;
	target_thread_kernel(state->files, wait, noted->kernel);
}

static void forget_wait(struct copy_state *state)
{
	if (state->past->noted)
		state->past->noted->wait.running = true;
}

/* Stopped or not, it is where it was when it was seen to be blocked. */
static void copy_noted(const struct copy_state *state, struct raw_sample *raw)
{
	const struct noted_wait *noted = state->past->noted;
	if (noted && !noted->wait.running && noted->wait.sp == raw->registers.value[REGISTER_RSP] &&
	    noted->wait.pc == raw->registers.value[REGISTER_RIP])
		memcpy(raw->kernel, noted->kernel, sizeof(raw->kernel));
}

static void take_rest(const struct taker *taker, struct copy_state *state, struct raw_sample *raw)
{
	raw->tid = state->tid;
	raw->who.kernel_tid = state->namespace_tid;
	raw->live = taker->target;
	identify(taker, state, raw);
	claim_states(taker, raw);
	copy_python(taker, raw);
	copy_noted(state, raw);
	raw->live = NULL;
}

void take_still(const struct taker *taker, struct copy_state *state, struct raw_sample *raw)
{
	raw->live = taker->target;
	copy_memory(taker, state, raw);
	take_rest(taker, state, raw);
}

void take_stopped(struct taker *taker, struct copy_state *state, struct raw_sample *raw)
{
	raw->stopped = true;
	take_still(taker, state, raw);
	if (taker->unwinder)
		raw->has_native =
			unwind_thread(taker->unwinder, &(struct unwind_request){.tid = state->tid},
				      &raw->native, NULL);
}

/* A thread that did not stop in time and is not in uninterruptible sleep merely got no CPU. */
enum copy_result take_failure(const struct copy_state *state, const struct error *error)
{
	if (error->kind != ERROR_BUSY)
		return COPY_GONE;
	return target_thread_state(state->files) == 'D' ? COPY_UNINTERRUPTIBLE : COPY_LATE;
}

/*
 * The thread is kept still by having lost its CPU, or by being blocked. False: it may have run
 * meanwhile. A thread in execve may have lost its memory already: then its stack is not where SP
 * says.
 */
static bool take_held(struct taker *taker, struct copy_state *state, struct raw_sample *raw)
{
	struct thread_switch last;
	if (!cpu_hold_begin(&taker->means->holder, &state->past->hold, &last))
		return false;
	raw_sample_reset(raw);
	uint64_t allocations = alloc_count_here(), codes = python_known_codes_added(taker->known);
	const bool copied = bpf_copy_at_switch(taker, state, &last.registers, raw);
	raw->registers = last.registers;
	raw->time_ns = state->past->copied_ns = clock_now_ns();
	raw->stopped = true;
	raw->live = taker->target;
	if (!copied)
		copy_memory(taker, state, raw);
	take_rest(taker, state, raw);
	raw->allocations = (uint32_t)(alloc_count_here() - allocations);
	if (raw_sample_contains(raw, raw->registers.value[REGISTER_RSP], 1) &&
	    cpu_hold_end(&taker->means->holder, &state->past->hold, &last, &raw->pause_ns)) {
		state->sampled = (struct stillness){STILL_BY_LOG, last.position};
		return true;
	}
	python_known_codes_drop(taker->known, codes);
	return false;
}

static bool is_traced(const struct taker *taker)
{
	return taker->means->tracer != NULL;
}

static enum copy_result copy_by_cpu(struct taker *taker, struct copy_state *state,
				    struct raw_sample *raw)
{
	return take_held(taker, state, raw) ? COPY_OK : COPY_NEXT;
}

static void end_hold(struct copy_state *state)
{
	cpu_hold_release(&state->past->hold);
}

const struct copy_method copy_hold = {
	.name = "hold",
	.usable = is_traced,
	.copy = copy_by_cpu,
	.learn = bpf_copy_expect,
	.release = end_hold,
};

/* ---- in an interrupt of its CPU ---- */

static bool can_interrupt(const struct taker *taker)
{
	return taker->means->copier != NULL;
}

/* The thread runs on: a copy in which anything is missing is of no use. */
static enum copy_result copy_in_interrupt(struct taker *taker, struct copy_state *state,
					  struct raw_sample *raw)
{
	const uint64_t codes = python_known_codes_added(taker->known);
	if (!bpf_copy_interrupt(taker, state, raw))
		return COPY_NEXT;
	take_rest(taker, state, raw);
	const bool whole = raw->reads.late == 0;
	bpf_copy_judge(taker, state, whole);
	if (whole)
		return COPY_OK;
	python_known_codes_drop(taker->known, codes);
	return COPY_NEXT;
}

const struct copy_method copy_interrupt = {
	.name = "interrupt",
	.usable = can_interrupt,
	.copy = copy_in_interrupt,
};

/* ---- in a stop by ptrace ---- */

/* It is stopped, and has been sampled. `kept`: how often it has run can be read in the pause. */
static void note_still(struct copy_state *state, bool kept)
{
	struct stillness *sampled = &state->sampled;
	const struct cpu_hold *hold = &state->past->hold;
	if (hold->trusted)
		*sampled = (struct stillness){STILL_BY_LOG, cpu_hold_position(hold)};
	else if (kept && target_thread_runs(state->files, &sampled->value, NULL))
		sampled->by = STILL_BY_RUNS;
}

/*
 * A thread that gets no CPU does not get to its stop. It is waited for: ticks that pass meanwhile
 * are not lost, since it is then where it is now. One that has had its turn may be about to read a
 * page from a disk: it is asleep for long only if it still is a moment later.
 */
static bool stop(const struct taker *taker, const struct copy_state *state, struct raw_sample *raw,
		 struct error *error)
{
	bool asleep = false;
	for (unsigned tries = 0; tries < STARVED_TRIES; tries++) {
		if (tracer_stop(taker->means->tracer, state->tid, asleep ? ASLEEP_US : PATIENCE_US,
				&raw->registers, error))
			return true;
		if (error->kind != ERROR_BUSY)
			return false;
		const char now = target_thread_state(state->files);
		if (now != 'R' && (now != 'D' || asleep))
			return false;
		asleep = now == 'D';
	}
	return false;
}

static enum copy_result copy_in_stop(struct taker *taker, struct copy_state *state,
				     struct raw_sample *raw)
{
	raw_sample_reset(raw);
	rehearse(taker, state, raw);
	const bool kept = !state->past->hold.trusted && target_thread_keeps_runs(state->files);
	struct error error;
	uint64_t allocations = alloc_count_here();
	uint64_t before = clock_now_ns();
	if (!stop(taker, state, raw, &error)) {
		/* Of one that has ended it says nothing any more. */
		cpu_hold_release(&state->past->hold);
		return take_failure(state, &error);
	}
	raw->time_ns = state->past->copied_ns = clock_now_ns();
	state->asked_to_stop_ns = before;
	state->stopped_ns = raw->time_ns;
	take_stopped(taker, state, raw);
	cpu_hold_check(&state->past->hold, &raw->registers);
	note_still(state, kept);
	/* Read before the resume: that may hand our CPU to the thread at once. */
	raw->pause_ns = clock_now_ns() - before;
	raw->allocations = (uint32_t)(alloc_count_here() - allocations);
	tracer_resume(taker->means->tracer, state->tid);
	taker->means->stopped++;
	cpu_hold_learn(&taker->means->holder, &state->past->hold, taker->target, state->tid,
		       raw->time_ns - before);
	return COPY_OK;
}

const struct copy_method copy_stop = {
	.name = "stop",
	.usable = is_traced,
	.copy = copy_in_stop,
};

/* ---- blocked threads ---- */

/*
 * A blocked thread reports its stack pointer and program counter, and the system call's arguments:
 * the registers they were handed over in still hold them (glibc's vfork keeps its return address
 * in RDI).
 */
static void fill_registers(const struct target_wait *wait, struct registers *registers)
{
	static const uint8_t arguments[] = {REGISTER_RDI, REGISTER_RSI, REGISTER_RDX,
					    REGISTER_R10, REGISTER_R8,	REGISTER_R9};
	registers->value[REGISTER_RSP] = wait->sp;
	registers->value[REGISTER_RIP] = wait->pc;
	registers->known = 1u << REGISTER_RSP | 1u << REGISTER_RIP;
	for (size_t i = 0; i < sizeof(arguments) && wait->number >= 0; i++) {
		registers->value[arguments[i]] = wait->arguments[i];
		registers->known |= 1u << arguments[i];
	}
}

static bool is_still_in(const struct copy_state *state, const struct target_wait *wait)
{
	struct target_wait now;
	return target_thread_wait(state->files, &now, NULL) && same_wait(&now, wait);
}

/* 0: not all of it has been copied. */
static uint64_t hash_stack(struct raw_sample *raw, size_t size)
{
	const uint8_t *bytes = memory_view(&raw->reader, raw->registers.value[REGISTER_RSP], size);
	return bytes ? hash_bytes(bytes, size) | 1 : 0;
}

void take_note_call(struct copy_state *state, const struct target_wait *wait,
		    struct raw_sample *raw)
{
	const remote_addr sp = raw->registers.value[REGISTER_RSP];
	const remote_addr end = raw_sample_end_of(raw, sp);
	if (!state->past->stopped_call)
		state->past->stopped_call = alloc_zeroed(1, sizeof(*state->past->stopped_call));
	struct stopped_call *call = state->past->stopped_call;
	call->wait.running = true;
	if (wait->running || wait->number < 0 || sp != wait->sp ||
	    raw->registers.value[REGISTER_RIP] != wait->pc || end <= sp)
		return;
	*call = (struct stopped_call){.wait = *wait, .registers = raw->registers, .size = end - sp};
	call->hash = hash_stack(raw, call->size);
	call->wait.running = call->hash == 0;
}

bool take_knows_call(const struct copy_state *state, const struct target_wait *wait)
{
	return state->past->stopped_call && !state->past->stopped_call->wait.running &&
	       same_wait(&state->past->stopped_call->wait, wait);
}

/* The stack has been copied: the registers that are known, if it is the one that it was then. */
static bool reuse_registers(const struct copy_state *state, struct raw_sample *raw)
{
	struct stopped_call *call = state->past->stopped_call;
	if (hash_stack(raw, call->size) != call->hash) {
		call->wait.running = true;
		return false;
	}
	raw->registers = call->registers;
	return true;
}

/*
 * False: it moved while it was copied. The same call with the same stack pointer does not prove
 * that it did not: what sleeps again and again may have run in between. So it must have been
 * blocked after its turns on a CPU were counted, and have had none when the copy is made.
 */
static bool copy_blocked(const struct taker *taker, struct copy_state *state,
			 const struct target_wait *wait, struct raw_sample *raw)
{
	uint64_t runs, now;
	raw_sample_reset(raw);
	raw->wait = *wait;
	raw->time_ns = clock_now_ns();
	fill_registers(wait, &raw->registers);
	state->blocked_position = cpu_hold_position(&state->past->hold);
	bool counted = target_thread_runs(state->files, &runs, NULL);
	if (counted && !is_still_in(state, wait))
		return false;
	take_still(taker, state, raw);
	if (take_knows_call(state, wait) && !reuse_registers(state, raw))
		return false;
	if (!counted)
		return is_still_in(state, wait);
	state->blocked = target_thread_runs(state->files, &now, NULL) && now == runs;
	state->blocked_runs = runs;
	return state->blocked;
}

enum copy_result take_blocked(struct taker *taker, struct copy_state *state,
			      struct target_wait *wait, struct raw_sample *raw)
{
	/* It may wake, and sleep on, in this call or in the next one: it is not stopped for that.
	 */
	enum { TRIES = 8 };
	const bool known = take_knows_call(state, wait);
	for (int i = 0; i < TRIES; i++) {
		uint64_t codes = python_known_codes_added(taker->known);
		if (copy_blocked(taker, state, wait, raw)) {
			if (state->blocked && state->past->hold.trusted)
				state->sampled =
					(struct stillness){STILL_BY_LOG, state->blocked_position};
			return COPY_OK;
		}
		python_known_codes_drop(taker->known, codes);
		const struct target_wait before = *wait;
		if (!target_thread_wait(state->files, wait, NULL))
			return COPY_GONE;
		if (wait->running || known != take_knows_call(state, wait))
			break;
		if (!same_wait(wait, &before))
			take_note_wait(taker, state, wait);
	}
	forget_wait(state);
	return COPY_MOVED;
}
