/* SPDX-License-Identifier: MIT */
/*
 * The pause: stop a thread, copy what its stack is made of, let it run on. This is the one file
 * to review for what happens while a thread of the target stands still. Between tracer_stop and
 * tracer_resume nothing here may allocate, print, open a file or wait; what is read is bounded
 * by the raw sample's reserved memory. (A code object seen for the first time is remembered in
 * python/'s table, which may grow: after warm-up it does not.) The same holds between hold_begin
 * and hold_end. A held thread stands still until the taker sleeps: what that does besides in a tick
 * is to be short, but may allocate.
 */
#include "sample/internal.h"

#include <string.h>
#include <sys/syscall.h>

#include "base/alloc.h"
#include "base/table.h"

enum {
	PATIENCE_US = 20000,	     /* a thread that has not stopped by then is uninterruptible */
	REHEARSED_STACK = 256 << 10, /* bytes; more do not stay in a cache */
};

/* After that time without a copy of a thread the next one is rehearsed. */
static const uint64_t COLD_NS = 500000;

size_t take_stack_size(const struct taker *taker, const struct thread_slot *slot,
		       const struct registers *registers, bool *sure)
{
	remote_addr sp = registers->value[REGISTER_RSP];
	/* pthread_self(), which a blocked thread does not tell, is known from Python. */
	remote_addr top = registers->fs_base ? registers->fs_base : slot->thread_id;
	remote_addr ends[] = {atomic_load(&slot->stack_end),
			      slot->tid == target_pid(taker->target) ? taker->main_stack_end : 0};
	*sure = true;
	if (top > sp && top - sp <= RAW_MAX_GUESS)
		return top - sp;
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
		if (ends[i] > sp)
			return ends[i] - sp < RAW_MAX_STACK ? ends[i] - sp : RAW_MAX_STACK;
	*sure = false;
	return RAW_UNKNOWN_STACK;
}

/* One gathered read: a stack whose end is known and what the last sample of this thread needed. */
static void copy_predicted(const struct taker *taker, struct thread_slot *slot,
			   const struct target_range *stack, struct raw_sample *raw)
{
	size_t count = 0;
	const struct target_range *ranges = NULL;
	if (stack->size)
		ranges = prediction_with_stack(&slot->prediction, *stack, &count);
	if (!ranges) {
		ranges = slot->prediction.spans;
		count = slot->prediction.span_count;
	}
	raw_sample_prefetch(raw, taker->target, ranges, count);
}

/*
 * Copies what the pause will most likely copy, and forgets it: the target's memory is then in this
 * CPU's cache, and so is the kernel's way to it. Measured with 70 frames: 5 us of the pause at 1000
 * Hz for 15 us of our own time; at 10,000 Hz, where they are still there, 1 us for 12.
 */
static void rehearse(const struct taker *taker, struct thread_slot *slot, struct raw_sample *raw)
{
	if (slot->copied_stack.size == 0 || slot->copied_stack.size > REHEARSED_STACK ||
	    clock_now_ns() - slot->copied_ns < COLD_NS)
		return;
	copy_predicted(taker, slot, &slot->copied_stack, raw);
	raw_sample_reset(raw);
}

/*
 * The stack and the rest at once; but a read stops at the first hole, so a stack whose end is a
 * guess comes by itself, and last.
 */
static void copy_memory(const struct taker *taker, struct thread_slot *slot, struct raw_sample *raw)
{
	bool sure;
	size_t size = take_stack_size(taker, slot, &raw->registers, &sure);
	struct target_range stack = {raw->registers.value[REGISTER_RSP] - TAKE_RED_ZONE,
				     size + TAKE_RED_ZONE};
	slot->copied_stack = (struct target_range){stack.address, sure ? stack.size : 0};
	copy_predicted(taker, slot, &slot->copied_stack, raw);
	/* Its end was not known, or there is a hole before it (another stack than the thread's
	 * own). */
	if (!raw_sample_holds(raw, stack.address, 1))
		raw_sample_prefetch_some(raw, taker->target, &stack);
}

/*
 * Python may know a young thread by now. A thread enters its ids into its thread state before it
 * runs Python code in it, and takes the state off the list after the last of it: one that stands
 * still, and whose ids are in no state, runs none.
 */
static void look_for_young(const struct taker *taker, const struct thread_slot *slot,
			   struct raw_sample *raw)
{
	const uint64_t fs_base = raw->registers.fs_base;
	bool all;
	raw->tstate_count = python_threads_newest(taker->runtime, target_memory(taker->target),
						  fs_base, (uint64_t)slot->namespace_tid,
						  raw->tstates, RAW_MAX_TSTATES, &all);
	if (all && raw->stopped && fs_base)
		raw->unjoined = false;
}

/* Who this is in Python: known from before, or by fs_base now that it is stopped. */
static void identify(const struct taker *taker, const struct thread_slot *slot,
		     struct raw_sample *raw)
{
	enum join_method method = taker->join.method;
	raw->tstate_count = slot->tstate_count;
	memcpy(raw->tstates, slot->tstates, sizeof(raw->tstates));
	raw->namespace_tid = slot->namespace_tid;
	raw->thread_id = raw->registers.fs_base ? raw->registers.fs_base : slot->thread_id;
	raw->unjoined = raw->tstate_count == 0 && slot->unjoined_scans < YOUNG_SCANS;
	if (raw->tstate_count > 0 || (method != JOIN_AUTO && method != JOIN_FS_BASE))
		return;
	raw->tstate_count = join_by_thread_id(&taker->join, raw->registers.fs_base, raw->tstates);
	if (raw->tstate_count == 0 && raw->unjoined && taker->runtime && !raw->frozen)
		look_for_young(taker, slot, raw);
}

/* As far out as the interpreter looks for what its innermost frame holds. */
enum { INNERMOST_SIZE = 4 << 10 };

/* The native frame that the thread stopped in; false: its registers are not known. */
static bool describe_innermost(const struct raw_sample *raw, struct python_slice *slice)
{
	static const uint8_t saved[PYTHON_SAVED_COUNT] = {REGISTER_RBX, REGISTER_RBP, REGISTER_R12,
							  REGISTER_R13, REGISTER_R14, REGISTER_R15};
	const struct registers *registers = &raw->registers;
	*slice = (struct python_slice){.sp = registers->value[REGISTER_RSP],
				       .pc = registers->value[REGISTER_RIP]};
	slice->cfa = slice->sp + INNERMOST_SIZE;
	for (size_t i = 0; i < PYTHON_SAVED_COUNT; i++) {
		slice->saved[i] = registers->value[saved[i]];
		slice->saved_known |= (registers->known >> saved[i] & 1) << i;
	}
	return raw->stopped && slice->saved_known;
}

/* Copies what belongs to the Python stack, by reading all of it through the raw sample. */
static void copy_python(const struct taker *taker, struct raw_sample *raw)
{
	struct python_slice innermost;
	const struct python_native native = {
		.innermost = describe_innermost(raw, &innermost) ? &innermost : NULL,
		.end = raw_sample_end_of(raw, raw->registers.value[REGISTER_RSP]),
	};
	raw->runtime = taker->runtime;
	for (uint32_t i = 0; i < raw->tstate_count && taker->runtime; i++) {
		/* What could not be read is missing in the copy, too: the decoder says TORN. */
		struct error ignored;
		if (!python_stack_touch(taker->runtime, &raw->reader, raw->tstates[i], &native,
					taker->known, &ignored))
			continue;
	}
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

void take_note_wait(const struct taker *taker, struct thread_slot *slot,
		    const struct target_wait *wait)
{
	if (!taker->options->kernel)
		return;
	if (!slot->noted) {
		slot->noted = alloc_zeroed(1, sizeof(*slot->noted));
		slot->noted->wait.running = true;
	}
	struct noted_wait *noted = slot->noted;
	if (wait->running || resumes(wait, &noted->wait)) {
		noted->wait.running = wait->running;
		return;
	}
	noted->wait = *wait;
	target_thread_kernel(slot->files, wait, noted->kernel);
}

static void forget_wait(struct thread_slot *slot)
{
	if (slot->noted)
		slot->noted->wait.running = true;
}

/* Stopped or not, it is where it was when it was seen to be blocked. */
static void copy_noted(const struct thread_slot *slot, struct raw_sample *raw)
{
	const struct noted_wait *noted = slot->noted;
	if (noted && !noted->wait.running && noted->wait.sp == raw->registers.value[REGISTER_RSP] &&
	    noted->wait.pc == raw->registers.value[REGISTER_RIP])
		memcpy(raw->kernel, noted->kernel, sizeof(raw->kernel));
}

void take_rest(const struct taker *taker, struct thread_slot *slot, struct raw_sample *raw)
{
	raw->slot = slot;
	raw->tid = slot->tid;
	raw->live = taker->target;
	identify(taker, slot, raw);
	copy_python(taker, raw);
	copy_noted(slot, raw);
	raw->live = NULL;
}

static void copy_thread(const struct taker *taker, struct thread_slot *slot, struct raw_sample *raw)
{
	raw->live = taker->target;
	copy_memory(taker, slot, raw);
	take_rest(taker, slot, raw);
}

void take_stopped(struct taker *taker, struct thread_slot *slot, struct raw_sample *raw)
{
	raw->stopped = true;
	copy_thread(taker, slot, raw);
	if (taker->options->native && taker->options->unwinder == UNWINDER_PTRACE)
		raw->has_native = unwind_thread_ptrace(slot->tid, &raw->native, NULL);
}

/* A thread that did not stop in time and is not in uninterruptible sleep merely got no CPU. */
enum take_result take_failure(const struct thread_slot *slot, const struct error *error)
{
	if (error->kind != ERROR_BUSY)
		return TAKE_GONE;
	return target_thread_state(slot->files) == 'D' ? TAKE_UNINTERRUPTIBLE : TAKE_LATE;
}

void take_forget_codes(const struct taker *taker, uint64_t added_before)
{
	if (python_known_codes_added(taker->known) != added_before)
		python_known_codes_clear(taker->known);
}

/*
 * The thread is kept still by having lost its CPU, or by being blocked. False: it may have run
 * meanwhile. A thread in execve may have lost its memory already: then its stack is not where SP
 * says.
 */
static bool take_held(struct taker *taker, struct thread_slot *slot, struct raw_sample *raw)
{
	struct thread_switch last;
	if (!hold_begin(&taker->holder, &slot->hold, &last))
		return false;
	raw_sample_reset(raw);
	uint64_t allocations = alloc_count_here(), codes = python_known_codes_added(taker->known);
	const bool copied = take_copied(taker, slot, &last.registers, raw);
	raw->registers = last.registers;
	raw->time_ns = slot->copied_ns = clock_now_ns();
	raw->stopped = true;
	raw->live = taker->target;
	if (!copied)
		copy_memory(taker, slot, raw);
	take_rest(taker, slot, raw);
	raw->allocations = (uint32_t)(alloc_count_here() - allocations);
	if (raw_sample_holds(raw, raw->registers.value[REGISTER_RSP], 1) &&
	    hold_end(&taker->holder, &slot->hold, &last, &raw->pause_ns))
		return true;
	take_forget_codes(taker, codes);
	return false;
}

enum take_result take_running(struct taker *taker, struct thread_slot *slot, struct raw_sample *raw)
{
	if (taker->unstopped)
		return take_unstopped(taker, slot, raw);
	if (take_interrupted(taker, slot, raw) || take_held(taker, slot, raw))
		return TAKE_OK;
	raw_sample_reset(raw);
	rehearse(taker, slot, raw);
	struct error error;
	uint64_t allocations = alloc_count_here();
	uint64_t before = clock_now_ns();
	if (!tracer_stop(taker->tracer, slot->tid, PATIENCE_US, &raw->registers, &error)) {
		hold_release(&slot->hold); /* of one that has ended it tells nothing any more */
		return take_failure(slot, &error);
	}
	raw->time_ns = slot->copied_ns = clock_now_ns();
	take_stopped(taker, slot, raw);
	hold_check(&slot->hold, &raw->registers);
	/* Read before the resume: that may hand our CPU to the thread at once. */
	raw->pause_ns = clock_now_ns() - before;
	raw->allocations = (uint32_t)(alloc_count_here() - allocations);
	tracer_resume(taker->tracer, slot->tid);
	hold_learn(&taker->holder, &slot->hold, taker->target, slot->tid);
	return TAKE_OK;
}

/* ---- blocked threads ---- */

/*
 * A blocked thread tells its stack pointer and program counter, and the system call's arguments:
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

static bool is_still_in(const struct thread_slot *slot, const struct target_wait *wait)
{
	struct target_wait now;
	return target_thread_wait(slot->files, &now, NULL) && same_wait(&now, wait);
}

/* 0: not all of it has been copied. */
static uint64_t hash_stack(struct raw_sample *raw, size_t size)
{
	const uint8_t *bytes = memory_view(&raw->reader, raw->registers.value[REGISTER_RSP], size);
	return bytes ? hash_bytes(bytes, size) | 1 : 0;
}

void take_note_call(struct thread_slot *slot, const struct target_wait *wait,
		    struct raw_sample *raw)
{
	const remote_addr sp = raw->registers.value[REGISTER_RSP];
	const remote_addr end = raw_sample_end_of(raw, sp);
	if (!slot->stopped_call)
		slot->stopped_call = alloc_zeroed(1, sizeof(*slot->stopped_call));
	struct stopped_call *call = slot->stopped_call;
	call->wait.running = true;
	if (wait->running || wait->number < 0 || sp != wait->sp ||
	    raw->registers.value[REGISTER_RIP] != wait->pc || end <= sp)
		return;
	*call = (struct stopped_call){.wait = *wait, .registers = raw->registers, .size = end - sp};
	call->hash = hash_stack(raw, call->size);
	call->wait.running = call->hash == 0;
}

bool take_knows_call(const struct thread_slot *slot, const struct target_wait *wait)
{
	return slot->stopped_call && !slot->stopped_call->wait.running &&
	       same_wait(&slot->stopped_call->wait, wait);
}

/* The stack has been copied: the registers that are known, if it is the one that it was then. */
static bool recall_registers(const struct thread_slot *slot, struct raw_sample *raw)
{
	struct stopped_call *call = slot->stopped_call;
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
static bool copy_blocked(const struct taker *taker, struct thread_slot *slot,
			 const struct target_wait *wait, struct raw_sample *raw)
{
	uint64_t runs, now;
	raw_sample_reset(raw);
	raw->wait = *wait;
	raw->time_ns = clock_now_ns();
	fill_registers(wait, &raw->registers);
	slot->blocked_position = hold_position(&slot->hold);
	bool counted = target_thread_runs(slot->files, &runs, NULL);
	if (counted && !is_still_in(slot, wait))
		return false;
	copy_thread(taker, slot, raw);
	if (take_knows_call(slot, wait) && !recall_registers(slot, raw))
		return false;
	if (!counted)
		return is_still_in(slot, wait);
	slot->blocked = target_thread_runs(slot->files, &now, NULL) && now == runs;
	slot->blocked_runs = runs;
	return slot->blocked;
}

enum take_result take_blocked(struct taker *taker, struct thread_slot *slot,
			      const struct target_wait *wait, struct raw_sample *raw)
{
	/* The kernel may wake it, and let it sleep on: then it is not to be stopped. */
	enum { TRIES = 3 };
	const bool known = take_knows_call(slot, wait);
	for (int i = 0; i < TRIES; i++) {
		uint64_t codes = python_known_codes_added(taker->known);
		if (copy_blocked(taker, slot, wait, raw))
			return TAKE_OK;
		take_forget_codes(taker, codes);
		struct target_wait now;
		if (!target_thread_wait(slot->files, &now, NULL))
			return TAKE_GONE;
		if (!same_wait(&now, wait) || known != take_knows_call(slot, wait))
			break;
	}
	forget_wait(slot);
	return TAKE_MOVED;
}

void take_learn(struct thread_slot *slot, struct raw_sample *raw)
{
	remote_addr sp = raw->registers.value[REGISTER_RSP] - TAKE_RED_ZONE;
	/* What was copied as the stack, and not a byte more: the heap may begin right behind it. */
	remote_addr end = raw_sample_end_of(raw, sp);
	size_t stack = end ? end - sp : 0, kept = 0;
	slot->prediction.doubtful |= raw->holed;
	if (!prediction_is_due(&slot->prediction, raw->read_count, raw->late_reads))
		return;
	for (size_t i = 0; i < raw->read_count; i++)
		if (raw->reads[i].address - sp >= stack)
			raw->reads[kept++] = raw->reads[i];
	prediction_learn(&slot->prediction, raw->reads, kept);
}
