/* SPDX-License-Identifier: MIT */
/* The table of threads that are traced, in order of their numbers, and of their processes. */
#include "target/tracer_internal.h"

#include <string.h>

/* Where the thread is, or would go. */
static size_t position(const struct tracer *tracer, pid_t tid)
{
	size_t low = 0, high = tracer->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (tracer->threads[middle].tid < tid)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct traced *traced_find(const struct tracer *tracer, pid_t tid)
{
	size_t at = position(tracer, tid);
	return at < tracer->count && tracer->threads[at].tid == tid ? &tracer->threads[at] : NULL;
}

struct traced_process *traced_find_process(const struct tracer *tracer, pid_t pid)
{
	for (size_t i = 0; i < tracer->process_count; i++)
		if (tracer->processes[i].pid == pid)
			return &tracer->processes[i];
	return NULL;
}

struct traced_process *traced_add_process(struct tracer *tracer, pid_t pid)
{
	tracer->processes = alloc_room(tracer->processes, &tracer->process_capacity,
				       tracer->process_count + 1, sizeof(*tracer->processes));
	struct traced_process *process = &tracer->processes[tracer->process_count++];
	*process = (struct traced_process){.pid = pid};
	return process;
}

bool traced_has_news(const struct traced_process *process)
{
	return process->born || process->ended || process->emptied;
}

void traced_drop_process(struct tracer *tracer, struct traced_process *process)
{
	tracer->news -= traced_has_news(process);
	*process = tracer->processes[--tracer->process_count];
}

struct traced *traced_insert(struct tracer *tracer, struct traced_process *process, pid_t tid)
{
	size_t at = position(tracer, tid);
	memmove(&tracer->threads[at + 1], &tracer->threads[at],
		(tracer->count - at) * sizeof(*tracer->threads));
	tracer->threads[at] = (struct traced){.tid = tid, .pid = process->pid};
	tracer->count++;
	process->threads++;
	return &tracer->threads[at];
}

struct traced *traced_add(struct tracer *tracer, struct traced_process *process, pid_t tid)
{
	tracer->threads = alloc_room(tracer->threads, &tracer->capacity, tracer->count + 1,
				     sizeof(*tracer->threads));
	return traced_insert(tracer, process, tid);
}

void traced_drop(struct tracer *tracer, struct traced *thread)
{
	size_t at = (size_t)(thread - tracer->threads);
	struct traced_process *process = traced_find_process(tracer, thread->pid);
	if (process)
		process->threads--;
	tracer->events -= thread->event != TRACER_NOTHING;
	tracer->count--;
	memmove(thread, thread + 1, (tracer->count - at) * sizeof(*thread));
}

void traced_drop_threads(struct tracer *tracer, struct traced_process *process)
{
	size_t kept = 0;
	for (size_t i = 0; i < tracer->count; i++) {
		const struct traced *thread = &tracer->threads[i];
		if (thread->pid == process->pid)
			tracer->events -= thread->event != TRACER_NOTHING;
		else
			tracer->threads[kept++] = *thread;
	}
	tracer->count = kept;
	process->threads = 0;
}

void traced_set_event(struct tracer *tracer, struct traced *thread, enum tracer_event event)
{
	tracer->events += thread->event == TRACER_NOTHING;
	thread->event = event;
	thread->stopped = false;
}
