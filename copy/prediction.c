/* SPDX-License-Identifier: MIT */
/*
 * From what the last samples of a thread read to what the next one will: a Python stack changes
 * little from sample to sample, so that nearly all of it is copied in one gathered read and few
 * records must be chased.
 */
#include "copy/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum {
	MAX_AGE = 32,	/* samples after which a read that nobody needed is forgotten */
	MAX_GAP = 1024, /* bytes copied needlessly rather than a range begun; under a page, so
			   that no span reaches across an unmapped one */
	MAX_READ = 4 << 20,
	MAX_RECENT = 524288,
	MANY = 4096,	 /* reads from which on a sample is not always learned from ... */
	LATE_SHARE = 64, /* ... unless one of so many was not predicted ... */
	LEARN_EACH = 16, /* ... or after so many samples, to forget what is not needed */
};

void prediction_release(struct prediction *prediction)
{
	free(prediction->reads);
	free(prediction->merged);
	free(prediction->spans);
	free(prediction->with_stack);
	memset(prediction, 0, sizeof(*prediction));
}

static int by_address(const void *left, const void *right)
{
	const struct target_range *a = left, *b = right;
	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return a->size > b->size ? -1 : a->size < b->size;
}

static void keep(struct prediction *prediction, size_t *count, remote_addr address, size_t size,
		 uint32_t age)
{
	if (size > MAX_READ || *count >= MAX_RECENT)
		return;
	prediction->merged = alloc_room(prediction->merged, &prediction->merged_capacity,
					*count + 1, sizeof(*prediction->merged));
	prediction->merged[(*count)++] = (struct recent_read){address, (uint32_t)size, age};
}

/* One that is not needed now, or not in that size. False: not for too long. */
static bool keep_old(struct prediction *prediction, size_t *count, const struct recent_read *old,
		     uint32_t oldest)
{
	if (old->age >= oldest)
		return false;
	keep(prediction, count, old->address, old->size, old->age + 1);
	return true;
}

/* Both lists are in order. A read in both is new again, but for the size that it had lately, if
 * that was more: a stack that is not as deep as it was soon may be. */
static size_t merge_lists(struct prediction *prediction, const struct target_range *reads,
			  size_t read_count, uint32_t oldest)
{
	const struct recent_read *old = prediction->reads; /* none in a new one */
	size_t count = 0, next = 0;
	for (size_t i = 0; i < read_count; i++) {
		if (i > 0 && reads[i].address == reads[i - 1].address)
			continue; /* the longest of them came first */
		for (; next < prediction->count && old[next].address < reads[i].address; next++)
			keep_old(prediction, &count, &old[next], oldest);
		bool again = next < prediction->count && old[next].address == reads[i].address;
		const struct recent_read *same = again ? &old[next++] : NULL;
		if (!same || same->size <= reads[i].size ||
		    !keep_old(prediction, &count, same, oldest))
			keep(prediction, &count, reads[i].address, reads[i].size, 0);
	}
	for (; next < prediction->count; next++)
		keep_old(prediction, &count, &old[next], oldest);
	return count;
}

static void make_spans(struct prediction *prediction)
{
	prediction->span_count = 0;
	for (size_t i = 0; i < prediction->count; i++) {
		const struct recent_read *read = &prediction->reads[i];
		struct target_range *last = prediction->span_count
						    ? &prediction->spans[prediction->span_count - 1]
						    : NULL;
		remote_addr end = read->address + read->size;
		if (last && read->address <= last->address + last->size + MAX_GAP) {
			if (end > last->address + last->size)
				last->size = end - last->address;
			continue;
		}
		prediction->spans =
			alloc_room(prediction->spans, &prediction->span_capacity,
				   prediction->span_count + 1, sizeof(*prediction->spans));
		prediction->spans[prediction->span_count++] =
			(struct target_range){read->address, read->size};
	}
}

bool prediction_is_due(struct prediction *prediction, size_t reads, size_t late)
{
	if (reads <= MANY || prediction->doubtful || late > reads / LATE_SHARE ||
	    prediction->span_count == 0)
		return true;
	return ++prediction->unlearned >= LEARN_EACH;
}

void prediction_learn(struct prediction *prediction, struct target_range *reads, size_t count)
{
	qsort(reads, count, sizeof(*reads), by_address);
	size_t merged = merge_lists(prediction, reads, count, prediction->doubtful ? 0 : MAX_AGE);
	prediction->doubtful = false;
	struct recent_read *list = prediction->merged;
	size_t capacity = prediction->merged_capacity;
	prediction->merged = prediction->reads;
	prediction->merged_capacity = prediction->read_capacity;
	prediction->reads = list;
	prediction->read_capacity = capacity;
	prediction->count = merged;
	make_spans(prediction);
	prediction->with_stack =
		alloc_room(prediction->with_stack, &prediction->with_stack_capacity,
			   prediction->span_count + 1, sizeof(*prediction->with_stack));
	prediction->unlearned = 0;
}

static bool overlap(const struct target_range *a, const struct target_range *b)
{
	return a->address < b->address + b->size && b->address < a->address + a->size;
}

const struct target_range *prediction_with_stack(struct prediction *prediction,
						 struct target_range stack, size_t *count)
{
	struct target_range *ranges = prediction->with_stack;
	size_t kept = 0, i = 0;
	if (!ranges)
		return NULL;
	for (; i < prediction->span_count && prediction->spans[i].address < stack.address; i++)
		if (!overlap(&prediction->spans[i], &stack))
			ranges[kept++] = prediction->spans[i];
	ranges[kept++] = stack;
	for (; i < prediction->span_count; i++)
		/* An overlapping one is a record on the stack, which is copied anyway. */
		if (!overlap(&prediction->spans[i], &stack))
			ranges[kept++] = prediction->spans[i];
	*count = kept;
	return ranges;
}

void prediction_learn_from(struct prediction *prediction, struct raw_sample *raw)
{
	remote_addr sp = raw->registers.value[REGISTER_RSP] - TAKE_RED_ZONE;
	/* What was copied as the stack, and not a byte more: the heap may begin right behind it. */
	remote_addr end = raw_sample_end_of(raw, sp);
	size_t stack = end ? end - sp : 0, kept = 0;
	prediction->doubtful |= raw->prediction_missed;
	if (!prediction_is_due(prediction, raw->reads.count, raw->reads.late))
		return;
	for (size_t i = 0; i < raw->reads.count; i++)
		if (raw->reads.items[i].address - sp >= stack)
			raw->reads.items[kept++] = raw->reads.items[i];
	prediction_learn(prediction, raw->reads.items, kept);
}
