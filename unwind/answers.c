/* SPDX-License-Identifier: MIT */
/*
 * What was found out about addresses, in a fixed size: a long recording meets ever more program
 * counters, most of them once. Each address has one bucket, the size of a cache line; a new answer
 * takes the place of the oldest in it. What was dropped is found out again.
 */
#include "unwind/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/table.h"

enum { BUCKETS = 4096 };

static struct answer *bucket_of(const struct answers *answers, remote_addr address, uint32_t key)
{
	return answers->entries + hash_pair(address, key) % BUCKETS * ANSWER_BUCKET;
}

bool answers_find(const struct answers *answers, remote_addr address, uint32_t key,
		  uint32_t *answer)
{
	if (!answers->entries)
		return false;
	const struct answer *bucket = bucket_of(answers, address, key);
	for (size_t i = 0; i < ANSWER_BUCKET; i++)
		if (bucket[i].address == address && bucket[i].key1 == key + 1) {
			*answer = bucket[i].answer;
			return true;
		}
	return false;
}

void answers_put(struct answers *answers, remote_addr address, uint32_t key, uint32_t answer)
{
	if (!answers->entries)
		answers->entries =
			alloc_zeroed((size_t)BUCKETS * ANSWER_BUCKET, sizeof(*answers->entries));
	struct answer *bucket = bucket_of(answers, address, key);
	size_t place = 0;
	while (place < ANSWER_BUCKET - 1 &&
	       (bucket[place].address != address || bucket[place].key1 != key + 1))
		place++;
	memmove(bucket + 1, bucket, place * sizeof(*bucket));
	bucket[0] = (struct answer){address, key + 1, answer};
}

void answers_clear(struct answers *answers)
{
	if (answers->entries)
		memset(answers->entries, 0,
		       (size_t)BUCKETS * ANSWER_BUCKET * sizeof(*answers->entries));
}

void answers_release(struct answers *answers)
{
	free(answers->entries);
	answers->entries = NULL;
}
