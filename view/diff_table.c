/* SPDX-License-Identifier: MIT */
/* What all forms of a comparison show: the table of functions, and shares in words. */
#include "view/diff.h"

#include <math.h>

enum { DEFAULT_ROWS = 12 };

void view_diff_put_change(struct strbuf *out, double change)
{
	const double points = 100 * change;
	if (points >= 0.005)
		strbuf_add_char(out, '+');
	view_put_fixed(out, fabs(points) < 0.005 ? 0 : points, 2);
}

void view_diff_put_share(struct strbuf *out, uint64_t part, uint64_t whole)
{
	view_put_fixed(out, 100 * diff_share(part, whole), 2);
	strbuf_add_text(out, " %");
}

size_t view_diff_count(const struct profile_diff *diff)
{
	size_t count = 0;
	for (size_t i = 0; i < diff->function_count; i++)
		count += diff->functions[i].self_differs;
	return count;
}

struct diff_table view_diff_table(const struct profile_diff *diff,
				  const struct view_options *options)
{
	const size_t most = options->top ? options->top : DEFAULT_ROWS,
		     count = diff->function_count;
	const struct diff_function *functions = diff->functions;
	struct diff_table table = {0};
	while (table.grown < most && table.grown < count && functions[table.grown].self_change > 0)
		table.grown++;
	while (table.shrunk < most && table.shrunk < count &&
	       functions[count - 1 - table.shrunk].self_change < 0)
		table.shrunk++;
	return table;
}

size_t view_diff_rows(const struct diff_table *table)
{
	return table->grown + table->shrunk;
}

const struct diff_function *view_diff_row(const struct profile_diff *diff,
					  const struct diff_table *table, size_t row)
{
	return row < table->grown
		       ? &diff->functions[row]
		       : &diff->functions[diff->function_count - 1 - (row - table->grown)];
}
