/* SPDX-License-Identifier: MIT */
/*
 * The names that the threading module gives: sys.modules["threading"]._active[ident]._name. Read
 * while the target runs, so all of it is best effort: every size is bounded, what does not look
 * right ends the search, and there is no error: no name is an answer.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "python/internal.h"

enum {
	MAX_ENTRIES = 1 << 17,
	MAX_NAME = 512,
	TYPE_LONG = 1 << 24,
	TYPE_UNICODE = 1 << 28,
	TYPE_DICT = 1 << 29,
	TYPE_INLINE_VALUES = 1 << 2,
	TYPE_MANAGED_DICT = 1 << 4,
	KIND_GENERAL = 0, /* dk_kind: entries with a hash */
};

struct names {
	const struct python_layout *layout;
	const struct memory_reader *memory;
};

/* Asks whether a key is the one that is looked for. */
struct wanted {
	const char *text; /* NULL: an integer */
	uint64_t integer;
};

static uint64_t word_at(const struct names *names, remote_addr address)
{
	uint64_t word;
	return address && memory_read_u64(names->memory, address, &word, NULL) ? word : 0;
}

static uint64_t type_flags(const struct names *names, remote_addr object)
{
	remote_addr type = word_at(names, object + names->layout->object_type);
	return type ? word_at(names, type + names->layout->type_flags) : 0;
}

/* CPython 3.12 Include/cpython/longintrepr.h: digits of 30 bits, count above three bits of tag. */
static bool is_integer(const struct names *names, remote_addr object, uint64_t wanted)
{
	const struct python_layout *layout = names->layout;
	if (!(type_flags(names, object) & TYPE_LONG))
		return false;
	uint64_t size = word_at(names, object + layout->object_var_size), value = 0;
	if (layout->integer_form == INTEGER_TAG)
		size = (size & 3) == 0 ? size >> 3 : 0;
	if (size == 0 || size > 3)
		return false;
	for (unsigned i = 0; i < size; i++) {
		uint32_t digit;
		if (!memory_read_u32(names->memory, object + layout->integer_digits + 4 * i, &digit,
				     NULL))
			return false;
		value |= (uint64_t)(digit & 0x3fffffff) << (30 * i);
	}
	return value == wanted;
}

static bool is_text(const struct names *names, remote_addr object, const char *wanted)
{
	uint8_t header[MAX_RECORD];
	const struct python_layout *layout = names->layout;
	/* The length first: most keys differ in it, and cost one read then. */
	if (!memory_read(names->memory, object, header, layout->unicode_ascii_size, NULL) ||
	    field_u64(header, layout->unicode_length) != strlen(wanted) ||
	    !(type_flags(names, object) & TYPE_UNICODE))
		return false;
	_cleanup_strbuf_ struct strbuf text;
	strbuf_init(&text);
	return python_string_read(layout, names->memory, object, &text, NULL) &&
	       strcmp(text.text, wanted) == 0;
}

static bool is_wanted(const struct names *names, remote_addr key, const struct wanted *wanted)
{
	return wanted->text ? is_text(names, key, wanted->text)
			    : is_integer(names, key, wanted->integer);
}

/* Where the entries of a dict's keys object start, how many and how large they are. */
struct entries {
	remote_addr start;
	size_t count, size, key; /* key: offset in an entry; the value follows it */
};

static bool find_entries(const struct names *names, remote_addr keys, struct entries *entries)
{
	const struct python_layout *layout = names->layout;
	uint8_t header[MAX_RECORD];
	uint64_t index_bytes;
	if (!keys || !memory_read(names->memory, keys, header, layout->keys_indices, NULL))
		return false;
	switch (layout->keys_form) {
	case KEYS_TABLE_SIZE: {
		uint64_t slots = field_u64(header, layout->keys_table_size);
		if (slots > 4 * MAX_ENTRIES)
			return false;
		index_bytes = slots * (slots <= 0xff ? 1 : slots <= 0xffff ? 2 : 4);
		entries->size = 24;
		break;
	}
	case KEYS_LOG2_AND_KIND:
		if (field_u8(header, layout->keys_log2_index_bytes) > 30)
			return false;
		index_bytes = 1ull << field_u8(header, layout->keys_log2_index_bytes);
		entries->size = field_u8(header, layout->keys_kind) == KIND_GENERAL ? 24 : 16;
		break;
	default:
		return false;
	}
	uint64_t count = field_u64(header, layout->keys_entry_count);
	if (count > MAX_ENTRIES)
		return false;
	entries->count = count;
	entries->key = entries->size - 16;
	entries->start = keys + layout->keys_indices + index_bytes;
	return true;
}

/* The value of a key; `values` is the array of a split table, 0: values stand in the entries. */
static remote_addr find_value(const struct names *names, remote_addr keys, remote_addr values,
			      const struct wanted *wanted)
{
	struct entries entries;
	if (!find_entries(names, keys, &entries) || entries.count == 0)
		return 0;
	_cleanup_free_ uint8_t *bytes = alloc_zeroed(entries.count, entries.size);
	if (!memory_read(names->memory, entries.start, bytes, entries.count * entries.size, NULL))
		return 0;
	for (size_t i = 0; i < entries.count; i++) {
		const uint8_t *entry = bytes + i * entries.size + entries.key;
		remote_addr key = field_u64(entry, 0), value = field_u64(entry, 8);
		if (!key || (!values && !value) || !is_wanted(names, key, wanted))
			continue;
		return values ? word_at(names, values + 8 * i) : value;
	}
	return 0;
}

static remote_addr dict_value(const struct names *names, remote_addr dict,
			      const struct wanted *wanted)
{
	const struct python_layout *layout = names->layout;
	if (!dict || !(type_flags(names, dict) & TYPE_DICT))
		return 0;
	remote_addr values = word_at(names, dict + layout->dict_values);
	return find_value(names, word_at(names, dict + layout->dict_keys),
			  values ? values + layout->values_first : 0, wanted);
}

/* An attribute that lies among an instance's managed values rather than in a dict. */
static remote_addr split_value(const struct names *names, remote_addr type, remote_addr values,
			       const char *name)
{
	const struct wanted wanted = {name, 0};
	return find_value(names, word_at(names, type + names->layout->type_cached_keys),
			  values + names->layout->values_first, &wanted);
}

static remote_addr managed_attribute(const struct names *names, remote_addr object,
				     remote_addr type, uint64_t flags, const char *name)
{
	const struct python_layout *layout = names->layout;
	const struct wanted wanted = {name, 0};
	remote_addr dict = word_at(names, object - layout->instance_dict_before), values;
	switch (layout->attributes) {
	case ATTRIBUTES_DICT_AND_VALUES:
		values = word_at(names, object - layout->instance_values_before);
		if (values)
			return split_value(names, type, values, name);
		break;
	case ATTRIBUTES_TAGGED_WORD:
		if (dict & 1)
			return split_value(names, type, dict + 1, name);
		break;
	case ATTRIBUTES_INLINE:
		if (!dict && (flags & TYPE_INLINE_VALUES)) {
			values = object + word_at(names, type + layout->type_basicsize);
			return split_value(names, type, values, name);
		}
		break;
	case ATTRIBUTES_DICT:
		break;
	}
	return dict_value(names, dict, &wanted);
}

static remote_addr attribute(const struct names *names, remote_addr object, const char *name)
{
	const struct python_layout *layout = names->layout;
	const struct wanted wanted = {name, 0};
	remote_addr type = word_at(names, object + layout->object_type);
	uint64_t flags = type ? word_at(names, type + layout->type_flags) : 0;
	if (layout->attributes != ATTRIBUTES_DICT && (flags & TYPE_MANAGED_DICT))
		return managed_attribute(names, object, type, flags, name);
	uint64_t offset = type ? word_at(names, type + layout->type_dictoffset) : 0;
	if (offset == 0 || offset > 1 << 20)
		return 0;
	return dict_value(names, word_at(names, object + offset), &wanted);
}

/* threading._active, which is one and the same dict as long as the interpreter lives. */
static remote_addr find_active(const struct names *names, remote_addr interpreter)
{
	const struct python_layout *layout = names->layout;
	const struct wanted threading = {"threading", 0}, active = {"_active", 0};
	remote_addr modules = word_at(names, interpreter + layout->interp_modules);
	remote_addr module = dict_value(names, modules, &threading);
	if (!module)
		return 0;
	return dict_value(names, word_at(names, module + layout->module_dict), &active);
}

/* A program may have thousands of modules, and each costs a read: the way is gone once. */
static remote_addr find_thread(const struct python_runtime *runtime, const struct names *names,
			       const struct python_thread *thread)
{
	const struct wanted ident = {NULL, thread->thread_id};
	struct python_active *last = runtime->last_active;
	if (last->dict && last->interpreter == thread->interpreter &&
	    (type_flags(names, last->dict) & TYPE_DICT))
		return dict_value(names, last->dict, &ident);
	remote_addr dict = find_active(names, thread->interpreter);
	remote_addr found = dict_value(names, dict, &ident);
	if (found)
		*last = (struct python_active){thread->interpreter, dict};
	return found;
}

const char *python_thread_name(const struct python_runtime *runtime,
			       const struct memory_reader *memory,
			       const struct python_thread *thread, struct interner *interner)
{
	const struct names names = {&runtime->layout, memory};
	remote_addr object = find_thread(runtime, &names, thread);
	remote_addr name = object ? attribute(&names, object, "_name") : 0;
	if (!name || !(type_flags(&names, name) & TYPE_UNICODE))
		return NULL;
	_cleanup_strbuf_ struct strbuf text;
	strbuf_init(&text);
	if (!python_string_read(names.layout, memory, name, &text, NULL) || text.size == 0)
		return NULL;
	return intern_bytes(interner, text.text, text.size < MAX_NAME ? text.size : MAX_NAME);
}
