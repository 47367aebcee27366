/* SPDX-License-Identifier: MIT */
/* What the writers of differences share. */
#ifndef VIEW_DIFF_H
#define VIEW_DIFF_H

#include "profile/diff.h"
#include "view/view.h"

typedef bool diff_writer(const struct profile_diff *diff, const struct view_options *options,
			 struct strbuf *out, struct error *error);

/* "+12.3", "-0.4", "0.0": points of share. */
void view_diff_put_change(struct strbuf *out, double change);

/* "12.3 %" */
void view_diff_put_share(struct strbuf *out, uint64_t part, uint64_t whole);

/* How many functions differ by more than chance explains. */
size_t view_diff_count(const struct profile_diff *diff);

/* Which functions a table has: those that have grown, most first, then those that have shrunk; of
 * each no more than were asked for. */
struct diff_table {
	size_t grown, shrunk; /* how many of the first, and of the last ones of the list */
};

struct diff_table view_diff_table(const struct profile_diff *diff,
				  const struct view_options *options);
size_t view_diff_rows(const struct diff_table *table);
const struct diff_function *view_diff_row(const struct profile_diff *diff,
					  const struct diff_table *table, size_t row);

#endif
