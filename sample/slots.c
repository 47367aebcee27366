/* SPDX-License-Identifier: MIT */
/* The threads under watch: found when they start, let go when they end. */
#include "sample/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void slots_init(struct slots *slots)
{
	memset(slots, 0, sizeof(*slots));
	table_init(&slots->by_tid);
}

static void slot_free(struct thread_slot *slot)
{
	target_thread_files_close(slot->files);
	prediction_release(&slot->prediction);
	free(slot->last_stack);
	free(slot);
}

void slots_release(struct slots *slots)
{
	for (size_t i = 0; i < slots->count; i++)
		slot_free(slots->slots[i]);
	free(slots->slots);
	table_release(&slots->by_tid);
	slots_init(slots);
}

static bool wanted(const struct session_options *options, pid_t tid)
{
	for (size_t i = 0; i < options->thread_count; i++)
		if (options->threads[i] == tid)
			return true;
	return options->thread_count == 0;
}

static void add(struct slots *slots, const struct target *target,
		const struct target_thread *thread)
{
	struct target_thread_files *files;
	if (!target_thread_files_open(target, thread->tid, &files, NULL))
		return; /* it ended just now */
	struct thread_slot *slot = alloc_zeroed(1, sizeof(*slot));
	slot->tid = thread->tid;
	slot->namespace_tid = thread->namespace_tid;
	slot->files = files;
	slot->root_frame = PROFILE_NONE;
	slot->listed = true;
	slot->state = thread->state;
	snprintf(slot->comm, sizeof(slot->comm), "%s", thread->name);
	slots->slots =
		alloc_room(slots->slots, &slots->capacity, slots->count + 1, sizeof(*slots->slots));
	table_put(&slots->by_tid, (uint64_t)thread->tid, 0, (uint32_t)slots->count);
	slots->slots[slots->count++] = slot;
}

/* The slot of a thread that is still the same one; NULL: new. */
static struct thread_slot *find(const struct slots *slots, pid_t tid)
{
	uint32_t index;
	if (!table_find(&slots->by_tid, (uint64_t)tid, 0, &index) || slots->slots[index]->gone)
		return NULL;
	return slots->slots[index];
}

static void let_go(struct slots *slots)
{
	for (size_t i = 0; i < slots->count; i++) {
		struct thread_slot *slot = slots->slots[i];
		if (slot->listed || slot->gone)
			continue;
		slot->gone = true;
		target_thread_files_close(slot->files);
		slot->files = NULL;
	}
}

bool slots_check_wanted(const struct slots *slots, const struct target *target,
			const struct session_options *options, struct error *error)
{
	for (size_t i = 0; i < options->thread_count; i++)
		if (!find(slots, options->threads[i]))
			return error_set(error, ERROR_GONE, "process %d has no thread %d",
					 (int)target_pid(target), (int)options->threads[i]);
	return true;
}

bool slots_refresh(struct slots *slots, const struct target *target,
		   const struct session_options *options, struct error *error)
{
	struct target_thread *threads;
	size_t count;
	if (!target_threads(target, &threads, &count, error))
		return false;
	for (size_t i = 0; i < slots->count; i++)
		slots->slots[i]->listed = false;
	for (size_t i = 0; i < count; i++) {
		if (!wanted(options, threads[i].tid))
			continue;
		struct thread_slot *slot = find(slots, threads[i].tid);
		if (slot)
			slot->listed = true;
		else
			add(slots, target, &threads[i]);
	}
	let_go(slots);
	free(threads);
	return true;
}

void slots_join(struct slots *slots, const struct join *join)
{
	for (size_t i = 0; i < slots->count; i++)
		if (!slots->slots[i]->gone)
			join_slot(join, slots->slots[i]);
}
