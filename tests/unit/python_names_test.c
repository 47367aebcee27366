/* SPDX-License-Identifier: MIT */
/*
 * Thread names: found in a made-up interpreter of every version, whose dicts and instances are laid
 * out as its row says; and, as they are read from a running target, dicts of any content must end
 * the search.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "python/internal.h"

enum { MEMORY = 256 << 10, INTERPRETER = 0x1000, HEAP = 0x4000 };

struct target_memory {
	struct memory_reader reader;
	uint8_t bytes[MEMORY];
	size_t reads;
	remote_addr withheld; /* no read that includes this byte ends well; 0: none */
	const struct python_layout *layout;
	remote_addr free;
	remote_addr text_type, integer_type, dict_type, other_type;
};

static bool read_memory(const struct memory_reader *reader, remote_addr address, void *buffer,
			size_t size, struct error *error)
{
	struct target_memory *memory = (struct target_memory *)reader;
	memory->reads++;
	if (address > MEMORY || size > MEMORY - address)
		return error_set(error, ERROR_GONE, "not mapped");
	if (memory->withheld && memory->withheld - address < size)
		return error_set(error, ERROR_BUSY, "it does not come");
	memcpy(buffer, memory->bytes + address, size);
	return true;
}

/* ---- an interpreter's objects ---- */

static void put(struct target_memory *memory, remote_addr address, uint64_t value)
{
	assert_true(address + 8 <= MEMORY);
	memcpy(memory->bytes + address, &value, 8);
}

static void put_u8(struct target_memory *memory, remote_addr address, uint8_t value)
{
	memory->bytes[address] = value;
}

static remote_addr allocate(struct target_memory *memory, size_t size)
{
	remote_addr address = memory->free;
	memory->free = (address + size + 15) & ~(remote_addr)15;
	assert_true(memory->free <= MEMORY);
	return address;
}

static remote_addr new_type(struct target_memory *memory, uint64_t flags)
{
	remote_addr type = allocate(memory, 1024);
	put(memory, type + memory->layout->type_flags, flags);
	return type;
}

static remote_addr new_object(struct target_memory *memory, remote_addr type, size_t size)
{
	remote_addr object = allocate(memory, size);
	put(memory, object + memory->layout->object_type, type);
	return object;
}

static remote_addr new_text(struct target_memory *memory, const char *text)
{
	const struct python_layout *layout = memory->layout;
	remote_addr object = new_object(memory, memory->text_type, 256);
	remote_addr data;
	if (layout->string_form == STRINGS_BYTES) {
		put(memory, object + layout->object_var_size, strlen(text));
		data = object + layout->bytes_data;
	} else {
		unsigned shift = layout->string_form == STRINGS_COMPACT ? 2 : 8;
		put(memory, object + layout->unicode_length, strlen(text));
		put(memory, object + layout->unicode_state, (1 | 1 << 3 | 1 << 4) << shift);
		data = object + layout->unicode_ascii_size;
	}
	memcpy(memory->bytes + data, text, strlen(text));
	return object;
}

static remote_addr new_integer(struct target_memory *memory, uint64_t value)
{
	const struct python_layout *layout = memory->layout;
	remote_addr object = new_object(memory, memory->integer_type, 128);
	if (layout->integer_form == INTEGER_PLAIN) {
		put(memory, object + layout->integer_value, value);
		return object;
	}
	uint64_t count = value >> 60 ? 3 : value >> 30 ? 2 : 1;
	put(memory, object + layout->object_var_size,
	    layout->integer_form == INTEGER_TAG ? count << 3 : count);
	for (uint64_t i = 0; i < count; i++) {
		uint32_t digit = value >> 30 * i & 0x3fffffff;
		memcpy(memory->bytes + object + layout->integer_digits + 4 * i, &digit, 4);
	}
	return object;
}

struct item {
	remote_addr key, value;
};

/* A keys object with the items and a deleted one; free slots before and between the entries where
 * they are slots. *places: of each item among the values of a split table. */
static remote_addr new_keys(struct target_memory *memory, const struct item *items, size_t count,
			    bool general, size_t *places)
{
	const struct python_layout *layout = memory->layout;
	enum { SLOTS = 16 };
	remote_addr keys = allocate(memory, 1024);
	bool slots = layout->keys_form == KEYS_SLOTS;
	bool hash = layout->keys_form != KEYS_LOG2_AND_KIND || general;
	size_t size = hash ? 24 : 16, step = slots ? 3 : 1;
	remote_addr entries = keys + layout->keys_indices;
	if (layout->keys_table_size != LAYOUT_ABSENT)
		put(memory, keys + layout->keys_table_size, SLOTS);
	if (layout->keys_log2_index_bytes != LAYOUT_ABSENT) {
		put_u8(memory, keys + layout->keys_log2_index_bytes, 4);
		put_u8(memory, keys + layout->keys_kind, general ? 0 : 1);
	}
	if (!slots) {
		entries += SLOTS;
		put(memory, keys + layout->keys_entry_count, count + 1);
	}
	put(memory, entries + size - 16, items[0].key); /* the first has been deleted */
	for (size_t i = 0; i < count; i++) {
		size_t place = 1 + i * step;
		put(memory, entries + place * size + size - 16, items[i].key);
		put(memory, entries + place * size + size - 8, items[i].value);
		if (places)
			places[i] = place;
	}
	return keys;
}

static remote_addr new_dict(struct target_memory *memory, const struct item *items, size_t count,
			    bool general)
{
	const struct python_layout *layout = memory->layout;
	remote_addr dict = new_object(memory, memory->dict_type, 128);
	if (layout->keys_form != KEYS_MASK) {
		put(memory, dict + layout->dict_keys,
		    new_keys(memory, items, count, general, NULL));
		return dict;
	}
	remote_addr table = allocate(memory, 16 * 24);
	put(memory, dict + layout->dict_mask, 15);
	put(memory, dict + layout->dict_table, table);
	put(memory, table + 8, items[0].key);
	for (size_t i = 0; i < count; i++) {
		put(memory, table + (1 + 2 * i) * 24 + 8, items[i].key);
		put(memory, table + (1 + 2 * i) * 24 + 16, items[i].value);
	}
	return dict;
}

/* A dict whose values stand beside the keys that it shares with other dicts. */
static remote_addr new_split_dict(struct target_memory *memory, const struct item *items,
				  size_t count)
{
	const struct python_layout *layout = memory->layout;
	struct item keys_only[8];
	size_t places[8];
	for (size_t i = 0; i < count; i++)
		keys_only[i] = (struct item){items[i].key, 0};
	remote_addr dict = new_object(memory, memory->dict_type, 128);
	put(memory, dict + layout->dict_keys, new_keys(memory, keys_only, count, false, places));
	remote_addr values = allocate(memory, 256);
	put(memory, dict + layout->dict_values, values);
	for (size_t i = 0; i < count; i++)
		put(memory, values + layout->values_first + 8 * places[i], items[i].value);
	return dict;
}

enum instance { WITH_DICT, WITH_SPLIT_DICT, WITH_VALUES, INSTANCES };

/* An instance with its own dict, with one that shares its keys, or with managed values. */
static remote_addr new_instance(struct target_memory *memory, enum instance form,
				const struct item *items, size_t count)
{
	enum { DICT_OFFSET = 56, BASIC_SIZE = 64 };
	const struct python_layout *layout = memory->layout;
	bool managed = layout->attributes != ATTRIBUTES_DICT;
	remote_addr type = new_type(memory, !managed ? 0 : TYPE_MANAGED_DICT | TYPE_INLINE_VALUES);
	put(memory, type + layout->type_dictoffset, managed ? UINT64_MAX : DICT_OFFSET);
	put(memory, type + layout->type_basicsize, BASIC_SIZE);
	allocate(memory, 64); /* what stands before an object */
	remote_addr object = new_object(memory, type, 512);
	remote_addr place = managed ? object - layout->instance_dict_before : object + DICT_OFFSET;
	if (form != WITH_VALUES) {
		put(memory, place,
		    form == WITH_DICT ? new_dict(memory, items, count, false)
				      : new_split_dict(memory, items, count));
		return object;
	}
	struct item keys_only[8];
	size_t places[8];
	for (size_t i = 0; i < count; i++)
		keys_only[i] = (struct item){items[i].key, 0};
	put(memory, type + layout->type_cached_keys,
	    new_keys(memory, keys_only, count, false, places));
	remote_addr values = layout->attributes == ATTRIBUTES_INLINE ? object + BASIC_SIZE
								     : allocate(memory, 256);
	if (layout->attributes == ATTRIBUTES_TAGGED_WORD)
		put(memory, place, values - 1);
	if (layout->attributes == ATTRIBUTES_DICT_AND_VALUES)
		put(memory, object - layout->instance_values_before, values);
	for (size_t i = 0; i < count; i++)
		put(memory, values + layout->values_first + 8 * places[i], items[i].value);
	return object;
}

static void start(struct target_memory *memory, const struct python_layout *layout)
{
	memset(memory, 0, sizeof(*memory));
	memory->reader.read = read_memory;
	memory->layout = layout;
	memory->free = HEAP;
	memory->text_type =
		new_type(memory, layout->string_form == STRINGS_BYTES ? TYPE_BYTES : TYPE_UNICODE);
	memory->integer_type =
		new_type(memory, layout->integer_form == INTEGER_PLAIN ? TYPE_INT : TYPE_LONG);
	memory->dict_type = new_type(memory, TYPE_DICT);
	memory->other_type = new_type(memory, 0);
}

/* sys.modules["threading"]._active, which holds two threads. */
static void build(struct target_memory *memory, const struct python_layout *layout,
		  enum instance form)
{
	const char *names[] = {"MainThread", "Thread-1 (worker)"};
	const uint64_t idents[] = {0x7f1234567890, 0xf00000007fffffff};
	struct item threads[3] = {{new_text(memory, "no ident"), 1}};
	for (size_t i = 0; i < 2; i++) {
		struct item attributes[] = {
			{new_text(memory, "_target"), new_object(memory, memory->other_type, 64)},
			{new_text(memory, layout->thread_name), new_text(memory, names[i])},
		};
		threads[i + 1].key = new_integer(memory, idents[i]);
		threads[i + 1].value = new_instance(memory, form, attributes, 2);
	}
	struct item members[] = {
		{new_text(memory, "_limbo"), new_object(memory, memory->other_type, 64)},
		{new_text(memory, "_active"), new_dict(memory, threads, 3, true)},
	};
	remote_addr module = new_object(memory, memory->other_type, 64);
	put(memory, module + layout->module_dict, new_dict(memory, members, 2, false));
	struct item modules[] = {
		{new_integer(memory, 9), module},
		{new_text(memory, "threading"), module},
	};
	put(memory, INTERPRETER + layout->interp_modules, new_dict(memory, modules, 2, true));
}

static void names_are_found_in_every_version(void **state)
{
	(void)state;
	static struct target_memory memory;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = python_layout_row(row)) != NULL; row++) {
		for (enum instance form = WITH_DICT; form < INSTANCES; form++) {
			if ((form == WITH_VALUES && layout->attributes == ATTRIBUTES_DICT) ||
			    (form == WITH_SPLIT_DICT && layout->keys_form == KEYS_MASK))
				continue;
			/* Large offsets belong to the interpreter, small ones to the heap. */
			struct python_layout near = *layout;
			near.interp_modules = 64;
			struct python_active active = {0};
			struct python_runtime runtime = {.layout = near, .last_active = &active};
			struct python_thread thread = {.interpreter = INTERPRETER,
						       .thread_id = 0xf00000007fffffff};
			start(&memory, &near);
			build(&memory, &near, form);
			char name[PYTHON_NAME_SIZE] = "nothing";
			if (!python_thread_name(&runtime, &memory.reader, &thread, name) ||
			    strcmp(name, "Thread-1 (worker)") != 0)
				fail_msg("%u.%u%s, form %d: %s", layout->major, layout->minor,
					 layout->free_threaded ? "t" : "", (int)form, name);
			thread.thread_id = 0x7f1234567890;
			assert_true(python_thread_name(&runtime, &memory.reader, &thread, name));
			assert_string_equal(name, "MainThread");
			thread.thread_id = 3;
			assert_false(python_thread_name(&runtime, &memory.reader, &thread, name));
			thread.main = true; /* but threading has been imported */
			assert_false(python_thread_name(&runtime, &memory.reader, &thread, name));
			object_index_release(&active.threads);
		}
	}
}

static void a_2_7_ident_may_be_an_int_or_a_long(void **state)
{
	(void)state;
	static struct target_memory memory;
	const struct python_layout *layout = python_layout_find(2, 7, false);
	const uint64_t values[] = {1, 0x3fffffff, 0x7f1234567890, UINT64_MAX};
	start(&memory, layout);
	for (size_t i = 0; i < 4; i++) {
		struct python_layout digits = *layout;
		const struct python_objects objects = {layout, &memory.reader};
		const struct object_key wanted = {NULL, values[i]}, other = {NULL, values[i] - 1};
		memory.layout = layout;
		const struct item plain[] = {{new_integer(&memory, values[i]), 0x1230}};
		digits.integer_form = INTEGER_SIGNED_SIZE;
		memory.layout = &digits;
		const struct item big[] = {{new_integer(&memory, values[i]), 0x4560}};
		put(&memory, big[0].key + layout->object_type, new_type(&memory, TYPE_LONG));
		memory.layout = layout;
		remote_addr dict = new_dict(&memory, plain, 1, true);
		assert_int_equal(object_dict_value(&objects, dict, &wanted), 0x1230);
		assert_int_equal(object_dict_value(&objects, dict, &other), 0);
		dict = new_dict(&memory, big, 1, true);
		assert_int_equal(object_dict_value(&objects, dict, &wanted), 0x4560);
		assert_int_equal(object_dict_value(&objects, dict, &other), 0);
		/* A negative number has a negative size. */
		put(&memory, big[0].key + layout->object_var_size, (uint64_t)-1);
		assert_int_equal(object_dict_value(&objects, dict, &wanted), 0);
	}
}

static void dicts_of_a_hostile_size_are_empty(void **state)
{
	(void)state;
	static struct target_memory memory;
	static const uint64_t sizes[] = {1 << 17, 1 << 20, 1ull << 32, 1ull << 62, UINT64_MAX};
	const struct python_layout *layout;
	for (size_t row = 0; (layout = python_layout_row(row)) != NULL; row++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			const struct python_objects objects = {layout, &memory.reader};
			const struct object_key wanted = {"_name", 0};
			start(&memory, layout);
			const struct item items[] = {{new_text(&memory, "_name"), 0x1230}};
			remote_addr dict = new_dict(&memory, items, 1, true);
			assert_int_equal(object_dict_value(&objects, dict, &wanted), 0x1230);
			remote_addr keys =
				layout->keys_form == KEYS_MASK
					? 0
					: object_word(&objects, dict + layout->dict_keys);
			if (layout->keys_form == KEYS_MASK)
				put(&memory, dict + layout->dict_mask, sizes[i]);
			else if (layout->keys_form == KEYS_SLOTS)
				put(&memory, keys + layout->keys_table_size, sizes[i]);
			else
				put(&memory, keys + layout->keys_entry_count, sizes[i] + 1);
			memory.reads = 0;
			assert_int_equal(object_dict_value(&objects, dict, &wanted), 0);
			assert_true(memory.reads < 10);
		}
}

/* ---- a dict of many integers ---- */

/* A dict of integers from 1 on, with room for more; the value of n is 16 n. */
static remote_addr new_numbers(struct target_memory *memory, size_t count)
{
	const struct python_layout *layout = memory->layout;
	enum { LOG2_SLOTS = 10, SLOTS = 1 << LOG2_SLOTS };
	remote_addr dict = new_object(memory, memory->dict_type, 128);
	remote_addr keys = allocate(memory, 128 + 2 * SLOTS + 24 * SLOTS), entries;
	if (layout->keys_form == KEYS_MASK) {
		put(memory, dict + layout->dict_mask, SLOTS - 1);
		put(memory, dict + layout->dict_table, entries = keys);
	} else {
		put(memory, dict + layout->dict_keys, keys);
		entries = keys + layout->keys_indices;
	}
	if (layout->keys_table_size != LAYOUT_ABSENT)
		put(memory, keys + layout->keys_table_size, SLOTS);
	if (layout->keys_log2_index_bytes != LAYOUT_ABSENT) {
		put_u8(memory, keys + layout->keys_log2_index_bytes, LOG2_SLOTS + 1);
		put_u8(memory, keys + layout->keys_kind, 0);
	}
	if (layout->keys_entry_count != LAYOUT_ABSENT) {
		entries += 2 * SLOTS;
		put(memory, keys + layout->keys_entry_count, count);
	}
	for (size_t i = 0; i < count; i++) {
		put(memory, entries + i * 24 + 8, new_integer(memory, i + 1));
		put(memory, entries + i * 24 + 16, 16 * (i + 1));
	}
	return entries;
}

/* The number of reads must grow with the number of keys, not with its square. */
static void all_values_of_a_dict_cost_a_few_reads_each(void **state)
{
	(void)state;
	enum { FEW = 50, MANY = 500, READS_EACH = 16 };
	static struct target_memory memory;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = python_layout_row(row)) != NULL; row++) {
		for (size_t count = FEW; count <= MANY; count *= MANY / FEW) {
			const struct python_objects objects = {layout, &memory.reader};
			struct object_index index = {0};
			start(&memory, layout);
			remote_addr dict = memory.free;
			new_numbers(&memory, count);
			memory.reads = 0;
			for (uint64_t key = count; key > 0; key--)
				assert_int_equal(object_dict_indexed(&objects, dict, key, &index),
						 16 * key);
			assert_true(memory.reads <= READS_EACH * count);
			object_index_release(&index);
		}
	}
}

static void an_indexed_dict_may_change(void **state)
{
	(void)state;
	static struct target_memory memory;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = python_layout_row(row)) != NULL; row++) {
		const struct python_objects objects = {layout, &memory.reader};
		struct object_index index = {0};
		start(&memory, layout);
		remote_addr dict = memory.free, entries = new_numbers(&memory, 5);
		assert_int_equal(object_dict_indexed(&objects, dict, 6, &index), 0);
		assert_int_equal(object_dict_indexed(&objects, dict, 5, &index), 80);
		/* One more. */
		put(&memory, entries + 5 * 24 + 8, new_integer(&memory, 6));
		put(&memory, entries + 5 * 24 + 16, 0x660);
		if (layout->keys_entry_count != LAYOUT_ABSENT)
			put(&memory,
			    object_word(&objects, dict + layout->dict_keys) +
				    layout->keys_entry_count,
			    6);
		assert_int_equal(object_dict_indexed(&objects, dict, 6, &index), 0x660);
		/* The same memory, another order. */
		put(&memory, entries + 8, new_integer(&memory, 2));
		put(&memory, entries + 16, 0x220);
		put(&memory, entries + 24 + 8, new_integer(&memory, 1));
		put(&memory, entries + 24 + 16, 0x110);
		assert_int_equal(object_dict_indexed(&objects, dict, 1, &index), 0x110);
		assert_int_equal(object_dict_indexed(&objects, dict, 2, &index), 0x220);
		/* One less. */
		put(&memory, entries + 4 * 24 + 8, 0);
		put(&memory, entries + 4 * 24 + 16, 0);
		assert_int_equal(object_dict_indexed(&objects, dict, 5, &index), 0);
		object_index_release(&index);
	}
}

static void what_cannot_be_read_is_asked_for_again(void **state)
{
	(void)state;
	static struct target_memory memory;
	const struct python_layout *layout;
	for (size_t row = 0; (layout = python_layout_row(row)) != NULL; row++) {
		const struct python_objects objects = {layout, &memory.reader};
		struct object_index index = {0};
		start(&memory, layout);
		remote_addr dict = memory.free, entries = new_numbers(&memory, 100);
		memory.withheld =
			object_word(&objects, entries + 41 * 24 + 8) + layout->object_type;
		assert_int_equal(object_dict_indexed(&objects, dict, 42, &index), 0);
		assert_int_equal(object_dict_indexed(&objects, dict, 90, &index), 90 * 16);
		memory.withheld = 0;
		assert_int_equal(object_dict_indexed(&objects, dict, 42, &index), 42 * 16);
		object_index_release(&index);
	}
}

/* ---- noise ---- */

static uint64_t next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return *seed >> 33;
}

/* Words that are addresses, flags of types, small and huge numbers, so that searches go deep. */
static void fill(struct target_memory *noise, uint64_t *seed)
{
	for (size_t at = 0; at < MEMORY; at += 8) {
		const uint64_t words[] = {
			next(seed) % MEMORY & ~7ull,
			next(seed) % MEMORY & ~7ull,
			next(seed) % MEMORY & ~7ull,
			(7ull << 28) | 3 << 23 | next(seed) % 32,
			next(seed) % 64,
			(9 | next(seed) % 4 << 8) << 8,
			UINT64_MAX,
		};
		memcpy(noise->bytes + at, &words[next(seed) % 7], 8);
	}
}

static void names_in_noise_end_the_search(void **state)
{
	(void)state;
	static struct target_memory noise;
	const struct python_layout *layout = NULL;
	uint64_t seed = 3;
	size_t row = 0;
	noise.reader.read = read_memory;
	for (int round = 0; round < 4000; round++) {
		layout = python_layout_row(row++);
		if (!layout)
			layout = python_layout_row(row = 0);
		struct python_active active = {.interpreter = INTERPRETER,
					       .dict = next(&seed) % MEMORY & ~7ull};
		struct python_runtime runtime = {.layout = *layout, .last_active = &active};
		const struct python_thread thread = {.interpreter = INTERPRETER,
						     .thread_id = next(&seed) % 64};
		fill(&noise, &seed);
		noise.reads = 0;
		char name[PYTHON_NAME_SIZE];
		(void)python_thread_name(&runtime, &noise.reader, &thread, name);
		assert_true(noise.reads < 10u * (1 << 17));
		object_index_release(&active.threads);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_found_in_every_version),
		cmocka_unit_test(a_2_7_ident_may_be_an_int_or_a_long),
		cmocka_unit_test(dicts_of_a_hostile_size_are_empty),
		cmocka_unit_test(all_values_of_a_dict_cost_a_few_reads_each),
		cmocka_unit_test(an_indexed_dict_may_change),
		cmocka_unit_test(what_cannot_be_read_is_asked_for_again),
		cmocka_unit_test(names_in_noise_end_the_search),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
