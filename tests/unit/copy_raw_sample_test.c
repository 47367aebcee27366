/* SPDX-License-Identifier: MIT */
/* Raw samples: what was copied is found again, what was not is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "copy/raw_sample.h"

static int set_up(void **state)
{
	*state = raw_sample_new();
	return 0;
}

static int tear_down(void **state)
{
	raw_sample_free(*state);
	return 0;
}

static void a_copied_range_reads_back_exactly(void **state)
{
	struct raw_sample *raw = *state;
	for (remote_addr i = 0; i < 20000; i++)
		memcpy(raw_sample_add(raw, 0x1000 + i * 64, 8), &i, 8);
	for (remote_addr i = 0; i < 20000; i++) {
		uint64_t value;
		assert_true(memory_read_u64(&raw->reader, 0x1000 + i * 64, &value, NULL));
		assert_int_equal(value, i);
	}
}

static void a_large_range_serves_reads_inside_it(void **state)
{
	struct raw_sample *raw = *state;
	uint8_t *bytes = raw_sample_add(raw, 0x5000, 4096);
	for (size_t i = 0; i < 4096; i++)
		bytes[i] = (uint8_t)i;
	uint8_t got[16];
	assert_true(memory_read(&raw->reader, 0x5000 + 4080, got, 16, NULL));
	assert_int_equal(got[0], 4080 & 255);
	struct error error;
	assert_false(memory_read(&raw->reader, 0x5000 + 4081, got, 16, &error));
	assert_int_equal(error.kind, ERROR_ABSENT);
	assert_false(memory_read(&raw->reader, 0x4fff, got, 2, NULL));
	assert_false(memory_read(&raw->reader, 0x5001, got, SIZE_MAX - 4, NULL));
}

/* Where they stand: the same bytes, and the sample notes that they were asked for. */
static void a_view_is_of_the_bytes_that_reads_give(void **state)
{
	struct raw_sample *raw = *state;
	uint8_t *bytes = raw_sample_add(raw, 0x5000, 4096);
	for (size_t i = 0; i < 4096; i++)
		bytes[i] = (uint8_t)i;
	assert_ptr_equal(memory_view(&raw->reader, 0x5000, 4096), bytes);
	assert_ptr_equal(memory_view(&raw->reader, 0x5000 + 4000, 96), bytes + 4000);
	assert_null(memory_view(&raw->reader, 0x5000 + 4000, 97));
	assert_null(memory_view(&raw->reader, 0x4fff, 2));
	assert_null(memory_view(&raw->reader, 0x5001, SIZE_MAX - 4));
	assert_int_equal(raw->reads.count, 0);
	raw->live = (const struct target *)raw; /* not read from */
	assert_non_null(memory_view(&raw->reader, 0x5000, 8));
	assert_null(memory_view(&raw->reader, 0x9000, 8));
	assert_int_equal(raw->reads.count, 1);
	assert_int_equal(raw->reads.items[0].address, 0x5000);
	raw->live = NULL;
}

static void a_reset_sample_holds_nothing(void **state)
{
	struct raw_sample *raw = *state;
	uint64_t value = 7;
	memcpy(raw_sample_add(raw, 0x1000, 8), &value, 8);
	raw_sample_reset(raw);
	assert_false(memory_read_u64(&raw->reader, 0x1000, &value, NULL));
}

static void more_ranges_than_there_is_room_for_are_refused(void **state)
{
	struct raw_sample *raw = *state;
	for (size_t i = 0; i < RAW_MAX_RANGES; i++)
		assert_non_null(raw_sample_add(raw, 0x1000 + i * 16, 8));
	assert_null(raw_sample_add(raw, 0x10, 8));
	raw_sample_reset(raw);
	assert_null(raw_sample_add(raw, 0x10, (size_t)RAW_MAX_BYTES + 1));
}

static void a_clone_reads_like_the_original(void **state)
{
	struct raw_sample *raw = *state;
	uint64_t value = 42;
	memcpy(raw_sample_add(raw, 0x1000, 8), &value, 8);
	memset(raw_sample_add(raw, 0x8000, 1024), 3, 1024);
	raw->stopped = raw->shortened = raw->who.maybe_python = true;
	struct raw_sample *clone = raw_sample_clone(raw);
	raw_sample_reset(raw);
	uint8_t byte;
	assert_true(clone->stopped && clone->shortened && clone->who.maybe_python);
	assert_true(memory_read_u64(&clone->reader, 0x1000, &value, NULL));
	assert_int_equal(value, 42);
	assert_true(memory_read(&clone->reader, 0x8010, &byte, 1, NULL));
	assert_int_equal(byte, 3);
	raw_sample_free(clone);
}

static void a_live_sample_keeps_what_it_reads_without_allocating(void **state)
{
	struct raw_sample *raw = *state;
	static uint64_t here[512];
	struct target *self;
	assert_true(target_open(getpid(), &self, NULL));
	/* All its pages are there: who reads one that is not is another process, which is made. */
	memset(here, 1, sizeof(here));
	here[5] = 99;
	const struct target_range ranges[] = {{8, 16}, /* a hole */
					      {(remote_addr)(uintptr_t)here, 2048},
					      {(remote_addr)(uintptr_t)&here[300], 8}};
	uint64_t before = alloc_count(), value;
	raw_sample_prefetch(raw, self, ranges, 3);
	assert_int_equal(raw->store.range_count, 2);
	raw->live = self;
	assert_true(memory_read_u64(&raw->reader, (remote_addr)(uintptr_t)&value, &value, NULL));
	assert_true(memory_read_u64(&raw->reader, (remote_addr)(uintptr_t)&here[5], &value, NULL));
	assert_int_equal(value, 99);
	assert_int_equal(raw->store.range_count, 3);
	assert_int_equal(alloc_count(), before);
	raw->live = NULL;
	target_free(self);
}

static uint8_t byte_at(struct raw_sample *raw, remote_addr address, size_t size)
{
	uint8_t got[64];
	assert_true(memory_read(&raw->reader, address, got, size, NULL));
	return got[0];
}

static void newer_bytes_go_wherever_the_old_ones_are(void **state)
{
	struct raw_sample *raw = *state;
	uint8_t newer[1024];
	memset(newer, 9, sizeof(newer));
	memset(raw_sample_add_span(raw, 0x1000, 64), 1, 64);
	memset(raw_sample_add_span(raw, 0x2000, 64), 1, 64);
	memset(raw_sample_add_span(raw, 0x3000, 64), 1, 64);
	memset(raw_sample_add(raw, 0x1020, 64), 1, 64);
	memset(raw_sample_add(raw, 0x1c00, 1024), 1, 1024);
	/* Part of two ranges, and held by none as a whole. */
	assert_true(raw_sample_overwrite(raw, 0x1030, newer, 0x20));
	assert_int_equal(byte_at(raw, 0x102f, 1), 1);
	assert_int_equal(byte_at(raw, 0x1030, 16), 9);
	assert_int_equal(byte_at(raw, 0x1030, 32), 9);
	assert_int_equal(byte_at(raw, 0x1020, 64), 1);
	uint8_t second[64];
	assert_true(memory_read(&raw->reader, 0x1020, second, 64, NULL));
	assert_int_equal(second[0xf], 1);
	assert_int_equal(second[0x10], 9);
	assert_int_equal(second[0x2f], 9);
	assert_int_equal(second[0x30], 1);
	/* All of a range and more, across several. */
	assert_true(raw_sample_overwrite(raw, 0x1ff0, newer, 512));
	assert_int_equal(byte_at(raw, 0x2000, 64), 9);
	assert_int_equal(byte_at(raw, 0x1ff0, 16), 9);
	assert_int_equal(byte_at(raw, 0x1fe0, 16), 1);
	assert_int_equal(byte_at(raw, 0x1ff8, 8), 9);
	assert_int_equal(byte_at(raw, 0x3000, 64), 1);
	assert_int_equal(byte_at(raw, 0x1000, 16), 1);
	assert_false(raw_sample_overwrite(raw, 0x900000, newer, (size_t)RAW_MAX_BYTES + 1));
}

static void a_refreshed_sample_shows_what_is_there_now(void **state)
{
	struct raw_sample *raw = *state;
	static uint64_t there[3000];
	struct target *target;
	uint64_t value;
	assert_true(target_open(getpid(), &target, NULL));
	const struct target_range span = {(uintptr_t)&there[1000], sizeof(there) / 2};
	raw_sample_prefetch(raw, target, &span, 1);
	raw->live = target;
	for (size_t i = 0; i < 3000; i += i < 1000 ? 1 : 500)
		assert_true(memory_read_u64(&raw->reader, (uintptr_t)&there[i], &value, NULL));
	raw->live = NULL;
	/* One that cannot be read, in the middle of the others, stays. */
	memset(raw_sample_add(raw, 0x10, 8), 5, 8);
	for (size_t i = 0; i < 3000; i++)
		there[i] = i;
	raw->live = target;
	assert_true(memory_read_u64(&raw->reader, (uintptr_t)&there[2999], &value, NULL));
	raw->live = NULL;
	assert_true(memory_read_u64(&raw->reader, (uintptr_t)&there[7], &value, NULL));
	assert_int_equal(value, 0);
	there[2999] = 1;
	raw_sample_refresh(raw, target);
	for (size_t i = 0; i < 2500; i += i < 1000 ? 1 : 500) {
		assert_true(memory_read_u64(&raw->reader, (uintptr_t)&there[i], &value, NULL));
		assert_int_equal(value, i);
	}
	assert_true(memory_read_u64(&raw->reader, (uintptr_t)&there[2999], &value, NULL));
	assert_int_equal(value, 1);
	assert_int_equal(byte_at(raw, 0x10, 8), 5);
	target_free(target);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_copied_range_reads_back_exactly),
		TEST(a_large_range_serves_reads_inside_it),
		TEST(a_view_is_of_the_bytes_that_reads_give),
		TEST(a_reset_sample_holds_nothing),
		TEST(more_ranges_than_there_is_room_for_are_refused),
		TEST(a_clone_reads_like_the_original),
		TEST(newer_bytes_go_wherever_the_old_ones_are),
		TEST(a_refreshed_sample_shows_what_is_there_now),
		TEST(a_live_sample_keeps_what_it_reads_without_allocating),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
