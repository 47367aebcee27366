/* SPDX-License-Identifier: MIT */
/*
 * A raw sample: byte ranges copied from a stopped thread, and a memory_reader over them. While
 * the sample is live, a read that finds nothing copies it from the target and keeps it; a replayed
 * sample answers the same reads from what was kept. Memory is reserved once and touched as
 * needed, so that nothing here allocates in the pause.
 */
#include "copy/raw_sample.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/reserve.h"

enum {
	INDEX_SIZE = 2 * RAW_MAX_RANGES,
	FIRST_INDEX_SIZE = 512,
	GATHER = 1024,
	SMALL = 1 << 20,   /* bytes that a sample may keep for ever */
	PATIENCE = 64,	   /* small samples in a row before a large one's memory is given back */
	LEAST_SHARE = 256, /* of what is reserved where address space is limited */
};

_Static_assert((INDEX_SIZE & (INDEX_SIZE - 1)) == 0, "the index is a power of two");
_Static_assert(INDEX_SIZE / LEAST_SHARE >= FIRST_INDEX_SIZE, "an index that is used");

/*
 * Address space for *count items; memory comes as it is touched. Where not so much of it may be
 * had (ulimit -v, overcommit_memory 2), a half, a quarter ...: very deep stacks do not fit then.
 */
static void *reserve(size_t *count, size_t size, size_t share)
{
	for (; share <= LEAST_SHARE; share *= 2) {
		void *memory = mmap(NULL, *count / share * size, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (memory == MAP_FAILED)
			continue;
		*count /= share;
		return memory;
	}
	return reserve_use() ? reserve(count, size, LEAST_SHARE)
			     : alloc_zeroed(1, SIZE_MAX / 2); /* out of memory */
}

static bool is_limited(struct rlimit *limit)
{
	return getrlimit(RLIMIT_AS, limit) == 0 && limit->rlim_cur != RLIM_INFINITY;
}

size_t raw_samples_most(void)
{
	struct rlimit limit;

	return is_limited(&limit) ? RAW_SAMPLES_LIMITED : RAW_SAMPLES_MOST;
}

/* What is left of a limited address space is needed for all else: a full queue gets a quarter. */
static size_t first_share(const struct raw_sample *raw)
{
	const uint64_t whole = raw->store.range_capacity * sizeof(*raw->store.ranges) +
			       raw->store.byte_capacity +
			       raw->reads.capacity * sizeof(*raw->reads.items) +
			       raw->lookup.size * sizeof(*raw->lookup.slots) +
			       raw->lookup.large_capacity * sizeof(*raw->lookup.large);
	struct rlimit limit;
	size_t share = 1;
	if (!is_limited(&limit))
		return share;
	while (share < LEAST_SHARE && whole / share > limit.rlim_cur / 4 / RAW_SAMPLES_LIMITED)
		share *= 2;
	return share;
}

static size_t slot_of(const struct raw_sample *raw, remote_addr address)
{
	return (address >> 3) * 0x9e3779b97f4a7c15u >> 40 & raw->lookup.mask;
}

static void put_in_index(struct raw_sample *raw, uint32_t number)
{
	size_t slot = slot_of(raw, raw->store.ranges[number].address);
	while (raw->lookup.slots[slot].stamp == raw->lookup.stamp)
		slot = (slot + 1) & raw->lookup.mask;
	raw->lookup.slots[slot] = (struct raw_slot){raw->lookup.stamp, number};
}

static void forget_index(struct raw_sample *raw)
{
	if (++raw->lookup.stamp == 0) {
		memset(raw->lookup.slots, 0, raw->lookup.size * sizeof(*raw->lookup.slots));
		raw->lookup.stamp = 1;
	}
}

/* Enters a range; `number` of them are in already. */
static void index_range(struct raw_sample *raw, uint32_t number)
{
	if (raw->store.ranges[number].size >= RAW_LARGE &&
	    raw->lookup.large_count < raw->lookup.large_capacity)
		raw->lookup.large[raw->lookup.large_count++] = number;
	if (2 * (number - raw->store.span_count) > raw->lookup.mask &&
	    raw->lookup.mask < raw->lookup.size - 1) {
		raw->lookup.mask = 2 * raw->lookup.mask + 1;
		forget_index(raw);
		for (uint32_t i = (uint32_t)raw->store.span_count; i < number; i++)
			put_in_index(raw, i);
	}
	put_in_index(raw, number);
}

static bool holds(const struct raw_range *range, remote_addr address, size_t size)
{
	return address >= range->address && address - range->address <= range->size &&
	       size <= range->size - (address - range->address);
}

static struct raw_range *find_exact(const struct raw_sample *raw, remote_addr address, size_t size)
{
	for (size_t slot = slot_of(raw, address);
	     raw->lookup.slots[slot].stamp == raw->lookup.stamp;
	     slot = (slot + 1) & raw->lookup.mask) {
		struct raw_range *range = &raw->store.ranges[raw->lookup.slots[slot].number];
		if (range->address == address && range->size >= size)
			return range;
	}
	return NULL;
}

/* Among the prefetched ranges, which are in order. */
static struct raw_range *find_span(struct raw_sample *raw, remote_addr address, size_t size)
{
	if (raw->store.span_count == 0)
		return NULL;
	if (holds(&raw->store.ranges[raw->store.span_hit], address, size))
		return &raw->store.ranges[raw->store.span_hit];
	size_t low = 0, high = raw->store.span_count;
	while (high - low > 1) {
		size_t middle = (low + high) / 2;
		if (raw->store.ranges[middle].address <= address)
			low = middle;
		else
			high = middle;
	}
	if (!holds(&raw->store.ranges[low], address, size))
		return NULL;
	raw->store.span_hit = low;
	return &raw->store.ranges[low];
}

static struct raw_range *find_large(struct raw_sample *raw, remote_addr address, size_t size)
{
	if (raw->lookup.large_hit < raw->lookup.large_count) {
		struct raw_range *range =
			&raw->store.ranges[raw->lookup.large[raw->lookup.large_hit]];
		if (holds(range, address, size))
			return range;
	}
	for (size_t i = 0; i < raw->lookup.large_count; i++) {
		struct raw_range *range = &raw->store.ranges[raw->lookup.large[i]];
		if (holds(range, address, size)) {
			raw->lookup.large_hit = i;
			return range;
		}
	}
	return NULL;
}

uint8_t *raw_sample_add(struct raw_sample *raw, remote_addr address, size_t size)
{
	/* Half of the index stays free, so that searches end. */
	if (raw->store.range_count >= raw->store.range_capacity ||
	    2 * (raw->store.range_count - raw->store.span_count) >= raw->lookup.size ||
	    size > raw->store.byte_capacity - raw->store.byte_count)
		return NULL;
	raw->store.ranges[raw->store.range_count] =
		(struct raw_range){.address = address,
				   .size = (uint32_t)size,
				   .offset = (uint32_t)raw->store.byte_count};
	index_range(raw, (uint32_t)raw->store.range_count++);
	uint8_t *bytes = raw->store.bytes + raw->store.byte_count;
	raw->store.byte_count += (size + 7) & ~(size_t)7;
	return bytes;
}

uint8_t *raw_sample_add_span(struct raw_sample *raw, remote_addr address, size_t size)
{
	if (raw->store.range_count != raw->store.span_count ||
	    raw->store.range_count >= raw->store.range_capacity ||
	    size > raw->store.byte_capacity - raw->store.byte_count)
		return NULL;
	raw->store.ranges[raw->store.range_count++] =
		(struct raw_range){.address = address,
				   .size = (uint32_t)size,
				   .offset = (uint32_t)raw->store.byte_count};
	raw->store.span_count = raw->store.range_count;
	uint8_t *bytes = raw->store.bytes + raw->store.byte_count;
	raw->store.byte_count += (size + 7) & ~(size_t)7;
	return bytes;
}

/* A read that nothing answers yet: from the live target, kept for the decoder. */
static bool read_live(struct raw_sample *raw, remote_addr address, void *buffer, size_t size,
		      struct error *error)
{
	if (!raw->live || raw->no_live_reads) {
		raw->reads.late += raw->no_live_reads;
		return error_set(error, ERROR_ABSENT, "0x%llx was not copied",
				 (unsigned long long)address);
	}
	struct error why;
	raw->reads.late++;
	if (!memory_read(target_memory(raw->live), address, buffer, size, &why)) {
		raw->withheld |= why.kind == ERROR_BUSY;
		if (error)
			*error = why;
		return false;
	}
	uint8_t *bytes = raw_sample_add(raw, address, size);
	if (!bytes)
		return error_set(error, ERROR_CORRUPT, "a thread's stack needs too much memory");
	memcpy(bytes, buffer, size);
	return true;
}

/* The reader is the sample's first member; reading it notes what was read, and may add to it. */
static struct raw_sample *sample_of(const struct memory_reader *reader)
{
	return (struct raw_sample *)(uintptr_t)reader;
}

static void note_read(struct raw_sample *raw, remote_addr address, size_t size)
{
	if (raw->live && raw->reads.count < raw->reads.capacity)
		raw->reads.items[raw->reads.count++] = (struct target_range){address, size};
}

/* The range that holds all of these bytes; NULL: none. */
static const struct raw_range *find_range(struct raw_sample *raw, remote_addr address, size_t size)
{
	const struct raw_range *range = find_span(raw, address, size);
	if (!range)
		range = find_exact(raw, address, size);
	return range ? range : find_large(raw, address, size);
}

static const uint8_t *bytes_at(const struct raw_sample *raw, const struct raw_range *range,
			       remote_addr address)
{
	return raw->store.bytes + range->offset + (address - range->address);
}

static bool read_raw(const struct memory_reader *reader, remote_addr address, void *buffer,
		     size_t size, struct error *error)
{
	struct raw_sample *raw = sample_of(reader);
	note_read(raw, address, size);
	const struct raw_range *range = find_range(raw, address, size);
	if (!range)
		return read_live(raw, address, buffer, size, error);
	memcpy(buffer, bytes_at(raw, range, address), size);
	return true;
}

static const void *view_raw(const struct memory_reader *reader, remote_addr address, size_t size)
{
	struct raw_sample *raw = sample_of(reader);
	const struct raw_range *range = find_range(raw, address, size);
	if (!range)
		return NULL;
	note_read(raw, address, size);
	return bytes_at(raw, range, address);
}

bool raw_sample_contains(struct raw_sample *raw, remote_addr address, size_t size)
{
	return find_range(raw, address, size) != NULL;
}

remote_addr raw_sample_end_of(struct raw_sample *raw, remote_addr address)
{
	const struct raw_range *range = find_range(raw, address, 1);
	return range ? range->address + range->size : 0;
}

struct raw_sample *raw_sample_new(void)
{
	struct raw_sample *raw = alloc_zeroed(1, sizeof(*raw));
	raw->reader.read = read_raw;
	raw->reader.view = view_raw;
	raw->store.range_capacity = RAW_MAX_RANGES;
	raw->store.byte_capacity = RAW_MAX_BYTES;
	raw->reads.capacity = RAW_MAX_READS;
	raw->lookup.size = INDEX_SIZE;
	raw->lookup.large_capacity = RAW_MAX_LARGE;
	const size_t share = first_share(raw);
	raw->store.ranges = reserve(&raw->store.range_capacity, sizeof(*raw->store.ranges), share);
	raw->store.bytes = reserve(&raw->store.byte_capacity, 1, share);
	raw->reads.items = reserve(&raw->reads.capacity, sizeof(*raw->reads.items), share);
	raw->lookup.slots = reserve(&raw->lookup.size, sizeof(*raw->lookup.slots), share);
	raw->lookup.large = reserve(&raw->lookup.large_capacity, sizeof(*raw->lookup.large), share);
	unwind_stack_init(&raw->native);
	raw_sample_reset(raw);
	return raw;
}

void raw_sample_free(struct raw_sample *raw)
{
	if (!raw)
		return;
	if (!raw->store.compact) {
		munmap(raw->store.ranges, raw->store.range_capacity * sizeof(*raw->store.ranges));
		munmap(raw->store.bytes, raw->store.byte_capacity);
		munmap(raw->reads.items, raw->reads.capacity * sizeof(*raw->reads.items));
		munmap(raw->lookup.slots, raw->lookup.size * sizeof(*raw->lookup.slots));
		munmap(raw->lookup.large, raw->lookup.large_capacity * sizeof(*raw->lookup.large));
	}
	unwind_stack_release(&raw->native);
	free(raw);
}

/* What the sample has in use now. */
static size_t bytes_in_use(const struct raw_sample *raw)
{
	size_t indexed = raw->store.range_count > raw->store.span_count ? raw->lookup.mask + 1 : 0;
	return raw->store.byte_count + raw->store.range_count * sizeof(*raw->store.ranges) +
	       raw->reads.count * sizeof(*raw->reads.items) + indexed * sizeof(*raw->lookup.slots);
}

size_t raw_sample_footprint(const struct raw_sample *raw)
{
	size_t now = bytes_in_use(raw);
	return raw->store.touched > now ? raw->store.touched : now;
}

static void forget_pages(void *memory, size_t size)
{
	madvise(memory, size, MADV_DONTNEED);
}

void raw_sample_trim(struct raw_sample *raw)
{
	raw_sample_reset(raw);
	forget_pages(raw->store.ranges, raw->store.range_capacity * sizeof(*raw->store.ranges));
	forget_pages(raw->store.bytes, raw->store.byte_capacity);
	forget_pages(raw->reads.items, raw->reads.capacity * sizeof(*raw->reads.items));
	forget_pages(raw->lookup.slots, raw->lookup.size * sizeof(*raw->lookup.slots));
	raw->store.touched = 0;
	raw->store.small_resets = 0;
}

/* A very deep stack must not stay in our memory for ever. */
static bool may_shrink(struct raw_sample *raw)
{
	size_t used = bytes_in_use(raw);
	if (used == 0)
		return false;
	if (raw->store.touched < used)
		raw->store.touched = used;
	bool small = used < raw->store.touched / 4 && raw->store.touched > SMALL;
	raw->store.small_resets = small ? raw->store.small_resets + 1 : 0;
	return raw->store.small_resets > PATIENCE;
}

void raw_sample_reset(struct raw_sample *raw)
{
	bool shrink = may_shrink(raw);
	raw->live = NULL;
	raw->tid = 0;
	raw->time_ns = raw->pause_ns = raw->cpu_ns = 0;
	raw->allocations = 0;
	memset(&raw->registers, 0, sizeof(raw->registers));
	memset(&raw->wait, 0, sizeof(raw->wait));
	raw->kernel[0] = raw->name[0] = '\0';
	raw->prediction_missed = false;
	raw->withheld = raw->stopped = raw->no_live_reads = raw->shortened = raw->has_native =
		raw->store.brings_codes = raw->who.maybe_python = false;
	raw->who.tstate_count = 0;
	raw->who.claimed = 0;
	raw->who.thread_id = 0;
	raw->interrupted_sp = 0;
	raw->who.namespace_tid = 0;
	raw->epoch = 0;
	raw->who.kernel_tid = 0;
	raw->runtime = NULL;
	raw->store.range_count = raw->store.byte_count = raw->lookup.large_count =
		raw->lookup.large_hit = 0;
	raw->store.span_count = raw->store.span_hit = raw->reads.count = raw->reads.late = 0;
	raw->lookup.mask = FIRST_INDEX_SIZE - 1;
	forget_index(raw);
	if (shrink)
		raw_sample_trim(raw);
}

/* Adds the leading ranges that lie whole within the bytes that were read. */
static size_t keep_whole(struct raw_sample *raw, const struct target_range *ranges, size_t count,
			 size_t got)
{
	/* Ranges stand back to back here, unlike those that raw_sample_add aligns. */
	size_t done = 0, kept = 0;
	for (; kept < count && done + ranges[kept].size <= got; kept++) {
		raw->store.ranges[raw->store.range_count] =
			(struct raw_range){.address = ranges[kept].address,
					   .size = (uint32_t)ranges[kept].size,
					   .offset = (uint32_t)(raw->store.byte_count + done)};
		raw->store.span_count = ++raw->store.range_count;
		done += ranges[kept].size;
	}
	raw->store.byte_count += (done + 7) & ~(size_t)7;
	return kept;
}

void raw_sample_prefetch(struct raw_sample *raw, const struct target *target,
			 const struct target_range *ranges, size_t count)
{
	while (count > 0) {
		size_t batch = 0, size = 0;
		while (batch < count && batch < GATHER &&
		       ranges[batch].size <=
			       raw->store.byte_capacity - raw->store.byte_count - size)
			size += ranges[batch++].size;
		if (batch == 0 || raw->store.range_count + batch > raw->store.range_capacity)
			return;
		ssize_t got = target_read_ranges(target, ranges, batch,
						 raw->store.bytes + raw->store.byte_count);
		if (got < 0)
			got = 0;
		size_t kept = keep_whole(raw, ranges, batch, (size_t)got);
		/* What stands behind a hole was skipped: go on after the range that is gone. */
		raw->prediction_missed |= kept < batch;
		if (kept < batch)
			kept++;
		ranges += kept;
		count -= kept;
	}
}

void raw_sample_prefetch_some(struct raw_sample *raw, const struct target *target,
			      const struct target_range *range)
{
	if (range->size > raw->store.byte_capacity - raw->store.byte_count ||
	    raw->store.range_count >= raw->store.range_capacity)
		return;
	ssize_t got =
		target_read_ranges(target, range, 1, raw->store.bytes + raw->store.byte_count);
	if (got > 0)
		raw_sample_add(raw, range->address, (size_t)got);
}

/* ---- newer bytes for what was copied before ---- */

/* The first prefetched range that ends behind the address. */
static size_t first_span_behind(const struct raw_sample *raw, remote_addr address)
{
	size_t low = 0, high = raw->store.span_count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (raw->store.ranges[middle].address + raw->store.ranges[middle].size <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void overwrite(struct raw_sample *raw, const struct raw_range *range, remote_addr address,
		      const uint8_t *bytes, size_t size)
{
	remote_addr start = range->address > address ? range->address : address;
	remote_addr end = range->address + range->size;
	if (end > address + size)
		end = address + size;
	if (start < end)
		memcpy(raw->store.bytes + range->offset + (start - range->address),
		       bytes + (start - address), end - start);
}

bool raw_sample_overwrite(struct raw_sample *raw, remote_addr address, const void *bytes,
			  size_t size)
{
	if (!raw_sample_contains(raw, address, size) && !raw_sample_add(raw, address, size))
		return false;
	for (size_t i = first_span_behind(raw, address);
	     i < raw->store.span_count && raw->store.ranges[i].address < address + size; i++)
		overwrite(raw, &raw->store.ranges[i], address, bytes, size);
	for (size_t i = raw->store.span_count; i < raw->store.range_count; i++)
		overwrite(raw, &raw->store.ranges[i], address, bytes, size);
	return true;
}

void raw_sample_refresh(struct raw_sample *raw, const struct target *target)
{
	uint8_t *buffer = raw->store.bytes + raw->store.byte_count;
	size_t room = raw->store.byte_capacity - raw->store.byte_count;
	for (size_t first = 0, count; first < raw->store.range_count; first += count ? count : 1) {
		struct target_range ranges[GATHER];
		size_t size = 0;
		for (count = 0; count < GATHER && first + count < raw->store.range_count; count++) {
			const struct raw_range *range = &raw->store.ranges[first + count];
			if (range->size > room - size)
				break;
			ranges[count] = (struct target_range){range->address, range->size};
			size += range->size;
		}
		ssize_t got = count ? target_read_ranges(target, ranges, count, buffer) : 0;
		size_t done = 0, i = 0;
		for (; i < count && got > 0 && done + ranges[i].size <= (size_t)got; i++) {
			memcpy(raw->store.bytes + raw->store.ranges[first + i].offset,
			       buffer + done, ranges[i].size);
			done += ranges[i].size;
		}
		/* What stands behind a hole was skipped: go on after the range that is gone. */
		count = i < count ? i + 1 : count;
	}
}

/* Slots for the ranges that are no spans, at least one of them free. */
static size_t index_size_for(const struct raw_sample *raw)
{
	size_t size = 4;
	while (size <= 2 * (raw->store.range_count - raw->store.span_count))
		size *= 2;
	return size;
}

/* The struct, the ranges, the index and the bytes in one piece: a program has thousands of threads.
 */
static struct raw_sample *allocate_compact(const struct raw_sample *raw)
{
	size_t index_size = index_size_for(raw);
	size_t index_bytes = index_size * sizeof(*raw->lookup.slots);
	size_t range_bytes = raw->store.range_count * sizeof(*raw->store.ranges);
	size_t large_bytes =
		(raw->lookup.large_count * sizeof(*raw->lookup.large) + 7) & ~(size_t)7;
	struct raw_sample *clone = alloc_zeroed(1, sizeof(*clone) + index_bytes + range_bytes +
							   large_bytes + raw->store.byte_count);
	clone->store.compact = true;
	clone->reader.read = read_raw;
	clone->reader.view = view_raw;
	clone->lookup.slots = (struct raw_slot *)(clone + 1);
	clone->lookup.size = index_size;
	clone->lookup.mask = index_size - 1;
	clone->lookup.stamp = 1;
	clone->store.ranges = (struct raw_range *)((uint8_t *)clone->lookup.slots + index_bytes);
	clone->store.range_capacity = raw->store.range_count;
	clone->lookup.large = (uint32_t *)((uint8_t *)clone->store.ranges + range_bytes);
	clone->lookup.large_capacity = raw->lookup.large_count;
	clone->store.bytes = (uint8_t *)clone->lookup.large + large_bytes;
	clone->store.byte_capacity = raw->store.byte_count;
	unwind_stack_init(&clone->native);
	return clone;
}

void raw_sample_rewind(struct raw_sample *raw)
{
	raw->store.span_hit = raw->lookup.large_hit = 0;
}

struct raw_sample *raw_sample_clone(const struct raw_sample *raw)
{
	struct raw_sample *clone = allocate_compact(raw);
	clone->tid = raw->tid;
	clone->time_ns = raw->time_ns;
	clone->pause_ns = raw->pause_ns;
	clone->registers = raw->registers;
	clone->stopped = raw->stopped;
	clone->shortened = raw->shortened;
	clone->withheld = raw->withheld;
	clone->store.brings_codes = raw->store.brings_codes;
	clone->who = raw->who;
	clone->wait = raw->wait;
	memcpy(clone->kernel, raw->kernel, sizeof(raw->kernel));
	clone->runtime = raw->runtime;
	memcpy(clone->store.ranges, raw->store.ranges,
	       raw->store.range_count * sizeof(*raw->store.ranges));
	memcpy(clone->store.bytes, raw->store.bytes, raw->store.byte_count);
	clone->store.byte_count = raw->store.byte_count;
	clone->store.span_count = clone->store.range_count = raw->store.span_count;
	while (clone->store.range_count < raw->store.range_count)
		index_range(clone, (uint32_t)clone->store.range_count++);
	if (raw->has_native) {
		clone->has_native = true;
		clone->native.frames =
			alloc_room(NULL, &clone->native.capacity, raw->native.count + 1,
				   sizeof(*raw->native.frames));
		memcpy(clone->native.frames, raw->native.frames,
		       raw->native.count * sizeof(*raw->native.frames));
		clone->native.count = raw->native.count;
		clone->native.end = raw->native.end;
		clone->native.guessed = raw->native.guessed;
	}
	return clone;
}
