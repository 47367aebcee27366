/* SPDX-License-Identifier: MIT */
/* The threads under watch: found when they start, let go when they end. */
#include "sample/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"

/* A look at the list of threads may take that part of the time: it costs a microsecond a thread. */
enum { LOOK_SHARE = 32 };
static const uint64_t LOOK_NS = 1000000000; /* and without any sign of a change, after that time */
static const uint64_t SIGN_NS = 4000000;    /* between two looks for such signs */
static const uint64_t PAIR_NS = 20000000;   /* as many as before, but some of them may be others */

void slots_init(struct slots *slots)
{
	memset(slots, 0, sizeof(*slots));
	table_init(&slots->by_tid);
}

static void slot_free(struct thread_slot *slot)
{
	target_thread_files_close(slot->files);
	hold_release(&slot->hold);
	prediction_release(&slot->prediction);
	free(slot->noted);
	free(slot->stopped_call);
	free(slot->last_stack);
	free(slot);
}

void slots_release(struct slots *slots)
{
	for (size_t i = 0; i < slots->count; i++)
		slot_free(slots->slots[i]);
	for (size_t i = 0; i < slots->gone_count; i++)
		slot_free(slots->gone[i]);
	free(slots->slots);
	free(slots->gone);
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

static void put(struct slots *slots, size_t index, struct thread_slot *slot)
{
	slots->slots[index] = slot;
	slot->index = (uint32_t)index;
	table_put(&slots->by_tid, (uint64_t)slot->tid, 0, slot->index);
}

static void swap(struct slots *slots, size_t a, size_t b)
{
	struct thread_slot *slot = slots->slots[a];
	put(slots, a, slots->slots[b]);
	put(slots, b, slot);
}

void slots_wake(struct slots *slots, struct thread_slot *slot)
{
	if (slot->index >= slots->awake_count)
		swap(slots, slot->index, slots->awake_count++);
}

void slots_lay_down(struct slots *slots, struct thread_slot *slot)
{
	if (slot->index < slots->awake_count)
		swap(slots, slot->index, --slots->awake_count);
}

static void add(struct slots *slots, const struct target *target, pid_t tid)
{
	struct target_thread thread;
	struct target_thread_files *files;
	struct error error;
	if (!target_thread_read(target, tid, &thread))
		return; /* it ended just now */
	if (!target_thread_files_open(target, tid, &files, &error)) {
		log_debug("sample", "%s", error.message);
		return;
	}
	struct thread_slot *slot = alloc_zeroed(1, sizeof(*slot));
	slot->tid = tid;
	slot->namespace_tid = thread.namespace_tid;
	slot->files = files;
	slot->root_frame = slot->last_node = PROFILE_NONE;
	slot->listed = true;
	slot->state = thread.state;
	snprintf(slot->comm, sizeof(slot->comm), "%s", thread.name);
	slots->slots =
		alloc_room(slots->slots, &slots->capacity, slots->count + 1, sizeof(*slots->slots));
	put(slots, slots->count++, slot);
	slots_wake(slots, slot);
}

struct thread_slot *slots_find(const struct slots *slots, pid_t tid)
{
	uint32_t index;
	if (!table_find(&slots->by_tid, (uint64_t)tid, 0, &index) || slots->slots[index]->gone)
		return NULL;
	return slots->slots[index];
}

static void free_gone(struct slots *slots)
{
	size_t kept = 0;
	for (size_t i = 0; i < slots->gone_count; i++) {
		if (slots->gone[i]->repeats || atomic_load(&slots->gone[i]->in_use))
			slots->gone[kept++] = slots->gone[i];
		else
			slot_free(slots->gone[i]);
	}
	slots->gone_count = kept;
}

static void set_aside(struct slots *slots, struct thread_slot *slot)
{
	slot->gone = true;
	target_thread_files_close(slot->files);
	slot->files = NULL;
	hold_release(&slot->hold);
	slots->gone = alloc_room(slots->gone, &slots->gone_capacity, slots->gone_count + 1,
				 sizeof(*slots->gone));
	slots->gone[slots->gone_count++] = slot;
}

static void let_go(struct slots *slots)
{
	size_t kept = 0, awake = 0;
	for (size_t i = 0; i < slots->count; i++) {
		struct thread_slot *slot = slots->slots[i];
		if (!slot->listed || slot->gone) {
			set_aside(slots, slot);
			continue;
		}
		awake += i < slots->awake_count;
		slots->slots[kept++] = slot;
	}
	if (kept < slots->count) {
		slots->count = kept;
		slots->awake_count = awake;
		table_clear(&slots->by_tid);
		for (size_t i = 0; i < kept; i++)
			put(slots, i, slots->slots[i]);
	}
	free_gone(slots);
}

bool slots_check_wanted(const struct slots *slots, const struct target *target,
			const struct session_options *options, struct error *error)
{
	for (size_t i = 0; i < options->thread_count; i++)
		if (!slots_find(slots, options->threads[i]))
			return error_set(error, ERROR_GONE, "process %d has no thread %d",
					 (int)target_pid(target), (int)options->threads[i]);
	return true;
}

/* Threads may have been made since, or ended without our being told. */
static bool shows_change(struct slots *slots, const struct target *target, bool ends_are_told,
			 uint64_t now)
{
	if (now - slots->signs_ns < SIGN_NS)
		return false;
	slots->signs_ns = now;
	if (!target_no_births(target, &slots->births))
		slots->born = true;
	else if (!slots->born && ends_are_told)
		return false;
	return target_thread_count(target) != slots->thread_count ||
	       (slots->born && now - slots->looked_ns >= PAIR_NS);
}

static bool is_due(struct slots *slots, const struct target *target,
		   const struct session_options *options, uint64_t now)
{
	if (now < slots->next_look_ns)
		return false;
	return now - slots->looked_ns >= LOOK_NS ||
	       shows_change(slots, target, !options->nonblocking, now);
}

void slots_end(struct slots *slots, pid_t tid)
{
	struct thread_slot *slot = slots_find(slots, tid);
	slots->thread_count -= slots->thread_count > 0;
	if (slot)
		slot->gone = true;
}

bool slots_refresh(struct slots *slots, const struct target *target,
		   const struct session_options *options, struct error *error)
{
	pid_t *tids;
	size_t count;
	uint64_t start = clock_now_ns();
	if (slots->looked_ns && !is_due(slots, target, options, start))
		return true;
	slots->looked_ns = start;
	slots->born = false;
	slots->thread_count = target_thread_count(target);
	if (!target_thread_list(target, &tids, &count, error))
		return false;
	for (size_t i = 0; i < slots->count; i++)
		slots->slots[i]->listed = false;
	for (size_t i = 0; i < count; i++) {
		if (!wanted(options, tids[i]))
			continue;
		struct thread_slot *slot = slots_find(slots, tids[i]);
		if (slot)
			slot->listed = true;
		else
			add(slots, target, tids[i]);
	}
	let_go(slots);
	free(tids);
	uint64_t end = clock_now_ns();
	slots->next_look_ns = end + (LOOK_SHARE - 1) * (end - start);
	return true;
}

void slots_forget(struct slots *slots)
{
	for (size_t i = 0; i < slots->count; i++)
		slots->slots[i]->gone = true;
	slots->next_look_ns = slots->looked_ns = 0;
}

void slots_join(struct slots *slots, const struct join *join)
{
	for (size_t i = 0; i < slots->count; i++)
		if (!slots->slots[i]->gone)
			join_slot(join, slots->slots[i]);
}
