/* SPDX-License-Identifier: MIT */
/*
 * The stacks of two profiles in one tree, by function, and the functions by their change. Shares
 * are of each profile's own samples, so that recordings of another length can be compared.
 *
 * A share p of n looks has the standard deviation sqrt(p(1-p)/n) if one look says nothing of the
 * next: that holds for threads that run. A sample of a thread that has not run since the last one
 * was not looked at, and is no evidence of its own; nor is a look that counts as several samples
 * more than one (Kish, Survey Sampling, 1965: the effective number is the square of the weights'
 * sum by the sum of their squares).
 *
 * The more functions are compared, the more often one of them differs by three deviations by chance
 * (of four that take a quarter each, in 1.1 % of all pairs, not in 0.27 %). So the bound is moved
 * until any of them does so as seldom as one alone (Dunn, Multiple Comparisons Among Means, 1961).
 */
#include "profile/diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "base/table.h"
#include "profile/internal.h"

static const double LEAST_CHANGE = 0.01, SIGMAS = 3;

double diff_share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

double diff_change(const struct profile_diff *diff, struct diff_counts part)
{
	return diff_share(part.after, diff->samples.after) -
	       diff_share(part.before, diff->samples.before);
}

bool diff_differs(const struct profile_diff *diff, struct diff_counts part)
{
	const double before = diff_share(part.before, diff->samples.before);
	const double after = diff_share(part.after, diff->samples.after);
	/* Had nothing changed, both would be of this share. */
	const double both =
		diff_share(part.before + part.after, diff->samples.before + diff->samples.after);
	const double variance = both * (1 - both) *
				(1 / (double)diff->looks.before + 1 / (double)diff->looks.after);
	return fabs(after - before) > fmax(LEAST_CHANGE, diff->sigmas * sqrt(variance));
}

/* Functions that can differ by more than the least change. */
static size_t count_large(const struct profile_diff *diff)
{
	size_t count = 0;
	for (size_t i = 0; i < diff->function_count; i++) {
		const struct diff_counts self = diff->functions[i].self;
		count += diff_share(self.before, diff->samples.before) >= LEAST_CHANGE ||
			 diff_share(self.after, diff->samples.after) >= LEAST_CHANGE;
	}
	return count;
}

/* What one of so many exceeds by chance as seldom as one alone exceeds SIGMAS. */
static double sigmas_of(size_t count)
{
	const double chance = erfc(SIGMAS / M_SQRT2) / fmax(1, (double)count);
	double low = SIGMAS, high = 2 * SIGMAS;
	for (int i = 0; i < 30; i++) {
		const double middle = (low + high) / 2;
		*(erfc(middle / M_SQRT2) > chance ? &low : &high) = middle;
	}
	return low;
}

/* ---- one tree of both ---------------------------------------------------------------------------
 */

/* The first frame with that text stands for all, whatever its kind: a function is idle, too, in
 * some of its samples, and not all files keep kinds. But a thread is none. */
struct functions {
	struct profile *tree;
	struct table ids; /* (text, is a thread) -> frame in tree */
	struct interner *strings;
};

static uint32_t function_of(struct functions *functions, const struct frame *frame)
{
	struct strbuf _cleanup_strbuf_ text;
	strbuf_init(&text);
	frame_text(&text, frame, false, false);
	const uint64_t key = (uint64_t)(uintptr_t)intern_text(functions->strings, text.text);
	const bool is_thread = frame->kind == FRAME_THREAD;
	uint32_t id;
	if (table_find(&functions->ids, key, is_thread, &id)) {
		if (functions->tree->frames[id].kind == FRAME_IDLE)
			functions->tree->frames[id].kind = frame->kind;
		return id;
	}
	id = profile_frame(functions->tree, frame);
	table_put(&functions->ids, key, is_thread, id);
	return id;
}

static bool is_root(const struct profile *profile, size_t node)
{
	return profile->frames[profile->nodes[node].frame].kind == FRAME_THREAD;
}

static bool has_roots(const struct profile *profile)
{
	for (size_t i = 1; i < profile->node_count; i++)
		if (is_root(profile, i))
			return true;
	return false;
}

/* Counts all samples of one of the two in the tree; returns where each of its nodes is there. What
 * its stacks are within, if the other's have no root frames, is none of the program's. */
static uint32_t *add_tree(struct functions *functions, const struct profile *from, bool roots)
{
	uint32_t *nodes = alloc_zeroed(from->node_count, sizeof(*nodes));
	uint32_t *frames = alloc_zeroed(from->frame_count + 1, sizeof(*frames));
	for (size_t i = 0; i < from->frame_count; i++)
		if (roots || from->frames[i].kind != FRAME_THREAD)
			frames[i] = function_of(functions, &from->frames[i]);
	for (size_t i = 1; i < from->node_count; i++) {
		const uint32_t parent = nodes[from->nodes[i].parent];
		nodes[i] = !roots && is_root(from, i)
				   ? parent
				   : profile_add_to(functions->tree, parent,
						    frames[from->nodes[i].frame], 0);
	}
	free(frames);
	return nodes;
}

static void count_both(struct profile_diff *diff, const uint32_t *before, const uint32_t *after)
{
	const size_t count = diff->tree.node_count;
	diff->self = alloc_zeroed(count, sizeof(*diff->self));
	diff->total = alloc_zeroed(count, sizeof(*diff->total));
	for (size_t i = 0; i < diff->before->node_count; i++)
		diff->self[before[i]].before += diff->before->nodes[i].self;
	for (size_t i = 0; i < diff->after->node_count; i++)
		diff->self[after[i]].after += diff->after->nodes[i].self;
	for (size_t i = count; i-- > 0;) {
		diff->total[i].before += diff->self[i].before;
		diff->total[i].after += diff->self[i].after;
		if (i == PROFILE_ROOT)
			break;
		struct diff_counts *parent = &diff->total[diff->tree.nodes[i].parent];
		parent->before += diff->total[i].before;
		parent->after += diff->total[i].after;
	}
	diff->samples = diff->total[PROFILE_ROOT];
}

static uint64_t looks_of(const struct profile *profile, uint64_t samples)
{
	const struct profile_counts *const counts = &profile->counts;
	if (counts->squares > counts->samples) {
		const double share = (double)counts->samples / (double)counts->squares;
		return (uint64_t)fmax(1, share * (double)samples);
	}
	return counts->repeats < samples ? samples - counts->repeats : 1;
}

/* What is drawn of a node that is no other's: its shares before and after, added up. */
static void weigh(struct profile_diff *diff)
{
	for (size_t i = 0; i < diff->tree.node_count; i++) {
		const double share = diff_share(diff->self[i].before, diff->samples.before) +
				     diff_share(diff->self[i].after, diff->samples.after);
		diff->tree.nodes[i].self = (uint64_t)llround(share * DIFF_WHOLE);
	}
}

/* ---- functions ---------------------------------------------------------------------------------
 */

/* Lists of children, to go through the tree from the root inwards and back. */
struct walk {
	uint32_t *first, *next; /* child, sibling; 0: none */
	uint32_t *open;		/* of each function: how many of its calls are around */
};

static void link_children(const struct profile *tree, struct walk *walk)
{
	walk->first = alloc_zeroed(tree->node_count, sizeof(*walk->first));
	walk->next = alloc_zeroed(tree->node_count, sizeof(*walk->next));
	walk->open = alloc_zeroed(tree->frame_count + 1, sizeof(*walk->open));
	for (size_t i = tree->node_count; i-- > 1;) {
		walk->next[i] = walk->first[tree->nodes[i].parent];
		walk->first[tree->nodes[i].parent] = (uint32_t)i;
	}
}

/* A function's outermost call has all its samples. */
static void enter_node(struct profile_diff *diff, struct walk *walk, uint32_t node)
{
	struct diff_function *function = &diff->functions[diff->tree.nodes[node].frame];
	function->self.before += diff->self[node].before;
	function->self.after += diff->self[node].after;
	if (walk->open[diff->tree.nodes[node].frame]++ > 0)
		return;
	function->total.before += diff->total[node].before;
	function->total.after += diff->total[node].after;
}

static void count_functions(struct profile_diff *diff)
{
	struct walk walk;
	link_children(&diff->tree, &walk);
	for (uint32_t at = PROFILE_ROOT;;) {
		if (walk.first[at]) {
			at = walk.first[at];
			enter_node(diff, &walk, at);
			continue;
		}
		while (at != PROFILE_ROOT && !walk.next[at]) {
			walk.open[diff->tree.nodes[at].frame]--;
			at = diff->tree.nodes[at].parent;
		}
		if (at == PROFILE_ROOT)
			break;
		walk.open[diff->tree.nodes[at].frame]--;
		at = walk.next[at];
		enter_node(diff, &walk, at);
	}
	free(walk.first);
	free(walk.next);
	free(walk.open);
}

/* What takes longer makes all else smaller: so what has grown is first. */
static int by_change(const void *left, const void *right)
{
	const struct diff_function *a = left, *b = right;
	if (a->self_change != b->self_change)
		return a->self_change > b->self_change ? -1 : 1;
	if (a->total_change != b->total_change)
		return a->total_change > b->total_change ? -1 : 1;
	return strcmp(a->text, b->text);
}

static void list_functions(struct profile_diff *diff)
{
	diff->function_count = diff->tree.frame_count;
	diff->functions = alloc_zeroed(diff->function_count + 1, sizeof(*diff->functions));
	for (size_t i = 0; i < diff->function_count; i++) {
		struct strbuf _cleanup_strbuf_ text;
		strbuf_init(&text);
		frame_text(&text, &diff->tree.frames[i], false, false);
		diff->functions[i].text = intern_text(diff->tree.strings, text.text);
		diff->functions[i].frame = (uint32_t)i;
	}
	count_functions(diff);
	diff->sigmas = sigmas_of(count_large(diff));
	for (size_t i = 0; i < diff->function_count; i++) {
		struct diff_function *function = &diff->functions[i];
		function->self_change = diff_change(diff, function->self);
		function->total_change = diff_change(diff, function->total);
		function->self_differs = diff_differs(diff, function->self);
		function->total_differs = diff_differs(diff, function->total);
	}
	qsort(diff->functions, diff->function_count, sizeof(*diff->functions), by_change);
}

bool profile_diff_init(struct profile_diff *diff, const struct profile *before,
		       const struct profile *after, struct error *error)
{
	if (!profile_compare(before, after, error))
		return false;
	*diff = (struct profile_diff){.before = before, .after = after};
	profile_init(&diff->tree, after->strings);
	profile_copy_facts(&diff->tree, after);
	struct functions functions = {.tree = &diff->tree, .strings = after->strings};
	const bool roots = has_roots(before) && has_roots(after);
	uint32_t *nodes_before = add_tree(&functions, before, roots);
	uint32_t *nodes_after = add_tree(&functions, after, roots);
	count_both(diff, nodes_before, nodes_after);
	table_release(&functions.ids);
	free(nodes_before);
	free(nodes_after);
	if (!diff->samples.before || !diff->samples.after) {
		error_set(error, ERROR_ABSENT, "%s has no samples",
			  diff->samples.before ? "the second profile" : "the first profile");
		profile_diff_release(diff);
		return false;
	}
	diff->looks.before = looks_of(before, diff->samples.before);
	diff->looks.after = looks_of(after, diff->samples.after);
	weigh(diff);
	list_functions(diff);
	return true;
}

void profile_diff_release(struct profile_diff *diff)
{
	profile_release(&diff->tree);
	free(diff->self);
	free(diff->total);
	free(diff->functions);
	*diff = (struct profile_diff){0};
}
