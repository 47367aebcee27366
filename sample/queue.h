/* SPDX-License-Identifier: MIT */
/* Raw samples on their way from the taker to the worker and back: a fixed number of them. */
#ifndef SAMPLE_QUEUE_H
#define SAMPLE_QUEUE_H

#include <pthread.h>
#include <stdbool.h>

#include "base/types.h"

struct raw_sample;

enum { QUEUE_SIZE = 256, QUEUE_BATCH = 64 };

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t filled;
	struct raw_sample *free[QUEUE_SIZE], *ready[QUEUE_SIZE];
	size_t free_count, ready_first, ready_count;
	bool closed;
};

void queue_init(struct queue *queue);
void queue_release(struct queue *queue);

/* The taker: an empty sample, or NULL when the worker lags behind. Does not wait. */
struct raw_sample *queue_empty(struct queue *queue);
void queue_give_back(struct queue *queue, struct raw_sample *raw); /* unused, or decoded */
void queue_push(struct queue *queue, struct raw_sample *raw);
void queue_close(struct queue *queue);

/* The worker: the oldest sample; it sleeps until QUEUE_BATCH of them are there or its patience
 * is over, so that it wakes seldom. NULL after `patience_ms` without one, or (*closed) at the end.
 */
struct raw_sample *queue_pop(struct queue *queue, unsigned patience_ms, bool *closed);

#endif
