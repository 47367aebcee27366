/* SPDX-License-Identifier: MIT */
/*
 * A running thread that is copied in an interrupt of its CPU (target/interrupt.c): nobody stops it,
 * and nobody takes its CPU. What is to be copied has to be known before, from its last samples; a
 * copy in which anything is missing is dropped, and the thread stopped instead, which tells for the
 * next time. One that cannot be copied so again and again is held by its CPU.
 *
 * Measured beside holding it by its CPU (sample/hold.h; 70 frames, a virtual machine with 2 CPUs,
 * where an interrupt of another CPU takes 16 us to arrive): what a sample takes from the target is
 * 20 instead of 57 us at 100 Hz, 24 instead of 41 at 1000, 13 instead of 28 at 10,000. Of our own
 * CPU time it takes 15 us more, on another CPU. So it is done where samples are few, when that does
 * not matter, and where they are so many that the target is slowed down most.
 */
#include "sample/internal.h"

#include <sched.h>
#include <string.h>

#include "base/log.h"

static const double FEW = 500, MANY = 2000; /* samples a second; between them it is not done */
enum {
	MANY_MISSES = 8, /* in a row: then the thread is held for so many samples ... */
	HELD_SAMPLES = 1000,
};

static bool are_wanted(const struct session_options *options)
{
	if (options->stop == STOP_AUTO)
		return options->rate <= FEW || options->rate > MANY;
	return options->stop == STOP_INTERRUPT;
}

void interrupts_init(struct taker *taker)
{
	struct error error;
	if (!are_wanted(taker->options))
		return;
	if (!interrupter_new(&taker->interrupter, &error)) {
		taker->interrupter = NULL;
		log_debug("sample", "%s", error.message);
	}
}

static bool is_worth_it(struct thread_slot *slot)
{
	if (slot->copied_stack.size == 0 || slot->copied_stack.size > INTERRUPT_BYTES ||
	    !slot->prediction.with_stack || slot->prediction.span_count > INTERRUPT_RANGES)
		return false;
	if (slot->misses >= MANY_MISSES && ++slot->misses > MANY_MISSES + HELD_SAMPLES)
		slot->misses = 0;
	return slot->misses < MANY_MISSES;
}

/* Where it runs: on another CPU than this one. */
static bool find_cpu(const struct thread_slot *slot, int *cpu)
{
	struct thread_switch last;
	if (!slot->hold.trusted || !switch_log_last(slot->hold.log, &last) || !last.on_cpu)
		return false;
	*cpu = last.cpu;
	return last.cpu != sched_getcpu();
}

/* What was copied becomes the sample's, in the order of addresses. */
static bool add_spans(const struct taker *taker, struct thread_slot *slot, struct raw_sample *raw)
{
	const struct prediction *prediction = &slot->prediction;
	size_t count, from = 0;
	const struct target_range *ranges =
		prediction_with_stack(&slot->prediction, slot->copied_stack, &count);
	for (size_t i = 0; i < count; i++) {
		const bool stack = ranges[i].address == slot->copied_stack.address;
		while (!stack && prediction->spans[from].address != ranges[i].address)
			from++;
		uint8_t *to = raw_sample_add_span(raw, ranges[i].address, ranges[i].size);
		if (!to)
			return false;
		memcpy(to,
		       stack ? interrupter_stack(taker->interrupter)
			     : interrupter_range(taker->interrupter, from),
		       ranges[i].size);
	}
	return true;
}

/* False: something is missing in it. */
static bool understand(struct taker *taker, struct thread_slot *slot, struct raw_sample *raw,
		       remote_addr end)
{
	bool sure;
	interrupter_registers(taker->interrupter, &raw->registers);
	raw->registers.fs_base = slot->hold.fs_base;
	const remote_addr sp = raw->registers.value[REGISTER_RSP];
	/* Elsewhere than on the stack that it was on? */
	if (sp >= end || take_stack_size(taker, slot, &raw->registers, &sure) != end - sp || !sure)
		return false;
	slot->copied_stack = (struct target_range){sp - TAKE_RED_ZONE, end - sp + TAKE_RED_ZONE};
	raw->stopped = raw->frozen = true;
	if (!add_spans(taker, slot, raw))
		return false;
	take_rest(taker, slot, raw);
	return raw->late_reads == 0;
}

static bool copy(struct taker *taker, struct thread_slot *slot, int cpu, struct raw_sample *raw)
{
	const struct prediction *prediction = &slot->prediction;
	const struct interrupt_stack stack = {.end = slot->copied_stack.address +
						     slot->copied_stack.size,
					      .red_zone = TAKE_RED_ZONE};
	raw_sample_reset(raw);
	raw->time_ns = clock_now_ns();
	const enum interrupt_result result =
		interrupter_copy(taker->interrupter, slot->tid, cpu, &stack, prediction->spans,
				 prediction->span_count, &raw->pause_ns);
	slot->prediction.doubtful |= result == INTERRUPT_MISSING;
	return result == INTERRUPT_COPIED && understand(taker, slot, raw, stack.end);
}

bool take_interrupted(struct taker *taker, struct thread_slot *slot, struct raw_sample *raw)
{
	int cpu;
	if (!taker->interrupter)
		return false;
	slot->hold.interrupted = is_worth_it(slot);
	if (!slot->hold.interrupted || !find_cpu(slot, &cpu))
		return false;
	const uint64_t codes = python_known_codes_added(taker->known);
	if (!copy(taker, slot, cpu, raw)) {
		take_forget_codes(taker, codes);
		slot->misses++;
		taker->missed++;
		return false;
	}
	slot->misses = 0;
	slot->copied_ns = raw->time_ns;
	slot->hold.ours = false;
	taker->holder.running++;
	taker->interrupted++;
	return true;
}
