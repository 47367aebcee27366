/* SPDX-License-Identifier: MIT */
/* A bounded queue: full means that a sample is not taken, never that the taker waits. */
#include "record/queue.h"

#include <string.h>
#include <time.h>

#include "record/internal.h"

/* A tick takes some tens of microseconds. */
static const uint64_t TAKING_NS = 200000;

void queue_init(struct queue *queue)
{
	memset(queue, 0, sizeof(*queue));
	queue->most = raw_samples_most();
	pthread_mutex_init(&queue->lock, NULL);
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&queue->filled, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

static struct queue_entry take_first(struct queue *queue)
{
	struct queue_entry entry = queue->ready[queue->ready_first];
	queue->ready_first = (queue->ready_first + 1) % QUEUE_ENTRIES;
	queue->ready_count--;
	if (entry.raw)
		queue->ready_bytes -= raw_sample_footprint(entry.raw);
	return entry;
}

void queue_release(struct queue *queue)
{
	while (queue->free_count)
		raw_sample_free(queue->free[--queue->free_count]);
	while (queue->ready_count)
		raw_sample_free(take_first(queue).raw);
	pthread_cond_destroy(&queue->filled);
	pthread_mutex_destroy(&queue->lock);
}

struct raw_sample *queue_empty(struct queue *queue)
{
	struct raw_sample *raw = NULL;
	pthread_mutex_lock(&queue->lock);
	bool may_make = false;
	if (queue->ready_bytes < QUEUE_BYTES) {
		if (queue->free_count) {
			raw = queue->free[--queue->free_count];
			queue->free_bytes -= raw_sample_footprint(raw);
			if (queue->free_count < queue->least_free)
				queue->least_free = queue->free_count;
		} else {
			may_make = queue->made < queue->most;
			queue->made += may_make;
		}
	}
	pthread_mutex_unlock(&queue->lock);
	return may_make ? raw_sample_new() : raw;
}

static void put(struct queue *queue, struct raw_sample *raw, size_t at)
{
	memmove(queue->free + at + 1, queue->free + at,
		(queue->free_count - at) * sizeof(*queue->free));
	queue->free[at] = raw;
	queue->free_count++;
	queue->free_bytes += raw_sample_footprint(raw);
}

/* One that has not been needed for long, or NULL: they are at the far end. */
static struct raw_sample *take_idle(struct queue *queue)
{
	if (++queue->turns >= QUEUE_TURNS) {
		queue->turns = 0;
		queue->idle = queue->least_free;
		queue->least_free = queue->free_count;
	}
	if (queue->idle > queue->free_count)
		queue->idle = queue->free_count;
	if (queue->idle == 0)
		return NULL;
	queue->idle--;
	queue->free_count--;
	queue->made--;
	struct raw_sample *raw = queue->free[0];
	memmove(queue->free, queue->free + 1, queue->free_count * sizeof(*queue->free));
	queue->free_bytes -= raw_sample_footprint(raw);
	return raw;
}

/*
 * The last one given back is used next, and keeps its memory for that, as do those that are needed
 * now and then. Others are freed, one at a time; those beyond QUEUE_KEPT go to the far end without
 * their memory.
 */
void queue_give_back(struct queue *queue, struct raw_sample *raw)
{
	raw_sample_reset(raw);
	pthread_mutex_lock(&queue->lock);
	struct raw_sample *idle = take_idle(queue);
	if (queue->free_bytes == 0 || queue->free_bytes + raw_sample_footprint(raw) <= QUEUE_KEPT) {
		put(queue, raw, queue->free_count);
		raw = NULL;
	}
	pthread_mutex_unlock(&queue->lock);
	raw_sample_free(idle);
	if (!raw)
		return;
	raw_sample_trim(raw);
	pthread_mutex_lock(&queue->lock);
	put(queue, raw, 0);
	pthread_mutex_unlock(&queue->lock);
}

static void add(struct queue *queue, struct queue_entry entry)
{
	const size_t bytes = entry.raw ? raw_sample_footprint(entry.raw) : 0;
	atomic_fetch_add(&entry.watched->in_use, 1);
	queue->pushed++;
	queue->ready[(queue->ready_first + queue->ready_count++) % QUEUE_ENTRIES] = entry;
	queue->ready_bytes += bytes;
	/*
	 * Woken for each sample, the worker's CPU would go idle as often, and an idle CPU pulls
	 * the target over from the one that the taker has just made it wait on. But large samples
	 * are soon as much as is kept: the next ones would touch new memory, in the pause.
	 */
	if (queue->ready_count == QUEUE_BATCH ||
	    (bytes && queue->ready_bytes >= QUEUE_BATCH_BYTES &&
	     queue->ready_bytes - bytes < QUEUE_BATCH_BYTES))
		pthread_cond_signal(&queue->filled);
}

void queue_push(struct queue *queue, struct raw_sample *raw, struct watched_thread *watched)
{
	pthread_mutex_lock(&queue->lock);
	/* There is room: queue_push_repeat leaves a place for every raw sample. */
	add(queue, (struct queue_entry){raw, watched, 1, raw->time_ns});
	pthread_mutex_unlock(&queue->lock);
}

bool queue_push_repeat(struct queue *queue, struct watched_thread *watched, uint64_t ticks,
		       uint64_t last_ns)
{
	pthread_mutex_lock(&queue->lock);
	bool room = queue->ready_count < QUEUE_ENTRIES - QUEUE_SAMPLES;
	if (room)
		add(queue, (struct queue_entry){NULL, watched, ticks, last_ns});
	pthread_mutex_unlock(&queue->lock);
	return room;
}

void queue_wake(struct queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	queue->woken = true;
	pthread_cond_signal(&queue->filled);
	pthread_mutex_unlock(&queue->lock);
}

void queue_close(struct queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	queue->closed = true;
	pthread_cond_signal(&queue->filled);
	pthread_mutex_unlock(&queue->lock);
}

/*
 * Going to sleep makes a CPU look for work, and it finds the thread that the taker keeps off its
 * own: so the worker does that while the taker sleeps. Not for ever: that may wait for this CPU.
 */
static void let_taker_end(const struct queue *queue)
{
	const uint64_t start = clock_now_ns();
	while (atomic_load(&queue->taking) && clock_now_ns() - start < TAKING_NS)
		__builtin_ia32_pause();
}

bool queue_pop(struct queue *queue, unsigned patience_ms, struct queue_entry *entry,
	       size_t *waiting, bool *closed)
{
	uint64_t end = clock_now_ns() + patience_ms * UINT64_C(1000000);
	struct timespec deadline = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
	pthread_mutex_lock(&queue->lock);
	if (queue->ready_count == 0) {
		pthread_mutex_unlock(&queue->lock);
		let_taker_end(queue);
		pthread_mutex_lock(&queue->lock);
	}
	while (queue->ready_count == 0 && !queue->closed && !queue->woken)
		if (pthread_cond_timedwait(&queue->filled, &queue->lock, &deadline))
			break;
	bool found = queue->ready_count > 0;
	queue->woken = false;
	if (found)
		*entry = take_first(queue);
	*waiting = queue->ready_count;
	*closed = queue->closed && !found;
	pthread_mutex_unlock(&queue->lock);
	return found;
}

void queue_done(struct queue *queue, const struct queue_entry *entry)
{
	if (entry->raw)
		queue_give_back(queue, entry->raw);
	queue->done++;
	/* Last: the thread may be freed from now on. */
	atomic_fetch_sub(&entry->watched->in_use, 1);
}
