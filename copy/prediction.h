/* SPDX-License-Identifier: MIT */
/* What the next sample of a thread will need. */
#ifndef COPY_PREDICTION_H
#define COPY_PREDICTION_H

#include "target/target.h"

struct recent_read {
	remote_addr address;
	uint32_t size;
	uint32_t age; /* samples since it was needed last */
};

/*
 * One range of a gathered read costs 0.4 us, a KiB more of it 0.08 us (measured): reads that lie
 * near one another are copied as one span.
 */
struct prediction {
	struct recent_read *reads, *merged;
	size_t count, read_capacity, merged_capacity;
	struct target_range *spans;	 /* in order */
	struct target_range *with_stack; /* room for them and the stack */
	size_t span_count, span_capacity, with_stack_capacity;
	unsigned unlearned; /* samples since the last one that was learned from */
	bool doubtful; /* some of it is gone: what the next sample does not need is forgotten */
};

void prediction_release(struct prediction *prediction);

/*
 * Is it worth while to learn from a sample of so many reads, `late` of which were not predicted? To
 * sort a hundred thousand reads takes longer than to copy them, and a deep stack is mostly as it
 * was.
 */
bool prediction_is_due(struct prediction *prediction, size_t reads, size_t late);

/* Learns from a sample, if that is due. Not in the pause. */
struct raw_sample;
void prediction_learn_from(struct prediction *prediction, struct raw_sample *raw);

/* Learns from a sample's reads (which it sorts). Not in the pause. */
void prediction_learn(struct prediction *prediction, struct target_range *reads, size_t count);

/* The spans and the stack among them in order of address; overlapping ones give way. May run in
 * the pause. *count: how many. */
const struct target_range *prediction_with_stack(struct prediction *prediction,
						 struct target_range stack, size_t *count);

#endif
