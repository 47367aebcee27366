/* SPDX-License-Identifier: MIT */
/*
 * Two profiles of the same program, before and after a change: what each function's share of the
 * samples was, and is. Functions are told apart by their text without lines: "fit (als.py)". Root
 * frames of threads are left out, unless both have some.
 */
#ifndef PROFILE_DIFF_H
#define PROFILE_DIFF_H

#include "profile/profile.h"

/* Samples of each of the two. */
struct diff_counts {
	uint64_t before, after;
};

struct diff_function {
	const char *text;
	uint32_t frame;			/* in tree */
	struct diff_counts self, total; /* total: a function that calls itself counts once */
	/* After less before, as shares of all samples. */
	double self_change, total_change;
	/* More than chance explains: over 1 % and over sigmas. */
	bool self_differs, total_differs;
};

struct profile_diff {
	struct profile tree; /* the stacks of both, by function; self: see DIFF_WHOLE */
	struct diff_counts *self, *total; /* of each of its nodes */
	struct diff_counts samples;	  /* all */
	struct diff_counts looks;	  /* ... that are evidence of their own: repeats are not */
	struct diff_function *functions;  /* from the most grown to the most shrunk, by self */
	size_t function_count;
	double sigmas; /* standard deviations: three, and more where many are compared */
	const struct profile *before, *after;
};

/* The shares before and after, added up, of the whole tree: so much each. */
enum { DIFF_WHOLE = 1000000000 };

/* UNSUPPORTED: they cannot be compared, and why. ABSENT: one has no samples. Both must outlive it.
 */
bool MUST_CHECK profile_diff_init(struct profile_diff *diff, const struct profile *before,
				  const struct profile *after, struct error *error);
void profile_diff_release(struct profile_diff *diff);

/* How large a share of all is; and how much larger it has become. */
double diff_share(uint64_t part, uint64_t whole);
double diff_change(const struct profile_diff *diff, struct diff_counts part);

/* Is that more than chance explains? */
bool diff_differs(const struct profile_diff *diff, struct diff_counts part);

#endif
