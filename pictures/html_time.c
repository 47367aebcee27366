/* SPDX-License-Identifier: MIT */
/*
 * Samples by thread and time, as runs over bins of equal length:
 *
 *	"time":{"bins":600,"bin_ns":10000000,"who":{...},"threads":[[0,34,1,12, 12,37,1,1],...]}
 *
 * is a thread that was at node 17 in the first twelve bins, one sample in each, and idle at node 18
 * in the next one: bins since the run before began (its ticks are a little early or late, so that
 * can be -1), twice the node and one if it was idle, samples in each bin, bins. A bin is as many
 *ticks as it takes for runs and bins to be few enough. Without times all is in one bin of one
 *thread.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "pictures/html.h"

struct run {
	uint64_t bin, repeat, count;
	uint32_t place; /* twice the node, and one if the thread was idle */
	uint32_t thread;
};

struct binning {
	const struct html_tree *tree;
	const struct timeline *timeline;
	struct timeline_order order;
	uint32_t *places; /* of each of the profile's nodes: twice the page's, and one if it is idle
			   */
	uint64_t ticks, bin_ns; /* of a bin */
	uint64_t bins;
	struct run *runs; /* by thread, then by bin */
	size_t count, capacity;
	struct run *open; /* what the thread has in the bin at which it is: not yet added up */
	size_t open_count, open_capacity;
};

static int by_place(const void *a, const void *b)
{
	const struct run *one = a, *two = b;
	return (one->place > two->place) - (one->place < two->place);
}

/* A leaf that says so is idle, too: without times, nothing else is. */
static uint32_t place_of(const struct html_tree *tree, uint32_t node)
{
	const struct view *view = tree->view;
	const uint32_t shown = tree->nodes[node].node;
	if (shown == HTML_SMALLER || shown == PROFILE_ROOT)
		return 2 * node;
	return 2 * node + (view->profile->frames[view->nodes[shown].frame].kind == FRAME_IDLE);
}

static void find_places(struct binning *binning)
{
	const struct html_tree *tree = binning->tree;
	const size_t count = tree->view->profile->node_count;
	binning->places = alloc_zeroed(count + 1, sizeof(*binning->places));
	for (size_t i = 0; i < count; i++)
		binning->places[i] = place_of(tree, tree->of_view[tree->view->of_node[i]]);
}

/* Longer by so many bins, if it goes on with the run before; else one more. */
static void add_run(struct binning *binning, const struct run *run)
{
	struct run *last = binning->count ? &binning->runs[binning->count - 1] : NULL;
	if (last && last->thread == run->thread && last->place == run->place &&
	    last->count == run->count && last->bin + last->repeat == run->bin) {
		last->repeat += run->repeat;
		return;
	}
	binning->runs = alloc_room(binning->runs, &binning->capacity, binning->count + 1,
				   sizeof(*binning->runs));
	binning->runs[binning->count++] = *run;
}

/* The thread has come to a later bin: what it had in the one before, place by place. */
static void close_bin(struct binning *binning)
{
	if (binning->open_count > 1)
		qsort(binning->open, binning->open_count, sizeof(*binning->open), by_place);
	for (size_t i = 0; i < binning->open_count;) {
		struct run sum = binning->open[i];
		for (i++; i < binning->open_count && binning->open[i].place == sum.place; i++)
			sum.count += binning->open[i].count;
		add_run(binning, &sum);
	}
	binning->open_count = 0;
}

static void add_to_bin(struct binning *binning, const struct run *run)
{
	if (binning->open_count && binning->open[0].bin != run->bin)
		close_bin(binning);
	binning->open = alloc_room(binning->open, &binning->open_capacity, binning->open_count + 1,
				   sizeof(*binning->open));
	binning->open[binning->open_count++] = *run;
}

/* Bins that it fills are one run; what is in front and behind shares its bin with others. */
static void split(struct binning *binning, const struct profile_sample *sample, uint32_t place)
{
	const uint64_t period = binning->timeline->period_ns;
	uint64_t time = sample->time_ns, left = sample->count;
	while (left) {
		struct run run = {.bin = time / binning->bin_ns,
				  .repeat = 1,
				  .place = place,
				  .thread = sample->thread};
		const uint64_t end = (run.bin + 1) * binning->bin_ns;
		const uint64_t fit = (end - 1 - time) / period + 1;
		run.count = fit < left ? fit : left;
		if (fit == binning->ticks && left >= 2 * fit) {
			run.repeat = left / fit;
			close_bin(binning);
			add_run(binning, &run);
		} else {
			add_to_bin(binning, &run);
		}
		left -= run.count * run.repeat;
		time += run.count * run.repeat * period;
	}
}

/* How many of the timeline's runs there is room for with bins this short; or so many at least. */
static size_t fill(struct binning *binning)
{
	const struct timeline *timeline = binning->timeline;
	const struct timeline_order *order = &binning->order;
	binning->count = binning->open_count = 0;
	for (size_t thread = 0; thread < timeline->thread_count; thread++) {
		for (size_t i = order->first[thread]; i < order->first[thread + 1]; i++) {
			const struct profile_sample *sample = &timeline->samples[order->runs[i]];
			const uint32_t idle = (sample->flags & SAMPLE_IDLE) != 0;
			split(binning, sample, binning->places[sample->node] | idle);
			if (binning->count > HTML_MAX_RUNS)
				return i;
		}
		close_bin(binning);
	}
	return binning->count <= HTML_MAX_RUNS ? timeline->sample_count
					       : timeline->sample_count / 2;
}

/* When the last sample was; false where that cannot be, or where not all samples have a time. */
static bool find_end(const struct timeline *timeline, uint64_t samples, uint64_t *end)
{
	enum { TEN_YEARS = 315576000 };
	const uint64_t latest = UINT64_C(1000000000) * TEN_YEARS;
	*end = 0;
	if (timeline->period_ns == 0 || timeline->period_ns > latest)
		return false;
	uint64_t timed = 0;
	for (size_t i = 0; i < timeline->sample_count; i++) {
		const struct profile_sample *sample = &timeline->samples[i];
		if (sample->time_ns > latest || sample->count > latest / timeline->period_ns)
			return false;
		const uint64_t last = timeline_last_ns(timeline, sample);
		if (sample->count && *end < last + 1)
			*end = last + 1;
		timed += sample->count;
	}
	return *end > 0 && timed == samples;
}

/*
 * Starts with as many bins as there may be, and halves them until there are few enough runs. Half
 * the bins have at least half the runs: if there was room for an eighth of all, it takes an eighth
 * of the bins at most.
 */
static bool bin_timeline(struct binning *binning)
{
	uint64_t end;
	if (!find_end(binning->timeline, binning->tree->view->totals[0], &end))
		return false;
	const uint64_t period = binning->timeline->period_ns;
	timeline_order_init(&binning->order, binning->timeline);
	binning->ticks = end / period / HTML_MAX_BINS + 1;
	find_places(binning);
	const size_t all = binning->timeline->sample_count;
	size_t filled;
	do {
		binning->bin_ns = binning->ticks * period;
		binning->bins = (end - 1) / binning->bin_ns + 1;
		filled = fill(binning);
		uint64_t factor = 2;
		while (filled && 2 * factor <= all / filled)
			factor *= 2;
		binning->ticks *= factor;
	} while (filled < all && binning->bins > 1);
	free(binning->places);
	timeline_order_release(&binning->order);
	return filled == all;
}

/* ---- the data ---------------------------------------------------------------------------- */

static void put_named(struct strbuf *out, const char *name, const char *text)
{
	strbuf_printf(out, ",\"%s\":", name);
	html_put_text(out, text ? text : "", text ? strlen(text) : 0);
}

static void put_who(struct strbuf *out, const struct timeline *timeline)
{
	strbuf_add_text(out, "\"who\":{\"processes\":[");
	for (size_t i = 0; i < timeline->process_count; i++) {
		strbuf_printf(out, "%s{\"pid\":%d", i ? "," : "", (int)timeline->processes[i].pid);
		put_named(out, "command", timeline->processes[i].command_line);
		strbuf_add_char(out, '}');
	}
	strbuf_add_text(out, "],\n\"threads\":[");
	for (size_t i = 0; i < timeline->thread_count; i++) {
		const struct profile_thread *thread = &timeline->threads[i];
		strbuf_printf(out, "%s{\"process\":%u,\"tid\":%d", i ? ",\n" : "",
			      (unsigned)thread->process, (int)thread->tid);
		put_named(out, "name", thread->name);
		strbuf_add_char(out, '}');
	}
	strbuf_add_text(out, "]}");
}

static void put_run(struct strbuf *out, bool first, int64_t skip, const struct run *run)
{
	const uint64_t numbers[] = {run->place, run->count, run->repeat};
	if (!first)
		strbuf_add_char(out, ',');
	html_put_signed(out, skip);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		strbuf_add_char(out, ',');
		html_put_number(out, numbers[i]);
	}
}

static void put_timed(struct strbuf *out, const struct binning *binning)
{
	const struct timeline *timeline = binning->timeline;
	size_t at = 0;
	strbuf_add_text(out, "\"time\":{\"bins\":");
	html_put_number(out, binning->bins);
	strbuf_add_text(out, ",\"bin_ns\":");
	html_put_number(out, binning->bin_ns);
	strbuf_add_text(out, ",\n");
	put_who(out, timeline);
	strbuf_add_text(out, ",\n\"threads\":[");
	for (size_t thread = 0; thread < timeline->thread_count; thread++) {
		uint64_t before = 0;
		strbuf_add_text(out, thread ? ",\n[" : "[");
		for (bool first = true; at < binning->count && binning->runs[at].thread == thread;
		     at++, first = false) {
			put_run(out, first, (int64_t)(binning->runs[at].bin - before),
				&binning->runs[at]);
			before = binning->runs[at].bin;
		}
		strbuf_add_char(out, ']');
	}
	strbuf_add_text(out, "]}");
}

static void put_untimed(struct strbuf *out, const struct html_tree *tree)
{
	strbuf_add_text(out, "\"time\":{\"bins\":1,\"bin_ns\":0,\"who\":{\"processes\":[],"
			     "\"threads\":[{\"process\":0,\"tid\":0,\"name\":\"\"}]},"
			     "\n\"threads\":[[");
	bool first = true;
	for (uint32_t i = 0; i < tree->count; i++) {
		if (!tree->nodes[i].self)
			continue;
		const struct run run = {
			.place = place_of(tree, i), .count = tree->nodes[i].self, .repeat = 1};
		put_run(out, first, 0, &run);
		first = false;
	}
	strbuf_add_text(out, "]]}");
}

bool html_put_time(struct strbuf *out, const struct html_tree *tree)
{
	const struct profile *profile = tree->view->profile;
	struct binning binning = {.tree = tree, .timeline = &profile->timeline};
	const bool timed = profile->timed && bin_timeline(&binning);
	if (timed)
		put_timed(out, &binning);
	else
		put_untimed(out, tree);
	free(binning.runs);
	free(binning.open);
	return timed;
}
