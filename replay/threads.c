/* SPDX-License-Identifier: MIT */
#include "replay/threads.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "frames/frames.h"

void replay_threads_release(struct replay_threads *threads)
{
	for (size_t i = 0; i < threads->count; i++)
		free(threads->threads[i].ids);
	free(threads->threads);
	table_release(&threads->by_tid);
}

struct replay_thread *replay_thread_of(struct replay_threads *threads, pid_t tid)
{
	uint32_t index;
	if (table_find(&threads->by_tid, (uint64_t)tid, 0, &index))
		return &threads->threads[index];
	threads->threads = alloc_room(threads->threads, &threads->capacity, threads->count + 1,
				      sizeof(*threads->threads));
	index = (uint32_t)threads->count++;
	threads->threads[index] =
		(struct replay_thread){.root = NO_ROOT, .tid = tid, .number = TIMELINE_NONE};
	table_put(&threads->by_tid, (uint64_t)tid, 0, index);
	return &threads->threads[index];
}

void replay_thread_name(struct replay_thread *thread, struct profile *tree, const char *name)
{
	thread->name = name;
	if (thread->number != TIMELINE_NONE)
		tree->timeline.threads[thread->number].name = name;
}

static uint32_t number_of(struct replay_thread *thread, struct timeline *timeline)
{
	if (thread->number == TIMELINE_NONE)
		thread->number =
			timeline_thread(timeline, &(struct profile_thread){.tid = thread->tid,
									   .name = thread->name});
	timeline->threads[thread->number].known_to_python |= thread->known_to_python;
	return thread->number;
}

static uint64_t since_first(struct replay_threads *threads, uint64_t time_ns)
{
	if (!threads->started)
		threads->start_ns = time_ns;
	threads->started = true;
	return time_ns > threads->start_ns ? time_ns - threads->start_ns : 0;
}

void replay_thread_count(struct replay_threads *threads, struct replay_thread *thread,
			 struct profile *tree, uint64_t time_ns, uint32_t flags)
{
	const uint32_t node = profile_add(tree, thread->ids, thread->count, 1);
	if (!tree->timed)
		return;
	timeline_add(&tree->timeline,
		     &(struct profile_sample){.time_ns = since_first(threads, time_ns),
					      .node = node,
					      .thread = number_of(thread, &tree->timeline),
					      .count = 1,
					      .flags = flags});
}

void replay_thread_repeat(struct replay_threads *threads, struct replay_thread *thread,
			  struct profile *tree, uint64_t time_ns)
{
	profile_add(tree, thread->ids, thread->count, 1);
	if (!tree->timed)
		return;
	/* A file may say late that it has times: then there is no run to repeat. */
	timeline_repeat(&tree->timeline, number_of(thread, &tree->timeline), 1,
			since_first(threads, time_ns));
}
