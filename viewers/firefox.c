/* SPDX-License-Identifier: MIT */
/*
 * The Firefox Profiler's processed format, version 70, which its viewer brings up to its own. A
 * sample's weight says how many there are in a row; where a thread has none, a sample without a
 * stack and weight begins. Kinds of frames are categories; garbage collection, and holding and
 * waiting for the GIL, are markers. CPU use is what the samples say: a thread that is not idle uses
 * one CPU.
 * What threads share is in viewers/firefox_tables.c.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "viewers/firefox.h"
#include "viewers/viewers.h"

/* Index 0 must be grey and called "Other". */
static const struct {
	const char *name, *color;
} categories[] = {
	{"Other", "grey"},
	{"Python", "yellow"},
	{"Standard library and packages", "brown"},
	{"Cython", "green"},
	{"Built-in", "lightblue"},
	{"Native", "blue"},
	{"Interpreter", "purple"},
	{"Kernel", "orange"},
	{"Idle", "transparent"},
	{"Guessed", "magenta"},
};

static const struct {
	enum sample_flag flag;
	const char *type, *name, *about;
	uint8_t category;
} markers[] = {
	{SAMPLE_GC, "gc", "GC", "The thread collects garbage.", 6},
	{SAMPLE_WAITS_FOR_GIL, "gil-wait", "GIL wait", "The thread waits for the GIL.", 8},
	{SAMPLE_HOLDS_GIL, "gil", "GIL held", "The thread holds the GIL.", 1},
};

enum { MARKERS = sizeof(markers) / sizeof(markers[0]) };

/* ---- meta, libraries --------------------------------------------------------------------------
 */

/* What Windows would call it: the first 16 bytes, of which the first three numbers are turned. */
static void put_breakpad_id(struct strbuf *out, const char *build_id)
{
	static const uint8_t order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
	const size_t size = build_id ? strlen(build_id) : 0;
	for (size_t i = 0; i < 16; i++)
		for (size_t half = 0; half < 2; half++) {
			const size_t at = 2 * (size_t)order[i] + half;
			strbuf_add_char(out, at < size && isxdigit((unsigned char)build_id[at])
						     ? (char)toupper((unsigned char)build_id[at])
						     : '0');
		}
	strbuf_add_char(out, '0');
}

static void put_libraries(struct firefox_writer *writer)
{
	struct strbuf *out = writer->out;
	strbuf_add_text(out, ",\n\"libs\":[");
	for (size_t i = 0; i < writer->library_count; i++) {
		const struct firefox_library *library = &writer->libraries[i];
		strbuf_add_text(out, i ? ",\n{\"arch\":\"x86_64\",\"name\":"
				       : "\n{\"arch\":\"x86_64\",\"name\":");
		view_put_json(out, library->name);
		strbuf_add_text(out, ",\"path\":");
		view_put_json(out, library->path);
		strbuf_add_text(out, ",\"debugName\":");
		view_put_json(out, library->name);
		strbuf_add_text(out, ",\"debugPath\":");
		view_put_json(out, library->path);
		strbuf_add_text(out, ",\"breakpadId\":\"");
		put_breakpad_id(out, library->build_id);
		strbuf_add_text(out, "\",\"codeId\":");
		if (library->build_id)
			view_put_json(out, library->build_id);
		else
			strbuf_add_text(out, "null");
		strbuf_add_char(out, '}');
	}
	strbuf_add_char(out, ']');
}

static void put_ms(struct strbuf *out, uint64_t ns)
{
	strbuf_printf(out, "%" PRIu64 ".%06" PRIu64, ns / 1000000, ns % 1000000);
}

static void put_facts(struct firefox_writer *writer)
{
	struct strbuf *out = writer->out;
	struct view_facts facts;
	view_facts_init(&facts, writer->profile);
	strbuf_add_text(out, ",\n\"extra\":[{\"label\":\"Recording\",\"entries\":[");
	for (size_t i = 0; i < facts.count; i++) {
		strbuf_add_text(out, i ? ",{\"label\":" : "{\"label\":");
		view_put_json(out, facts.list[i].name);
		strbuf_add_text(out, ",\"format\":\"string\",\"value\":");
		view_put_json(out, facts.list[i].text);
		strbuf_add_char(out, '}');
	}
	strbuf_add_text(out, "]}]");
	view_facts_release(&facts);
}

static void put_meta(struct firefox_writer *writer, size_t selected)
{
	struct strbuf *out = writer->out;
	const struct profile *profile = writer->profile;
	struct strbuf _cleanup_strbuf_ title;
	strbuf_init(&title);
	view_put_title(&title, profile, writer->options);
	strbuf_add_text(out, "{\"meta\":{\"interval\":");
	put_ms(out, view_period_ns(profile));
	strbuf_add_text(out, ",\"startTime\":");
	put_ms(out, profile->start_time_ns);
	strbuf_add_text(out, ",\"processType\":0,\"stackwalk\":1,\"version\":36,"
			     "\"preprocessedProfileVersion\":70,\"importedFrom\":\"precord\","
			     "\"product\":");
	view_put_json(out, title.text);
	strbuf_printf(out,
		      ",\n\"symbolicated\":true,\"symbolicationNotSupported\":true,"
		      "\"usesOnlyOneStackType\":true,\"sourceCodeIsNotOnSearchfox\":true,"
		      "\"oscpu\":\"Linux x86_64\",\"initialSelectedThreads\":[%zu],"
		      "\"sampleUnits\":{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":"
		      "\"\xc2\xb5s\"},\n\"categories\":[",
		      selected);
	for (size_t i = 0; i < sizeof(categories) / sizeof(*categories); i++)
		strbuf_printf(out,
			      "%s{\"name\":\"%s\",\"color\":\"%s\",\"subcategories\":[\"Other\"]}",
			      i ? "," : "", categories[i].name, categories[i].color);
	strbuf_add_text(out, "],\n\"markerSchema\":[");
	for (size_t i = 0; i < MARKERS; i++)
		strbuf_printf(
			out,
			"%s{\"name\":\"%s\",\"tooltipLabel\":\"%s\",\"tableLabel\":\"%s\","
			"\"chartLabel\":\"%s\",\"description\":\"%s\",\"display\":["
			"\"marker-chart\",\"marker-table\",\"timeline-overview\"],\"fields\":[]}",
			i ? "," : "", markers[i].type, markers[i].name, markers[i].name,
			markers[i].name, markers[i].about);
	strbuf_add_char(out, ']');
	put_facts(writer);
	strbuf_add_char(out, '}');
}

/* ---- threads ----------------------------------------------------------------------------------
 */

/* A row of the samples table. */
struct row {
	uint64_t time, used; /* used: of the CPU since the row before, in ns */
	uint64_t weight;
	uint32_t stack;
};

struct rows {
	struct row *list;
	size_t count, capacity;
};

static void add_row(struct rows *rows, const struct row *row)
{
	rows->list = alloc_room(rows->list, &rows->capacity, rows->count + 1, sizeof(*rows->list));
	rows->list[rows->count++] = *row;
}

static uint64_t used_by(const struct track_run *run)
{
	return run->flags & SAMPLE_IDLE ? 0 : run->end_ns - run->start_ns;
}

static struct rows make_rows(const struct track *track)
{
	struct rows rows = {0};
	uint64_t used = 0;
	for (size_t i = 0; i < track->count; i++) {
		const struct track_run *run = &track->runs[i];
		add_row(&rows,
			&(struct row){run->start_ns, used, run->count,
				      run->node == PROFILE_ROOT ? FIREFOX_NONE : run->node - 1});
		used = used_by(run);
		if (i + 1 < track->count && track->runs[i + 1].start_ns == run->end_ns)
			continue;
		add_row(&rows, &(struct row){run->end_ns, used, 0, FIREFOX_NONE});
		used = 0;
	}
	return rows;
}

static void put_samples(struct firefox_writer *writer, const struct track *track)
{
	struct strbuf *out = writer->out;
	struct rows rows = make_rows(track);
	strbuf_printf(out, ",\n\"samples\":{\"length\":%zu,\"weightType\":\"samples\"", rows.count);
	firefox_put_column(out, "stack", FIREFOX_COLUMN(rows.list, rows.count, struct row, stack),
			   "null");
	firefox_begin_column(out, "weight");
	for (size_t i = 0; i < rows.count; i++)
		strbuf_printf(out, i ? ",%" PRIu64 : "%" PRIu64, rows.list[i].weight);
	strbuf_add_char(out, ']');
	firefox_begin_column(out, "time");
	for (size_t i = 0; i < rows.count; i++) {
		strbuf_add_text(out, i ? "," : "");
		put_ms(out, rows.list[i].time);
	}
	strbuf_add_char(out, ']');
	firefox_begin_column(out, "threadCPUDelta");
	for (size_t i = 0; i < rows.count; i++)
		strbuf_printf(out, i ? ",%" PRIu64 : "%" PRIu64, rows.list[i].used / 1000);
	strbuf_add_text(out, "]}");
	free(rows.list);
}

/* What a marker says, from one time to another. */
struct interval {
	uint64_t start, end;
	size_t marker;
	uint32_t name, category;
};

struct intervals {
	struct interval *list;
	size_t count, capacity;
};

static int by_start(const void *a, const void *b)
{
	const struct interval *one = a, *two = b;
	return (one->start > two->start) - (one->start < two->start);
}

static struct intervals make_intervals(struct firefox_writer *writer, const struct track *track)
{
	struct intervals found = {0};
	for (size_t m = 0; m < MARKERS; m++) {
		const uint32_t name = firefox_string(writer, markers[m].name);
		bool open = false;
		for (size_t i = 0; i < track->count; i++) {
			const struct track_run *run = &track->runs[i];
			if (!(run->flags & markers[m].flag)) {
				open = false;
				continue;
			}
			if (open && found.list[found.count - 1].end == run->start_ns) {
				found.list[found.count - 1].end = run->end_ns;
				continue;
			}
			found.list = alloc_room(found.list, &found.capacity, found.count + 1,
						sizeof(*found.list));
			found.list[found.count++] = (struct interval){run->start_ns, run->end_ns, m,
								      name, markers[m].category};
			open = true;
		}
	}
	if (found.count)
		qsort(found.list, found.count, sizeof(*found.list), by_start);
	return found;
}

static void put_markers(struct firefox_writer *writer, const struct track *track)
{
	struct strbuf *out = writer->out;
	struct intervals found = make_intervals(writer, track);
	strbuf_printf(out, ",\n\"markers\":{\"length\":%zu", found.count);
	firefox_begin_column(out, "data");
	for (size_t i = 0; i < found.count; i++)
		strbuf_printf(out, "%s{\"type\":\"%s\"}", i ? "," : "",
			      markers[found.list[i].marker].type);
	strbuf_add_char(out, ']');
	firefox_put_column(out, "name",
			   FIREFOX_COLUMN(found.list, found.count, struct interval, name), "");
	firefox_put_column(out, "category",
			   FIREFOX_COLUMN(found.list, found.count, struct interval, category), "");
	firefox_begin_column(out, "startTime");
	for (size_t i = 0; i < found.count; i++) {
		strbuf_add_text(out, i ? "," : "");
		put_ms(out, found.list[i].start);
	}
	strbuf_add_char(out, ']');
	firefox_begin_column(out, "endTime");
	for (size_t i = 0; i < found.count; i++) {
		strbuf_add_text(out, i ? "," : "");
		put_ms(out, found.list[i].end);
	}
	strbuf_add_char(out, ']');
	firefox_put_same(out, "phase", found.count, "1");
	strbuf_add_char(out, '}');
	free(found.list);
}

static void put_thread(struct firefox_writer *writer, const struct track *track)
{
	struct strbuf *out = writer->out;
	strbuf_add_text(out, "\n{\"name\":");
	view_put_json(out, track->name);
	strbuf_printf(out,
		      ",\"isMainThread\":%s,\"processType\":\"default\",\"pid\":\"%d\","
		      "\"tid\":%d,\"processStartupTime\":0,\"processShutdownTime\":null,"
		      "\"registerTime\":0,\"unregisterTime\":null,\"pausedRanges\":[],"
		      "\"showMarkersInTimeline\":true,\"processName\":",
		      track->tid == track->pid ? "true" : "false", (int)track->pid,
		      (int)track->tid);
	view_put_json(out, track->process ? track->process : "process");
	put_samples(writer, track);
	put_markers(writer, track);
	strbuf_add_char(out, '}');
}

/* ---- the whole ----------------------------------------------------------------------------------
 */

static void put_all(struct firefox_writer *writer)
{
	struct strbuf *out = writer->out;
	struct tracks tracks;
	view_tracks_init(&tracks, writer->profile);
	firefox_look_at_frames(writer);
	put_meta(writer, view_busiest_track(&tracks));
	put_libraries(writer);
	strbuf_add_text(out, ",\n\"threads\":[");
	for (size_t i = 0; i < tracks.count; i++) {
		strbuf_add_text(out, i ? "," : "");
		put_thread(writer, &tracks.list[i]);
	}
	strbuf_add_text(out, "],\n\"shared\":{");
	firefox_put_shared(writer);
	strbuf_add_text(out, "}}\n");
	view_tracks_release(&tracks);
}

bool viewer_firefox(const struct profile *profile, const struct view_options *options,
		    struct strbuf *out, struct error *error)
{
	(void)error;
	struct firefox_writer writer;
	firefox_writer_init(&writer, profile, options, out);
	put_all(&writer);
	firefox_writer_release(&writer);
	return true;
}
