/* SPDX-License-Identifier: MIT */
/* A histogram: even buckets for pauses as they should be, logarithmic ones beyond. */
#include "profile/pauses.h"

#include <stddef.h>

static size_t bucket_of(uint64_t pause_ns)
{
	const uint64_t even_ns = (uint64_t)PAUSES_EVEN * PAUSES_BUCKET_NS;
	if (pause_ns < even_ns)
		return pause_ns / PAUSES_BUCKET_NS;
	size_t bucket = PAUSES_EVEN;
	uint64_t start = even_ns;
	for (; pause_ns >= 2 * start && bucket < PAUSES_BUCKETS; start *= 2)
		bucket += PAUSES_OCTAVE;
	bucket += (pause_ns - start) * PAUSES_OCTAVE / start;
	return bucket < PAUSES_BUCKETS ? bucket : PAUSES_BUCKETS;
}

/* Its inverse. */
static double end_of_bucket_ns(size_t bucket)
{
	if (bucket < PAUSES_EVEN)
		return (double)(bucket + 1) * PAUSES_BUCKET_NS;
	const size_t octave = (bucket - PAUSES_EVEN) / PAUSES_OCTAVE;
	const size_t part = (bucket - PAUSES_EVEN) % PAUSES_OCTAVE + 1;
	const double start =
		(double)PAUSES_EVEN * PAUSES_BUCKET_NS * (double)(UINT64_C(1) << octave);
	return start + start * (double)part / PAUSES_OCTAVE;
}

void pauses_add(struct pauses *pauses, uint64_t pause_ns, uint32_t allocations)
{
	pauses->buckets[bucket_of(pause_ns)]++;
	pauses->allocating += allocations && pauses->count >= PAUSES_WARM_UP;
	pauses->count++;
	if (pause_ns > pauses->max_ns)
		pauses->max_ns = pause_ns;
}

double pauses_percentile_us(const struct pauses *pauses, double share)
{
	uint64_t wanted = (uint64_t)((double)pauses->count * share), seen = 0;
	for (size_t i = 0; i < PAUSES_BUCKETS; i++) {
		seen += pauses->buckets[i];
		if (seen > wanted)
			return end_of_bucket_ns(i) / 1000;
	}
	return (double)pauses->max_ns / 1000;
}
