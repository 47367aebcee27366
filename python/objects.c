/* SPDX-License-Identifier: MIT */
/*
 * Looks things up in objects of the target: a dict's value, an instance's attribute. Read while the
 * target runs, so all of it is best effort: every size is bounded, what does not look right ends
 * the search, and there is no error: 0 is "not found".
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "python/internal.h"

enum {
	MAX_ENTRIES = 1 << 17, /* of a dict, free ones too */
	KIND_GENERAL = 0,      /* dk_kind: entries with a hash */
	WITH_HASH = 24,
	WITHOUT_HASH = 16,
	SMALL_DICT = 64,
	MAX_DIGITS = 3, /* 64 bits of value in digits of 30 */
};

uint64_t object_word(const struct python_objects *objects, remote_addr address)
{
	uint64_t word;
	return address && memory_read_u64(objects->memory, address, &word, NULL) ? word : 0;
}

static uint64_t flags_of(const struct python_objects *objects, remote_addr object)
{
	return object ? python_type_flags(objects->layout, objects->memory, object) : 0;
}

/* ---- keys ---- */

/*
 * CPython 3.12 Include/cpython/longintrepr.h: digits of 30 bits; their count is above three
 * bits of tag. Before, it is the object's size, negative for negative numbers.
 */
static bool long_value(const struct python_objects *objects, remote_addr object, uint64_t *value)
{
	const struct python_layout *layout = objects->layout;
	uint64_t size = object_word(objects, object + layout->object_var_size);
	*value = 0;
	if (layout->integer_form == INTEGER_TAG)
		size = (size & 3) == 0 ? size >> 3 : 0;
	if (size == 0 || size > MAX_DIGITS)
		return false;
	for (unsigned i = 0; i < size; i++) {
		uint32_t digit;
		if (!memory_read_u32(objects->memory, object + layout->integer_digits + 4 * i,
				     &digit, NULL))
			return false;
		*value |= (uint64_t)(digit & 0x3fffffff) << (30 * i);
	}
	return true;
}

bool object_integer(const struct python_objects *objects, remote_addr object, uint64_t *value)
{
	const struct python_layout *layout = objects->layout;
	uint64_t flags = flags_of(objects, object);
	if (layout->integer_form == INTEGER_PLAIN && (flags & TYPE_INT))
		return memory_read_u64(objects->memory, object + layout->integer_value, value,
				       NULL);
	return (flags & TYPE_LONG) && long_value(objects, object, value);
}

static bool is_integer(const struct python_objects *objects, remote_addr object, uint64_t wanted)
{
	uint64_t value;
	return object_integer(objects, object, &value) && value == wanted;
}

static bool is_wanted(const struct python_objects *objects, remote_addr key,
		      const struct object_key *wanted)
{
	return wanted->text ? python_string_is(objects->layout, objects->memory, key, wanted->text)
			    : is_integer(objects, key, wanted->integer);
}

/* ---- dicts ---- */

/* Where the entries of a dict start, how many and how large they are. The value follows the key. */
struct entries {
	remote_addr start;
	size_t count, size, key;
	remote_addr values; /* of a split table, an array beside the entries; 0: they hold them */
};

static bool set_entries(struct entries *entries, remote_addr start, uint64_t count, size_t size)
{
	if (count > MAX_ENTRIES)
		return false;
	entries->start = start;
	entries->count = count;
	entries->size = size;
	entries->key = size - 16;
	return true;
}

/* The entries of a keys object (3.3+). */
static bool find_entries(const struct python_objects *objects, remote_addr keys,
			 struct entries *entries)
{
	const struct python_layout *layout = objects->layout;
	uint8_t header[MAX_RECORD];
	uint64_t slots;
	if (!keys || !memory_read(objects->memory, keys, header, layout->keys_indices, NULL))
		return false;
	remote_addr start = keys + layout->keys_indices;
	switch (layout->keys_form) {
	case KEYS_MASK:
		break;
	case KEYS_SLOTS:
		return set_entries(entries, start, field_u64(header, layout->keys_table_size),
				   WITH_HASH);
	case KEYS_TABLE_SIZE:
		slots = field_u64(header, layout->keys_table_size);
		if (slots > 4 * MAX_ENTRIES)
			return false;
		start += slots * (slots <= 0xff ? 1 : slots <= 0xffff ? 2 : 4);
		return set_entries(entries, start, field_u64(header, layout->keys_entry_count),
				   WITH_HASH);
	case KEYS_LOG2_AND_KIND:
		if (field_u8(header, layout->keys_log2_index_bytes) > 30)
			return false;
		start += 1ull << field_u8(header, layout->keys_log2_index_bytes);
		return set_entries(entries, start, field_u64(header, layout->keys_entry_count),
				   field_u8(header, layout->keys_kind) == KIND_GENERAL
					   ? WITH_HASH
					   : WITHOUT_HASH);
	}
	return false;
}

static remote_addr find_value(const struct python_objects *objects, const struct entries *entries,
			      const struct object_key *wanted)
{
	if (entries->count == 0)
		return 0;
	_cleanup_free_ uint8_t *bytes = alloc_zeroed(entries->count, entries->size);
	if (!memory_read(objects->memory, entries->start, bytes, entries->count * entries->size,
			 NULL))
		return 0;
	for (size_t i = 0; i < entries->count; i++) {
		const uint8_t *entry = bytes + i * entries->size + entries->key;
		remote_addr key = field_u64(entry, 0), value = field_u64(entry, 8);
		/* A key without a value: it has been deleted. */
		if (!key || (!entries->values && !value) || !is_wanted(objects, key, wanted))
			continue;
		return entries->values ? object_word(objects, entries->values + 8 * i) : value;
	}
	return 0;
}

static bool open_dict(const struct python_objects *objects, remote_addr dict,
		      struct entries *entries)
{
	const struct python_layout *layout = objects->layout;
	memset(entries, 0, sizeof(*entries));
	if (!(flags_of(objects, dict) & TYPE_DICT))
		return false;
	if (layout->keys_form == KEYS_MASK) {
		uint64_t mask = object_word(objects, dict + layout->dict_mask);
		remote_addr table = object_word(objects, dict + layout->dict_table);
		return table && mask < MAX_ENTRIES &&
		       set_entries(entries, table, mask + 1, WITH_HASH);
	}
	if (!find_entries(objects, object_word(objects, dict + layout->dict_keys), entries))
		return false;
	remote_addr values = object_word(objects, dict + layout->dict_values);
	entries->values = values ? values + layout->values_first : 0;
	return true;
}

remote_addr object_dict_value(const struct python_objects *objects, remote_addr dict,
			      const struct object_key *wanted)
{
	struct entries entries;
	return open_dict(objects, dict, &entries) ? find_value(objects, &entries, wanted) : 0;
}

/* ---- a dict of integers, asked many times ---- */

void object_index_release(struct object_index *index)
{
	table_release(&index->places);
	memset(index, 0, sizeof(*index));
}

/* Notes the entries from `first` on, up to one that has no number, or cannot be read. */
static void index_entries(const struct python_objects *objects, const struct entries *entries,
			  size_t first, struct object_index *index)
{
	size_t count = entries->count - first, noted = 0;
	_cleanup_free_ uint8_t *bytes = alloc_zeroed(count, entries->size);
	if (count && !memory_read(objects->memory, entries->start + first * entries->size, bytes,
				  count * entries->size, NULL))
		return;
	for (; noted < count; noted++) {
		const uint8_t *entry = bytes + noted * entries->size + entries->key;
		remote_addr key = field_u64(entry, 0), value = field_u64(entry, 8);
		uint64_t number;
		if (key && value && !object_integer(objects, key, &number))
			break;
		if (key && value)
			table_put(&index->places, number, 0, (uint32_t)(first + noted));
	}
	index->start = entries->start;
	index->count = first + noted;
}

/* The value of the entry that the index has for the key. *stale: it is another key's by now. */
static remote_addr indexed_value(const struct python_objects *objects,
				 const struct entries *entries, const struct object_index *index,
				 uint64_t key, bool *stale)
{
	uint32_t place;
	uint64_t pair[2], found;
	*stale = false;
	if (!table_find(&index->places, key, 0, &place))
		return 0;
	*stale = true;
	if (place >= entries->count ||
	    !memory_read(objects->memory, entries->start + place * entries->size + entries->key,
			 pair, sizeof(pair), NULL) ||
	    !pair[0] || !object_integer(objects, pair[0], &found) || found != key)
		return 0;
	*stale = false;
	return pair[1];
}

remote_addr object_dict_indexed(const struct python_objects *objects, remote_addr dict,
				uint64_t key, struct object_index *index)
{
	struct entries entries;
	const struct object_key wanted = {NULL, key};
	if (!open_dict(objects, dict, &entries))
		return 0;
	if (entries.values)
		return find_value(objects, &entries, &wanted);
	bool in_place =
		objects->layout->keys_form == KEYS_MASK || objects->layout->keys_form == KEYS_SLOTS;
	if (index->start == entries.start && index->count <= entries.count) {
		bool stale;
		/* Since 3.6, what is new in a dict is behind what was there before. */
		if (index->count < entries.count)
			index_entries(objects, &entries, index->count, index);
		remote_addr value = indexed_value(objects, &entries, index, key, &stale);
		/* A small one may have been made anew in the memory of the one before. */
		if (value || (!stale && !in_place && entries.count > SMALL_DICT &&
			      index->count == entries.count))
			return value;
	}
	bool ignored;
	object_index_release(index);
	index_entries(objects, &entries, 0, index);
	remote_addr value = indexed_value(objects, &entries, index, key, &ignored);
	return value || index->count == entries.count ? value
						      : find_value(objects, &entries, &wanted);
}

/* ---- attributes ---- */

/* An attribute that lies among an instance's managed values rather than in a dict. */
static remote_addr managed_value(const struct python_objects *objects, remote_addr type,
				 remote_addr values, const struct object_key *name)
{
	const struct python_layout *layout = objects->layout;
	struct entries entries = {.values = values + layout->values_first};
	return find_entries(objects, object_word(objects, type + layout->type_cached_keys),
			    &entries)
		       ? find_value(objects, &entries, name)
		       : 0;
}

static remote_addr managed_attribute(const struct python_objects *objects, remote_addr object,
				     uint64_t flags, const struct object_key *name)
{
	const struct python_layout *layout = objects->layout;
	remote_addr type = object_word(objects, object + layout->object_type), values;
	remote_addr dict = object_word(objects, object - layout->instance_dict_before);
	switch (layout->attributes) {
	case ATTRIBUTES_DICT_AND_VALUES:
		values = object_word(objects, object - layout->instance_values_before);
		if (values)
			return managed_value(objects, type, values, name);
		break;
	case ATTRIBUTES_TAGGED_WORD:
		if (dict & 1)
			return managed_value(objects, type, dict + 1, name);
		break;
	case ATTRIBUTES_INLINE:
		if (!dict && (flags & TYPE_INLINE_VALUES)) {
			values = object + object_word(objects, type + layout->type_basicsize);
			return managed_value(objects, type, values, name);
		}
		break;
	case ATTRIBUTES_DICT:
		break;
	}
	return object_dict_value(objects, dict, name);
}

remote_addr object_attribute(const struct python_objects *objects, remote_addr object,
			     const char *name)
{
	enum { LARGEST = 1 << 20 };
	const struct python_layout *layout = objects->layout;
	const struct object_key wanted = {name, 0};
	uint64_t flags = flags_of(objects, object);
	if (layout->attributes != ATTRIBUTES_DICT && (flags & TYPE_MANAGED_DICT))
		return managed_attribute(objects, object, flags, &wanted);
	remote_addr type = object ? object_word(objects, object + layout->object_type) : 0;
	uint64_t offset = type ? object_word(objects, type + layout->type_dictoffset) : 0;
	if (offset == 0 || offset > LARGEST)
		return 0;
	return object_dict_value(objects, object_word(objects, object + offset), &wanted);
}
