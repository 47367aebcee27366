/* SPDX-License-Identifier: MIT */
/* A bounded queue: full means that a sample is not taken, never that the taker waits. */
#include "sample/queue.h"

#include <string.h>
#include <time.h>

#include "sample/internal.h"

void queue_init(struct queue *queue)
{
	memset(queue, 0, sizeof(*queue));
	pthread_mutex_init(&queue->lock, NULL);
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&queue->filled, &monotonic);
	pthread_condattr_destroy(&monotonic);
	for (size_t i = 0; i < QUEUE_SIZE; i++)
		queue->free[queue->free_count++] = raw_sample_new();
}

void queue_release(struct queue *queue)
{
	while (queue->free_count)
		raw_sample_free(queue->free[--queue->free_count]);
	for (; queue->ready_count; queue->ready_count--)
		raw_sample_free(queue->ready[queue->ready_first++ % QUEUE_SIZE]);
	pthread_cond_destroy(&queue->filled);
	pthread_mutex_destroy(&queue->lock);
}

struct raw_sample *queue_empty(struct queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	struct raw_sample *raw = queue->free_count ? queue->free[--queue->free_count] : NULL;
	pthread_mutex_unlock(&queue->lock);
	return raw;
}

void queue_give_back(struct queue *queue, struct raw_sample *raw)
{
	pthread_mutex_lock(&queue->lock);
	queue->free[queue->free_count++] = raw;
	pthread_mutex_unlock(&queue->lock);
}

void queue_push(struct queue *queue, struct raw_sample *raw)
{
	pthread_mutex_lock(&queue->lock);
	queue->ready[(queue->ready_first + queue->ready_count++) % QUEUE_SIZE] = raw;
	/*
	 * Woken for each sample, the worker's CPU would go idle as often, and an idle CPU pulls
	 * the target over from the one that the taker has just made it wait on.
	 */
	if (queue->ready_count == QUEUE_BATCH)
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

struct raw_sample *queue_pop(struct queue *queue, unsigned patience_ms, bool *closed)
{
	uint64_t end = clock_now_ns() + patience_ms * 1000000u;
	struct timespec deadline = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
	pthread_mutex_lock(&queue->lock);
	while (queue->ready_count == 0 && !queue->closed)
		if (pthread_cond_timedwait(&queue->filled, &queue->lock, &deadline))
			break;
	struct raw_sample *raw = NULL;
	if (queue->ready_count) {
		raw = queue->ready[queue->ready_first];
		queue->ready_first = (queue->ready_first + 1) % QUEUE_SIZE;
		queue->ready_count--;
	}
	*closed = queue->closed && !raw;
	pthread_mutex_unlock(&queue->lock);
	return raw;
}
