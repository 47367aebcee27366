/* SPDX-License-Identifier: MIT */
/*
 * Ticks at which a sample of a thread was asked for and none was taken: was it as in its last
 * sample, as in its next one, or is that not known? What becomes of each is counted, see struct
 * profile_counts. All of it is the taker's.
 */
#ifndef RECORD_UNSAMPLED_H
#define RECORD_UNSAMPLED_H

#include "record/recording.h"

/* Samples of as many ticks are asked of a thread ... */
void unsampled_ask(struct recorder *recorder, uint64_t ticks);
/* ... and what it did then is not known. */
void unsampled_ask_late(struct recorder *recorder, uint64_t ticks);

/*
 * It was as in its last sample, which may still wait for the worker, at so many ticks up to
 * last_ns.
 */
void unsampled_repeat(struct recorder *recorder, struct watched_thread *watched, uint64_t ticks,
		      uint64_t last_ns, uint64_t now_ns);

/*
 * Reports to the worker how long the thread was as in its last sample; what was to be as in a
 * sample that was not taken is dropped. False: there is no room for that, and nothing is lost.
 */
bool unsampled_flush(struct recorder *recorder, struct watched_thread *watched);

/* Its last sample could not be decoded, or not whole, or is still to come. */
bool unsampled_is_pending(const struct watched_thread *watched);

/*
 * Ticks that have passed since it was looked at last: it has run since its last sample. Returns at
 * how many of them it was as it is now.
 */
uint64_t unsampled_look_back(struct recorder *recorder, struct watched_thread *watched,
			     uint64_t ticks, uint64_t now_ns);

/* Has it been sampled as it is since that position of its log? Then it was so at those ticks, too.
 */
void unsampled_settle_after(struct recorder *recorder, struct watched_thread *watched,
			    uint64_t position, uint64_t ticks);

/* There is no room for a sample of it: while it sleeps on, that can be taken later. False: it does
 * not sleep. */
bool unsampled_defer(struct watched_thread *watched);

/*
 * It has been taken, or not (`taken`): is that also what it was at the ticks before, which have no
 * sample? Stopped in the call that it was seen in, it is. `runs`: how often it had run when it was
 * put off.
 */
void unsampled_settle(struct recorder *recorder, struct watched_thread *watched,
		      const struct target_wait *wait, const struct raw_sample *raw, bool taken,
		      uint64_t runs);

#endif
