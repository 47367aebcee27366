/* SPDX-License-Identifier: MIT */
/* Interned strings: an arena for the bytes and a table of chains by hash. */
#include "base/intern.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/table.h"

struct entry {
	struct entry *next;
	size_t size;
	char text[];
};

struct interner {
	struct arena arena;
	struct entry **buckets;
	size_t bucket_count, count;
};

struct interner *interner_new(void)
{
	struct interner *interner = alloc_zeroed(1, sizeof(*interner));
	arena_init(&interner->arena);
	interner->bucket_count = 1024;
	interner->buckets = alloc_zeroed(interner->bucket_count, sizeof(*interner->buckets));
	return interner;
}

void interner_free(struct interner *interner)
{
	if (!interner)
		return;
	arena_release(&interner->arena);
	free(interner->buckets);
	free(interner);
}

static void grow(struct interner *interner)
{
	size_t count = interner->bucket_count * 2;
	struct entry **buckets = alloc_zeroed(count, sizeof(*buckets));
	for (size_t i = 0; i < interner->bucket_count; i++) {
		struct entry *entry = interner->buckets[i];
		while (entry) {
			struct entry *next = entry->next;
			size_t slot = hash_bytes(entry->text, entry->size) & (count - 1);
			entry->next = buckets[slot];
			buckets[slot] = entry;
			entry = next;
		}
	}
	free(interner->buckets);
	interner->buckets = buckets;
	interner->bucket_count = count;
}

const char *intern_bytes(struct interner *interner, const void *bytes, size_t size)
{
	uint64_t hash = hash_bytes(bytes, size);
	struct entry *entry = interner->buckets[hash & (interner->bucket_count - 1)];
	for (; entry; entry = entry->next)
		if (entry->size == size && memcmp(entry->text, bytes, size) == 0)
			return entry->text;
	if (interner->count++ >= interner->bucket_count)
		grow(interner);
	entry = arena_alloc(&interner->arena, sizeof(*entry) + size + 1);
	entry->size = size;
	if (size)
		memcpy(entry->text, bytes, size);
	struct entry **slot = &interner->buckets[hash & (interner->bucket_count - 1)];
	entry->next = *slot;
	*slot = entry;
	return entry->text;
}

const char *intern_text(struct interner *interner, const char *text)
{
	return intern_bytes(interner, text, strlen(text));
}
