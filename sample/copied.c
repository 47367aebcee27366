/* SPDX-License-Identifier: MIT */
/*
 * A running thread that the kernel copies for us (target/copier.c): in an interrupt of its CPU, so
 * that nobody stops it and nobody takes its CPU; or, where the taker wakes on its CPU
 * (sample/hold.h), as it gives way to it. What is to be copied has to be known before, from its
 * last samples. After an interrupt, when the thread runs on, a copy in which anything is missing is
 * dropped, and the thread stopped instead, which tells for the next time; one that cannot be copied
 * so again and again is held by its CPU. A held one stands still, and what is missing is read.
 *
 * Measured beside holding it by its CPU (70 frames, a virtual machine with 2 CPUs, where an
 * interrupt of another CPU takes 16 us to arrive): what a sample takes from the target is 20
 * instead of 57 us at 100 Hz, 24 instead of 41 at 1000, 13 instead of 28 at 10,000. Of our own CPU
 * time it takes 15 us more, on another CPU. So it is done where samples are few, when that does not
 * matter, and where they are so many that the target is slowed down most. Between them a copy at
 * the switch saves 4 us of our CPU time beside one by process_vm_readv. Of the 7.2 us that a thread
 * of 70 frames feels of an interrupt 5.5 are those of one that does nothing, 0.4 the stack's, 0.5
 * the data stack's and the interpreter's, and each small range beside these takes 0.08.
 */
#include "sample/internal.h"

#include <sched.h>
#include <string.h>

#include "base/log.h"

static const double FEW = 500, MANY = 2000; /* samples a second; between them it is not done */
enum {
	MANY_MISSES = 8, /* in a row: then the thread is held, or what is held read, ... */
	LEAST_REST = 8,	 /* ... for so many samples, ... */
	MOST_REST = 1024,
	REST_GROWTH = 4, /* ... and for that many times more when it was no better afterwards */
};

static bool are_wanted(const struct session_options *options)
{
	if (options->stop == STOP_AUTO)
		return options->rate <= FEW || options->rate > MANY;
	return options->stop == STOP_INTERRUPT;
}

void copies_init(struct taker *taker)
{
	struct error error;
	const bool interrupts = are_wanted(taker->options);
	struct copier **copier = interrupts ? &taker->copier : &taker->holder.copier;
	if (copier_new(interrupts ? COPIER_IN_INTERRUPT : COPIER_AT_SWITCH, copier, &error))
		return;
	*copier = NULL;
	log_debug("sample", "%s", error.message);
}

static bool may_fit(const struct thread_slot *slot)
{
	return slot->copied_stack.size > 0 && slot->copied_stack.size <= COPIER_BYTES &&
	       slot->prediction.with_stack && slot->prediction.span_count <= COPIER_RANGES;
}

static struct copier_request request_for(const struct thread_slot *slot)
{
	return (struct copier_request){
		.tid = slot->tid,
		.stack_end = slot->copied_stack.address + slot->copied_stack.size,
		.red_zone = TAKE_RED_ZONE,
		.ranges = slot->prediction.spans,
		.range_count = slot->prediction.span_count,
	};
}

static bool is_worth_it(struct thread_slot *slot)
{
	struct copy_luck *luck = &slot->luck;
	if (!may_fit(slot))
		return false;
	if (luck->left == 0)
		return true;
	luck->left--;
	return false;
}

static void note_hit(struct copy_luck *luck)
{
	luck->misses = 0;
	luck->rest /= 2;
}

static void note_miss(struct copy_luck *luck)
{
	if (++luck->misses < MANY_MISSES)
		return;
	luck->misses = 0;
	luck->rest *= REST_GROWTH;
	if (luck->rest < LEAST_REST)
		luck->rest = LEAST_REST;
	if (luck->rest > MOST_REST)
		luck->rest = MOST_REST;
	luck->left = luck->rest;
}

static bool add_span(struct raw_sample *raw, const struct copier_span *span)
{
	uint8_t *to = raw_sample_add_span(raw, span->range.address, span->range.size);
	if (to)
		memcpy(to, span->bytes, span->range.size);
	return to;
}

/* What was copied becomes the sample's, in the order of addresses. */
static bool add_spans(const struct copier *copier, struct raw_sample *raw)
{
	const struct copier_span stack = copier_stack(copier);
	const remote_addr end = stack.range.address + stack.range.size;
	const size_t count = copier_range_count(copier);
	bool stands = false;
	for (size_t i = 0; i < count; i++) {
		const struct copier_span span = copier_range(copier, i);
		const bool before = span.range.address + span.range.size <= stack.range.address;
		if (!before && !stands && !(stands = add_span(raw, &stack)))
			return false;
		/* An overlapping one is a record on the stack. */
		if ((before || span.range.address >= end) && !add_span(raw, &span))
			return false;
	}
	return stands || add_span(raw, &stack);
}

/* False: the thread is on another stack than it was, or there is no room. */
static bool add_copy(const struct taker *taker, const struct copier *copier,
		     struct thread_slot *slot, const struct registers *registers,
		     struct raw_sample *raw)
{
	bool sure;
	const struct target_range stack = copier_stack(copier).range;
	if (take_stack_size(taker, slot, registers, &sure) + TAKE_RED_ZONE != stack.size || !sure)
		return false;
	slot->copied_stack = stack;
	return add_spans(copier, raw);
}

/* ---- in an interrupt ---- */

/* Where it runs: on another CPU than this one. */
static bool find_cpu(const struct thread_slot *slot, int *cpu)
{
	struct thread_switch last;
	if (!slot->hold.trusted || !switch_log_last(slot->hold.log, &last) || !last.on_cpu)
		return false;
	*cpu = last.cpu;
	return last.cpu != sched_getcpu();
}

/* False: something is missing in it. */
static bool understand(struct taker *taker, struct thread_slot *slot, struct raw_sample *raw)
{
	copier_registers(taker->copier, &raw->registers);
	raw->registers.fs_base = slot->hold.fs_base;
	raw->stopped = raw->frozen = true;
	if (!add_copy(taker, taker->copier, slot, &raw->registers, raw))
		return false;
	take_rest(taker, slot, raw);
	return raw->late_reads == 0;
}

static bool copy(struct taker *taker, struct thread_slot *slot, int cpu, struct raw_sample *raw)
{
	const struct copier_request request = request_for(slot);
	raw_sample_reset(raw);
	raw->time_ns = clock_now_ns();
	const enum copier_result result =
		copier_interrupt(taker->copier, &request, cpu, &raw->pause_ns);
	slot->prediction.doubtful |= result == COPIER_MISSING;
	return result == COPIER_COPIED && understand(taker, slot, raw);
}

bool take_interrupted(struct taker *taker, struct thread_slot *slot, struct raw_sample *raw)
{
	int cpu;
	if (!taker->copier)
		return false;
	slot->hold.interrupted = is_worth_it(slot);
	if (!slot->hold.interrupted || !find_cpu(slot, &cpu))
		return false;
	const uint64_t codes = python_known_codes_added(taker->known);
	if (!copy(taker, slot, cpu, raw)) {
		take_forget_codes(taker, codes);
		note_miss(&slot->luck);
		taker->missed++;
		return false;
	}
	note_hit(&slot->luck);
	slot->copied_ns = raw->time_ns;
	slot->hold.ours = false;
	taker->holder.running++;
	taker->interrupted++;
	return true;
}

/* ---- as it gives way to us ---- */

void take_expect(struct taker *taker, struct thread_slot *slot)
{
	struct holder *holder = &taker->holder;
	if (!holder->copier || !slot->hold.ours || !holder_follows(holder) || !is_worth_it(slot))
		return;
	const struct copier_request request = request_for(slot);
	const uint64_t until_ns = taker->next_ns + holder->period_ns;
	holder->expected = slot->tid;
	if (!copier_expect(holder->copier, &request, taker->next_ns, until_ns))
		note_miss(&slot->luck);
}

static bool same_registers(const struct registers *a, const struct registers *b)
{
	return memcmp(a->value, b->value, sizeof(a->value)) == 0;
}

static bool use_copy(const struct taker *taker, struct thread_slot *slot,
		     const struct registers *registers, struct raw_sample *raw)
{
	const struct copier *copier = taker->holder.copier;
	struct registers copied;
	copier_registers(copier, &copied);
	if (!same_registers(&copied, registers))
		return false;
	if (add_copy(taker, copier, slot, registers, raw))
		return true;
	raw_sample_reset(raw);
	return false;
}

bool take_copied(struct taker *taker, struct thread_slot *slot, const struct registers *registers,
		 struct raw_sample *raw)
{
	if (!taker->holder.copier || taker->holder.expected != slot->tid)
		return false;
	const enum copier_result result = copier_outcome(taker->holder.copier);
	slot->prediction.doubtful |= result == COPIER_MISSING;
	const bool copied = result == COPIER_COPIED && use_copy(taker, slot, registers, raw);
	if (copied)
		note_hit(&slot->luck);
	else if (result != COPIER_ANOTHER)
		note_miss(&slot->luck);
	taker->copied += copied;
	return copied;
}
