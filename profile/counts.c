/* SPDX-License-Identifier: MIT */
/* The counts of a profile by name: what files of profiles say of them, written and read. */
#include <stddef.h>

#include "profile/profile.h"

#define FIELD(name)                                                                                \
	{                                                                                          \
#name, offsetof(struct profile_counts, name)                                       \
	}

static const struct {
	const char *name;
	size_t offset;
} fields[PROFILE_COUNT_FIELDS] = {
	FIELD(asked),	  FIELD(samples),	  FIELD(repeats),
	FIELD(ticks),	  FIELD(late_ticks),	  FIELD(late),
	FIELD(torn),	  FIELD(salvaged),	  FIELD(guessed),
	FIELD(gone),	  FIELD(uninterruptible), FIELD(contradictions),
	FIELD(truncated), FIELD(dropped),	  FIELD(native_samples),
	FIELD(threads),	  FIELD(stopped_ns),	  FIELD(elapsed_ns),
	FIELD(squares),
};

_Static_assert(sizeof(struct profile_counts) == PROFILE_COUNT_FIELDS * sizeof(uint64_t),
	       "every count has a name");

const char *profile_count_name(size_t index)
{
	return fields[index].name;
}

uint64_t profile_count(const struct profile_counts *counts, size_t index)
{
	return *(const uint64_t *)((const char *)counts + fields[index].offset);
}

void profile_set_count(struct profile_counts *counts, size_t index, uint64_t value)
{
	*(uint64_t *)((char *)counts + fields[index].offset) = value;
}
