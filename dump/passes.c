/* SPDX-License-Identifier: MIT */
/*
 * One pass over the threads. A process of ours does the tracing (base/guard.h) and ends at once
 * when all is copied, so that the kernel lets go of the target; the copies are decoded afterwards.
 * All running threads are stopped before any is read: a deadlock must be seen as one moment.
 * Blocked threads are read as they are; those whose stack cannot be found from the stack and
 * program counters alone are stopped in a second pass. With --nonblocking none is stopped, and a
 * running one is read until its stack stands still.
 */
#include "dump/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "target/core.h"
#include "target/tracer.h"

enum {
	PATIENCE_US = 20000,
	PATIENCE_LATER_US = 200,
	SEIZE_TRIES = 3,
	LATE_TRIES = 8,
	RIVAL_REST_US = 3000, /* until a thread that another one traces is tried again */
	SETTLE_NS = 40000000, /* in one pass, until all who were stopped wait again */
	LARGE = 1 << 20,      /* bytes that are not copied once more */
	MOST_STUCK = 3,	      /* times that a page of the target is waited for in vain */
	MOST_LATE = 4,	      /* ... or comes when nobody stands still */
};
/* In one pass, for those that got no CPU in the one before: nobody stands still meanwhile. */
static const uint64_t ALONE_NS = 1000000000;
static const uint64_t STUCK_NS = 15000000; /* for so long, while its threads may stand still */

/* Two looks at a process at once: how long one waits for the other, which takes much less. */
static const uint64_t RIVAL_NS = 1500000000;

/* Also what is blocked: it was asked for. */
static bool must_stop_all(const struct dumper *dumper)
{
	const struct session_options *options = dumper->options;
	return options->unwinder == UNWINDER_PTRACE || options->join == JOIN_FS_BASE;
}

/* What is refused from now on is missing in its copy. */
static void begin_look(struct dumper *dumper, struct look *look)
{
	dumper->current = look;
	dumper->withheld = target_withheld_reads(dumper->process.target);
}

static void end_look(const struct dumper *dumper, struct look *look)
{
	look->withheld = target_withheld_reads(dumper->process.target) != dumper->withheld;
}

/* Of thousands of threads just what was copied; a deep stack as it is, in the scratch sample. */
static void keep(struct dumper *dumper, struct look *look, struct raw_sample **scratch)
{
	dumper->kept[dumper->kept_count++] = look;
	raw_sample_free(look->raw);
	if (raw_sample_footprint(*scratch) < LARGE) {
		look->raw = raw_sample_clone(*scratch);
	} else {
		look->raw = *scratch;
		*scratch = raw_sample_new();
	}
	look->result = COPY_OK;
	look->again = false;
	end_look(dumper, look);
}

/* So that a stack of any depth is copied whole at the first look. Nobody else uses the table while
 * a pass is under way. */
static void note_stack_end(struct dumper *dumper, struct watched_thread *watched, remote_addr sp)
{
	const struct mapping *mapping =
		module_table_find(decoder_modules(dumper->process.decoder), sp);
	if (mapping && !mapping->module && !atomic_load(&watched->copy.advice.stack_end) &&
	    strcmp(mapping->path, "[heap]") != 0)
		atomic_store(&watched->copy.advice.stack_end, mapping->end);
}

static void rest(void)
{
	struct timespec time = {.tv_nsec = 50000};
	nanosleep(&time, NULL);
}

/* What a thread does. One that was blocked until an earlier pass stopped it runs for a moment, or
 * waits for a CPU, on its way back into the same call. */
static bool read_wait(const struct dumper *dumper, const struct look *look,
		      struct target_wait *wait, struct error *error)
{
	const bool stopped = look->result == COPY_LATE || (look->raw && look->raw->stopped);
	const bool disturbed = stopped && !look->active;
	while (target_thread_wait(look->watched->copy.files, wait, error)) {
		if (!wait->running || !disturbed || clock_now_ns() >= dumper->settled_ns)
			return true;
		rest();
	}
	return false;
}

/*
 * It runs, or a signal has stopped it where it ran ('t' once we have seized it): a stop of ours
 * interrupts no call, and has all registers.
 */
static bool may_stop(const struct look *look, const struct target_wait *wait)
{
	if (wait->running || wait->number != -1)
		return wait->running;
	const char state = target_thread_state(look->watched->copy.files);
	return state == 'T' || state == 't';
}

/* The first thread of a process stays in its list once it has ended, without a stack. */
static bool has_ended(const struct look *look, const struct target_wait *wait)
{
	if (wait->running || wait->number != -1 || wait->sp)
		return false;
	return target_state_is_end(target_thread_state(look->watched->copy.files));
}

/* Reads a blocked thread without stopping it; false: it runs, or must be stopped. */
static bool read_blocked(struct dumper *dumper, struct look *look, struct raw_sample **scratch)
{
	struct target_wait wait;
	struct error error;
	begin_look(dumper, look);
	const bool read = read_wait(dumper, look, &wait, &error);
	if (!read || has_ended(look, &wait)) {
		look->result = read || error.kind == ERROR_GONE ? COPY_GONE : COPY_FAILED;
		look->again = false;
		return true;
	}
	look->active = wait.running;
	take_note_wait(&dumper->process.taker, &look->watched->copy, &wait);
	if (must_stop_all(dumper) || (!dumper->options->nonblocking && may_stop(look, &wait)) ||
	    wait.running)
		return false;
	note_stack_end(dumper, look->watched, wait.sp);
	look->result = take_blocked(&dumper->process.taker, &look->watched->copy, &wait, *scratch);
	if (look->result == COPY_MOVED && (wait.running || dumper->options->nonblocking))
		return false;
	if (look->result == COPY_OK)
		keep(dumper, look, scratch);
	look->again = false;
	return true;
}

static bool stop(struct dumper *dumper, struct look *look, unsigned patience_us,
		 struct registers *registers)
{
	struct tracer *tracer = dumper->means.tracer;
	struct error error;
	if (tracer_seize(tracer, look->watched->copy.tid, &error) &&
	    tracer_stop(tracer, look->watched->copy.tid, patience_us, registers, &error))
		return true;
	if (error.kind == ERROR_DENIED || error.kind == ERROR_SYSTEM) {
		dumper->error = error;
		dumper->failed = true;
	}
	look->again = false;
	look->result = take_failure(&look->watched->copy, &error);
	return false;
}

/* False: another one traces it. */
static bool seize(struct dumper *dumper, const struct look *look)
{
	const pid_t tid = look->watched->copy.tid;
	for (int i = 0; i < SEIZE_TRIES; i++) {
		struct error error;
		if (tracer_seize(dumper->means.tracer, tid, &error) || error.kind != ERROR_DENIED)
			return true; /* or gone, which the stop finds out */
		if (target_thread_tracer(dumper->process.target, tid))
			return false;
		/* It is not traced any more, or it is something else that denies it. */
	}
	return true;
}

/*
 * All are seized before any is stopped: who stopped some and then waited for a rival that holds the
 * others would keep the process from running, and might wait for ever.
 */
static bool seize_all(struct dumper *dumper)
{
	for (size_t i = 0; i < dumper->look_count; i++)
		if (dumper->looks[i].again && !seize(dumper, &dumper->looks[i]))
			return false;
	return true;
}

/* It ran, and may have gone to sleep since: a stop would interrupt its system call. */
static bool sleeps_by_now(const struct dumper *dumper, const struct look *look)
{
	struct target_wait now;
	return !must_stop_all(dumper) &&
	       target_thread_wait(look->watched->copy.files, &now, NULL) && !may_stop(look, &now);
}

static void read_stopped(struct dumper *dumper, struct look *look,
			 const struct registers *registers, struct raw_sample **scratch)
{
	begin_look(dumper, look);
	raw_sample_reset(*scratch);
	(*scratch)->registers = *registers;
	note_stack_end(dumper, look->watched, registers->value[REGISTER_RSP]);
	take_stopped(&dumper->process.taker, &look->watched->copy, *scratch);
	keep(dumper, look, scratch);
	look->stopped_now = false;
}

/* Until then for who waits for a CPU: what else does not stop will not. */
static unsigned patience_alone(const struct look *look, uint64_t end_ns)
{
	const uint64_t now = clock_now_ns();
	const uint64_t left_us = end_ns > now ? (end_ns - now) / 1000 : 0;
	if (left_us <= PATIENCE_LATER_US)
		return PATIENCE_LATER_US;
	if (left_us > PATIENCE_US && target_thread_state(look->watched->copy.files) != 'R')
		return PATIENCE_US;
	return (unsigned)left_us;
}

/* One that was on its way to sleep, or was late; should it be awake, it is stopped at once. */
static void read_late(struct dumper *dumper, struct look *look, unsigned patience_us,
		      struct raw_sample **scratch)
{
	struct registers registers;
	for (int i = 0; i < LATE_TRIES && !dumper->failed; i++) {
		if (read_blocked(dumper, look, scratch)) {
			if (look->result != COPY_MOVED)
				return;
		} else if (!sleeps_by_now(dumper, look)) {
			if (stop(dumper, look, patience_us, &registers))
				read_stopped(dumper, look, &registers, scratch);
			tracer_resume(dumper->means.tracer, look->watched->copy.tid);
			return;
		}
	}
	look->result = COPY_MOVED;
	look->again = false;
}

/* Stops all that run, then copies them, then lets all go on; and reads those that were on their way
 * to sleep. */
static void read_running(struct dumper *dumper, struct raw_sample **scratch)
{
	dumper->rivalled = !seize_all(dumper);
	if (dumper->rivalled && clock_now_ns() < dumper->rival_until_ns)
		return;
	struct registers *registers = alloc_zeroed(dumper->look_count + 1, sizeof(*registers));
	unsigned patience = PATIENCE_US;
	for (size_t i = 0; i < dumper->look_count && !dumper->failed; i++) {
		struct look *look = &dumper->looks[i];
		/* Who got no CPU gets more time in the next pass, when all others run on. */
		if (!look->again || look->result == COPY_LATE || sleeps_by_now(dumper, look))
			continue;
		look->stopped_now = stop(dumper, look, patience, &registers[i]);
		if (look->result == COPY_UNINTERRUPTIBLE)
			patience = PATIENCE_LATER_US; /* the whole patience is spent once */
	}
	for (size_t i = 0; i < dumper->look_count; i++)
		if (dumper->looks[i].stopped_now)
			read_stopped(dumper, &dumper->looks[i], &registers[i], scratch);
	tracer_resume_all(dumper->means.tracer);
	free(registers);
	const uint64_t end_ns = clock_now_ns() + ALONE_NS;
	for (size_t i = 0; i < dumper->look_count; i++)
		if (dumper->looks[i].again)
			read_late(dumper, &dumper->looks[i],
				  patience_alone(&dumper->looks[i], end_ns), scratch);
}

static void read_unstopped(struct dumper *dumper, struct raw_sample **scratch)
{
	for (size_t i = 0; i < dumper->look_count; i++) {
		struct look *look = &dumper->looks[i];
		if (!look->again)
			continue;
		look->again = false;
		begin_look(dumper, look);
		look->result = copy_running(&dumper->process.taker, &look->watched->copy, *scratch);
		end_look(dumper, look);
		if (look->result == COPY_OK)
			keep(dumper, look, scratch);
	}
}

static void take_pass(void *argument)
{
	struct dumper *dumper = argument;
	struct raw_sample *scratch = raw_sample_new();
	bool traced = !dumper->options->nonblocking;
	dumper->means.tracer = traced ? tracer_new(dumper->process.target) : NULL;
	for (size_t i = 0; i < dumper->look_count; i++)
		if (dumper->looks[i].again)
			dumper->looks[i].again = !read_blocked(dumper, &dumper->looks[i], &scratch);
	if (traced)
		read_running(dumper, &scratch);
	else
		read_unstopped(dumper, &scratch);
	dumper->current = NULL;
	tracer_free(dumper->means.tracer);
	raw_sample_free(scratch);
}

/*
 * A page did not come while a thread was read: that is read once more, without what is not there.
 * Should even that wait, it is left out. What the pass has left of its memory stays unused.
 */
static void note_stuck(struct dumper *dumper)
{
	const bool late = dumper->late < MOST_LATE && target_await_memory(dumper->process.target);
	dumper->means.tracer = NULL;
	if (dumper->current)
		dumper->current->again = late || dumper->stuck == 0;
	for (size_t i = 0; i < dumper->look_count; i++)
		dumper->looks[i].stopped_now = false;
	if (late) {
		dumper->late++;
		return;
	}
	target_distrust_memory(dumper->process.target);
	dumper->stuck++;
	for (size_t i = 0; i < dumper->look_count; i++) {
		dumper->looks[i].withheld |= dumper->looks[i].again;
		dumper->looks[i].again &= dumper->stuck < MOST_STUCK;
	}
	if (dumper->current)
		dumper->current->withheld = true;
}

/* The process that traces; again while another one does so. */
static int trace(struct dumper *dumper)
{
	/* Two that wait are not to meet again and again. */
	unsigned rest_us = RIVAL_REST_US + (unsigned)getpid() % RIVAL_REST_US;
	dumper->rival_until_ns = clock_now_ns() + RIVAL_NS;
	for (;;) {
		dumper->rivalled = false;
		switch (guard_run(&dumper->guard, STUCK_NS, take_pass, dumper)) {
		case GUARD_FAILED:
			return errno ? errno : EAGAIN;
		case GUARD_STUCK:
			note_stuck(dumper);
			if (dumper->stuck >= MOST_STUCK)
				return 0;
			continue;
		case GUARD_DONE:
			break;
		}
		if (!dumper->rivalled || clock_now_ns() >= dumper->rival_until_ns)
			return 0;
		usleep(rest_us);
		rest_us = rest_us * 5 / 4;
	}
}

/* Nothing moves in a core file: nothing is stopped, and one look at each thread does. */
static void read_core(struct dumper *dumper)
{
	struct raw_sample *scratch = raw_sample_new();
	struct taker *taker = &dumper->process.taker;
	for (size_t i = 0; i < dumper->look_count; i++) {
		struct look *look = &dumper->looks[i];
		struct copy_state *state = &look->watched->copy;
		struct registers registers;
		if (!look->again)
			continue;
		look->again = false;
		if (target_core_registers(taker->target, state->tid, &registers))
			note_stack_end(dumper, look->watched, registers.value[REGISTER_RSP]);
		look->result = copy_running(taker, state, scratch);
		if (look->result != COPY_OK)
			continue;
		look->active = scratch->wait.running;
		keep(dumper, look, &scratch);
	}
	raw_sample_free(scratch);
}

/* 0, or the errno of a process that cannot be made. */
static int take_all(struct dumper *dumper)
{
	if (!target_is_core(dumper->process.target))
		return trace(dumper);
	read_core(dumper);
	return 0;
}

bool dump_take_pass(struct dumper *dumper, unsigned pass, struct error *error)
{
	const struct python_runtime *runtime = decoder_runtime(dumper->process.decoder);
	struct error ignored;
	if (runtime &&
	    !join_refresh(&dumper->process.taker.join, runtime, dumper->process.target, &ignored))
		log_debug("join", "%s", ignored.message);
	threads_join(&dumper->process.threads, &dumper->process.taker.join);
	dumper->kept_count = 0;
	dumper->process.taker.pass = pass;
	dumper->settled_ns = clock_now_ns() + SETTLE_NS;
	/* Each pass copies all code objects: the one before may not have been decoded. */
	python_known_codes_free(dumper->process.taker.known);
	dumper->process.taker.known = python_known_codes_new();
	const int failure = take_all(dumper);
	if (failure)
		return error_set_errno(error, failure, "cannot start a process");
	log_debug("sample", "pass %u: %zu threads copied", pass, dumper->kept_count);
	if (dumper->failed && error)
		*error = dumper->error;
	return !dumper->failed;
}

/* Where it ends is known by now: that much of it is copied in the next pass. */
static bool needs_more_stack(const struct dumper *dumper, const struct look *look,
			     const struct decoded *facts)
{
	return facts->end == UNWIND_END_STACK_COPY && dumper->options->native &&
	       atomic_load(&look->watched->copy.advice.stack_end);
}

static void decode_look(struct dumper *dumper, struct look *look)
{
	struct watched_thread *watched = look->watched;
	struct decoded now;
	/* Whom Python did not know in so many looks, it does not know. */
	if (dumper->process.taker.pass == MAX_PASSES - 1)
		look->raw->who.maybe_python = false;
	merge_decode(dumper->process.decoder, look->raw, &now);
	watched_thread_learn(watched, dumper->options->join, &now);
	const bool torn = now.result == DECODE_TORN;
	bool rbx = dumper->options->join == JOIN_RBX &&
		   atomic_load(&watched->copy.advice.learned) && !now.known_to_python;
	look->again = (torn || rbx || needs_more_stack(dumper, look, &now)) && !look->withheld;
	/* What was seen earlier is shown, and reported. */
	if (!torn || !look->seen)
		look->facts = now;
	if (torn)
		return;
	look->stack_count = now.stack_count;
	look->stack = alloc_room(look->stack, &look->stack_capacity, look->stack_count + 1,
				 sizeof(*look->stack));
	memcpy(look->stack, now.stack, look->stack_count * sizeof(*look->stack));
	look->seen = true;
}

/* In the order of the copies: what is new of code objects stands in the first one that has it. */
bool dump_decode_pass(struct dumper *dumper)
{
	bool again = false;
	for (size_t i = 0; i < dumper->kept_count; i++)
		decode_look(dumper, dumper->kept[i]);
	for (size_t i = 0; i < dumper->look_count; i++) {
		struct look *look = &dumper->looks[i];
		/* It may be in time, or hold still, in the next one. */
		look->again |= look->result == COPY_LATE || look->result == COPY_MOVED ||
			       (look->result == COPY_TORN && look->raw);
		again |= look->again;
	}
	return again;
}
