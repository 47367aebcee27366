/* SPDX-License-Identifier: MIT */
/*
 * Many dumps as people read them: where the processes are, then each stack once, the odd one first:
 *
 *     7 processes in all_reduce, 1 in DataLoader.__next__
 *
 *     1 of 8 processes: 4711 (rank 3)
 *     Thread 4711 (idle): "MainThread"
 *         ...
 *
 *     7 of 8 processes: 4708 (rank 0), 4709 (rank 1), ...
 *     7 main threads (6 idle, 1 active): "MainThread"
 *         ...
 */
#include <inttypes.h>
#include <string.h>

#include "output/internal.h"

enum { PLACES_MOST = 6, NAMES_MOST = 4, NUMBERS_MOST = 16 };

static const struct dump *dump_of(const struct dump_groups *groups,
				  const struct dump_member *member)
{
	return &groups->list->dumps[member->dump];
}

static const struct dump_thread *thread_of(const struct dump_groups *groups,
					   const struct dump_member *member)
{
	return &dump_of(groups, member)->threads[member->thread];
}

static bool same_text(const char *one, const char *other)
{
	return one == other || (one && other && strcmp(one, other) == 0);
}

/* ---- the first line ---- */

static void put_places(struct strbuf *out, const struct dump_groups *groups)
{
	const size_t count = groups->place_count;
	const size_t shown = count > PLACES_MOST ? PLACES_MOST - 1 : count;
	size_t rest = groups->processes;
	for (size_t i = 0; i < shown; i++) {
		const struct dump_place *place = &groups->places[i];
		strbuf_printf(out, "%s%zu", i ? ", " : "", place->processes);
		if (i == 0)
			strbuf_add_text(out, place->processes == 1 ? " process" : " processes");
		strbuf_add_text(out, place->name ? " in " : " without a stack");
		view_put_clean(out, place->name ? place->name : "");
		rest -= place->processes;
	}
	if (rest)
		strbuf_printf(out, ", %zu elsewhere", rest);
	strbuf_add_text(out, count ? "\n" : "no process has a stack\n");
}

/* ---- who is there ---- */

static bool has_several_hosts(const struct dump_groups *groups)
{
	const struct dump_list *list = groups->list;
	for (size_t i = 1; i < list->count; i++)
		if (!same_text(list->dumps[i].host, list->dumps[0].host))
			return true;
	return false;
}

/* "node1:4711 (rank 3)" */
static void put_process(struct strbuf *out, const struct dump *dump, bool host)
{
	if (host && dump->host) {
		view_put_clean(out, dump->host);
		strbuf_add_char(out, ':');
	}
	strbuf_printf(out, "%d", (int)dump->pid);
	if (dump->has_rank)
		strbuf_printf(out, " (rank %" PRIu32 ")", dump->rank);
}

static void put_processes(struct strbuf *out, const struct dump_groups *groups,
			  const struct dump_group *group, bool hosts)
{
	if (group->processes == groups->processes && group->processes > 1) {
		strbuf_printf(out, "all %zu processes", group->processes);
		return;
	}
	strbuf_printf(out, "%zu of %zu processes", group->processes, groups->processes);
	for (size_t i = 0; i < group->count; i++) {
		if (i && group->members[i].dump == group->members[i - 1].dump)
			continue;
		strbuf_add_text(out, i ? ", " : ": ");
		put_process(out, dump_of(groups, &group->members[i]), hosts);
	}
}

/* "6 idle, 1 active"; "idle" where all are. */
static void put_activities(struct strbuf *out, const struct dump_groups *groups,
			   const struct dump_group *group)
{
	size_t counts[THREAD_GONE + 1] = {0};
	size_t shown = 0;
	for (size_t i = 0; i < group->count; i++)
		counts[thread_of(groups, &group->members[i])->activity]++;
	for (size_t i = 0; i <= THREAD_GONE; i++) {
		if (counts[i] == group->count)
			strbuf_add_text(out, output_activity(i));
		else if (counts[i])
			strbuf_printf(out, "%s%zu %s", shown++ ? ", " : "", counts[i],
				      output_activity(i));
	}
}

/* ": "MainThread", "Thread-1"", each name once; when there are many, some of them. */
static void put_names(struct strbuf *out, const struct dump_groups *groups,
		      const struct dump_group *group)
{
	const char *names[NAMES_MOST];
	size_t count = 0;
	for (size_t i = 0; i < group->count; i++) {
		const char *name = thread_of(groups, &group->members[i])->name;
		size_t at = 0;
		while (at < count && !same_text(names[at], name))
			at++;
		if (at < count || !name || !*name)
			continue;
		if (count == NAMES_MOST) {
			strbuf_add_text(out, ", ...");
			return;
		}
		names[count] = name;
		strbuf_add_text(out, count++ ? ", \"" : ": \"");
		view_put_clean(out, name);
		strbuf_add_char(out, '"');
	}
}

static bool are_main_threads(const struct dump_groups *groups, const struct dump_group *group)
{
	for (size_t i = 0; i < group->count; i++)
		if (thread_of(groups, &group->members[i])->tid !=
		    dump_of(groups, &group->members[i])->pid)
			return false;
	return true;
}

/* "7 main threads", whose numbers are their processes'; "16 threads 4720, 4721, ..." */
static void put_numbers(struct strbuf *out, const struct dump_groups *groups,
			const struct dump_group *group)
{
	if (are_main_threads(groups, group)) {
		strbuf_printf(out, "%zu main threads", group->count);
		return;
	}
	strbuf_printf(out, "%zu threads ", group->count);
	for (size_t i = 0; i < group->count && i < NUMBERS_MOST; i++)
		strbuf_printf(out, "%s%d", i ? ", " : "",
			      (int)thread_of(groups, &group->members[i])->tid);
	if (group->count > NUMBERS_MOST)
		strbuf_add_text(out, ", ...");
}

static void put_threads(struct strbuf *out, const struct dump_groups *groups,
			const struct dump_group *group, const struct view_options *options)
{
	if (group->count == 1) {
		output_put_thread(out, thread_of(groups, group->members), options->color);
		return;
	}
	output_put_bold(out, options->color);
	put_numbers(out, groups, group);
	strbuf_add_text(out, " (");
	put_activities(out, groups, group);
	strbuf_add_char(out, ')');
	put_names(out, groups, group);
	output_put_plain(out, options->color);
	strbuf_add_char(out, '\n');
}

/* ---- all ---- */

/* What is not Python, and those that may have a Python that cannot be read. */
static void put_others(struct strbuf *out, const struct dump_groups *groups,
		       const struct view_options *options)
{
	bool any = false;
	for (size_t i = 0; i < groups->list->count; i++) {
		const struct dump *dump = &groups->list->dumps[i];
		if (dump->thread_count)
			continue;
		strbuf_add_text(out, any ? "" : "\n");
		any = true;
		output_dump_text(dump, options, out);
	}
}

void output_groups_text(const struct dump_groups *groups, const struct view_options *options,
			struct strbuf *out)
{
	const bool hosts = has_several_hosts(groups);
	put_places(out, groups);
	for (size_t i = 0; i < groups->count; i++) {
		const struct dump_group *group = &groups->groups[i];
		strbuf_add_char(out, '\n');
		output_put_bold(out, options->color);
		put_processes(out, groups, group, hosts);
		output_put_plain(out, options->color);
		strbuf_add_char(out, '\n');
		put_threads(out, groups, group, options);
		output_put_stack(out, thread_of(groups, group->members), options);
	}
	put_others(out, groups, options);
}
