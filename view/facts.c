/* SPDX-License-Identifier: MIT */
/* How a profile was made, in words: for the place that each format has for that. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "view/view.h"

static void add(struct view_facts *facts, const char *name, struct strbuf *text)
{
	if (text->size && facts->count < VIEW_MOST_FACTS)
		facts->list[facts->count++] =
			(struct view_fact){name, strndup(text->text, text->size)};
	strbuf_reset(text);
}

static void add_text(struct view_facts *facts, const char *name, const char *value,
		     struct strbuf *text)
{
	if (value && *value)
		view_put_clean(text, value);
	add(facts, name, text);
}

static void put_count(struct strbuf *out, uint64_t count, const char *what)
{
	strbuf_add_text(out, out->size ? ", " : "");
	view_put_grouped(out, count);
	strbuf_printf(out, " %s", what);
}

/* "1,180 kept of 1,182 asked, 2 late, ..." */
static void put_quality(struct strbuf *out, const struct profile_counts *counts)
{
	const struct {
		uint64_t count;
		const char *what;
	} rest[] = {
		{counts->repeats, "repeats"},
		{counts->late, "late"},
		{counts->torn, "torn"},
		{counts->salvaged, "salvaged"},
		{counts->guessed, "guessed"},
		{counts->gone, "gone"},
		{counts->uninterruptible, "uninterruptible"},
		{counts->dropped, "dropped"},
	};
	put_count(out, counts->samples, counts->asked ? "kept of " : "kept");
	if (counts->asked) {
		view_put_grouped(out, counts->asked);
		strbuf_add_text(out, " asked");
	}
	for (size_t i = 0; i < sizeof(rest) / sizeof(*rest); i++)
		if (rest[i].count)
			put_count(out, rest[i].count, rest[i].what);
}

static void put_pace(struct strbuf *out, const struct profile *profile)
{
	if (!(profile->rate > 0 && profile->rate < 1e9))
		return;
	const struct profile_pacing pacing = profile_pacing(&profile->counts, profile->rate);
	if (pacing.rate > 0) {
		view_put_fixed(out, pacing.rate, 1);
		strbuf_add_text(out, " of ");
	}
	view_put_fixed(out, profile->rate,
		       profile->rate == (double)(uint64_t)profile->rate ? 0 : 2);
	strbuf_add_text(out, " Hz");
	if (pacing.stopped_share > 0) {
		strbuf_add_text(out, ", target stopped ");
		view_put_percent(out, pacing.stopped_share, 1);
		strbuf_add_text(out, " % of the time");
	}
}

void view_put_unit(struct strbuf *out, const struct profile *profile)
{
	if (!profile_is_of_cpu_time(profile) || !(profile->rate > 0 && profile->rate < 1e9))
		return;
	const double period_ms = 1e3 / profile->rate;
	strbuf_add_text(out, "a sample is ");
	view_put_fixed(out, period_ms, period_ms == (double)(uint64_t)period_ms ? 0 : 3);
	strbuf_add_text(out, " ms of CPU time");
}

void view_facts_init(struct view_facts *facts, const struct profile *profile)
{
	const struct profile_counts *counts = &profile->counts;
	struct strbuf _cleanup_strbuf_ text;
	strbuf_init(&text);
	facts->count = 0;
	add_text(facts, "command", profile->command_line, &text);
	if (profile->pid)
		strbuf_printf(&text, "%d", (int)profile->pid);
	add(facts, "process", &text);
	add_text(facts, "Python", profile->python_version, &text);
	add_text(facts, "host", profile->host, &text);
	if (profile->start_time_ns)
		view_put_time(&text, profile->start_time_ns / 1000000000);
	add(facts, "start", &text);
	if (counts->elapsed_ns) {
		view_put_fixed(&text, (double)counts->elapsed_ns / 1e9, 1);
		strbuf_add_text(&text, " s");
	}
	add(facts, "length", &text);
	add_text(facts, "mode", profile->mode, &text);
	view_put_unit(&text, profile);
	add(facts, "unit", &text);
	add_text(facts, "event", profile->event, &text);
	put_pace(&text, profile);
	add(facts, "rate", &text);
	put_quality(&text, counts);
	add(facts, "samples", &text);
	if (counts->threads)
		view_put_grouped(&text, counts->threads);
	add(facts, "threads", &text);
	if (profile->version)
		strbuf_printf(&text, "precord %s", profile->version);
	add(facts, "made by", &text);
}

void view_facts_release(struct view_facts *facts)
{
	for (size_t i = 0; i < facts->count; i++)
		free(facts->list[i].text);
	facts->count = 0;
}

void view_put_title(struct strbuf *out, const struct profile *profile,
		    const struct view_options *options)
{
	if (options->title && *options->title)
		strbuf_add_text(out, options->title);
	else if (profile->command_line && *profile->command_line)
		strbuf_add_text(out, profile->command_line);
	else if (profile->pid)
		strbuf_printf(out, "process %d", (int)profile->pid);
	else
		strbuf_add_text(out, "profile");
}
