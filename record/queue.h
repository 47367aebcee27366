/* SPDX-License-Identifier: MIT */
/*
 * Raw samples on their way from the taker to the worker and back: a limited number of them, and of
 * bytes in them, so that a worker which lags behind costs samples and not memory.
 */
#ifndef RECORD_QUEUE_H
#define RECORD_QUEUE_H

#include <pthread.h>
#include <stdbool.h>

#include "base/types.h"
#include "copy/raw_sample.h"

struct watched_thread;

enum {
	QUEUE_SAMPLES = RAW_SAMPLES_MOST,
	QUEUE_ENTRIES = 4096, /* a power of two; those that repeat a sample need no raw one */
	QUEUE_BATCH = 32,
	QUEUE_LAG = 4 * QUEUE_BATCH, /* entries waiting: the worker lags behind */
	QUEUE_BATCH_BYTES = 1 << 20, /* or so much in raw samples */
	QUEUE_BYTES = 64 << 20,	     /* waiting to be decoded, all together */
	QUEUE_KEPT = 4 << 20,	     /* in memory of raw samples that nobody needs at the moment */
	QUEUE_TURNS = 16384,	     /* that one of them was not needed in: it is freed */
};

/* A raw sample, or NULL: the thread has not run since its last one, at `ticks` ticks. */
struct queue_entry {
	struct raw_sample *raw;
	struct watched_thread *watched; /* whose it is */
	uint64_t ticks;
	uint64_t last_ns; /* of the last of these ticks */
};

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t filled;
	struct raw_sample *free[QUEUE_SAMPLES]; /* the next one to be used is the last */
	struct queue_entry ready[QUEUE_ENTRIES];
	size_t free_count, made, most, ready_first, ready_count;
	size_t ready_bytes, free_bytes;
	size_t turns, least_free; /* since the last look for idle ones */
	size_t idle; /* of the free ones, how many from the far end on are to be freed */
	bool closed, woken;
	uint64_t pushed, done; /* entries so far: the taker's, the worker's */
	_Atomic bool taking;   /* the taker is awake, and keeps threads off its CPU */
};

void queue_init(struct queue *queue);
void queue_release(struct queue *queue);

/* The taker: an empty sample, or NULL when the worker lags behind. Does not wait. */
struct raw_sample *queue_empty(struct queue *queue);
void queue_give_back(struct queue *queue, struct raw_sample *raw); /* it was not used */
void queue_push(struct queue *queue, struct raw_sample *raw, struct watched_thread *watched);

/* The taker: the thread's last sample counts that many times more, the last time at last_ns. False:
 * there is no room. */
bool queue_push_repeat(struct queue *queue, struct watched_thread *watched, uint64_t ticks,
		       uint64_t last_ns);

void queue_close(struct queue *queue);

/* The worker is to look at once, though there is nothing in the queue: queue_pop returns. */
void queue_wake(struct queue *queue);

/*
 * The worker: the oldest entry, and how many wait behind it. It sleeps until a batch of them is
 * there or its patience is over, so that it wakes seldom. False when there was none for
 * `patience_ms`, or (*closed) at the end.
 */
bool queue_pop(struct queue *queue, unsigned patience_ms, struct queue_entry *entry,
	       size_t *waiting, bool *closed);

/* The worker: what was popped has been decoded and counted. */
void queue_done(struct queue *queue, const struct queue_entry *entry);

#endif
