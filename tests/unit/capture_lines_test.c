/* SPDX-License-Identifier: MIT */
/* The ranges of samples come back as they were, however they differ; what is damaged is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "capture/capture.h"

enum { SAMPLES = 200, BASE = 0x7000 };

/* The range table and bytes of one sample; small numbers, so that lines are met again. */
static void make(struct raw_sample *raw, unsigned seed)
{
	const size_t spans = seed % 3, count = spans + seed % 5;
	remote_addr address = BASE + seed % 40;
	raw_sample_reset(raw);
	for (size_t i = 0; i < count; i++) {
		const size_t size = i % 4 == 3 ? 0 : 1 + (seed * 37 + i * 71) % 300;
		uint8_t *bytes = i < spans ? raw_sample_add_span(raw, address, size)
					   : raw_sample_add(raw, address, size);
		assert_non_null(bytes);
		for (size_t at = 0; at < size; at++)
			bytes[at] = (uint8_t)((address + at) / 64 + (at / 100) * (seed % 2));
		/* Overlapping, downwards and upwards. */
		address = i == spans ? BASE - 50 : address + size + seed % 70;
	}
}

static void assert_equal(const struct raw_sample *a, const struct raw_sample *b)
{
	assert_int_equal(a->store.span_count, b->store.span_count);
	assert_int_equal(a->store.range_count, b->store.range_count);
	for (size_t i = 0; i < a->store.range_count; i++) {
		const struct raw_range *one = &a->store.ranges[i], *other = &b->store.ranges[i];
		assert_int_equal(one->address, other->address);
		assert_int_equal(one->size, other->size);
		assert_memory_equal(a->store.bytes + one->offset, b->store.bytes + other->offset,
				    one->size);
	}
}

static struct capture_reader reader_of(struct strbuf *bytes)
{
	return (struct capture_reader){
		.path = "test", .record = (uint8_t *)bytes->text, .size = bytes->size};
}

static void ranges_come_back(void **state)
{
	struct raw_sample *raw = raw_sample_new(), *again = raw_sample_new();
	struct line_memory writing, reading;
	struct strbuf bytes;
	size_t total = 0, plain = 0;
	(void)state;
	line_memory_init(&writing);
	line_memory_init(&reading);
	strbuf_init(&bytes);
	for (unsigned i = 0; i < SAMPLES; i++) {
		make(raw, i);
		strbuf_reset(&bytes);
		line_memory_write(&writing, &raw->store, &bytes);
		struct capture_reader reader = reader_of(&bytes);
		raw_sample_reset(again);
		assert_true(line_memory_read(&reading, &reader, again));
		assert_int_equal(reader.at, reader.size);
		assert_equal(raw, again);
		total += bytes.size;
		plain += raw->store.byte_count;
	}
	assert_true(total < plain / 2);
	line_memory_release(&writing);
	line_memory_release(&reading);
	strbuf_release(&bytes);
	raw_sample_free(raw);
	raw_sample_free(again);
}

/* More lines than are kept: both sides forget. */
static void what_is_kept_is_bounded(void **state)
{
	enum { SIZE = 1 << 20, ROUNDS = 24 };
	struct raw_sample *raw = raw_sample_new(), *again = raw_sample_new();
	struct line_memory writing, reading;
	struct strbuf bytes;
	(void)state;
	line_memory_init(&writing);
	line_memory_init(&reading);
	strbuf_init(&bytes);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		raw_sample_reset(raw);
		uint8_t *to = raw_sample_add_span(raw, BASE, SIZE);
		for (size_t at = 0; at < SIZE; at += sizeof(round)) {
			/* Every third one is as one before was. */
			const uint32_t value = (uint32_t)at ^ (round % 3 ? round << 24 : 0);
			memcpy(to + at, &value, sizeof(value));
		}
		strbuf_reset(&bytes);
		line_memory_write(&writing, &raw->store, &bytes);
		struct capture_reader reader = reader_of(&bytes);
		raw_sample_reset(again);
		assert_true(line_memory_read(&reading, &reader, again));
		assert_equal(raw, again);
		assert_true(writing.line_count <= (1 << 17) + SIZE / 64);
		assert_int_equal(writing.line_count, reading.line_count);
	}
	line_memory_release(&writing);
	line_memory_release(&reading);
	strbuf_release(&bytes);
	raw_sample_free(raw);
	raw_sample_free(again);
}

/* Cut off at each byte: refused. Each byte changed: refused, or another sample. */
static void damage_is_no_crash(void **state)
{
	struct raw_sample *raw = raw_sample_new(), *again = raw_sample_new();
	struct line_memory memory;
	struct strbuf bytes;
	(void)state;
	line_memory_init(&memory);
	strbuf_init(&bytes);
	make(raw, 14);
	line_memory_write(&memory, &raw->store, &bytes);
	for (size_t size = 0; size < bytes.size; size++) {
		struct capture_reader reader = reader_of(&bytes);
		struct line_memory fresh;
		reader.size = size;
		line_memory_init(&fresh);
		raw_sample_reset(again);
		assert_false(line_memory_read(&fresh, &reader, again) && !reader.overrun);
		line_memory_release(&fresh);
	}
	for (size_t at = 0; at < bytes.size; at++)
		for (unsigned value = 0; value < 256; value += 51) {
			struct capture_reader reader = reader_of(&bytes);
			struct line_memory fresh;
			const char was = bytes.text[at];
			bytes.text[at] = (char)value;
			line_memory_init(&fresh);
			raw_sample_reset(again);
			(void)!line_memory_read(&fresh, &reader, again);
			assert_true(reader.at <= reader.size);
			line_memory_release(&fresh);
			bytes.text[at] = was;
		}
	line_memory_release(&memory);
	strbuf_release(&bytes);
	raw_sample_free(raw);
	raw_sample_free(again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_come_back),
		cmocka_unit_test(what_is_kept_is_bounded),
		cmocka_unit_test(damage_is_no_crash),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
