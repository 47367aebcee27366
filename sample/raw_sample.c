/* SPDX-License-Identifier: MIT */
/*
 * A raw sample: byte ranges copied from a stopped thread, and a memory_reader over them. While
 * the sample is live, a read that finds nothing copies it from the target and keeps it; a replayed
 * sample answers the same reads from what was kept. Memory is reserved once and touched as
 * needed, so that nothing here allocates in the pause.
 */
#include "sample/internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"

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
static void *reserve(size_t *count, size_t size)
{
	for (size_t share = 1; share <= LEAST_SHARE; share *= 2) {
		void *memory = mmap(NULL, *count / share * size, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (memory == MAP_FAILED)
			continue;
		*count /= share;
		return memory;
	}
	return alloc_zeroed(1, SIZE_MAX / 2); /* out of memory */
}

static size_t slot_of(const struct raw_sample *raw, remote_addr address)
{
	return (address >> 3) * 0x9e3779b97f4a7c15u >> 40 & raw->index_mask;
}

static void put_in_index(struct raw_sample *raw, uint32_t number)
{
	size_t slot = slot_of(raw, raw->ranges[number].address);
	while (raw->index[slot].stamp == raw->stamp)
		slot = (slot + 1) & raw->index_mask;
	raw->index[slot] = (struct raw_index){raw->stamp, number};
}

static void forget_index(struct raw_sample *raw)
{
	if (++raw->stamp == 0) {
		memset(raw->index, 0, raw->index_size * sizeof(*raw->index));
		raw->stamp = 1;
	}
}

/* Enters a range; `number` of them are in already. */
static void index_range(struct raw_sample *raw, uint32_t number)
{
	if (raw->ranges[number].size >= RAW_LARGE && raw->large_count < raw->large_capacity)
		raw->large[raw->large_count++] = number;
	if (2 * (number - raw->span_count) > raw->index_mask &&
	    raw->index_mask < raw->index_size - 1) {
		raw->index_mask = 2 * raw->index_mask + 1;
		forget_index(raw);
		for (uint32_t i = (uint32_t)raw->span_count; i < number; i++)
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
	for (size_t slot = slot_of(raw, address); raw->index[slot].stamp == raw->stamp;
	     slot = (slot + 1) & raw->index_mask) {
		struct raw_range *range = &raw->ranges[raw->index[slot].number];
		if (range->address == address && range->size >= size)
			return range;
	}
	return NULL;
}

/* Among the prefetched ranges, which are in order. */
static struct raw_range *find_span(struct raw_sample *raw, remote_addr address, size_t size)
{
	if (raw->span_count == 0)
		return NULL;
	if (holds(&raw->ranges[raw->span_hit], address, size))
		return &raw->ranges[raw->span_hit];
	size_t low = 0, high = raw->span_count;
	while (high - low > 1) {
		size_t middle = (low + high) / 2;
		if (raw->ranges[middle].address <= address)
			low = middle;
		else
			high = middle;
	}
	if (!holds(&raw->ranges[low], address, size))
		return NULL;
	raw->span_hit = low;
	return &raw->ranges[low];
}

static struct raw_range *find_large(struct raw_sample *raw, remote_addr address, size_t size)
{
	if (raw->large_hit < raw->large_count) {
		struct raw_range *range = &raw->ranges[raw->large[raw->large_hit]];
		if (holds(range, address, size))
			return range;
	}
	for (size_t i = 0; i < raw->large_count; i++) {
		struct raw_range *range = &raw->ranges[raw->large[i]];
		if (holds(range, address, size)) {
			raw->large_hit = i;
			return range;
		}
	}
	return NULL;
}

uint8_t *raw_sample_add(struct raw_sample *raw, remote_addr address, size_t size)
{
	/* Half of the index stays free, so that searches end. */
	if (raw->range_count >= raw->range_capacity ||
	    2 * (raw->range_count - raw->span_count) >= raw->index_size ||
	    size > raw->byte_capacity - raw->byte_count)
		return NULL;
	raw->ranges[raw->range_count] = (struct raw_range){
		.address = address, .size = (uint32_t)size, .offset = (uint32_t)raw->byte_count};
	index_range(raw, (uint32_t)raw->range_count++);
	uint8_t *bytes = raw->bytes + raw->byte_count;
	raw->byte_count += (size + 7) & ~(size_t)7;
	return bytes;
}

uint8_t *raw_sample_add_span(struct raw_sample *raw, remote_addr address, size_t size)
{
	if (raw->range_count != raw->span_count || raw->range_count >= raw->range_capacity ||
	    size > raw->byte_capacity - raw->byte_count)
		return NULL;
	raw->ranges[raw->range_count++] = (struct raw_range){
		.address = address, .size = (uint32_t)size, .offset = (uint32_t)raw->byte_count};
	raw->span_count = raw->range_count;
	uint8_t *bytes = raw->bytes + raw->byte_count;
	raw->byte_count += (size + 7) & ~(size_t)7;
	return bytes;
}

/* A read that nothing answers yet: from the live target, kept for the decoder. */
static bool read_live(struct raw_sample *raw, remote_addr address, void *buffer, size_t size,
		      struct error *error)
{
	if (!raw->live || raw->frozen) {
		raw->late_reads += raw->frozen;
		return error_set(error, ERROR_ABSENT, "0x%llx was not copied",
				 (unsigned long long)address);
	}
	raw->late_reads++;
	if (!memory_read(target_memory(raw->live), address, buffer, size, error))
		return false;
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
	if (raw->live && raw->read_count < raw->read_capacity)
		raw->reads[raw->read_count++] = (struct target_range){address, size};
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
	return raw->bytes + range->offset + (address - range->address);
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

bool raw_sample_holds(struct raw_sample *raw, remote_addr address, size_t size)
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
	raw->range_capacity = RAW_MAX_RANGES;
	raw->byte_capacity = RAW_MAX_BYTES;
	raw->read_capacity = RAW_MAX_READS;
	raw->index_size = INDEX_SIZE;
	raw->large_capacity = RAW_MAX_LARGE;
	raw->ranges = reserve(&raw->range_capacity, sizeof(*raw->ranges));
	raw->bytes = reserve(&raw->byte_capacity, 1);
	raw->reads = reserve(&raw->read_capacity, sizeof(*raw->reads));
	raw->index = reserve(&raw->index_size, sizeof(*raw->index));
	raw->large = reserve(&raw->large_capacity, sizeof(*raw->large));
	unwind_stack_init(&raw->native);
	raw_sample_reset(raw);
	return raw;
}

void raw_sample_free(struct raw_sample *raw)
{
	if (!raw)
		return;
	if (!raw->compact) {
		munmap(raw->ranges, raw->range_capacity * sizeof(*raw->ranges));
		munmap(raw->bytes, raw->byte_capacity);
		munmap(raw->reads, raw->read_capacity * sizeof(*raw->reads));
		munmap(raw->index, raw->index_size * sizeof(*raw->index));
		munmap(raw->large, raw->large_capacity * sizeof(*raw->large));
	}
	unwind_stack_release(&raw->native);
	free(raw);
}

/* What the sample has in use now. */
static size_t bytes_in_use(const struct raw_sample *raw)
{
	size_t indexed = raw->range_count > raw->span_count ? raw->index_mask + 1 : 0;
	return raw->byte_count + raw->range_count * sizeof(*raw->ranges) +
	       raw->read_count * sizeof(*raw->reads) + indexed * sizeof(*raw->index);
}

size_t raw_sample_footprint(const struct raw_sample *raw)
{
	size_t now = bytes_in_use(raw);
	return raw->touched > now ? raw->touched : now;
}

static void forget_pages(void *memory, size_t size)
{
	madvise(memory, size, MADV_DONTNEED);
}

void raw_sample_trim(struct raw_sample *raw)
{
	raw_sample_reset(raw);
	forget_pages(raw->ranges, raw->range_capacity * sizeof(*raw->ranges));
	forget_pages(raw->bytes, raw->byte_capacity);
	forget_pages(raw->reads, raw->read_capacity * sizeof(*raw->reads));
	forget_pages(raw->index, raw->index_size * sizeof(*raw->index));
	raw->touched = 0;
	raw->small_resets = 0;
}

/* A very deep stack must not stay in our memory for ever. */
static bool may_shrink(struct raw_sample *raw)
{
	size_t used = bytes_in_use(raw);
	if (used == 0)
		return false;
	if (raw->touched < used)
		raw->touched = used;
	bool small = used < raw->touched / 4 && raw->touched > SMALL;
	raw->small_resets = small ? raw->small_resets + 1 : 0;
	return raw->small_resets > PATIENCE;
}

void raw_sample_reset(struct raw_sample *raw)
{
	bool shrink = may_shrink(raw);
	raw->live = NULL;
	raw->tid = 0;
	raw->time_ns = raw->pause_ns = 0;
	raw->allocations = 0;
	memset(&raw->registers, 0, sizeof(raw->registers));
	memset(&raw->wait, 0, sizeof(raw->wait));
	raw->kernel[0] = '\0';
	raw->holed = false;
	raw->stopped = raw->frozen = raw->shortened = raw->has_native = raw->unjoined = false;
	raw->tstate_count = 0;
	raw->thread_id = 0;
	raw->namespace_tid = 0;
	raw->epoch = 0;
	raw->slot = NULL;
	raw->runtime = NULL;
	raw->range_count = raw->byte_count = raw->large_count = raw->large_hit = 0;
	raw->span_count = raw->span_hit = raw->read_count = raw->late_reads = 0;
	raw->index_mask = FIRST_INDEX_SIZE - 1;
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
		raw->ranges[raw->range_count] =
			(struct raw_range){.address = ranges[kept].address,
					   .size = (uint32_t)ranges[kept].size,
					   .offset = (uint32_t)(raw->byte_count + done)};
		raw->span_count = ++raw->range_count;
		done += ranges[kept].size;
	}
	raw->byte_count += (done + 7) & ~(size_t)7;
	return kept;
}

void raw_sample_prefetch(struct raw_sample *raw, const struct target *target,
			 const struct target_range *ranges, size_t count)
{
	while (count > 0) {
		size_t batch = 0, size = 0;
		while (batch < count && batch < GATHER &&
		       ranges[batch].size <= raw->byte_capacity - raw->byte_count - size)
			size += ranges[batch++].size;
		if (batch == 0 || raw->range_count + batch > raw->range_capacity)
			return;
		ssize_t got =
			target_read_ranges(target, ranges, batch, raw->bytes + raw->byte_count);
		if (got < 0)
			got = 0;
		size_t kept = keep_whole(raw, ranges, batch, (size_t)got);
		/* What stands behind a hole was skipped: go on after the range that is gone. */
		raw->holed |= kept < batch;
		if (kept < batch)
			kept++;
		ranges += kept;
		count -= kept;
	}
}

void raw_sample_prefetch_some(struct raw_sample *raw, const struct target *target,
			      const struct target_range *range)
{
	if (range->size > raw->byte_capacity - raw->byte_count ||
	    raw->range_count >= raw->range_capacity)
		return;
	ssize_t got = target_read_ranges(target, range, 1, raw->bytes + raw->byte_count);
	if (got > 0)
		raw_sample_add(raw, range->address, (size_t)got);
}

/* ---- newer bytes for what was copied before ---- */

/* The first prefetched range that ends behind the address. */
static size_t first_span_behind(const struct raw_sample *raw, remote_addr address)
{
	size_t low = 0, high = raw->span_count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (raw->ranges[middle].address + raw->ranges[middle].size <= address)
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
		memcpy(raw->bytes + range->offset + (start - range->address),
		       bytes + (start - address), end - start);
}

bool raw_sample_overwrite(struct raw_sample *raw, remote_addr address, const void *bytes,
			  size_t size)
{
	if (!raw_sample_holds(raw, address, size) && !raw_sample_add(raw, address, size))
		return false;
	for (size_t i = first_span_behind(raw, address);
	     i < raw->span_count && raw->ranges[i].address < address + size; i++)
		overwrite(raw, &raw->ranges[i], address, bytes, size);
	for (size_t i = raw->span_count; i < raw->range_count; i++)
		overwrite(raw, &raw->ranges[i], address, bytes, size);
	return true;
}

void raw_sample_refresh(struct raw_sample *raw, const struct target *target)
{
	uint8_t *buffer = raw->bytes + raw->byte_count;
	size_t room = raw->byte_capacity - raw->byte_count;
	for (size_t first = 0, count; first < raw->range_count; first += count ? count : 1) {
		struct target_range ranges[GATHER];
		size_t size = 0;
		for (count = 0; count < GATHER && first + count < raw->range_count; count++) {
			const struct raw_range *range = &raw->ranges[first + count];
			if (range->size > room - size)
				break;
			ranges[count] = (struct target_range){range->address, range->size};
			size += range->size;
		}
		ssize_t got = count ? target_read_ranges(target, ranges, count, buffer) : 0;
		size_t done = 0, i = 0;
		for (; i < count && got > 0 && done + ranges[i].size <= (size_t)got; i++) {
			memcpy(raw->bytes + raw->ranges[first + i].offset, buffer + done,
			       ranges[i].size);
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
	while (size <= 2 * (raw->range_count - raw->span_count))
		size *= 2;
	return size;
}

/* The struct, the ranges, the index and the bytes in one piece: a program has thousands of threads.
 */
static struct raw_sample *allocate_compact(const struct raw_sample *raw)
{
	size_t index_size = index_size_for(raw);
	size_t index_bytes = index_size * sizeof(*raw->index);
	size_t range_bytes = raw->range_count * sizeof(*raw->ranges);
	size_t large_bytes = (raw->large_count * sizeof(*raw->large) + 7) & ~(size_t)7;
	struct raw_sample *clone = alloc_zeroed(1, sizeof(*clone) + index_bytes + range_bytes +
							   large_bytes + raw->byte_count);
	clone->compact = true;
	clone->reader.read = read_raw;
	clone->reader.view = view_raw;
	clone->index = (struct raw_index *)(clone + 1);
	clone->index_size = index_size;
	clone->index_mask = index_size - 1;
	clone->stamp = 1;
	clone->ranges = (struct raw_range *)((uint8_t *)clone->index + index_bytes);
	clone->range_capacity = raw->range_count;
	clone->large = (uint32_t *)((uint8_t *)clone->ranges + range_bytes);
	clone->large_capacity = raw->large_count;
	clone->bytes = (uint8_t *)clone->large + large_bytes;
	clone->byte_capacity = raw->byte_count;
	unwind_stack_init(&clone->native);
	return clone;
}

void raw_sample_rewind(struct raw_sample *raw)
{
	raw->span_hit = raw->large_hit = 0;
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
	clone->unjoined = raw->unjoined;
	clone->wait = raw->wait;
	memcpy(clone->kernel, raw->kernel, sizeof(raw->kernel));
	memcpy(clone->tstates, raw->tstates, sizeof(raw->tstates));
	clone->tstate_count = raw->tstate_count;
	clone->thread_id = raw->thread_id;
	clone->namespace_tid = raw->namespace_tid;
	clone->slot = raw->slot;
	clone->runtime = raw->runtime;
	memcpy(clone->ranges, raw->ranges, raw->range_count * sizeof(*raw->ranges));
	memcpy(clone->bytes, raw->bytes, raw->byte_count);
	clone->byte_count = raw->byte_count;
	clone->span_count = clone->range_count = raw->span_count;
	while (clone->range_count < raw->range_count)
		index_range(clone, (uint32_t)clone->range_count++);
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
